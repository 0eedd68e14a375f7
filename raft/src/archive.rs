//! A snapshot as one file that leaves the cluster: a backup. It carries its own checksums, so
//! that it can be verified where nobody runs. Must not know the machine's state. Next:
//! `restore.rs`.
//!
//! Layout: the line `holdfast snapshot 1`, then one `holdfast.raft.SnapshotHead`, as many
//! `holdfast.raft.SnapshotChunk` as that says, and the SHA-256 of everything before, each after
//! its length in bytes (4, big endian).

use std::io::{self, Read};
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message;
use proto::holdfast::raft as wire;
use resources::id::{LogIndex, MasterId, Term};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::codec::Undecodable;
use crate::error::ProposeError;
use crate::machine::{Chunk, Machine};
use crate::node::Node;
use crate::snapshot::{BadChunks, Head, Serving, SnapshotStore, Verifier};

/// First bytes of the file.
const MAGIC: &[u8] = b"holdfast snapshot 1\n";
/// Longest message in it: a chunk is at most 1 MiB, beside its number and checksum.
const MESSAGE_BYTES_MAX: u32 = 2 << 20;

/// A verified backup, in memory.
#[derive(Debug, Clone)]
pub struct Archive {
    pub(crate) head: Head,
    pub(crate) chunks: Vec<Chunk>,
}

/// Why bytes are no backup.
#[derive(Debug, Error)]
pub enum BadArchive {
    /// It begins otherwise.
    #[error("it is no snapshot of a cluster")]
    Magic,
    /// It ends too early.
    #[error("it ends in the middle, with {chunks} of {expected} chunks")]
    Truncated {
        /// Whole chunks that are there.
        chunks: u64,
        /// How many there should be.
        expected: u64,
    },
    /// A part of it is not what it was.
    #[error("it is damaged: {reason}")]
    Damaged {
        /// What does not fit.
        reason: String,
    },
    /// Written by a newer program.
    #[error("{reason}")]
    Version {
        /// Which version would read it.
        reason: String,
    },
    /// It cannot be read.
    #[error("it cannot be read")]
    Io(#[source] io::Error),
}

impl Archive {
    /// Reads a backup and checks every part of it.
    ///
    /// # Errors
    /// [`BadArchive`].
    pub fn read(from: impl Read) -> Result<Self, BadArchive> {
        let mut from = Hashed { from, hash: Sha256::new() };
        let mut magic = [0; MAGIC.len()];
        match from.read_exact(&mut magic) {
            Ok(()) if magic == *MAGIC => {}
            Ok(()) => return Err(BadArchive::Magic),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(BadArchive::Magic);
            }
            Err(error) => return Err(BadArchive::Io(error)),
        }
        let nothing = BadArchive::Truncated { chunks: 0, expected: 0 };
        let head = message(&mut from)?.ok_or(nothing)?;
        let head = wire::SnapshotHead::decode(head.as_slice()).map_err(Undecodable::from);
        let head = head.and_then(Head::from_wire).map_err(undecodable)?;
        let (mut verifier, mut chunks) = (Verifier::default(), Vec::new());
        for found in 0..head.chunks {
            let truncated = BadArchive::Truncated { chunks: found, expected: head.chunks };
            let bytes = message(&mut from)?.ok_or(truncated)?;
            let chunk = wire::SnapshotChunk::decode(bytes.as_slice()).map_err(Undecodable::from);
            let chunk = chunk.map_err(undecodable)?;
            verifier.add(chunk.number, &chunk.data, &chunk.checksum).map_err(damaged)?;
            chunks.push(Chunk(chunk.data.to_vec()));
        }
        verifier.finish(&head).map_err(damaged)?;
        let whole = from.hash.clone().finalize();
        let truncated = BadArchive::Truncated { chunks: head.chunks, expected: head.chunks };
        if message(&mut from)?.ok_or(truncated)?.as_slice() != whole.as_slice() {
            let reason = "its checksum is another one".to_owned();
            return Err(BadArchive::Damaged { reason });
        }
        if message(&mut from)?.is_some() {
            let reason = "something stands behind its end".to_owned();
            return Err(BadArchive::Damaged { reason });
        }
        Ok(Self { head, chunks })
    }

    /// The last entry that it contains.
    #[must_use]
    pub fn index(&self) -> LogIndex {
        LogIndex(self.head.covers.last.map_or(0, |last| last.index))
    }

    /// The term of that entry.
    #[must_use]
    pub fn term(&self) -> Term {
        Term(self.head.covers.last.map_or(0, |last| last.committed_leader_id().term))
    }

    /// Who took part when it was made, with peer addresses.
    #[must_use]
    pub fn members(&self) -> Vec<(MasterId, String)> {
        let membership = self.head.covers.membership.membership();
        membership.nodes().map(|(id, peer)| (MasterId(*id), peer.addr.clone())).collect()
    }

