//! What runs on an agent that registers, against what the log says of it. Next: `../codec.rs`.

use std::collections::BTreeSet;

use resources::id::{AgentId, FrameworkId, TaskId};
use resources::message::{Instruction, Registration};
use resources::task::{ExecutorName, StatusReason, TaskState};

use super::super::agents::Agent;
use super::super::command::Effect;
use super::super::tasks::TaskName;
use super::super::{Moment, State};

/// Tasks and executors that an agent was given, and that it knows nothing of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::state) struct Lost {
    tasks: Vec<TaskName>,
    executors: Vec<ExecutorName>,
}

impl Lost {
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.executors.is_empty()
    }

    /// Whatever was launched by an order that the agent has carried out, or once had, and that
    /// it does not report.
    pub(super) fn of(known: &Agent, registration: &Registration) -> Self {
        let carried_out = known.confirmed_seq.max(registration.applied_seq);
        let reported: BTreeSet<(&FrameworkId, &TaskId)> =
            registration.tasks.iter().map(|task| (&task.framework_id, &task.task_id)).collect();
        let running: BTreeSet<&ExecutorName> = registration.executors.iter().collect();
        let tasks = known.tasks.iter().filter(|(name, launch)| {
            **launch <= carried_out && !reported.contains(&(&name.framework_id, &name.task_id))
        });
        let executors = known
            .executors
            .iter()
            .filter(|(name, executor)| executor.launch <= carried_out && !running.contains(name));
        Self {
            tasks: tasks.map(|(name, _)| name.clone()).collect(),
            executors: executors.map(|(name, _)| name.clone()).collect(),
        }
    }
}

/// What an agent runs and should not: it is to end that. Nothing of it is in the log, so that
/// nothing has to be written; beside it stands what [`State::instructions`] says.
#[must_use]
pub fn surplus(state: &State, registration: &Registration) -> Vec<Instruction> {
    let is_known = |framework_id: &FrameworkId, task_id: &TaskId| {
        let task = state.task(framework_id, task_id);
        let agent = task.and_then(|task| state.agent(&task.agent_id));
        agent.is_some_and(|agent| agent.checkpoint_id == registration.checkpoint_id)
    };
    let agent = state.agent_of(&registration.checkpoint_id);
    let mut removed = BTreeSet::new();
    let mut asked = Vec::new();
    for task in &registration.tasks {
        let (framework_id, task_id) = (&task.framework_id, &task.task_id);
        if state.removed_framework(framework_id) {
            removed.insert(framework_id);
        } else if !task.state.is_terminal() && !is_known(framework_id, task_id) {
            asked.push(Instruction::Kill {
                framework_id: framework_id.clone(),
                task_id: task_id.clone(),
                grace: None,
            });
        }
    }
    for name in &registration.executors {
        let is_listed = agent.is_some_and(|agent| agent.executors.contains_key(name));
        // A command's executor goes with its task.
        let is_command = registration.tasks.iter().any(|task| {
            task.framework_id == name.framework_id
                && task.task_id.as_str() == name.executor_id.as_str()
        });
        if state.removed_framework(&name.framework_id) {
            removed.insert(&name.framework_id);
        } else if !is_listed && !is_command {
            asked.push(Instruction::ShutDownExecutor(name.clone()));
        }
    }
    asked.extend(removed.into_iter().cloned().map(Instruction::ShutDownFramework));
    asked
}

impl State {
    /// What an agent does not run any longer has ended (spec §7.2): a task that never started
    /// was dropped, of any other nobody knows how it ended.
    pub(in crate::state) fn lose(
        &mut self,
        now: Moment,
        agent_id: &AgentId,
        lost: &Lost,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        for name in &lost.tasks {
            let task = self.task(&name.framework_id, &name.task_id);
            let state = match task.map(|task| task.state) {
                Some(TaskState::Staging) => TaskState::Dropped,
                Some(_) | None => TaskState::Gone,
            };
            let message = "its agent came back without it".to_owned();
            let why = (StatusReason::Reconciliation, message);
            effects.extend(self.end_task(name, state, why, now.wall));
        }
        for name in &lost.executors {
            self.remove_executor(agent_id, name);
        }
        effects
    }
}
