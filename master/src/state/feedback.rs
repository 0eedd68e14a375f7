//! What becomes of an operation once it has ended: its record, what its framework hears of it,
//! and how long it is kept. One that bears a framework's own name is kept until that has
//! acknowledged its end, whatever the limit of ended operations; for that, the number of such
//! names is limited at ACCEPT. Next: `codec.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use resources::id::{AgentId, FrameworkId, OperationId, UpdateId};
use resources::message::Instruction;
use resources::operation::Operation;
use resources::task::{ExecutorName, Launch, StatusReason, TaskState};

use super::command::{Change, Effect, FeedbackState, Notice, OperationStatus, Response};
use super::frameworks::Framework;
use super::operations::{OperationRecord, OperationState};
use super::tasks::TaskName;
use super::{State, limits};

impl OperationRecord {
    /// Whether its end is said until its framework has acknowledged it. That its agent is gone is
    /// said once (spec §2.4).
    const fn is_to_be_acknowledged(&self) -> bool {
        match self.state {
            OperationState::Finished | OperationState::Failed => true,
            OperationState::Pending | OperationState::GoneByOperator => false,
        }
    }

    /// What its framework is told of it, if it gave it a name. Once it has ended the word has a
    /// name of its own, and is said until it is acknowledged.
    #[must_use]
    pub fn status(&self) -> Option<OperationStatus> {
        let converted = match self.state {
            OperationState::Finished => self.operation.converted(),
            OperationState::Pending | OperationState::Failed | OperationState::GoneByOperator => {
                Vec::new()
            }
        };
        Some(OperationStatus {
            own_id: self.own_id.clone()?,
            state: FeedbackState::Recorded(self.state),
            message: self.message.clone(),
            converted,
            agent_id: Some(self.agent_id.clone()),
            uuid: self.is_to_be_acknowledged().then(|| UpdateId(self.uuid())),
        })
    }
}

impl State {
    /// Takes ended operations on record and forgets the oldest beyond the limit.
    pub(super) fn keep_settled(&mut self, settled: Vec<Arc<OperationRecord>>) -> Vec<Effect> {
        let mut effects = Vec::with_capacity(settled.len());
        let mut changed: BTreeSet<AgentId> = BTreeSet::new();
        for record in settled {
            changed.insert(record.agent_id.clone());
            if let Operation::Launch(launch) = &record.operation {
                effects.extend(self.launch_settled(&record, launch));
                continue;
            }
            let id = record.operation_id.clone();
            effects.push(Effect::Change(Change::OperationSettled(id.clone(), record.state)));
            effects.extend(self.settle_member(&record));
            self.operations.insert_mut(id.clone(), Arc::clone(&record));
            match self.listener(&record) {
                Some((framework_id, status)) => {
                    if status.uuid.is_none() {
                        self.forget_name(&framework_id, &status.own_id);
                        self.leave_to_itself(&id);
                    }
                    effects.push(Effect::Tell(framework_id, Box::new(Notice::Operation(status))));
                }
                None => self.settle(id),
            }
        }
        effects.extend(changed.into_iter().map(Effect::CapacityChanged));
        super::tasks::once_per_agent(effects)
    }

    /// The framework may use its name for another operation.
    fn forget_name(&mut self, framework_id: &FrameworkId, own_id: &OperationId) {
        if let Some(framework) = self.frameworks.get_mut(framework_id) {
            Arc::make_mut(framework).operations.remove_mut(own_id);
        }
    }

    /// Who waits to hear of its end.
    pub(super) fn listener(
        &self,
        record: &OperationRecord,
    ) -> Option<(FrameworkId, OperationStatus)> {
        let framework_id = record.framework_id.as_ref().filter(|_| !record.is_acknowledged)?;
        let framework = self.framework(framework_id)?;
        let is_meant = framework.operations.get(record.own_id.as_ref()?)? == &record.operation_id;
        Some((framework_id.clone(), record.status().filter(|_| is_meant)?))
    }

    /// An ended operation for which nobody waits: the oldest of them make room.
    fn settle(&mut self, id: OperationId) {
        self.settled.insert_mut(self.settled_next, id);
        self.settled_next += 1;
        while self.settled.size() > limits::SETTLED_OPERATIONS_MAX {
            let (number, id) = self.settled.first().expect("longer than the limit");
            let (number, id) = (*number, id.clone());
            self.settled.remove_mut(&number);
            if let Some(record) = self.operations.get(&id).cloned() {
                self.operations.remove_mut(&id);
                self.forget_member(&record);
            }
        }
    }

