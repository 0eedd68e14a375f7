//! The members at one moment, and what may be done to them. Must not know how it is done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use openraft::Instant as _;
use openraft::async_runtime::WatchReceiver;
use resources::id::{LogIndex, MasterId};
use tokio::time::Instant;

use super::{LAG_MAX, MembershipError, Role};
use crate::leadership::Leadership;
use crate::machine::Machine;
use crate::node::Node;
use crate::types::{LogId, Peer, StoredMembership};

/// The members as one node sees them.
pub(super) struct Picture {
    pub(super) me: u64,
    pub(super) is_leading: bool,
    pub(super) membership: Arc<StoredMembership>,
    /// Members that answered lately, this node included.
    pub(super) answering: BTreeSet<u64>,
    matched: BTreeMap<u64, Option<LogId>>,
    last_log: Option<u64>,
}

impl Picture {
    /// The members by what is known now.
    pub(super) fn of<M: Machine>(node: &Node<M>) -> Self {
        Self::since(node, None)
    }

    /// The same, and only who answered a message sent after `begin` counts as answering: one that
    /// has just died answered within the longest election timeout, too.
    pub(super) fn since<M: Machine>(node: &Node<M>, begin: Option<Instant>) -> Self {
        let inner = &node.inner;
        let is_leading = matches!(*inner.leadership.borrow(), Leadership::Leading { .. });
        let metrics = inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let timeout = inner.config.election_timeout_max();
        let age_max = begin.map_or(timeout, |begin| begin.elapsed().min(timeout));
        let me = inner.config.id.0;
        let heard = metrics.heartbeat.iter().flatten();
        let answering = heard
            .filter(|(_, at)| at.is_some_and(|at| at.elapsed() < age_max))
            .map(|(id, _)| *id)
            .chain([me])
            .collect();
        let mut matched = metrics.replication.clone().unwrap_or_default();
        if is_leading {
            matched.insert(me, *inner.state.applied().borrow());
        }
        Self {
            me,
            is_leading,
            membership: metrics.membership_config.clone(),
            answering,
            matched: if is_leading { matched } else { BTreeMap::new() },
            last_log: metrics.last_log_index,
        }
    }

    /// Position of the entry that brought this membership.
    pub(super) fn index(&self) -> LogIndex {
        LogIndex(self.membership.log_id().as_ref().map_or(0, |id| id.index))
    }

    pub(super) fn peer(&self, id: u64) -> Option<&Peer> {
        self.membership.membership().get_node(&id)
    }

    pub(super) fn has(&self, id: u64) -> bool {
        self.peer(id).is_some()
    }

    pub(super) fn role(&self, id: u64) -> Role {
        let is_voter = self.membership.membership().voter_ids().any(|voter| voter == id);
        if is_voter { Role::Voter } else { Role::Learner }
    }

    pub(super) fn matched(&self, id: u64) -> Option<LogId> {
        self.matched.get(&id).copied().flatten()
    }

    /// Entries of the own log that a member is not known to have.
    pub(super) fn lag(&self, id: u64) -> u64 {
        let entries = |last: Option<u64>| last.map_or(0, |last| last + 1);
        let matched = self.matched(id).map(|id| id.index);
        entries(self.last_log).saturating_sub(entries(matched))
    }

    /// The voters after a change. Between two sets the newer one counts.
    pub(super) fn voters_with(&self, added: &[u64], removed: &[u64]) -> BTreeSet<u64> {
        let sets = self.membership.membership().get_joint_config();
        let mut voters = sets.last().cloned().unwrap_or_default();
        voters.extend(added);
        voters.retain(|id| !removed.contains(id));
        voters
    }

    pub(super) fn expect_member(&self, id: MasterId) -> Result<&Peer, MembershipError> {
        self.peer(id.0).ok_or(MembershipError::NotAMember { id })
    }

    pub(super) fn expect_free(&self, address: &str) -> Result<(), MembershipError> {
        let mut nodes = self.membership.membership().nodes();
        match nodes.find(|(_, peer)| peer.addr == address) {
            Some((id, _)) => Err(MembershipError::AddressTaken {
                id: MasterId(*id),
                address: address.to_owned(),
            }),
            None => Ok(()),
        }
    }

