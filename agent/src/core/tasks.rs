//! The executors and tasks of one agent: who runs what, which statuses wait for their
//! acknowledgement, and what is asked of whom. The same rules as the rest of the core: data in,
//! data out. Next: `tasks/row.rs`, `tasks/event.rs`, `tasks/launch.rs`, `tasks/life.rs`,
//! `tasks/status.rs`.
//!
//! Changes are collected as names of rows; [`Tasks::flush`] makes one checkpoint of what the rows
//! are by then, and what was asked of the shell comes after it. A launch inside of a batch of
//! orders is *held*: its rows belong to the checkpoint of the batch.

pub(crate) mod event;
mod launch;
mod life;
mod read;
pub(crate) mod row;
mod status;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use resources::id::{AgentId, FrameworkId, Seq};
use resources::message::ExecutorExit;
use resources::opaque::Opaque;
use resources::task::{ExecutorName, TaskState};

use self::event::{Clock, Doom, Facts, Run, Settings, TaskWrite, executor_name};
use self::row::{ExecutorKind, ExecutorRow, FrameworkRow, StatusRow, TaskName, TaskRow, Traits};

/// How long an acknowledgement waits for a checkpoint that is due anyway.
const LAZY: Duration = Duration::from_millis(200);
/// Ended tasks and executors that are still shown.
const COMPLETED_TASKS_MAX: usize = 1_000;
const COMPLETED_EXECUTORS_MAX: usize = 150;

/// What the checkpoint holds of executors and tasks.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskMemory {
    /// Frameworks.
    pub(crate) frameworks: BTreeMap<FrameworkId, FrameworkRow>,
    /// Executors, with the number of the last word that was heard of each.
    pub(crate) executors: BTreeMap<ExecutorName, (ExecutorRow, u64)>,
    /// Tasks.
    pub(crate) tasks: BTreeMap<TaskName, (TaskRow, StatusRow)>,
    /// What stands in the launches among the intents.
    pub(crate) described: BTreeMap<Seq, Facts>,
}

/// An executor.
#[derive(Debug, Clone)]
pub(crate) struct Executor {
    /// What is stored of it.
    pub(crate) row: ExecutorRow,
    /// Last word that was heard.
    heard: u64,
    /// How far it is.
    phase: Phase,
    /// When it is ended if nothing changes.
    deadline: Option<Duration>,
    /// What its tasks come to when it ends.
    doom: Option<Doom>,
}

/// How far an executor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The shell looks for it, after a start of the agent.
    Sought,
    /// It is found, and has not subscribed again.
    Returning,
    /// It is started, and has not subscribed.
    Starting,
    /// It runs.
    Running,
    /// It was asked to end.
    Ending,
}

/// A task.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    /// As it was launched.
    pub(crate) row: TaskRow,
    /// Where it stands.
    pub(crate) status: StatusRow,
    /// When its first status is said again, and how long it waits after that.
    retry: Option<(Duration, Duration)>,
    /// It is to be killed; with the time it may take.
    kill: Option<Option<Duration>>,
}

/// A task that ended and was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct CompletedTask {
    /// Its name.
    pub(crate) name: TaskName,
    /// As it was launched.
    pub(crate) row: TaskRow,
    /// How it ended.
    pub(crate) status: StatusRow,
}

/// Names of rows to be written.
#[derive(Debug, Default)]
struct Dirty {
    frameworks: BTreeSet<FrameworkId>,
    executors: BTreeSet<ExecutorName>,
    heard: BTreeSet<ExecutorName>,
    tasks: BTreeSet<TaskName>,
    statuses: BTreeSet<TaskName>,
    /// Acknowledged ones: a restart would say them again, which is harmless, so that they can
    /// wait a moment for another checkpoint.
    lazy: BTreeSet<TaskName>,
}

impl Dirty {
    fn is_urgent(&self) -> bool {
        !(self.frameworks.is_empty()
            && self.executors.is_empty()
            && self.heard.is_empty()
            && self.tasks.is_empty()
            && self.statuses.is_empty())
    }
}

/// What the shell has to do about tasks after the checkpoint.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub(super) writes: Vec<TaskWrite>,
    pub(super) runs: Vec<Run>,
    pub(super) exits: Vec<ExecutorExit>,
    pub(super) words: Vec<(ExecutorName, Opaque)>,
}