    /// Size of the state, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.0.len() as u64).sum()
    }

    /// Builds the machine of it.
    ///
    /// # Errors
    /// When the chunks are intact and are not this program's.
    pub fn thaw<M: Machine>(&self) -> Result<M, BadArchive> {
        M::thaw(self.chunks.iter().cloned())
            .map_err(|error| BadArchive::Damaged { reason: error.to_string() })
    }

    /// The same position with another state, for a restore that has to mark it.
    #[must_use]
    pub fn with_state<M: Machine>(self, frozen: &M::Frozen) -> Self {
        Self { head: self.head, chunks: M::chunks(frozen).collect() }
    }
}

/// Remembers what was read.
struct Hashed<R> {
    from: R,
    hash: Sha256,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(bytes)?;
        self.hash.update(&bytes[..read]);
        Ok(read)
    }
}

fn damaged(error: BadChunks) -> BadArchive {
    BadArchive::Damaged { reason: error.to_string() }
}

fn undecodable(error: Undecodable) -> BadArchive {
    match error {
        Undecodable::Version { .. } => BadArchive::Version { reason: error.to_string() },
        other => BadArchive::Damaged { reason: other.to_string() },
    }
}

/// The next part; none at the end, or where the file was cut off.
fn message(from: &mut impl Read) -> Result<Option<Vec<u8>>, BadArchive> {
    let mut length = [0; 4];
    if !filled(from, &mut length)? {
        return Ok(None);
    }
    let length = u32::from_be_bytes(length);
    if length > MESSAGE_BYTES_MAX {
        let reason = format!("a part of {length} bytes, at most {MESSAGE_BYTES_MAX} are right");
        return Err(BadArchive::Damaged { reason });
    }
    let mut bytes = vec![0; length as usize];
    Ok(filled(from, &mut bytes)?.then_some(bytes))
}

fn filled(from: &mut impl Read, bytes: &mut [u8]) -> Result<bool, BadArchive> {
    match from.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(BadArchive::Io(error)),
    }
}

/// A backup on its way out, part by part. While it lives, its snapshot stays in its place.
pub struct Export {
    head: Head,
    store: Arc<SnapshotStore>,
    next: Part,
    hash: Sha256,
    _serving: Serving,
}

#[derive(Clone, Copy)]
enum Part {
    Head,
    Chunk(u64),
    Checksum,
    Nothing,
}

impl Export {
    /// The last entry that it contains.
    #[must_use]
    pub fn index(&self) -> LogIndex {
        LogIndex(self.head.covers.last.map_or(0, |last| last.index))
    }

    /// Where the part after chunk `number - 1` begins.
    fn chunk_or_end(&self, number: u64) -> Part {
        if number < self.head.chunks { Part::Chunk(number) } else { Part::Checksum }
    }
}

impl Iterator for Export {
    type Item = io::Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut bytes = BytesMut::new();
        match self.next {
            Part::Nothing => return None,
            Part::Head => {
                bytes.put_slice(MAGIC);
                put(&mut bytes, &self.head.to_wire().encode_to_vec());
                self.next = self.chunk_or_end(0);
            }
            Part::Chunk(number) => {
                let data = match self.store.chunk(&self.head, number) {
                    Ok(data) => data,
                    Err(error) => {
                        self.next = Part::Nothing;
                        return Some(Err(error));
                    }
                };
                let checksum = crate::snapshot::checksum(&data).to_vec().into();
                let chunk = wire::SnapshotChunk { number, data, checksum };
                put(&mut bytes, &chunk.encode_to_vec());
                self.next = self.chunk_or_end(number + 1);
            }
            Part::Checksum => {
                let whole = std::mem::take(&mut self.hash).finalize();
                put(&mut bytes, &whole);
                self.next = Part::Nothing;
            }
        }
        self.hash.update(&bytes);
        Some(Ok(bytes.freeze()))
    }
}

fn put(bytes: &mut BytesMut, part: &[u8]) {
    bytes.put_u32(u32::try_from(part.len()).unwrap_or(u32::MAX));
    bytes.put_slice(part);
}

impl<M: Machine> Node<M> {
    /// Builds a snapshot of everything applied here by now, and gives it out as a backup.
    ///
    /// # Errors
    /// `Stopped`.
    pub async fn export(&self) -> Result<Export, ProposeError> {
        let store = &self.inner.snapshots;
        self.snapshot().await?;
        let serving = store.serve();
        let head = store.head().ok_or(ProposeError::Stopped)?;
        let (next, hash) = (Part::Head, Sha256::new());
        Ok(Export { head, store: store.clone(), next, hash, _serving: serving })
    }
}
