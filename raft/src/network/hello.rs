//! Who speaks: each call and each answer carries a `Hello`, so a process of another cluster, a
//! wrong address or a doubled id is refused before anything is said. Next: `client.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use prost::Message;
use proto::holdfast::raft as wire;
use thiserror::Error;
use tokio::sync::watch;
use tonic::Status;
use tonic::metadata::{BinaryMetadataKey, MetadataMap, MetadataValue};

use crate::members::Members;

/// Version of the protocol that this program speaks, and the highest that it understands.
const PROTOCOL: u32 = 1;
const KEY: &str = "holdfast-hello-bin";

/// Why two processes do not talk.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum Mismatch {
    #[error("the call carries no hello")]
    Missing,
    #[error("peer {node} speaks protocol {protocol}, this master understands {PROTOCOL}")]
    Protocol { node: u64, protocol: u32 },
    #[error("peer {node} wants master {to}, this is master {me}")]
    Address { node: u64, to: u64, me: u64 },
    #[error("another process calls itself master {0}, too")]
    Twin(u64),
    #[error("peer {node} belongs to cluster {theirs}, this master to {ours}")]
    Cluster { node: u64, theirs: String, ours: String },
    #[error("peer {0} was started with other initial members")]
    Peers(u64),
    #[error(
        "peer {0} came back with another data directory: its disk was wiped or exchanged; \
         replace master {0} by one with a new id"
    )]
    Store(u64),
    #[error("peer {0} knows this master with another data directory")]
    Disowned(u64),
}

/// What a hello is checked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Everything.
    Call,
    /// All but the data directory: who asks may have to learn that its own is the wrong one.
    Greeting,
}

/// This process towards its peers, and what they told about themselves.
#[derive(Debug)]
pub(crate) struct Handshake {
    node: u64,
    boot: u64,
    advertise: String,
    peers_hash: Vec<u8>,
    cluster_id: RwLock<String>,
    members: Arc<Members>,
    met: Mutex<BTreeMap<u64, wire::Hello>>,
    /// Mismatches that were logged: one line each, however often the peer tries.
    logged: Mutex<BTreeSet<String>>,
    /// The peer that knows this node with another data directory, while this one promised nothing.
    disowned: watch::Sender<Option<u64>>,
}

impl Handshake {
    pub(crate) fn new(
        boot: u64,
        advertise: String,
        identity: &wire::Identity,
        members: Arc<Members>,
    ) -> Self {
        Self {
            node: identity.node,
            boot,
            advertise,
            members,
            peers_hash: hash_of(&identity.peers),
            cluster_id: RwLock::new(identity.cluster_id.clone()),
            met: Mutex::default(),
            logged: Mutex::default(),
            disowned: watch::Sender::new(None),
        }
    }

    pub(crate) fn node(&self) -> u64 {
        self.node
    }

    /// Who knows this node with another data directory; only while this one is fresh.
    pub(crate) fn disowned(&self) -> watch::Receiver<Option<u64>> {
        self.disowned.subscribe()
    }

    /// What this process says to `to`; 0 in an answer.
    pub(crate) fn hello(&self, to: u64) -> wire::Hello {
        wire::Hello {
            protocol: PROTOCOL,
            node: self.node,
            boot: self.boot,
            to,
            cluster_id: self.cluster_id.read().clone(),
            peers_hash: self.peers_hash.clone().into(),
            advertise: self.advertise.clone(),
            store: self.members.own(),
            stake: self.stake().into(),
            you: if to == 0 { 0 } else { self.members.store_of(to) },
            stores: Vec::new(),
        }
    }

    /// The answer to a greeting: everything that a node without a history has to know before it
    /// makes its first promise.
    pub(crate) fn introduction(&self) -> wire::Hello {
        let known = |(node, store)| wire::KnownStore { node, store };
        let stores = self.members.stores().into_iter().map(known).collect();
        wire::Hello { stores, ..self.hello(0) }
    }

    fn stake(&self) -> wire::Stake {
        if self.members.is_formed() { wire::Stake::Formed } else { wire::Stake::Fresh }
    }

    pub(crate) fn cluster_id(&self) -> Option<String> {
        Some(self.cluster_id.read().clone()).filter(|id| !id.is_empty())
    }

    pub(crate) fn set_cluster_id(&self, id: &str) {
        id.clone_into(&mut self.cluster_id.write());
    }

    /// Takes the cluster id of the leader that added this node, unless one is known.
    pub(crate) fn join(&self, id: &str) {
        let mut known = self.cluster_id.write();
        if known.is_empty() && !id.is_empty() {
            id.clone_into(&mut known);
            self.members.wake();
        }
    }

