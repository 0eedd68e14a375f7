//! The handle on this process's own replica: propose, read, lead, hand over, stop. How it starts
//! is in `assembly.rs`. Must not know what is replicated. Next: `config.rs`.

use std::sync::Arc;
use std::time::Duration;

use openraft::Instant as _;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ClientWriteError, RaftError};
use parking_lot::Mutex;
use resources::id::{LogIndex, MasterId, Term};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::assembly;
use crate::codec;
use crate::config::NodeConfig;
use crate::env::Network;
use crate::error::{ClusterIdError, ProposeError};
use crate::failover::Counts;
use crate::handover::{self, best_successor};
use crate::leadership::Leadership;
use crate::log_store::LogStore;
use crate::machine::{AppliedBatch, Batch, Committed, Machine};
use crate::members::Members;
use crate::network::Handshake;
use crate::reads::{Barrier, not_leading};
use crate::snapshot::SnapshotStore;
use crate::state_machine::StateMachine;
use crate::status::{PeerStatus, Status, Timing};
use crate::types::{LogId, Proposal, Raft};
use crate::watchdog::Stall;

/// This process's replica. Clones are handles on the same one.
pub struct Node<M: Machine> {
    pub(crate) inner: Arc<Inner<M>>,
}

impl<M: Machine> Clone for Node<M> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

