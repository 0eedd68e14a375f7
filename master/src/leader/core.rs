//! The leader's decisions: a function from (state, event, time) to actions. What has to outlive
//! the leader it proposes; all that it keeps is soft and ends with the term. Must not know
//! channels, tasks of a runtime, or consensus. Next: `decided.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use std::collections::BTreeMap;
use std::time::Duration;

use resources::id::{AgentId, FrameworkId, Incarnation, OfferId, OperationId, Term};
use resources::role::Role;
use resources::time::Timestamp;
use resources::weight::Weight;

use super::calls::Parked;
use super::counts::Counts;
use super::event::{Action, Event, Origin, Proposal, SessionId, SessionViews, WaiterId};
use super::feedback::Repeats;
use super::frameworks::{Frameworks, Later};
use super::inverse::Inverse;
use super::liveness::Liveness;
pub use super::liveness::{Rate, Removal, Share};
use super::offers::Offers;
use super::request::NotSettled;
use super::scheduler::{InverseAnswer, Offer, SchedulerEvent};
pub use super::sessions::Pings;
use super::sessions::Sessions;
use super::tasks::Tasks;
use crate::state::State;
use crate::state::command::{CommandKind, Notice};

/// When a caller beyond a limit shall come again.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What does not change while a master runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How agents are pinged.
    pub pings: Pings,
    /// How resources are allocated.
    pub allocator: crate::allocator::Settings,
    /// Time after which an unused offer is taken back; none for never.
    pub offer_timeout: Option<Duration>,
    /// Least time that frameworks, and all that agents, get to come back to a new leader.
    pub agent_reregister_timeout: Duration,
    /// Weights for a cluster that was never given any.
    pub weights: BTreeMap<Role, Weight>,
    /// How agents are marked unreachable.
    pub removal: Removal,
}

/// The leader's soft state. Outside of a term it only refuses.
#[derive(Debug)]
pub struct Core {
    office: Option<Office>,
    pub(super) sessions: Sessions,
    pub(super) liveness: Liveness,
    /// Agents that leave, until all that they said is in the log.
    pub(super) leaving: BTreeMap<AgentId, SessionId>,
    pub(super) frameworks: Frameworks,
    pub(super) offers: Offers,
    pub(super) tasks: Tasks,
    pub(super) repeats: Repeats,
    pub(super) parked: Parked,
    pub(super) waiters: BTreeMap<OperationId, Vec<WaiterId>>,
    pub(super) counts: Counts,
    pub(super) inverse: Inverse,
    /// For a cluster that was never given any.
    pub(super) weights: BTreeMap<Role, Weight>,
}

/// The term that this master serves.
#[derive(Debug)]
struct Office {
    term: Term,
    /// Cluster time and wall time of its beginning.
    clock: Timestamp,
    wall: Timestamp,
}

/// The first leader of a cluster that was restored ends what came before: by wall time, because
/// the same backup may be restored twice.
fn begin_anew(state: &State, wall: Timestamp) -> Option<Action> {
    let by_time = wall.since(Timestamp::default()).as_secs();
    let next = state.incarnation().0.saturating_add(1).max(by_time);
    let kind = Box::new(CommandKind::NewIncarnation { incarnation: Incarnation(next) });
    let proposal = Proposal::Plain { principal: None, source: None, kind };
    state.is_restored().then(|| Action::Propose(Origin::Nobody, proposal))
}