    /// The framework has the final status of its operation.
    pub(super) fn acknowledge_operation(
        &mut self,
        framework_id: &FrameworkId,
        own_id: &OperationId,
        uuid: UpdateId,
    ) -> (Response, Vec<Effect>) {
        let record = self.operation_of(framework_id, own_id);
        let is_meant =
            |record: &&OperationRecord| record.is_settled() && UpdateId(record.uuid()) == uuid;
        let Some(id) = record.filter(is_meant).map(|record| record.operation_id.clone()) else {
            return (Response::Done, Vec::new());
        };
        self.forget_name(framework_id, own_id);
        self.leave_to_itself(&id);
        (Response::Done, Vec::new())
    }

    /// An operation of a framework that is gone: nobody will acknowledge its end.
    pub(super) fn orphan_operation(&mut self, framework: &Framework, own_id: &OperationId) {
        if let Some(id) = framework.operations.get(own_id) {
            self.leave_to_itself(id);
        }
    }

    fn leave_to_itself(&mut self, id: &OperationId) {
        let Some(record) = self.operations.get_mut(id) else { return };
        Arc::make_mut(record).is_acknowledged = true;
        let record = Arc::clone(record);
        // As long as it is an order, that is the same record.
        if let Some(agent) = self.agent_mut(&record.agent_id)
            && let Some(order) = agent.pending.get_mut(&record.seq)
            && order.operation_id == *id
        {
            *order = Arc::clone(&record);
        }
        if record.is_settled() {
            self.settle(id.clone());
        }
    }

    /// A launch has reached its agent, or failed there or in the fold: then its tasks never ran.
    fn launch_settled(&mut self, record: &OperationRecord, launch: &Launch) -> Vec<Effect> {
        let framework_id = &launch.framework_id;
        if self.framework(framework_id).is_none() {
            // It was on its way when its framework was removed.
            let instruction = Box::new(Instruction::ShutDownFramework(framework_id.clone()));
            return vec![Effect::Instruct(record.agent_id.clone(), instruction)];
        }
        match record.state {
            // Of a gone agent the tasks have ended before its orders.
            OperationState::Pending | OperationState::Finished | OperationState::GoneByOperator => {
                return Vec::new();
            }
            OperationState::Failed => {}
        }
        let wall = record.settled_at.unwrap_or_default();
        let message = record.message.clone().unwrap_or_default();
        let mut effects = Vec::new();
        for task in &launch.tasks {
            let name =
                TaskName { framework_id: framework_id.clone(), task_id: task.task_id.clone() };
            // The id may be in use again.
            let is_meant = self
                .task(framework_id, &task.task_id)
                .is_some_and(|task| task.launch == record.seq && task.agent_id == record.agent_id);
            if is_meant {
                let why = (StatusReason::ResourcesUnknown, message.clone());
                effects.extend(self.end_task(&name, TaskState::Dropped, why, wall));
            }
        }
        effects.extend(self.unused_executor(&record.agent_id, launch));
        effects
    }

    /// The executor that a failed launch would have started, unless another task waits for it.
    fn unused_executor(&mut self, agent_id: &AgentId, launch: &Launch) -> Option<Effect> {
        let executor = launch.executor.as_ref().filter(|_| launch.is_executor_new)?;
        let executor_id = &executor.executor_id;
        let agent = self.agent(agent_id)?;
        let mut tasks = agent.tasks.keys().filter(|name| name.framework_id == launch.framework_id);
        let is_used = tasks.any(|name| {
            let task = self.task(&name.framework_id, &name.task_id);
            task.is_some_and(|task| {
                !task.is_ended() && task.executor_id.as_ref() == Some(executor_id)
            })
        });
        let name = ExecutorName {
            framework_id: launch.framework_id.clone(),
            executor_id: executor_id.clone(),
        };
        let is_gone = !is_used && self.remove_executor(agent_id, &name);
        is_gone.then(|| Effect::CapacityChanged(agent_id.clone()))
    }
}
