//! How a node is set up, and the numbers that bound it. Must not know what is replicated.
//! Next: `env.rs`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use openraft::{Config, SnapshotPolicy};
use resources::id::MasterId;

/// Everything a node needs to know before it starts.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// This node's number, unique for ever in the cluster; must be a key of `peers`, unless the
    /// node is to join a cluster (see [`crate::Node::join`]).
    pub id: MasterId,
    /// The initial members and their peer addresses (`host:port`). One entry makes a cluster of
    /// one; several form theirs as soon as all of them have met. Once the data directory is
    /// initialised the members stand in the log, and this is only compared: an address in common
    /// is the same cluster, none at all is another one.
    pub peers: BTreeMap<MasterId, String>,
    /// Address to bind for peers.
    pub listen: String,
    /// Directory of the log and of the snapshot.
    pub work_dir: PathBuf,
    /// Public address, told to the peers for their redirects.
    pub advertise: String,
    /// Interval of the leader's heartbeats.
    pub heartbeat: Duration,
    /// Shortest election timeout; the longest is twice it.
    pub election_timeout: Duration,
    /// Named limits of queues, messages and snapshots.
    pub limits: Limits,
}

impl NodeConfig {
    /// Default interval of heartbeats.
    pub const HEARTBEAT: Duration = Duration::from_millis(100);
    /// Default shortest election timeout.
    pub const ELECTION_TIMEOUT: Duration = Duration::from_millis(300);

    /// The longest election timeout: a leader that was silent for longer counts as gone.
    #[must_use]
    pub fn election_timeout_max(&self) -> Duration {
        self.election_timeout * 2
    }

    /// The settings of the consensus library. What its defaults would do to us is said here,
    /// because two of them lose or endanger data.
    pub(crate) fn consensus(&self) -> Result<Config, openraft::ConfigError> {
        Config {
            cluster_name: "holdfast".to_owned(),
            heartbeat_interval: millis(self.heartbeat),
            election_timeout_min: millis(self.election_timeout),
            election_timeout_max: millis(self.election_timeout_max()),
            // On by default: a leader that was killed and restarted within its lease would go on
            // in the same term with a shorter log and give the same positions to other entries.
            enable_leader_restore: Some(false),
            enable_pre_vote: Some(true),
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.limits.snapshot_entries),
            max_in_snapshot_log_to_keep: self.limits.kept_entries,
            purge_batch_size: self.limits.kept_entries.clamp(1, 512),
            // A follower this far behind gets the snapshot even if the log would still do.
            replication_lag_threshold: self.limits.snapshot_entries.saturating_mul(2),
            max_payload_entries: 512,
            install_snapshot_timeout: millis(self.limits.snapshot_transfer),
            ..Config::default()
        }
        .validate()
    }
}

/// Named limits. The defaults suit a state of some hundred megabytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Entries after which a snapshot is built.
    pub snapshot_entries: u64,
    /// Bytes of unpurged log after which a snapshot is built, however few entries there are.
    pub snapshot_log_bytes: u64,
    /// Entries kept behind a snapshot, so that a follower that is a little late needs no
    /// snapshot. Never 0.
    pub kept_entries: u64,
    /// Longest transfer of a snapshot.
    pub snapshot_transfer: Duration,
    /// Largest encoded batch; beyond it a proposal is refused.
    pub batch_bytes: usize,
    /// Bytes of entries in one message to a follower; one entry may exceed it.
    pub append_bytes: usize,
    /// Largest message on the peer connections.
    pub message_bytes: usize,
    /// Bytes written to the log in one transaction.
    pub commit_bytes: usize,
    /// Bytes waiting for the log's writer; beyond it appends wait without blocking a thread.
    pub queue_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            snapshot_entries: 100_000,
            snapshot_log_bytes: 256 << 20,
            kept_entries: 10_000,
            snapshot_transfer: Duration::from_secs(600),
            batch_bytes: 8 << 20,
            append_bytes: 1 << 20,
            message_bytes: 32 << 20,
            commit_bytes: 4 << 20,
            queue_bytes: 64 << 20,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> NodeConfig {
        NodeConfig {
            id: MasterId(1),
            peers: BTreeMap::from([(MasterId(1), "127.0.0.1:6050".to_owned())]),
            listen: "127.0.0.1:6050".to_owned(),
            work_dir: PathBuf::from("data"),
            advertise: "127.0.0.1:5050".to_owned(),
            heartbeat: NodeConfig::HEARTBEAT,
            election_timeout: NodeConfig::ELECTION_TIMEOUT,
            limits: Limits::default(),
        }
    }

    /// Acknowledged entries were lost with the library's default (213 log positions that were
    /// acknowledged for two different writes in one measured run).
    #[test]
    fn restarted_leader_never_resumes_its_term() {
        let consensus = config().consensus().unwrap();
        assert_eq!(consensus.enable_leader_restore, Some(false));
        assert_eq!(consensus.enable_pre_vote, Some(true));
    }

    #[test]
    fn default_timeouts() {
        let consensus = config().consensus().unwrap();
        assert_eq!(consensus.heartbeat_interval, 100);
        assert_eq!(consensus.election_timeout_min..consensus.election_timeout_max, 300..600);
        assert!(consensus.max_in_snapshot_log_to_keep > 0);
    }
}