/// What all handles share.
pub(crate) struct Inner<M: Machine> {
    pub(crate) config: NodeConfig,
    pub(crate) timing: Timing,
    pub(crate) failover: Arc<Counts>,
    pub(crate) raft: Raft<M>,
    pub(crate) log: LogStore<M>,
    pub(crate) snapshots: Arc<SnapshotStore>,
    pub(crate) state: StateMachine<M>,
    pub(crate) handshake: Arc<Handshake>,
    pub(crate) members: Arc<Members>,
    pub(crate) network: Arc<dyn Network>,
    /// Held by whoever changes the members.
    pub(crate) changing: Arc<tokio::sync::Mutex<()>>,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) barrier: Barrier,
    pub(crate) stall: Arc<Stall>,
    pub(crate) closing: CancellationToken,
    pub(crate) tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl<M: Machine> Drop for Inner<M> {
    /// A node that was dropped without a shutdown must not go on listening.
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

impl<M: Machine> Node<M> {
    pub(crate) fn of(inner: Inner<M>) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Proposes one batch and waits until it is committed by a quorum and applied here.
    ///
    /// There is no deadline: while a quorum is missing this waits until the leadership ends. A
    /// caller that gives up earlier must treat the outcome as unknown.
    ///
    /// # Errors
    /// [`ProposeError`]; all but `Unknown` say that nothing was proposed.
    pub async fn propose(
        &self,
        batch: Batch<M::Command>,
    ) -> Result<Committed<M::Response>, ProposeError> {
        if self.inner.closing.is_cancelled() {
            return Err(ProposeError::Stopped);
        }
        let bytes = codec::encode_batch(&batch);
        let limit = self.inner.config.limits.batch_bytes;
        if bytes.len() > limit {
            return Err(ProposeError::TooLarge { bytes: bytes.len(), limit });
        }
        // Held until the answer, so that `apply` finds the batch in memory.
        let batch = Arc::new(batch);
        let config = &self.inner.config;
        let deadline = Instant::now() + config.election_timeout_max();
        let mut metrics = self.inner.raft.metrics();
        loop {
            let before = metrics.borrow_and_update().last_quorum_acked;
            let written = self.write(Proposal::new(bytes.clone(), &batch)).await;
            if !matches!(written, Err(ProposeError::NoQuorum)) {
                return written;
            }
            // A new leader refuses until a quorum has acknowledged it: soon, if there is one.
            let acknowledged = metrics.borrow_watched().last_quorum_acked;
            let is_lost =
                acknowledged.is_some_and(|at| at.elapsed() > config.election_timeout_max());
            let pause = deadline.min(Instant::now() + config.heartbeat);
            if is_lost || Instant::now() >= deadline {
                return written;
            }
            // Every attempt changes some metric, so only this one is worth another.
            let acknowledging = async {
                while metrics.borrow_and_update().last_quorum_acked == before {
                    metrics.changed().await?;
                }
                Ok::<_, openraft::async_runtime::watch::RecvError>(())
            };
            if let Ok(Err(_)) = tokio::time::timeout_at(pause, acknowledging).await {
                return Err(ProposeError::Stopped);
            }
        }
    }

    async fn write(
        &self,
        proposal: Proposal<M::Command>,
    ) -> Result<Committed<M::Response>, ProposeError> {
        match self.inner.raft.client_write(proposal).await {
            Ok(response) => {
                Ok(Committed { index: LogIndex(response.log_id.index), responses: response.data })
            }
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(forward))) => {
                Err(not_leading(forward.leader_id, forward.reason))
            }
            // The entry left this node's log, but another node may have committed it; or the
            // core ended while the entry was on its way.
            Err(
                RaftError::APIError(
                    ClientWriteError::LogEntryDiscarded(_)
                    | ClientWriteError::ChangeMembershipError(_)
                    | ClientWriteError::PreconditionFailed(_),
                )
                | RaftError::Fatal(_),
            ) => Err(ProposeError::Unknown),
        }
    }

    /// Waits until everything that was committed before the call is applied here. Only the leader
    /// can tell. Concurrent callers share one round.
    ///
    /// # Errors
    /// [`ProposeError`], never `Unknown`: reading changes nothing.
    pub async fn read_barrier(&self) -> Result<LogIndex, ProposeError> {
        self.inner.barrier.pass().await
    }

    /// Who leads, and every change of it.
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.inner.leadership.clone()
    }

    /// Runs `f` on the state under the apply lock. Keep it short: nothing is applied meanwhile.
    pub fn read<T>(&self, f: impl FnOnce(&M) -> T) -> T {
        self.inner.state.read(f)
    }

    /// The applied position and an image of the state there.
    #[must_use]
    pub fn freeze(&self) -> (LogIndex, M::Frozen) {
        self.inner.state.freeze()
    }

    /// Takes office for `term`: waits until an entry of that term (its blank one at the latest) is
    /// applied, then, under the apply lock, installs a fresh sink and runs `f`. Nothing applied
    /// after what `f` sees is missing in the sink. The former sink ends; this one ends with the
    /// first entry of a later term.
    ///
    /// # Errors
    /// `NotLeader` as soon as this node does not lead that term any more, `Stopped`.
    pub async fn assume<T>(
        &self,
        term: Term,
        f: impl FnOnce(LogIndex, &M) -> T,
    ) -> Result<(T, mpsc::UnboundedReceiver<AppliedBatch<M>>), ProposeError> {
        let mut applied = self.inner.state.applied();
        let mut leadership = self.inner.leadership.clone();
        let term_of = |id: &Option<LogId>| id.map(|id| id.committed_leader_id().term);
        loop {
            match *leadership.borrow_and_update() {
                Leadership::Leading { term: current } if current == term => {}
                Leadership::Following { leader, .. } => {
                    return Err(ProposeError::NotLeader { leader: Some(leader) });
                }
                Leadership::Leading { .. } | Leadership::Unknown { .. } => {
                    return Err(ProposeError::NotLeader { leader: None });
                }
            }
            if term_of(&applied.borrow_and_update()) >= Some(term.0) {
                break;
            }
            tokio::select! {
                changed = applied.changed() => changed.map_err(|_| ProposeError::Stopped)?,
                changed = leadership.changed() => changed.map_err(|_| ProposeError::Stopped)?,
            }
        }
        self.inner.state.install_sink(term.0, f).ok_or(ProposeError::NotLeader { leader: None })
    }

    /// Hands leadership to `to`, or to the voter that answers and has the longest known log, and
    /// waits until this node no longer leads.
    ///
    /// # Errors
    /// `NotLeader` when this node does not lead, `NoQuorum` when there is nobody to lead instead,
    /// `Unknown` when the peer did not take over within two election timeouts.
    pub async fn transfer_leadership(&self, to: Option<MasterId>) -> Result<(), ProposeError> {
        let mut leadership = self.leadership();
        let term = match *leadership.borrow_and_update() {
            Leadership::Leading { term } => term,
            Leadership::Following { leader, .. } => {
                return Err(ProposeError::NotLeader { leader: Some(leader) });
            }
            Leadership::Unknown { .. } => return Err(ProposeError::NotLeader { leader: None }),
        };
        let target = match to {
            Some(to) => Some(to.0),
            None => {
                let (raft, timeout) = (&self.inner.raft, self.inner.config.election_timeout_max());
                best_successor(raft, self.inner.config.id.0, timeout)
            }
        };
        let target = target.ok_or(ProposeError::NoQuorum)?;
        self.inner
            .raft
            .trigger()
            .transfer_leader(target)
            .await
            .map_err(|_| ProposeError::Stopped)?;
        let timeout = self.inner.config.election_timeout_max() * 2;
        let is_gone = |now: &Leadership| *now != Leadership::Leading { term };
        // Nothing borrowed may stay until the next await.
        let gone = async { leadership.wait_for(is_gone).await.map(drop) };
        match tokio::time::timeout(timeout, gone).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(ProposeError::Stopped),
            Err(_) => {
                // The handover alone has ended what this node can do as a leader.
                handover::abdicate(&self.inner.raft, term.0, target).await;
                Err(ProposeError::Unknown)
            }
        }
    }

    /// Builds a snapshot now and waits until it is durable.
    ///
    /// # Errors
    /// `Stopped`.
    pub async fn snapshot(&self) -> Result<LogIndex, ProposeError> {
        let wanted = *self.inner.state.applied().borrow();
        let raft = &self.inner.raft;
        let mut metrics = raft.metrics();
        let mut asked_at = None;
        loop {
            let reached = metrics.borrow_and_update().snapshot;
            if reached >= wanted {
                return Ok(LogIndex(reached.map_or(0, |id| id.index)));
            }
            // A build that was under way when this was called may end short of what is wanted.
            if asked_at != Some(reached) {
                asked_at = Some(reached);
                raft.trigger().snapshot().await.map_err(|_| ProposeError::Stopped)?;
            }
            // A build that is put off, because a peer reads the last one, is not told.
            let news = tokio::time::timeout(self.inner.config.heartbeat, metrics.changed());
            match news.await {
                Ok(changed) => changed.map_err(|_| ProposeError::Stopped)?,
                Err(_) => asked_at = None,
            }
        }
    }

    /// The cluster id, once one was stored.
    #[must_use]
    pub fn cluster_id(&self) -> Option<String> {
        self.inner.handshake.cluster_id()
    }

    /// Stores the cluster id durably; from then on peers of another cluster are refused. The
    /// same id again changes nothing.
    ///
    /// # Errors
    /// [`ClusterIdError::Other`] when another one is stored.
    pub async fn set_cluster_id(&self, id: &str) -> Result<(), ClusterIdError> {
        match self.cluster_id() {
            Some(known) if known == id => return Ok(()),
            Some(known) => {
                return Err(ClusterIdError::Other { known, given: id.to_owned() });
            }
            None => {}
        }
        let mut identity = self.inner.log.identity().unwrap_or_default();
        id.clone_into(&mut identity.cluster_id);
        self.inner.log.set_identity(identity).await.map_err(ClusterIdError::Io)?;
        self.inner.handshake.set_cluster_id(id);
        Ok(())
    }

    /// The public address that a peer announced when it was last met.
    #[must_use]
    pub fn peer_advertise(&self, id: MasterId) -> Option<String> {
        self.inner.handshake.advertise_of(id.0)
    }

    /// What this node says about itself.
    #[must_use]
    pub fn status(&self) -> Status {
        let inner = &self.inner;
        let metrics = inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let leadership = *inner.leadership.borrow();
        let is_leading = matches!(leadership, Leadership::Leading { .. });
        let index = |id: Option<LogId>| id.map(|id| LogIndex(id.index));
        let mut voters = metrics.membership_config.voter_ids();
        let is_sole_voter = voters.next() == Some(inner.config.id.0) && voters.next().is_none();
        let matched = metrics.replication.as_ref().filter(|_| is_leading);
        let peers = metrics
            .membership_config
            .nodes()
            .filter(|(id, _)| **id != inner.config.id.0)
            .map(|(id, node)| PeerStatus {
                id: MasterId(*id),
                address: node.addr.clone(),
                advertise: inner.handshake.advertise_of(*id),
                matched: index(matched.and_then(|matched| matched.get(id).copied().flatten())),
            })
            .collect();
        Status {
            id: inner.config.id,
            term: Term(metrics.current_term),
            leadership,
            last_log: metrics.last_log_index.map(LogIndex),
            committed: index(metrics.local_committed),
            applied: index(*inner.state.applied().borrow()),
            digest: inner.state.digest(),
            snapshot: index(inner.snapshots.last()),
            purged: index(metrics.purged),
            peers,
            commit_p99: inner.log.commit_p99(),
            last_quorum_ack: if is_leading && is_sole_voter {
                // Its own word is the quorum, and nobody acknowledges it.
                Some(Duration::ZERO)
            } else {
                metrics.last_quorum_acked.map(|at| at.elapsed())
            },
            cluster_id: inner.handshake.cluster_id(),
            timing: inner.timing,
            failover: inner.failover.read(),
            disk_stalled: inner.stall.since().map(|since| since.elapsed()),
        }
    }

    /// Stops listening, ends the consensus core and closes both files, so that the directory may
    /// be opened again when this returns. Other handles answer `Stopped` from then on. Does not
    /// hand leadership over; see [`Node::transfer_leadership`].
    pub async fn shutdown(self) {
        let inner = &self.inner;
        inner.closing.cancel();
        assembly::stop(&inner.raft, &inner.log, &inner.snapshots).await;
        let tasks = std::mem::take(&mut *inner.tasks.lock());
        for task in tasks {
            if let Err(error) = task.await
                && error.is_panic()
            {
                tracing::error!(%error, "a task of the node panicked");
            }
        }
    }
}
