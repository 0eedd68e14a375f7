//! Quota by role and kind, under Mesos' names alone: a role would be a new series for each.
//! Next: `operations.rs`.

use std::collections::BTreeSet;

use resources::value::Scalar;

use super::Sample;
use super::facts::Facts;
use super::sums::QuotaFacts;

pub(super) fn samples(facts: &Facts) -> Vec<Sample> {
    facts.state.quotas.iter().flat_map(of_role).collect()
}

fn of_role(facts: &QuotaFacts) -> Vec<Sample> {
    let QuotaFacts { role, quota, consumed, offered } = facts;
    let limits = &quota.limits.0;
    let kinds = quota.guarantees.iter().map(|(name, _)| name);
    let kinds: BTreeSet<&str> = kinds.chain(limits.keys().map(String::as_str)).collect();
    let mut samples = Vec::new();
    for kind in kinds {
        let prefix = format!("allocator/mesos/quota/roles/{role}/resources/{kind}");
        let mut put = |name: &str, amount: Scalar| {
            samples.push(Sample::only_mesos(format!("{prefix}/{name}"), amount.to_f64()));
        };
        let consumed = consumed.get(kind);
        put("guarantee", quota.guarantees.get(kind));
        put("consumed", consumed);
        put("offered_or_allocated", consumed.saturating_add(offered.get(kind)));
        if let Some(limit) = limits.get(kind) {
            put("limit", *limit);
        }
    }
    samples
}
