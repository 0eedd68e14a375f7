//! Why an agent or a framework may not come in, or may not say of itself what it says, why a role
//! may not have a quota, and why machines cannot go down or up. Must not know of status codes.
//! Next: `help.rs`.

use resources::id::{AgentId, ClusterId, Seq};
use resources::machine::MachineId;
use resources::message::Retry;
use resources::value::Scalar;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a framework may not do what it asks (spec §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum FrameworkRefusal {
    /// There is none of this id.
    #[error("Framework cannot be found")]
    Unknown,
    /// There was one, and it is gone for good.
    #[error("Framework has been removed")]
    Removed,
    /// It says that it is another's.
    #[error("Changing framework's principal is not allowed.")]
    PrincipalChanged,
    /// It says that its tasks run as another user.
    #[error("Changing framework's user is not allowed.")]
    UserChanged,
    /// It says otherwise whether its tasks outlive their agent's process.
    #[error("Changing framework's checkpoint is not allowed.")]
    CheckpointChanged,
}

/// Why a role cannot have a quota (spec §5.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum QuotaRefusal {
    /// It breaks a rule of form.
    #[error("{reason}")]
    Invalid {
        /// Which.
        reason: String,
    },
    /// The role has one already.
    #[error("it has one already")]
    Exists,
    /// The role has none.
    #[error("it has none")]
    Absent,
    /// More than that is consumed already.
    #[error("it consumes {name}:{consumed} already, the limit would be {limit}")]
    Consumed {
        /// Of what.
        name: String,
        /// How much was to be allowed.
        limit: Scalar,
        /// How much is consumed.
        consumed: Scalar,
    },
    /// All guarantees together are more than what there is.
    #[error("all guarantees would come to {name}:{wanted}, there is {capacity}")]
    Overcommitted {
        /// Of what.
        name: String,
        /// How much all would be.
        wanted: Scalar,
        /// How much there is.
        capacity: Scalar,
        /// Whether a call of the old form asked: its answer is another.
        #[serde(default)]
        by_old_call: bool,
    },
}

impl QuotaRefusal {
    /// Whether the same call may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Consumed { .. } | Self::Overcommitted { .. })
    }
    /// Whether it is the state that says no, and not the form.
    #[must_use]
    pub const fn is_of_state(&self) -> bool {
        match self {
            Self::Exists | Self::Absent | Self::Consumed { .. } | Self::Overcommitted { .. } => {
                true
            }
            Self::Invalid { .. } => false,
        }
    }
}

/// Why an agent cannot be reactivated or drained (spec §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum ActivationRefusal {
    /// Nothing keeps it from being offered.
    #[error("is not deactivated")]
    Active,
    /// Its tasks are being ended.
    #[error("is still draining")]
    Draining,
    /// Its machine stands in the maintenance schedule, which drains it in its own way.
    #[error("is on a machine of the maintenance schedule")]
    Scheduled,
}

/// Why machines cannot be scheduled, go down, or come up (spec §5.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum MaintenanceRefusal {
    /// It breaks a rule of form.
    #[error("{reason}")]
    Invalid {
        /// Which.
        reason: String,
    },
    /// A machine that is down is not in the new schedule.
    #[error("machine {machine} is down, and the schedule leaves it out")]
    Dropped {
        /// The machine.
        machine: MachineId,
    },
    /// A machine that is not scheduled, or down already, cannot go down.
    #[error("machine {machine} is not in the schedule, or down already")]
    NotDraining {
        /// The machine.
        machine: MachineId,
    },
    /// A machine that is not down cannot come up.
    #[error("machine {machine} is not down")]
    NotDown {
        /// The machine.
        machine: MachineId,
    },
}

impl MaintenanceRefusal {
    /// Whether it is the state that says no, and not the form.
    #[must_use]
    pub const fn is_of_state(&self) -> bool {
        match self {
            Self::Dropped { .. } | Self::NotDraining { .. } | Self::NotDown { .. } => true,
            Self::Invalid { .. } => false,
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
    /// Its machine is down for maintenance.
    #[error("machine {machine} is down for maintenance")]
    MachineDown {
        /// The machine.
        machine: MachineId,
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
    /// An operator has given up the agent of its work directory, for good.
    #[error("agent {agent_id} has been marked gone")]
    Gone {
        /// The agent.
        agent_id: AgentId,
    },
}

impl RegistrationRefusal {
    /// Whether the agent should come again or exit.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::NoCluster
            | Self::AheadOfLog { .. }
            | Self::NewerIncarnation { .. }
            | Self::MachineDown { .. } => Retry::Later,
            Self::OtherCluster { .. }
            | Self::NotDeclarable { .. }
            | Self::OtherDigest
            | Self::Incompatible { .. }
            | Self::Gone { .. } => Retry::Never,
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
            | Self::Incompatible { .. }
            | Self::MachineDown { .. }
            | Self::Gone { .. } => false,
        }
    }
    /// Whether nothing of the agent may go on: it has to end its tasks.
    #[must_use]
    pub const fn ends_tasks(&self) -> bool {
        match self {
            Self::Gone { .. } => true,
            Self::NoCluster
            | Self::OtherCluster { .. }
            | Self::NewerIncarnation { .. }
            | Self::AheadOfLog { .. }
            | Self::NotDeclarable { .. }
            | Self::OtherDigest
            | Self::MachineDown { .. }
            | Self::Incompatible { .. } => false,
        }
    }
}
