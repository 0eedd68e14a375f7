//! The leader: one event loop around the pure core. It drains everything that is waiting, lets
//! the core act once on it under the apply lock, and carries out what comes back. It must not
//! decide anything itself, and never waits while it carries out.
//!
//! Reading order: `handle.rs` (what the edges hold), `event.rs`, `core.rs`, `sessions.rs`,
//! `messages.rs`, `display.rs` (all pure), `office.rs`, `propose.rs` (times, ids, batches),
//! `outbox.rs`, `waiting.rs`.

pub mod core;
mod display;
pub mod event;
mod handle;
mod messages;
mod office;
mod outbox;
mod propose;
mod sessions;
#[cfg(test)]
mod tests;
mod waiting;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use raft::{AppliedBatch, ClusterIdError, Leadership as NodeLeadership, Node, ProposeError};
use resources::id::{ClusterId, Term};
use resources::message::Fence;
use resources::time::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use self::core::{Core, Pings};
pub use self::event::{
    Accepted, Call, NotSettled, ProposeFailure, Refusal, Request, SessionView, SessionViews,
    Transaction, TransactionAccepted,
};
pub(crate) use self::handle::Session;
pub use self::handle::{Consistency, Handle, Leadership, MasterIdentity, ReadFailure, View};
pub(crate) use self::outbox::Fenced;

use self::event::{Action, Event, SessionId};
use self::handle::{INBOX_MESSAGES_MAX, Inbox, PublishedSessions, Shared};
use self::outbox::Outboxes;
use self::propose::{Landed, Proposer};
use self::waiting::Waiting;
use crate::machine::Replica;
use crate::state::State;
use crate::state::command::{Change, Effect};

/// How often the loop looks at what moves without an event.
const TICK: Duration = Duration::from_millis(100);
/// Messages that the core takes in at once, so that the apply lock is held shortly.
const DRAINED_MESSAGES_MAX: usize = 1_024;
/// How long batches in flight are waited for when the loop ends.
const LANDING: Duration = Duration::from_secs(1);
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
}

/// The event loop.
pub struct Leader {
    node: Node<Replica>,
    config: Config,
    core: Core,
    proposer: Proposer,
    outboxes: Outboxes,
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
    leadership: watch::Sender<Leadership>,
    sessions: watch::Sender<PublishedSessions>,
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
        let shutdown = CancellationToken::new();
        let pings = Pings {
            interval: config.agent_ping_timeout,
            missed_max: config.agent_pings_missed_max,
        };
        let identity = config.identity.clone();
        let leader = Self {
            core: Core::new(pings),
            proposer: Proposer::new(identity.id, identity.advertise.clone()),
            outboxes: Outboxes::default(),
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
            leadership,
            sessions,
            shutdown: shutdown.clone(),
            node: node.clone(),
            config,
        };
        let event_loop = tokio::spawn(leader.run());
        Handle::new(Shared {
            node,
            inbox: inbox_sender,
            leadership: leadership_receiver,
            sessions: sessions_receiver,
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
                Some(reader) = self.readers.join_next() => self.stream_ended(reader, &mut events),
                message = self.inbox.recv() => {
                    let Some(message) = message else { break };
                    self.take_in(message, &mut events);
                }
                _ = ticks.tick() => self.ticked(&mut events),
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
                    Ok(operation_id) => self.waiting.minted(&origin, operation_id),
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
            Action::StartBarrier => {
                let node = self.node.clone();
                self.jobs.spawn(async move { Job::Barrier(node.read_barrier().await.map(|_| ())) });
            }
        }
        None
    }

    fn take_in(&mut self, message: Inbox, events: &mut Vec<Event>) {
        match message {
            Inbox::Call(request, reply) => {
                let call_id = self.waiting.call(reply);
                events.push(Event::CallArrived { call_id, request });
            }
            Inbox::Wait(operation_id, reply) => {
                let waiter_id = self.waiting.wait(operation_id.clone(), reply);
                events.push(Event::WaitArrived { waiter_id, operation_id });
            }
            Inbox::Open(opening) => {
                let handle::Opening { session_id, principal, address, sender, guard, reader } =
                    *opening;
                self.outboxes.open(session_id, sender, guard);
                self.readers.spawn(async move {
                    reader.await;
                    session_id
                });
                events.push(Event::SessionOpened { session_id, principal, address });
            }
            Inbox::Spoke(session_id, message) => {
                events.push(Event::SessionSpoke { session_id, message: *message });
            }
        }
    }

    fn finished(&mut self, job: Result<Job, JoinError>, events: &mut Vec<Event>) {
        let job = match job {
            Ok(job) => job,
            Err(error) => {
                tracing::error!(%error, "a task of the leader failed");
                return;
            }
        };
        match job {
            Job::Landed(landed) => events.extend(self.proposer.landed(landed)),
            Job::Barrier(passed) => events.push(Event::BarrierEnded { passed: passed.is_ok() }),
            Job::Assumed(term, assumed) => self.assumed(term, assumed, events),
            Job::ClusterIdStored(Ok(())) => {}
            Job::ClusterIdStored(Err(error)) => {
                tracing::error!(%error, "the cluster id was not stored");
            }
        }
    }

    fn stream_ended(&mut self, reader: Result<SessionId, JoinError>, events: &mut Vec<Event>) {
        match reader {
            Ok(session_id) => {
                self.outboxes.close(session_id);
                events.push(Event::SessionClosed { session_id });
            }
            Err(error) => tracing::error!(%error, "the reader of an agent's stream failed"),
        }
    }

    fn ticked(&mut self, events: &mut Vec<Event>) {
        let acknowledged = self.node.status().last_quorum_ack;
        self.has_quorum =
            acknowledged.is_some_and(|since| since <= self.config.election_timeout_max);
        events.extend(self.waiting.sweep());
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

/// The end.
impl Leader {
    /// Ends every stream after what was sent, and answers everybody.
    async fn end(mut self) {
        self.sink = None;
        let mut events = vec![Event::OfficeLost];
        events.extend(self.proposer.lose_office());
        self.leadership.send_replace(Leadership::Unknown);
        self.inbox.close();
        while let Ok(message) = self.inbox.try_recv() {
            self.take_in(message, &mut events);
        }
        self.act(events);
        let landing = async {
            while let Some(job) = self.jobs.join_next().await {
                let mut events = Vec::new();
                self.finished(job, &mut events);
                self.act(events);
            }
        };
        if tokio::time::timeout(LANDING, landing).await.is_err() {
            tracing::warn!("batches were still in flight at the end");
        }
        self.waiting.end();
        self.readers.shutdown().await;
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

/// The effects of an applied entry, and a line in the log for those that operators look for.
fn noted(applied: AppliedBatch<Replica>) -> Event {
    let index = applied.index.0;
    let effects: Vec<Effect> =
        applied.outcomes.into_iter().flat_map(|(_, effects)| effects).collect();
    for effect in &effects {
        let Effect::Change(change) = effect else { continue };
        match change {
            Change::AlarmRaised(_) => tracing::error!(index, "{change}"),
            Change::OperationSettled(..) | Change::TransactionMoved(..) => {
                tracing::debug!(index, "{change}");
            }
            Change::ClusterFormed(_)
            | Change::LeaderAnnounced(..)
            | Change::AgentAdded(..)
            | Change::AgentUpdated(_)
            | Change::AgentSuperseded { .. } => tracing::info!(index, "{change}"),
        }
    }
    Event::Applied { effects }
}
