//! The agent's durable memory: one redb file, one transaction per checkpoint. Knows how rows
//! are written, not what they mean. Next: `recovery.rs`.
//!
//! Layout of `<work dir>/meta/agent.redb`, format version 1. Values are MessagePack with field
//! names, so fields can be added; a reader refuses a higher version.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | `version`, `checkpoint_id`, `boot_counter`, `boot_id`, `info` | one each |
//! | `meta` | `agent_id`, `fence`, `applied`, `failed`, `total` | one each |
//! | `journal` | seq | order whose effect is not yet part of `total` |
//! | `intents` | seq | order begun but not settled |
//! | `settled` | seq | outcome not acknowledged |
//! | `volumes` | role, volume id | order that made it, device, inode |
//!
//! The total is what stands in `total` with the journal folded over it. An order costs one row,
//! however many reservations the agent has.

mod load;

use std::fs::{self, File};
use std::path::Path;

use redb::{Builder, Database, DatabaseError, StorageError, TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use resources::collection::Resources;
use resources::id::{CheckpointId, Seq};
use resources::message::{AgentInfo, Order};

use self::load::LoadError;
use crate::core::event::{Marker, Memory, VolumeRecord, Write};

/// The format this program writes, and the highest that it reads.
const FORMAT_VERSION: u64 = 1;
/// Page cache of the store: its file is small.
const CACHE_BYTES: usize = 16 << 20;

const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const JOURNAL: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("journal");
const INTENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("intents");
const SETTLED: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("settled");
const VOLUMES: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("volumes");

/// Why the checkpoint cannot be opened. The process ends with status 1.
#[derive(Debug, Error)]
pub(crate) enum OpenError {
    /// Another process holds the file.
    #[error("{path}: another agent process runs on this work directory")]
    Locked {
        /// The file.
        path: String,
    },
    /// The file is damaged.
    #[error(
        "{path}: the checkpoint is corrupt ({what}); stop, keep a copy of the work directory, \
         and restore it from a backup; volumes are untouched"
    )]
    Corrupt {
        /// The file.
        path: String,
        /// What was found.
        what: String,
    },
    /// A newer program wrote it.
    #[error("{path}: checkpoint format {found} is newer than {FORMAT_VERSION}, use a newer agent")]
    Newer {
        /// The file.
        path: String,
        /// The version found.
        found: u64,
    },
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

/// The disk failed while the agent ran. Nothing may be reported after it: the process aborts.
#[derive(Debug, Error)]
#[error("checkpoint: {0}")]
pub(crate) struct StorageFailure(String);

impl<E: Into<redb::Error>> From<E> for StorageFailure {
    fn from(error: E) -> Self {
        Self(error.into().to_string())
    }
}

/// What the checkpoint held when it was opened.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Random name of the work directory.
    pub(crate) checkpoint_id: CheckpointId,
    /// Starts so far.
    pub(crate) boot_counter: u64,
    /// Boot of the host at the last start, and what the agent said of itself then.
    pub(crate) last_start: Option<(String, AgentInfo)>,
    /// What the core needs.
    pub(crate) memory: Memory,
    /// The total that the journal is folded over.
    pub(crate) total: Resources,
    /// Orders carried out since, ascending.
    pub(crate) journal: Vec<Order>,
}

/// Value of the table `volumes`.
#[derive(Debug, Serialize, Deserialize)]
struct VolumeRow {
    create_seq: Seq,
    device: u64,
    inode: u64,
}

impl From<&VolumeRecord> for VolumeRow {
    fn from(record: &VolumeRecord) -> Self {
        let VolumeRecord { create_seq, marker: Marker { device, inode } } = *record;
        Self { create_seq, device, inode }
    }
}

impl From<VolumeRow> for VolumeRecord {
    fn from(row: VolumeRow) -> Self {
        let VolumeRow { create_seq, device, inode } = row;
        Self { create_seq, marker: Marker { device, inode } }
    }
}

/// What is written once at each start.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    /// This start's number.
    pub(crate) boot_counter: u64,
    /// Boot of the host.
    pub(crate) boot_id: &'a str,
    /// What the agent says of itself.
    pub(crate) info: &'a AgentInfo,
    /// The total over these resources.
    pub(crate) total: &'a Resources,
    /// Where the total stands.
    pub(crate) applied_seq: Seq,
    /// Whether the agent gives up the name it had.
    pub(crate) forgets_agent_id: bool,
}

/// The open store.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    database: Database,
}

impl Checkpoint {
    /// Opens the checkpoint of `work_dir`, or makes one with a fresh `checkpoint_id`.
    pub(crate) fn open(
        work_dir: &Path,
        fresh_id: impl FnOnce() -> CheckpointId,
    ) -> Result<(Self, Stored), OpenError> {
        let directory = work_dir.join("meta");
        let path = directory.join("agent.redb");
        if !path.try_exists().map_err(|source| io(&path, source))? {
            create(work_dir, &directory, &path, &fresh_id())?;
        }
        let database = open_database(&path)?;
        let stored = load::load(&database).map_err(|error| match error {
            LoadError::Newer(found) => OpenError::Newer { path: text(&path), found },
            LoadError::Corrupt(what) => OpenError::Corrupt { path: text(&path), what },
        })?;
        Ok((Self { database }, stored))
    }

