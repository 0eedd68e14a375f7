//! Points in time by agent, and agents by point in time. Next: `guard.rs`.

use std::collections::{BTreeMap, BTreeSet};

use resources::id::AgentId;
use resources::time::Timestamp;

/// One point in time for each of some agents.
#[derive(Debug, Default)]
pub(super) struct Timers {
    by_agent: BTreeMap<AgentId, Timestamp>,
    by_time: BTreeSet<(Timestamp, AgentId)>,
}

impl Timers {
    /// A timer begins; one that runs stays as it is.
    pub(super) fn begin(&mut self, agent_id: &AgentId, at: Timestamp) {
        if !self.by_agent.contains_key(agent_id) {
            self.by_agent.insert(agent_id.clone(), at);
            self.by_time.insert((at, agent_id.clone()));
        }
    }
    /// A timer ends, if there is one.
    pub(super) fn end(&mut self, agent_id: &AgentId) {
        if let Some(at) = self.by_agent.remove(agent_id) {
            self.by_time.remove(&(at, agent_id.clone()));
        }
    }
    pub(super) fn contains(&self, agent_id: &AgentId) -> bool {
        self.by_agent.contains_key(agent_id)
    }
    /// All of them, the earliest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Timestamp, &AgentId)> {
        self.by_time.iter().map(|(at, agent_id)| (*at, agent_id))
    }
}
