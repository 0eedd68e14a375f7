//! How the state says no: deterministic, replicated with the response, mapped to a status code
//! in `http/error.rs` alone. Must not hold sentences for users. Next: `agents.rs`.

use resources::id::{AgentId, ClusterId, LogIndex, OperationId, Seq, VolumeId};
use resources::message::Retry;
use resources::resource::Resource;
use resources::role::Role;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The state says no. Deterministic, and part of the replicated response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum Rejection {
    /// No such agent is registered.
    #[error("no agent '{agent_id}'")]
    UnknownAgent {
        /// The id that was asked for.
        agent_id: AgentId,
    },
    /// The operation breaks a rule of form (spec §2.2).
    #[error("invalid {operation} operation on agent {agent_id}: {reason}")]
    Invalid {
        /// Where it was to run.
        agent_id: AgentId,
        /// Mesos' name of the operation, such as `RESERVE`.
        operation: String,
        /// Which rule.
        reason: String,
    },
    /// CREATE of a volume id that its role already uses on this agent.
    #[error("role '{role}' has a volume '{volume_id}' already")]
    VolumeExists {
        /// The volume's reservation role.
        role: Role,
        /// The taken id.
        volume_id: VolumeId,
    },
    /// DESTROY of what is no volume of this agent.
    #[error("persistent volumes not found: {}", list(volumes))]
    VolumesNotFound {
        /// The unknown ones.
        volumes: Vec<Resource>,
    },
    /// The agent does not hold what the operation consumes.
    #[error("wanted {}, available {}{}", list(wanted), list(available), blocked(blocked_by))]
    Insufficient {
        /// What the operation consumes.
        wanted: Vec<Resource>,
        /// What of these kinds there is.
        available: Vec<Resource>,
        /// Unconfirmed operations which hold some of it.
        blocked_by: Vec<OperationId>,
    },
    /// The agent has too many unconfirmed orders.
    #[error("agent {agent_id} has {pending} unconfirmed orders")]
    Overloaded {
        /// The agent.
        agent_id: AgentId,
        /// How many.
        pending: u64,
    },
    /// The agent's disk is behind what it confirmed, until an operator chooses.
    #[error("agent {agent_id} is at order {applied_seq} and had confirmed {confirmed_seq}")]
    Regressed {
        /// The agent.
        agent_id: AgentId,
        /// Where its disk stands.
        applied_seq: Seq,
        /// What it had confirmed.
        confirmed_seq: Seq,
    },
    /// The agent's disk differs from the log, until an operator chooses.
    #[error("agent {agent_id} holds other resources than the log says")]
    Diverged {
        /// The agent.
        agent_id: AgentId,
    },
    /// An operation of this name is on record.
    #[error("operation '{operation_id}' exists already")]
    DuplicateOperation {
        /// The taken name.
        operation_id: OperationId,
    },
    /// The command does not fit a log entry.
    #[error("command has {bytes} bytes, more than {bytes_max}")]
    TooLarge {
        /// Its encoded size.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The cluster has its id already.
    #[error("cluster is '{cluster_id}' already")]
    ClusterFormed {
        /// Its id.
        cluster_id: ClusterId,
    },
    /// An agent reports orders that it was never given.
    #[error("agent {agent_id} reports order {upto}, last given {given}")]
    NeverGiven {
        /// The agent.
        agent_id: AgentId,
        /// What it reports.
        upto: Seq,
        /// The last one given.
        given: Seq,
    },
    /// The agent may not register.
    #[error("registration refused: {0}")]
    Registration(RegistrationRefusal),
    /// An invariant would have broken; the state stayed as it was.
    #[error("fault at index {index}: {what}")]
    Fault {
        /// The entry.
        index: LogIndex,
        /// The invariant.
        what: String,
    },
}

impl Rejection {
    /// Whether the same call may succeed later without any change by the caller.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Overloaded { .. } | Self::Insufficient { .. } => true,
            Self::UnknownAgent { .. }
            | Self::Invalid { .. }
            | Self::VolumeExists { .. }
            | Self::VolumesNotFound { .. }
            | Self::Regressed { .. }
            | Self::Diverged { .. }
            | Self::DuplicateOperation { .. }
            | Self::TooLarge { .. }
            | Self::ClusterFormed { .. }
            | Self::NeverGiven { .. }
            | Self::Registration(_)
            | Self::Fault { .. } => false,
        }
    }
}

/// Why an agent may not register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum RegistrationRefusal {
    /// The cluster has no id yet.
    #[error("the cluster is not formed yet")]
    NoCluster,
    /// Its work directory belongs to another cluster.
    #[error("the agent belongs to cluster '{theirs}', this is '{ours}'")]
    OtherCluster {
        /// Its cluster.
        theirs: ClusterId,
        /// This cluster.
        ours: ClusterId,
    },
    /// It has obeyed a higher incarnation than this log knows.
    #[error("the agent has obeyed incarnation {theirs}, this is {ours}")]
    NewerIncarnation {
        /// What it obeyed.
        theirs: u64,
        /// Ours.
        ours: u64,
    },
    /// It has carried out orders that this log never gave.
    #[error("the agent is at order {applied_seq}, last given {given}")]
    AheadOfLog {
        /// Where it stands.
        applied_seq: Seq,
        /// The last one given.
        given: Seq,
    },
    /// What it declares cannot come from a command line.
    #[error("{resource} cannot be declared by an agent")]
    NotDeclarable {
        /// The resource.
        resource: String,
    },
    /// A new agent's digest is not that of what it declares.
    #[error("the agent's digest is not that of the resources it declares")]
    OtherDigest,
    /// Its reservations and volumes do not fit what it declares now.
    #[error("{reason}")]
    Incompatible {
        /// What does not fit.
        reason: String,
    },
}

impl RegistrationRefusal {
    /// Whether the agent should come again or exit.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::NoCluster | Self::AheadOfLog { .. } | Self::NewerIncarnation { .. } => {
                Retry::Later
            }
            Self::OtherCluster { .. }
            | Self::NotDeclarable { .. }
            | Self::OtherDigest
            | Self::Incompatible { .. } => Retry::Never,
        }
    }
    /// Whether this can only happen when data was lost: an operator must look.
    #[must_use]
    pub const fn is_alarming(&self) -> bool {
        match self {
            Self::AheadOfLog { .. } | Self::NewerIncarnation { .. } | Self::OtherDigest => true,
            Self::NoCluster
            | Self::OtherCluster { .. }
            | Self::NotDeclarable { .. }
            | Self::Incompatible { .. } => false,
        }
    }
}

/// Resources on one line, for messages.
pub(crate) fn list(resources: &[Resource]) -> String {
    if resources.is_empty() {
        return "nothing".to_owned();
    }
    let lines: Vec<String> = resources.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

fn blocked(operations: &[OperationId]) -> String {
    if operations.is_empty() {
        return String::new();
    }
    let ids: Vec<&str> = operations.iter().map(OperationId::as_str).collect();
    format!(", held by unconfirmed {}", ids.join(" "))
}
