//! Why a membership did not change.

use resources::id::MasterId;
use thiserror::Error;

use crate::error::ProposeError;

/// Why a membership did not change. All but `Unknown` say that this call changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MembershipError {
    /// Another node leads and has to be asked.
    #[error("this master does not lead")]
    NotLeader {
        /// The leader, if one is known.
        leader: Option<MasterId>,
    },
    /// Another change is under way, or the leader is too new to begin one.
    #[error("another change of the members is in progress")]
    InProgress,
    /// There is no such member.
    #[error("master {id} is not a member")]
    NotAMember {
        /// The node.
        id: MasterId,
    },
    /// It is a member at another address.
    #[error("master {id} is a member at {address} already")]
    AlreadyMember {
        /// The member.
        id: MasterId,
        /// Its address.
        address: String,
    },
    /// Another member has this address.
    #[error("{address} is the peer address of master {id}")]
    AddressTaken {
        /// The other member.
        id: MasterId,
        /// The address.
        address: String,
    },
    /// Nobody answers at the address.
    #[error("master {id} does not answer at {address}: {reason}")]
    Unreachable {
        /// The node.
        id: MasterId,
        /// The address.
        address: String,
        /// What happened.
        reason: String,
    },
    /// Whoever answers at the address cannot be that member.
    #[error("master {id} at {address} is refused: {reason}")]
    Refused {
        /// The node.
        id: MasterId,
        /// The address.
        address: String,
        /// Why.
        reason: String,
    },
    /// The learner lacks entries or does not answer.
    #[error(
        "master {id} has not caught up: it lacks {lag} entries, at most {limit} may be missing"
    )]
    NotCaughtUp {
        /// The learner.
        id: MasterId,
        /// Entries that it lacks.
        lag: u64,
        /// Entries that it may lack.
        limit: u64,
    },
    /// The learner has caught up once, but was not heard of for the longest election timeout.
    #[error("master {id} does not answer")]
    NotAnswering {
        /// The learner.
        id: MasterId,
    },
    /// Too few of the remaining voters answer.
    #[error(
        "this would lose the quorum: {answering} of {voters} voters would answer, {needed} are \
         needed"
    )]
    QuorumLost {
        /// Voters after the change.
        voters: usize,
        /// How many of them answer.
        answering: usize,
        /// How many must.
        needed: usize,
    },
    /// The consensus library refuses.
    #[error("the members cannot be changed: {reason}")]
    Impossible {
        /// What it says.
        reason: String,
    },
    /// No quorum answers the leader.
    #[error("no quorum of masters answers")]
    NoQuorum,
    /// This node is stopping or stopped.
    #[error("this master is stopping")]
    Stopped,
    /// The change may or may not take effect; the members tell.
    #[error("the outcome is not known")]
    Unknown,
}

impl MembershipError {
    /// Whether the same call may succeed later or elsewhere. All calls may be repeated without
    /// harm.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::NotLeader { .. }
            | Self::InProgress
            | Self::Unreachable { .. }
            | Self::NotCaughtUp { .. }
            | Self::NotAnswering { .. }
            | Self::QuorumLost { .. }
            | Self::NoQuorum
            | Self::Stopped
            | Self::Unknown => true,
            Self::NotAMember { .. }
            | Self::AlreadyMember { .. }
            | Self::AddressTaken { .. }
            | Self::Refused { .. }
            | Self::Impossible { .. } => false,
        }
    }
}

impl From<ProposeError> for MembershipError {
    fn from(error: ProposeError) -> Self {
        match error {
            ProposeError::NotLeader { leader } => Self::NotLeader { leader },
            ProposeError::NoQuorum => Self::NoQuorum,
            ProposeError::Stopped => Self::Stopped,
            ProposeError::TooLarge { .. } | ProposeError::Unknown => Self::Unknown,
        }
    }
}
