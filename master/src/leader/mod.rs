//! The leader: one event loop around the pure core. It drains everything that is waiting, lets
//! the core act once on it under the apply lock, and carries out what comes back. It must not
//! decide anything itself, and never waits while it carries out.
//!
//! Reading order: `view.rs` and `handle.rs` (what the edges hold); then the pure part: `event.rs`,
//! `request.rs` and `scheduler.rs` (the vocabulary), `core.rs`, `decided.rs`, `applied.rs`,
//! `agents.rs`, `rules.rs`, `calls.rs`, `subscribing.rs`, `scheduling.rs`, `accepting.rs`,
//! `answers.rs`, and what they keep: `sessions.rs`, `liveness.rs`, `frameworks.rs`, `offers.rs`,
//! `inverse.rs`, `tasks.rs`, `feedback.rs`, `counts.rs`; `messages.rs`, `constraints.rs`,
//! `display.rs`; then the shell: `intake.rs`, `office.rs`, `clock.rs`,
//! `propose.rs` (times, ids, batches), `outbox.rs`, `streams.rs`, `waiting.rs`.

mod accepting;
mod agents;
mod answers;
mod applied;
mod calls;
mod clock;
pub mod constraints;
pub mod core;
pub mod counts;
mod decided;
mod display;
pub mod event;
mod feedback;
mod frameworks;
mod handle;
mod intake;
mod inverse;
mod liveness;
mod members;
mod messages;
mod offers;
mod office;
mod outbox;
mod propose;
pub mod request;
mod rules;
pub mod scheduler;
mod scheduling;
mod sessions;
mod streams;
mod subscribing;
mod tasks;
#[cfg(test)]
mod tests;
mod view;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use raft::{AppliedBatch, ClusterIdError, Leadership as NodeLeadership, Node, ProposeError};
use resources::id::{ClusterId, StreamId, Term};
use resources::message::Fence;
use resources::role::Role;
use resources::time::Timestamp;
use resources::weight::Weight;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use self::clock::Clock;
pub use self::constraints::offer_constraints;
use self::core::{Core, Pings, Settings};
pub use self::core::{Rate, Removal, Share};
pub use self::counts::{AgentCounts, Counts, OfferCounts, OperationCounts};
pub use self::event::{SessionView, SessionViews};
pub use self::handle::Handle;
pub(crate) use self::handle::Session;
pub use self::members::MemberChange;
pub(crate) use self::outbox::Fenced;
pub use self::request::{
    Accepted, Administration, Call, NotSettled, ProposeFailure, Refusal, Request, Ruling,
    Transaction, TransactionAccepted,
};
pub use self::view::{Consistency, Leadership, MasterIdentity, ReadFailure, View};

use self::event::{Action, Event, SessionId};
use self::handle::{INBOX_MESSAGES_MAX, Inbox, Shared};
use self::intake::noted;
use self::outbox::Outboxes;
use self::propose::{Landed, Proposer};
use self::streams::Streams;
use self::view::PublishedSessions;
use self::waiting::Waiting;
use crate::allocator;
use crate::machine::Replica;
use crate::state::State;

/// How often the loop looks at what moves without an event.
const TICK: Duration = Duration::from_millis(100);
/// Messages that the core takes in at once, so that the apply lock is held shortly.
const DRAINED_MESSAGES_MAX: usize = 1_024;
/// Turns left to other tasks before a batch is closed: larger batches, fewer fsyncs.
const GATHERING_TURNS: usize = 2;

/// How a leader is set up.
#[derive(Debug, Clone)]
pub struct Config {
    /// Which master this is.
    pub identity: MasterIdentity,
    /// `--agent-ping-timeout`: interval of the pings.
    pub agent_ping_timeout: Duration,
    /// `--max-agent-ping-timeouts`: unanswered pings until a session is closed.
    pub agent_pings_missed_max: u32,
    /// The longest election timeout: past it without a quorum, streams are ended.
    pub election_timeout_max: Duration,
    /// How resources are allocated: `--allocation-interval`, `--min-allocatable-resources`,
    /// `--filter-gpu-resources`, `--whitelist`, and more.
    pub allocator: allocator::Settings,
    /// `--offer-timeout`: age at which an unused offer is taken back.
    pub offer_timeout: Option<Duration>,
    /// `--agent-reregister-timeout`: time that agents, and at least frameworks, get to come back
    /// to a new leader.
    pub agent_reregister_timeout: Duration,
    /// Weights for a cluster that was never given any.
    pub weights: BTreeMap<Role, Weight>,
    /// `--recovery-agent-removal-limit`, `--agent-removal-rate-limit`.
    pub removal: Removal,
}

