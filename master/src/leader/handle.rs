//! What the edges hold of the leader: calls, waits, reads, sessions, and who leads. Must not
//! decide anything. Next: `mod.rs`, the event loop behind it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use raft::{Node, ProposeError};
use resources::id::{FrameworkId, OfferId, OperationId, Principal};
use resources::message::AgentMessage;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::clock::Clock;
use super::core::RETRY_AFTER;
use super::counts::Counts;
use super::event::SessionId;
use super::outbox::{Fenced, OUTBOX_MESSAGES_MAX};
use super::request::{
    Accepted, Administration, Call, Granted, NotSettled, ProposeFailure, Refusal, Request, Ruling,
    Transaction, TransactionAccepted,
};
use super::scheduler::{
    InverseAnswer, Offer, SchedulerCall, SchedulerEvent, SchedulerRefusal, Subscribing,
};
use super::view::{Consistency, Leadership, MasterIdentity, PublishedSessions, ReadFailure, View};
use super::waiting::Subscribed;
use crate::machine::Replica;
use crate::state::DryRun;
use crate::state::command::SourceAddr;
use crate::state::operations::OperationRecord;

/// Messages that may wait for the event loop; beyond it calls are refused.
pub(super) const INBOX_MESSAGES_MAX: usize = 8_192;

/// What reaches the event loop.
pub(super) enum Inbox {
    Call(Box<Request>, oneshot::Sender<Result<Granted, Refusal>>),
    Administer(Box<Administration>, oneshot::Sender<Result<Granted, Refusal>>),
    Wait(OperationId, oneshot::Sender<Result<OperationRecord, NotSettled>>),
    Subscribe(Box<Subscribing>, oneshot::Sender<Subscribed>),
    Schedule(Box<SchedulerCall>, oneshot::Sender<Result<(), SchedulerRefusal>>),
    Teardown(Box<Teardown>, oneshot::Sender<Result<(), SchedulerRefusal>>),
    Offers(Vec<OfferId>, oneshot::Sender<Vec<Option<Offer>>>),
    AllOffers(oneshot::Sender<Vec<Offer>>),
    InverseAnswers(oneshot::Sender<Vec<InverseAnswer>>),
    Open(Box<Opening>),
    Spoke(SessionId, Box<AgentMessage>),
}

/// A framework that an operator ends.
pub(super) struct Teardown {
    pub(super) framework_id: FrameworkId,
    pub(super) principal: Option<Principal>,
    pub(super) source: SourceAddr,
}

/// A stream that an agent opened.
pub(super) struct Opening {
    pub(super) session_id: SessionId,
    pub(super) principal: Option<Principal>,
    pub(super) address: SourceAddr,
    pub(super) sender: mpsc::Sender<Fenced>,
    pub(super) guard: DropGuard,
    /// Reads the stream until it ends or the guard goes.
    pub(super) reader: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// The edges' end of a session.
pub(crate) struct Session {
    inbox: mpsc::Sender<Inbox>,
    session_id: SessionId,
    is_over: CancellationToken,
}

impl Session {
    /// Hands on what the agent said. False when the session is over.
    pub(crate) async fn say(&self, message: AgentMessage) -> bool {
        let message = Inbox::Spoke(self.session_id, Box::new(message));
        self.inbox.send(message).await.is_ok()
    }
    /// Returns when the leader ended the session.
    pub(crate) async fn over(&self) {
        self.is_over.cancelled().await;
    }
}

/// The edges' way to the leader. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) node: Node<Replica>,
    pub(super) inbox: mpsc::Sender<Inbox>,
    pub(super) leadership: watch::Receiver<Leadership>,
    pub(super) sessions: watch::Receiver<PublishedSessions>,
    pub(super) counts: watch::Receiver<Arc<Counts>>,
    pub(super) identity: MasterIdentity,
    pub(super) shutdown: CancellationToken,
    pub(super) event_loop: Mutex<Option<JoinHandle<()>>>,
    pub(super) sessions_made: AtomicU64,
}

impl Handle {
    pub(super) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    pub(super) fn node(&self) -> &Node<Replica> {
        &self.shared.node
    }

