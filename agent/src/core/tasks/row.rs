//! What the agent remembers of frameworks, executors and tasks: plain fields, which the
//! checkpoint stores as they are. Fields are only ever added, each with a default. Must not know
//! how any of it is decided. Next: `tasks/event.rs`.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use resources::id::{FrameworkId, Seq, TaskId, UpdateId};
use resources::opaque::Opaque;
use resources::role::Role;
use resources::task::{ExecutorInfo, TaskInfo, TaskState, TaskStatus};
use resources::time::Timestamp;

/// What names a task on one agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskName {
    /// Whose it is.
    pub(crate) framework_id: FrameworkId,
    /// Its id there.
    pub(crate) task_id: TaskId,
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.framework_id, self.task_id)
    }
}

/// What of a framework's info the agent decides by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traits {
    /// Whether it tells one kind of loss from the other.
    pub(crate) is_partition_aware: bool,
    /// Whether its executors outlive the agent's process.
    pub(crate) is_checkpointing: bool,
}

impl Traits {
    /// The state itself for frameworks that know it, and the one word for all kinds of loss for
    /// the others.
    pub(crate) fn or_lost(self, state: TaskState) -> TaskState {
        if self.is_partition_aware { state } else { TaskState::Lost }
    }
}

/// A framework with an executor or a task here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FrameworkRow {
    /// `mesos.v1.FrameworkInfo` with its id.
    pub(crate) info: Opaque,
    /// What counts of it.
    pub(crate) traits: Traits,
    /// It was removed: nobody acknowledges its statuses.
    #[serde(default)]
    pub(crate) is_gone: bool,
}

/// Who runs tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ExecutorKind {
    /// The supervisor runs the one command.
    Command,
    /// The supervisor runs groups of commands.
    Default,
    /// A program of the framework, which speaks the executor API.
    Custom,
}

impl fmt::Display for ExecutorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Command => "command",
            Self::Default => "default",
            Self::Custom => "custom",
        })
    }
}

/// An executor that was launched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExecutorRow {
    /// Who runs its tasks.
    pub(crate) kind: ExecutorKind,
    /// As its framework gave it; none for a command.
    pub(crate) info: Option<ExecutorInfo>,
    /// What its resources are allocated to.
    pub(crate) role: Role,
    /// Name of this run of it: no two on one agent are alike.
    pub(crate) container: String,
    /// How long it may take to end when asked; the agent's own time when none.
    pub(crate) shutdown_grace: Option<Duration>,
    /// When it was launched, wall time.
    pub(crate) launched_at: Timestamp,
}

/// A task, as it was launched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskRow {
    /// As its framework gave it.
    pub(crate) info: TaskInfo,
    /// Who runs it.
    pub(crate) executor_id: resources::id::ExecutorId,
    /// What its resources are allocated to.
    pub(crate) role: Role,
    /// The order that launched it.
    pub(crate) launch: Seq,
    /// Whether all tasks of that order live and die together.
    pub(crate) is_group: bool,
}

/// Where a task stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StatusRow {
    /// By now.
    pub(crate) state: TaskState,
    /// Whether its executor was told of it.
    pub(crate) is_delivered: bool,
    /// Statuses that the framework has not acknowledged; the first one is on its way.
    pub(crate) queue: VecDeque<TaskStatus>,
    /// The last one of all.
    pub(crate) last: Option<TaskStatus>,
    /// Names of the latest ones, which an executor may repeat.
    pub(crate) seen: VecDeque<UpdateId>,
}

impl StatusRow {
    /// A task of which nothing was said.
    pub(crate) fn new() -> Self {
        Self {
            state: TaskState::Staging,
            is_delivered: false,
            queue: VecDeque::new(),
            last: None,
            seen: VecDeque::new(),
        }
    }
}
