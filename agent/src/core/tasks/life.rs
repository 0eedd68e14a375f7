//! What becomes of executors: found, subscribed, heard, asked to end, ended. Next:
//! `tasks/status.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use resources::id::{FrameworkId, TaskId};
use resources::message::ExecutorExit;
use resources::opaque::Opaque;
use resources::task::{ExecutorName, StatusReason, TaskState, TaskStatus};

use super::event::{Doom, Found, Run, Said, TaskEvent, Tell, Word, executor_name};
use super::row::{ExecutorKind, TaskName};
use super::{COMPLETED_EXECUTORS_MAX, Phase, Tasks, is_live, is_queued, is_staging};

/// A wait status that stands for an executor which nobody saw end.
const STATUS_UNKNOWN: i32 = -1;

impl Tasks {
    pub(in crate::core) fn step(&mut self, event: TaskEvent) {
        match event {
            TaskEvent::Tick(clock) => {
                self.clock = clock;
                self.retry_due();
                if self.lazy_at.is_some_and(|at| at <= self.clock.elapsed) {
                    self.store_lazy();
                }
                self.end_late();
            }
            TaskEvent::LaunchDescribed(seq, facts) => self.describe(seq, facts),
            TaskEvent::FrameworkDescribed(id, traits) => {
                self.redescribed.insert(id, traits);
            }
            TaskEvent::LaunchFailed(name, reason) => self.launch_failed(&name, reason),
            TaskEvent::Heard(name, words) => self.hear(&name, words),
            TaskEvent::Found(name, found) => self.found(&name, found),
            TaskEvent::Vanished(name) => self.vanished(&name),
            TaskEvent::Subscribed { executor, tasks, updates } => {
                self.subscribed(&executor, &tasks, updates);
            }
            TaskEvent::Updated(name, status) => self.take_update(&name, *status),
            TaskEvent::Spoke(name, data) => self.out.words.push((name, data)),
            TaskEvent::Retire => self.retire(),
            TaskEvent::Rest => self.store_lazy(),
        }
    }

    /// What a leader asks beside its orders.
    pub(in crate::core) fn kill(&mut self, name: &TaskName, grace: Option<Duration>) {
        let Some(task) = self.tasks.get_mut(name) else { return };
        if !is_live(task) || task.kill == Some(grace) {
            return;
        }
        task.kill = Some(grace);
        let executor_name = executor_name(&name.framework_id, &task.row.executor_id);
        let (is_queued, launch) = (is_queued(task), task.row.is_group.then_some(task.row.launch));
        let Some(executor) = self.executors.get(&executor_name) else { return };
        match (executor.row.kind, executor.phase) {
            (ExecutorKind::Command | ExecutorKind::Default, _) => {
                let run = Run::Kill(executor_name, name.task_id.clone(), grace);
                self.out.runs.push(run);
            }
            (ExecutorKind::Custom, _) if is_queued => {
                let is_its = |task: &super::Task| Some(task.row.launch) == launch;
                let mut names = self.tasks_of(&executor_name, is_its);
                if launch.is_none() {
                    names = vec![name.clone()];
                }
                for name in names {
                    let reason = StatusReason::TaskKilledDuringLaunch;
                    let message = "killed before its executor was there";
                    self.say_as_agent(&name, TaskState::Killed, reason, message);
                }
                if self.tasks_of(&executor_name, is_live).is_empty() {
                    self.shut_down(&executor_name);
                }
            }
            (ExecutorKind::Custom, Phase::Running | Phase::Ending) => {
                let tell = Tell::Kill(name.task_id.clone(), grace);
                self.out.runs.push(Run::Tell(executor_name, tell));
            }
            // It is told when it comes back.
            (ExecutorKind::Custom, Phase::Sought | Phase::Returning | Phase::Starting) => {}
        }
    }

