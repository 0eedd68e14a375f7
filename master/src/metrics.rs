//! Every metric of a master: its name for Mesos' dashboards, its name for Prometheus, its help
//! text, and how it is read off the facts. Names stand nowhere else. Must not know HTTP.
//! Next: `http/read.rs`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use resources::id::LogIndex;
use resources::operation::Operation;
use resources::value::Scalar;

use crate::state::State;

/// Resources whose totals are metrics.
const TOTALS: [&str; 4] = ["cpus", "gpus", "mem", "disk"];
/// Operations by Mesos' name in metrics.
const OPERATIONS: [&str; 6] =
    ["reserve", "unreserve", "create", "destroy", "grow_volume", "shrink_volume"];
/// Classes of HTTP answers.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Counts since the start of the process.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    responses: [AtomicU64; CLASSES.len()],
}

impl Counters {
    /// Takes note of an answer.
    pub(crate) fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(counter) = self.responses.get(class) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What the metrics are read off.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) uptime_seconds: f64,
    pub(crate) is_leader: bool,
    /// Agents with a session.
    pub(crate) agents_connected: usize,
    pub(crate) raft: RaftFacts,
    pub(crate) state: StateFacts,
}

/// Where this master stands in the log.
#[derive(Debug, Clone, Default)]
pub(crate) struct RaftFacts {
    pub(crate) term: u64,
    pub(crate) last_log: u64,
    pub(crate) committed: u64,
    pub(crate) applied: u64,
    pub(crate) masters: usize,
    pub(crate) fsync_p99_seconds: Option<f64>,
}

impl RaftFacts {
    pub(crate) fn of(status: &raft::Status) -> Self {
        let at = |index: Option<LogIndex>| index.map_or(0, |index| index.0);
        Self {
            term: status.term.0,
            last_log: at(status.last_log),
            committed: at(status.committed),
            applied: at(status.applied),
            masters: status.peers.len() + 1,
            fsync_p99_seconds: status.commit_p99.map(|p99| p99.as_secs_f64()),
        }
    }
}

/// Sums over the replicated state.
#[derive(Debug, Clone, Default)]
pub(crate) struct StateFacts {
    agents: usize,
    alarms: usize,
    totals: BTreeMap<&'static str, Scalar>,
    pending: BTreeMap<&'static str, usize>,
}

impl StateFacts {
    /// Sums up a state.
    pub(crate) fn of(state: &State) -> Self {
        let mut facts = Self { alarms: state.alarms().count(), ..Self::default() };
        for agent in state.agents() {
            facts.agents += 1;
            for name in TOTALS {
                let total = facts.totals.entry(name).or_default();
                *total = total.saturating_add(agent.total.scalar(name).unwrap_or_default());
            }
        }
        for record in state.operations().filter(|record| !record.is_settled()) {
            *facts.pending.entry(kind(&record.operation)).or_default() += 1;
        }
        facts
    }
}

fn kind(operation: &Operation) -> &'static str {
    match operation {
        Operation::Reserve { .. } => OPERATIONS[0],
        Operation::Unreserve { .. } => OPERATIONS[1],
        Operation::Create { .. } => OPERATIONS[2],
        Operation::Destroy { .. } => OPERATIONS[3],
        Operation::Grow { .. } => OPERATIONS[4],
        Operation::Shrink { .. } => OPERATIONS[5],
    }
}

/// One value with its names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// Its name in `/metrics/snapshot`, where Mesos has such a metric.
    pub(crate) mesos: Option<Cow<'static, str>>,
    family: &'static str,
    help: &'static str,
    kind: Kind,
    label: Option<(&'static str, &'static str)>,
    pub(crate) value: f64,
}

/// What Prometheus may do with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
}

impl Sample {
    fn gauge(family: &'static str, help: &'static str, value: f64) -> Self {
        Self { mesos: None, family, help, kind: Kind::Gauge, label: None, value }
    }
    fn counter(family: &'static str, help: &'static str, value: f64) -> Self {
        Self { kind: Kind::Counter, ..Self::gauge(family, help, value) }
    }
    fn mesos(self, name: impl Into<Cow<'static, str>>) -> Self {
        Self { mesos: Some(name.into()), ..self }
    }
    fn label(self, name: &'static str, value: &'static str) -> Self {
        Self { label: Some((name, value)), ..self }
    }
}

/// All metrics of this moment.
pub(crate) fn samples(facts: &Facts, counters: &Counters) -> Vec<Sample> {
    let mut samples = process(facts);
    samples.extend(agents(facts));
    samples.extend(totals(facts));
    samples.extend(operations(facts));
    samples.extend(raft(&facts.raft));
    for (class, counter) in CLASSES.into_iter().zip(&counters.responses) {
        let value = index(counter.load(Ordering::Relaxed));
        let sample = Sample::counter("master_http_responses_total", "Answers of the API.", value);
        samples.push(sample.label("class", class));
    }
    samples
}

fn process(facts: &Facts) -> Vec<Sample> {
    vec![
        Sample::gauge("master_uptime_seconds", "Time since the start.", facts.uptime_seconds)
            .mesos("master/uptime_secs"),
        Sample::gauge("master_elected", "Whether this master leads.", flag(facts.is_leader))
            .mesos("master/elected"),
        Sample::gauge("master_alarms", "Alarms on record.", number(facts.state.alarms)),
    ]
}

