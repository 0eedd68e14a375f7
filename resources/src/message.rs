//! What master and agent tell each other, as domain values (architecture §4, agents and
//! orders). The wire form is `holdfast/agent.proto`; sessions and sockets are elsewhere.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{
    AgentId, CheckpointId, ClusterId, FrameworkId, Incarnation, OperationId, Seq, TaskId, Term,
    UpdateId,
};
use crate::opaque::Opaque;
use crate::operation::Operation;
use crate::resource::Resource;
use crate::task::{ExecutorName, StatusUpdate, TaskReport};
use crate::value::{Ranges, Scalar};

/// Who speaks for the cluster. Compared in the order of its fields; an agent refuses a lower
/// one, and stores a higher one before it acts on the session's first message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fence {
    /// Never differs: an agent of another cluster is refused, not fenced.
    pub cluster_id: ClusterId,
    /// Raised by a restore from a backup.
    pub incarnation: Incarnation,
    /// The leader's term.
    pub term: Term,
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.cluster_id, self.incarnation, self.term)
    }
}

/// An instruction to one agent. `seq` is dense per agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its number.
    pub seq: Seq,
    /// The operation it carries out.
    pub operation_id: OperationId,
    /// What to do.
    pub operation: Operation,
}

/// How an order ended on its agent. Only CREATE may fail there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Checkpointed and done.
    Finished,
    /// Not done; nothing on the disk changed.
    Failed {
        /// The agent's words.
        reason: String,
    },
}

/// An order that the agent has carried out and the master has not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// The order's number.
    pub seq: Seq,
    /// The operation it belonged to.
    pub operation_id: OperationId,
    /// How it ended.
    pub outcome: Outcome,
}

/// What an agent says of itself; changes only at its restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentInfo {
    /// Name shown to users and frameworks.
    pub hostname: String,
    /// Host of its HTTP address.
    pub host: String,
    /// Port of its HTTP address.
    pub port: u16,
    /// Software version.
    pub version: String,
    /// Attributes for placement.
    pub attributes: Vec<Attribute>,
    /// Resources of the command line, without reservations by operation and volumes.
    pub resources: Vec<Resource>,
}

/// One attribute of an agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: AttributeValue,
}

/// Values that an attribute can have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AttributeValue {
    /// A number.
    Scalar(Scalar),
    /// Intervals.
    Ranges(Ranges),
    /// Any other text.
    Text(String),
}

/// First message of a session: who the agent is and how far it got. Idempotent on
/// `checkpoint_id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// Whose reservations and volumes these are.
    pub checkpoint_id: CheckpointId,
    /// Raised at each start of the agent: tells a restart from a cloned disk.
    pub boot_counter: u64,
    /// The id it was given before.
    pub agent_id: Option<AgentId>,
    /// The highest fence it has stored.
    pub fence: Option<Fence>,
    /// What it says of itself.
    pub info: AgentInfo,
    /// Last order carried out.
    pub applied_seq: Seq,
    /// `Resources::digest` of its total at `applied_seq`.
    pub resources_digest: u128,
    /// Outcomes not acknowledged yet, ascending.
    pub settled: Vec<Settled>,
    /// Volumes whose directory is missing or not the one that was made.
    pub unavailable: Vec<Resource>,
    /// Tasks that run, or ended and are not acknowledged, by framework and task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskReport>,
    /// Executors that run, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executors: Vec<ExecutorName>,
}

/// Agent to master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentMessage {
    /// Opens the session.
    Register(Box<Registration>),
    /// Orders up to `upto` are durable; those in `exceptions` failed.
    Report {
        /// Cumulative.
        upto: Seq,
        /// Failed ones since the last acknowledgement.
        exceptions: BTreeMap<Seq, String>,
    },
    /// A gap was seen: send again from here.
    Resend {
        /// First missing order.
        from: Seq,
    },
    /// The full total, after the master asked for it.
    Total {
        /// The order it stands at.
        applied_seq: Seq,
        /// All resources, operations applied.
        resources: Vec<Resource>,
    },
    /// Answer to a ping.
    Pong,
    /// What tasks came to. Said again until each is acknowledged, one at a time per task.
    Statuses(Vec<StatusUpdate>),
    /// Executors that ended.
    Exited(Vec<ExecutorExit>),
    /// An executor's words for its scheduler, at most once.
    FrameworkMessage {
        /// From whom.
        executor: ExecutorName,
        /// What.
        data: Opaque,
    },
    /// The agent leaves: its tasks have ended and said so. Said again until it is answered.
    Unregister,
}