    pub(in crate::core) fn shut_down(&mut self, name: &ExecutorName) {
        let Some(executor) = self.executors.get_mut(name) else { return };
        if executor.phase == Phase::Ending {
            return;
        }
        let was = std::mem::replace(&mut executor.phase, Phase::Ending);
        match executor.row.kind {
            ExecutorKind::Command | ExecutorKind::Default => {
                self.out.runs.push(Run::ShutDown(name.clone()));
                self.set_deadline(name, None);
            }
            ExecutorKind::Custom if was == Phase::Running => {
                let grace = executor.row.shutdown_grace.unwrap_or(self.settings.shutdown_grace);
                self.out.runs.push(Run::Tell(name.clone(), Tell::ShutDown));
                self.set_deadline(name, Some(grace));
            }
            // Nobody listens.
            ExecutorKind::Custom => {
                self.out.runs.push(Run::Destroy(name.clone()));
                self.set_deadline(name, None);
            }
        }
    }

    pub(in crate::core) fn shut_down_framework(&mut self, id: &FrameworkId) {
        self.gone.insert(id.clone());
        if let Some(row) = self.frameworks.get_mut(id) {
            row.is_gone = true;
            self.dirty.frameworks.insert(id.clone());
        }
        let its: Vec<TaskName> =
            self.tasks.keys().filter(|name| name.framework_id == *id).cloned().collect();
        for name in its {
            let Some(task) = self.tasks.get_mut(&name) else { continue };
            if is_live(task) {
                task.status.queue.clear();
                self.dirty.statuses.insert(name.clone());
            } else {
                self.remove_task(&name);
            }
        }
        let executors: Vec<ExecutorName> =
            self.executors.keys().filter(|name| name.framework_id == *id).cloned().collect();
        executors.iter().for_each(|name| self.shut_down(name));
    }

    pub(in crate::core) fn update_framework(&mut self, id: &FrameworkId, info: &Opaque) {
        let traits = self.redescribed.remove(id);
        let Some(row) = self.frameworks.get_mut(id) else { return };
        if row.info != *info {
            row.info = info.clone();
            row.traits = traits.unwrap_or(row.traits);
            self.dirty.frameworks.insert(id.clone());
        }
    }

    pub(in crate::core) fn message(&mut self, name: &ExecutorName, data: Opaque) {
        let executor = self.executors.get(name);
        if executor.is_some_and(|executor| executor.row.kind == ExecutorKind::Custom) {
            self.out.runs.push(Run::Tell(name.clone(), Tell::Message(data)));
        }
    }

    fn hear(&mut self, name: &ExecutorName, words: Vec<Word>) {
        for Word { number, said } in words {
            let Some(executor) = self.executors.get_mut(name) else { return };
            if number <= executor.heard {
                continue;
            }
            executor.heard = number;
            self.dirty.heard.insert(name.clone());
            match said {
                Said::Accepted(tasks) => self.delivered(name, &tasks),
                Said::Status(status) => {
                    let framework_id = name.framework_id.clone();
                    let task = TaskName { framework_id, task_id: status.task_id.clone() };
                    self.say(&task, *status);
                }
                Said::Ended(status) => self.executor_ended(name, status, "the executor ended"),
            }
        }
    }

    fn delivered(&mut self, executor: &ExecutorName, tasks: &[TaskId]) {
        for task_id in tasks {
            let (framework_id, task_id) = (executor.framework_id.clone(), task_id.clone());
            let name = TaskName { framework_id, task_id };
            if let Some(task) = self.tasks.get_mut(&name) {
                task.status.is_delivered = true;
                self.dirty.statuses.insert(name);
            }
        }
    }

