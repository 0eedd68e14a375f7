//! The agent's durable memory: one redb file, one transaction per checkpoint. Knows how rows
//! are written, not what they mean. Next: `recovery.rs`.
//!
//! Layout of `<work dir>/meta/agent.redb`, format version 3. Values are MessagePack with field
//! names, so fields can be added; a reader refuses a higher version.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | `version`, `checkpoint_id`, `boot_counter`, `boot_id`, `info` | one each |
//! | `meta` | `agent_id`, `fence`, `applied`, `failed` | one each |
//! | `resources` | resource without amount, mount and creator | (resource, shares) |
//! | `intents` | seq | order begun but not settled |
//! | `settled` | seq | outcome not acknowledged, with its operation |
//! | `volumes` | role, volume id | order that made it, device, inode |
//! | `frameworks` | framework id | its info, what counts of it, whether it is gone |
//! | `executors` | framework id, executor id | its info, its run |
//! | `heard` | framework id, executor id | number of the last word of its supervisor |
//! | `tasks` | framework id, task id | its info, its executor, the order that launched it |
//! | `statuses` | framework id, task id | its state, and the statuses not acknowledged |
//!
//! The rows of `resources` are the total at `applied`. An order costs the rows that it touches,
//! however many reservations the agent has. Version 1 had no table `resources`: the total was
//! `total` in `meta` with the orders of `journal` folded over it. Version 2 had no tasks. Both are
//! read, and the next start writes version 3.
//!
//! Beside it, `meta/checkpoint_id` holds the same id as text: it tells a lost file from a fresh
//! work directory.

mod error;
mod load;
mod overlay;
mod row;

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use redb::{Builder, Database, DatabaseError, StorageError, TableDefinition};

use resources::collection::Resources;
use resources::id::CheckpointId;
use resources::message::AgentInfo;

pub(crate) use self::error::{OpenError, StorageFailure};
use self::load::LoadError;
use self::overlay::Overlay;
use self::row::{encode, write};
use crate::core::event::{Memory, Write};
use crate::failpoint;

/// The format this program writes, and the highest that it reads.
const FORMAT_VERSION: u64 = 3;
/// Page cache of the store: its file is small.
const CACHE_BYTES: usize = 4 << 20;

const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const RESOURCES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("resources");
const JOURNAL: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("journal");
const INTENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("intents");
const SETTLED: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("settled");
const VOLUMES: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("volumes");
const FRAMEWORKS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("frameworks");
const EXECUTORS: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("executors");
const HEARD: TableDefinition<'_, (&str, &str), u64> = TableDefinition::new("heard");
const TASKS: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("tasks");
const STATUSES: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("statuses");

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
    /// Everything the agent has, at `memory.applied_seq`.
    pub(crate) total: Resources,
    /// Format that its rows stand in.
    version: u64,
}

impl Stored {
    /// What a fresh work directory holds.
    pub(crate) fn fresh(checkpoint_id: CheckpointId) -> Self {
        Self {
            checkpoint_id,
            boot_counter: 0,
            last_start: None,
            memory: Memory::default(),
            total: Resources::new(),
            version: FORMAT_VERSION,
        }
    }
}

/// What is written once at each start.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    /// What the checkpoint holds.
    pub(crate) stored: &'a Stored,
    /// This start's number.
    pub(crate) boot_counter: u64,
    /// Boot of the host.
    pub(crate) boot_id: &'a str,
    /// What the agent says of itself.
    pub(crate) info: &'a AgentInfo,
    /// The total over these resources.
    pub(crate) total: &'a Resources,
    /// Whether the agent gives up the name it had.
    pub(crate) forgets_agent_id: bool,
}

/// The open store.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    database: Database,
}

/// The file of a work directory.
pub(crate) fn path_of(work_dir: &Path) -> PathBuf {
    work_dir.join("meta/agent.redb")
}

impl Checkpoint {
    /// Checks and reads the checkpoint of `work_dir` without changing anything; none when the
    /// work directory is fresh.
    pub(crate) fn look(work_dir: &Path) -> Result<Option<Stored>, OpenError> {
        let path = path_of(work_dir);
        let named = named_id(work_dir)?;
        if is_absent(&path)? {
            return match trace(work_dir, named.as_deref()) {
                Some(because) => Err(OpenError::Missing { path: text(&path), because }),
                None => Ok(None),
            };
        }
        let file = open_file(&path)?;
        let overlay = Overlay::new(file).map_err(|source| io(&path, source))?;
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
        let database = builder.create_with_backend(overlay);
        let database = database.map_err(|error| opening(&path, error))?;
        let stored = load::load(&database).map_err(|error| match error {
            LoadError::Newer(found) => OpenError::Newer { path: text(&path), found },
            LoadError::Corrupt(what) => OpenError::Corrupt { path: text(&path), what },
        })?;
        match named {
            Some(expected) if expected != stored.checkpoint_id.as_str() => {
                let (path, found) = (text(&path), stored.checkpoint_id.to_string());
                Err(OpenError::Foreign { path, expected, found })
            }
            Some(_) | None => Ok(Some(stored)),
        }
    }

