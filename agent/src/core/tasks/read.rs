//! What others see of executors and tasks: masters, readers, and the rules about volumes.

use std::collections::BTreeMap;

use resources::id::FrameworkId;
use resources::resource::Resource;
use resources::task::{ExecutorName, TaskReport};

use super::row::{ExecutorKind, ExecutorRow, FrameworkRow, StatusRow, TaskName, TaskRow};
use super::{CompletedTask, Executor, Task, Tasks};
use crate::core::event::VolumeKey;

impl Tasks {
    /// Tasks that run, or ended and are not acknowledged.
    pub(in crate::core) fn report(&self) -> Vec<TaskReport> {
        let report = |(name, task): (&TaskName, &Task)| TaskReport {
            framework_id: name.framework_id.clone(),
            task_id: name.task_id.clone(),
            state: task.status.state,
        };
        self.tasks.iter().map(report).collect()
    }

    /// Executors that frameworks named. That of a command goes with its task.
    pub(in crate::core) fn named_executors(&self) -> Vec<ExecutorName> {
        let named = |(name, executor): (&ExecutorName, &Executor)| {
            (executor.row.kind != ExecutorKind::Command).then(|| name.clone())
        };
        self.executors.iter().filter_map(named).collect()
    }

    /// The task that uses a volume, if one does.
    pub(in crate::core) fn user_of(&self, volume: &VolumeKey) -> Option<String> {
        let holds = |list: &[Resource]| {
            list.iter().any(|resource| VolumeKey::of(resource).as_ref() == Some(volume))
        };
        let tasks = self
            .tasks
            .iter()
            .find(|(_, task)| !task.status.state.is_terminal() && holds(&task.row.info.resources));
        let executors = self.executors.iter().find(|(_, executor)| {
            executor.row.info.as_ref().is_some_and(|info| holds(&info.resources))
        });
        tasks
            .map(|(name, _)| format!("task {name}"))
            .or_else(|| executors.map(|(name, _)| format!("executor {name}")))
    }

    /// Everything for the readers.
    pub(in crate::core) fn frameworks(&self) -> &BTreeMap<FrameworkId, FrameworkRow> {
        &self.frameworks
    }
    pub(in crate::core) fn executors(&self) -> impl Iterator<Item = (&ExecutorName, &ExecutorRow)> {
        self.executors.iter().map(|(name, executor)| (name, &executor.row))
    }
    pub(in crate::core) fn tasks(&self) -> impl Iterator<Item = (&TaskName, &TaskRow, &StatusRow)> {
        self.tasks.iter().map(|(name, task)| (name, &task.row, &task.status))
    }
    pub(in crate::core) fn completed_tasks(&self) -> impl Iterator<Item = &CompletedTask> {
        self.completed_tasks.iter()
    }
    pub(in crate::core) fn completed_executors(
        &self,
    ) -> impl Iterator<Item = &(ExecutorName, ExecutorRow)> {
        self.completed_executors.iter()
    }
}