    pub(super) fn expect_caught_up(&self, id: MasterId) -> Result<(), MembershipError> {
        let lag = self.lag(id.0);
        // A learner that was just added has matched nothing, however short the log is.
        if lag > LAG_MAX || self.matched(id.0).is_none() {
            return Err(MembershipError::NotCaughtUp { id, lag, limit: LAG_MAX });
        }
        if !self.answering.contains(&id.0) {
            return Err(MembershipError::NotAnswering { id });
        }
        Ok(())
    }

    /// A quorum of these voters answers.
    pub(super) fn expect_quorum(&self, voters: &BTreeSet<u64>) -> Result<(), MembershipError> {
        let answering = voters.intersection(&self.answering).count();
        let needed = voters.len() / 2 + 1;
        if answering < needed {
            return Err(MembershipError::QuorumLost { voters: voters.len(), answering, needed });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{CommittedLeaderId, Membership};

    /// Voters 1, 2, 3 at `a1`, `a2`, `a3`, learner 4; seen by 1.
    fn picture(answering: &[u64]) -> Picture {
        let peer = |id: u64| (id, Peer { addr: format!("a{id}"), store: 0 });
        let nodes: BTreeMap<u64, Peer> = (1..=4).map(peer).collect();
        let membership = Membership::new(vec![BTreeSet::from([1, 2, 3])], nodes).unwrap();
        let at = |index| Some(LogId::new(CommittedLeaderId::new(1), index));
        Picture {
            me: 1,
            is_leading: true,
            membership: Arc::new(StoredMembership::new(at(7), membership)),
            answering: answering.iter().copied().collect(),
            matched: BTreeMap::from([(2, at(500)), (3, at(399)), (4, at(398)), (5, None)]),
            last_log: Some(500),
        }
    }

    fn lost(voters: usize, answering: usize, needed: usize) -> Result<(), MembershipError> {
        Err(MembershipError::QuorumLost { voters, answering, needed })
    }

    #[test]
    fn change_must_leave_a_quorum_that_answers() {
        let check = |answering: &[u64], added: &[u64], removed: &[u64]| {
            let picture = picture(answering);
            picture.expect_quorum(&picture.voters_with(added, removed))
        };
        assert_eq!(check(&[1, 2, 3], &[], &[3]), Ok(()));
        assert_eq!(check(&[1, 2], &[], &[3]), Ok(()), "a dead one may go");
        assert_eq!(check(&[1, 3], &[], &[3]), lost(2, 1, 2));
        assert_eq!(check(&[1, 2], &[4], &[]), lost(4, 2, 3));
        assert_eq!(check(&[1, 2, 4], &[4], &[3]), Ok(()));
        assert_eq!(check(&[1], &[], &[1, 2, 3]), lost(0, 0, 1));
    }

    #[test]
    fn learner_must_have_caught_up_and_answer() {
        let id = MasterId;
        assert_eq!(picture(&[3]).expect_caught_up(id(2)), Err(not_answering(2)));
        assert_eq!(picture(&[2]).expect_caught_up(id(2)), Ok(()));
        assert_eq!(picture(&[3]).lag(3), 101);
        let behind = |id, lag| MembershipError::NotCaughtUp { id, lag, limit: LAG_MAX };
        assert_eq!(picture(&[4]).expect_caught_up(id(4)), Err(behind(id(4), 102)));
        assert_eq!(picture(&[5]).expect_caught_up(id(5)), Err(behind(id(5), 501)));
    }

    fn not_answering(id: u64) -> MembershipError {
        MembershipError::NotAnswering { id: MasterId(id) }
    }

    #[test]
    fn members_are_told_apart() {
        let picture = picture(&[]);
        assert_eq!((picture.role(3), picture.role(4)), (Role::Voter, Role::Learner));
        assert_eq!(picture.index(), LogIndex(7));
        let taken = MembershipError::AddressTaken { id: MasterId(2), address: "a2".to_owned() };
        assert_eq!(picture.expect_free("a2"), Err(taken));
        assert_eq!(picture.expect_free("a9"), Ok(()));
        let stranger = MembershipError::NotAMember { id: MasterId(9) };
        assert_eq!(picture.expect_member(MasterId(9)).unwrap_err(), stranger);
    }
}
