//! The members of the cluster, as the edges ask for them: who they are, and one change at a time.
//! Must not judge a change: that is `raft`'s. Next: `handle.rs`.

use std::fmt;

use raft::{Member, MembershipError, ProposeError, Role};
use resources::id::MasterId;

use super::handle::Handle;
use super::view::Leadership;

/// A change of the members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberChange {
    /// Take a master in as a learner.
    Add {
        /// Its number.
        id: MasterId,
        /// Its peer address.
        peer: String,
    },
    /// Make a learner that has caught up a voter.
    Promote {
        /// Its number.
        id: MasterId,
    },
    /// Let a member go.
    Remove {
        /// Its number.
        id: MasterId,
    },
    /// Put a master in the place of another.
    Replace {
        /// Who goes.
        old: MasterId,
        /// Who comes.
        new: MasterId,
        /// The peer address of who comes.
        peer: String,
    },
    /// Give leadership to another voter.
    TransferLeader {
        /// To whom; to the one with the longest log when none.
        to: Option<MasterId>,
    },
}

impl fmt::Display for MemberChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { id, peer } => write!(f, "add master {id} at {peer}"),
            Self::Promote { id } => write!(f, "promote master {id}"),
            Self::Remove { id } => write!(f, "remove master {id}"),
            Self::Replace { old, new, peer } => {
                write!(f, "replace master {old} by master {new} at {peer}")
            }
            Self::TransferLeader { to: Some(to) } => {
                write!(f, "transfer leadership to master {to}")
            }
            Self::TransferLeader { to: None } => f.write_str("transfer leadership"),
        }
    }
}

impl Handle {
    /// All members, by the membership that this master knows.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.node().membership()
    }

    /// Carries a change out and returns when it is complete. Repeating one does no harm.
    ///
    /// # Errors
    /// [`MembershipError`]: what stands in the way, with numbers.
    pub async fn change_members(&self, change: &MemberChange) -> Result<(), MembershipError> {
        let node = self.node();
        tracing::info!(%change, "the members are to change");
        let changed = match change {
            MemberChange::Add { id, peer } => node.add_learner(*id, peer).await.map(drop),
            MemberChange::Promote { id } => node.promote(*id).await.map(drop),
            MemberChange::Remove { id } => node.remove(*id).await.map(drop),
            MemberChange::Replace { old, new, peer } => {
                node.replace(*old, *new, peer).await.map(drop)
            }
            MemberChange::TransferLeader { to } => self.transfer_leader(*to).await,
        };
        match &changed {
            Ok(()) => tracing::info!(%change, "the members have changed"),
            Err(error) => tracing::info!(%change, %error, "the members stay as they are"),
        }
        changed
    }

    /// Everything that is applied here by now, as a backup.
    ///
    /// # Errors
    /// When this master is stopping.
    pub async fn export(&self) -> Result<raft::Export, ProposeError> {
        self.node().export().await
    }

    async fn transfer_leader(&self, to: Option<MasterId>) -> Result<(), MembershipError> {
        match self.leadership() {
            Leadership::Leading { .. } => {}
            Leadership::Following { master_id, .. } => {
                return Err(MembershipError::NotLeader { leader: Some(master_id) });
            }
            Leadership::Unknown => return Err(MembershipError::NotLeader { leader: None }),
        }
        if let Some(id) = to {
            if id == self.identity().id {
                return Ok(());
            }
            let members = self.members();
            let member = members.iter().find(|member| member.id == id);
            let member = member.ok_or(MembershipError::NotAMember { id })?;
            if member.role == Role::Learner {
                let reason = format!("master {id} is a learner and cannot lead");
                return Err(MembershipError::Impossible { reason });
            }
            if member.is_answering != Some(true) {
                return Err(MembershipError::NotAnswering { id });
            }
        }
        self.node().transfer_leadership(to).await.map_err(|error| match error {
            ProposeError::NoQuorum => MembershipError::Impossible {
                reason: "there is no other voter that answers".to_owned(),
            },
            other => other.into(),
        })
    }
}
