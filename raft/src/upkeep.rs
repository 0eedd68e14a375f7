//! What a node does for itself in the background: notices that its consensus core has died, and
//! keeps the log within its byte budget. Must not know what entries mean.
//! Next: `handover.rs`.

use std::sync::Arc;

use openraft::async_runtime::WatchReceiver;
use openraft::errors::Fatal;
use tokio_util::sync::CancellationToken;

use crate::config::Limits;
use crate::env::FatalHook;
use crate::error::FatalError;
use crate::log_store::LogStore;
use crate::machine::Machine;
use crate::types::{LogId, Raft, Types};

pub(crate) struct Upkeep<M: Machine> {
    pub(crate) raft: Raft<M>,
    pub(crate) log: LogStore<M>,
    pub(crate) limits: Limits,
    pub(crate) fatal: Arc<dyn FatalHook>,
    pub(crate) closing: CancellationToken,
}

impl<M: Machine> Upkeep<M> {
    /// Runs until its core has ended, which is fatal unless the node closes.
    pub(crate) async fn run(self) {
        let mut metrics = self.raft.metrics();
        // Applied position when a snapshot was last asked for, so that it is asked for once.
        let mut asked = None;
        loop {
            let (running, snapshot, applied) = {
                let now = metrics.borrow_and_update();
                let index = |id: Option<LogId>| id.map(|id| id.index);
                (now.running_state.clone(), index(now.snapshot), index(now.last_applied))
            };
            if let Err(error) = running {
                return self.ended(&error);
            }
            let shrunk = self.shrink(snapshot, applied, &mut asked).await;
            if let Err(error) = shrunk {
                return self.ended(&error);
            }
            if metrics.changed().await.is_err() {
                return self.ended(&Fatal::Stopped);
            }
        }
    }

    /// A dead core in a living process would answer nobody and be missed by nobody.
    fn ended(&self, error: &Fatal<Types<M>>) {
        if !self.closing.is_cancelled() {
            self.fatal.fatal(&FatalError::Consensus(error.to_string()));
        }
    }

    /// Counts of entries bound the log of small batches; this bounds the log of large ones.
    async fn shrink(
        &self,
        snapshot: Option<u64>,
        applied: Option<u64>,
        asked: &mut Option<u64>,
    ) -> Result<(), Fatal<Types<M>>> {
        let limit = self.limits.snapshot_log_bytes;
        if self.log.bytes() <= limit {
            return Ok(());
        }
        let Some(surplus) = self.log.index_leaving(limit / 2) else { return Ok(()) };
        if let Some(snapshot) = snapshot {
            self.raft.trigger().purge_log(surplus.min(snapshot)).await?;
        }
        if snapshot < Some(surplus) && *asked < Some(surplus) && applied > snapshot {
            *asked = applied;
            self.raft.trigger().snapshot().await?;
        }
        Ok(())
    }
}
