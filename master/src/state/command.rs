//! What the log can ask of the state, and what comes back: commands, responses and effects,
//! all plain data. Log entries are a wire format: fields are only ever added, with
//! `#[serde(default)]`. Must not know who leads or how bytes travel. Next: `command/display.rs`,
//! `effect.rs`.

mod display;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use resources::framework::FrameworkInfo;
use resources::id::{
    AgentId, ClusterId, FrameworkId, Incarnation, MasterId, OperationId, Principal, Seq, TaskId,
    Term, UpdateId,
};
use resources::message::{ExecutorExit, Registration};
use resources::opaque::Opaque;
use resources::operation::Operation;
use resources::resource::Resource;
use resources::role::Role;
use resources::task::StatusUpdate;
use resources::time::Timestamp;
use serde::{Deserialize, Serialize};

pub use super::accept::Accept;
pub use super::effect::{Change, Effect};
pub use super::keys::IdempotencyKey;
pub use super::notice::{FeedbackState, Notice, OperationStatus};
use super::presence::Away;
use super::reconcile::{Choice, Held};
use super::rejection::list;
pub use super::rejection::{RegistrationRefusal, Rejection};
use super::rules::Rule;
use super::transactions::{Member, TransactionId};

/// Where a command came from: `address:port` of the caller, or the name of this program's part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SourceAddr(pub String);

impl fmt::Display for SourceAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One command of a log entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Who asks; none when authentication is off or the cluster itself asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
    /// Where it came from, for the audit.
    pub source: SourceAddr,
    /// The caller's own name for it: a repeat is answered and not executed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<IdempotencyKey>,
    /// Versions that agents must not have moved from.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub if_versions: BTreeMap<AgentId, u64>,
    /// What is asked.
    pub kind: CommandKind,
}

/// What a command asks.
#[expect(clippy::large_enum_variant, reason = "nearly every command is of the large kind")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandKind {
    /// Give the cluster its id; the first command ever.
    FormCluster {
        /// A random id.
        cluster_id: ClusterId,
    },
    /// The first command of a term: who leads and where clients find it.
    TakeOffice {
        /// The leader.
        master_id: MasterId,
        /// Its public address.
        advertise: String,
        /// Its term.
        term: Term,
    },
    /// Admit an agent, or take note of what changed about a known one.
    RegisterAgent(Box<Registration>),
    /// Run an operation on an agent.
    Operate {
        /// Where.
        agent_id: AgentId,
        /// Its fresh name.
        operation_id: OperationId,
        /// What.
        operation: Operation,
    },
    /// Run several operations on one or many agents, all or none.
    Transact {
        /// Its fresh name.
        transaction_id: TransactionId,
        /// The operations, in order.
        members: Vec<Member>,
    },
    /// An agent has carried out its orders up to `upto`.
    Confirm {
        /// Who.
        agent_id: AgentId,
        /// Cumulative.
        upto: Seq,
        /// Those which failed, with the agent's words.
        exceptions: BTreeMap<Seq, String>,
    },
    /// How an agent whose digest differed differs, for the record.
    RecordDivergence {
        /// Who.
        agent_id: AgentId,
        /// What it holds and the log does not know.
        foreign: Vec<Resource>,
        /// What the log knows and it does not hold.
        missing: Vec<Resource>,
        /// What it holds, as a digest, and at which order.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<Held>,
    },
    /// What becomes of each object that an agent holds otherwise than the log says. Nothing on
    /// its disk is touched.
    Reconcile {
        /// Who.
        agent_id: AgentId,
        /// What the operator saw: void when the agent holds something else by now.
        held: Held,
        /// One for each object that differs.
        choices: Vec<Choice>,
    },
    /// The masters were restored from a backup: what agents did after it is not in this log.
    NewIncarnation {
        /// Higher than every one before.
        incarnation: Incarnation,
    },
    /// Admit a framework, or take note of its new subscription. Ends an absence.
    Subscribe {
        /// The id that it was given, or any of the right form; none for a new one.
        framework_id: Option<FrameworkId>,
        /// What it says of itself.
        subscription: Box<Subscription>,
    },
    /// Take another info of a subscribed framework.
    UpdateFramework {
        /// Which.
        framework_id: FrameworkId,
        /// What it says of itself now.
        subscription: Box<Subscription>,
    },
    /// Change the roles that a framework wants no offers for.
    SetSuppressed {
        /// Which.
        framework_id: FrameworkId,
        /// All of them from now on.
        suppressed: BTreeSet<Role>,
    },
    /// Frameworks whose streams ended: the time of their failover begins. One that has
    /// subscribed again since, by its epoch, is left alone.
    Disconnect {
        /// Which, and the epoch of the stream that ended.
        frameworks: Vec<(FrameworkId, u64)>,
        /// Least time that each is given, whatever its own says: a new leader ends the streams
        /// of frameworks that did not leave.
        #[serde(default)]
        grace: Duration,
    },
    /// Remove a framework: TEARDOWN, or the end of its failover time.
    RemoveFramework {
        /// Which.
        framework_id: FrameworkId,
        /// Only while its absence is still this one; none for TEARDOWN.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        witness: Option<Absence>,
    },
    /// Use offered resources.
    Accept {
        /// Its fresh name.
        name: OperationId,
        /// What is accepted.
        accept: Box<Accept>,
    },
    /// End a task. It is asked of its agent until the task has ended.
    Kill {
        /// Whose.
        framework_id: FrameworkId,
        /// Which.
        task_id: TaskId,
        /// How long it may take to end by itself; its own policy when none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace: Option<Duration>,
    },
    /// What tasks and executors of an agent came to.
    UpdateTasks {
        /// Which agent.
        agent_id: AgentId,
        /// Changes of state, in order.
        updates: Vec<StatusUpdate>,
        /// Executors that ended.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        exited: Vec<ExecutorExit>,
    },
    /// The framework has a terminal status: the task may be forgotten.
    AcknowledgeTask {
        /// Whose.
        framework_id: FrameworkId,
        /// Which.
        task_id: TaskId,
        /// Which status.
        uuid: UpdateId,
    },
    /// The framework has the final status of its operation.
    AcknowledgeOperation {
        /// Whose.
        framework_id: FrameworkId,
        /// The framework's own name for it.
        own_id: OperationId,
        /// Which status.
        uuid: UpdateId,
    },
    /// Set what holds for the whole cluster.
    SetRule(Box<Rule>),
    /// Agents that were silent for one ping timeout. One that is not here is left alone.
    Depart {
        /// Which, and the cluster time at which each is unreachable.
        agents: Vec<(AgentId, Timestamp)>,
    },
    /// An agent is there although the log says that it is away.
    Return {
        /// Which.
        agent_id: AgentId,
        /// Only while it is away for this time.
        epoch: u64,
    },
    /// An agent has been away for too long.
    MarkUnreachable {
        /// Which.
        agent_id: AgentId,
        /// Only while its absence is still this one.
        witness: Away,
    },
    /// An agent has ended its tasks and leaves. What it holds waits for its return.
    Unregister {
        /// Which.
        agent_id: AgentId,
    },
    /// Give an agent up for good, with everything that it holds.
    MarkGone {
        /// Which.
        agent_id: AgentId,
    },
    /// Offer nothing of an agent any longer.
    Deactivate {
        /// Which.
        agent_id: AgentId,
    },
    /// Offer an agent again that was deactivated or drained.
    Reactivate {
        /// Which.
        agent_id: AgentId,
    },
    /// Deactivate an agent and end its tasks.
    Drain {
        /// Which.
        agent_id: AgentId,
        /// How long a task may take to end by itself, at most; its own policy when none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_grace: Option<Duration>,
        /// Whether it is marked gone once nothing is left.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        mark_gone: bool,
    },
    /// Nothing is left on a draining agent.
    CompleteDrain {
        /// Which.
        agent_id: AgentId,
    },
    /// Keep an alarm that was noticed outside of `apply`.
    RaiseAlarm {
        /// Whom it is about, if it is one agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_id: Option<AgentId>,
        /// What was seen.
        text: String,
    },
}