    /// Who leads.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        self.shared.leadership.borrow().clone()
    }

    /// Who leads, now and from now on.
    #[must_use]
    pub fn leadership_changes(&self) -> watch::Receiver<Leadership> {
        self.shared.leadership.clone()
    }

    /// Has an operation committed and applied.
    ///
    /// # Errors
    /// When the state says no, or there is no consensus.
    pub async fn execute(&self, call: Call) -> Result<Accepted, Refusal> {
        match self.request(Request::Operate(call)).await? {
            Granted::Operation(accepted) => Ok(accepted),
            Granted::Transaction(_) | Granted::Rule | Granted::Nothing => {
                unreachable!("an operation is granted as one")
            }
        }
    }

    /// Has several operations committed and applied, all or none of them.
    ///
    /// # Errors
    /// When the state says no, or there is no consensus.
    pub async fn transact(&self, transaction: Transaction) -> Result<TransactionAccepted, Refusal> {
        match self.request(Request::Transact(transaction)).await? {
            Granted::Transaction(accepted) => Ok(accepted),
            Granted::Operation(_) | Granted::Rule | Granted::Nothing => {
                unreachable!("a transaction is granted as one")
            }
        }
    }

    /// Has a rule for the whole cluster committed and applied.
    ///
    /// # Errors
    /// When the state says no, or there is no consensus.
    pub async fn rule(&self, ruling: Ruling) -> Result<(), Refusal> {
        match self.request(Request::Rule(ruling)).await? {
            Granted::Rule => Ok(()),
            Granted::Operation(_) | Granted::Transaction(_) | Granted::Nothing => {
                unreachable!("a rule is granted as one")
            }
        }
    }

    /// Has a command of an operator committed and applied. It may be repeated as it is.
    ///
    /// # Errors
    /// When the state says no, or there is no consensus.
    pub async fn administer(&self, administration: Administration) -> Result<(), Refusal> {
        let ask = |reply| Inbox::Administer(Box::new(administration), reply);
        let answer = self.ask_leader(ask).await;
        answer.unwrap_or_else(|failure| Err(Refusal::Propose(failure))).map(|_| ())
    }

    async fn request(&self, request: Request) -> Result<Granted, Refusal> {
        let ask = |reply| Inbox::Call(Box::new(request), reply);
        let answer = self.ask_leader(ask).await;
        answer.unwrap_or_else(|failure| Err(Refusal::Propose(failure)))
    }

    /// Asks the loop something that only a leader answers. Never waits for room.
    async fn ask_leader<A>(
        &self,
        message: impl FnOnce(oneshot::Sender<A>) -> Inbox,
    ) -> Result<A, ProposeFailure> {
        match self.leadership() {
            Leadership::Leading { .. } => {}
            Leadership::Following { .. } => return Err(ProposeFailure::NotLeader),
            Leadership::Unknown => return Err(ProposeFailure::NoLeader),
        }
        let (reply, answer) = oneshot::channel();
        match self.shared.inbox.try_send(message(reply)) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                return Err(ProposeFailure::Overloaded { retry_after: RETRY_AFTER });
            }
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(ProposeFailure::NoLeader),
        }
        // The loop answers every call that it took in before it ends.
        answer.await.map_err(|_| ProposeFailure::NoLeader)
    }

    /// Opens a scheduler's stream, once its subscription is applied. What is wrong with the
    /// framework itself is said on the stream, which then ends (spec §4.2).
    ///
    /// # Errors
    /// When this master does not lead, or there is no consensus.
    pub async fn subscribe(
        &self,
        subscribing: Subscribing,
    ) -> Result<mpsc::Receiver<SchedulerEvent>, SchedulerRefusal> {
        let ask = |reply| Inbox::Subscribe(Box::new(subscribing), reply);
        let answer = self.ask_leader(ask).await;
        answer.unwrap_or_else(|failure| Err(SchedulerRefusal::Propose(failure)))
    }

    /// Takes any other call of a scheduler; returns when what the log must know of it is
    /// committed and applied.
    ///
    /// # Errors
    /// By rows 10 to 13 of spec §4.1, for an UPDATE_FRAMEWORK that is refused, and when there
    /// is no consensus.
    pub async fn schedule(&self, call: SchedulerCall) -> Result<(), SchedulerRefusal> {
        let ask = |reply| Inbox::Schedule(Box::new(call), reply);
        let answer = self.ask_leader(ask).await;
        answer.unwrap_or_else(|failure| Err(SchedulerRefusal::Propose(failure)))
    }

    /// Removes a framework for an operator, who may; of one that is unknown nothing is left.
    ///
    /// # Errors
    /// When this master does not lead, or there is no consensus.
    pub async fn teardown(
        &self,
        framework_id: FrameworkId,
        principal: Option<Principal>,
        source: SourceAddr,
    ) -> Result<(), SchedulerRefusal> {
        let teardown = Box::new(Teardown { framework_id, principal, source });
        let answer = self.ask_leader(|reply| Inbox::Teardown(teardown, reply)).await;
        answer.unwrap_or_else(|failure| Err(SchedulerRefusal::Propose(failure)))
    }

    /// Outstanding offers by id. A master that does not lead has none.
    pub async fn offers(&self, ids: Vec<OfferId>) -> Vec<Option<Offer>> {
        let nothing = vec![None; ids.len()];
        self.ask_leader(|reply| Inbox::Offers(ids, reply)).await.unwrap_or(nothing)
    }

    /// All outstanding offers, oldest first. A master that does not lead has none.
    pub async fn outstanding_offers(&self) -> Vec<Offer> {
        self.ask_leader(Inbox::AllOffers).await.unwrap_or_default()
    }

    /// What frameworks said to inverse offers. A master that does not lead has heard nothing.
    pub async fn inverse_answers(&self) -> Vec<InverseAnswer> {
        self.ask_leader(Inbox::InverseAnswers).await.unwrap_or_default()
    }

    /// What this master has done as a leader since its process began.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts::clone(&self.shared.counts.borrow())
    }

    /// What a request would change, or every check that it fails, by a linearizable read.
    /// Writes nothing.
    ///
    /// # Errors
    /// When this master does not lead a quorum.
    pub async fn dry_run(&self, request: &Request) -> Result<DryRun, ReadFailure> {
        let view = self.view(Consistency::Linearizable).await?;
        Ok(request.dry_run(&view.state))
    }

    /// Waits until an agent has confirmed or failed an operation.
    ///
    /// # Errors
    /// When there is no such operation, it takes too long, or this master stops leading.
    pub async fn settled(
        &self,
        operation_id: &OperationId,
        timeout: Duration,
    ) -> Result<OperationRecord, NotSettled> {
        let (reply, answer) = oneshot::channel();
        let wait = Inbox::Wait(operation_id.clone(), reply);
        let settled = async {
            if self.shared.inbox.send(wait).await.is_err() {
                return Err(NotSettled::LeadershipLost);
            }
            answer.await.unwrap_or(Err(NotSettled::LeadershipLost))
        };
        tokio::time::timeout(timeout, settled).await.unwrap_or(Err(NotSettled::Timeout))
    }

    /// The state for a read.
    ///
    /// # Errors
    /// When it has to be linearizable and this master does not lead a quorum.
    pub async fn view(&self, consistency: Consistency) -> Result<View, ReadFailure> {
        match consistency {
            Consistency::Stale => {}
            Consistency::Linearizable => {
                self.shared.node.read_barrier().await.map_err(read_failure)?;
            }
        }
        let (applied, frozen) = self.shared.node.freeze();
        let term = self.shared.node.leadership().borrow().term();
        let PublishedSessions { live, returned } = self.shared.sessions.borrow().clone();
        Ok(View {
            now: self.shared.clock.now().unwrap_or_else(|| frozen.clock()),
            elected_at: frozen.leader().map(|leader| leader.elected_at),
            state: Arc::new(frozen),
            applied,
            term,
            sessions: live,
            returned,
            identity: self.shared.identity.clone(),
            leadership: self.leadership(),
        })
    }

    /// What the consensus says of itself.
    #[must_use]
    pub fn status(&self) -> raft::Status {
        self.shared.node.status()
    }

    /// Which master this is.
    #[must_use]
    pub fn identity(&self) -> &MasterIdentity {
        &self.shared.identity
    }

    /// Opens a session for a stream. `read` gets the edge's end of it and reads the stream
    /// until that says that it is over. None when the loop has ended.
    pub(crate) async fn open_session<R, F>(
        &self,
        principal: Option<Principal>,
        address: SourceAddr,
        read: R,
    ) -> Option<mpsc::Receiver<Fenced>>
    where
        R: FnOnce(Session) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let session_id = SessionId(self.shared.sessions_made.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = mpsc::channel(OUTBOX_MESSAGES_MAX);
        let is_over = CancellationToken::new();
        let guard = is_over.clone().drop_guard();
        let session = Session { inbox: self.shared.inbox.clone(), session_id, is_over };
        let reader = Box::pin(read(session));
        let opening = Opening { session_id, principal, address, sender, guard, reader };
        self.shared.inbox.send(Inbox::Open(Box::new(opening))).await.ok()?;
        Some(receiver)
    }

    /// Ends every stream cleanly, answers every call, and stops the loop. The node goes on.
    pub async fn shutdown(&self) {
        self.shared.shutdown.cancel();
        let event_loop = self.shared.event_loop.lock().take();
        if let Some(event_loop) = event_loop
            && let Err(error) = event_loop.await
        {
            tracing::error!(%error, "the leader's loop did not end by itself");
        }
    }
}

const fn read_failure(error: ProposeError) -> ReadFailure {
    match error {
        ProposeError::NotLeader { .. } => ReadFailure::NotLeader,
        ProposeError::NoQuorum
        | ProposeError::Stopped
        | ProposeError::TooLarge { .. }
        | ProposeError::Unknown => ReadFailure::NoLeader,
    }
}
