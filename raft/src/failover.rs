//! Failover that does not wait for a lease: the death of the leader's process is seen by the
//! end of its connections, proved by an own probe, and answered by an ordered election.
//!
//! Each node acts on its own evidence alone. What it does to consensus is one thing: it gives
//! up its *own* lease on exactly the leadership whose process it found dead. Votes, terms, the
//! log and the rules of commitment are untouched, so a wrong verdict costs at most an election;
//! what it does cost for ever is reads by lease, which `reads.rs` therefore never makes.
//!
//! Must not know what is replicated. Reading order: `failover/lines.rs` (connections and their
//! ends), `failover/probe.rs` (is that process dead?), `failover/election.rs` (who stands for
//! election, and when). Next: `upkeep.rs`.

mod election;
mod lines;
mod probe;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openraft::RaftState;
use openraft::raft::TransferLeaderRequest;
use openraft::vote::RaftLeaderId;
use tokio::sync::oneshot;

use crate::leadership::Heard;
use crate::log_store::LogStore;
use crate::machine::Machine;
use crate::status::FailoverCounts;
use crate::types::{Raft, Types, Vote};
use crate::watchdog::Stall;

pub(crate) use lines::{Incarnation, Line, Lines};
pub(crate) use probe::{Prober, Suspect, Verdict};

/// How long a voter waits for the end of a connection that a candidate has seen already: the
/// resets of one process reach its peers within this time of each other.
const RESET_SKEW: Duration = Duration::from_millis(10);

/// Watches over the leader that this node follows.
pub(crate) struct Failover<M: Machine> {
    pub(crate) id: u64,
    pub(crate) raft: Raft<M>,
    pub(crate) log: LogStore<M>,
    pub(crate) lines: Arc<Lines>,
    pub(crate) heard: Arc<Heard>,
    pub(crate) prober: Prober,
    pub(crate) counts: Arc<Counts>,
    pub(crate) stall: Arc<Stall>,
}

/// The leadership that this node follows, as its consensus core knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Followed {
    vote: Vote,
    /// The leader's process, as it was last heard of.
    leader: Incarnation,
    address: String,
}

impl Followed {
    fn suspect(&self) -> Suspect {
        Suspect {
            node: self.leader.node,
            boot: Some(self.leader.boot),
            address: self.address.clone(),
        }
    }
}

impl<M: Machine> Failover<M> {
    /// Looks whenever the last connection of some process has ended. An end that comes while a
    /// look is under way leads to another one after it. Never returns.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.lines.lost().await;
            self.investigate().await;
        }
    }

    async fn investigate(&self) {
        let Some(followed) = self.followed().await else { return };
        if self.lines.has(followed.leader) {
            return;
        }
        if self.is_dead(&followed).await {
            self.give_up(&followed).await;
            self.compete(&followed).await;
        }
    }

    /// Called before a vote or pre-vote of `candidate` for `term` is decided. A node that still
    /// holds a lease on a dead leader would refuse; so, where the leader's connections are gone,
    /// it looks for itself. The candidate's word counts for nothing.
    pub(crate) async fn before_vote(&self, term: u64) {
        let Some(followed) = self.followed().await else { return };
        let (is_old, is_known) =
            (term <= followed.vote.leader_id().term(), self.heard.is_given_up(&followed.vote));
        if is_old || is_known {
            return;
        }
        self.lines.wait_for_end(followed.leader, RESET_SKEW).await;
        if !self.lines.has(followed.leader) && self.is_dead(&followed).await {
            self.give_up(&followed).await;
        }
    }

    /// The committed vote of another node, if this node follows one whose process it has heard.
    async fn followed(&self) -> Option<Followed> {
        let read = |state: &RaftState<Types<M>>| {
            let vote = *state.vote_ref();
            let node = *vote.leader_id().node_id();
            let address = state.membership_state.effective().get_node(&node)?.addr.clone();
            Some((vote, node, address))
        };
        let (vote, node, address) = self.look(read).await??;
        if !vote.is_committed() || node == self.id {
            return None;
        }
        let boot = self.heard.boot_of(&vote)?;
        Some(Followed { vote, leader: Incarnation { node, boot }, address })
    }

    /// The own probe's verdict; a process that came back meanwhile is not dead.
    async fn is_dead(&self, followed: &Followed) -> bool {
        let verdict = self.prober.probe(&followed.suspect()).await;
        self.counts.note(verdict);
        let (peer, term) = (followed.leader.node, followed.vote.leader_id().term());
        tracing::info!(peer, term, "the leader's connections ended; a probe found it {verdict}");
        verdict == Verdict::Dead && !self.lines.has(followed.leader)
    }

    /// Gives up the own lease on exactly this leadership. The library's call for a transfer to
    /// some other node than this one does that and nothing else, and ignores a vote that is not
    /// the current one. The lease stays given up until the term changes, even if the leader
    /// turns out to be alive: this node is then easier to persuade, never easier to fool.
    async fn give_up(&self, followed: &Followed) {
        let to = followed.leader.node;
        debug_assert_ne!(to, self.id, "a transfer to this node would start an election");
        let release = TransferLeaderRequest::new(followed.vote, to, None);
        let is_released = self.raft.handle_transfer_leader(release).await.is_ok();
        // After the release is on its way: whoever reads the note may rely on it.
        if is_released && self.heard.give_up(&followed.vote) {
            self.counts.leases_released.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Nodes that vote, by the last membership that is known to be committed.
    async fn voters(&self) -> BTreeSet<u64> {
        let read =
            |state: &RaftState<Types<M>>| state.membership_state.committed().voter_ids().collect();
        self.look(read).await.unwrap_or_default()
    }

    /// Looks at the state inside the core, which is ahead of what it publishes. `None` once the
    /// core has stopped. Unlike the library's `with_raft_state` this may be given up without a
    /// trace, as happens when a candidate hangs up or the node closes.
    async fn look<T: Send + 'static>(
        &self,
        read: impl FnOnce(&RaftState<Types<M>>) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, found) = oneshot::channel();
        let request = move |state: &RaftState<Types<M>>| drop(answer.send(read(state)));
        self.raft.external_request(request).await.ok()?;
        found.await.ok()
    }
}

/// What was done so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    dead: AtomicU64,
    alive: AtomicU64,
    unknown: AtomicU64,
    leases_released: AtomicU64,
    fast_elections: AtomicU64,
}

impl Counts {
    fn note(&self, verdict: Verdict) {
        let counter = match verdict {
            Verdict::Dead => &self.dead,
            Verdict::Alive => &self.alive,
            Verdict::Unknown => &self.unknown,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> FailoverCounts {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FailoverCounts {
            found_dead: value(&self.dead),
            found_alive: value(&self.alive),
            found_unknown: value(&self.unknown),
            leases_released: value(&self.leases_released),
            fast_elections: value(&self.fast_elections),
        }
    }
}
