//! Proposals that came to their end: decided by the log, or not. Whoever asked is told, and what
//! waited for the end goes on. Next: `applied.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use resources::time::Timestamp;

use super::core::Core;
use super::event::{Action, Origin};
use super::request::ProposeFailure;
use super::scheduler::SchedulerRefusal;
use super::scheduling::answer;
use crate::state::State;
use crate::state::command::Response;

impl Core {
    pub(super) fn decided(
        &mut self,
        state: &State,
        (origin, response): (Origin, Response),
        now: Timestamp,
    ) -> Vec<Action> {
        match origin {
            Origin::Nobody => Vec::new(),
            Origin::Session(id) => self.sessions.registered(state, id, response, now),
            Origin::Report(agent_id) => {
                self.sessions.report_decided(state, &agent_id, &response);
                Vec::new()
            }
            Origin::Tasks(agent_id) => {
                self.tasks.decided(&agent_id);
                Vec::new()
            }
            Origin::Call(call_id) => vec![self.call_decided(call_id, response)],
            Origin::Subscribe(ask_id) => self.subscribe_decided(state, (ask_id, response), now),
            Origin::Ask(ask_id) => vec![answer(ask_id, &response)],
            Origin::Suppress(ask_id, framework_id) => {
                self.suppress_ended(state, &framework_id);
                vec![answer(ask_id, &response)]
            }
            Origin::Accept(ask_id) => self.accept_decided(state, (ask_id, response), now),
            Origin::Departures => {
                self.frameworks.departures_ended();
                Vec::new()
            }
            Origin::Absences => {
                self.liveness.departures_ended();
                Vec::new()
            }
            Origin::Presence(agent_id) => {
                self.liveness.proposal_ended(&agent_id);
                Vec::new()
            }
            Origin::Farewell(id) => self.sessions.farewell(id, &response),
            Origin::Removal(framework_id) => {
                self.frameworks.removal_ended(&framework_id);
                Vec::new()
            }
        }
    }

    pub(super) fn undecided(
        &mut self,
        state: &State,
        origin: Origin,
        failure: ProposeFailure,
    ) -> Vec<Action> {
        match origin {
            // An agent that leaves says so until it is answered.
            Origin::Nobody | Origin::Farewell(_) => Vec::new(),
            Origin::Session(id) => self.sessions.unregistered(id),
            Origin::Report(agent_id) => {
                self.sessions.report_undecided(&agent_id);
                Vec::new()
            }
            Origin::Tasks(agent_id) => {
                self.tasks.undecided(&agent_id);
                Vec::new()
            }
            Origin::Call(call_id) => vec![self.call_undecided(call_id, failure)],
            Origin::Subscribe(ask_id) => self.subscribe_undecided(ask_id, failure),
            Origin::Ask(ask_id) => {
                let refusal = SchedulerRefusal::Propose(failure);
                vec![Action::AnswerAsk(ask_id, Err(refusal))]
            }
            Origin::Suppress(ask_id, framework_id) => {
                self.suppress_ended(state, &framework_id);
                let refusal = SchedulerRefusal::Propose(failure);
                vec![Action::AnswerAsk(ask_id, Err(refusal))]
            }
            Origin::Accept(ask_id) => self.accept_undecided(ask_id, &failure),
            Origin::Departures => {
                self.frameworks.departures_ended();
                Vec::new()
            }
            Origin::Absences => {
                self.liveness.departures_ended();
                Vec::new()
            }
            Origin::Presence(agent_id) => {
                self.liveness.proposal_lost(&agent_id);
                Vec::new()
            }
            Origin::Removal(framework_id) => {
                self.frameworks.removal_ended(&framework_id);
                Vec::new()
            }
        }
    }
}