    /// The executor is no more. What it did not say of its tasks is said for it.
    fn executor_ended(&mut self, name: &ExecutorName, status: i32, message: &str) {
        self.set_deadline(name, None);
        let Some(executor) = self.executors.remove(name) else { return };
        self.dirty.executors.insert(name.clone());
        let doom = executor.doom.unwrap_or_else(|| Doom {
            state: TaskState::Failed,
            reason: match executor.row.kind {
                ExecutorKind::Command => StatusReason::CommandExecutorFailed,
                ExecutorKind::Default | ExecutorKind::Custom => StatusReason::ExecutorTerminated,
            },
            message: message.to_owned(),
        });
        for task in self.tasks_of(name, is_live) {
            self.say_as_agent(&task, doom.state, doom.reason, &doom.message);
        }
        if executor.row.kind != ExecutorKind::Command {
            self.out.exits.push(ExecutorExit { executor: name.clone(), status });
        }
        self.completed_executors.push_back((name.clone(), executor.row));
        if self.completed_executors.len() > COMPLETED_EXECUTORS_MAX {
            self.completed_executors.pop_front();
        }
        self.forget_framework(&name.framework_id);
        self.tell_retired();
    }

    fn launch_failed(&mut self, name: &ExecutorName, reason: String) {
        if let Some(executor) = self.executors.get_mut(name) {
            executor.doom = Some(Doom {
                state: TaskState::Failed,
                reason: StatusReason::ContainerLaunchFailed,
                message: reason,
            });
            self.executor_ended(name, STATUS_UNKNOWN, "");
        }
    }

    fn vanished(&mut self, name: &ExecutorName) {
        let message = "the supervisor of the executor is no more: it was killed, or the machine \
                       was started anew";
        self.executor_ended(name, STATUS_UNKNOWN, message);
    }

    fn found(&mut self, name: &ExecutorName, found: Found) {
        let traits = self.traits_of(&name.framework_id);
        let is_gone = self.is_gone(&name.framework_id);
        let Some(executor) = self.executors.get_mut(name) else { return };
        match found {
            Found::Vanished => self.vanished(name),
            Found::NeverStarted => {
                executor.doom = Some(Doom {
                    state: traits.or_lost(TaskState::Dropped),
                    reason: StatusReason::AgentRestarted,
                    message: "the agent was restarted before the task was started".to_owned(),
                });
                self.executor_ended(name, STATUS_UNKNOWN, "");
            }
            Found::Alive if !traits.is_checkpointing || self.settings.is_cleanup => {
                executor.phase = Phase::Ending;
                executor.doom = Some(Doom {
                    state: traits.or_lost(TaskState::Gone),
                    reason: StatusReason::AgentRestarted,
                    message: "the agent was restarted".to_owned(),
                });
                self.out.runs.push(Run::Destroy(name.clone()));
            }
            // One that is faster than the search is back already, or asked to end.
            Found::Alive if executor.phase != Phase::Sought => {}
            Found::Alive if executor.row.kind == ExecutorKind::Custom => {
                executor.phase = Phase::Returning;
                self.set_deadline(name, Some(self.settings.reregistration_timeout));
            }
            Found::Alive => {
                executor.phase = Phase::Running;
                // Its words came before: it was never told of a later group that is still queued.
                // A command came with its supervisor.
                let may_miss = executor.row.kind == ExecutorKind::Default;
                let is_missed =
                    |task: &super::Task| may_miss && is_queued(task) && is_staging(task);
                for task in self.tasks_of(name, is_missed) {
                    let (state, reason) =
                        (traits.or_lost(TaskState::Dropped), StatusReason::AgentRestarted);
                    let message = "the agent was restarted before the task was started";
                    self.say_as_agent(&task, state, reason, message);
                }
                if is_gone || self.is_retiring {
                    self.shut_down(name);
                }
            }
        }
    }

    fn subscribed(&mut self, name: &ExecutorName, known: &[TaskId], updates: Vec<TaskStatus>) {
        let Some(executor) = self.executors.get_mut(name) else { return };
        if executor.phase == Phase::Ending || executor.doom.is_some() {
            self.out.runs.push(Run::Tell(name.clone(), Tell::ShutDown));
            return;
        }
        let is_returning = executor.phase == Phase::Returning || executor.phase == Phase::Sought;
        executor.phase = Phase::Running;
        let row = Box::new(executor.row.clone());
        self.set_deadline(name, None);
        let framework = self.frameworks.get(&name.framework_id);
        let info = framework.map(|row| row.info.clone()).unwrap_or_default();
        self.out.runs.push(Run::Tell(name.clone(), Tell::Subscribed(row, info)));
        updates.into_iter().for_each(|update| self.take_update(name, update));
        if is_returning {
            self.drop_unknown(name, known);
        }
        if self.is_gone(&name.framework_id) || self.is_retiring {
            self.shut_down(name);
            return;
        }
        self.deliver(name);
    }

