//! Every metric of a master: its name for Mesos' dashboards, its name for Prometheus, its help
//! text, and how it is read off the facts. Names stand in the files of the groups and nowhere
//! else. Must not know HTTP. Reading order: `metrics/facts.rs`, `metrics/sums.rs`,
//! `metrics/counters.rs`, this file, then the groups: `process.rs`, `agents.rs`, `amounts.rs`,
//! `frameworks.rs`, `quota.rs`, `operations.rs`, `consensus.rs`. Next: `http/read.rs`.

mod agents;
mod amounts;
mod consensus;
mod counters;
mod facts;
mod frameworks;
mod operations;
mod process;
mod quota;
mod sums;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

pub(crate) use counters::Counters;
pub(crate) use facts::{Facts, RaftFacts};
pub(crate) use sums::StateFacts;

/// One value with its names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// Its name in `/metrics/snapshot`, where Mesos has such a metric.
    pub(crate) mesos: Option<Cow<'static, str>>,
    /// Its place in Prometheus' form; none for what has a name of its own per framework: that
    /// would be a new series for each.
    series: Option<Series>,
    pub(crate) value: f64,
}

/// A series of Prometheus.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Series {
    family: &'static str,
    help: &'static str,
    kind: Kind,
    label: Option<(&'static str, &'static str)>,
}

/// What Prometheus may do with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
}

impl Sample {
    fn gauge(family: &'static str, help: &'static str, value: f64) -> Self {
        let series = Series { family, help, kind: Kind::Gauge, label: None };
        Self { mesos: None, series: Some(series), value }
    }
    fn counter(family: &'static str, help: &'static str, value: u64) -> Self {
        let series = Series { family, help, kind: Kind::Counter, label: None };
        Self { mesos: None, series: Some(series), value: count(value) }
    }
    /// For Mesos' dashboards alone.
    fn only_mesos(name: impl Into<Cow<'static, str>>, value: f64) -> Self {
        Self { mesos: Some(name.into()), series: None, value }
    }
    fn mesos(self, name: impl Into<Cow<'static, str>>) -> Self {
        Self { mesos: Some(name.into()), ..self }
    }
    fn label(mut self, name: &'static str, value: &'static str) -> Self {
        if let Some(series) = &mut self.series {
            series.label = Some((name, value));
        }
        self
    }
}

/// All metrics of this moment.
pub(crate) fn samples(facts: &Facts, counters: &Counters) -> Vec<Sample> {
    let mut samples = process::samples(facts);
    samples.extend(agents::samples(facts));
    samples.extend(amounts::samples(facts));
    samples.extend(frameworks::samples(facts));
    samples.extend(quota::samples(facts));
    samples.extend(operations::samples(facts));
    samples.extend(counters.samples());
    samples.extend(consensus::samples(&facts.raft));
    samples
}

/// The text form of Prometheus (exposition format 0.0.4).
pub(crate) fn prometheus(samples: &[Sample]) -> String {
    let mut families: BTreeMap<&str, Vec<(Series, f64)>> = BTreeMap::new();
    for sample in samples {
        if let Some(series) = sample.series {
            families.entry(series.family).or_default().push((series, sample.value));
        }
    }
    let mut text = String::new();
    for (family, samples) in families {
        let (first, _) = samples[0];
        let kind = match first.kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {family} {}\n# TYPE {family} {kind}", first.help);
        for (series, value) in samples {
            let _ = match series.label {
                Some((name, label)) => writeln!(text, "{family}{{{name}=\"{label}\"}} {value}"),
                None => writeln!(text, "{family} {value}"),
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

/// A counter, an index or a term as a double.
#[expect(clippy::cast_precision_loss, reason = "none comes near 2^53")]
const fn count(value: u64) -> f64 {
    value as f64
}

fn flag(on: bool) -> f64 {
    if on { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests;