/// The event loop.
pub struct Leader {
    node: Node<Replica>,
    config: Config,
    core: Core,
    proposer: Proposer,
    outboxes: Outboxes,
    streams: Streams,
    waiting: Waiting,
    raft: watch::Receiver<NodeLeadership>,
    sink: Option<mpsc::UnboundedReceiver<AppliedBatch<Replica>>>,
    /// The term that is being assumed.
    assuming: Option<Term>,
    has_quorum: bool,
    is_cluster_id_stored: bool,
    sessions_revision: u64,
    inbox: mpsc::Receiver<Inbox>,
    jobs: JoinSet<Job>,
    readers: JoinSet<SessionId>,
    /// Each ends when its scheduler's stream does.
    watchers: JoinSet<StreamId>,
    leadership: watch::Sender<Leadership>,
    sessions: watch::Sender<PublishedSessions>,
    counts: watch::Sender<Arc<Counts>>,
    shutdown: CancellationToken,
}

/// What ran beside the loop.
enum Job {
    Landed(Landed),
    Barrier(Result<(), ProposeError>),
    Assumed(Term, Result<Assumed, ProposeError>),
    ClusterIdStored(Result<(), ClusterIdError>),
}

/// Cluster time at the election, and everything applied since.
type Assumed = (Timestamp, mpsc::UnboundedReceiver<AppliedBatch<Replica>>);

impl Leader {
    /// Starts the loop of a master. It leads whenever the node does.
    #[must_use]
    pub fn start(node: Node<Replica>, config: Config) -> Handle {
        let (inbox_sender, inbox) = mpsc::channel(INBOX_MESSAGES_MAX);
        let (leadership, leadership_receiver) = watch::channel(Leadership::Unknown);
        let (sessions, sessions_receiver) = watch::channel(PublishedSessions::default());
        let (counts, counts_receiver) = watch::channel(Arc::default());
        let shutdown = CancellationToken::new();
        let identity = config.identity.clone();
        let clock = Clock::default();
        let leader = Self {
            core: Core::new(settings(&config)),
            proposer: Proposer::new(identity.id, identity.advertise.clone(), clock.clone()),
            outboxes: Outboxes::default(),
            streams: Streams::default(),
            waiting: Waiting::default(),
            raft: node.leadership(),
            sink: None,
            assuming: None,
            has_quorum: false,
            is_cluster_id_stored: false,
            sessions_revision: 0,
            inbox,
            jobs: JoinSet::new(),
            readers: JoinSet::new(),
            watchers: JoinSet::new(),
            leadership,
            sessions,
            counts,
            shutdown: shutdown.clone(),
            node: node.clone(),
            config,
        };
        let event_loop = tokio::spawn(leader.run());
        Handle::new(Shared {
            clock,
            node,
            inbox: inbox_sender,
            leadership: leadership_receiver,
            sessions: sessions_receiver,
            counts: counts_receiver,
            identity,
            shutdown,
            event_loop: Mutex::new(Some(event_loop)),
            sessions_made: AtomicU64::new(1),
        })
    }

