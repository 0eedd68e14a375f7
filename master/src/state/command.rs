//! What the log can ask of the state, and what comes back: commands, responses and effects,
//! all plain data. Log entries are a wire format: fields are only ever added, with
//! `#[serde(default)]`. Must not know who leads or how bytes travel. Next: `rejection.rs`.

use std::collections::BTreeMap;
use std::fmt;

use resources::id::{
    AgentId, CheckpointId, ClusterId, MasterId, OperationId, Principal, Seq, Term,
};
use resources::message::{Order, Registration};
use resources::operation::Operation;
use resources::resource::Resource;
use serde::{Deserialize, Serialize};

pub use super::keys::IdempotencyKey;
use super::operations::{OperationState, describe};
use super::rejection::list;
pub use super::rejection::{RegistrationRefusal, Rejection};
use super::transactions::{Member, TransactionId, TransactionState};

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
    },
    /// Keep an alarm that was noticed outside of `apply`.
    RaiseAlarm {
        /// Whom it is about.
        agent_id: AgentId,
        /// What was seen.
        text: String,
    },
}

impl fmt::Display for CommandKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FormCluster { cluster_id } => write!(f, "form-cluster {cluster_id}"),
            Self::TakeOffice { master_id, advertise, term } => {
                write!(f, "take-office master {master_id} at {advertise} term {term}")
            }
            Self::RegisterAgent(registration) => {
                write!(
                    f,
                    "register-agent {} boot {} applied {}",
                    registration.checkpoint_id, registration.boot_counter, registration.applied_seq
                )
            }
            Self::Operate { agent_id, operation_id, operation } => {
                write!(f, "operate {agent_id} {operation_id} {}", describe(operation))
            }
            Self::Transact { transaction_id, members } => {
                write!(f, "transact {transaction_id}")?;
                members.iter().try_for_each(|Member { agent_id, operation_id, operation }| {
                    write!(f, " [{agent_id} {operation_id} {}]", describe(operation))
                })
            }
            Self::Confirm { agent_id, upto, exceptions } => {
                write!(f, "confirm {agent_id} upto {upto}")?;
                exceptions.iter().try_for_each(|(seq, why)| write!(f, " {seq}=FAILED({why})"))
            }
            Self::RecordDivergence { agent_id, foreign, missing } => {
                let (foreign, missing) = (list(foreign), list(missing));
                write!(f, "record-divergence {agent_id} foreign {foreign}, missing {missing}")
            }
            Self::RaiseAlarm { agent_id, text } => write!(f, "raise-alarm {agent_id}: {text}"),
        }
    }
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

/// What the shell of the leader does after a command; everything here can be derived from the
/// state again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Give the agent this order.
    Order(AgentId, Box<Order>),
    /// Tell the agent that outcomes up to here are replicated.
    Acknowledge(AgentId, Seq),
    /// Tell whoever watches.
    Change(Change),
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order(agent_id, order) => {
                write!(f, "order {agent_id} #{} {}", order.seq, describe(&order.operation))
            }
            Self::Acknowledge(agent_id, upto) => write!(f, "acknowledge {agent_id} upto {upto}"),
            Self::Change(change) => change.fmt(f),
        }
    }
}

/// Something that changed, for those who watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The cluster has its id.
    ClusterFormed(ClusterId),
    /// A leader has announced itself.
    LeaderAnnounced(MasterId, Term),
    /// A new agent.
    AgentAdded(AgentId, CheckpointId),
    /// An agent came back changed.
    AgentUpdated(AgentId),
    /// An agent goes on under another id.
    AgentSuperseded {
        /// The id that is gone.
        old: AgentId,
        /// The id it has now.
        new: AgentId,
    },
    /// An operation ended.
    OperationSettled(OperationId, OperationState),
    /// A transaction stands elsewhere, because one of its operations ended.
    TransactionMoved(TransactionId, TransactionState),
    /// An operator must look.
    AlarmRaised(String),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClusterFormed(id) => write!(f, "cluster {id} formed"),
            Self::LeaderAnnounced(id, term) => write!(f, "master {id} leads term {term}"),
            Self::AgentAdded(id, checkpoint) => write!(f, "agent {id} added for {checkpoint}"),
            Self::AgentUpdated(id) => write!(f, "agent {id} updated"),
            Self::AgentSuperseded { old, new } => write!(f, "agent {old} goes on as {new}"),
            Self::OperationSettled(id, state) => write!(f, "operation {id} {state}"),
            Self::TransactionMoved(id, state) => write!(f, "transaction {id} {state}"),
            Self::AlarmRaised(text) => write!(f, "ALARM {text}"),
        }
    }
}
