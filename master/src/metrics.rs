//! Every metric of a master: its name for Mesos' dashboards, its name for Prometheus, its help
//! text, and how it is read off the facts. Names stand nowhere else. Must not know HTTP.
//! Reading order: `metrics/facts.rs`, `metrics/counters.rs`, this file. Next: `http/read.rs`.

mod counters;
mod facts;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use counters::Counters;
use counters::{CLASSES, REFUSALS};
pub(crate) use facts::{Facts, RaftFacts, StateFacts};
use facts::{OPERATIONS, TOTALS};

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
    samples.extend(reservations(facts));
    samples.extend(operations(facts));
    samples.extend(counted(counters));
    samples.extend(raft(&facts.raft));
    samples
}

fn counted(counters: &Counters) -> Vec<Sample> {
    let count = |family, help, (name, label), counter: &AtomicU64| {
        Sample::counter(family, help, index(counter.load(Ordering::Relaxed))).label(name, label)
    };
    let responses = CLASSES.into_iter().zip(&counters.responses).map(|(class, counter)| {
        count("master_http_responses_total", "Answers of the API.", ("class", class), counter)
    });
    let refusals = REFUSALS.into_iter().zip(&counters.refusals).map(|((reason, _), counter)| {
        count("master_http_refusals_total", "Refusals by reason.", ("reason", reason), counter)
    });
    let accepted = OPERATIONS.into_iter().zip(&counters.accepted).map(|(kind, counter)| {
        let help = "Operations answered with 202.";
        count("master_operations_accepted_total", help, ("operation", kind), counter)
    });
    responses.chain(refusals).chain(accepted).collect()
}

fn reservations(facts: &Facts) -> Vec<Sample> {
    let leads = |value: f64| if facts.is_leader { value } else { 0.0 };
    let reserved = TOTALS.into_iter().map(|name| {
        let sum = facts.state.reserved.get(name).copied().unwrap_or_default();
        let help = "Reserved resources of all agents; mem and disk in megabytes.";
        Sample::gauge("master_resources_reserved", help, leads(sum.to_f64()))
            .label("resource", name)
    });
    let volumes = number(facts.state.volumes);
    let disk = facts.state.volumes_disk.to_f64();
    let help = "Disk of all persistent volumes, in megabytes.";
    let volumes = [
        Sample::gauge("master_volumes", "Persistent volumes.", leads(volumes)),
        Sample::gauge("master_volumes_disk_megabytes", help, leads(disk)),
    ];
    reserved.chain(volumes).collect()
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
    let ended = [("finished", facts.state.finished), ("failed", facts.state.failed)];
    samples.extend(ended.map(|(state, count)| {
        let help = "Ended operations that are still on record.";
        Sample::gauge("master_operations_on_record", help, number(count))
            .label("state", state)
            .mesos(format!("master/operations/{state}"))
    }));
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
    use http::StatusCode;
    use resources::operation::Operation;

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
        counters.count(StatusCode::FORBIDDEN);
        counters.count(StatusCode::IM_A_TEAPOT);
        counters.accepted(&Operation::Destroy { volumes: Vec::new() });
        let later = prometheus(&samples(&facts, &counters));
        for line in [
            "master_http_refusals_total{reason=\"forbidden\"} 1\n",
            "master_http_refusals_total{reason=\"other\"} 1\n",
            "master_http_refusals_total{reason=\"conflict\"} 0\n",
            "master_operations_accepted_total{operation=\"destroy\"} 1\n",
        ] {
            assert!(later.contains(line), "{later}");
        }
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
