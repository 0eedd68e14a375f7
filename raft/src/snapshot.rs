//! The snapshot's own file: chunk rows with checksums, replaced as a whole in one durable
//! transaction, before the log that they cover is purged. Must not know the machine's state.
//! Next: `state_machine.rs`.
//!
//! Layout of the file: table `snapshot_head` holds one `holdfast.raft.SnapshotHead` under the key
//! `head`; table `snapshot_chunks` maps a chunk's number (u64, from 0) to its SHA-256 (32 bytes)
//! followed by its bytes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::RwLock;
use prost::Message;
use proto::holdfast::raft as wire;
use redb::{Database, Durability, ReadableDatabase, TableDefinition, TableError};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::codec::{self, Undecodable};
use crate::database::{self, corrupt, invalid_data, io_error};
use crate::env::Environment;
use crate::error::StartError;
use crate::machine::Chunk;
use crate::types::{LogId, Membership, SnapshotMeta, StoredMembership};

const HEAD: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("snapshot_head");
const CHUNKS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("snapshot_chunks");
const HEAD_KEY: &str = "head";
const HEAD_VERSION: u32 = 1;
const CHECKSUM_BYTES: usize = 32;

/// SHA-256.
pub(crate) type Checksum = [u8; CHECKSUM_BYTES];

/// What a snapshot covers and how to check it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) covers: Coverage,
    pub(crate) chunks: u64,
    /// Over the checksums of all chunks.
    pub(crate) checksum: Checksum,
}

/// The replicated position that a snapshot stands for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Coverage {
    pub(crate) last: Option<LogId>,
    pub(crate) membership: StoredMembership,
    /// Digest chain at `last`.
    pub(crate) digest: Checksum,
}

impl Head {
    pub(crate) fn meta(&self) -> SnapshotMeta {
        SnapshotMeta {
            last_log_id: self.covers.last,
            last_membership: self.covers.membership.clone(),
        }
    }

    pub(crate) fn to_wire(&self) -> wire::SnapshotHead {
        wire::SnapshotHead {
            version: HEAD_VERSION,
            last: self.covers.last.as_ref().map(codec::log_id_to_wire),
            membership: Some(codec::stored_membership_to_wire(&self.covers.membership)),
            digest: self.covers.digest.to_vec().into(),
            chunks: self.chunks,
            checksum: self.checksum.to_vec().into(),
        }
    }

    pub(crate) fn from_wire(from: wire::SnapshotHead) -> Result<Self, Undecodable> {
        codec::check_version(from.version, HEAD_VERSION)?;
        let covers = Coverage {
            last: from.last.as_ref().map(codec::log_id_from_wire),
            membership: codec::stored_membership_from_wire(from.membership)?,
            digest: array(&from.digest)?,
        };
        Ok(Self { covers, chunks: from.chunks, checksum: array(&from.checksum)? })
    }
}

fn array(bytes: &[u8]) -> Result<Checksum, Undecodable> {
    bytes.try_into().map_err(|_| Undecodable::Encoding(format!("{} bytes of hash", bytes.len())))
}

pub(crate) fn checksum(bytes: &[u8]) -> Checksum {
    Sha256::digest(bytes).into()
}

/// Why chunks are not the snapshot that their head announces.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum BadChunks {
    #[error("chunk {0} differs from its checksum")]
    Checksum(u64),
    #[error("chunk {found} came where chunk {expected} was due")]
    Order { expected: u64, found: u64 },
    #[error("the snapshot has {expected} chunks, {found} are there")]
    Count { expected: u64, found: u64 },
    #[error("the chunks are not those of this snapshot")]
    Whole,
}

/// Checks chunks one by one, and the whole at the end.
#[derive(Default)]
pub(crate) struct Verifier {
    whole: Sha256,
    chunks: u64,
}

impl Verifier {
    fn add_own(&mut self, checksum: &Checksum) {
        self.whole.update(checksum);
        self.chunks += 1;
    }

    pub(crate) fn add(&mut self, number: u64, data: &[u8], sum: &[u8]) -> Result<(), BadChunks> {
        if number != self.chunks {
            return Err(BadChunks::Order { expected: self.chunks, found: number });
        }
        let expected = checksum(data);
        if expected.as_slice() != sum {
            return Err(BadChunks::Checksum(number));
        }
        self.add_own(&expected);
        Ok(())
    }

    pub(crate) fn finish(self, head: &Head) -> Result<(), BadChunks> {
        if self.chunks != head.chunks {
            return Err(BadChunks::Count { expected: head.chunks, found: self.chunks });
        }
        let whole: Checksum = self.whole.finalize().into();
        if whole == head.checksum { Ok(()) } else { Err(BadChunks::Whole) }
    }
}

/// A snapshot on its way: rows of the file, or chunks that a peer sent and that were checked.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) head: Head,
    pub(crate) source: Source,
}

#[derive(Clone)]
pub(crate) enum Source {
    Stored(Arc<SnapshotStore>),
    Received(Vec<Bytes>),
}

/// The file with the newest snapshot.
pub(crate) struct SnapshotStore {
    path: PathBuf,
    /// `None` once closed.
    database: RwLock<Option<Database>>,
    head: RwLock<Option<Head>>,
    /// Transfers to peers that read from the file.
    served: AtomicUsize,
}

/// A transfer that reads from the file. While one lives, no new snapshot is built.
pub(crate) struct Serving(Arc<SnapshotStore>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.served.fetch_sub(1, Ordering::AcqRel);
    }
}

