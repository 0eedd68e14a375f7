//! Refusals: a framework that declined some resources of an agent in a role is not offered any
//! part of them again until the refusal ends (spec §4.4). Must not know what is free. Next:
//! `quota.rs`.

use std::collections::{BTreeMap, BTreeSet};

use resources::collection::Resources;
use resources::time::Timestamp;

use super::agent::AgentIndex;
use super::drf::NodeId;

/// Refusals kept per framework, role and agent; beyond it the one that ends first goes.
pub(super) const FILTERS_PER_PAIR_MAX: usize = 16;

#[derive(Debug)]
struct Filter {
    refused: Resources,
    ends: Timestamp,
    serial: u64,
}

/// All refusals in force.
#[derive(Debug, Default)]
pub(super) struct Filters {
    by_agent: Vec<BTreeMap<NodeId, Vec<Filter>>>,
    by_client: BTreeSet<(NodeId, AgentIndex)>,
    ends: BTreeMap<(Timestamp, u64), (AgentIndex, NodeId)>,
    serial: u64,
}

impl Filters {
    /// Adds a refusal. One that another covers for as long is not kept.
    pub(super) fn install(
        &mut self,
        agent: AgentIndex,
        client: NodeId,
        refused: Resources,
        ends: Timestamp,
    ) {
        if self.by_agent.len() <= agent.0 {
            self.by_agent.resize_with(agent.0 + 1, BTreeMap::new);
        }
        let filters = self.by_agent[agent.0].entry(client).or_default();
        if filters.iter().any(|old| old.ends >= ends && old.refused.contains(&refused)) {
            return;
        }
        let ended = &mut self.ends;
        filters.retain(|old| {
            let is_covered = old.ends <= ends && refused.contains(&old.refused);
            if is_covered {
                ended.remove(&(old.ends, old.serial));
            }
            !is_covered
        });
        if filters.len() >= FILTERS_PER_PAIR_MAX {
            let first = filters.iter().enumerate().min_by_key(|(_, old)| (old.ends, old.serial));
            if let Some(at) = first.map(|(at, _)| at) {
                let old = filters.swap_remove(at);
                self.ends.remove(&(old.ends, old.serial));
            }
        }
        let serial = self.serial;
        self.serial += 1;
        filters.push(Filter { refused, ends, serial });
        self.ends.insert((ends, serial), (agent, client));
        self.by_client.insert((client, agent));
    }

    /// Whether the framework refused all of these parts together: one refusal covers each.
    pub(super) fn refuse<'a>(
        &self,
        agent: AgentIndex,
        client: NodeId,
        parts: impl Iterator<Item = &'a Resources> + Clone,
    ) -> bool {
        let Some(filters) = self.by_agent.get(agent.0).and_then(|own| own.get(&client)) else {
            return false;
        };
        filters.iter().any(|filter| parts.clone().all(|part| filter.refused.contains(part)))
    }
    /// Whether there is any refusal of this pair.
    pub(super) fn has(&self, agent: AgentIndex, client: NodeId) -> bool {
        self.by_agent.get(agent.0).is_some_and(|own| own.contains_key(&client))
    }

    /// Takes out the refusals that ended by `now` and says of whom.
    pub(super) fn expire(&mut self, now: Timestamp) -> Vec<(AgentIndex, NodeId)> {
        let mut ended = Vec::new();
        while let Some(entry) = self.ends.first_entry() {
            let (ends, serial) = *entry.key();
            if ends > now {
                break;
            }
            let (agent, client) = entry.remove();
            if let Some(filters) = self.by_agent[agent.0].get_mut(&client) {
                filters.retain(|filter| filter.serial != serial);
                if filters.is_empty() {
                    self.by_agent[agent.0].remove(&client);
                    self.by_client.remove(&(client, agent));
                }
            }
            ended.push((agent, client));
        }
        ended
    }
    /// Takes out all of a framework's in one role.
    pub(super) fn clear_client(&mut self, client: NodeId) {
        let span = (client, AgentIndex(0))..=(client, AgentIndex(usize::MAX));
        let pairs: Vec<_> = self.by_client.range(span).copied().collect();
        for (client, agent) in pairs {
            self.clear_pair(agent, client);
        }
    }
    /// Takes out all on one agent.
    pub(super) fn clear_agent(&mut self, agent: AgentIndex) {
        let Some(own) = self.by_agent.get(agent.0) else { return };
        let clients: Vec<NodeId> = own.keys().copied().collect();
        for client in clients {
            self.clear_pair(agent, client);
        }
    }
    fn clear_pair(&mut self, agent: AgentIndex, client: NodeId) {
        self.by_client.remove(&(client, agent));
        for filter in self.by_agent[agent.0].remove(&client).unwrap_or_default() {
            self.ends.remove(&(filter.ends, filter.serial));
        }
    }
    /// How many agents a framework refuses something of, in one role.
    pub(super) fn count_of(&self, client: NodeId) -> usize {
        self.by_client.range((client, AgentIndex(0))..=(client, AgentIndex(usize::MAX))).count()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use resources::resource::Resource;
    use resources::value::{Scalar, Value};

    use super::*;

    const AGENT: AgentIndex = AgentIndex(3);
    const CLIENT: NodeId = NodeId(7);

    fn cpus(number: i64) -> Resources {
        let value = Value::Scalar(Scalar::from_milli(number * 1000));
        [Resource::plain("cpus", value)].into_iter().collect()
    }
    fn at(seconds: u64) -> Timestamp {
        Timestamp::default() + Duration::from_secs(seconds)
    }
    fn refuses(filters: &Filters, number: i64) -> bool {
        filters.refuse(AGENT, CLIENT, [cpus(number)].iter())
    }

    #[test]
    fn a_refusal_covers_no_more_than_it_names() {
        let mut filters = Filters::default();
        filters.install(AGENT, CLIENT, cpus(2), at(5));
        assert!(refuses(&filters, 1) && refuses(&filters, 2) && !refuses(&filters, 3));
        assert!(filters.expire(at(4)).is_empty());
        assert_eq!(filters.expire(at(5)), [(AGENT, CLIENT)]);
        assert!(!filters.has(AGENT, CLIENT));
    }

    #[test]
    fn covered_refusals_are_not_kept() {
        let mut filters = Filters::default();
        filters.install(AGENT, CLIENT, cpus(2), at(5));
        filters.install(AGENT, CLIENT, cpus(1), at(4));
        assert_eq!(filters.ends.len(), 1);
        filters.install(AGENT, CLIENT, cpus(3), at(6));
        assert_eq!(filters.ends.len(), 1);
        filters.install(AGENT, CLIENT, cpus(1), at(9));
        assert_eq!(filters.ends.len(), 2);
        assert_eq!(filters.expire(at(6)).len(), 1);
        assert!(refuses(&filters, 1) && !refuses(&filters, 2));
    }

    #[test]
    fn refusals_per_pair_are_bounded() {
        let mut filters = Filters::default();
        for step in 0..40 {
            filters.install(AGENT, CLIENT, cpus(40 - step), at(step.unsigned_abs() + 1));
        }
        assert_eq!(filters.ends.len(), FILTERS_PER_PAIR_MAX);
        assert!(!refuses(&filters, 40) && refuses(&filters, 1));
        filters.clear_client(CLIENT);
        assert!(filters.ends.is_empty() && filters.by_client.is_empty());
    }
}