    /// A task that was given to an executor in an earlier run of the agent, and never reached it.
    fn drop_unknown(&mut self, name: &ExecutorName, known: &[TaskId]) {
        let state = self.traits_of(&name.framework_id).or_lost(TaskState::Dropped);
        for task in self.tasks_of(name, |task| task.status.is_delivered && is_staging(task)) {
            if !known.contains(&task.task_id) {
                let message = "the agent was restarted before the executor got the task";
                self.say_as_agent(&task, state, StatusReason::AgentRestarted, message);
            }
        }
    }

    /// Tells a custom executor what it does not know: its tasks, and which of them are to end.
    pub(super) fn deliver(&mut self, executor: &ExecutorName) {
        let mut launches: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for name in self.tasks_of(executor, is_queued) {
            // One whose batch is not durable yet is told with it.
            if self.held.tasks.contains(&name) {
                continue;
            }
            let Some(task) = self.tasks.get_mut(&name) else { continue };
            task.status.is_delivered = true;
            let group = launches.entry((task.row.launch, task.row.is_group)).or_default();
            group.push(task.row.info.clone());
            self.dirty.statuses.insert(name);
        }
        for ((_, is_group), mut tasks) in launches {
            if is_group {
                self.out.runs.push(Run::Tell(executor.clone(), Tell::LaunchGroup(tasks)));
            } else if let Some(task) = tasks.pop() {
                let tell = Tell::Launch(Box::new(task));
                self.out.runs.push(Run::Tell(executor.clone(), tell));
            }
        }
        for name in self.tasks_of(executor, |task| is_live(task) && task.kill.is_some()) {
            let grace = self.tasks.get(&name).and_then(|task| task.kill).flatten();
            let tell = Tell::Kill(name.task_id, grace);
            self.out.runs.push(Run::Tell(executor.clone(), tell));
        }
    }

    /// Executors whose time is over.
    fn end_late(&mut self) {
        while let Some((at, name)) = self.deadlines.first().cloned() {
            if at > self.clock.elapsed {
                return;
            }
            self.deadlines.remove(&(at, name.clone()));
            let Some(executor) = self.executors.get_mut(&name) else { continue };
            executor.deadline = None;
            let doom = |reason, message: &str| {
                Some(Doom { state: TaskState::Failed, reason, message: message.to_owned() })
            };
            match executor.phase {
                Phase::Starting => {
                    let reason = StatusReason::ExecutorRegistrationTimeout;
                    executor.doom = doom(reason, "the executor did not subscribe in time");
                }
                Phase::Returning => {
                    let reason = StatusReason::ExecutorReregistrationTimeout;
                    executor.doom = doom(reason, "the executor did not come back in time");
                }
                Phase::Sought | Phase::Running | Phase::Ending => {}
            }
            executor.phase = Phase::Ending;
            self.out.runs.push(Run::Destroy(name));
        }
    }

    pub(in crate::core) fn retire(&mut self) {
        self.is_retiring = true;
        let names: Vec<ExecutorName> = self.executors.keys().cloned().collect();
        names.iter().for_each(|name| self.shut_down(name));
        self.tell_retired();
    }

    /// Whether the agent leaves and no executor is left.
    pub(in crate::core) fn is_retired(&self) -> bool {
        self.is_retiring && self.executors.is_empty()
    }

    /// Whether every task has ended and was acknowledged.
    pub(in crate::core) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(super) fn tell_retired(&mut self) {
        let is_over = self.is_retiring || self.settings.is_cleanup;
        if is_over && self.executors.is_empty() {
            self.out.runs.push(Run::Retired);
        }
    }
}
