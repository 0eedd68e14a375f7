//! Rules for the whole cluster as the leader follows them: offers go when quota, weights or the
//! maintenance of machines change, and a new cluster is given the weights of the command line.
//! Next: `inverse.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use resources::id::AgentId;
use resources::role::Role;

use super::core::Core;
use super::event::{Action, Origin, Proposal};
use crate::state::State;
use crate::state::command::CommandKind;
use crate::state::rules::Rule;
use crate::state::weights::WeightUpdate;

impl Core {
    /// As in Mesos, the flag counts only while no weight is on record.
    pub(super) fn first_weights(&self, state: &State) -> Option<Action> {
        if self.weights.is_empty() || state.weights().next().is_some() {
            return None;
        }
        let rule = Rule::Weights(WeightUpdate { weights: self.weights.clone() });
        let kind = Box::new(CommandKind::SetRule(Box::new(rule)));
        let proposal = Proposal::Plain { principal: None, source: None, kind };
        Some(Action::Propose(Origin::Nobody, proposal))
    }

    pub(super) fn quota_updated(&mut self, state: &State, roles: &[Role]) -> Vec<Action> {
        let gone = self.offers.quota_updated(state, roles);
        self.rescinded(gone)
    }

    pub(super) fn quota_set(&mut self, state: &State, roles: &[Role]) -> Vec<Action> {
        let gone = self.offers.quota_set(state, roles);
        self.rescinded(gone)
    }

    /// Offers of agents whose machines are scheduled otherwise go: the next ones say so.
    pub(super) fn maintenance_scheduled(&mut self, agents: &[AgentId]) -> Vec<Action> {
        let mut actions = self.void_inverse(agents);
        for agent_id in agents {
            let gone = self.offers.agent_lost(agent_id);
            actions.extend(self.rescinded(gone));
        }
        actions
    }

    /// An agent's machine is down: its session ends, and with it its offers.
    pub(super) fn agent_shut_down(&mut self, agent_id: &AgentId) -> Vec<Action> {
        let mut actions = self.void_inverse(std::slice::from_ref(agent_id));
        let gone = self.offers.agent_lost(agent_id);
        actions.extend(self.rescinded(gone));
        actions.extend(self.sessions.shut_down(agent_id));
        actions
    }

    pub(super) fn weights_updated(&mut self, state: &State, roles: &[Role]) -> Vec<Action> {
        let gone = self.offers.weights_updated(state, roles);
        self.rescinded(gone)
    }
}
