//! Linearizable reads: a round of the leader's heartbeats proves that it still led when the read
//! began (ReadIndex, Raft dissertation §6.4). Never a lease: fast failover gives leases up.
//! Must not know what is read. Next: `failover.rs`.

use std::time::Duration;

use openraft::ReadPolicy;
use openraft::errors::{ForwardReason, LinearizableReadError, RaftError};
use resources::id::{LogIndex, MasterId};
use tokio::sync::{mpsc, oneshot};

use crate::error::ProposeError;
use crate::machine::Machine;
use crate::types::{Raft, Types};

type Answer = Result<LogIndex, ProposeError>;

/// Where readers wait. One round serves every reader that came before the round began; those
/// that come while it runs share the next one.
#[derive(Clone)]
pub(crate) struct Barrier {
    waiting: mpsc::UnboundedSender<oneshot::Sender<Answer>>,
}

impl Barrier {
    /// The barrier, and the task that serves it until the last handle is gone.
    pub(crate) fn new<M: Machine>(
        raft: Raft<M>,
        timeout: Duration,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (waiting, readers) = mpsc::unbounded_channel();
        (Self { waiting }, serve(raft, timeout, readers))
    }

    /// Returns when everything that was committed before the call is applied here.
    pub(crate) async fn pass(&self) -> Answer {
        let (answer, passed) = oneshot::channel();
        self.waiting.send(answer).map_err(|_| ProposeError::Stopped)?;
        passed.await.map_err(|_| ProposeError::Stopped)?
    }
}

async fn serve<M: Machine>(
    raft: Raft<M>,
    timeout: Duration,
    mut readers: mpsc::UnboundedReceiver<oneshot::Sender<Answer>>,
) {
    while let Some(first) = readers.recv().await {
        let mut served = vec![first];
        while let Ok(reader) = readers.try_recv() {
            served.push(reader);
        }
        let answer = match tokio::time::timeout(timeout, round(&raft)).await {
            Ok(answer) => answer,
            Err(_) => Err(ProposeError::NoQuorum),
        };
        for reader in served {
            // A reader that gave up does not mind.
            let _ = reader.send(answer.clone());
        }
    }
}

async fn round<M: Machine>(raft: &Raft<M>) -> Answer {
    let linearizer =
        raft.get_read_linearizer(ReadPolicy::ReadIndex).await.map_err(|error| refusal(&error))?;
    let ready = linearizer.await_ready(raft).await.map_err(|_| ProposeError::Stopped)?;
    Ok(LogIndex(ready.read_log_id().index()))
}

fn refusal<M: Machine>(
    error: &RaftError<Types<M>, LinearizableReadError<Types<M>>>,
) -> ProposeError {
    match error {
        RaftError::APIError(LinearizableReadError::ForwardToLeader(forward)) => {
            not_leading(forward.leader_id, forward.reason)
        }
        RaftError::APIError(LinearizableReadError::QuorumNotEnough(_)) => ProposeError::NoQuorum,
        RaftError::Fatal(_) => ProposeError::Stopped,
    }
}

/// Why a node that was asked does not lead, in our words.
pub(crate) fn not_leading(leader: Option<u64>, reason: ForwardReason) -> ProposeError {
    match reason {
        ForwardReason::LeaseExpired => ProposeError::NoQuorum,
        ForwardReason::NotLeader | ForwardReason::LeadershipTransfer => {
            ProposeError::NotLeader { leader: leader.map(MasterId) }
        }
    }
}
