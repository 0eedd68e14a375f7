//! A client that writes to whoever leads, and remembers what was acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use raft::Leadership;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::checks::{Acknowledged, Nodes, Running};
use crate::support::register::put;

/// Writes key after key to whoever says that it leads, and now and then reads from one that
/// does: while an old leader has not heard of a new one, that may be another.
pub(crate) struct Client {
    pub(crate) nodes: Arc<Mutex<Nodes>>,
    pub(crate) acknowledged: Arc<Mutex<Vec<Acknowledged>>>,
    pub(crate) is_over: Arc<AtomicBool>,
}

impl Client {
    pub(crate) async fn run(self, seed: u64) -> turmoil::Result {
        let mut random = StdRng::seed_from_u64(seed);
        let mut key = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let pause = Duration::from_millis(random.random_range(1..20));
            tokio::time::sleep(pause).await;
            let Some(node) = leader(&self.nodes, &mut random) else { continue };
            // Seldom longer than a lease: whoever hangs on an old leader cannot see it lie.
            let patience = Duration::from_millis(random.random_range(20..800));
            if random.random_bool(0.2) {
                self.read(&node, patience).await?;
            } else {
                key += 1;
                self.write(&node, patience, key, random.random()).await;
            }
        }
        Ok(())
    }

    /// On the node's machine, because the clocks of two simulated machines differ by as much as
    /// lay between their real starts, and a proposal looks at when a quorum last answered.
    async fn write(&self, node: &Running, patience: Duration, key: u64, value: u64) {
        let proposer = node.node.clone();
        let mut proposing =
            node.runtime.spawn(async move { proposer.propose(put(key, value)).await });
        match tokio::time::timeout(patience, &mut proposing).await {
            Ok(Ok(Ok(committed))) => {
                let index = committed.index;
                self.acknowledged.lock().push(Acknowledged { key, value, index });
            }
            Ok(Ok(Err(_)) | Err(_)) => {}
            Err(_) => proposing.abort(),
        }
    }

    /// What was acknowledged before the barrier is there after it.
    async fn read(&self, node: &Running, patience: Duration) -> turmoil::Result {
        let before = self.acknowledged.lock().last().copied();
        let passed = tokio::time::timeout(patience, node.read_barrier()).await;
        if let (Some(write), Ok(Ok(_))) = (before, passed) {
            let found = node.read(|register| register.get(write.key));
            if found != Some((write.value, write.index)) {
                return Err(format!("a read found {found:?} instead of {write:?}").into());
            }
        }
        Ok(())
    }
}

/// One of those that say that they lead.
fn leader(nodes: &Mutex<Nodes>, random: &mut StdRng) -> Option<Running> {
    let nodes = nodes.lock();
    let leads = |node: &&Running| matches!(*node.leadership().borrow(), Leadership::Leading { .. });
    let leaders: Vec<_> = nodes.values().filter(leads).collect();
    if leaders.is_empty() {
        return None;
    }
    Some(leaders[random.random_range(0..leaders.len())].clone())
}
