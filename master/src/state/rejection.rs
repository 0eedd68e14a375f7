//! How the state says no: deterministic, replicated with the response, mapped to a status code
//! in `http/error.rs` alone. Each variant carries what was asked about, how much was wanted and
//! is there, and what stands in the way. Must not know of status codes.
//! Next: `rejection/refusals.rs` (agents and frameworks that may not come in),
//! `rejection/help.rs` (the same as texts for users), then `agents.rs`.

mod help;
mod refusals;

use resources::id::{AgentId, ClusterId, FrameworkId, LogIndex, OperationId, Seq, VolumeId};
use resources::resource::Resource;
use resources::role::Role;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::keys::{IdempotencyKey, KeyQuota};
use super::limits::{PENDING_ORDERS_MAX, TRANSACTION_OPERATIONS_MAX};
use super::reconcile::ReconcileRefusal;
use super::tasks::TaskName;

pub use self::refusals::{
    ActivationRefusal, FrameworkRefusal, MaintenanceRefusal, QuotaRefusal, RegistrationRefusal,
};

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
    #[error("role '{role}' has a volume '{volume_id}' already on agent {agent_id}: {existing}")]
    VolumeExists {
        /// The agent.
        agent_id: AgentId,
        /// The volume's reservation role.
        role: Role,
        /// The taken id.
        volume_id: VolumeId,
        /// Who has it.
        existing: Box<Resource>,
    },
    /// DESTROY of what is no volume of this agent.
    #[error(
        "persistent volumes not found on agent {agent_id}: {}, available {}",
        list(volumes),
        list(available)
    )]
    VolumesNotFound {
        /// The agent.
        agent_id: AgentId,
        /// The unknown ones.
        volumes: Vec<Resource>,
        /// Volumes of the same role and id that differ in size or reservation.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        available: Vec<Resource>,
    },
    /// The agent does not hold what the operation consumes.
    #[error(
        "wanted {}, available {}{}{}{}",
        list(wanted),
        list(available),
        blocked(blocked_by),
        under(volumes),
        used(tasks)
    )]
    Insufficient {
        /// The agent.
        agent_id: AgentId,
        /// What the operation consumes and is not there.
        wanted: Vec<Resource>,
        /// What of these kinds there is.
        available: Vec<Resource>,
        /// Unconfirmed operations which hold some of it.
        blocked_by: Vec<OperationId>,
        /// Volumes that lie on the wanted disk.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        volumes: Vec<Resource>,
        /// Tasks that use some of it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tasks: Vec<TaskName>,
    },
    /// DESTROY of a volume that a task or an executor uses.
    #[error("persistent volumes in use on agent {agent_id}: {}{}", list(volumes), used(tasks))]
    VolumesInUse {
        /// The agent.
        agent_id: AgentId,
        /// The volumes.
        volumes: Vec<Resource>,
        /// Tasks that use them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tasks: Vec<TaskName>,
    },
    /// DESTROY of a shared volume of which more shares are out.
    #[error("volume {volume} on agent {agent_id} has {shares} more shares out")]
    SharesRemain {
        /// The agent.
        agent_id: AgentId,
        /// The volume.
        volume: Box<Resource>,
        /// Shares that would be left.
        shares: u64,
    },
    /// The agent has too many unconfirmed orders.
    #[error("agent {agent_id} has {pending} unconfirmed orders, {PENDING_ORDERS_MAX} at most")]
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
    /// The agent has changed since its caller looked at it.
    #[error("agent {agent_id} is at version {found}, wanted {wanted}")]
    VersionMoved {
        /// The agent.
        agent_id: AgentId,
        /// The version that the caller saw.
        wanted: u64,
        /// The version now.
        found: u64,
    },
    /// An operation of this name is on record.
    #[error("operation '{operation_id}' exists already")]
    DuplicateOperation {
        /// The taken name.
        operation_id: OperationId,
    },
    /// The key names another command.
    #[error("key '{key}' was used at index {index} for another command")]
    KeyReused {
        /// The key.
        key: IdempotencyKey,
        /// Where its first use was decided.
        index: LogIndex,
    },
    /// Too many keys are kept; none is younger than promised.
    #[error("{quota}: {keys} keys with {bytes} bytes are kept, {keys_max} and {bytes_max} at most")]
    KeyTableFull {
        /// Whose.
        quota: KeyQuota,
        /// How many.
        keys: u64,
        /// How many at most.
        keys_max: u64,
        /// The size of their outcomes.
        bytes: u64,
        /// Their size at most.
        bytes_max: u64,
    },
    /// The command does not fit a log entry.
    #[error("command has {bytes} bytes, more than {bytes_max}")]
    TooLarge {
        /// Its encoded size.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// A transaction of no or too many operations.
    #[error("transaction has {operations} operations, must have 1 to {TRANSACTION_OPERATIONS_MAX}")]
    TransactionSize {
        /// How many.
        operations: u64,
    },
    /// An operation of a transaction is refused, and with it the whole transaction.
    #[error("operation {position} of the transaction: {rejection}")]
    Member {
        /// Which, from 0.
        position: u64,
        /// Why.
        rejection: Box<Self>,
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
    /// What an operator chose for an agent is not taken.
    #[error("agent {agent_id} is not reconciled: {refusal}")]
    Reconcile {
        /// The agent.
        agent_id: AgentId,
        /// Why.
        refusal: ReconcileRefusal,
    },
    /// The agent may not register.
    #[error("registration refused: {0}")]
    Registration(RegistrationRefusal),
    /// A framework may not do this.
    #[error("{refusal}")]
    Framework {
        /// Which.
        framework_id: FrameworkId,
        /// Why.
        refusal: FrameworkRefusal,
    },
    /// A role cannot have this quota.
    #[error("quota of role '{role}': {refusal}")]
    Quota {
        /// Whose.
        role: Role,
        /// Why.
        refusal: QuotaRefusal,
    },
    /// An agent that cannot be reactivated or drained.
    #[error("agent {agent_id} {refusal}")]
    Activation {
        /// The agent.
        agent_id: AgentId,
        /// Why.
        refusal: ActivationRefusal,
    },
    /// Machines cannot be scheduled or moved like this.
    #[error("maintenance: {refusal}")]
    Maintenance {
        /// Why.
        refusal: MaintenanceRefusal,
    },
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
            Self::Overloaded { .. } | Self::Insufficient { .. } | Self::KeyTableFull { .. } => true,
            Self::SharesRemain { .. } | Self::VolumesInUse { .. } => true,
            Self::Member { rejection, .. } => rejection.is_retryable(),
            Self::Quota { refusal, .. } => refusal.is_retryable(),
            Self::Framework { .. }
            | Self::Activation { .. }
            | Self::Reconcile { .. }
            | Self::Maintenance { .. }
            | Self::UnknownAgent { .. }
            | Self::Invalid { .. }
            | Self::VolumeExists { .. }
            | Self::VolumesNotFound { .. }
            | Self::Regressed { .. }
            | Self::Diverged { .. }
            | Self::VersionMoved { .. }
            | Self::DuplicateOperation { .. }
            | Self::KeyReused { .. }
            | Self::TooLarge { .. }
            | Self::TransactionSize { .. }
            | Self::ClusterFormed { .. }
            | Self::NeverGiven { .. }
            | Self::Registration(_)
            | Self::Fault { .. } => false,
        }
    }

    /// Whether a repeat under the same key gets this answer again. Not so what says nothing of
    /// the state of things: bad form, a full queue, a full table, a fault.
    #[must_use]
    pub const fn is_kept_under_key(&self) -> bool {
        match self {
            Self::UnknownAgent { .. }
            | Self::VolumeExists { .. }
            | Self::VolumesNotFound { .. }
            | Self::Insufficient { .. }
            | Self::SharesRemain { .. }
            | Self::VolumesInUse { .. }
            | Self::Regressed { .. }
            | Self::Diverged { .. }
            | Self::VersionMoved { .. }
            | Self::DuplicateOperation { .. } => true,
            Self::Member { rejection, .. } => rejection.is_kept_under_key(),
            Self::Quota { refusal, .. } => refusal.is_of_state(),
            Self::Maintenance { refusal } => refusal.is_of_state(),
            Self::Framework { .. }
            | Self::Activation { .. }
            | Self::Reconcile { .. }
            | Self::Invalid { .. }
            | Self::Overloaded { .. }
            | Self::KeyReused { .. }
            | Self::KeyTableFull { .. }
            | Self::TooLarge { .. }
            | Self::TransactionSize { .. }
            | Self::ClusterFormed { .. }
            | Self::NeverGiven { .. }
            | Self::Registration(_)
            | Self::Fault { .. } => false,
        }
    }

    /// The reason itself: that of the refused operation, when a transaction is refused.
    #[must_use]
    pub const fn root(&self) -> &Self {
        match self {
            Self::Member { rejection, .. } => rejection.root(),
            Self::UnknownAgent { .. }
            | Self::Invalid { .. }
            | Self::VolumeExists { .. }
            | Self::VolumesNotFound { .. }
            | Self::Insufficient { .. }
            | Self::SharesRemain { .. }
            | Self::VolumesInUse { .. }
            | Self::Framework { .. }
            | Self::Quota { .. }
            | Self::Activation { .. }
            | Self::Reconcile { .. }
            | Self::Maintenance { .. }
            | Self::Overloaded { .. }
            | Self::Regressed { .. }
            | Self::Diverged { .. }
            | Self::VersionMoved { .. }
            | Self::DuplicateOperation { .. }
            | Self::KeyReused { .. }
            | Self::KeyTableFull { .. }
            | Self::TooLarge { .. }
            | Self::TransactionSize { .. }
            | Self::ClusterFormed { .. }
            | Self::NeverGiven { .. }
            | Self::Registration(_)
            | Self::Fault { .. } => self,
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

fn under(volumes: &[Resource]) -> String {
    if volumes.is_empty() { String::new() } else { format!(", under volumes {}", list(volumes)) }
}

fn used(tasks: &[TaskName]) -> String {
    if tasks.is_empty() {
        return String::new();
    }
    let names: Vec<String> = tasks.iter().map(ToString::to_string).collect();
    format!(", used by tasks {}", names.join(" "))
}
