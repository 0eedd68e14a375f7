//! Offers that have to go for somebody else: for an operator's call that the free resources do
//! not suffice for (only those that it needs, spec decision A16), and for the DESTROY of a shared
//! volume that others were offered too. Next: `holds.rs`.

use resources::collection::Resources;
use resources::id::AgentId;
use resources::operation::Operation;
use resources::resource::Resource;
use resources::time::Timestamp;

use super::Offers;
use crate::leader::event::CallId;
use crate::leader::request::Request;
use crate::leader::scheduler::Offer;
use crate::state::State;

impl Offers {
    /// Makes room for an operator's call that passed its early check, and keeps what it takes
    /// from being offered until it is decided. Gives the offers that had to go.
    pub(in crate::leader) fn make_room(
        &mut self,
        state: &State,
        (call_id, request): (CallId, &Request),
        now: Timestamp,
    ) -> Vec<Offer> {
        if !self.has_takers() {
            return Vec::new();
        }
        let mut rescinded = Vec::new();
        let asked = request.asked();
        let mut agents: Vec<&AgentId> = asked.operations.iter().map(|(id, _)| *id).collect();
        agents.sort_unstable();
        agents.dedup();
        for agent_id in agents {
            let own = asked.operations.iter().filter(|(id, _)| *id == agent_id);
            let operations: Vec<&Operation> = own.map(|(_, operation)| *operation).collect();
            rescinded.extend(self.make_room_on(state, agent_id, &operations, now));
            let taken = operations.iter().flat_map(|operation| operation.consumed()).collect();
            self.wanted.entry(agent_id.clone()).or_default().insert(call_id, taken);
            self.wanted_of.entry(call_id).or_default().push(agent_id.clone());
        }
        rescinded
    }
    /// An operator's call is decided, or never will be.
    pub(in crate::leader) fn room_used(&mut self, call_id: CallId) {
        for agent_id in self.wanted_of.remove(&call_id).unwrap_or_default() {
            let Some(calls) = self.wanted.get_mut(&agent_id) else { continue };
            calls.remove(&call_id);
            if calls.is_empty() {
                self.wanted.remove(&agent_id);
            }
        }
    }

    /// Whether anything is or may be offered to anybody.
    fn has_takers(&self) -> bool {
        self.allocator.has_takers() || !self.outstanding.is_empty()
    }

    fn make_room_on(
        &mut self,
        state: &State,
        agent_id: &AgentId,
        operations: &[&Operation],
        now: Timestamp,
    ) -> Vec<Offer> {
        if !self.by_agent.contains_key(agent_id) {
            return Vec::new();
        }
        let mut rescinded = Vec::new();
        for operation in operations {
            rescinded.extend(self.rescind_shared(agent_id, operation, now));
        }
        if self.stale.remove(agent_id) {
            self.tell_of(state, agent_id);
        }
        let mut free = self.allocator.free(agent_id);
        if let Some(agent) = state.agent(agent_id) {
            // A command may use what the agent has not confirmed yet.
            free.add_all(&agent.unconfirmed());
        }
        while let Err(missing) = try_all(&free, operations) {
            let Some(number) = self.next_to_go(agent_id, &free, operations, &missing) else {
                break;
            };
            let Some(offer) = self.rescind(number, now) else { break };
            free.add_all(&offer.resources);
            rescinded.push(offer);
        }
        rescinded
    }

    /// An offer that suffices alone, or else the first that holds some of what is missing.
    fn next_to_go(
        &self,
        agent_id: &AgentId,
        free: &Resources,
        operations: &[&Operation],
        missing: &[Resource],
    ) -> Option<u64> {
        let holds_some = |number: &u64| {
            let offered = &self.outstanding[number].offer.resources;
            missing.iter().any(|resource| offered.counterpart(resource).is_some())
        };
        let numbers = self.by_agent.get(agent_id)?.iter().copied();
        let candidates: Vec<u64> = numbers.filter(holds_some).collect();
        let suffices = |number: &&u64| {
            let mut together = free.clone();
            together.add_all(&self.outstanding[*number].offer.resources);
            try_all(&together, operations).is_ok()
        };
        candidates.iter().find(suffices).or(candidates.first()).copied()
    }

    /// The shared volumes of a DESTROY are offered to nobody else any more.
    pub(super) fn rescind_shared(
        &mut self,
        agent_id: &AgentId,
        operation: &Operation,
        now: Timestamp,
    ) -> Vec<Offer> {
        let Operation::Destroy { volumes } = operation else { return Vec::new() };
        let shared: Vec<&Resource> = volumes.iter().filter(|volume| volume.shared).collect();
        if shared.is_empty() {
            return Vec::new();
        }
        let numbers = self.by_agent.get(agent_id).cloned().unwrap_or_default();
        let holds_one = |number: &u64| {
            let offered = &self.outstanding[number].offer.resources;
            shared.iter().any(|volume| offered.contains_one(volume))
        };
        let going: Vec<u64> = numbers.into_iter().filter(holds_one).collect();
        going.into_iter().filter_map(|number| self.rescind(number, now)).collect()
    }
}

/// Whether the operations apply one after the other; if not, what the first that does not takes.
fn try_all(free: &Resources, operations: &[&Operation]) -> Result<(), Vec<Resource>> {
    let mut left = free.clone();
    for operation in operations {
        if left.apply(operation).is_err() {
            return Err(operation.consumed());
        }
    }
    Ok(())
}
