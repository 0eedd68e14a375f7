//! The leader's decisions: a function from (state, event, time) to actions. What the log has
//! to decide it proposes; what the state can refuse it refuses, once a read barrier has shown
//! that the state is not an old one. Must not know channels, tasks or consensus.
//! Next: `sessions.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use std::collections::BTreeMap;
use std::time::Duration;

use resources::id::{AgentId, OperationId, Term};
use resources::message::{AgentMessage, Order};
use resources::time::Timestamp;

use super::event::{
    Accepted, Action, CallId, Event, Granted, NotSettled, Origin, Proposal, ProposeFailure,
    Refusal, Request, SessionViews, TransactionAccepted, WaiterId,
};
pub use super::sessions::Pings;
use super::sessions::Sessions;
use crate::state::State;
use crate::state::command::{Change, Effect, Response};
use crate::state::rejection::Rejection;

/// Calls that may wait for a read barrier.
const PARKED_CALLS_MAX: usize = 16_384;
/// When a caller beyond a limit shall come again.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The leader's soft state. Outside of a term it only refuses.
#[derive(Debug)]
pub struct Core {
    term: Option<Term>,
    sessions: Sessions,
    parked: Parked,
    waiters: BTreeMap<OperationId, Vec<WaiterId>>,
}

/// Calls that the state would refuse, until a read barrier shows that it is no old state.
#[derive(Debug, Default)]
struct Parked {
    /// Came before the running barrier began.
    covered: Vec<(CallId, Box<Request>)>,
    /// Came since: the next barrier is theirs.
    waiting: Vec<(CallId, Box<Request>)>,
    is_running: bool,
}

impl Core {
    /// A master that does not lead.
    #[must_use]
    pub const fn new(pings: Pings) -> Self {
        Self {
            term: None,
            sessions: Sessions::new(pings),
            parked: Parked { covered: Vec::new(), waiting: Vec::new(), is_running: false },
            waiters: BTreeMap::new(),
        }
    }

    /// The term that this master serves, if it leads.
    #[must_use]
    pub const fn term(&self) -> Option<Term> {
        self.term
    }

    /// Live sessions by agent, and who came back under this leader.
    #[must_use]
    pub fn session_views(&self) -> SessionViews {
        self.sessions.views()
    }

    /// Moves with every change of [`Core::session_views`].
    #[must_use]
    pub const fn sessions_revision(&self) -> u64 {
        self.sessions.revision()
    }

    /// Takes one event and says what to do about it.
    pub fn step(&mut self, state: &State, event: Event, now: Timestamp) -> Vec<Action> {
        match event {
            Event::OfficeTaken { term } => self.take_office(state, term),
            Event::OfficeLost => self.lose_office(),
            Event::CallArrived { call_id, request } => self.call_arrived(state, call_id, request),
            Event::WaitArrived { waiter_id, operation_id } => {
                self.wait_arrived(state, waiter_id, operation_id)
            }
            Event::WaitEnded { waiter_id, operation_id } => {
                self.wait_ended(waiter_id, &operation_id);
                Vec::new()
            }
            Event::Decided { origin, response } => self.decided(state, (origin, response), now),
            Event::Undecided { origin, failure } => self.undecided(origin, failure),
            Event::Applied { effects } => self.applied(state, effects),
            Event::BarrierEnded { passed } => self.barrier_ended(state, passed),
            Event::SessionOpened { session_id, principal, address } => {
                if self.term.is_none() {
                    return vec![Action::Close(session_id)];
                }
                self.sessions.opened(session_id, principal, address);
                Vec::new()
            }
            Event::SessionSpoke { session_id, message } => match (self.term, message) {
                (None, _) => vec![Action::Close(session_id)],
                (Some(term), AgentMessage::Register(registration)) => {
                    self.sessions.registering(state, term, (session_id, registration), now)
                }
                (Some(_), message) => self.sessions.spoke(state, session_id, message),
            },
            Event::SessionClosed { session_id } => {
                self.sessions.closed(session_id);
                Vec::new()
            }
            Event::InboxDrained => {
                let mut actions = self.sessions.flush_reports();
                actions.extend(self.start_barrier());
                actions
            }
            Event::Ticked { has_quorum: true } => {
                self.sessions.retry_reports();
                self.sessions.ping(now)
            }
            // An agent must not take orders for granted from a leader that may be deposed.
            Event::Ticked { has_quorum: false } => self.sessions.close_all(),
        }
    }

