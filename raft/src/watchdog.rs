//! Watches the own disk. A leader whose log cannot be written still answers heartbeats, and the
//! cluster would wait for it for ever; so it hands its leadership over, and a node with a stalled
//! disk neither votes nor stands for election until the disk answers again. Must not know what
//! is written. Next: `network.rs`.

use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::vote::RaftLeaderId;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::handover::{abdicate, best_successor};
use crate::leadership::Heard;
use crate::log_store::LogStore;
use crate::machine::Machine;
use crate::types::Raft;

/// Whether and since when the own disk is stalled, for those who would promise something.
#[derive(Debug, Default)]
pub(crate) struct Stall(Mutex<Option<Instant>>);

impl Stall {
    pub(crate) fn since(&self) -> Option<Instant> {
        *self.0.lock()
    }

    pub(crate) fn is_on(&self) -> bool {
        self.since().is_some()
    }
}

pub(crate) struct Watchdog<M: Machine> {
    pub(crate) id: u64,
    pub(crate) raft: Raft<M>,
    pub(crate) log: LogStore<M>,
    pub(crate) heard: Arc<Heard>,
    pub(crate) stall: Arc<Stall>,
    /// A write that takes longer is a stall: the longest election timeout.
    pub(crate) timeout: Duration,
    /// Time between two looks.
    pub(crate) heartbeat: Duration,
}

/// A leadership that was given up, and to whom.
#[derive(Debug, Clone, Copy)]
struct Resigned {
    term: u64,
    to: u64,
    at: Instant,
}

impl<M: Machine> Watchdog<M> {
    /// Never returns.
    pub(crate) async fn run(self) {
        let mut resigned = None;
        loop {
            tokio::time::sleep(self.heartbeat).await;
            let since = self.log.writing_since().filter(|since| since.elapsed() > self.timeout);
            self.note(since);
            resigned = match since {
                Some(_) => self.resign(resigned).await,
                None => self.conclude(resigned).await,
            };
        }
    }

    fn note(&self, since: Option<Instant>) {
        let before = std::mem::replace(&mut *self.stall.0.lock(), since);
        if before.is_some() == since.is_some() {
            return;
        }
        self.raft.runtime_config().elect(since.is_none());
        match since {
            Some(since) => {
                let stalled = since.elapsed();
                tracing::error!(?stalled, "the disk does not answer: this node leads no more");
            }
            None => tracing::info!("the disk answers again"),
        }
    }

    /// The term that this node leads.
    fn led_term(&self) -> Option<u64> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        metrics.state.is_leader().then(|| metrics.vote.leader_id().term())
    }

    /// Hands over what this node leads, once in a term. Alone it leads on: there is no other.
    async fn resign(&self, before: Option<Resigned>) -> Option<Resigned> {
        let Some(term) = self.led_term() else { return before };
        if before.is_some_and(|before| before.term == term) {
            return before;
        }
        let Some(to) = best_successor(&self.raft, self.id, self.timeout) else { return before };
        // First of all: from here on this node does not say that it leads.
        self.heard.resign(term);
        if let Err(error) = self.raft.trigger().transfer_leader(to).await {
            tracing::debug!(%error, "the consensus core has stopped");
        }
        Some(Resigned { term, to, at: Instant::now() })
    }

    /// Ends a leadership that nobody has taken over.
    async fn conclude(&self, resigned: Option<Resigned>) -> Option<Resigned> {
        let Resigned { term, to, at } = resigned?;
        if self.led_term() != Some(term) {
            return None;
        }
        if at.elapsed() < self.timeout {
            return resigned;
        }
        abdicate(&self.raft, term, to).await;
        None
    }
}
