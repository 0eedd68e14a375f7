//! Keeps what this node knows about the members true and durable. Must not know what entries
//! mean. Next: `upkeep.rs`.

use std::io;
use std::sync::Arc;

use openraft::async_runtime::WatchReceiver;

use crate::log_store::LogStore;
use crate::machine::Machine;
use crate::members::Members;
use crate::network::Handshake;
use crate::types::Raft;

pub(crate) struct Registry<M: Machine> {
    pub(crate) raft: Raft<M>,
    pub(crate) log: LogStore<M>,
    pub(crate) members: Arc<Members>,
    pub(crate) handshake: Arc<Handshake>,
}

impl<M: Machine> Registry<M> {
    /// Runs while the consensus core lives.
    pub(crate) async fn run(self) {
        let mut metrics = self.raft.server_metrics();
        let mut stored = self.log.stores();
        loop {
            let membership = metrics.borrow_and_update().membership_config.clone();
            self.members.follow(membership.membership());
            let stores = self.members.stores();
            let written =
                if stores == stored { Ok(()) } else { self.log.set_stores(&stores).await };
            if let Err(error) = written.and(self.keep_cluster_id().await) {
                // Not repeated: a log that cannot be written ends the process by itself.
                tracing::debug!(%error, "the members' directories were not written down");
            }
            stored = stores;
            tokio::select! {
                changed = metrics.changed() => if changed.is_err() { break },
                () = self.members.news() => {}
            }
        }
        std::future::pending().await
    }

    /// The id that a leader told when it added this node.
    async fn keep_cluster_id(&self) -> io::Result<()> {
        let Some(mut identity) = self.log.identity() else { return Ok(()) };
        match self.handshake.cluster_id() {
            Some(id) if identity.cluster_id.is_empty() => {
                identity.cluster_id = id;
                self.log.set_identity(identity).await
            }
            Some(_) | None => Ok(()),
        }
    }
}