    async fn run(mut self) {
        let mut ticks = ticks();
        loop {
            let mut events = Vec::new();
            // Every arm is cancel-safe: receivers, join sets and intervals lose nothing.
            tokio::select! {
                () = self.shutdown.cancelled() => break,
                changed = self.raft.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    self.leadership_changed(&mut events);
                }
                Some(applied) = next(&mut self.sink) => events.push(noted(applied)),
                Some(job) = self.jobs.join_next() => self.finished(job, &mut events),
                Some(reader) = self.readers.join_next() => self.session_ended(reader, &mut events),
                Some(watcher) = self.watchers.join_next() => {
                    self.stream_ended(watcher, &mut events);
                }
                message = self.inbox.recv() => {
                    let Some(message) = message else { break };
                    self.take_in(message, &mut events);
                }
                _ = ticks.tick() => self.ticked(&mut events),
                // A new leader goes on as soon as nothing else waits.
                () = tokio::task::yield_now(), if self.core.is_rebuilding() => {}
            }
            self.gather(&mut events).await;
            self.act(events);
        }
        self.end().await;
    }

    /// Takes in whatever else is there, and leaves a little time for more: a batch costs one
    /// fsync, however many commands are in it.
    async fn gather(&mut self, events: &mut Vec<Event>) {
        for turn in 0..=GATHERING_TURNS {
            while let Some(applied) = self.sink.as_mut().and_then(|sink| sink.try_recv().ok()) {
                events.push(noted(applied));
            }
            while let Some(job) = self.jobs.try_join_next() {
                self.finished(job, events);
            }
            while events.len() < DRAINED_MESSAGES_MAX
                && let Ok(message) = self.inbox.try_recv()
            {
                self.take_in(message, events);
            }
            if turn < GATHERING_TURNS {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Lets the core act on events, and carries out what it says until nothing follows.
    fn act(&mut self, mut events: Vec<Event>) {
        events.push(Event::InboxDrained);
        while !events.is_empty() {
            let now = self.proposer.now();
            let taken = std::mem::take(&mut events);
            let core = &mut self.core;
            let (actions, fence) = self.node.read(|replica| {
                let state = replica.state();
                let steps = taken.into_iter().flat_map(|event| core.step(state, event, now));
                let actions: Vec<Action> = steps.collect();
                (actions, fence(state, core.term()))
            });
            for action in actions {
                events.extend(self.carry_out(action, fence.as_ref()));
            }
        }
        while let Some(flight) = self.proposer.next_flight() {
            let node = self.node.clone();
            self.jobs.spawn(async move { Job::Landed(flight.fly(node).await) });
        }
        if self.sessions_revision != self.core.sessions_revision() {
            self.sessions_revision = self.core.sessions_revision();
            self.sessions.send_replace(self.core.session_views().into());
        }
        self.publish();
    }

    /// Carries out one action; says what it led to at once.
    fn carry_out(&mut self, action: Action, fence: Option<&Fence>) -> Option<Event> {
        match action {
            Action::Propose(origin, proposal) => {
                match self.proposer.add(origin.clone(), proposal) {
                    Ok(operation_id) => self.waiting.proposed(&origin, operation_id),
                    Err(event) => return Some(*event),
                }
            }
            Action::Answer(call_id, answer) => self.waiting.answer(call_id, answer),
            Action::AnswerWait(waiter_id, answer) => self.waiting.answer_wait(waiter_id, *answer),
            Action::Send(session_id, message) => {
                let is_sent =
                    fence.is_some_and(|fence| self.outboxes.send(session_id, fence, *message));
                if !is_sent {
                    self.outboxes.close(session_id);
                    return Some(Event::SessionClosed { session_id });
                }
            }
            Action::Close(session_id) => self.outboxes.close(session_id),
            Action::AnswerAsk(ask_id, answer) => self.waiting.answer_ask(ask_id, answer),
            Action::Say(stream_id, event) => {
                if !self.streams.say(&stream_id, *event) {
                    return Some(Event::StreamEnded { stream_id });
                }
            }
            Action::EndStream(stream_id) => self.streams.end(&stream_id),
            Action::StartBarrier => {
                let node = self.node.clone();
                self.jobs.spawn(async move { Job::Barrier(node.read_barrier().await.map(|_| ())) });
            }
        }
        None
    }

    fn ticked(&mut self, events: &mut Vec<Event>) {
        let acknowledged = self.node.status().last_quorum_ack;
        self.has_quorum =
            acknowledged.is_some_and(|since| since <= self.config.election_timeout_max);
        events.extend(self.waiting.sweep());
        self.counts.send_if_modified(|known| {
            let is_news = **known != *self.core.counts();
            if is_news {
                *known = Arc::new(self.core.counts().clone());
            }
            is_news
        });
        if self.core.term().is_some() {
            events.push(Event::Ticked { has_quorum: self.has_quorum });
        } else {
            self.assume();
        }
        self.store_cluster_id();
    }

    /// Every master keeps the cluster's name, to tell peers of another cluster.
    fn store_cluster_id(&mut self) {
        if self.is_cluster_id_stored {
            return;
        }
        let known: Option<ClusterId> =
            self.node.read(|replica| replica.state().cluster_id().cloned());
        if let Some(cluster_id) = known {
            self.is_cluster_id_stored = true;
            let node = self.node.clone();
            self.jobs.spawn(async move {
                Job::ClusterIdStored(node.set_cluster_id(cluster_id.as_str()).await)
            });
        }
    }
}

fn settings(config: &Config) -> Settings {
    Settings {
        pings: Pings {
            interval: config.agent_ping_timeout,
            missed_max: config.agent_pings_missed_max,
        },
        allocator: config.allocator.clone(),
        offer_timeout: config.offer_timeout,
        agent_reregister_timeout: config.agent_reregister_timeout,
        weights: config.weights.clone(),
        removal: config.removal,
    }
}

fn ticks() -> Interval {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

async fn next<T>(receiver: &mut Option<mpsc::UnboundedReceiver<T>>) -> Option<T> {
    match receiver {
        Some(receiver) => receiver.recv().await,
        None => std::future::pending().await,
    }
}

fn fence(state: &State, term: Option<Term>) -> Option<Fence> {
    let cluster_id = state.cluster_id()?.clone();
    Some(Fence { cluster_id, incarnation: state.incarnation(), term: term? })
}
