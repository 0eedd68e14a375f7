//! What the metrics are read off: this process, where it stands in the log, what it did as a
//! leader, and sums over the replicated state. Must not know the names under which it is
//! published. Next: `sums.rs`.

use std::time::Duration;

use raft::{FailoverCounts, Timing};
use resources::id::LogIndex;
use resources::operation::Operation;

use super::StateFacts;
use crate::leader::Counts;

/// Resources whose totals are metrics.
pub(super) const TOTALS: [&str; 4] = ["cpus", "gpus", "mem", "disk"];
/// Operations by Mesos' name in metrics.
pub(super) const OPERATIONS: [&str; 6] =
    ["reserve", "unreserve", "create", "destroy", "grow_volume", "shrink_volume"];

/// What the metrics are read off.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) uptime: Duration,
    pub(crate) is_leader: bool,
    /// Agents with a session, and those of them which are to be used.
    pub(crate) agents_connected: usize,
    pub(crate) agents_active: usize,
    pub(crate) raft: RaftFacts,
    /// What this process did as a leader.
    pub(crate) counts: Counts,
    /// Nothing while this master does not lead: the leader publishes it.
    pub(crate) state: StateFacts,
}

/// Where this master stands in the log.
#[derive(Debug, Clone, Default)]
pub(crate) struct RaftFacts {
    pub(crate) term: u64,
    pub(crate) last_log: u64,
    pub(crate) committed: u64,
    pub(crate) applied: u64,
    pub(crate) snapshot: u64,
    pub(crate) purged: u64,
    pub(crate) masters: usize,
    pub(crate) commit_p99: Option<Duration>,
    /// Since a quorum last took this master for the leader; none unless it leads.
    pub(crate) last_quorum_ack: Option<Duration>,
    pub(crate) timing: Option<Timing>,
    pub(crate) failover: FailoverCounts,
}

impl RaftFacts {
    pub(crate) fn of(status: &raft::Status) -> Self {
        let at = |index: Option<LogIndex>| index.map_or(0, |index| index.0);
        Self {
            term: status.term.0,
            last_log: at(status.last_log),
            committed: at(status.committed),
            applied: at(status.applied),
            snapshot: at(status.snapshot),
            purged: at(status.purged),
            masters: status.peers.len() + 1,
            commit_p99: status.commit_p99,
            last_quorum_ack: status.last_quorum_ack,
            timing: Some(status.timing),
            failover: status.failover,
        }
    }
}

/// Mesos' name of an operation in metrics; none for a launch, which is counted in tasks.
pub(super) fn kind(operation: &Operation) -> Option<&'static str> {
    match operation {
        Operation::Reserve { .. } => Some(OPERATIONS[0]),
        Operation::Unreserve { .. } => Some(OPERATIONS[1]),
        Operation::Create { .. } => Some(OPERATIONS[2]),
        Operation::Destroy { .. } => Some(OPERATIONS[3]),
        Operation::Grow { .. } => Some(OPERATIONS[4]),
        Operation::Shrink { .. } => Some(OPERATIONS[5]),
        Operation::Launch(_) => None,
    }
}
