//! What a node says about itself. Next: `env.rs`.

use std::time::Duration;

use resources::id::{LogIndex, MasterId, Term};

use crate::leadership::Leadership;

/// The state of a node at one moment; each number is read for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// This node.
    pub id: MasterId,
    /// The newest term that it knows.
    pub term: Term,
    /// Who leads.
    pub leadership: Leadership,
    /// Last entry in its log; `None` while the log is empty.
    pub last_log: Option<LogIndex>,
    /// Last entry that it knows to be committed.
    pub committed: Option<LogIndex>,
    /// Last entry that its state contains.
    pub applied: Option<LogIndex>,
    /// The digest chain: equal on all nodes at the same index.
    pub digest: (LogIndex, [u8; 32]),
    /// Last entry in its newest snapshot.
    pub snapshot: Option<LogIndex>,
    /// Last entry that its log no longer holds.
    pub purged: Option<LogIndex>,
    /// The other members.
    pub peers: Vec<PeerStatus>,
    /// 99th percentile of the recent log commits, each of which holds one sync.
    pub commit_p99: Option<Duration>,
    /// Time since a quorum last acknowledged this node as leader; `None` unless it leads.
    pub last_quorum_ack: Option<Duration>,
    /// The cluster id, once known.
    pub cluster_id: Option<String>,
    /// The timing in force.
    pub timing: Timing,
    /// What was done about leaders whose connections ended.
    pub failover: FailoverCounts,
    /// For how long a write to the log has not returned, once that is longer than the longest
    /// election timeout: then this node neither leads nor votes.
    pub disk_stalled: Option<Duration>,
}

/// Intervals that hold for this start, after the disk was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Interval of the leader's heartbeats.
    pub heartbeat: Duration,
    /// Shortest election timeout; the longest is twice it.
    pub election_timeout: Duration,
    /// 99th percentile of the small synced writes with which the disk was measured.
    pub sync_p99: Duration,
}

/// What this node did since its start about leaders whose connections ended (see
/// `failover.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FailoverCounts {
    /// Probes that found the leader's process dead.
    pub found_dead: u64,
    /// Probes that found it alive.
    pub found_alive: u64,
    /// Probes that proved neither.
    pub found_unknown: u64,
    /// Leaderships on which this node gave up its lease.
    pub leases_released: u64,
    /// Elections that it stood for without waiting for a timeout. One that no quorum wanted
    /// counts, too, and leaves the term as it was.
    pub fast_elections: u64,
}

/// Another member, as this node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerStatus {
    /// The member.
    pub id: MasterId,
    /// Its peer address.
    pub address: String,
    /// Public address that it announced, once it was met.
    pub advertise: Option<String>,
    /// Last entry that is known to be on its disk; only while this node leads.
    pub matched: Option<LogIndex>,
}
