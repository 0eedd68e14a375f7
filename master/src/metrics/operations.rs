//! Operations on resources: on their way, and how they ended. Next: `consensus.rs`.

use std::collections::BTreeMap;

use super::facts::{Facts, OPERATIONS};
use super::{Sample, StateFacts, count, number};
use crate::leader::OperationCounts;

/// States in which no operation of this version ever is; Mesos' dashboards want the names.
const NEVER: [&str; 2] = ["recovering", "dropped"];
/// Operations of Mesos that need a resource provider: there are none.
const WITHOUT: [&str; 2] = ["create_disk", "destroy_disk"];

pub(super) fn samples(facts: &Facts) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut all = Line::default();
    for kind in OPERATIONS {
        let line = Line::of(facts, kind);
        all.add(&line);
        let help = "Operations that their agent has not confirmed.";
        samples.push(
            Sample::gauge("master_operations_pending", help, number(line.pending))
                .label("operation", kind),
        );
        let help = "Operations that wait for an agent which is not there.";
        samples.push(
            Sample::gauge("master_operations_unreachable", help, number(line.unreachable))
                .label("operation", kind),
        );
        let help = "Operations that ended well under this process as the leader.";
        samples.push(
            Sample::counter("master_operations_finished_total", help, line.ended.finished)
                .label("operation", kind),
        );
        let help = "Operations that their agents failed to do.";
        samples.push(
            Sample::counter("master_operations_failed_total", help, line.ended.failed)
                .label("operation", kind),
        );
        let help = "Operations that ended because their agents are gone.";
        samples.push(
            Sample::counter("master_operations_gone_total", help, line.ended.gone)
                .label("operation", kind),
        );
        let help = "Operations that the state refused.";
        samples.push(
            Sample::counter("master_operations_refused_total", help, line.ended.refused)
                .label("operation", kind),
        );
        line.samples(&format!("master/operations/{kind}"), &mut samples);
    }
    for kind in WITHOUT {
        Line::default().samples(&format!("master/operations/{kind}"), &mut samples);
    }
    all.samples("master/operations", &mut samples);
    let help = "All unconfirmed operations.";
    samples.push(Sample::gauge("master_operations_pending_all", help, number(all.pending)));
    let StateFacts { finished, failed, gone, .. } = facts.state;
    let on_record = [("finished", finished), ("failed", failed), ("gone_by_operator", gone)];
    samples.extend(on_record.map(|(state, count)| {
        let help = "Ended operations that are still on record.";
        Sample::gauge("master_operations_on_record", help, number(count)).label("state", state)
    }));
    samples
}

/// The operations of one kind, or all.
#[derive(Debug, Default)]
struct Line {
    pending: usize,
    unreachable: usize,
    ended: OperationCounts,
}

impl Line {
    fn of(facts: &Facts, kind: &str) -> Self {
        let name = kind.to_uppercase();
        let of = |counts: &BTreeMap<_, usize>| counts.get(kind).copied().unwrap_or_default();
        Self {
            pending: of(&facts.state.pending),
            unreachable: of(&facts.state.unreachable),
            ended: facts.counts.operations.get(name.as_str()).copied().unwrap_or_default(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.pending += other.pending;
        self.unreachable += other.unreachable;
        self.ended.finished += other.ended.finished;
        self.ended.failed += other.ended.failed;
        self.ended.gone += other.ended.gone;
        self.ended.refused += other.ended.refused;
    }

    /// Under Mesos' names, where what is refused is an error.
    fn samples(&self, prefix: &str, samples: &mut Vec<Sample>) {
        let OperationCounts { finished, failed, gone, refused } = self.ended;
        let (pending, unreachable) = (number(self.pending), number(self.unreachable));
        let mut put = |name: &str, value: f64| {
            samples.push(Sample::only_mesos(format!("{prefix}/{name}"), value));
        };
        put("total", pending + unreachable + count(finished + failed + gone + refused));
        put("pending", pending);
        put("finished", count(finished));
        put("failed", count(failed));
        put("error", count(refused));
        put("unreachable", unreachable);
        put("gone_by_operator", count(gone));
        NEVER.into_iter().for_each(|name| put(name, 0.0));
    }
}
