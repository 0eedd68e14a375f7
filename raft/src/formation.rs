//! The first promise of a node without a history. Its directory is empty because the cluster is
//! new, or because its disk was wiped; in the second case it has forgotten votes and entries on
//! which others count, and whatever it promised now could lose acknowledged entries. So it asks
//! first. Must not know what is replicated. Next: `supervisor.rs`.
//!
//! - The initial members form a cluster when each of them has met *all* others, twice, with the
//!   same directories, and none of them had a history. From then on each knows the directories
//!   of all, durably, so any single one can tell later that another one was wiped.
//! - Whoever finds a member with a history believes it: it is known there with this directory,
//!   and may promise; or it is not, and its own directory is not the one that was promised from.
//! - A node that was started without initial members waits until a leader calls that knows its
//!   directory (see `server.rs`), because it was added with it.
//!
//! The second round closes the gap in the first, whose answers are not of one moment: a member
//! that was wiped while the round ran would appear with two directories.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use proto::holdfast::raft as wire;
use resources::id::MasterId;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::bootstrap;
use crate::env::{FatalHook, Network};
use crate::error::{FatalError, StartError, Wiped};
use crate::log_store::LogStore;
use crate::machine::Machine;
use crate::members::{Members, Stores};
use crate::network::{self, Handshake, Unmet};
use crate::types::Raft;

/// Pause after the first round; it grows with the rounds.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSES_MAX: u32 = 10;
/// After this time the absence of initial members is worth a warning.
const WORTH_A_WARNING: Duration = Duration::from_secs(10);

/// Asks until this node may make promises, or must not.
pub(crate) struct Formation<M: Machine> {
    pub(crate) identity: wire::Identity,
    pub(crate) raft: Raft<M>,
    pub(crate) log: LogStore<M>,
    pub(crate) members: Arc<Members>,
    pub(crate) handshake: Arc<Handshake>,
    pub(crate) network: Arc<dyn Network>,
    pub(crate) fatal: Arc<dyn FatalHook>,
}

/// What one round of questions found.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// A member with a history knows this directory; these are all that it knows.
    Known(Stores),
    /// A member with a history knows another directory, or none.
    Unknown { by: u64 },
    /// Nobody has a history; these are the directories of all.
    Nothing(Stores),
    /// Some did not answer, and the others have no history.
    Absent(Vec<u64>),
}

impl<M: Machine> Formation<M> {
    /// One look at the others. `Ok(true)` when this node may make promises.
    pub(crate) async fn step(&self) -> Result<bool, StartError> {
        if self.members.may_promise() {
            return Ok(true);
        }
        if self.identity.peers.is_empty() {
            return Ok(false);
        }
        match self.round().await {
            Found::Unknown { by } => Err(StartError::Wiped(self.wiped(by))),
            Found::Known(stores) => self.begin(stores).await.map(|()| true),
            Found::Absent(_) => Ok(false),
            Found::Nothing(stores) => {
                let is_lasting = self.others().is_empty()
                    || self.round().await == Found::Nothing(stores.clone());
                if is_lasting {
                    self.begin(stores).await?;
                }
                Ok(is_lasting)
            }
        }
    }

    /// Goes on until the question is decided. Never returns.
    pub(crate) async fn run(self) {
        let decided = self.decide().await;
        if let Err(refusal) = decided {
            let error = match refusal {
                StartError::Wiped(wiped) => FatalError::Wiped(wiped),
                other => FatalError::Consensus(other.to_string()),
            };
            self.fatal.fatal(&error);
        }
        std::future::pending().await
    }

