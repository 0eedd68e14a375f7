//! ACCEPT (spec §2.3): its offers are taken, the log judges it, and what is left goes back. An
//! ACCEPT whose offers are void is answered without the log, by what the state knows of its
//! tasks and operations: it may be a repeat. Next: `core.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use resources::id::{AgentId, FrameworkId};
use resources::time::Timestamp;

use super::answers::{Nothing, nothing_came};
use super::core::Core;
use super::event::{Action, AskId, Origin, Proposal};
use super::offers::{Hold, Taken, Taking};
use super::request::ProposeFailure;
use super::scheduler::{Ask, SchedulerCall, SchedulerRefusal};
use crate::state::State;
use crate::state::accept::{Accept, Step};
use crate::state::command::Response;
use crate::state::frameworks::Framework;

impl Core {
    pub(super) fn accept(
        &mut self,
        state: &State,
        framework: &Framework,
        (ask_id, call): (AskId, Box<SchedulerCall>),
        now: Timestamp,
    ) -> Vec<Action> {
        let Ask::Accept { offer_ids, steps, refuse } = &call.ask else { return Vec::new() };
        match self.offers.take(&framework.id, offer_ids) {
            Taking::Held(holder) => {
                self.offers.repeat(holder, (ask_id, call));
                Vec::new()
            }
            Taking::Invalid { why, discarded } => {
                self.count_declined(&framework.id, discarded);
                let why = Nothing::Offers(&why);
                let mut actions = self.come_to_nothing(state, framework, (None, steps), why, now);
                actions.push(Action::AnswerAsk(ask_id, Ok(())));
                actions
            }
            Taking::Taken(taken) if is_nothing_asked(steps) => {
                self.offers.decline_taken(&taken, *refuse, now);
                self.count_declined(&framework.id, taken.offers.len());
                vec![Action::AnswerAsk(ask_id, Ok(()))]
            }
            Taking::Taken(taken) if !self.sessions.is_live(&taken.agent_id) => {
                self.offers.discard(&taken.offers);
                let told = (Some(&taken.agent_id), &steps[..]);
                let mut actions = self.come_to_nothing(state, framework, told, Nothing::Agent, now);
                actions.push(Action::AnswerAsk(ask_id, Ok(())));
                actions
            }
            Taking::Taken(taken) => {
                self.propose_accept(state, framework, (ask_id, call), taken, now)
            }
        }
    }

    fn propose_accept(
        &mut self,
        state: &State,
        framework: &Framework,
        (ask_id, call): (AskId, Box<SchedulerCall>),
        taken: Taken,
        now: Timestamp,
    ) -> Vec<Action> {
        let SchedulerCall { principal, source, stream_id, ask, .. } = *call;
        let Ask::Accept { offer_ids: _, steps, refuse } = ask else { return Vec::new() };
        self.count_accepted(&framework.id, taken.offers.len());
        let voided = self.offers.make_room_for(state, &taken, &steps, now);
        let mut actions = self.rescinded(voided);
        let accept = Accept {
            framework_id: framework.id.clone(),
            agent_id: taken.agent_id,
            role: taken.role,
            offered: taken.resources.iter_with_shares().cloned().collect(),
            steps: steps.clone(),
        };
        let (offers, repeats, since) = (taken.offers, Vec::new(), now);
        self.offers.hold(ask_id, Hold { offers, steps, refuse, stream_id, repeats, since });
        let proposal = Proposal::Accept { principal, source, accept: Box::new(accept) };
        actions.push(Action::Propose(Origin::Accept(ask_id), proposal));
        actions
    }

