//! Tasks: what is on record of each from its launch until its end is acknowledged, and what
//! their framework hears of them. How they change is in `tasks/updates.rs` (what agents and
//! frameworks say) and `tasks/lives.rs` (beginning and end). Next: `tasks/lives.rs`.

mod lives;
mod updates;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use resources::id::{AgentId, ExecutorId, FrameworkId, Seq, TaskId};
use resources::opaque::Opaque;
use resources::resource::Resource;
use resources::role::Role;
use resources::task::{ExecutorInfo, ExecutorName, StatusReason, StatusSource};
use resources::task::{TaskState, TaskStatus};
use resources::time::Timestamp;
use serde::{Deserialize, Serialize};

pub(super) use self::updates::once_per_agent;

/// A task of a framework: its id is the framework's own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskName {
    /// Whose it is.
    pub framework_id: FrameworkId,
    /// Which.
    pub task_id: TaskId,
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.framework_id, self.task_id)
    }
}

/// A task from its launch until it is forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Whose it is.
    pub framework_id: FrameworkId,
    /// Its name.
    pub task_id: TaskId,
    /// Where it runs.
    pub agent_id: AgentId,
    /// Who runs it; none for a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor_id: Option<ExecutorId>,
    /// The role that its resources are allocated to.
    pub role: Role,
    /// Shown to users.
    pub name: String,
    /// What it uses itself, in unallocated form.
    pub resources: Vec<Resource>,
    /// Where it stands by the agent's last word, which its framework may not have heard yet.
    pub state: TaskState,
    /// What its framework was told last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Arc<TaskStatus>>,
    /// The order that launched it.
    pub launch: Seq,
    /// Whether its end is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill: Option<KillRequest>,
    /// `mesos.v1.TaskInfo` as it was given.
    #[serde(default, skip_serializing_if = "Opaque::is_empty")]
    pub info: Opaque,
    /// Wall time of its launch, for display.
    pub launched_at: Timestamp,
}

/// The end of a task is asked for, until it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillRequest {
    /// How long it may take to end by itself; its own policy when none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Duration>,
}

impl Task {
    /// Its name in the cluster.
    #[must_use]
    pub fn full_name(&self) -> TaskName {
        TaskName { framework_id: self.framework_id.clone(), task_id: self.task_id.clone() }
    }
    /// Whether it uses its resources no longer.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        self.state.is_terminal()
    }
    /// Who runs it: a command's executor bears the name of the task.
    #[must_use]
    pub fn executor_name(&self) -> ExecutorName {
        let command = || ExecutorId::of_command(&self.task_id);
        ExecutorName {
            framework_id: self.framework_id.clone(),
            executor_id: self.executor_id.clone().unwrap_or_else(command),
        }
    }
    /// Where it stands for its framework: what that was told last, or that it is staged.
    #[must_use]
    pub fn known_state(&self) -> TaskState {
        self.status.as_ref().map_or(self.state, |status| status.state)
    }
    /// The answer to whoever asks where it stands (spec §4.5, RECONCILE): not to be
    /// acknowledged.
    #[must_use]
    pub fn current_status(&self, wall: Timestamp) -> TaskStatus {
        let known = self.status.as_deref();
        TaskStatus {
            agent_id: Some(self.agent_id.clone()),
            executor_id: self.executor_id.clone(),
            unreachable_at: known.and_then(|known| known.unreachable_at),
            healthy: known.and_then(|known| known.healthy),
            data: known.map(|known| known.data.clone()).unwrap_or_default(),
            wire: known.map(|known| known.wire.clone()).unwrap_or_default(),
            message: None,
            ..said_by_master(
                (self.task_id.clone(), self.known_state()),
                (StatusReason::Reconciliation, String::new()),
                wall,
            )
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {} on {}", self.framework_id, self.task_id, self.state, self.agent_id)?;
        if let Some(executor_id) = &self.executor_id {
            write!(f, " by {executor_id}")?;
        }
        if self.kill.is_some() { f.write_str(" to be killed") } else { Ok(()) }
    }
}

/// An executor that tasks run in, other than a command's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executor {
    /// Whose it is.
    pub framework_id: FrameworkId,
    /// What its framework says of it, and what it uses itself.
    pub info: ExecutorInfo,
    /// The role that its resources are allocated to.
    pub role: Role,
    /// The order that started it.
    pub launch: Seq,
}

impl Executor {
    /// Its name on its agent.
    #[must_use]
    pub fn name(&self) -> ExecutorName {
        let executor_id = self.info.executor_id.clone();
        ExecutorName { framework_id: self.framework_id.clone(), executor_id }
    }
}

/// The leader's own word on a task: one-shot, without a name.
#[must_use]
pub fn said_by_master(
    (task_id, state): (TaskId, TaskState),
    (reason, message): (StatusReason, String),
    wall: Timestamp,
) -> TaskStatus {
    TaskStatus {
        task_id,
        state,
        agent_id: None,
        executor_id: None,
        source: StatusSource::Master,
        reason: Some(reason),
        message: Some(message),
        uuid: None,
        at: wall,
        unreachable_at: None,
        healthy: None,
        data: Opaque::default(),
        wire: Opaque::default(),
    }
}
