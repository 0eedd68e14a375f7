//! What goes into and comes out of the part of the core that runs tasks. Must not know how any
//! of it is done. Next: `tasks.rs`.

use std::fmt;
use std::time::Duration;

use resources::id::{ExecutorId, FrameworkId, Seq, TaskId, UpdateId};
use resources::opaque::Opaque;
use resources::resource::Resource;
use resources::task::{ExecutorName, TaskInfo, TaskState, TaskStatus};
use resources::time::Timestamp;

use super::row::{ExecutorKind, ExecutorRow, FrameworkRow, StatusRow, TaskName, TaskRow, Traits};

/// The time, which only the shell knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    /// Since the start of the process; never goes back.
    pub(crate) elapsed: Duration,
    /// For display.
    pub(crate) wall: Timestamp,
}

/// What an operator set, and what makes the names of this run of the process unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Random.
    pub(crate) nonce: u64,
    /// Time for a new executor to subscribe.
    pub(crate) registration_timeout: Duration,
    /// Time for an executor to come back to a restarted agent.
    pub(crate) reregistration_timeout: Duration,
    /// Time between asking an executor to end and killing it.
    pub(crate) shutdown_grace: Duration,
    /// Whether the executors of earlier runs are ended.
    pub(crate) is_cleanup: bool,
}

/// What the shell has read in a message whose form the core does not know. Comes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Of the framework.
    pub(crate) traits: Traits,
    /// Of the executor.
    pub(crate) kind: ExecutorKind,
    /// Of the executor.
    pub(crate) shutdown_grace: Option<Duration>,
}

/// Something that happened to tasks and executors.
#[derive(Debug, Clone)]
pub(crate) enum TaskEvent {
    /// So late it is.
    Tick(Clock),
    /// What stands in the launch of this order.
    LaunchDescribed(Seq, Facts),
    /// What stands in the next update of this framework.
    FrameworkDescribed(FrameworkId, Traits),
    /// The executor could not be started; nothing of it runs.
    LaunchFailed(ExecutorName, String),
    /// A supervisor's words, in their order.
    Heard(ExecutorName, Vec<Word>),
    /// How an executor of an earlier run of the agent was found. Its words came before.
    Found(ExecutorName, Found),
    /// A supervisor ended without its last word.
    Vanished(ExecutorName),
    /// A custom executor opened its stream.
    Subscribed {
        /// Which.
        executor: ExecutorName,
        /// Tasks that it knows.
        tasks: Vec<TaskId>,
        /// What it said and was not acknowledged.
        updates: Vec<TaskStatus>,
    },
    /// A custom executor says where a task stands.
    Updated(ExecutorName, Box<TaskStatus>),
    /// A custom executor has words for its scheduler.
    Spoke(ExecutorName, Opaque),
    /// End every executor: the agent is to end for good.
    Retire,
    /// Store what may wait, too: the process is about to end.
    Rest,
}

/// How an executor was found at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Its supervisor answers.
    Alive,
    /// It was never started, and never will be.
    NeverStarted,
    /// It was started, and its supervisor is no more.
    Vanished,
}

/// One word of a supervisor. They are numbered from 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Word {
    /// Its number.
    pub(crate) number: u64,
    /// What it says.
    pub(crate) said: Said,
}

/// What supervisors say.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said {
    /// These tasks are its own from now on.
    Accepted(Vec<TaskId>),
    /// Where a task stands.
    Status(Box<TaskStatus>),
    /// The executor ended, with a status as `wait(2)` gives it. The last word.
    Ended(i32),
}

/// An executor to be started.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Start {
    /// Its name.
    pub(crate) name: ExecutorName,
    /// What is known of it.
    pub(crate) row: ExecutorRow,
    /// Its framework.
    pub(crate) framework: Opaque,
    /// The tasks that it starts with; none for a custom one, which asks for them.
    pub(crate) tasks: Vec<TaskInfo>,
    /// Volumes that nobody else uses: their directories may change their owner.
    pub(crate) unshared: Vec<Resource>,
}

/// What a custom executor is told over its stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tell {
    /// It is subscribed.
    Subscribed(Box<ExecutorRow>, Opaque),
    /// Run this.
    Launch(Box<TaskInfo>),
    /// Run these together.
    LaunchGroup(Vec<TaskInfo>),
    /// End this.
    Kill(TaskId, Option<Duration>),
    /// The status is stored.
    Acknowledged(TaskId, UpdateId),
    /// Words of its scheduler.
    Message(Opaque),
    /// End.
    ShutDown,
}

