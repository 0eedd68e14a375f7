//! Who speaks: each call and each answer carries a `Hello`, so a process of another cluster, a
//! wrong address or a doubled id is refused before anything is said. Next: `client.rs`.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::{Mutex, RwLock};
use prost::Message;
use proto::holdfast::raft as wire;
use thiserror::Error;
use tonic::Status;
use tonic::metadata::{BinaryMetadataKey, MetadataMap, MetadataValue};

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
}

/// This process towards its peers, and what they told about themselves.
#[derive(Debug)]
pub(crate) struct Handshake {
    node: u64,
    boot: u64,
    advertise: String,
    peers_hash: Vec<u8>,
    cluster_id: RwLock<String>,
    met: Mutex<BTreeMap<u64, wire::Hello>>,
    /// Mismatches that were logged: one line each, however often the peer tries.
    logged: Mutex<BTreeSet<String>>,
}

impl Handshake {
    pub(crate) fn new(node: u64, boot: u64, advertise: String, identity: &wire::Identity) -> Self {
        Self {
            node,
            boot,
            advertise,
            peers_hash: hash_of(&identity.peers),
            cluster_id: RwLock::new(identity.cluster_id.clone()),
            met: Mutex::default(),
            logged: Mutex::default(),
        }
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
        }
    }

    pub(crate) fn cluster_id(&self) -> Option<String> {
        Some(self.cluster_id.read().clone()).filter(|id| !id.is_empty())
    }

    pub(crate) fn set_cluster_id(&self, id: &str) {
        id.clone_into(&mut self.cluster_id.write());
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
        let hello = metadata
            .get_bin(key())
            .and_then(|value| value.to_bytes().ok())
            .and_then(|bytes| wire::Hello::decode(bytes).ok());
        let checked = match hello {
            Some(hello) => self.compare(&hello).map(|()| hello),
            None => Err(Mismatch::Missing),
        };
        match checked {
            Ok(hello) => {
                self.met.lock().insert(hello.node, hello.clone());
                Ok(hello)
            }
            Err(mismatch) => {
                let text = mismatch.to_string();
                if self.logged.lock().insert(text.clone()) {
                    tracing::warn!("peer refused: {text}");
                }
                Err(Status::failed_precondition(text))
            }
        }
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
    use super::*;

    fn handshake(node: u64, cluster_id: &str, address: &str) -> Handshake {
        let member = |node, address: &str| wire::Member { node, address: address.to_owned() };
        let identity = wire::Identity {
            version: 1,
            node,
            peers: vec![member(1, address), member(2, "b:2")],
            cluster_id: cluster_id.to_owned(),
        };
        Handshake::new(node, 7, format!("public{node}:1"), &identity)
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
}