fn agents(facts: &Facts) -> Vec<Sample> {
    // Sessions are the leader's: another master knows the agents and not who is connected.
    let (all, connected) = match facts.is_leader {
        true => (facts.state.agents, facts.agents_connected.min(facts.state.agents)),
        false => (0, 0),
    };
    let gauge = |mesos: &'static str, state: &'static str, value: usize| {
        Sample::gauge("master_agents", "Agents by state.", number(value))
            .label("state", state)
            .mesos(mesos)
    };
    vec![
        gauge("master/slaves_connected", "connected", connected),
        gauge("master/slaves_disconnected", "disconnected", all - connected),
        gauge("master/slaves_active", "active", connected),
        gauge("master/slaves_inactive", "inactive", all - connected),
        gauge("master/slaves_unreachable", "unreachable", 0),
    ]
}

fn totals(facts: &Facts) -> Vec<Sample> {
    let each = TOTALS.into_iter().flat_map(|name| {
        let total = facts.state.totals.get(name).copied().unwrap_or_default();
        let total = if facts.is_leader { total.to_f64() } else { 0.0 };
        let help = "Resources of all agents; mem and disk in megabytes.";
        let used = "Resources used by tasks.";
        [
            Sample::gauge("master_resources_total", help, total)
                .label("resource", name)
                .mesos(format!("master/{name}_total")),
            // Tasks come with frameworks: nothing is used.
            Sample::gauge("master_resources_used", used, 0.0)
                .label("resource", name)
                .mesos(format!("master/{name}_used")),
            Sample::gauge("master_resources_used_ratio", "Used share of the total.", 0.0)
                .label("resource", name)
                .mesos(format!("master/{name}_percent")),
        ]
    });
    each.collect()
}

fn operations(facts: &Facts) -> Vec<Sample> {
    let pending = |kind: &str| facts.state.pending.get(kind).copied().unwrap_or_default();
    let all: usize = facts.state.pending.values().sum();
    let help = "Operations that their agent has not confirmed.";
    let mut samples = vec![
        Sample::gauge("master_operations_pending_all", "All unconfirmed operations.", number(all))
            .mesos("master/operations/pending"),
    ];
    samples.extend(OPERATIONS.into_iter().map(|kind| {
        Sample::gauge("master_operations_pending", help, number(pending(kind)))
            .label("operation", kind)
            .mesos(format!("master/operations/{kind}/pending"))
    }));
    samples
}

fn raft(raft: &RaftFacts) -> Vec<Sample> {
    let mut samples = vec![
        Sample::gauge("master_raft_term", "Term of this master.", index(raft.term)),
        Sample::gauge("master_raft_last_log_index", "Last entry.", index(raft.last_log)),
        Sample::gauge("master_raft_committed_index", "Committed entry.", index(raft.committed)),
        Sample::gauge("master_raft_applied_index", "Applied entry.", index(raft.applied)),
        Sample::gauge("master_raft_masters", "Members of the cluster.", number(raft.masters))
            .mesos("registrar/log/ensemble_size"),
    ];
    if let Some(seconds) = raft.fsync_p99_seconds {
        let help = "99th percentile of the log's fsync.";
        samples.push(
            Sample::gauge("master_raft_fsync_p99_seconds", help, seconds)
                .mesos("registrar/log/fsync_p99_secs"),
        );
    }
    samples
}

/// The text form of Prometheus (exposition format 0.0.4).
pub(crate) fn prometheus(samples: &[Sample]) -> String {
    let mut families: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        families.entry(sample.family).or_default().push(sample);
    }
    let mut text = String::new();
    for (family, samples) in families {
        let first = samples[0];
        let kind = match first.kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {family} {}\n# TYPE {family} {kind}", first.help);
        for sample in samples {
            let _ = match sample.label {
                Some((name, value)) => {
                    writeln!(text, "{family}{{{name}=\"{value}\"}} {}", sample.value)
                }
                None => writeln!(text, "{family} {}", sample.value),
            };
        }
    }
    text
}

/// A count as a double, which is what every reader of these takes.
#[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
pub(crate) const fn number(count: usize) -> f64 {
    count as f64
}

/// An index or term as a double.
#[expect(clippy::cast_precision_loss, reason = "no index comes near 2^53")]
const fn index(value: u64) -> f64 {
    value as f64
}

fn flag(on: bool) -> f64 {
    if on { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_one_help_and_type() {
        let counters = Counters::default();
        counters.count(StatusCode::ACCEPTED);
        counters.count(StatusCode::OK);
        let facts = Facts { is_leader: true, uptime_seconds: 1.5, ..Facts::default() };
        let text = prometheus(&samples(&facts, &counters));
        assert!(text.contains("# TYPE master_uptime_seconds gauge\nmaster_uptime_seconds 1.5\n"));
        assert!(text.contains("master_http_responses_total{class=\"2xx\"} 2\n"), "{text}");
        assert!(text.contains("master_elected 1\n"));
        for line in text.lines().filter(|line| line.starts_with("# TYPE")) {
            assert_eq!(text.matches(line).count(), 1, "{line}");
        }
    }

    #[test]
    fn mesos_names_are_unique() {
        let samples = samples(&Facts::default(), &Counters::default());
        let names: Vec<_> = samples.iter().filter_map(|sample| sample.mesos.clone()).collect();
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
        assert!(names.iter().any(|name| name == "master/disk_total"));
    }
}
