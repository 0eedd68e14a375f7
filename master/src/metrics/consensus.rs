//! Where this master stands in the log, how fast its disk is, and what it did about leaders
//! that died. Next: `../http/read.rs`.

use super::facts::RaftFacts;
use super::{Sample, count, flag, number};

pub(super) fn samples(raft: &RaftFacts) -> Vec<Sample> {
    let mut samples = vec![
        Sample::gauge("master_raft_term", "Term of this master.", count(raft.term)),
        Sample::gauge("master_raft_last_log_index", "Last entry.", count(raft.last_log)),
        Sample::gauge("master_raft_committed_index", "Committed entry.", count(raft.committed)),
        Sample::gauge("master_raft_applied_index", "Applied entry.", count(raft.applied)),
        Sample::gauge("master_raft_snapshot_index", "Last entry of the newest snapshot.", {
            count(raft.snapshot)
        }),
        Sample::gauge("master_raft_purged_index", "Last entry that the log dropped.", {
            count(raft.purged)
        }),
        Sample::gauge("master_raft_masters", "Members of the cluster.", number(raft.masters))
            .mesos("registrar/log/ensemble_size"),
        Sample::only_mesos("registrar/log/recovered", flag(raft.applied >= raft.committed)),
    ];
    if let Some(p99) = raft.commit_p99 {
        let help = "99th percentile of the log's commits, each with one sync.";
        samples.push(
            Sample::gauge("master_raft_fsync_p99_seconds", help, p99.as_secs_f64())
                .mesos("registrar/log/fsync_p99_secs"),
        );
        let milliseconds = p99.as_secs_f64() * 1000.0;
        samples.push(Sample::only_mesos("registrar/state_store_ms/p99", milliseconds));
    }
    samples.extend(timing(raft));
    samples.extend(failover(raft));
    samples
}

fn timing(raft: &RaftFacts) -> Vec<Sample> {
    let mut samples = Vec::new();
    if let Some(timing) = raft.timing {
        for (family, help, value) in [
            (
                "master_raft_heartbeat_interval_seconds",
                "Interval of a leader's heartbeats, after the disk was measured.",
                timing.heartbeat,
            ),
            (
                "master_raft_election_timeout_seconds",
                "Shortest election timeout, after the disk was measured.",
                timing.election_timeout,
            ),
            (
                "master_raft_start_sync_p99_seconds",
                "99th percentile of the synced writes at the start.",
                timing.sync_p99,
            ),
        ] {
            samples.push(Sample::gauge(family, help, value.as_secs_f64()));
        }
    }
    if let Some(since) = raft.last_quorum_ack {
        let help = "Time since a quorum last took this master for the leader.";
        samples.push(Sample::gauge(
            "master_raft_last_quorum_ack_seconds",
            help,
            since.as_secs_f64(),
        ));
    }
    samples
}

fn failover(raft: &RaftFacts) -> Vec<Sample> {
    let counts = &raft.failover;
    let found = [
        ("dead", counts.found_dead),
        ("alive", counts.found_alive),
        ("unknown", counts.found_unknown),
    ];
    let probes = found.map(|(verdict, value)| {
        let help = "Leaders that were looked for after their connections ended, by verdict.";
        Sample::counter("master_raft_probes_total", help, value).label("verdict", verdict)
    });
    let released = "Leaderships on which this master gave up its lease.";
    let fast = "Elections that this master stood for without waiting for a timeout.";
    let others = [
        Sample::counter("master_raft_leases_released_total", released, counts.leases_released),
        Sample::counter("master_raft_fast_elections_total", fast, counts.fast_elections),
    ];
    probes.into_iter().chain(others).collect()
}
