//! Who takes part: members are added as learners, promoted when they have caught up, removed and
//! replaced. Every step is judged here by the leader with numbers before it is proposed: it must
//! leave a quorum of voters that answer. Must not know what is replicated. Next: `config.rs`.
//!
//! One change at a time. A change that its caller gave up, or whose leader died, is finished by
//! `finish.rs`, so a cluster never stays between two sets of voters.

mod error;
mod finish;
mod picture;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::raft::Precondition;
use proto::holdfast::raft as wire;
use resources::id::{LogIndex, MasterId};
use tokio::time::Instant;

use crate::leadership::Leadership;
use crate::machine::Machine;
use crate::members::Stores;
use crate::network::{self, Unmet};
use crate::node::Node;
use crate::reads::not_leading;
use crate::types::{LogId, Peer};

pub use error::MembershipError;
pub(crate) use finish::Finisher;
use picture::Picture;

/// Longest time until a proposed change is committed, and until a replacement has caught up.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest wait for another change that is about to end.
const BUSY: Duration = Duration::from_millis(500);
/// Entries that a learner may lack when it is promoted: the batches that are on their way.
const LAG_MAX: u64 = 100;

/// What a member does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It elects and is counted for commitment.
    Voter,
    /// It only follows.
    Learner,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Voter => "voter",
            Self::Learner => "learner",
        })
    }
}

/// A member of the cluster, by the membership that this node knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The member.
    pub id: MasterId,
    /// What it does. While voters change, those of either set count as voters.
    pub role: Role,
    /// Where its peers reach it.
    pub address: String,
    /// Public address that it announced, once it was met.
    pub advertise: Option<String>,
    /// Whether it answered within the longest election timeout; only the leader can tell.
    pub is_answering: Option<bool>,
    /// Last entry that is known to be on its disk; only the leader can tell.
    pub matched: Option<LogIndex>,
    /// Entries of the leader's log that are not known to be on its disk; only the leader can tell.
    pub lag: Option<u64>,
}

type Change = ChangeMembers<u64, Peer>;

impl<M: Machine> Node<M> {
    /// All members, this node included, in the order of their ids.
    #[must_use]
    pub fn membership(&self) -> Vec<Member> {
        let picture = Picture::of(self);
        let membership = picture.membership.membership();
        let members = membership.nodes().map(|(id, peer)| Member {
            id: MasterId(*id),
            role: picture.role(*id),
            address: peer.addr.clone(),
            advertise: if *id == picture.me {
                Some(self.inner.config.advertise.clone())
            } else {
                self.peer_advertise(MasterId(*id))
            },
            is_answering: picture.is_leading.then(|| picture.answering.contains(id)),
            matched: picture.matched(*id).map(|id| LogIndex(id.index)),
            lag: picture.is_leading.then(|| picture.lag(*id)),
        });
        members.collect()
    }

    /// Adds a node as a learner. It must run (see [`Node::join`]) and answer at `address`; its
    /// data directory is remembered as this member's for ever. Again for a member: no change.
    ///
    /// # Errors
    /// [`MembershipError`].
    pub async fn add_learner(
        &self,
        id: MasterId,
        address: &str,
    ) -> Result<LogIndex, MembershipError> {
        let _changing = self.changing().await?;
        self.add(id, address).await
    }

    /// Makes a learner that has caught up a voter. Again for a voter: no change.
    ///
    /// # Errors
    /// [`MembershipError`].
    pub async fn promote(&self, id: MasterId) -> Result<LogIndex, MembershipError> {
        let _changing = self.changing().await?;
        let picture = self.leading()?;
        picture.expect_member(id)?;
        if picture.role(id.0) == Role::Voter {
            return Ok(picture.index());
        }
        let picture = self
            .judged(self.inner.config.election_timeout_max(), |picture| {
                picture.expect_caught_up(id)?;
                picture.expect_quorum(&picture.voters_with(&[id.0], &[]))
            })
            .await?;
        self.commit(&picture, ChangeMembers::AddVoterIds(BTreeSet::from([id.0]))).await
    }

