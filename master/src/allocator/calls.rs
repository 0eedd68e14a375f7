//! What the allocator is told of agents, and what becomes of what it gave. Nothing is decided
//! here. Next: `frameworks.rs`.

use std::collections::BTreeSet;
use std::time::Duration;

use resources::collection::Resources;
use resources::id::{AgentId, FrameworkId};
use resources::quota::Quota;
use resources::role::Role;
use resources::time::Timestamp;

use super::Allocator;
use super::agent::{Agent, AgentIndex};
use super::amounts::is_countable;
use super::view::{AgentProfile, AgentResources, REFUSE_MAX, Standing};

/// What was offered of one agent to a framework in a role: an offer, without its id.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// To whom.
    pub framework_id: &'a FrameworkId,
    /// In which role.
    pub role: &'a Role,
    /// Of which agent.
    pub agent_id: &'a AgentId,
    /// What, in unallocated form.
    pub resources: &'a Resources,
}

impl Allocator {
    /// Tells what an agent is. Refusals of it are void when its attributes changed.
    pub fn agent_changed(&mut self, agent_id: &AgentId, profile: AgentProfile) {
        let index = self.index_of(agent_id);
        let Some(agent) = &mut self.agents[index.0] else { return };
        if agent.profile != profile {
            let attributes = agent.profile.attributes == profile.attributes;
            agent.profile = profile;
            if !attributes {
                self.filters.clear_agent(index);
            }
            self.ask_everything(index);
        }
    }
    /// Tells what an agent has and what of it is not free; takes the place of what was told
    /// before. Costs little: it is worked off once, by the next run.
    pub fn agent_resources(&mut self, agent_id: &AgentId, resources: AgentResources) {
        let index = self.index_of(agent_id);
        if let Some(agent) = &mut self.agents[index.0] {
            agent.resources = resources;
            self.mark_stale(index);
        }
    }
    /// Tells whether an agent may be offered. A new one may not.
    pub fn agent_standing(&mut self, agent_id: &AgentId, standing: Standing) {
        let index = self.index_of(agent_id);
        let Some(agent) = &mut self.agents[index.0] else { return };
        if std::mem::replace(&mut agent.standing, standing) == standing {
            return;
        }
        match standing {
            Standing::Active => {
                self.active_agents += 1;
                self.ask_everything(index);
            }
            Standing::Inactive => self.active_agents -= 1,
        }
    }
    /// Forgets an agent, and what was given of it.
    pub fn agent_removed(&mut self, agent_id: &AgentId) {
        let Some(index) = self.by_agent_id.remove(agent_id) else { return };
        self.filters.clear_agent(index);
        self.withheld.remove(&index);
        if let Some(mut agent) = self.agents[index.0].take() {
            self.active_agents -= usize::from(agent.standing == Standing::Active);
            self.books.close(&mut agent);
            self.vacating.push(index);
        }
    }
    fn index_of(&mut self, agent_id: &AgentId) -> AgentIndex {
        if let Some(index) = self.by_agent_id.get(agent_id) {
            return *index;
        }
        let agent = Some(Box::new(Agent::new(agent_id.clone())));
        let index = match self.vacant.pop() {
            Some(index) => {
                self.agents[index.0] = agent;
                index
            }
            None => {
                self.agents.push(agent);
                AgentIndex(self.agents.len() - 1)
            }
        };
        self.by_agent_id.insert(agent_id.clone(), index);
        index
    }

    /// An offer ended: declined, rescinded, expired, or its ACCEPT is applied or refused. What
    /// the ACCEPT uses must have been told by [`Self::agent_resources`] before. More than is
    /// held is not given back; of an agent that is gone nothing is.
    pub fn give_back(&mut self, given: Given<'_>) {
        let Some(index) = self.by_agent_id.get(given.agent_id).copied() else { return };
        let Some(client) = self.books.tree.find_client(given.role, given.framework_id) else {
            return;
        };
        let Some(agent) = &mut self.agents[index.0] else { return };
        let Some(held) = agent.held.get_mut(client) else { return };
        let is_held = held.contains(given.resources);
        held.subtract_all(given.resources);
        if held.is_empty() {
            agent.held.remove(client);
        }
        if agent.is_stale || !agent.is_exact || !is_held || agent.free.has_shared() {
            self.mark_stale(index);
            // A shared volume that comes back changes nothing but who may have it again.
            self.ask_everything(index);
            return;
        }
        agent.free.put(given.resources, &mut self.books.kinds);
        self.books.give_back(agent, client, given.role, given.resources);
        self.books.leave(agent, client);
        self.ask_everything(index);
    }
    /// A framework does not want these, or any part of them, for a while: no time at all means
    /// no refusal, a short one lasts one interval, the longest a year.
    pub fn refuse(&mut self, given: Given<'_>, refuse: Duration, now: Timestamp) {
        let (Some(index), Some(client)) = (
            self.by_agent_id.get(given.agent_id).copied(),
            self.books.tree.find_client(given.role, given.framework_id),
        ) else {
            return;
        };
        if !refuse.is_zero() && !given.resources.is_empty() {
            let refuse = refuse.min(REFUSE_MAX).max(self.settings.allocation_interval);
            self.filters.install(index, client, given.resources.clone(), now + refuse);
        }
    }
    /// [`Self::give_back`] and [`Self::refuse`] of the same.
    pub fn decline(&mut self, given: Given<'_>, refuse: Duration, now: Timestamp) {
        self.give_back(given);
        self.refuse(given, refuse, now);
    }

    /// Sets the quota of a top-level role; an empty one takes it away.
    pub fn set_quota(&mut self, role: &Role, quota: &Quota) {
        let is_new = self.books.quotas.set(role, quota, &mut self.books.kinds);
        if is_new {
            for at in 0..self.agents.len() {
                self.mark_stale(AgentIndex(at));
            }
        }
    }
    /// Sets the weight of a role in millionths; none is one.
    pub fn set_weight(&mut self, role: &Role, millionths: Option<u64>) {
        self.books.tree.set_weight(role, millionths);
    }
}

/// What has to be taken back when quota changes (spec §5.2). What is offered counts as consumed.
impl Allocator {
    /// The kinds of which a role with quota has more than its limits allow.
    pub fn above_limits(&mut self, role: &Role) -> BTreeSet<String> {
        self.rebuild(usize::MAX);
        self.names(&self.books.quotas.excess(role))
    }
    /// The kinds of which what is free does not suffice for what guarantees miss.
    pub fn short_of(&mut self) -> BTreeSet<String> {
        self.rebuild(usize::MAX);
        self.names(&self.books.quotas.shortage())
    }
    /// Whether the guarantee of the role, or of the one above it, is met without these.
    pub fn can_spare(&mut self, role: &Role, resources: &Resources) -> bool {
        let amounts = self.books.kinds.amounts_where(resources, is_countable);
        self.books.quotas.can_spare(role, &amounts)
    }
    /// Whether any of these kinds is in them, free for whoever comes first.
    #[must_use]
    pub fn holds_any(kinds: &BTreeSet<String>, resources: &Resources) -> bool {
        resources.iter().any(|resource| is_countable(resource) && kinds.contains(&resource.name))
    }
    fn names(&self, kinds: &[usize]) -> BTreeSet<String> {
        kinds.iter().map(|kind| self.books.kinds.name(*kind).to_owned()).collect()
    }
}
