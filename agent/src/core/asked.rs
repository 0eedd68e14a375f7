//! What a leader asks beside its orders, what is told of tasks, and what readers see of them.
//! Next: `core/tasks.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use resources::id::{FrameworkId, TaskId};
use resources::message::{AgentMessage, Instruction};
use resources::task::ExecutorName;

use super::event::{Action, Write};
use super::tasks::CompletedTask;
use super::tasks::row::{ExecutorRow, FrameworkRow, StatusRow, TaskName, TaskRow};
use super::{Core, Session};

impl Core {
    /// Frameworks with something here.
    pub(crate) fn frameworks(&self) -> &BTreeMap<FrameworkId, FrameworkRow> {
        self.tasks.frameworks()
    }
    /// Executors that run, or are about to.
    pub(crate) fn executors(&self) -> impl Iterator<Item = (&ExecutorName, &ExecutorRow)> {
        self.tasks.executors()
    }
    /// Tasks that run, or ended and are not acknowledged.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (&TaskName, &TaskRow, &StatusRow)> {
        self.tasks.tasks()
    }
    /// The last tasks that ended and were acknowledged, in their order.
    pub(crate) fn completed_tasks(&self) -> impl Iterator<Item = &CompletedTask> {
        self.tasks.completed_tasks()
    }
    /// The last executors that ended, in their order.
    pub(crate) fn completed_executors(&self) -> impl Iterator<Item = &(ExecutorName, ExecutorRow)> {
        self.tasks.completed_executors()
    }
    /// When the shell has to say the time again at the latest, since the start of the process.
    pub(crate) fn next_tick(&self) -> Option<Duration> {
        self.tasks.next_tick()
    }

    /// Does what was asked beside the orders, once those before it are carried out.
    pub(super) fn answer_asked(&mut self) {
        if self.hand.is_some() || !self.queue.is_empty() {
            return;
        }
        while let Some(instruction) = self.asked.pop_front() {
            match instruction {
                Instruction::Kill { framework_id, task_id, grace } => {
                    self.tasks.kill(&TaskName { framework_id, task_id }, grace);
                }
                Instruction::ShutDownExecutor(name) => self.tasks.shut_down(&name),
                Instruction::ShutDownFramework(id) => self.tasks.shut_down_framework(&id),
                Instruction::UpdateFramework { framework_id, info } => {
                    self.tasks.update_framework(&framework_id, &info);
                }
                Instruction::AcknowledgeStatus { framework_id, task_id, uuid } => {
                    self.tasks.acknowledge(&TaskName { framework_id, task_id }, uuid);
                }
                Instruction::ExecutorMessage { executor, data } => {
                    self.tasks.message(&executor, data);
                }
            }
        }
    }

    /// Tasks of this framework that are to be killed before they are launched.
    pub(super) fn killed_before(&self, framework_id: &FrameworkId) -> BTreeSet<TaskId> {
        let killed = self.asked.iter().filter_map(|instruction| match instruction {
            Instruction::Kill { framework_id: of, task_id, .. } => {
                (of == framework_id).then(|| task_id.clone())
            }
            Instruction::ShutDownExecutor(_)
            | Instruction::ShutDownFramework(_)
            | Instruction::UpdateFramework { .. }
            | Instruction::AcknowledgeStatus { .. }
            | Instruction::ExecutorMessage { .. } => None,
        });
        killed.collect()
    }

    /// One checkpoint for all that changed about tasks, then what comes after it.
    pub(super) fn tell_of_tasks(&mut self, actions: &mut Vec<Action>) {
        let out = self.tasks.flush();
        if !out.writes.is_empty() {
            let writes = out.writes.into_iter().map(Write::Tasks).collect();
            actions.push(Action::Checkpoint(writes));
        }
        actions.extend(out.runs.into_iter().map(Action::Run));
        if !matches!(self.session, Session::Registered(_)) {
            return;
        }
        let statuses = self.tasks.outgoing();
        if !statuses.is_empty() {
            actions.push(Action::Send(AgentMessage::Statuses(statuses)));
        }
        if !out.exits.is_empty() {
            actions.push(Action::Send(AgentMessage::Exited(out.exits)));
        }
        for (executor, data) in out.words {
            actions.push(Action::Send(AgentMessage::FrameworkMessage { executor, data }));
        }
    }
}
