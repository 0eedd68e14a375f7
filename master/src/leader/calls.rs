//! Operators' calls: what the log has to decide is proposed, after the offers that it needs were
//! taken back; what the state can refuse it refuses, once a read barrier has shown that the state
//! is not an old one. Also calls of frameworks that this leader does not know. Next:
//! `sessions.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use resources::time::Timestamp;

use super::core::{Core, RETRY_AFTER};
use super::event::{Action, AskId, CallId, Origin, Proposal};
use super::request::{
    Accepted, Administration, Granted, ProposeFailure, Refusal, Request, TransactionAccepted,
};
use super::scheduler::{SchedulerCall, SchedulerRefusal};
use crate::state::State;
use crate::state::command::Response;
use crate::state::operations::name;
use crate::state::rejection::Rejection;

/// Calls that may wait for a read barrier.
const PARKED_CALLS_MAX: usize = 16_384;

/// Calls that the state would refuse, until a read barrier shows that it is no old state.
#[derive(Debug, Default)]
pub(super) struct Parked {
    /// Came before the running barrier began.
    covered: Vec<ParkedCall>,
    /// Came since: the next barrier is theirs.
    waiting: Vec<ParkedCall>,
    is_running: bool,
}

#[derive(Debug)]
enum ParkedCall {
    Request(CallId, Box<Request>),
    Ask(AskId, Box<SchedulerCall>),
}

impl Parked {
    pub(super) const fn new() -> Self {
        Self { covered: Vec::new(), waiting: Vec::new(), is_running: false }
    }

    /// The term ended: nobody can say.
    pub(super) fn forget(&mut self) -> Vec<Action> {
        let Self { covered, waiting, is_running } = std::mem::take(self);
        // A barrier that is still running belongs to nobody now, but its end will be told.
        self.is_running = is_running;
        let calls = covered.into_iter().chain(waiting);
        calls.map(|call| call.refuse(ProposeFailure::NotLeader)).collect()
    }
}

impl ParkedCall {
    fn refuse(self, failure: ProposeFailure) -> Action {
        match self {
            Self::Request(id, _) => Action::Answer(id, Err(Refusal::Propose(failure))),
            Self::Ask(id, _) => Action::AnswerAsk(id, Err(SchedulerRefusal::Propose(failure))),
        }
    }
}

impl Core {
    pub(super) fn call_arrived(
        &mut self,
        state: &State,
        (call_id, request): (CallId, Box<Request>),
        now: Timestamp,
    ) -> Vec<Action> {
        if self.term().is_none() {
            let refusal = Refusal::Propose(ProposeFailure::NotLeader);
            return vec![Action::Answer(call_id, Err(refusal))];
        }
        let is_refused = refusal(state, &request).is_some();
        if !request.is_keyed() {
            return if is_refused {
                self.park(ParkedCall::Request(call_id, request))
            } else {
                self.propose_request(state, (call_id, request), now)
            };
        }
        // What its key knows is in the log: no look at the state may answer it, only bad form.
        // Nor does a call that will be refused void an offer.
        let form = request.check_form();
        match form {
            Err(rejection) => vec![self.reject(call_id, &request, rejection)],
            Ok(()) if is_refused => {
                vec![Action::Propose(Origin::Call(call_id), Proposal::Request(request))]
            }
            Ok(()) => self.propose_request(state, (call_id, request), now),
        }
    }

    /// A command of an operator: whether it may be is for the log to say.
    pub(super) fn administration_arrived(
        &mut self,
        call_id: CallId,
        administration: Administration,
    ) -> Action {
        if self.term().is_none() {
            let refusal = Refusal::Propose(ProposeFailure::NotLeader);
            return Action::Answer(call_id, Err(refusal));
        }
        let proposal = Proposal::Administer(Box::new(administration));
        Action::Propose(Origin::Call(call_id), proposal)
    }

    /// A call that passed its check. Offers go only for what needs them, and only now.
    fn propose_request(
        &mut self,
        state: &State,
        (call_id, request): (CallId, Box<Request>),
        now: Timestamp,
    ) -> Vec<Action> {
        let voided = self.offers.make_room(state, (call_id, &request), now);
        let mut actions = self.rescinded(voided);
        actions.push(Action::Propose(Origin::Call(call_id), Proposal::Request(request)));
        actions
    }

    pub(super) fn park_ask(&mut self, ask_id: AskId, call: Box<SchedulerCall>) -> Vec<Action> {
        self.park(ParkedCall::Ask(ask_id, call))
    }

    fn park(&mut self, call: ParkedCall) -> Vec<Action> {
        if self.parked.waiting.len() >= PARKED_CALLS_MAX {
            return vec![call.refuse(ProposeFailure::Overloaded { retry_after: RETRY_AFTER })];
        }
        self.parked.waiting.push(call);
        Vec::new()
    }

    pub(super) fn start_barrier(&mut self) -> Option<Action> {
        if self.parked.is_running || self.parked.waiting.is_empty() {
            return None;
        }
        self.parked.is_running = true;
        self.parked.covered = std::mem::take(&mut self.parked.waiting);
        Some(Action::StartBarrier)
    }

    pub(super) fn barrier_ended(
        &mut self,
        state: &State,
        passed: bool,
        now: Timestamp,
    ) -> Vec<Action> {
        self.parked.is_running = false;
        let mut actions = Vec::new();
        for call in std::mem::take(&mut self.parked.covered) {
            if !passed {
                actions.push(call.refuse(ProposeFailure::NoLeader));
                continue;
            }
            actions.extend(match call {
                ParkedCall::Request(id, request) => match refusal(state, &request) {
                    None => self.propose_request(state, (id, request), now),
                    Some(rejection) => vec![self.reject(id, &request, rejection)],
                },
                ParkedCall::Ask(id, call) => self.ask_covered(state, (id, call), now),
            });
        }
        actions.extend(self.start_barrier());
        actions
    }

    pub(super) fn call_decided(&mut self, call_id: CallId, response: Response) -> Action {
        self.offers.room_used(call_id);
        let answer = match response {
            Response::Accepted { operation_id, agent_id: _, resource_version } => {
                Ok(Granted::Operation(Accepted { operation_id, resource_version }))
            }
            Response::Transacted { transaction_id, operation_ids, versions } => {
                let accepted = TransactionAccepted { transaction_id, operation_ids, versions };
                Ok(Granted::Transaction(accepted))
            }
            Response::Ruled => Ok(Granted::Rule),
            Response::Rejected(rejection) => Err(Refusal::Rejected(rejection)),
            Response::Done => Ok(Granted::Nothing),
            Response::Registered { .. } | Response::Subscribed { .. } | Response::Judged { .. } => {
                unreachable!("a request is accepted or rejected")
            }
        };
        Action::Answer(call_id, answer)
    }

    pub(super) fn call_undecided(&mut self, call_id: CallId, failure: ProposeFailure) -> Action {
        self.offers.room_used(call_id);
        Action::Answer(call_id, Err(Refusal::Propose(failure)))
    }

    fn reject(&mut self, call_id: CallId, request: &Request, rejection: Rejection) -> Action {
        for (_, operation) in request.asked().operations {
            self.counts.refused(name(operation));
        }
        Action::Answer(call_id, Err(Refusal::Rejected(rejection)))
    }
}

/// What the state says against a request. A fault is for the log to find: it raises the alarm.
fn refusal(state: &State, request: &Request) -> Option<Rejection> {
    let rejection = request.check(state).err()?;
    let is_fault = matches!(rejection.root(), Rejection::Fault { .. });
    (!is_fault).then_some(rejection)
}