    async fn decide(&self) -> Result<(), StartError> {
        let mut disowned = self.handshake.disowned();
        let began = Instant::now();
        let mut warn_at = Some(began + WORTH_A_WARNING);
        for round in 1.. {
            if self.step().await? {
                break;
            }
            if round == 1 {
                tracing::info!("{}", self.waiting());
            }
            if warn_at.is_some_and(|at| at <= Instant::now()) {
                warn_at = None;
                tracing::warn!("{}", self.waiting());
            }
            // A caller says who it thinks this is, which may be the first that is heard of it.
            let told = disowned.wait_for(Option::is_some);
            match tokio::time::timeout(PAUSE * PAUSES_MAX.min(round), told).await {
                Ok(Ok(by)) => return Err(StartError::Wiped(self.wiped(by.unwrap_or_default()))),
                Ok(Err(watch::error::RecvError { .. })) => break,
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn waiting(&self) -> String {
        if self.identity.peers.is_empty() {
            return "waiting to be added to a cluster".to_owned();
        }
        let peers: Vec<String> =
            self.others().iter().map(|peer| format!("{}={}", peer.node, peer.address)).collect();
        format!("waiting for all initial members to form the cluster: {}", peers.join(","))
    }

    fn others(&self) -> Vec<&wire::Member> {
        self.identity.peers.iter().filter(|peer| peer.node != self.identity.node).collect()
    }

    fn wiped(&self, by: u64) -> Wiped {
        Wiped { id: MasterId(self.identity.node), by: MasterId(by) }
    }

    /// Asks all others at once.
    async fn round(&self) -> Found {
        let meetings = self.others().into_iter().map(|peer| async {
            let (network, handshake) = (self.network.as_ref(), &*self.handshake);
            (peer.node, network::meet(network, handshake, peer.node, &peer.address).await)
        });
        let answers: BTreeMap<u64, Result<wire::Hello, Unmet>> =
            join_all(meetings).await.into_iter().collect();
        for (peer, answer) in &answers {
            if let Err(error) = answer {
                tracing::debug!(peer, %error, "an initial member was not met");
            }
        }
        let answers = answers.into_iter().map(|(peer, answer)| (peer, answer.ok())).collect();
        judge(self.identity.node, self.members.own(), &answers)
    }

    /// Remembers the directories of all, durably, and only then lets this node promise anything.
    async fn begin(&self, stores: Stores) -> Result<(), StartError> {
        self.members.adopt(&stores);
        let written = self.log.set_stores(&self.members.stores()).await;
        written.map_err(|error| StartError::Config { reason: error.to_string() })?;
        self.members.admit();
        bootstrap::form(&self.raft, &self.identity).await
    }
}

/// What the answers of all others mean for the directory `own` of node `me`.
fn judge(me: u64, own: u64, answers: &BTreeMap<u64, Option<wire::Hello>>) -> Found {
    let known = |hello: &wire::Hello| -> Stores {
        hello.stores.iter().map(|known| (known.node, known.store)).collect()
    };
    let (mut fresh, mut knowing, mut absent) = (Stores::from([(me, own)]), None, Vec::new());
    for (peer, answer) in answers {
        match answer.as_ref().map_or(wire::Stake::Unknown, wire::Hello::stake) {
            wire::Stake::Formed => {
                let stores = answer.as_ref().map(known).unwrap_or_default();
                if stores.get(&me) != Some(&own) {
                    return Found::Unknown { by: *peer };
                }
                knowing = Some(stores);
            }
            wire::Stake::Fresh => {
                fresh.insert(*peer, answer.as_ref().map_or(0, |hello| hello.store));
            }
            // An older program cannot say whether it has a history.
            wire::Stake::Unknown => absent.push(*peer),
        }
    }
    match (knowing, absent.is_empty()) {
        (Some(stores), _) => Found::Known(stores),
        (None, true) => Found::Nothing(fresh),
        (None, false) => Found::Absent(absent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(store: u64, stake: wire::Stake, stores: &[(u64, u64)]) -> Option<wire::Hello> {
        let known = |(node, store): &(u64, u64)| wire::KnownStore { node: *node, store: *store };
        let stores = stores.iter().map(known).collect();
        Some(wire::Hello { store, stake: stake.into(), stores, ..wire::Hello::default() })
    }

    /// What node 1 with directory 10 finds.
    fn found(two: Option<wire::Hello>, three: Option<wire::Hello>) -> Found {
        judge(1, 10, &BTreeMap::from([(2, two), (3, three)]))
    }

    #[test]
    fn nobody_with_a_history() {
        let fresh = |store| hello(store, wire::Stake::Fresh, &[]);
        let all = Stores::from([(1, 10), (2, 20), (3, 30)]);
        assert_eq!(found(fresh(20), fresh(30)), Found::Nothing(all));
        assert_eq!(found(fresh(20), None), Found::Absent(vec![3]));
        let older = hello(0, wire::Stake::Unknown, &[]);
        assert_eq!(found(older, fresh(30)), Found::Absent(vec![2]));
    }

    #[test]
    fn somebody_with_a_history() {
        let formed = |stores: &[(u64, u64)]| hello(20, wire::Stake::Formed, stores);
        let ours = Stores::from([(1, 10), (2, 20)]);
        assert_eq!(found(formed(&[(1, 10), (2, 20)]), None), Found::Known(ours));
        assert_eq!(found(formed(&[(1, 11)]), None), Found::Unknown { by: 2 });
        assert_eq!(found(formed(&[]), None), Found::Unknown { by: 2 });
        let three = hello(30, wire::Stake::Formed, &[(1, 12)]);
        assert_eq!(found(formed(&[(1, 10)]), three), Found::Unknown { by: 3 });
    }
}
