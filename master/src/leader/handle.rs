//! What the edges hold of the leader: calls, waits, reads, sessions, and who leads. Must not
//! decide anything. Next: `mod.rs`, the event loop behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use raft::{Node, ProposeError};
use resources::id::{AgentId, LogIndex, MasterId, OperationId, Principal, Term};
use resources::message::AgentMessage;
use resources::time::Timestamp;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::core::RETRY_AFTER;
use super::event::{
    Accepted, Call, Granted, NotSettled, ProposeFailure, Refusal, Request, SessionId, SessionView,
    SessionViews, Transaction, TransactionAccepted,
};
use super::outbox::{Fenced, OUTBOX_MESSAGES_MAX};
use crate::machine::Replica;
use crate::state::command::SourceAddr;
use crate::state::operations::OperationRecord;
use crate::state::{Announcement, DryRun, Frozen};

/// Messages that may wait for the event loop; beyond it calls are refused.
pub(super) const INBOX_MESSAGES_MAX: usize = 8_192;

/// Who leads, as this master's edges may act on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// This master, with everything before its term applied.
    Leading {
        /// Its term.
        term: Term,
    },
    /// Another master, heard of within the longest election timeout.
    Following {
        /// Which.
        master_id: MasterId,
        /// Its public address.
        advertise: String,
    },
    /// Nobody that is known.
    Unknown,
}

/// Which master this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterIdentity {
    /// Its number.
    pub id: MasterId,
    /// Its public address.
    pub advertise: String,
    /// Wall time of its start, for display.
    pub started_at: Timestamp,
}

/// How fresh a read has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consistency {
    /// Shows every call that was answered before the read began.
    Linearizable,
    /// Whatever this master has applied.
    Stale,
}

/// A read that cannot be linearizable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReadFailure {
    /// Another master leads.
    #[error("this master does not lead")]
    NotLeader,
    /// No leader, or no quorum.
    #[error("no leader elected")]
    NoLeader,
}

/// What a read sees.
#[derive(Debug, Clone)]
pub struct View {
    /// The state as of `applied`.
    pub state: Arc<Frozen>,
    /// The last entry in it.
    pub applied: LogIndex,
    /// The newest term that this master knows.
    pub term: Term,
    /// Agents connected to this master; empty unless it leads.
    pub sessions: Arc<BTreeMap<AgentId, SessionView>>,
    /// Agents that came back under this leader, connected or not.
    pub returned: Arc<BTreeSet<AgentId>>,
    /// Which master answers.
    pub identity: MasterIdentity,
    /// Wall time of the last election, for display.
    pub elected_at: Option<Timestamp>,
    /// Who leads.
    pub leadership: Leadership,
}

impl View {
    /// Whether the agent has a live session with this master.
    #[must_use]
    pub fn is_connected(&self, agent_id: &AgentId) -> bool {
        self.sessions.contains_key(agent_id)
    }
    /// Whether the agent has come back under this leader.
    #[must_use]
    pub fn has_returned(&self, agent_id: &AgentId) -> bool {
        self.returned.contains(agent_id)
    }
    /// The last announced leader.
    #[must_use]
    pub fn leader(&self) -> Option<&Announcement> {
        self.state.leader()
    }
}

/// The core's session views, shared with every reader.
#[derive(Debug, Clone, Default)]
pub(super) struct PublishedSessions {
    live: Arc<BTreeMap<AgentId, SessionView>>,
    returned: Arc<BTreeSet<AgentId>>,
}

impl From<SessionViews> for PublishedSessions {
    fn from(views: SessionViews) -> Self {
        Self { live: Arc::new(views.live), returned: Arc::new(views.returned) }
    }
}

/// What reaches the event loop.
pub(super) enum Inbox {
    Call(Box<Request>, oneshot::Sender<Result<Granted, Refusal>>),
    Wait(OperationId, oneshot::Sender<Result<OperationRecord, NotSettled>>),
    Open(Box<Opening>),
    Spoke(SessionId, Box<AgentMessage>),
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
    pub(super) node: Node<Replica>,
    pub(super) inbox: mpsc::Sender<Inbox>,
    pub(super) leadership: watch::Receiver<Leadership>,
    pub(super) sessions: watch::Receiver<PublishedSessions>,
    pub(super) identity: MasterIdentity,
    pub(super) shutdown: CancellationToken,
    pub(super) event_loop: Mutex<Option<JoinHandle<()>>>,
    pub(super) sessions_made: AtomicU64,
}

impl Handle {
    pub(super) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
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
            Granted::Transaction(_) => unreachable!("an operation is granted as one"),
        }
    }

    /// Has several operations committed and applied, all or none of them.
    ///
    /// # Errors
    /// When the state says no, or there is no consensus.
    pub async fn transact(&self, transaction: Transaction) -> Result<TransactionAccepted, Refusal> {
        match self.request(Request::Transact(transaction)).await? {
            Granted::Transaction(accepted) => Ok(accepted),
            Granted::Operation(_) => unreachable!("a transaction is granted as one"),
        }
    }

    async fn request(&self, request: Request) -> Result<Granted, Refusal> {
        let refuse = |failure| Err(Refusal::Propose(failure));
        match self.leadership() {
            Leadership::Leading { .. } => {}
            Leadership::Following { .. } => return refuse(ProposeFailure::NotLeader),
            Leadership::Unknown => return refuse(ProposeFailure::NoLeader),
        }
        let (reply, answer) = oneshot::channel();
        match self.shared.inbox.try_send(Inbox::Call(Box::new(request), reply)) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                return refuse(ProposeFailure::Overloaded { retry_after: RETRY_AFTER });
            }
            Err(mpsc::error::TrySendError::Closed(_)) => return refuse(ProposeFailure::NoLeader),
        }
        // The loop answers every call that it took in before it ends.
        answer.await.unwrap_or(Err(Refusal::Propose(ProposeFailure::NoLeader)))
    }

    /// What a request would change, or every check that it fails, by a linearizable read.
    /// Writes nothing.
    ///
    /// # Errors
    /// When this master does not lead a quorum.
    pub async fn dry_run(&self, request: &Request) -> Result<DryRun, ReadFailure> {
        let view = self.view(Consistency::Linearizable).await?;
        Ok(view.state.dry_run(&request.asked()))
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
