//! Who stands for election after the leader's death, and when: one after the other, in the order
//! of their ids. Two that stand at once would split the votes, and pre-votes do not help against
//! that: both would get them. Must not know how a death is found out.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use openraft::RaftState;
use openraft::async_runtime::WatchReceiver;
use tokio::time::Instant;

use super::{Failover, Followed, Suspect, Verdict};
use crate::machine::Machine;
use crate::types::{Types, Vote};

/// Time between one candidate and the next. More than the skew between the nodes' discoveries
/// and a round of pre-votes; an election in progress shows itself by its vote.
const STAGGER: Duration = Duration::from_millis(25);
/// Shortest time that is left to an election before the next attempt.
const ATTEMPT: Duration = Duration::from_millis(150);
/// An election is half a dozen syncs, one after the other; an attempt that comes earlier would
/// end an election that is only slow.
const SYNCS: u32 = 8;
/// Attempts of one node; after them the usual election timeout takes over.
const ROUNDS: u32 = 6;

/// The position of `me` among those who may lead next; `None` for a node that has no vote.
fn rank(voters: &BTreeSet<u64>, leader: u64, dead: &BTreeSet<u64>, me: u64) -> Option<u32> {
    let mut order = voters.iter().filter(|id| **id != leader && !dead.contains(id));
    order.position(|id| *id == me).and_then(|rank| u32::try_from(rank).ok())
}

/// When the attempt of a round begins, counted from the end of the round before.
fn slot(round: u32, rank: u32, sync_p99: Duration) -> Duration {
    ATTEMPT.max(sync_p99 * SYNCS) * round + STAGGER * rank
}

impl<M: Machine> Failover<M> {
    /// Stands for election when this node's turn comes, unless another leader is known by then
    /// or the former one is back. Returns when there is nothing more to do.
    pub(super) async fn compete(&self, followed: &Followed) {
        let voters = self.voters().await;
        for round in 0..ROUNDS {
            let began = Instant::now();
            let dead = self.dead_before_me(&voters, followed).await;
            // A learner has given up its lease, and that is all that it can do.
            let Some(rank) = rank(&voters, followed.leader.node, &dead, self.id) else { return };
            let sync_p99 = self.log.commit_p99().unwrap_or_default();
            let turn = began + slot(round, rank, sync_p99);
            if self.is_led_by_another_until(turn, followed).await {
                return;
            }
            // The core itself is asked: what it publishes lags behind while it writes a vote, and
            // an election on top of a vote that it just grants would depose the new leader.
            let Some(vote) = self.look(|state| *state.vote_ref()).await else { return };
            if is_newer_leader(&vote, followed) || self.lines.has(followed.leader) {
                return;
            }
            // A candidate that cannot write its own vote down only costs the others time.
            if self.stall.is_on() {
                return;
            }
            let is_campaign = vote != followed.vote;
            if is_campaign && round == 0 {
                continue;
            }
            self.counts.fast_elections.fetch_add(1, Ordering::Relaxed);
            tracing::info!(round, rank, dead = followed.leader.node, "standing for election");
            if self.raft.trigger().elect(true).await.is_err() {
                return;
            }
        }
    }

    /// Voters before this one that need not be waited for, since nobody listens at their
    /// address. All are asked at once, while this node waits for its turn anyway.
    async fn dead_before_me(&self, voters: &BTreeSet<u64>, followed: &Followed) -> BTreeSet<u64> {
        let before: Vec<u64> = voters
            .iter()
            .copied()
            .filter(|id| *id < self.id && *id != followed.leader.node)
            .collect();
        let read = move |state: &RaftState<Types<M>>| {
            let membership = state.membership_state.effective();
            let address = |id: u64| Some((id, membership.get_node(&id)?.addr.clone()));
            before.into_iter().filter_map(address).collect::<Vec<_>>()
        };
        let peers = self.look(read).await.unwrap_or_default();
        let probes = peers.into_iter().map(|(node, address)| async move {
            let suspect = Suspect { node, boot: None, address };
            let probe = self.prober.probe(&suspect);
            let verdict = tokio::time::timeout(STAGGER, probe).await;
            (verdict == Ok(Verdict::Dead)).then_some(node)
        });
        join_all(probes).await.into_iter().flatten().collect()
    }

    /// Waits for this node's turn. `true`, as soon as another leader is known.
    async fn is_led_by_another_until(&self, turn: Instant, followed: &Followed) -> bool {
        let mut metrics = self.raft.server_metrics();
        loop {
            if is_newer_leader(&metrics.borrow_and_update().vote, followed) {
                return true;
            }
            match tokio::time::timeout_at(turn, metrics.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return true,
                Err(_) => return false,
            }
        }
    }
}

fn is_newer_leader(vote: &Vote, followed: &Followed) -> bool {
    vote.is_committed() && *vote != followed.vote
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(leader: u64, dead: &[u64]) -> Vec<Option<u32>> {
        let (voters, dead) = (BTreeSet::from([1, 2, 4, 5]), dead.iter().copied().collect());
        (1..=5).map(|me| rank(&voters, leader, &dead, me)).collect()
    }

    #[test]
    fn ranks_follow_the_ids_of_living_voters() {
        assert_eq!(ranks(1, &[]), [None, Some(0), None, Some(1), Some(2)]);
        assert_eq!(ranks(4, &[]), [Some(0), Some(1), None, None, Some(2)]);
        assert_eq!(ranks(4, &[1]), [None, Some(0), None, None, Some(1)]);
    }

    #[test]
    fn attempts_leave_time_to_elections() {
        let millis = Duration::from_millis;
        assert_eq!(slot(0, 0, millis(100)), Duration::ZERO);
        assert_eq!(slot(0, 2, millis(100)), millis(50));
        assert_eq!(slot(1, 0, millis(2)), millis(150));
        assert_eq!(slot(2, 1, millis(20)), millis(345));
    }
}
