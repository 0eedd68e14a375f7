//! Tasks, the executors that run them, and their statuses (spec §2.2, §4.5, §7.9), as far as
//! master and agent decide by them; the rest travels in `wire`. Next: `operation.rs`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::collection::Resources;
use crate::id::{AgentId, ExecutorId, FrameworkId, TaskId, UpdateId};
use crate::opaque::Opaque;
use crate::resource::Resource;
use crate::role::Role;
use crate::time::Timestamp;

macro_rules! names {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $text:literal $number:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
            /// Its number on the wire.
            #[must_use]
            pub const fn number(self) -> i32 {
                match self { $(Self::$variant => $number,)* }
            }
            /// The one of this number.
            #[must_use]
            pub fn of_number(number: i32) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.number() == number)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

names! {
    /// Where a task stands.
    TaskState {
        /// On record, and not yet running.
        Staging = "TASK_STAGING" 6,
        /// Its executor prepares it.
        Starting = "TASK_STARTING" 0,
        /// It runs.
        Running = "TASK_RUNNING" 1,
        /// It is being ended.
        Killing = "TASK_KILLING" 8,
        /// It ended well.
        Finished = "TASK_FINISHED" 2,
        /// It ended badly.
        Failed = "TASK_FAILED" 3,
        /// It was ended.
        Killed = "TASK_KILLED" 4,
        /// It broke a rule and never ran.
        Error = "TASK_ERROR" 7,
        /// For frameworks that are not partition-aware: any of the five below.
        Lost = "TASK_LOST" 5,
        /// It never ran.
        Dropped = "TASK_DROPPED" 9,
        /// Its agent is away; it may run.
        Unreachable = "TASK_UNREACHABLE" 10,
        /// It runs no longer: its agent does not know it.
        Gone = "TASK_GONE" 11,
        /// It runs no longer, says an operator.
        GoneByOperator = "TASK_GONE_BY_OPERATOR" 12,
        /// Nothing is known of it.
        Unknown = "TASK_UNKNOWN" 13,
    }
}

impl TaskState {
    /// Whether nothing follows it.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Finished
            | Self::Failed
            | Self::Killed
            | Self::Error
            | Self::Lost
            | Self::Dropped
            | Self::Gone
            | Self::GoneByOperator => true,
            Self::Staging
            | Self::Starting
            | Self::Running
            | Self::Killing
            | Self::Unreachable
            | Self::Unknown => false,
        }
    }
}

names! {
    /// Who says so.
    StatusSource {
        /// The leader.
        Master = "SOURCE_MASTER" 0,
        /// The agent.
        Agent = "SOURCE_AGENT" 1,
        /// The executor.
        Executor = "SOURCE_EXECUTOR" 2,
    }
}

names! {
    /// Why a task stands where it does.
    StatusReason {
        /// The executor of a command ended without a word.
        CommandExecutorFailed = "REASON_COMMAND_EXECUTOR_FAILED" 0,
        /// It could not be started.
        ContainerLaunchFailed = "REASON_CONTAINER_LAUNCH_FAILED" 21,
        /// It used more than it was given.
        ContainerLimitation = "REASON_CONTAINER_LIMITATION" 19,
        /// Of disk.
        ContainerLimitationDisk = "REASON_CONTAINER_LIMITATION_DISK" 20,
        /// Of memory.
        ContainerLimitationMemory = "REASON_CONTAINER_LIMITATION_MEMORY" 8,
        /// It was put out for another.
        ContainerPreempted = "REASON_CONTAINER_PREEMPTED" 17,
        /// Its limits could not be changed.
        ContainerUpdateFailed = "REASON_CONTAINER_UPDATE_FAILED" 22,
        /// It ran for its longest time.
        MaxCompletionTimeReached = "REASON_MAX_COMPLETION_TIME_REACHED" 33,
        /// Its executor never spoke.
        ExecutorRegistrationTimeout = "REASON_EXECUTOR_REGISTRATION_TIMEOUT" 23,
        /// Its executor did not come back to a restarted agent.
        ExecutorReregistrationTimeout = "REASON_EXECUTOR_REREGISTRATION_TIMEOUT" 24,
        /// Its executor ended.
        ExecutorTerminated = "REASON_EXECUTOR_TERMINATED" 1,
        /// Its executor went away.
        ExecutorUnregistered = "REASON_EXECUTOR_UNREGISTERED" 2,
        /// Its framework was removed.
        FrameworkRemoved = "REASON_FRAMEWORK_REMOVED" 3,
        /// Its sandbox was lost to the clean-up.
        GcError = "REASON_GC_ERROR" 4,
        /// Its framework id means nobody.
        InvalidFrameworkId = "REASON_INVALID_FRAMEWORKID" 5,
        /// It named offers that are no more.
        InvalidOffers = "REASON_INVALID_OFFERS" 6,
        /// A container detail.
        IoSwitchboardExited = "REASON_IO_SWITCHBOARD_EXITED" 27,
        /// The scheduler's side lost its master.
        MasterDisconnected = "REASON_MASTER_DISCONNECTED" 7,
        /// It was asked for.
        Reconciliation = "REASON_RECONCILIATION" 9,
        /// It wanted resources that its agent does not have.
        ResourcesUnknown = "REASON_RESOURCES_UNKNOWN" 18,
        /// Its agent lost its connection.
        AgentDisconnected = "REASON_AGENT_DISCONNECTED" 10,
        /// Its agent is being emptied.
        AgentDraining = "REASON_AGENT_DRAINING" 34,
        /// Its agent is away.
        AgentRemoved = "REASON_AGENT_REMOVED" 11,
        /// Its agent was given up by an operator.
        AgentRemovedByOperator = "REASON_AGENT_REMOVED_BY_OPERATOR" 31,
        /// Its agent came back.
        AgentReregistered = "REASON_AGENT_REREGISTERED" 32,
        /// Its agent was restarted.
        AgentRestarted = "REASON_AGENT_RESTARTED" 12,
        /// Its agent is unknown.
        AgentUnknown = "REASON_AGENT_UNKNOWN" 13,
        /// It was killed before it ran.
        TaskKilledDuringLaunch = "REASON_TASK_KILLED_DURING_LAUNCH" 30,
        /// The result of its check.
        TaskCheckStatusUpdated = "REASON_TASK_CHECK_STATUS_UPDATED" 28,
        /// The result of its health check.
        TaskHealthCheckStatusUpdated = "REASON_TASK_HEALTH_CHECK_STATUS_UPDATED" 29,
        /// Its group breaks a rule.
        TaskGroupInvalid = "REASON_TASK_GROUP_INVALID" 25,
        /// Its group is not allowed.
        TaskGroupUnauthorized = "REASON_TASK_GROUP_UNAUTHORIZED" 26,
        /// It breaks a rule.
        TaskInvalid = "REASON_TASK_INVALID" 14,
        /// It is not allowed.
        TaskUnauthorized = "REASON_TASK_UNAUTHORIZED" 15,
        /// Nobody knows it.
        TaskUnknown = "REASON_TASK_UNKNOWN" 16,
    }
}