impl Core {
    /// A master that does not lead.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            office: None,
            sessions: Sessions::new(settings.pings),
            liveness: Liveness::new(
                settings.pings,
                settings.removal,
                settings.agent_reregister_timeout,
            ),
            leaving: BTreeMap::new(),
            frameworks: Frameworks::new(settings.agent_reregister_timeout),
            offers: Offers::new(settings.allocator, settings.offer_timeout),
            tasks: Tasks::default(),
            repeats: Repeats::default(),
            parked: Parked::new(),
            waiters: BTreeMap::new(),
            counts: Counts::default(),
            inverse: Inverse::default(),
            weights: settings.weights,
        }
    }

    /// The term that this master serves, if it leads.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        self.office.as_ref().map(|office| office.term)
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
    /// Outstanding offers by id.
    #[must_use]
    pub fn find_offers(&self, ids: &[OfferId]) -> Vec<Option<Offer>> {
        self.offers.find(ids)
    }
    /// All outstanding offers, oldest first.
    #[must_use]
    pub fn outstanding_offers(&self) -> Vec<Offer> {
        self.offers.all()
    }
    /// What frameworks said to inverse offers.
    #[must_use]
    pub fn inverse_answers(&self) -> Vec<InverseAnswer> {
        self.inverse.answers()
    }
    /// What was done since this process began.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }
    /// Whether a new leader still takes in what it will allocate: it wants the next event soon.
    #[must_use]
    pub fn is_rebuilding(&self) -> bool {
        self.offers.is_rebuilding()
    }

    /// Wall time, for statuses that the leader makes itself.
    pub(super) fn wall(&self, now: Timestamp) -> Timestamp {
        let office = self.office.as_ref();
        office.map_or(now, |office| office.wall + now.since(office.clock))
    }

    /// Takes one event and says what to do about it.
    pub fn step(&mut self, state: &State, event: Event, now: Timestamp) -> Vec<Action> {
        let by_log = matches!(&event, Event::Decided { origin: Origin::Session(_), .. });
        let mut actions = self.take(state, event, now);
        actions.extend(self.follow_sessions(state, by_log, now));
        actions
    }

    fn take(&mut self, state: &State, event: Event, now: Timestamp) -> Vec<Action> {
        match event {
            Event::OfficeTaken { term, wall } => {
                self.take_office(state, Office { term, wall, clock: now })
            }
            Event::OfficeLost => self.lose_office(),
            Event::CallArrived { call_id, request } => {
                self.call_arrived(state, (call_id, request), now)
            }
            Event::AdministrationArrived { call_id, administration } => {
                vec![self.administration_arrived(call_id, *administration)]
            }
            Event::WaitArrived { waiter_id, operation_id } => {
                self.wait_arrived(state, waiter_id, operation_id)
            }
            Event::WaitEnded { waiter_id, operation_id } => {
                self.wait_ended(waiter_id, &operation_id);
                Vec::new()
            }
            Event::Decided { origin, response } => self.decided(state, (origin, response), now),
            Event::Undecided { origin, failure } => self.undecided(state, origin, failure),
            Event::Applied { effects } => self.applied(state, effects, now),
            Event::BarrierEnded { passed } => self.barrier_ended(state, passed, now),
            Event::SessionOpened { session_id, principal, address } => {
                if self.office.is_none() {
                    return vec![Action::Close(session_id)];
                }
                self.sessions.opened(session_id, principal, address);
                Vec::new()
            }
            Event::SessionSpoke { session_id, message } => {
                self.session_spoke(state, (session_id, message), now)
            }
            Event::SessionClosed { session_id } => {
                self.sessions.closed(session_id);
                Vec::new()
            }
            Event::SubscribeArrived { ask_id, subscribing } => {
                self.subscribe_arrived(ask_id, subscribing)
            }
            Event::AskArrived { ask_id, call } => self.ask_arrived(state, (ask_id, call), now),
            Event::TeardownArrived { ask_id, principal, source, framework_id } => {
                self.teardown_arrived(ask_id, (principal, source), framework_id)
            }
            Event::StreamEnded { stream_id } => self.stream_ended(&stream_id),
            Event::InboxDrained => self.inbox_drained(state),
            Event::Ticked { .. } if self.office.is_none() => Vec::new(),
            Event::Ticked { has_quorum: true } => self.ticked(state, now),
            Event::Ticked { has_quorum: false } => self.quorum_lost(),
        }
    }

    fn take_office(&mut self, state: &State, office: Office) -> Vec<Action> {
        let mut actions = self.lose_office();
        self.offers.take_office(state, office.term, office.clock);
        self.frameworks.inherit(state);
        self.liveness.take_office(office.clock);
        let wall = office.wall;
        self.office = Some(office);
        if state.cluster_id().is_none() {
            actions.push(Action::Propose(Origin::Nobody, Proposal::FormCluster));
        }
        actions.extend(begin_anew(state, wall));
        actions.push(Action::Propose(Origin::Nobody, Proposal::TakeOffice));
        actions.extend(self.first_weights(state));
        actions
    }

    /// Everything soft ends with the term. Proposals in flight are answered when their outcome
    /// is known.
    fn lose_office(&mut self) -> Vec<Action> {
        self.office = None;
        let mut actions = self.sessions.close_all();
        self.sessions.forget_returned();
        self.leaving.clear();
        actions.extend(self.frameworks.forget());
        self.offers.forget();
        self.tasks = Tasks::default();
        self.repeats = Repeats::default();
        self.inverse = Inverse::default();
        self.counts.by_framework.clear();
        actions.extend(self.parked.forget());
        let waiters = std::mem::take(&mut self.waiters).into_values().flatten();
        actions.extend(
            waiters.map(|id| Action::AnswerWait(id, Box::new(Err(NotSettled::LeadershipLost)))),
        );
        actions
    }

    /// Nobody must take orders or offers for granted from a leader that may be deposed.
    fn quorum_lost(&mut self) -> Vec<Action> {
        let mut actions = self.sessions.close_all();
        self.liveness.quorum_lost();
        let connected: Vec<FrameworkId> = self.frameworks.connected().cloned().collect();
        actions.extend(self.frameworks.end_all());
        for framework_id in connected {
            self.offers.framework_went(&framework_id);
            self.repeats.forget(&framework_id);
        }
        actions
    }

    fn inbox_drained(&mut self, state: &State) -> Vec<Action> {
        if self.office.is_none() {
            return self.start_barrier().into_iter().collect();
        }
        let mut actions = self.sessions.flush_reports();
        actions.extend(self.tasks.flush());
        actions.extend(self.let_leave());
        actions.extend(self.frameworks.depart(state));
        self.offers.rebuild(state);
        actions.extend(self.start_barrier());
        actions
    }

    fn ticked(&mut self, state: &State, now: Timestamp) -> Vec<Action> {
        self.sessions.retry_reports();
        self.tasks.retry();
        let mut actions = self.sessions.ping(now);
        let sessions = &self.sessions;
        actions.extend(self.liveness.tick(state, |id| sessions.is_live(id), now));
        actions.extend(self.frameworks.beat(now));
        actions.extend(self.frameworks.tick(state, now));
        let expired = self.offers.expired(now);
        actions.extend(self.rescinded(expired));
        if self.offers.is_run_due(now) {
            let voided = self.offers.tell(state);
            actions.extend(self.rescinded(voided));
            actions.extend(self.make_offers(state, now));
            actions.extend(self.make_inverse_offers(state, now));
        }
        for (framework_id, own_id) in self.repeats.due(now) {
            self.repeats.taken(&framework_id, &own_id);
            if let Some(stream) = self.frameworks.stream_mut(&framework_id) {
                stream.backlog.extend([Later::Feedback(own_id)]);
            }
        }
        let connected: Vec<FrameworkId> = self.frameworks.connected().cloned().collect();
        for framework_id in connected {
            if let Some(stream) = self.frameworks.stream_mut(&framework_id) {
                stream.backlog.refill();
            }
            actions.extend(self.say_backlog(state, &framework_id, now));
        }
        actions
    }

    fn make_offers(&mut self, state: &State, now: Timestamp) -> Vec<Action> {
        let mut actions = Vec::new();
        for (framework_id, offers) in self.offers.run(state, now) {
            let Some(stream) = self.frameworks.stream(&framework_id) else {
                self.offers.framework_lost(&framework_id);
                continue;
            };
            let sent = offers.len() as u64;
            self.counts.offers.sent += sent;
            self.counts.by_framework.entry(framework_id).or_default().sent += sent;
            actions.push(stream.say(SchedulerEvent::Offers(offers)));
        }
        actions
    }

    /// Offers were taken back: their frameworks hear of it.
    pub(super) fn rescinded(&mut self, offers: Vec<Offer>) -> Vec<Action> {
        let mut actions = Vec::with_capacity(offers.len());
        for offer in offers {
            let Some(stream) = self.frameworks.stream(&offer.framework_id) else { continue };
            self.counts.offers.rescinded += 1;
            let own = self.counts.by_framework.entry(offer.framework_id).or_default();
            own.rescinded += 1;
            actions.push(stream.say(SchedulerEvent::Rescind(offer.offer_id)));
        }
        actions
    }

    /// Tells a framework, if it is there. What it has to acknowledge is kept until it has.
    pub(super) fn tell(
        &mut self,
        framework_id: &FrameworkId,
        notice: Notice,
        now: Timestamp,
    ) -> Option<Action> {
        if let Notice::Task(status) = &notice {
            self.tasks.remember(framework_id, status);
        }
        let stream = self.frameworks.stream(framework_id)?;
        if let Notice::Operation(status) = &notice
            && status.uuid.is_some()
        {
            self.repeats.said(framework_id, &status.own_id, now);
        }
        Some(stream.notice(notice))
    }
}
