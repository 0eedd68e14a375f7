//! What the allocator is told of agents and frameworks, as values made from the state. Must not
//! decide who gets what. Next: `ruling.rs`.

use std::collections::{BTreeMap, BTreeSet};

use resources::capability::FrameworkCapability;
use resources::framework::FrameworkInfo;
use resources::id::{AgentId, FrameworkId};
use resources::resource::Resource;
use resources::role::Role;

use super::Offers;
use crate::allocator::view::{
    AgentProfile, AgentResources, Capabilities, FrameworkView, MinAllocatable, Standing,
};
use crate::leader::constraints::offer_constraints;
use crate::leader::scheduler::Offer;
use crate::state::frameworks::Framework;
use crate::state::{Agent, AgentStatus, State};

impl Offers {
    /// An agent came, went, or says other things of itself. Gives the offers that this voids.
    pub(in crate::leader) fn agent_changed(
        &mut self,
        state: &State,
        agent_id: &AgentId,
        is_live: bool,
    ) -> Vec<Offer> {
        self.stale.remove(agent_id);
        let agent = state.agent(agent_id).filter(|agent| agent.is_counted());
        let Some(agent) = agent else {
            let lost = self.agent_lost(agent_id);
            self.allocator.agent_removed(agent_id);
            return lost;
        };
        self.allocator.agent_changed(agent_id, profile(agent));
        self.allocator.agent_resources(agent_id, resources(agent));
        // What an agent holds that the log does not know must not be offered away.
        let is_in_step = match agent.status {
            AgentStatus::Registered => true,
            AgentStatus::Regressed { .. } | AgentStatus::Diverged { .. } => false,
        };
        if is_live && is_in_step && agent.activation.is_active() {
            self.allocator.agent_standing(agent_id, Standing::Active);
            self.is_urgent = true;
            return self.voided(state, agent_id);
        }
        let lost = self.agent_lost(agent_id);
        self.allocator.agent_standing(agent_id, Standing::Inactive);
        lost
    }

    /// What an agent has, or what of it is free, is not what it was. Costs next to nothing: it
    /// is worked off before the next run.
    pub(in crate::leader) fn capacity_changed(&mut self, agent_id: &AgentId) {
        if !self.stale.contains(agent_id) {
            self.stale.insert(agent_id.clone());
        }
    }
    /// Tells of all agents whose resources changed. Gives the offers that this voids: what they
    /// hold is there no longer.
    pub(in crate::leader) fn tell(&mut self, state: &State) -> Vec<Offer> {
        let mut voided = Vec::new();
        for agent_id in std::mem::take(&mut self.stale) {
            self.tell_of(state, &agent_id);
            voided.extend(self.voided(state, &agent_id));
        }
        voided
    }
    pub(super) fn tell_of(&mut self, state: &State, agent_id: &AgentId) {
        let Some(agent) = state.agent(agent_id).filter(|agent| agent.is_counted()) else { return };
        if !self.allocator.knows(agent_id) {
            self.allocator.agent_changed(agent_id, profile(agent));
        }
        self.allocator.agent_resources(agent_id, resources(agent));
    }
    /// Takes back what is out of an agent and is there no longer, the oldest offers standing
    /// first. Nothing is offered twice, so that this finds only what operators' calls took while
    /// it was being offered.
    fn voided(&mut self, state: &State, agent_id: &AgentId) -> Vec<Offer> {
        let Some(numbers) = self.by_agent.get(agent_id) else { return Vec::new() };
        let Some(agent) = state.agent(agent_id) else { return Vec::new() };
        let mut left = agent.total.clone();
        let is_own = |resource: &Resource| !resource.shared;
        left.subtract_all(&agent.used.filter(is_own));
        let mut voided = Vec::new();
        for number in numbers {
            let offered = &self.outstanding[number].offer.resources;
            if left.contains(offered) {
                left.subtract_all(&offered.filter(is_own));
            } else {
                voided.push(*number);
            }
        }
        self.take_back(voided)
    }
}

/// Frameworks.
impl Offers {
    /// A framework says what it wants.
    pub(in crate::leader) fn framework_changed(
        &mut self,
        framework: &Framework,
        suppressed: &BTreeSet<Role>,
    ) {
        self.allocator.framework_changed(&framework.id, view(framework, suppressed));
    }
    /// It is there and may be offered something.
    pub(in crate::leader) fn framework_came(&mut self, framework: &Framework) {
        self.framework_changed(framework, &framework.suppressed);
        self.allocator.framework_standing(&framework.id, Standing::Active);
        self.is_urgent = true;
    }
    /// It is not. Its refusals end.
    pub(in crate::leader) fn framework_went(&mut self, framework_id: &FrameworkId) -> Vec<Offer> {
        let lost = self.framework_lost(framework_id);
        self.allocator.framework_standing(framework_id, Standing::Inactive);
        lost
    }
    /// It is no more.
    pub(in crate::leader) fn framework_removed(
        &mut self,
        framework_id: &FrameworkId,
    ) -> Vec<Offer> {
        let lost = self.framework_lost(framework_id);
        self.allocator.framework_removed(framework_id);
        lost
    }
    /// Its refusals and the suppression of these roles end. The framework has them all.
    pub(in crate::leader) fn revive(&mut self, framework_id: &FrameworkId, roles: &[Role]) {
        // A role that is missing makes no difference: the caller has looked.
        let is_done = self.allocator.revive(framework_id, roles).is_ok();
        self.is_urgent |= is_done;
    }
    /// It wants no offers in these roles.
    pub(in crate::leader) fn suppress(&mut self, framework_id: &FrameworkId, roles: &[Role]) {
        // As above.
        self.allocator.suppress(framework_id, roles).unwrap_or_default();
    }
}

fn profile(agent: &Agent) -> AgentProfile {
    AgentProfile {
        hostname: agent.info.hostname.clone(),
        attributes: agent.info.attributes.clone(),
        ..AgentProfile::default()
    }
}

fn resources(agent: &Agent) -> AgentResources {
    let mut unconfirmed = agent.unconfirmed();
    for volume in &agent.unavailable {
        if agent.total.contains_one(volume) && !unconfirmed.contains_one(volume) {
            unconfirmed.add(volume);
        }
    }
    let used = agent.used_by.iter().map(|(key, used)| (key.clone(), used.clone()));
    AgentResources { total: agent.total.clone(), unconfirmed, used: used.collect() }
}

fn view(framework: &Framework, suppressed: &BTreeSet<Role>) -> FrameworkView {
    let info = &framework.info;
    let min_allocatable = info.min_allocatable.iter();
    let min_allocatable = min_allocatable
        .map(|(role, alternatives)| (role.clone(), MinAllocatable(alternatives.clone())));
    FrameworkView {
        roles: info.roles.clone(),
        suppressed: suppressed.clone(),
        capabilities: capabilities(info),
        min_allocatable: min_allocatable.collect(),
        // The edge takes none that do not parse; of an older master's, nothing is wanted of them.
        constraints: offer_constraints(&framework.constraints).unwrap_or_else(|_| BTreeMap::new()),
    }
}

fn capabilities(info: &FrameworkInfo) -> Capabilities {
    Capabilities {
        revocable_resources: info.has(FrameworkCapability::RevocableResources),
        gpu_resources: info.has(FrameworkCapability::GpuResources),
        shared_resources: info.has(FrameworkCapability::SharedResources),
        reservation_refinement: info.has(FrameworkCapability::ReservationRefinement),
        region_aware: info.has(FrameworkCapability::RegionAware),
    }
}
