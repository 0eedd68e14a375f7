//! What the caller of this crate implements, and the values that cross that border. Must not
//! know how entries are stored or sent. Next: `node.rs`.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use resources::id::LogIndex;
use resources::time::Timestamp;

/// Largest chunk that [`Machine::chunks`] may yield, in bytes.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;

/// A replicated state machine.
///
/// Every replica applies the same batches in the same order, so everything here must be a
/// function of its arguments alone: no clock, no randomness, no iteration over hashed maps, no
/// floating point. An implementation cannot know which replica leads.
pub trait Machine: Default + Send + Sync + 'static {
    /// What callers ask for.
    type Command: Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static;
    /// What they are told. Its encoding enters the digest, so it must be deterministic too.
    type Response: Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static;
    /// What the leader's shell shall do. Dropped on a replica without a sink, so each effect that
    /// must not be lost has to be derivable from the state.
    type Effect: Debug + Send + 'static;
    /// A cheap, immutable image of the state.
    type Frozen: Send + Sync + 'static;

    /// Applies one log entry. Infallible: a refused command is a response.
    ///
    /// Returns exactly one pair per command, in order.
    fn apply(
        &mut self,
        index: LogIndex,
        batch: &Batch<Self::Command>,
    ) -> Vec<(Self::Response, Vec<Self::Effect>)>;

    /// Takes an image of the state. Called under the apply lock: a few milliseconds at most.
    fn freeze(&self) -> Self::Frozen;

    /// The image as bytes, the same on every replica at the same index. Each chunk holds at most
    /// [`CHUNK_BYTES_MAX`] bytes.
    fn chunks(frozen: &Self::Frozen) -> impl Iterator<Item = Chunk>;

    /// Rebuilds the state from its chunks.
    ///
    /// # Errors
    /// [`CorruptSnapshot`] when the chunks are not what [`Machine::chunks`] yields.
    fn thaw(chunks: impl Iterator<Item = Chunk>) -> Result<Self, CorruptSnapshot>;
}

/// The payload of one log entry: commands, and the times the leader stamped on them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch<C> {
    /// Cluster time: stands still while there is no leader, never goes back.
    pub at: Timestamp,
    /// Wall time of the leader, for display only.
    pub wall: Timestamp,
    /// Applied in this order.
    pub commands: Vec<C>,
}

/// A piece of a snapshot, at most [`CHUNK_BYTES_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk(pub Vec<u8>);

/// A snapshot that no replica can have written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("snapshot cannot be read: {reason}")]
pub struct CorruptSnapshot {
    /// What is wrong, for the log.
    pub reason: String,
}

impl CorruptSnapshot {
    /// A snapshot that is corrupt for this reason.
    pub fn new(reason: impl ToString) -> Self {
        Self { reason: reason.to_string() }
    }
}

/// The answer to a proposal that was committed by a quorum and applied here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed<R> {
    /// Position of the entry.
    pub index: LogIndex,
    /// One response per command of the batch, in order.
    pub responses: Vec<R>,
}

/// One applied entry, as a sink sees it (see [`crate::Node::assume`]).
#[derive(Debug)]
pub struct AppliedBatch<M: Machine> {
    /// Position of the entry.
    pub index: LogIndex,
    /// Cluster time of the entry.
    pub at: Timestamp,
    /// One pair per command, in order.
    pub outcomes: Vec<(M::Response, Vec<M::Effect>)>,
}