/// Executors and tasks.
#[derive(Debug)]
pub(super) struct Tasks {
    settings: Settings,
    clock: Clock,
    agent_id: Option<AgentId>,
    frameworks: BTreeMap<FrameworkId, FrameworkRow>,
    executors: BTreeMap<ExecutorName, Executor>,
    tasks: BTreeMap<TaskName, Task>,
    /// What the shell has read in launches that are not carried out.
    described: BTreeMap<Seq, Facts>,
    redescribed: BTreeMap<FrameworkId, Traits>,
    /// Frameworks that were removed in this run of the process.
    gone: BTreeSet<FrameworkId>,
    /// Tasks whose first status is to be sent.
    unsent: BTreeSet<TaskName>,
    retries: BTreeSet<(Duration, TaskName)>,
    deadlines: BTreeSet<(Duration, ExecutorName)>,
    /// When acknowledgements are stored at the latest.
    lazy_at: Option<Duration>,
    /// Statuses that got a name here.
    named: u64,
    is_retiring: bool,
    dirty: Dirty,
    held: Dirty,
    held_runs: Vec<Run>,
    out: Out,
    completed_tasks: VecDeque<CompletedTask>,
    completed_executors: VecDeque<(ExecutorName, ExecutorRow)>,
}

impl Tasks {
    pub(super) fn new(settings: Settings, agent_id: Option<AgentId>, memory: TaskMemory) -> Self {
        let executors = memory.executors.into_iter().map(|(name, (row, heard))| {
            (name, Executor { row, heard, phase: Phase::Sought, deadline: None, doom: None })
        });
        let tasks = memory
            .tasks
            .into_iter()
            .map(|(name, (row, status))| (name, Task { row, status, retry: None, kill: None }));
        Self {
            settings,
            clock: Clock::default(),
            agent_id,
            frameworks: memory.frameworks,
            executors: executors.collect(),
            tasks: tasks.collect(),
            described: memory.described,
            redescribed: BTreeMap::new(),
            gone: BTreeSet::new(),
            unsent: BTreeSet::new(),
            retries: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            lazy_at: None,
            named: 0,
            is_retiring: false,
            dirty: Dirty::default(),
            held: Dirty::default(),
            held_runs: Vec::new(),
            out: Out::default(),
            completed_tasks: VecDeque::new(),
            completed_executors: VecDeque::new(),
        }
    }

    /// Asks the shell for every executor of earlier runs.
    pub(super) fn start(&mut self) {
        for (name, executor) in &self.executors {
            let row = Box::new(executor.row.clone());
            self.out.runs.push(Run::Find(name.clone(), row, executor.heard));
        }
        self.tell_retired();
    }

    pub(super) fn set_agent_id(&mut self, agent_id: AgentId) {
        self.agent_id = Some(agent_id);
    }

    /// When the shell has to say the time again at the latest, since the start of the process.
    pub(super) fn next_tick(&self) -> Option<Duration> {
        let retry = self.retries.first().map(|(at, _)| *at);
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        retry.into_iter().chain(deadline).chain(self.lazy_at).min()
    }

    /// What is to be stored by now, and what comes after it.
    pub(super) fn flush(&mut self) -> Out {
        let mut out = std::mem::take(&mut self.out);
        if self.dirty.is_urgent() {
            let dirty = std::mem::take(&mut self.dirty);
            let dirty = self.without_held(dirty);
            out.writes = self.writes(&dirty);
        }
        out
    }

    /// The held rows as they are by now, and what comes after them.
    pub(super) fn release(&mut self) -> (Vec<TaskWrite>, Vec<Run>) {
        let held = std::mem::take(&mut self.held);
        self.dirty.statuses.retain(|name| !held.tasks.contains(name));
        let released = (self.writes(&held), std::mem::take(&mut self.held_runs));
        // One that subscribed meanwhile could not be told yet.
        let executor = |name: &TaskName| {
            Some(executor_name(&name.framework_id, &self.tasks.get(name)?.row.executor_id))
        };
        let executors: BTreeSet<ExecutorName> = held.tasks.iter().filter_map(executor).collect();
        for name in executors {
            let is_running = |executor: &Executor| {
                executor.row.kind == ExecutorKind::Custom && executor.phase == Phase::Running
            };
            if self.executors.get(&name).is_some_and(is_running) {
                self.deliver(&name);
            }
        }
        released
    }

    /// Rows that belong to a batch wait for it, whatever has become of them.
    fn without_held(&mut self, mut dirty: Dirty) -> Dirty {
        let held = &self.held;
        dirty.frameworks.retain(|name| !held.frameworks.contains(name));
        dirty.executors.retain(|name| !held.executors.contains(name));
        dirty.heard.retain(|name| !held.executors.contains(name));
        dirty.tasks.retain(|name| !held.tasks.contains(name));
        dirty.statuses.append(&mut dirty.lazy);
        self.lazy_at = None;
        dirty.statuses.retain(|name| !held.tasks.contains(name));
        dirty
    }