/// What is said of a task at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// Of which task.
    pub task_id: TaskId,
    /// Where it stands.
    pub state: TaskState,
    /// Its agent, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// Its executor, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor_id: Option<ExecutorId>,
    /// Who says so.
    pub source: StatusSource,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<StatusReason>,
    /// The same in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Name of this word; with one it is said again until it is acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<UpdateId>,
    /// Wall time, for display.
    pub at: Timestamp,
    /// Since when its agent has been away, wall time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable_at: Option<Timestamp>,
    /// Whether its health check passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// The executor's own bytes, 64 KiB at most.
    #[serde(default, skip_serializing_if = "Opaque::is_empty")]
    pub data: Opaque,
    /// What else the executor says: a `mesos.v1.TaskStatus` of which the fields above are not
    /// looked at.
    #[serde(default, skip_serializing_if = "Opaque::is_empty")]
    pub wire: Opaque,
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.task_id, self.state)?;
        if let Some(reason) = self.reason {
            write!(f, " {reason}")?;
        }
        if let Some(message) = &self.message {
            write!(f, " ({message})")?;
        }
        if let Some(uuid) = self.uuid { write!(f, " #{uuid}") } else { Ok(()) }
    }
}

/// A status on its way from an agent to a framework.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusUpdate {
    /// To which framework.
    pub framework_id: FrameworkId,
    /// What is said.
    pub status: TaskStatus,
    /// Where the task stands by now: statuses wait for the acknowledgement of those before.
    pub latest: TaskState,
}

/// A task to be launched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskInfo {
    /// Its name, given by its framework.
    pub task_id: TaskId,
    /// Shown to users.
    pub name: String,
    /// What it uses, in unallocated form. Which mount of a volume counts is said here.
    pub resources: Vec<Resource>,
    /// `mesos.v1.TaskInfo` as it was given; its resources are not looked at.
    pub wire: Opaque,
}

/// A process that runs tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutorInfo {
    /// Its name, given by its framework.
    pub executor_id: ExecutorId,
    /// What it uses itself, in unallocated form; never shared.
    pub resources: Vec<Resource>,
    /// `mesos.v1.ExecutorInfo` as it was given; its resources are not looked at.
    pub wire: Opaque,
}

/// Tasks that are launched by one order: a task, or a whole group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Whose they are.
    pub framework_id: FrameworkId,
    /// `mesos.v1.FrameworkInfo` of that framework, with its id: executors are told.
    pub framework: Opaque,
    /// The role that their resources are allocated to.
    pub role: Role,
    /// Who runs them; without one the task is a command, and its executor has the task's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<ExecutorInfo>,
    /// Whether this launch made the executor, so that its resources are part of the launch.
    #[serde(default)]
    pub is_executor_new: bool,
    /// The tasks: one, or all of the group.
    pub tasks: Vec<TaskInfo>,
    /// Whether they live and die together.
    #[serde(default)]
    pub is_group: bool,
}

impl Launch {
    /// Everything that an agent must have for it: a shared volume once, however many use it.
    #[must_use]
    pub fn needed(&self) -> Resources {
        let mut needed = Resources::new();
        let own = self.executor.iter().flat_map(|executor| &executor.resources);
        let tasks = self.tasks.iter().flat_map(|task| &task.resources);
        for resource in own.filter(|_| self.is_executor_new).chain(tasks) {
            if !(resource.shared && needed.contains_one(resource)) {
                needed.add(resource);
            }
        }
        needed
    }
    /// The executor's name: that of the task for a command.
    #[must_use]
    pub fn executor_id(&self) -> ExecutorId {
        match (&self.executor, self.tasks.first()) {
            (Some(executor), _) => executor.executor_id.clone(),
            (None, Some(task)) => ExecutorId::of_command(&task.task_id),
            (None, None) => unreachable!("a launch has a task"),
        }
    }
}

/// A task that an agent knows: running, or ended and not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Whose it is.
    pub framework_id: FrameworkId,
    /// Which.
    pub task_id: TaskId,
    /// Where it stands.
    pub state: TaskState,
}

/// An executor that an agent runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExecutorName {
    /// Whose it is.
    pub framework_id: FrameworkId,
    /// Which.
    pub executor_id: ExecutorId,
}

impl fmt::Display for ExecutorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.framework_id, self.executor_id)
    }
}