/// What the shell has to do about executors.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Run {
    /// Start it.
    Launch(Box<Start>),
    /// Find out how it stands; its words up to the number are known.
    Find(ExecutorName, Box<ExecutorRow>, u64),
    /// Give it one more group of tasks.
    Add {
        /// Which.
        executor: ExecutorName,
        /// Its tasks.
        tasks: Vec<TaskInfo>,
        /// Of its framework.
        framework: Opaque,
        /// Volumes that nobody else uses.
        unshared: Vec<Resource>,
    },
    /// End a task.
    Kill(ExecutorName, TaskId, Option<Duration>),
    /// End all its tasks, each in its time, and it.
    ShutDown(ExecutorName),
    /// End everything of it at once.
    Destroy(ExecutorName),
    /// Tell a custom executor.
    Tell(ExecutorName, Tell),
    /// No executor is left, as was asked.
    Retired,
}

/// One row about tasks to be written, or removed when there is none.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TaskWrite {
    /// A framework.
    Framework(FrameworkId, Option<FrameworkRow>),
    /// An executor.
    Executor(ExecutorName, Option<Box<ExecutorRow>>),
    /// How far its words were heard.
    Heard(ExecutorName, u64),
    /// A task.
    Task(TaskName, Option<Box<TaskRow>>),
    /// Where a task stands. Goes with the task.
    Status(TaskName, Box<StatusRow>),
}

fn ids(tasks: &[TaskInfo]) -> String {
    let ids: Vec<&str> = tasks.iter().map(|task| task.task_id.as_str()).collect();
    ids.join(",")
}

fn grace(f: &mut fmt::Formatter<'_>, grace: Option<&Duration>) -> fmt::Result {
    grace.map_or(Ok(()), |grace| write!(f, " within {grace:?}"))
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Launch(start) => {
                let Start { name, row, tasks, unshared, .. } = start.as_ref();
                write!(f, "launch {} {name} as {} [{}]", row.kind, row.container, ids(tasks))?;
                if unshared.is_empty() { Ok(()) } else { write!(f, " own {}", unshared.len()) }
            }
            Self::Find(name, row, heard) => {
                write!(f, "find {name} {} after {heard}", row.container)
            }
            Self::Add { executor, tasks, .. } => write!(f, "add [{}] to {executor}", ids(tasks)),
            Self::Kill(name, task_id, time) => {
                write!(f, "kill {task_id} of {name}")?;
                grace(f, time.as_ref())
            }
            Self::ShutDown(name) => write!(f, "shut down {name}"),
            Self::Destroy(name) => write!(f, "destroy {name}"),
            Self::Tell(name, tell) => write!(f, "tell {name}: {tell}"),
            Self::Retired => f.write_str("retired"),
        }
    }
}

impl fmt::Display for Tell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subscribed(..) => f.write_str("subscribed"),
            Self::Launch(task) => write!(f, "launch {}", task.task_id),
            Self::LaunchGroup(tasks) => write!(f, "launch together {}", ids(tasks)),
            Self::Kill(task_id, time) => {
                write!(f, "kill {task_id}")?;
                grace(f, time.as_ref())
            }
            Self::Acknowledged(task_id, uuid) => write!(f, "acknowledged {task_id} #{uuid}"),
            Self::Message(data) => write!(f, "message of {} bytes", data.as_bytes().len()),
            Self::ShutDown => f.write_str("shut down"),
        }
    }
}

impl fmt::Display for TaskWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Framework(id, Some(row)) if row.is_gone => write!(f, "framework {id} is gone"),
            Self::Framework(id, Some(_)) => write!(f, "framework {id}"),
            Self::Framework(id, None) => write!(f, "framework {id} removed"),
            Self::Executor(name, Some(row)) => {
                write!(f, "{} executor {name} {}", row.kind, row.container)
            }
            Self::Executor(name, None) => write!(f, "executor {name} removed"),
            Self::Heard(name, number) => write!(f, "heard {name} up to {number}"),
            Self::Task(name, Some(row)) => write!(f, "task {name} of {}", row.executor_id),
            Self::Task(name, None) => write!(f, "task {name} removed"),
            Self::Status(name, row) => {
                write!(f, "{name} {}", row.state)?;
                if row.is_delivered {
                    f.write_str(" delivered")?;
                }
                let waiting: Vec<&str> = row.queue.iter().map(|s| s.state.as_str()).collect();
                if waiting.is_empty() { Ok(()) } else { write!(f, " to say {}", waiting.join(",")) }
            }
        }
    }
}

/// The name of an executor.
pub(super) fn executor_name(framework_id: &FrameworkId, executor_id: &ExecutorId) -> ExecutorName {
    ExecutorName { framework_id: framework_id.clone(), executor_id: executor_id.clone() }
}

/// Why tasks end with their executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doom {
    pub(super) state: TaskState,
    pub(super) reason: resources::task::StatusReason,
    pub(super) message: String,
}
