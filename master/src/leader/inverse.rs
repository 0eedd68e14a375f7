//! Inverse offers: who runs something on machines that will be out of service is asked to leave
//! them (spec §4.4). Soft, like offers: the answers are what an operator sees in the status of
//! the maintenance, and have no other effect. Next: `scheduling.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use resources::id::{AgentId, FrameworkId, OfferId, StreamId};
use resources::time::Timestamp;

use super::core::Core;
use super::event::Action;
use super::scheduler::{InverseAnswer, InverseOffer, SchedulerEvent};
use crate::state::{Agent, State};

/// All inverse offers of the term.
#[derive(Debug, Default)]
pub(super) struct Inverse {
    /// Agents whose machines are scheduled; none when that has to be looked up again.
    agents: Option<Vec<AgentId>>,
    out: BTreeMap<(AgentId, FrameworkId), Outstanding>,
    answers: BTreeMap<(AgentId, FrameworkId), InverseAnswer>,
    /// Who is not asked again before then.
    refused: BTreeMap<(AgentId, FrameworkId), Timestamp>,
}

#[derive(Debug)]
struct Outstanding {
    offer_id: OfferId,
    /// Through which stream it went out: with that it ends.
    stream_id: StreamId,
}

impl Inverse {
    /// Agents came, or say other things of themselves.
    pub(super) fn agents_moved(&mut self) {
        self.agents = None;
    }
    /// What frameworks said, by agent.
    pub(super) fn answers(&self) -> Vec<InverseAnswer> {
        self.answers.values().cloned().collect()
    }
    /// What was asked about these agents is void, with the answers. Gives what is still out.
    fn void(&mut self, agents: &[AgentId]) -> Vec<(FrameworkId, OfferId)> {
        self.agents = None;
        let is_meant = |key: &(AgentId, FrameworkId)| agents.contains(&key.0);
        self.answers.retain(|key, _| !is_meant(key));
        self.refused.retain(|key, _| !is_meant(key));
        let void: Vec<_> = self.out.keys().filter(|key| is_meant(key)).cloned().collect();
        let void = void.into_iter().filter_map(|key| Some((self.out.remove(&key)?, key.1)));
        void.map(|(outstanding, framework_id)| (framework_id, outstanding.offer_id)).collect()
    }
}

impl Core {
    /// Machines are scheduled otherwise, or down: what was asked about their agents is void.
    pub(super) fn void_inverse(&mut self, agents: &[AgentId]) -> Vec<Action> {
        let void = self.inverse.void(agents);
        let said = void.into_iter().filter_map(|(framework_id, offer_id)| {
            let stream = self.frameworks.stream(&framework_id)?;
            Some(stream.say(SchedulerEvent::RescindInverse(offer_id)))
        });
        said.collect()
    }

    /// Asks whoever runs something on machines that drain, once, and again when it is time.
    pub(super) fn make_inverse_offers(&mut self, state: &State, now: Timestamp) -> Vec<Action> {
        if state.maintenance().draining().next().is_none() {
            return Vec::new();
        }
        let mut actions = self.withdraw_inverse(state);
        let agents = self.inverse.agents.take().unwrap_or_else(|| {
            let drain = |agent: &&Agent| state.unavailability(&agent.info).is_some();
            state.agents().filter(drain).map(|agent| agent.id.clone()).collect()
        });
        let mut made: BTreeMap<FrameworkId, Vec<InverseOffer>> = BTreeMap::new();
        for agent in agents.iter().filter_map(|agent_id| state.agent(agent_id)) {
            let Some(unavailability) = state.unavailability(&agent.info) else { continue };
            for framework_id in users(agent) {
                let key = (agent.id.clone(), framework_id.clone());
                let is_refused = self.inverse.refused.get(&key).is_some_and(|until| now < *until);
                if is_refused || self.inverse.out.contains_key(&key) {
                    continue;
                }
                let Some(stream) = self.frameworks.stream(&framework_id) else { continue };
                let Some(offer_id) = self.offers.fresh_id(state) else { continue };
                let stream_id = stream.stream_id.clone();
                let outstanding = Outstanding { offer_id: offer_id.clone(), stream_id };
                self.inverse.out.insert(key, outstanding);
                made.entry(framework_id.clone()).or_default().push(InverseOffer {
                    offer_id,
                    framework_id,
                    agent_id: agent.id.clone(),
                    agent: agent.info.clone(),
                    unavailability,
                });
            }
        }
        self.inverse.agents = Some(agents);
        actions.extend(made.into_iter().filter_map(|(framework_id, offers)| {
            let stream = self.frameworks.stream(&framework_id)?;
            Some(stream.say(SchedulerEvent::InverseOffers(offers)))
        }));
        actions
    }

    /// Takes back what nobody has to answer: the framework runs nothing there any more. What
    /// went out through a stream that is over is forgotten.
    fn withdraw_inverse(&mut self, state: &State) -> Vec<Action> {
        let mut actions = Vec::new();
        let Self { inverse, frameworks, .. } = self;
        inverse.out.retain(|(agent_id, framework_id), outstanding| {
            let Some(stream) = frameworks.stream(framework_id) else { return false };
            if stream.stream_id != outstanding.stream_id {
                return false;
            }
            let agent = state.agent(agent_id);
            let is_there = agent.is_some_and(|agent| users(agent).contains(framework_id));
            if !is_there {
                let offer_id = outstanding.offer_id.clone();
                actions.push(stream.say(SchedulerEvent::RescindInverse(offer_id)));
            }
            is_there
        });
        actions
    }

    /// ACCEPT_INVERSE_OFFERS and DECLINE_INVERSE_OFFERS. Ids that are unknown or another's are
    /// ignored. The framework is not asked again for a while.
    pub(super) fn answer_inverse(
        &mut self,
        framework_id: &FrameworkId,
        ids: &[OfferId],
        (is_accepted, refuse): (bool, Duration),
        now: Timestamp,
    ) {
        let at = self.wall(now);
        for id in ids {
            let mut out = self.inverse.out.iter();
            let found = out.find(|((_, owner), outstanding)| {
                outstanding.offer_id == *id && owner == framework_id
            });
            let Some(key) = found.map(|(key, _)| key.clone()) else { continue };
            self.inverse.out.remove(&key);
            self.inverse.refused.insert(key.clone(), now + refuse);
            let (agent_id, framework_id) = key.clone();
            let answer = InverseAnswer { agent_id, framework_id, is_accepted, at };
            self.inverse.answers.insert(key, answer);
        }
    }
}

/// The frameworks that use something of an agent.
fn users(agent: &Agent) -> BTreeSet<FrameworkId> {
    agent.used_by.keys().map(|(framework_id, _)| framework_id.clone()).collect()
}