    /// Removes a member. If it is this node, leadership is handed over first, and the refusal
    /// names the new leader, who has to be asked.
    ///
    /// # Errors
    /// [`MembershipError`].
    pub async fn remove(&self, id: MasterId) -> Result<LogIndex, MembershipError> {
        let _changing = self.changing().await?;
        let picture = self.leading()?;
        picture.expect_member(id)?;
        let ids = BTreeSet::from([id.0]);
        if picture.role(id.0) == Role::Learner {
            return self.commit(&picture, ChangeMembers::RemoveNodes(ids)).await;
        }
        let picture = self
            .judged(self.inner.config.election_timeout_max(), |picture| {
                picture.expect_quorum(&picture.voters_with(&[], &[id.0]))
            })
            .await?;
        self.step_aside_for(id).await?;
        self.commit(&picture, ChangeMembers::RemoveVoters(ids)).await
    }

    /// Puts `new` at `address` in the place of `old` in one step: adds it if it is not a member,
    /// waits a while until it has caught up, then changes the voters. When it has not caught up
    /// in time it stays a learner, and the same call goes on. With `new` equal to `old` only the
    /// address changes. If `old` is this node, leadership is handed over first, as in
    /// [`Node::remove`].
    ///
    /// # Errors
    /// [`MembershipError`].
    pub async fn replace(
        &self,
        old: MasterId,
        new: MasterId,
        address: &str,
    ) -> Result<LogIndex, MembershipError> {
        if old == new {
            return self.set_address(old, address).await;
        }
        let _changing = self.changing().await?;
        let picture = self.leading()?;
        if !picture.has(old.0) && picture.has(new.0) && picture.role(new.0) == Role::Voter {
            return Ok(picture.index());
        }
        picture.expect_member(old)?;
        self.step_aside_for(old).await?;
        self.add(new, address).await?;
        let voters = |picture: &Picture| match picture.role(old.0) {
            Role::Learner => picture.voters_with(&[], &[]),
            Role::Voter => picture.voters_with(&[new.0], &[old.0]),
        };
        let picture = self
            .judged(PATIENCE, |picture| {
                picture.expect_caught_up(new)?;
                picture.expect_quorum(&voters(picture))
            })
            .await?;
        let change = match picture.role(old.0) {
            Role::Learner => ChangeMembers::RemoveNodes(BTreeSet::from([old.0])),
            Role::Voter => ChangeMembers::ReplaceAllVoters(voters(&picture)),
        };
        self.commit(&picture, change).await
    }

    /// Gives a member another peer address. It must answer there, with the data directory that
    /// is known. If it is this node, leadership is handed over first, as in [`Node::remove`].
    ///
    /// # Errors
    /// [`MembershipError`].
    pub async fn set_address(
        &self,
        id: MasterId,
        address: &str,
    ) -> Result<LogIndex, MembershipError> {
        let _changing = self.changing().await?;
        let picture = self.leading()?;
        let peer = picture.expect_member(id)?;
        if peer.addr == address {
            return Ok(picture.index());
        }
        picture.expect_free(address)?;
        self.step_aside_for(id).await?;
        let hello = self.met(id, address).await?;
        let peer = Peer { addr: address.to_owned(), store: hello.store };
        self.commit(&picture, ChangeMembers::SetNodes(BTreeMap::from([(id.0, peer)]))).await
    }

