//! What this node knows about the members: where each one listens, and which data directory is
//! its own. A disk that was wiped or exchanged is known by that: the votes and entries that the
//! member promised to keep are gone, so nobody may count on it under its old id. Must not know
//! what is replicated. Next: `formation.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::types::Membership;

/// Nodes and the random numbers of their data directories.
pub(crate) type Stores = BTreeMap<u64, u64>;

/// The members, as far as this node knows them.
#[derive(Debug, Default)]
pub(crate) struct Members {
    own: u64,
    /// Whether the own directory holds a promise; set by the log.
    stake: Arc<AtomicBool>,
    /// Whether the cluster was found to have no other directory of this id.
    admitted: AtomicBool,
    known: Mutex<Known>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Known {
    addresses: BTreeMap<u64, String>,
    stores: Stores,
}

impl Members {
    /// `own` is the number of the own directory, `stake` the log's, `stores` what the directory
    /// remembers.
    pub(crate) fn new(own: u64, stake: Arc<AtomicBool>, stores: Stores) -> Self {
        let known = Mutex::new(Known { addresses: BTreeMap::new(), stores });
        Self { own, stake, known, ..Self::default() }
    }

    pub(crate) fn own(&self) -> u64 {
        self.own
    }

    /// Whether the own directory holds an entry, a vote or a snapshot.
    pub(crate) fn is_formed(&self) -> bool {
        self.stake.load(Ordering::Acquire)
    }

    /// Lets this node make its first promise.
    pub(crate) fn admit(&self) {
        self.admitted.store(true, Ordering::Release);
    }

    /// As the log does with the first promise.
    #[cfg(test)]
    pub(crate) fn form(&self) {
        self.stake.store(true, Ordering::Release);
    }

    /// Whether this node may vote and acknowledge entries.
    pub(crate) fn may_promise(&self) -> bool {
        self.is_formed() || self.admitted.load(Ordering::Acquire)
    }

    /// The directory of a member; 0 if none is known.
    pub(crate) fn store_of(&self, node: u64) -> u64 {
        self.known.lock().stores.get(&node).copied().unwrap_or_default()
    }

    pub(crate) fn stores(&self) -> Stores {
        self.known.lock().stores.clone()
    }

    /// The peer address of a member by the membership in force here.
    pub(crate) fn address_of(&self, node: u64) -> Option<String> {
        self.known.lock().addresses.get(&node).cloned()
    }

    /// Remembers directories; what was known of the same nodes is replaced.
    pub(crate) fn adopt(&self, stores: &Stores) {
        let mut known = self.known.lock();
        let before = known.stores.clone();
        known.stores.extend(stores);
        if known.stores != before {
            self.news.notify_one();
        }
    }

    /// Remembers the directory of a member that was met for the first time. Strangers are not
    /// members.
    pub(crate) fn meet(&self, node: u64, store: u64) {
        let mut known = self.known.lock();
        if known.addresses.contains_key(&node) && !known.stores.contains_key(&node) {
            known.stores.insert(node, store);
            self.news.notify_one();
        }
    }

    /// Takes addresses and directories from the membership in force.
    pub(crate) fn follow(&self, membership: &Membership) {
        let nodes = || membership.nodes();
        let stores: Stores = nodes()
            .filter(|(_, peer)| peer.store != 0)
            .map(|(node, peer)| (*node, peer.store))
            .collect();
        self.known.lock().addresses =
            nodes().map(|(node, peer)| (*node, peer.addr.clone())).collect();
        self.adopt(&stores);
    }

    /// Says that there is something to write down.
    pub(crate) fn wake(&self) {
        self.news.notify_one();
    }

    /// Waits until a directory became known since the last call. For one waiter.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use futures::FutureExt;

    use super::*;
    use crate::types::Peer;

    fn membership(store_of_two: u64) -> Membership {
        let peer = |addr: &str, store| Peer { addr: addr.to_owned(), store };
        let nodes = BTreeMap::from([(1, peer("a:1", 0)), (2, peer("b:1", store_of_two))]);
        Membership::new(vec![BTreeSet::from([1])], nodes).unwrap()
    }

    #[test]
    fn first_meeting_with_a_member_is_remembered() {
        let members = Members::default();
        members.meet(1, 10);
        assert_eq!(members.store_of(1), 0, "a stranger");
        members.follow(&membership(0));
        assert_eq!(members.address_of(1).as_deref(), Some("a:1"));
        assert!(members.news().now_or_never().is_none());
        members.meet(1, 10);
        members.meet(1, 11);
        assert_eq!(members.store_of(1), 10);
        assert!(members.news().now_or_never().is_some());
    }

    #[test]
    fn membership_has_the_last_word() {
        let members = Members::new(7, Arc::default(), Stores::from([(2, 20)]));
        members.follow(&membership(21));
        assert_eq!(members.store_of(2), 21);
        assert!(members.news().now_or_never().is_some());
        members.follow(&membership(21));
        assert!(members.news().now_or_never().is_none());
    }

    #[test]
    fn promises_need_a_stake_or_an_admission() {
        let stake = Arc::new(AtomicBool::new(false));
        let members = Members::new(7, stake.clone(), Stores::new());
        assert!(!members.may_promise());
        members.admit();
        assert!(members.may_promise() && !members.is_formed());
        stake.store(true, Ordering::Release);
        assert!(members.is_formed());
    }
}