    /// Notes a start: the total is written whole and the journal cleared.
    pub(crate) fn start(&self, start: &Start<'_>) -> Result<(), StorageFailure> {
        let transaction = self.database.begin_write()?;
        {
            let mut meta = transaction.open_table(META)?;
            meta.insert("boot_counter", encode(&start.boot_counter).as_slice())?;
            meta.insert("boot_id", encode(&start.boot_id).as_slice())?;
            meta.insert("info", encode(start.info).as_slice())?;
            if start.forgets_agent_id {
                meta.remove("agent_id")?;
            }
        }
        write(&transaction, &Write::Total(start.applied_seq, start.total.clone()))?;
        transaction.commit()?;
        Ok(())
    }

    /// Makes all `writes` durable, or none.
    pub(crate) fn commit(&self, writes: &[Write]) -> Result<(), StorageFailure> {
        let transaction = self.database.begin_write()?;
        for row in writes {
            write(&transaction, row)?;
        }
        transaction.commit()?;
        Ok(())
    }
}

fn write(transaction: &WriteTransaction, row: &Write) -> Result<(), StorageFailure> {
    let put = |key: &str, value: &[u8]| -> Result<(), StorageFailure> {
        transaction.open_table(META)?.insert(key, value)?;
        Ok(())
    };
    match row {
        Write::Fence(fence) => put("fence", &encode(fence))?,
        Write::AgentId(agent_id) => put("agent_id", &encode(agent_id))?,
        Write::Applied { seq, failed } => {
            put("applied", &encode(seq))?;
            put("failed", &encode(failed))?;
        }
        Write::Total(upto, total) => {
            put("total", &encode(total))?;
            transaction.open_table(JOURNAL)?.retain(|seq, _| seq > upto.0)?;
        }
        Write::Intents(orders) => {
            let mut table = transaction.open_table(INTENTS)?;
            table.retain(|_, _| false)?;
            for order in orders {
                table.insert(order.seq.0, encode(order).as_slice())?;
            }
        }
        Write::Journal(order) => {
            let mut table = transaction.open_table(JOURNAL)?;
            table.insert(order.seq.0, encode(order).as_slice())?;
        }
        Write::Settle(settled) => {
            let mut table = transaction.open_table(SETTLED)?;
            table.insert(settled.seq.0, encode(settled).as_slice())?;
        }
        Write::Forget(upto) => {
            transaction.open_table(SETTLED)?.retain_in(..=upto.0, |_, _| false)?;
        }
        Write::Volume(key, record) => {
            let mut table = transaction.open_table(VOLUMES)?;
            let row = encode(&VolumeRow::from(record));
            table.insert((key.role.as_str(), key.id.as_str()), row.as_slice())?;
        }
        Write::RemoveVolume(key) => {
            let mut table = transaction.open_table(VOLUMES)?;
            table.remove((key.role.as_str(), key.id.as_str()))?;
        }
    }
    Ok(())
}

/// Makes the file under another name first, so that a half-made one is never taken for a
/// checkpoint; file and directories are durable when this returns.
fn create(
    work_dir: &Path,
    directory: &Path,
    path: &Path,
    checkpoint_id: &CheckpointId,
) -> Result<(), OpenError> {
    fs::create_dir_all(directory).map_err(|source| io(directory, source))?;
    let draft = directory.join("agent.redb.new");
    match fs::remove_file(&draft) {
        Ok(()) => {}
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => {}
        Err(source) => return Err(io(&draft, source)),
    }
    let database = Database::create(&draft).map_err(|error| opening(&draft, error))?;
    let fill = || -> Result<(), StorageFailure> {
        let transaction = database.begin_write()?;
        {
            let mut meta = transaction.open_table(META)?;
            meta.insert("version", encode(&FORMAT_VERSION).as_slice())?;
            meta.insert("checkpoint_id", encode(checkpoint_id).as_slice())?;
        }
        transaction.open_table(JOURNAL)?;
        transaction.open_table(INTENTS)?;
        transaction.open_table(SETTLED)?;
        transaction.open_table(VOLUMES)?;
        transaction.commit()?;
        Ok(())
    };
    fill().map_err(|failure| io(&draft, std::io::Error::other(failure.to_string())))?;
    database.close().map_err(|error| opening(&draft, error))?;
    let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all());
    sync(&draft).map_err(|source| io(&draft, source))?;
    fs::rename(&draft, path).map_err(|source| io(path, source))?;
    for directory in [directory, work_dir] {
        sync(directory).map_err(|source| io(directory, source))?;
    }
    Ok(())
}

fn open_database(path: &Path) -> Result<Database, OpenError> {
    let is_empty = fs::metadata(path).map_err(|source| io(path, source))?.len() == 0;
    if is_empty {
        return Err(OpenError::Corrupt { path: text(path), what: "the file is empty".to_owned() });
    }
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
    builder.open(path).map_err(|error| opening(path, error))
}

fn opening(path: &Path, error: DatabaseError) -> OpenError {
    let path = text(path);
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
            OpenError::Locked { path }
        }
        DatabaseError::Storage(StorageError::Io(source))
            if source.kind() != std::io::ErrorKind::InvalidData
                && source.kind() != std::io::ErrorKind::UnexpectedEof =>
        {
            OpenError::Io { path, source }
        }
        other => OpenError::Corrupt { path, what: other.to_string() },
    }
}

fn encode<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("our own types have no unserializable part")
}

fn io(path: &Path, source: std::io::Error) -> OpenError {
    OpenError::Io { path: text(path), source }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