    /// Opens the checkpoint of `work_dir`, which [`Self::look`] has found good, or makes it.
    pub(crate) fn open(work_dir: &Path, checkpoint_id: &CheckpointId) -> Result<Self, OpenError> {
        let path = path_of(work_dir);
        if is_absent(&path)? {
            create(work_dir, &path, checkpoint_id)?;
        }
        let database = open_database(&path)?;
        let name = work_dir.join(NAME);
        if is_absent(&name)? {
            fs::write(&name, format!("{checkpoint_id}\n")).map_err(|source| io(&name, source))?;
            failpoint::pass("the id stands beside the checkpoint");
            sync(&name)?;
            sync(&work_dir.join("meta"))?;
        }
        Ok(Self { database })
    }

    /// Notes a start: the rows of the total that differ are written.
    pub(crate) fn start(&self, start: &Start<'_>) -> Result<(), StorageFailure> {
        let transaction = self.database.begin_write()?;
        let old = &start.stored.total;
        {
            let mut meta = transaction.open_table(META)?;
            meta.insert("boot_counter", encode(&start.boot_counter).as_slice())?;
            meta.insert("boot_id", encode(&start.boot_id).as_slice())?;
            meta.insert("info", encode(start.info).as_slice())?;
            if start.forgets_agent_id {
                meta.remove("agent_id")?;
            }
        }
        if start.stored.version > load::VERSION_WITH_JOURNAL {
            write(&transaction, &changed(old, start.total))?;
        } else {
            write(&transaction, &changed(&Resources::new(), start.total))?;
            transaction.open_table(META)?.remove("total")?;
            transaction.delete_table(JOURNAL)?;
        }
        if start.stored.version < FORMAT_VERSION {
            let mut meta = transaction.open_table(META)?;
            meta.insert("version", encode(&FORMAT_VERSION).as_slice())?;
        }
        for table in [EXECUTORS, TASKS, STATUSES] {
            transaction.open_table(table)?;
        }
        transaction.open_table(FRAMEWORKS)?;
        transaction.open_table(HEARD)?;
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

/// The rows that make one total into the other.
fn changed(old: &Resources, new: &Resources) -> Write {
    let missing = |from: &Resources, set: &Resources| -> Vec<_> {
        let entries = from.entries().filter(|(resource, count)| {
            set.counterpart(resource) != Some(*resource) || set.count(resource) != *count
        });
        entries.map(|(resource, count)| (resource.clone(), count)).collect()
    };
    let removed = missing(old, new).into_iter().map(|(resource, _)| resource).collect();
    Write::Entries { removed, put: missing(new, old) }
}

/// Name of the work directory as text.
const NAME: &str = "meta/checkpoint_id";

fn named_id(work_dir: &Path) -> Result<Option<String>, OpenError> {
    let path = work_dir.join(NAME);
    match fs::read_to_string(&path) {
        Ok(name) => Ok(Some(name.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(io(&path, source)),
    }
}

/// What shows that the work directory had a checkpoint.
fn trace(work_dir: &Path, named: Option<&str>) -> Option<String> {
    if let Some(id) = named {
        return Some(format!("{NAME} names {id}"));
    }
    let volumes = work_dir.join("volumes/roles");
    let mut entries = fs::read_dir(&volumes).ok()?;
    entries.next().map(|_| format!("{} holds volumes", volumes.display()))
}

/// Makes the file under another name first, so that a half-made one is never taken for a
/// checkpoint; file and directories are durable when this returns.
fn create(work_dir: &Path, path: &Path, checkpoint_id: &CheckpointId) -> Result<(), OpenError> {
    let directory = work_dir.join("meta");
    fs::create_dir_all(&directory).map_err(|source| io(&directory, source))?;
    let draft = directory.join("agent.redb.new");
    match fs::remove_file(&draft) {
        Ok(()) => {}
        Err(source) if source.kind() == ErrorKind::NotFound => {}
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
        transaction.open_table(RESOURCES)?;
        transaction.open_table(INTENTS)?;
        transaction.open_table(SETTLED)?;
        transaction.open_table(VOLUMES)?;
        transaction.commit()?;
        Ok(())
    };
    fill().map_err(|failure| io(&draft, std::io::Error::other(failure.to_string())))?;
    database.close().map_err(|error| opening(&draft, error))?;
    sync(&draft)?;
    failpoint::pass("the checkpoint is made under another name");
    fs::rename(&draft, path).map_err(|source| io(path, source))?;
    failpoint::pass("the checkpoint has its name");
    sync(&directory)?;
    sync(work_dir)
}

fn sync(path: &Path) -> Result<(), OpenError> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|source| io(path, source))
}

/// A link that leads nowhere is there, and is no fresh start.
fn is_absent(path: &Path) -> Result<bool, OpenError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(source) => Err(io(path, source)),
    }
}

/// Opens the file itself. A pipe or device in its place would be waited for without end.
fn open_file(path: &Path) -> Result<File, OpenError> {
    let corrupt = |what: &str| OpenError::Corrupt { path: text(path), what: what.to_owned() };
    let found = fs::metadata(path).map_err(|source| io(path, source))?;
    if !found.is_file() {
        return Err(corrupt("not a regular file"));
    }
    if found.len() == 0 {
        return Err(corrupt("the file is empty"));
    }
    let file = File::options().read(true).write(true).open(path);
    file.map_err(|source| io(path, source))
}

fn open_database(path: &Path) -> Result<Database, OpenError> {
    open_file(path)?;
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
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

fn io(path: &Path, source: std::io::Error) -> OpenError {
    OpenError::Io { path: text(path), source }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
