//! Finishes what a caller or a former leader left in the middle. Between two sets of voters a
//! cluster needs a quorum of both, so a change that nobody finishes is a danger of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use openraft::ChangeMembers;
use openraft::async_runtime::WatchReceiver;
use tokio::sync::Mutex;

use crate::machine::Machine;
use crate::types::Raft;

pub(crate) struct Finisher<M: Machine> {
    pub(crate) raft: Raft<M>,
    /// Held by whoever changes the members.
    pub(crate) changing: Arc<Mutex<()>>,
}

impl<M: Machine> Finisher<M> {
    /// Runs while the consensus core lives.
    pub(crate) async fn run(self) {
        let mut metrics = self.raft.server_metrics();
        loop {
            let is_halfway = {
                let now = metrics.borrow_and_update();
                let sets = now.membership_config.membership().get_joint_config().len();
                now.state.is_leader() && sets > 1
            };
            if is_halfway {
                self.finish().await;
            }
            if metrics.changed().await.is_err() {
                break;
            }
        }
        std::future::pending().await
    }

    /// Waits for a change that is still under way; then goes on to the newer set of voters.
    async fn finish(&self) {
        let _changing = self.changing.lock().await;
        let sets = {
            let metrics = self.raft.server_metrics();
            let now = metrics.borrow_watched();
            now.membership_config.membership().get_joint_config().len()
        };
        if sets < 2 {
            return;
        }
        tracing::info!("finishing a change of the members that was left in the middle");
        let nothing_more = ChangeMembers::AddVoterIds(BTreeSet::new());
        if let Err(error) = self.raft.change_membership(nothing_more, false).await {
            // Not committed yet, or no leader any more: the next news of it decides.
            tracing::debug!(%error, "the change was not finished");
        }
    }
}
