//! Launches in their place among the orders. What a launch makes is held until the batch is
//! durable. Next: `tasks/life.rs`.

use std::collections::BTreeSet;

use resources::id::{Seq, TaskId};
use resources::resource::Resource;
use resources::task::{ExecutorName, Launch, StatusReason, TaskInfo, TaskState};

use super::event::{Facts, Run, Start, Tell, executor_name};
use super::row::{ExecutorKind, ExecutorRow, FrameworkRow, StatusRow, TaskName, TaskRow};
use super::{Executor, Phase, Task, Tasks};
use crate::core::event::VolumeKey;

impl Tasks {
    pub(in crate::core) fn describe(&mut self, seq: Seq, facts: Facts) {
        self.described.insert(seq, facts);
    }

    /// Launches whose session is over are described again when they come again.
    pub(in crate::core) fn forget_described(&mut self, upto: Seq) {
        // What was described beyond it goes.
        let _gone = self.described.split_off(&upto.next());
    }

    /// Why this launch cannot be carried out at all; nothing is changed then.
    pub(in crate::core) fn refusal(&self, launch: &Launch) -> Option<String> {
        let known = launch.tasks.iter().find(|task| {
            let framework_id = launch.framework_id.clone();
            self.tasks.contains_key(&TaskName { framework_id, task_id: task.task_id.clone() })
        });
        known.map(|task| format!("task {} is here already", task.task_id))
    }

    /// Carries out a launch. Tasks in `killed` are to end before they begin.
    pub(in crate::core) fn launch(&mut self, seq: Seq, launch: &Launch, killed: &BTreeSet<TaskId>) {
        let Some(facts) = self.described.remove(&seq) else {
            unreachable!("the shell describes each launch before its order")
        };
        if self.is_gone(&launch.framework_id) {
            return;
        }
        let name = executor_name(&launch.framework_id, &launch.executor_id());
        let unshared = self.unshared(launch);
        self.note_framework(launch, facts);
        for info in &launch.tasks {
            self.note_task(seq, launch, &name, info);
        }
        let names = launch.tasks.iter().map(|task| TaskName {
            framework_id: launch.framework_id.clone(),
            task_id: task.task_id.clone(),
        });
        let names: Vec<TaskName> = names.collect();
        if let Some((state, reason, message)) = self.obstacle(&name, launch, killed) {
            for name in &names {
                let state = if state == TaskState::Killed {
                    state
                } else {
                    self.traits_of(&name.framework_id).or_lost(state)
                };
                self.say_as_agent(name, state, reason, message);
            }
            return;
        }
        match self.executors.get(&name).map(|executor| (executor.row.kind, executor.phase)) {
            None => self.start_executor(seq, &name, launch, facts, unshared),
            Some((ExecutorKind::Custom, Phase::Running)) => {
                for name in &names {
                    if let Some(task) = self.tasks.get_mut(name) {
                        task.status.is_delivered = true;
                    }
                }
                let tell = if launch.is_group {
                    Tell::LaunchGroup(launch.tasks.clone())
                } else {
                    Tell::Launch(Box::new(launch.tasks[0].clone()))
                };
                self.held_runs.push(Run::Tell(name, tell));
            }
            // It asks for its tasks when it subscribes.
            Some((ExecutorKind::Custom, _)) => {}
            Some((ExecutorKind::Command | ExecutorKind::Default, _)) => {
                self.held_runs.push(Run::Add {
                    executor: name,
                    tasks: launch.tasks.clone(),
                    framework: launch.framework.clone(),
                    unshared,
                });
            }
        }
    }

    /// What keeps the tasks from running, though the order is carried out.
    fn obstacle(
        &self,
        name: &ExecutorName,
        launch: &Launch,
        killed: &BTreeSet<TaskId>,
    ) -> Option<(TaskState, StatusReason, &'static str)> {
        if launch.tasks.iter().any(|task| killed.contains(&task.task_id)) {
            let reason = StatusReason::TaskKilledDuringLaunch;
            return Some((TaskState::Killed, reason, "killed before it was launched"));
        }
        if self.is_retiring {
            let reason = StatusReason::AgentRemoved;
            return Some((TaskState::Dropped, reason, "the agent is about to end"));
        }
        let ended = Some((
            TaskState::Dropped,
            StatusReason::ExecutorTerminated,
            "its executor has ended, or is about to",
        ));
        match self.executors.get(name) {
            Some(executor) if executor.phase == Phase::Ending || executor.doom.is_some() => ended,
            Some(_) => None,
            // Nobody accounts for the resources of an executor that would be started again.
            None if launch.executor.is_some() && !launch.is_executor_new => ended,
            None => None,
        }
    }

    fn start_executor(
        &mut self,
        seq: Seq,
        name: &ExecutorName,
        launch: &Launch,
        facts: Facts,
        unshared: Vec<Resource>,
    ) {
        let row = ExecutorRow {
            kind: facts.kind,
            info: launch.executor.clone(),
            role: launch.role.clone(),
            container: format!("{:016x}-{seq}", self.settings.nonce),
            shutdown_grace: facts.shutdown_grace,
            launched_at: self.clock.wall,
        };
        let phase = match facts.kind {
            ExecutorKind::Custom => Phase::Starting,
            ExecutorKind::Command | ExecutorKind::Default => Phase::Running,
        };
        let executor = Executor { row: row.clone(), heard: 0, phase, deadline: None, doom: None };
        self.executors.insert(name.clone(), executor);
        self.held.executors.insert(name.clone());
        if phase == Phase::Starting {
            self.set_deadline(name, Some(self.settings.registration_timeout));
        }
        let tasks = match facts.kind {
            ExecutorKind::Custom => Vec::new(),
            ExecutorKind::Command | ExecutorKind::Default => launch.tasks.clone(),
        };
        let (name, framework) = (name.clone(), launch.framework.clone());
        self.held_runs.push(Run::Launch(Box::new(Start { name, row, framework, tasks, unshared })));
    }

    fn note_framework(&mut self, launch: &Launch, facts: Facts) {
        let row =
            FrameworkRow { info: launch.framework.clone(), traits: facts.traits, is_gone: false };
        if self.frameworks.get(&launch.framework_id) != Some(&row) {
            self.frameworks.insert(launch.framework_id.clone(), row);
            self.held.frameworks.insert(launch.framework_id.clone());
        }
    }

    fn note_task(&mut self, seq: Seq, launch: &Launch, executor: &ExecutorName, info: &TaskInfo) {
        let name =
            TaskName { framework_id: launch.framework_id.clone(), task_id: info.task_id.clone() };
        let row = TaskRow {
            info: info.clone(),
            executor_id: executor.executor_id.clone(),
            role: launch.role.clone(),
            launch: seq,
            is_group: launch.is_group,
        };
        let task = Task { row, status: StatusRow::new(), retry: None, kill: None };
        self.tasks.insert(name.clone(), task);
        self.held.tasks.insert(name);
    }

    /// The volumes of a launch that nobody uses but its own tasks.
    fn unshared(&self, launch: &Launch) -> Vec<Resource> {
        let own = launch.executor.iter().filter(|_| launch.is_executor_new);
        let own = own.flat_map(|executor| &executor.resources);
        let all = own.chain(launch.tasks.iter().flat_map(|task| &task.resources));
        let is_free = |resource: &&Resource| {
            VolumeKey::of(resource)
                .is_some_and(|key| !resource.shared || self.user_of(&key).is_none())
        };
        all.filter(is_free).cloned().collect()
    }
}