    /// Waits a moment, because the finisher looks at every change when it is over.
    async fn changing(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, MembershipError> {
        let waiting = tokio::time::timeout(BUSY, self.inner.changing.lock());
        waiting.await.map_err(|_| MembershipError::InProgress)
    }

    /// The members as this leader sees them.
    fn leading(&self) -> Result<Picture, MembershipError> {
        if self.inner.closing.is_cancelled() {
            return Err(MembershipError::Stopped);
        }
        match *self.inner.leadership.borrow() {
            Leadership::Leading { .. } => {}
            Leadership::Following { leader, .. } => {
                return Err(MembershipError::NotLeader { leader: Some(leader) });
            }
            Leadership::Unknown { .. } => return Err(MembershipError::NotLeader { leader: None }),
        }
        Ok(Picture::of(self))
    }

    async fn add(&self, id: MasterId, address: &str) -> Result<LogIndex, MembershipError> {
        let picture = self.leading()?;
        match picture.peer(id.0) {
            Some(peer) if peer.addr == address => return Ok(picture.index()),
            Some(peer) => {
                let address = peer.addr.clone();
                return Err(MembershipError::AlreadyMember { id, address });
            }
            None => picture.expect_free(address)?,
        }
        let known = self.inner.members.store_of(id.0);
        let hello = self.met(id, address).await?;
        if hello.stake() == wire::Stake::Formed && known != hello.store {
            let reason = "its directory belongs to a cluster already".to_owned();
            return Err(MembershipError::Refused { id, address: address.to_owned(), reason });
        }
        // Before the first entry goes there: by this the new member sees that it is meant.
        self.inner.members.adopt(&Stores::from([(id.0, hello.store)]));
        let peer = Peer { addr: address.to_owned(), store: hello.store };
        self.commit(&picture, ChangeMembers::AddNodes(BTreeMap::from([(id.0, peer)]))).await
    }

    /// Whoever answers at `address`, if it is `id` and has a directory that is its own.
    async fn met(&self, id: MasterId, address: &str) -> Result<wire::Hello, MembershipError> {
        let inner = &self.inner;
        let refused =
            |reason: String| MembershipError::Refused { id, address: address.to_owned(), reason };
        let meeting = network::meet(inner.network.as_ref(), &inner.handshake, id.0, address);
        let hello = meeting.await.map_err(|unmet| match unmet {
            Unmet::Silent(reason) => {
                MembershipError::Unreachable { id, address: address.to_owned(), reason }
            }
            Unmet::Stranger(reason) => refused(reason),
        })?;
        if hello.node != id.0 {
            return Err(refused(format!("it is master {}", hello.node)));
        }
        if hello.store == 0 {
            return Err(refused("its program is too old".to_owned()));
        }
        Ok(hello)
    }

    /// A leader does not remove or move itself: it would lead a cluster that it is no member of.
    async fn step_aside_for(&self, id: MasterId) -> Result<(), MembershipError> {
        if id != self.inner.config.id {
            return Ok(());
        }
        self.transfer_leadership(None).await?;
        let timeout = self.inner.config.election_timeout_max() * 2;
        let mut leadership = self.leadership();
        let follows = |now: &Leadership| matches!(now, Leadership::Following { .. });
        let known = tokio::time::timeout(timeout, leadership.wait_for(follows)).await;
        let leader = match known.ok().and_then(Result::ok).map(|now| *now) {
            Some(Leadership::Following { leader, .. }) => Some(leader),
            _ => None,
        };
        Err(MembershipError::NotLeader { leader })
    }

    /// The members as soon as they pass a check; after `patience` why they do not. Whoever counts
    /// has answered since the call began.
    async fn judged(
        &self,
        patience: Duration,
        check: impl Fn(&Picture) -> Result<(), MembershipError>,
    ) -> Result<Picture, MembershipError> {
        let begin = Instant::now();
        let deadline = begin + patience;
        let mut metrics = self.inner.raft.metrics();
        loop {
            drop(metrics.borrow_and_update());
            self.leading()?;
            let picture = Picture::since(self, Some(begin));
            let Err(refusal) = check(&picture) else { return Ok(picture) };
            match tokio::time::timeout_at(deadline, metrics.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(MembershipError::Stopped),
                Err(_) => return Err(refusal),
            }
        }
    }

    /// Proposes a change of the membership that was judged, and waits until it is complete.
    async fn commit(&self, judged: &Picture, change: Change) -> Result<LogIndex, MembershipError> {
        let last_membership_log_id: Option<LogId> = *judged.membership.log_id();
        let unchanged = Precondition::LastMembershipLogId { last_membership_log_id };
        let changing = self.inner.raft.change_membership_if(change, false, [unchanged]);
        let Ok(changed) = tokio::time::timeout(PATIENCE, changing).await else {
            return Err(MembershipError::Unknown);
        };
        match changed {
            Ok(response) => Ok(LogIndex(response.log_id.index)),
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(forward))) => {
                Err(not_leading(forward.leader_id, forward.reason).into())
            }
            Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(
                ChangeMembershipError::InProgress(_)
                | ChangeMembershipError::UncommittedLeaderLog(_),
            ))) => Err(MembershipError::InProgress),
            Err(RaftError::APIError(ClientWriteError::PreconditionFailed(_))) => {
                Err(MembershipError::InProgress)
            }
            Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(error))) => {
                Err(MembershipError::Impossible { reason: error.to_string() })
            }
            Err(RaftError::APIError(ClientWriteError::LogEntryDiscarded(_))) => {
                Err(MembershipError::Unknown)
            }
            Err(RaftError::Fatal(_)) => Err(MembershipError::Stopped),
        }
    }
}