    /// The public address that `node` announced.
    pub(crate) fn advertise_of(&self, node: u64) -> Option<String> {
        self.met.lock().get(&node).map(|hello| hello.advertise.clone())
    }

    /// Puts the hello of this process into the metadata of a call or an answer.
    pub(crate) fn stamp(&self, metadata: &mut MetadataMap, to: u64) {
        metadata.insert_bin(key(), MetadataValue::from_bytes(&self.hello(to).encode_to_vec()));
    }

    /// Checks the hello of a call or an answer, remembers it, and tells who it was.
    pub(crate) fn check(&self, metadata: &MetadataMap) -> Result<wire::Hello, Status> {
        self.examine(metadata, Scope::Call)
    }

    /// As [`Self::check`], for whoever greets.
    pub(crate) fn check_greeting(&self, metadata: &MetadataMap) -> Result<wire::Hello, Status> {
        self.examine(metadata, Scope::Greeting)
    }

    fn examine(&self, metadata: &MetadataMap, scope: Scope) -> Result<wire::Hello, Status> {
        let hello = metadata
            .get_bin(key())
            .and_then(|value| value.to_bytes().ok())
            .and_then(|bytes| wire::Hello::decode(bytes).ok());
        let checked = match hello {
            Some(hello) => self.compare(&hello).map(|()| hello),
            None => Err(Mismatch::Missing),
        };
        let checked = checked.and_then(|hello| match self.compare_store(&hello) {
            Err(mismatch) if scope == Scope::Call => Err(mismatch),
            Err(mismatch) => {
                self.log(&mismatch.to_string());
                Ok(hello)
            }
            Ok(()) => {
                self.met.lock().insert(hello.node, hello.clone());
                Ok(hello)
            }
        });
        checked.map_err(|mismatch| {
            let text = mismatch.to_string();
            self.log(&text);
            Status::failed_precondition(text)
        })
    }

    fn log(&self, mismatch: &str) {
        if self.logged.lock().insert(mismatch.to_owned()) {
            tracing::warn!("peer refused: {mismatch}");
        }
    }

    /// A member is its data directory: what it voted and acknowledged stands there.
    fn compare_store(&self, hello: &wire::Hello) -> Result<(), Mismatch> {
        let (node, own) = (hello.node, self.members.own());
        if hello.you != 0 && own != 0 && hello.you != own {
            if !self.members.is_formed() {
                self.disowned.send_replace(Some(node));
            }
            return Err(Mismatch::Disowned(node));
        }
        // Before its formation a node knows no member for sure, and counts on none.
        if hello.store == 0 || !self.members.is_formed() {
            return Ok(());
        }
        match self.members.store_of(node) {
            0 if hello.stake() == wire::Stake::Formed => self.members.meet(node, hello.store),
            0 => {}
            known if known == hello.store => {}
            _ => return Err(Mismatch::Store(node)),
        }
        Ok(())
    }

    fn compare(&self, hello: &wire::Hello) -> Result<(), Mismatch> {
        let node = hello.node;
        if hello.protocol > PROTOCOL {
            return Err(Mismatch::Protocol { node, protocol: hello.protocol });
        }
        if node == self.node {
            return Err(Mismatch::Twin(node));
        }
        if hello.to != 0 && hello.to != self.node {
            return Err(Mismatch::Address { node, to: hello.to, me: self.node });
        }
        let ours = self.cluster_id.read();
        if !ours.is_empty() && !hello.cluster_id.is_empty() {
            if *ours != hello.cluster_id {
                let theirs = hello.cluster_id.clone();
                return Err(Mismatch::Cluster { node, theirs, ours: ours.clone() });
            }
        } else if !self.peers_hash.is_empty()
            && !hello.peers_hash.is_empty()
            && self.peers_hash.as_slice() != &hello.peers_hash[..]
        {
            return Err(Mismatch::Peers(node));
        }
        Ok(())
    }
}

fn key() -> BinaryMetadataKey {
    BinaryMetadataKey::from_static(KEY)
}