impl SnapshotStore {
    /// Opens the file and reads its head.
    pub(crate) fn open(environment: &Environment, path: &Path) -> Result<Self, StartError> {
        let database = database::open(environment.disk.as_ref(), path)?;
        let head = stored_head(&database).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => corrupt(path, error),
            _ => StartError::Io { path: path.to_owned(), source: error },
        })?;
        Ok(Self {
            path: path.to_owned(),
            database: RwLock::new(Some(database)),
            head: RwLock::new(head),
            served: AtomicUsize::new(0),
        })
    }

    /// Keeps the snapshot in its place while a peer reads it. Another one would end the transfer,
    /// and let the log be purged that the peer needs after it: a peer that is slower than the
    /// snapshots come would never catch up.
    pub(crate) fn serve(self: &Arc<Self>) -> Serving {
        self.served.fetch_add(1, Ordering::AcqRel);
        Serving(self.clone())
    }

    pub(crate) fn is_served(&self) -> bool {
        self.served.load(Ordering::Acquire) > 0
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn head(&self) -> Option<Head> {
        self.head.read().clone()
    }

    /// Last entry that the snapshot contains.
    pub(crate) fn last(&self) -> Option<LogId> {
        self.head.read().as_ref().and_then(|head| head.covers.last)
    }

    /// The membership at the last entry that the snapshot contains.
    pub(crate) fn membership(&self) -> Option<Membership> {
        let head = self.head.read();
        head.as_ref().map(|head| head.covers.membership.membership().clone())
    }

    /// Replaces the snapshot. When this returns the new one is durable; when it fails the old
    /// one is still there, but the file must not be written again.
    pub(crate) fn replace(
        &self,
        covers: Coverage,
        chunks: impl Iterator<Item = Chunk>,
    ) -> io::Result<Head> {
        let guard = self.database.read();
        let database = guard.as_ref().ok_or_else(closed)?;
        let mut transaction = database.begin_write().map_err(io_error)?;
        transaction.set_durability(Durability::Immediate).map_err(io_error)?;
        let mut verifier = Verifier::default();
        transaction.delete_table(CHUNKS).map_err(io_error)?;
        {
            let mut rows = transaction.open_table(CHUNKS).map_err(io_error)?;
            for Chunk(data) in chunks {
                let sum = checksum(&data);
                let mut row = sum.to_vec();
                row.extend_from_slice(&data);
                rows.insert(verifier.chunks, row.as_slice()).map_err(io_error)?;
                verifier.add_own(&sum);
            }
        }
        let head =
            Head { covers, chunks: verifier.chunks, checksum: verifier.whole.finalize().into() };
        {
            let mut heads = transaction.open_table(HEAD).map_err(io_error)?;
            let row = head.to_wire().encode_to_vec();
            heads.insert(HEAD_KEY, row.as_slice()).map_err(io_error)?;
        }
        transaction.commit().map_err(io_error)?;
        *self.head.write() = Some(head.clone());
        Ok(head)
    }

    /// One checked chunk of the snapshot with this head; `NotFound` when another snapshot has
    /// taken its place. Each call is its own short read, because a long one would keep the file
    /// from reusing its pages.
    pub(crate) fn chunk(&self, head: &Head, number: u64) -> io::Result<Bytes> {
        let guard = self.database.read();
        let database = guard.as_ref().ok_or_else(closed)?;
        if stored_head(database)?.as_ref() != Some(head) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "a newer snapshot took its place"));
        }
        let transaction = database.begin_read().map_err(io_error)?;
        let rows = transaction.open_table(CHUNKS).map_err(io_error)?;
        let row = rows.get(number).map_err(io_error)?;
        let row = row.as_ref().map(redb::AccessGuard::value);
        match row.and_then(|row| row.split_at_checked(CHECKSUM_BYTES)) {
            Some((sum, data)) if checksum(data) == sum => Ok(Bytes::copy_from_slice(data)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, BadChunks::Checksum(number))),
        }
    }

    pub(crate) fn close(&self) -> io::Result<()> {
        match self.database.write().take() {
            Some(database) => database.close().map_err(io_error),
            None => Ok(()),
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the snapshot file is closed")
}

fn stored_head(database: &Database) -> io::Result<Option<Head>> {
    let transaction = database.begin_read().map_err(io_error)?;
    let heads = match transaction.open_table(HEAD) {
        Ok(heads) => heads,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(io_error(error)),
    };
    let Some(row) = heads.get(HEAD_KEY).map_err(io_error)? else { return Ok(None) };
    let head = wire::SnapshotHead::decode(row.value()).map_err(Undecodable::from);
    head.and_then(Head::from_wire).map(Some).map_err(invalid_data)
}

impl Image {
    /// Keeps what is read from in its place, as long as the result lives.
    pub(crate) fn serve(&self) -> Option<Serving> {
        match &self.source {
            Source::Stored(store) => Some(store.serve()),
            Source::Received(_) => None,
        }
    }

    /// The chunk with this number.
    pub(crate) fn chunk(&self, number: u64) -> io::Result<Bytes> {
        match &self.source {
            Source::Stored(store) => store.chunk(&self.head, number),
            Source::Received(chunks) => usize::try_from(number)
                .ok()
                .and_then(|number| chunks.get(number).cloned())
                .ok_or_else(|| io::ErrorKind::NotFound.into()),
        }
    }

    /// All chunks in order, read one by one.
    pub(crate) fn read_all(&self) -> io::Result<Vec<Chunk>> {
        (0..self.head.chunks).map(|number| Ok(Chunk(self.chunk(number)?.to_vec()))).collect()
    }
}
