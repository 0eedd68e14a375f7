//! Giving leadership up: to whom, and what becomes of a leader that nobody succeeds. Must not
//! know why. Next: `watchdog.rs`.

use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::raft::VoteRequest;
use openraft::vote::RaftLeaderId;
use openraft::{Instant as _, RaftState};
use tokio::sync::oneshot;

use crate::machine::Machine;
use crate::types::{LogId, Raft, Types, Vote};

/// The other voter that answers and has the longest known log; only a leader knows one.
pub(crate) fn best_successor<M: Machine>(
    raft: &Raft<M>,
    me: u64,
    timeout: Duration,
) -> Option<u64> {
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    let matched = metrics.replication.as_ref()?;
    let answered = metrics.heartbeat.as_ref()?;
    let is_answering =
        |id: &u64| answered.get(id).copied().flatten().is_some_and(|at| at.elapsed() < timeout);
    metrics
        .membership_config
        .voter_ids()
        .filter(|id| *id != me)
        .max_by_key(|id| (is_answering(id), matched.get(id).copied().flatten()))
}

/// Ends a leadership that was handed over to `to`, who did not take it. A leader that was told to
/// hand over sends no heartbeats and takes no proposals in that term any more, but it does not
/// stand for election again either; if its log is the longest, nobody else can win. So it votes
/// for its successor in the next term, as if asked, and becomes a follower like any other. A vote
/// that nobody counts harms nobody.
pub(crate) async fn abdicate<M: Machine>(raft: &Raft<M>, term: u64, to: u64) {
    let (answer, found) = oneshot::channel();
    let read = move |state: &RaftState<Types<M>>| {
        let last: Option<LogId> = state.log_ids.last().copied();
        // The receiver goes only together with its caller.
        let _ = answer.send((*state.vote_ref(), last));
    };
    if raft.external_request(read).await.is_err() {
        return;
    }
    let Ok((vote, last_log_id)) = found.await else { return };
    if vote.leader_id().term() != term {
        return;
    }
    tracing::info!(term, to, "nobody took the leadership over, this node gives it up");
    let request =
        VoteRequest { vote: Vote::new(term + 1, to), last_log_id, leadership_transfer: true };
    if let Err(error) = raft.vote(request).await {
        tracing::debug!(%error, "the consensus core has stopped");
    }
}