    /// The log has decided an ACCEPT.
    pub(super) fn accept_decided(
        &mut self,
        state: &State,
        (ask_id, response): (AskId, Response),
        now: Timestamp,
    ) -> Vec<Action> {
        let mut actions = vec![Action::AnswerAsk(ask_id, Ok(()))];
        // Without a hold the term has ended since: its frameworks ask the next leader.
        let Some(hold) = self.offers.let_go(ask_id) else { return actions };
        match response {
            Response::Judged { unused, made: _ } => {
                self.offers.settle(state, &hold, &unused, now);
            }
            Response::Rejected(rejection) => {
                self.offers.discard(&hold.offers);
                let first = hold.offers.first().map(|(_, offer)| offer);
                let framework = first.and_then(|offer| state.framework(&offer.framework_id));
                if let Some(framework) = framework {
                    let words = rejection.to_string();
                    let told = (first.map(|offer| &offer.agent_id), &hold.steps[..]);
                    let why = Nothing::Offers(&words);
                    actions.extend(self.come_to_nothing(state, framework, told, why, now));
                }
            }
            Response::Done
            | Response::Ruled
            | Response::Registered { .. }
            | Response::Accepted { .. }
            | Response::Transacted { .. }
            | Response::Subscribed { .. } => self.offers.discard(&hold.offers),
        }
        for (ask_id, call) in hold.repeats {
            actions.extend(self.ask_arrived(state, (ask_id, call), now));
        }
        actions
    }

    /// An ACCEPT has no known outcome, or was never proposed.
    pub(super) fn accept_undecided(
        &mut self,
        ask_id: AskId,
        failure: &ProposeFailure,
    ) -> Vec<Action> {
        let refuse = |id| {
            let refusal = SchedulerRefusal::Propose(failure.clone());
            Action::AnswerAsk(id, Err(refusal))
        };
        let mut actions = vec![refuse(ask_id)];
        let repeats = if failure.is_retryable() {
            let Some(hold) = self.offers.let_go(ask_id) else { return actions };
            self.restore(hold)
        } else {
            self.offers.keep_holding(ask_id)
        };
        actions.extend(repeats.into_iter().map(|(id, _)| refuse(id)));
        actions
    }

    /// The offers are out again, if their agent and their stream are still there.
    fn restore(&mut self, mut hold: Hold) -> Vec<(AskId, Box<SchedulerCall>)> {
        let repeats = std::mem::take(&mut hold.repeats);
        let is_there = hold.offers.first().is_some_and(|(_, offer)| {
            let stream = self.frameworks.stream(&offer.framework_id);
            let own = stream.map(|stream| &stream.stream_id);
            own == hold.stream_id.as_ref() && self.sessions.is_live(&offer.agent_id)
        });
        if is_there {
            self.offers.restore(hold);
        } else {
            self.offers.discard(&hold.offers);
        }
        repeats
    }

    fn come_to_nothing(
        &mut self,
        state: &State,
        framework: &Framework,
        (agent_id, steps): (Option<&AgentId>, &[Step]),
        why: Nothing<'_>,
        now: Timestamp,
    ) -> Vec<Action> {
        let wall = self.wall(now);
        let Some(stream) = self.frameworks.stream(&framework.id) else { return Vec::new() };
        let notices = nothing_came(state, framework, agent_id, steps, (why, wall));
        notices.into_iter().map(|notice| stream.notice(notice)).collect()
    }

    pub(super) fn count_declined(&mut self, framework_id: &FrameworkId, offers: usize) {
        let offers = offers as u64;
        self.counts.offers.declined += offers;
        self.counts.by_framework.entry(framework_id.clone()).or_default().declined += offers;
    }

    fn count_accepted(&mut self, framework_id: &FrameworkId, offers: usize) {
        let offers = offers as u64;
        self.counts.offers.accepted += offers;
        self.counts.by_framework.entry(framework_id.clone()).or_default().accepted += offers;
    }
}

/// Neither an operation nor a task: the framework declines.
fn is_nothing_asked(steps: &[Step]) -> bool {
    steps.iter().all(|step| match step {
        Step::Operate { .. } => false,
        Step::Launch { tasks } => tasks.is_empty(),
        Step::LaunchGroup { tasks, .. } => tasks.is_empty(),
    })
}