/// An executor that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutorExit {
    /// Which.
    pub executor: ExecutorName,
    /// Its exit status as `wait(2)` gives it.
    pub status: i32,
}

/// What a leader asks of an agent beside its orders. Each can be derived from the state again,
/// and may come more than once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instruction {
    /// End a task.
    Kill {
        /// Whose.
        framework_id: FrameworkId,
        /// Which.
        task_id: TaskId,
        /// How long it may take to end by itself; its own policy when none.
        grace: Option<Duration>,
    },
    /// End an executor and its tasks.
    ShutDownExecutor(ExecutorName),
    /// End everything of a framework that is gone; its statuses need no acknowledgement.
    ShutDownFramework(FrameworkId),
    /// A framework's info has changed: `mesos.v1.FrameworkInfo` with its id.
    UpdateFramework {
        /// Which.
        framework_id: FrameworkId,
        /// What it is now.
        info: Opaque,
    },
    /// A status has reached its framework: the next one may come.
    AcknowledgeStatus {
        /// Whose.
        framework_id: FrameworkId,
        /// Of which task.
        task_id: TaskId,
        /// Which status.
        uuid: UpdateId,
    },
    /// A scheduler's words for an executor, at most once.
    ExecutorMessage {
        /// For whom.
        executor: ExecutorName,
        /// What.
        data: Opaque,
    },
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill { framework_id, task_id, grace } => {
                write!(f, "kill {framework_id}/{task_id}")?;
                grace.map_or(Ok(()), |grace| write!(f, " within {grace:?}"))
            }
            Self::ShutDownExecutor(name) => write!(f, "shut down executor {name}"),
            Self::ShutDownFramework(id) => write!(f, "shut down framework {id}"),
            Self::UpdateFramework { framework_id, info: _ } => {
                write!(f, "update framework {framework_id}")
            }
            Self::AcknowledgeStatus { framework_id, task_id, uuid } => {
                write!(f, "acknowledge {framework_id}/{task_id} #{uuid}")
            }
            Self::ExecutorMessage { executor, data } => {
                write!(f, "message to {executor}, {} bytes", data.as_bytes().len())
            }
        }
    }
}

/// Master to agent. Every one of a session carries the fence of its leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MasterMessage {
    /// The agent is registered under this id.
    Welcome {
        /// Its id.
        agent_id: AgentId,
        /// How often pings come.
        ping_interval: Duration,
        /// The master's number of missed pings until the agent looks elsewhere.
        pings_missed_max: u32,
    },
    /// The agent may not register.
    Refused {
        /// Why, for the log.
        reason: String,
        /// Whether it should try again or exit.
        retry: Retry,
        /// The agent is gone for good: its tasks end with it.
        end_tasks: bool,
        /// How long to wait before the next try, at least; its own backoff when none.
        retry_after: Option<Duration>,
    },
    /// Carry these out in the order of their numbers.
    Orders(Vec<Order>),
    /// Outcomes up to here are replicated; the agent may forget them.
    Acknowledge {
        /// Cumulative.
        upto: Seq,
    },
    /// Hashes differ: send the full total.
    SendTotal,
    /// Something beside the orders, after those that were sent before.
    Instruct(Instruction),
    /// That the agent leaves is replicated: it may end.
    Unregistered,
    /// An operator has reconciled the books with what the agent holds: it counts its orders from
    /// here, if its total has this digest. Comes before any order that follows, and maybe again.
    Adopt {
        /// The last order that counts as carried out.
        applied_seq: Seq,
        /// `Resources::digest` of the total that the operator accepted.
        digest: u128,
    },
    /// Are you there?
    Ping,
}

/// What a refused agent does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Back off and try again.
    Later,
    /// Exit with status 1.
    Never,
}