    fn take_office(&mut self, state: &State, term: Term) -> Vec<Action> {
        let mut actions = self.lose_office();
        self.term = Some(term);
        if state.cluster_id().is_none() {
            actions.push(Action::Propose(Origin::Nobody, Proposal::FormCluster));
        }
        actions.push(Action::Propose(Origin::Nobody, Proposal::TakeOffice));
        actions
    }

    /// Everything soft ends with the term. Proposals in flight are answered when their outcome
    /// is known.
    fn lose_office(&mut self) -> Vec<Action> {
        self.term = None;
        let mut actions = self.sessions.close_all();
        self.sessions.forget_returned();
        let parked = std::mem::take(&mut self.parked);
        // A barrier that is still running belongs to nobody now, but its end will be told.
        self.parked.is_running = parked.is_running;
        let not_leader = || Err(Refusal::Propose(ProposeFailure::NotLeader));
        let calls = parked.covered.into_iter().chain(parked.waiting);
        actions.extend(calls.map(|(call_id, _)| Action::Answer(call_id, not_leader())));
        let waiters = std::mem::take(&mut self.waiters).into_values().flatten();
        actions.extend(
            waiters.map(|id| Action::AnswerWait(id, Box::new(Err(NotSettled::LeadershipLost)))),
        );
        actions
    }
}

/// Calls.
impl Core {
    fn call_arrived(
        &mut self,
        state: &State,
        call_id: CallId,
        request: Box<Request>,
    ) -> Vec<Action> {
        if self.term.is_none() {
            let refusal = Refusal::Propose(ProposeFailure::NotLeader);
            return vec![Action::Answer(call_id, Err(refusal))];
        }
        // What its key knows is in the log: no look at the state may answer it, only bad form.
        let decided_by_log = if request.is_keyed() {
            let form = request.asked().check_form();
            if let Err(rejection) = form {
                return vec![Action::Answer(call_id, Err(Refusal::Rejected(rejection)))];
            }
            true
        } else {
            refusal(state, &request).is_none()
        };
        if decided_by_log {
            return vec![Action::Propose(Origin::Call(call_id), Proposal::Request(request))];
        }
        if self.parked.waiting.len() >= PARKED_CALLS_MAX {
            let failure = ProposeFailure::Overloaded { retry_after: RETRY_AFTER };
            return vec![Action::Answer(call_id, Err(Refusal::Propose(failure)))];
        }
        self.parked.waiting.push((call_id, request));
        Vec::new()
    }

    fn start_barrier(&mut self) -> Option<Action> {
        if self.parked.is_running || self.parked.waiting.is_empty() {
            return None;
        }
        self.parked.is_running = true;
        self.parked.covered = std::mem::take(&mut self.parked.waiting);
        Some(Action::StartBarrier)
    }

    fn barrier_ended(&mut self, state: &State, passed: bool) -> Vec<Action> {
        self.parked.is_running = false;
        let covered = std::mem::take(&mut self.parked.covered);
        let decide = |(call_id, request): (CallId, Box<Request>)| {
            if !passed {
                let refusal = Refusal::Propose(ProposeFailure::NoLeader);
                return Action::Answer(call_id, Err(refusal));
            }
            match refusal(state, &request) {
                None => Action::Propose(Origin::Call(call_id), Proposal::Request(request)),
                Some(rejection) => Action::Answer(call_id, Err(Refusal::Rejected(rejection))),
            }
        };
        let mut actions: Vec<Action> = covered.into_iter().map(decide).collect();
        actions.extend(self.start_barrier());
        actions
    }

