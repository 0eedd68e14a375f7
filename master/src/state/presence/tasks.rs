//! What the absence and the return of an agent mean for its tasks (spec §4.5, §7.2, §7.7). Next:
//! `../activation.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use resources::id::{AgentId, FrameworkId, TaskId};
use resources::message::Registration;
use resources::task::{ExecutorName, StatusReason, TaskState, TaskStatus};

use super::super::command::{Effect, Notice};
use super::super::tasks::{TaskName, said_by_master};
use super::super::{Moment, State};

/// How all tasks of an agent end at once.
pub(in crate::state) struct TasksEnd {
    state: TaskState,
    reason: StatusReason,
    message: &'static str,
}

/// Their agent left in order.
pub(super) const UNREGISTERED: TasksEnd = TasksEnd {
    state: TaskState::Gone,
    reason: StatusReason::AgentRemoved,
    message: "its agent has unregistered",
};
/// An operator has given their agent up.
pub(in crate::state) const GONE: TasksEnd = TasksEnd {
    state: TaskState::GoneByOperator,
    reason: StatusReason::AgentRemovedByOperator,
    message: "its agent is marked gone",
};

impl State {
    /// The tasks of an agent that is unreachable. They may run: each stays what it is and where
    /// it is, and its framework is told.
    pub(super) fn lose_touch(&mut self, now: Moment, agent_id: &AgentId) -> Vec<Effect> {
        let mut effects = Vec::new();
        for name in self.tasks_on(agent_id) {
            let task = self.task(&name.framework_id, &name.task_id);
            if task.is_none_or(|task| task.is_ended()) {
                continue;
            }
            let message = "its agent is unreachable";
            let why = (StatusReason::AgentRemoved, message.to_owned());
            effects.extend(self.say_of_task(&name, TaskState::Unreachable, why, now));
        }
        effects
    }

    /// Tasks that were unreachable are again what their agent says, for frameworks that are not
    /// partition-aware, too: TASK_LOST was not the last word. What it does not know yet is to
    /// come with its orders.
    pub(in crate::state) fn regain_touch(
        &mut self,
        now: Moment,
        agent_id: &AgentId,
        registration: &Registration,
    ) -> Vec<Effect> {
        let reported = registration.tasks.iter();
        let reported: BTreeMap<(&FrameworkId, &TaskId), TaskState> =
            reported.map(|task| ((&task.framework_id, &task.task_id), task.state)).collect();
        let mut effects = Vec::new();
        for name in self.tasks_on(agent_id) {
            let task = self.task(&name.framework_id, &name.task_id);
            if task.is_none_or(|task| task.state != TaskState::Unreachable) {
                continue;
            }
            let found = reported.get(&(&name.framework_id, &name.task_id)).copied();
            let found = found.unwrap_or(TaskState::Staging);
            if found.is_terminal() {
                // Its agent says how, and is to hear that the framework knows.
                let changed = self.change_task(&name, |task| task.state = found);
                effects.extend(changed.unwrap_or_default());
                continue;
            }
            let why = (StatusReason::AgentReregistered, "its agent is back".to_owned());
            effects.extend(self.say_of_task(&name, found, why, now));
        }
        effects
    }

    /// Moves a task by the masters' own judgement, and tells its framework.
    fn say_of_task(
        &mut self,
        name: &TaskName,
        state: TaskState,
        why: (StatusReason, String),
        now: Moment,
    ) -> Vec<Effect> {
        let Some(framework) = self.framework(&name.framework_id) else { return Vec::new() };
        let told = match state {
            TaskState::Unreachable => framework.lost_as(state),
            TaskState::Staging
            | TaskState::Starting
            | TaskState::Running
            | TaskState::Killing
            | TaskState::Finished
            | TaskState::Failed
            | TaskState::Killed
            | TaskState::Error
            | TaskState::Lost
            | TaskState::Dropped
            | TaskState::Gone
            | TaskState::GoneByOperator
            | TaskState::Unknown => state,
        };
        let Some(task) = framework.tasks.get(&name.task_id) else { return Vec::new() };
        let status = TaskStatus {
            agent_id: Some(task.agent_id.clone()),
            executor_id: task.executor_id.clone(),
            unreachable_at: (state == TaskState::Unreachable).then_some(now.wall),
            ..said_by_master((name.task_id.clone(), told), why, now.wall)
        };
        let last = Arc::new(status.clone());
        let changed = self.change_task(name, |task| {
            task.state = state;
            task.status = Some(last);
        });
        let mut effects = changed.unwrap_or_default();
        effects.push(Effect::Tell(name.framework_id.clone(), Box::new(Notice::Task(status))));
        effects
    }

    /// The end of everything that runs on an agent.
    pub(in crate::state) fn end_all_tasks(
        &mut self,
        now: Moment,
        agent_id: &AgentId,
        end: &TasksEnd,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        for name in self.tasks_on(agent_id) {
            let why = (end.reason, end.message.to_owned());
            effects.extend(self.end_task(&name, end.state, why, now.wall));
        }
        let executors = self.agent(agent_id).map(|agent| agent.executors.keys().cloned());
        let executors: Vec<ExecutorName> = executors.into_iter().flatten().collect();
        for name in &executors {
            self.remove_executor(agent_id, name);
        }
        effects
    }

    fn tasks_on(&self, agent_id: &AgentId) -> Vec<TaskName> {
        let agent = self.agent(agent_id);
        agent.map(|agent| agent.tasks.keys().cloned().collect()).unwrap_or_default()
    }
}
