//! The consensus library's types, filled in for a machine. Must not know the disk or the wire.
//! Next: `codec.rs`.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use openraft::impls::{BoxedErrorSource, InlineBatch, ProgressResponder, leader_id_std};
use openraft::vote::RaftLeaderId;
use openraft::{EntryPayload, OptionalSend, RaftTypeConfig};

use crate::codec::{self, Undecodable};
use crate::machine::{Batch, Machine};
use crate::runtime::Runtime;
use crate::state_machine::StateMachine;

/// What the membership says about a member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Peer {
    /// Where its peers reach it.
    pub(crate) addr: String,
    /// Its data directory; 0 for an initial member, whose peers know it from its formation.
    pub(crate) store: u64,
}

/// Candidate of a term. The standard kind: at most one leader per term, as terms are understood
/// everywhere else. Cannot be changed once data exists.
pub(crate) type LeaderId = leader_id_std::LeaderId<u64, u64>;
pub(crate) type CommittedLeaderId = <LeaderId as RaftLeaderId>::Committed;
pub(crate) type LogId = openraft::LogId<CommittedLeaderId>;
pub(crate) type Vote = openraft::Vote<LeaderId>;
pub(crate) type Membership = openraft::Membership<u64, Peer>;
pub(crate) type StoredMembership = openraft::StoredMembership<CommittedLeaderId, u64, Peer>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<CommittedLeaderId, u64, Peer>;
pub(crate) type Payload<M> = EntryPayload<Proposal<<M as Machine>::Command>, u64, Peer>;
pub(crate) type Entry<M> = openraft::Entry<CommittedLeaderId, Payload<M>>;
pub(crate) type Raft<M> = openraft::Raft<Types<M>, StateMachine<M>>;

/// The set of types for machine `M`. Never a value that means something.
pub(crate) struct Types<M>(PhantomData<fn() -> M>);

impl<M: Machine> RaftTypeConfig for Types<M> {
    type D = Proposal<M::Command>;
    type R = Vec<M::Response>;
    type NodeId = u64;
    type Node = Peer;
    type Term = u64;
    type LeaderId = LeaderId;
    type Vote = Vote;
    type Payload = Payload<M>;
    type Entry = Entry<M>;
    type AsyncRuntime = Runtime;
    type Responder<T>
        = ProgressResponder<Self, T>
    where
        T: OptionalSend + 'static;
    type Batch<T>
        = InlineBatch<T>
    where
        T: OptionalSend + 'static;
    type ErrorSource = BoxedErrorSource;
}

// By hand, because a derive would ask the same of `M`.
impl<M> fmt::Debug for Types<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Types")
    }
}
impl<M> Clone for Types<M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for Types<M> {}
impl<M> Default for Types<M> {
    fn default() -> Self {
        Self(PhantomData)
    }
}
impl<M> PartialEq for Types<M> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl<M> Eq for Types<M> {}
impl<M> PartialOrd for Types<M> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<M> Ord for Types<M> {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

/// A batch in the log. The bytes are what is stored, sent and digested. The decoded value is
/// held by whoever proposes it, so the leader applies it from memory and the log's cache does
/// not keep every batch twice.
pub(crate) struct Proposal<C> {
    bytes: Bytes,
    decoded: Weak<Batch<C>>,
}

impl<C> Proposal<C> {
    pub(crate) fn from_bytes(bytes: Bytes) -> Self {
        Self { bytes, decoded: Weak::new() }
    }
    pub(crate) fn new(bytes: Bytes, batch: &Arc<Batch<C>>) -> Self {
        Self { bytes, decoded: Arc::downgrade(batch) }
    }
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl<C: serde::de::DeserializeOwned> Proposal<C> {
    /// The batch: from memory while its proposer waits, else decoded.
    pub(crate) fn batch(&self) -> Result<Arc<Batch<C>>, Undecodable> {
        match self.decoded.upgrade() {
            Some(batch) => Ok(batch),
            None => Ok(Arc::new(codec::decode_batch(&self.bytes)?)),
        }
    }
}

impl<C> Clone for Proposal<C> {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), decoded: self.decoded.clone() }
    }
}
impl<C> fmt::Debug for Proposal<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl<C> fmt::Display for Proposal<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "batch of {} bytes", self.bytes.len())
    }
}
