//! Resources of the cluster: what there is, what is used, reserved and offered.
//! Next: `frameworks.rs`.

use resources::value::Scalar;

use super::facts::Facts;
use super::sums::Claim;
use super::{Sample, number};

pub(super) fn samples(facts: &Facts) -> Vec<Sample> {
    let mut samples = plain(facts);
    samples.extend(revocable(facts));
    samples.extend(reserved(facts));
    samples
}

fn plain(facts: &Facts) -> Vec<Sample> {
    let [totals, used, offered] = [&facts.state.totals, &facts.state.used, &facts.state.offered]
        .map(|a| a.iter(Claim::Plain));
    let each = totals.zip(used).zip(offered);
    let samples = each.flat_map(|(((name, total), (_, used)), (_, offered))| {
        let taken = used.saturating_add(offered);
        let allocator = |what: &str| format!("allocator/mesos/resources/{name}/{what}");
        let help = "Resources of all agents; mem and disk in megabytes.";
        let help_used = "Resources used by tasks and executors; mem and disk in megabytes.";
        let help_ratio = "Used share of the total.";
        [
            Sample::gauge("master_resources_total", help, total.to_f64())
                .label("resource", name)
                .mesos(format!("master/{name}_total")),
            Sample::gauge("master_resources_used", help_used, used.to_f64())
                .label("resource", name)
                .mesos(format!("master/{name}_used")),
            Sample::gauge("master_resources_used_ratio", help_ratio, ratio(used, total))
                .label("resource", name)
                .mesos(format!("master/{name}_percent")),
            Sample::only_mesos(allocator("total"), total.to_f64()),
            Sample::only_mesos(allocator("offered_or_allocated"), taken.to_f64()),
        ]
    });
    samples.collect()
}

/// Mesos' dashboards want the names; agents declare nothing revocable.
fn revocable(facts: &Facts) -> Vec<Sample> {
    let (totals, used) = (&facts.state.totals, &facts.state.used);
    let each = totals.iter(Claim::Revocable).zip(used.iter(Claim::Revocable));
    let samples = each.flat_map(|((name, total), (_, used))| {
        let named = |what: &str| format!("master/{name}_revocable_{what}");
        [
            Sample::only_mesos(named("total"), total.to_f64()),
            Sample::only_mesos(named("used"), used.to_f64()),
            Sample::only_mesos(named("percent"), ratio(used, total)),
        ]
    });
    samples.collect()
}

fn reserved(facts: &Facts) -> Vec<Sample> {
    let reserved = facts.state.reserved.iter(Claim::Plain).map(|(name, sum)| {
        let help = "Reserved resources of all agents; mem and disk in megabytes.";
        Sample::gauge("master_resources_reserved", help, sum.to_f64()).label("resource", name)
    });
    let disk = facts.state.volumes_disk.to_f64();
    let help = "Disk of all persistent volumes, in megabytes.";
    let volumes = [
        Sample::gauge("master_volumes", "Persistent volumes.", number(facts.state.volumes)),
        Sample::gauge("master_volumes_disk_megabytes", help, disk),
    ];
    reserved.chain(volumes).collect()
}

/// A share, 0 of nothing.
fn ratio(part: Scalar, whole: Scalar) -> f64 {
    if whole.is_positive() { part.to_f64() / whole.to_f64() } else { 0.0 }
}