    fn writes(&self, dirty: &Dirty) -> Vec<TaskWrite> {
        let mut writes = Vec::new();
        for id in &dirty.frameworks {
            writes.push(TaskWrite::Framework(id.clone(), self.frameworks.get(id).cloned()));
        }
        for name in &dirty.executors {
            let row = self.executors.get(name).map(|executor| Box::new(executor.row.clone()));
            writes.push(TaskWrite::Executor(name.clone(), row));
        }
        for name in dirty.heard.difference(&dirty.executors).chain(&dirty.executors) {
            let heard = self.executors.get(name).map_or(0, |executor| executor.heard);
            if heard > 0 {
                writes.push(TaskWrite::Heard(name.clone(), heard));
            }
        }
        for name in &dirty.tasks {
            let row = self.tasks.get(name).map(|task| Box::new(task.row.clone()));
            writes.push(TaskWrite::Task(name.clone(), row));
        }
        for name in dirty.tasks.union(&dirty.statuses) {
            if let Some(task) = self.tasks.get(name) {
                writes.push(TaskWrite::Status(name.clone(), Box::new(task.status.clone())));
            }
        }
        writes
    }

    /// What may wait does so no longer.
    fn store_lazy(&mut self) {
        let mut lazy = std::mem::take(&mut self.dirty.lazy);
        self.dirty.statuses.append(&mut lazy);
        self.lazy_at = None;
    }

    fn traits_of(&self, framework_id: &FrameworkId) -> Traits {
        self.frameworks.get(framework_id).map(|row| row.traits).unwrap_or_default()
    }

    fn is_gone(&self, framework_id: &FrameworkId) -> bool {
        let row = self.frameworks.get(framework_id);
        self.gone.contains(framework_id) || row.is_some_and(|row| row.is_gone)
    }

    /// Names of the tasks of an executor that `wanted` holds for.
    fn tasks_of(&self, executor: &ExecutorName, wanted: impl Fn(&Task) -> bool) -> Vec<TaskName> {
        let is_its = |(name, task): &(&TaskName, &Task)| {
            name.framework_id == executor.framework_id
                && task.row.executor_id == executor.executor_id
                && wanted(task)
        };
        self.tasks.iter().filter(is_its).map(|(name, _)| name.clone()).collect()
    }

    /// Takes a task off, which nobody waits for any more.
    fn remove_task(&mut self, name: &TaskName) {
        let Some(task) = self.tasks.remove(name) else { return };
        self.dirty.tasks.insert(name.clone());
        self.unsent.remove(name);
        if let Some((at, _)) = task.retry {
            self.retries.remove(&(at, name.clone()));
        }
        let Task { row, status, .. } = task;
        self.completed_tasks.push_back(CompletedTask { name: name.clone(), row, status });
        if self.completed_tasks.len() > COMPLETED_TASKS_MAX {
            self.completed_tasks.pop_front();
        }
        self.forget_framework(&name.framework_id);
    }

    /// Takes a framework off that has nothing here.
    fn forget_framework(&mut self, id: &FrameworkId) {
        let has_task = self.tasks.keys().any(|name| name.framework_id == *id);
        let has_executor = self.executors.keys().any(|name| name.framework_id == *id);
        if !has_task && !has_executor && self.frameworks.remove(id).is_some() {
            self.dirty.frameworks.insert(id.clone());
        }
    }

    fn set_deadline(&mut self, name: &ExecutorName, deadline: Option<Duration>) {
        let Some(executor) = self.executors.get_mut(name) else { return };
        let at = deadline.map(|wait| self.clock.elapsed.saturating_add(wait));
        if let Some(old) = std::mem::replace(&mut executor.deadline, at) {
            self.deadlines.remove(&(old, name.clone()));
        }
        self.deadlines.extend(at.map(|at| (at, name.clone())));
    }
}

/// Whether an executor that ended leaves this task with an end of its own.
fn is_live(task: &Task) -> bool {
    !task.status.state.is_terminal()
}

/// Whether its executor is yet to be told of it.
fn is_queued(task: &Task) -> bool {
    is_live(task) && !task.status.is_delivered
}

/// A task that has not been heard of.
fn is_staging(task: &Task) -> bool {
    task.status.state == TaskState::Staging
}
