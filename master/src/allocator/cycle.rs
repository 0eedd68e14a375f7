//! One run: which agents, and in which order (spec §8.1, §8.2). Must not know who gets what of
//! each. Next: `turn.rs`.
//!
//! An agent is looked at only when something changed that lets somebody take what it has left:
//! more of it is free, or a framework came, revived, or was refused nothing any more. What
//! nobody took stays untouched until then.

use std::collections::BTreeMap;

use resources::time::Timestamp;

use super::Allocator;
use super::agent::AgentIndex;
use super::drf::NodeId;
use super::turn::{Run, Stage};
use super::view::{Allocation, Part};

/// Above so many frameworks with news, agents are shown to everybody in order instead.
const FRESH_CLIENTS_MAX: usize = 16;

impl Allocator {
    /// Runs one cycle and says who gets what. What it gives is held until it is given back.
    pub fn allocate(&mut self, now: Timestamp) -> Vec<Allocation> {
        self.collect_news(now);
        if self.asked.is_empty() || self.is_recovering(now) {
            return Vec::new();
        }
        self.run += 1;
        self.books.tree.settle(&self.books.kinds);
        let mut run = Run {
            books: &mut self.books,
            filters: &self.filters,
            settings: &self.settings,
            given_shared: BTreeMap::new(),
            given: Vec::new(),
            withheld: Vec::new(),
        };
        let asked = std::mem::take(&mut self.asked);
        if run.books.quotas.unsatisfied().next().is_some() {
            for index in in_order(&asked, self.run, Stage::Guarantees) {
                if let Some(agent) = &mut self.agents[index.0] {
                    run.guarantee(index, agent);
                }
            }
        }
        for index in in_order(&asked, self.run, Stage::Fairness) {
            if let Some(agent) = &mut self.agents[index.0] {
                run.share_out(index, agent);
            }
        }
        let (given, given_shared) = (run.given, run.given_shared);
        self.withheld.extend(run.withheld);
        for index in given_shared.into_keys() {
            // Other frameworks may have a copy too, in later runs; the sums count it once.
            self.mark_stale(index);
            self.ask_everything(index);
        }
        self.grouped(given)
    }

    /// Brings everything up to date and gathers the agents that must be looked at.
    fn collect_news(&mut self, now: Timestamp) {
        for (index, client) in self.filters.expire(now) {
            self.ask_client(index, client);
        }
        self.rebuild(usize::MAX);
        if !self.vacating.is_empty() {
            let agents = &self.agents;
            self.asked.retain(|index| agents[index.0].is_some());
            self.vacant.append(&mut self.vacating);
        }
        for (client, framework_id, role) in self.books.clients.sweep() {
            self.books.tree.remove_client(&role, &framework_id);
            self.filters.clear_client(client);
            self.fresh.remove(&client);
        }
        if self.books.quotas.take_moved() {
            for index in std::mem::take(&mut self.withheld) {
                self.ask_everything(index);
            }
        }
        let fresh = std::mem::take(&mut self.fresh);
        if fresh.is_empty() {
            return;
        }
        for at in 0..self.agents.len() {
            let index = AgentIndex(at);
            let Some(agent) = &mut self.agents[at] else { continue };
            if agent.free.is_empty() && !agent.free.has_shared() {
                continue;
            }
            let is_new = if fresh.len() > FRESH_CLIENTS_MAX {
                agent.ask_everything()
            } else {
                fresh.iter().fold(false, |is_new, client| agent.ask_client(*client) | is_new)
            };
            if is_new {
                self.asked.push(index);
            }
        }
    }

    fn grouped(&self, given: Vec<Vec<Part>>) -> Vec<Allocation> {
        let given = given.into_iter().enumerate().filter(|(_, parts)| !parts.is_empty());
        let allocation = |(place, parts)| {
            let (framework_id, role) = self.books.clients.key(NodeId(place));
            Allocation { framework_id, role, parts }
        };
        let mut allocations: Vec<Allocation> = given.map(allocation).collect();
        allocations.sort_unstable_by(|left, right| {
            (&left.framework_id, &left.role).cmp(&(&right.framework_id, &right.role))
        });
        allocations
    }
}

/// The agents in the order of their turns: by their places, which they got in the order in
/// which they were first told of, beginning anywhere and going round. The beginning is a hash
/// of the run and the stage, so that none is always first and the same calls give the same
/// order. Mesos shuffles; neighbours in memory are several times as fast.
fn in_order(asked: &[AgentIndex], run: u64, stage: Stage) -> Vec<AgentIndex> {
    let mut turns = asked.to_vec();
    turns.sort_unstable();
    turns.dedup();
    let agents = u64::try_from(turns.len().max(1)).unwrap_or(u64::MAX);
    let first = mix(run << 1 | u64::from(stage == Stage::Guarantees)) % agents;
    turns.rotate_left(usize::try_from(first).unwrap_or_default());
    turns
}

/// The finalizer of SplitMix64.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