/// SHA-256 of the sorted members; empty without members.
fn hash_of(peers: &[wire::Member]) -> Vec<u8> {
    if peers.is_empty() {
        return Vec::new();
    }
    let mut lines: Vec<String> =
        peers.iter().map(|peer| format!("{}={}\n", peer.node, peer.address)).collect();
    lines.sort_unstable();
    crate::snapshot::checksum(lines.concat().as_bytes()).to_vec()
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::members::Stores;

    fn handshake(node: u64, cluster_id: &str, address: &str) -> Handshake {
        knowing(node, cluster_id, address, Stores::new())
    }

    fn knowing(node: u64, cluster_id: &str, address: &str, stores: Stores) -> Handshake {
        let member =
            |node, address: &str| wire::Member { node, address: address.to_owned(), store: 0 };
        let identity = wire::Identity {
            version: 1,
            node,
            peers: vec![member(1, address), member(2, "b:2")],
            cluster_id: cluster_id.to_owned(),
        };
        let members = Arc::new(Members::new(node * 10, Arc::default(), stores));
        Handshake::new(7, format!("public{node}:1"), &identity, members)
    }

    fn greet(from: &Handshake, to: u64, receiver: &Handshake) -> Result<(), Mismatch> {
        receiver.compare(&from.hello(to))
    }

    #[test]
    fn members_of_one_cluster_talk() {
        let (one, two) = (handshake(1, "", "a:1"), handshake(2, "", "a:1"));
        assert_eq!(greet(&one, 2, &two), Ok(()));
        one.set_cluster_id("c");
        assert_eq!(greet(&one, 2, &two), Ok(()), "the id reaches masters one after the other");
        two.set_cluster_id("c");
        assert_eq!(greet(&one, 2, &two), Ok(()));
    }

    #[test]
    fn strangers_are_refused() {
        let two = handshake(2, "c", "a:1");
        let refused = |from: &Handshake, to| greet(from, to, &two).unwrap_err();
        let other = handshake(1, "d", "a:1");
        assert!(matches!(refused(&other, 2), Mismatch::Cluster { node: 1, .. }));
        assert_eq!(refused(&handshake(1, "", "x:9"), 2), Mismatch::Peers(1));
        assert!(matches!(refused(&handshake(1, "c", "a:1"), 3), Mismatch::Address { .. }));
        assert_eq!(refused(&handshake(2, "c", "a:1"), 2), Mismatch::Twin(2));
        let newer = wire::Hello { protocol: PROTOCOL + 1, ..handshake(1, "c", "a:1").hello(2) };
        assert!(matches!(two.compare(&newer), Err(Mismatch::Protocol { .. })));
    }

    #[test]
    fn announced_addresses_are_remembered() {
        let (one, two) = (handshake(1, "", "a:1"), handshake(2, "", "a:1"));
        let mut metadata = MetadataMap::new();
        assert!(two.check(&metadata).is_err());
        one.stamp(&mut metadata, 2);
        two.check(&metadata).unwrap();
        assert_eq!(two.advertise_of(1).as_deref(), Some("public1:1"));
    }

    /// A call of node 1 as node 2 sees it, which knows these directories.
    fn call(stores: Stores, hello: &wire::Hello, is_formed: bool) -> (Handshake, Result<(), Code>) {
        let two = knowing(2, "c", "a:1", stores);
        if is_formed {
            two.members.admit();
            two.members.form();
        }
        let mut metadata = MetadataMap::new();
        metadata.insert_bin(key(), MetadataValue::from_bytes(&hello.encode_to_vec()));
        let checked = two.check(&metadata).map(drop).map_err(|status| status.code());
        (two, checked)
    }

    #[test]
    fn member_with_another_directory_is_refused() {
        let hello = handshake(1, "c", "a:1").hello(2);
        assert_eq!(hello.store, 10);
        let known = |store| Stores::from([(1, store)]);
        assert_eq!(call(known(10), &hello, true).1, Ok(()));
        assert_eq!(call(known(11), &hello, true).1, Err(Code::FailedPrecondition));
        assert_eq!(call(known(11), &hello, false).1, Ok(()), "nothing is sure yet");
        let older = wire::Hello { store: 0, ..hello };
        assert_eq!(call(known(11), &older, true).1, Ok(()), "a program without directories");
    }

    #[test]
    fn node_hears_that_its_directory_is_not_the_known_one() {
        let hello = wire::Hello { you: 21, ..handshake(1, "c", "a:1").hello(2) };
        let (fresh, refused) = call(Stores::new(), &hello, false);
        assert_eq!(refused, Err(Code::FailedPrecondition));
        assert_eq!(*fresh.disowned().borrow(), Some(1));
        let (formed, refused) = call(Stores::new(), &hello, true);
        assert_eq!(refused, Err(Code::FailedPrecondition));
        assert_eq!(*formed.disowned().borrow(), None, "it holds what others may need");
        let right = wire::Hello { you: 20, ..hello };
        assert_eq!(call(Stores::new(), &right, false).1, Ok(()));
    }
}