/// What a framework says when it subscribes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// Who it is.
    pub info: FrameworkInfo,
    /// Roles that it wants no offers for.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub suppressed: BTreeSet<Role>,
    /// `mesos.v1.scheduler.OfferConstraints` as it was given; empty for none.
    #[serde(default, skip_serializing_if = "Opaque::is_empty")]
    pub constraints: Opaque,
}

/// A framework's absence: a timer that names another one is void.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absence {
    /// Of its subscriptions, which one ended.
    pub epoch: u64,
    /// Cluster time at which the framework is removed.
    pub deadline: Timestamp,
}

/// What a command came to. Replicated: every master computes the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// Done, with nothing to tell.
    Done,
    /// The agent is known under this id.
    Registered {
        /// Its id.
        agent_id: AgentId,
        /// How its disk compares with the log.
        standing: Standing,
    },
    /// The operation is on record and will be carried out.
    Accepted {
        /// Its name.
        operation_id: OperationId,
        /// Its agent.
        agent_id: AgentId,
        /// The agent's version after it.
        resource_version: u64,
    },
    /// All operations of the transaction are on record and will be carried out.
    Transacted {
        /// Its name.
        transaction_id: TransactionId,
        /// Its operations, in order.
        operation_ids: Vec<OperationId>,
        /// The versions of its agents after it.
        versions: BTreeMap<AgentId, u64>,
    },
    /// The framework is known under this id.
    Subscribed {
        /// Its id.
        framework_id: FrameworkId,
        /// Number of this subscription.
        epoch: u64,
    },
    /// The ACCEPT is judged; its effects say what became of each operation.
    Judged {
        /// What is left of the offers as it was offered.
        unused: Vec<Resource>,
        /// What is left of what the operations made.
        made: Vec<Resource>,
    },
    /// The rule holds from now on.
    Ruled,
    /// The state says no and is as it was.
    Rejected(Rejection),
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Registered { agent_id, standing } => {
                write!(f, "registered {agent_id} {standing}")
            }
            Self::Accepted { operation_id, agent_id, resource_version } => {
                write!(f, "accepted {operation_id} on {agent_id} version {resource_version}")
            }
            Self::Transacted { transaction_id, operation_ids, versions } => {
                write!(f, "transacted {transaction_id}:")?;
                operation_ids.iter().try_for_each(|id| write!(f, " {id}"))?;
                versions.iter().try_for_each(|(id, version)| write!(f, " {id} version {version}"))
            }
            Self::Subscribed { framework_id, epoch } => {
                write!(f, "subscribed {framework_id}@{epoch}")
            }
            Self::Judged { unused, made } => {
                write!(f, "judged, unused {}, made {}", list(unused), list(made))
            }
            Self::Ruled => f.write_str("ruled"),
            Self::Rejected(rejection) => write!(f, "rejected: {rejection}"),
        }
    }
}

/// How an agent's disk compares with the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Standing {
    /// As the log says.
    InStep,
    /// Behind what it confirmed: its disk was restored.
    Regressed,
    /// At the right order with other contents.
    Diverged,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InStep => "IN_STEP",
            Self::Regressed => "REGRESSED",
            Self::Diverged => "DIVERGED",
        })
    }
}