    fn decided(
        &mut self,
        state: &State,
        (origin, response): (Origin, Response),
        now: Timestamp,
    ) -> Vec<Action> {
        match (origin, response) {
            (Origin::Nobody, _) => Vec::new(),
            (Origin::Session(id), response) => self.sessions.registered(state, id, response, now),
            (Origin::Report(agent_id), response) => {
                self.sessions.report_decided(state, &agent_id, &response);
                Vec::new()
            }
            (
                Origin::Call(call_id),
                Response::Accepted { operation_id, agent_id: _, resource_version },
            ) => {
                let accepted = Accepted { operation_id, resource_version };
                vec![Action::Answer(call_id, Ok(Granted::Operation(accepted)))]
            }
            (
                Origin::Call(call_id),
                Response::Transacted { transaction_id, operation_ids, versions },
            ) => {
                let accepted = TransactionAccepted { transaction_id, operation_ids, versions };
                vec![Action::Answer(call_id, Ok(Granted::Transaction(accepted)))]
            }
            (Origin::Call(call_id), Response::Rejected(rejection)) => {
                vec![Action::Answer(call_id, Err(Refusal::Rejected(rejection)))]
            }
            (Origin::Call(_), Response::Done | Response::Registered { .. }) => {
                unreachable!("a request is accepted or rejected")
            }
        }
    }

    fn undecided(&mut self, origin: Origin, failure: ProposeFailure) -> Vec<Action> {
        match origin {
            Origin::Nobody => Vec::new(),
            Origin::Session(id) => self.sessions.unregistered(id),
            Origin::Report(agent_id) => {
                self.sessions.report_undecided(&agent_id);
                Vec::new()
            }
            Origin::Call(call_id) => {
                vec![Action::Answer(call_id, Err(Refusal::Propose(failure)))]
            }
        }
    }
}

/// Applied entries, and those who wait for them.
impl Core {
    fn applied(&mut self, state: &State, effects: Vec<Effect>) -> Vec<Action> {
        if self.term.is_none() {
            return Vec::new();
        }
        let mut orders: BTreeMap<AgentId, Vec<Order>> = BTreeMap::new();
        let mut actions = Vec::new();
        for effect in effects {
            match effect {
                Effect::Order(agent_id, order) => orders.entry(agent_id).or_default().push(*order),
                Effect::Acknowledge(agent_id, upto) => {
                    actions.extend(self.sessions.acknowledge(&agent_id, upto));
                }
                Effect::Change(Change::OperationSettled(operation_id, _)) => {
                    actions.extend(self.settled(state, &operation_id));
                }
                Effect::Change(Change::AgentSuperseded { old, new: _ }) => {
                    actions.extend(self.sessions.superseded(&old));
                }
                Effect::Change(
                    Change::ClusterFormed(_)
                    | Change::LeaderAnnounced(..)
                    | Change::AgentAdded(..)
                    | Change::AgentUpdated(_)
                    | Change::TransactionMoved(..)
                    | Change::AlarmRaised(_),
                ) => {}
            }
        }
        actions.extend(self.sessions.orders(state, orders));
        actions
    }

    fn wait_arrived(
        &mut self,
        state: &State,
        waiter_id: WaiterId,
        operation_id: OperationId,
    ) -> Vec<Action> {
        let answer = match state.operation(&operation_id) {
            Some(record) if record.is_settled() => Ok(record.clone()),
            _ if self.term.is_none() => Err(NotSettled::LeadershipLost),
            None => Err(NotSettled::UnknownOperation),
            Some(_) => {
                self.waiters.entry(operation_id).or_default().push(waiter_id);
                return Vec::new();
            }
        };
        vec![Action::AnswerWait(waiter_id, Box::new(answer))]
    }

    fn wait_ended(&mut self, waiter_id: WaiterId, operation_id: &OperationId) {
        if let Some(waiters) = self.waiters.get_mut(operation_id) {
            waiters.retain(|waiter| *waiter != waiter_id);
            if waiters.is_empty() {
                self.waiters.remove(operation_id);
            }
        }
    }

    fn settled(&mut self, state: &State, operation_id: &OperationId) -> Vec<Action> {
        let waiters = self.waiters.remove(operation_id).unwrap_or_default();
        let record = state.operation(operation_id);
        let answer = record.cloned().ok_or(NotSettled::UnknownOperation);
        let tell = |id| Action::AnswerWait(id, Box::new(answer.clone()));
        waiters.into_iter().map(tell).collect()
    }
}

/// What the state says against a request. A fault is for the log to find: it raises the alarm.
fn refusal(state: &State, request: &Request) -> Option<Rejection> {
    let rejection = state.check(&request.asked()).err()?;
    let is_fault = matches!(rejection.root(), Rejection::Fault { .. });
    (!is_fault).then_some(rejection)
}
