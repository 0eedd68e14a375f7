//! The one writer of the log's file: takes everything that is queued, writes it in one
//! transaction, syncs once, and only then acknowledges. Must not know what the entries mean.
//! Next: `snapshot.rs`.
//!
//! Layout of the file: table `raft_log` maps an index (u64) to a `holdfast.raft.Entry`; table
//! `raft_meta` maps `vote` to a `Vote`, `committed` and `purged` to a `LogId`, `identity` to an
//! `Identity`, `stores` to a `KnownStores`, all of them protobuf of `proto/holdfast/raft.proto`,
//! and `store` to the random number of the directory (8 bytes, big endian). The last two are
//! rows of their own, so that an older program, which does not know them, leaves them alone.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openraft::storage::IOFlushed;
use parking_lot::Mutex;
use prost::Message;
use proto::holdfast::raft as wire;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, TableError};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;

use crate::codec::{self, Undecodable};
use crate::database::{corrupt, io_error};
use crate::env::{Disk, FatalHook};
use crate::error::{FatalError, StartError};
use crate::machine::Machine;
use crate::members::Stores;
use crate::types::{Entry, LogId, Types, Vote};

const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("raft_log");
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("raft_meta");
const VOTE: &str = "vote";
const COMMITTED: &str = "committed";
const PURGED: &str = "purged";
pub(crate) const IDENTITY: &str = "identity";
pub(crate) const STORE: &str = "store";
pub(crate) const STORES: &str = "stores";

/// Version of the identity row, and the highest that this program reads.
pub(crate) const IDENTITY_VERSION: u32 = 1;
/// Version of the row of known directories, and the highest that this program reads.
pub(crate) const STORES_VERSION: u32 = 1;

/// One change of the file.
pub(crate) enum Change<M: Machine> {
    Append {
        rows: Vec<(u64, Vec<u8>)>,
        flushed: IOFlushed<Types<M>>,
    },
    Vote(Vec<u8>),
    /// A vote that became a leadership. Rides with the next transaction.
    Elected(Vec<u8>),
    /// Drops `first` and everything after it.
    Truncate {
        first: u64,
    },
    /// Drops everything up to `last`, and remembers its id in the same transaction: without it
    /// a restart would look for entries that are gone.
    Purge {
        last: u64,
        id: Vec<u8>,
    },
    /// Rides with the next transaction.
    Committed(Vec<u8>),
    /// A row of `raft_meta`.
    Meta(&'static str, Vec<u8>),
    Close,
}

/// A change on its way, with the queue space that it takes.
pub(crate) struct Request<M: Machine> {
    pub(crate) change: Change<M>,
    pub(crate) done: Option<oneshot::Sender<io::Result<()>>>,
    pub(crate) permit: OwnedSemaphorePermit,
}

pub(crate) struct Writer<M: Machine> {
    pub(crate) database: Database,
    pub(crate) requests: mpsc::UnboundedReceiver<Request<M>>,
    pub(crate) commit_bytes: usize,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) fatal: Arc<dyn FatalHook>,
    pub(crate) times: Arc<Mutex<CommitTimes>>,
    /// The newest committed position that no transaction has carried yet.
    pub(crate) committed: Option<Vec<u8>>,
    /// The leadership that no transaction has carried yet.
    pub(crate) elected: Option<Vec<u8>>,
}

impl<M: Machine> Writer<M> {
    /// Runs until it is told to close, nobody can write any more, or a commit fails. After a
    /// failed commit nothing is written again: what the disk holds is not known.
    pub(crate) async fn run(mut self) {
        while let Some(first) = self.requests.recv().await {
            let mut requests = self.drain(first);
            let closing = requests
                .pop_if(|request| matches!(request.change, Change::Close))
                .and_then(|request| request.done);
            if let Err(error) = self.commit(requests).await {
                if let Some(done) = closing {
                    let _ = done.send(Err(error));
                }
                return;
            }
            if let Some(done) = closing {
                let _ = done.send(self.close());
                return;
            }
        }
        if let Err(error) = self.close() {
            tracing::warn!(%error, "the log was not closed cleanly");
        }
    }

    /// Everything that queued up while the last commit ran, so that one sync serves it all.
    fn drain(&mut self, first: Request<M>) -> Vec<Request<M>> {
        let mut bytes = first.bytes();
        let mut requests = vec![first];
        while bytes < self.commit_bytes
            && !matches!(requests.last(), Some(Request { change: Change::Close, .. }))
        {
            let Ok(request) = self.requests.try_recv() else { break };
            bytes += request.bytes();
            requests.push(request);
        }
        requests
    }

    async fn commit(&mut self, requests: Vec<Request<M>>) -> io::Result<()> {
        let requests: Vec<_> =
            requests.into_iter().filter_map(|request| self.keep_for_later(request)).collect();
        if requests.is_empty() {
            return Ok(());
        }
        self.times.lock().writing_since = Some(Instant::now());
        let latency = self.disk.latency();
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let started = Instant::now();
        let result = self.write(&requests);
        self.times.lock().wrote(started.elapsed());
        if let Err(error) = &result {
            // First of all: the real hook ends the process before anybody hears of it.
            self.fatal.fatal(&FatalError::Log(copy(error)));
        }
        for request in requests {
            request.answer(result.as_ref().copied().map_err(copy));
        }
        result
    }

    /// What a restart can do without is not worth a sync of its own.
    fn keep_for_later(&mut self, request: Request<M>) -> Option<Request<M>> {
        match request.change {
            Change::Committed(id) => {
                self.committed = Some(id);
                None
            }
            Change::Elected(vote) => {
                self.elected = Some(vote);
                None
            }
            change => {
                if matches!(change, Change::Vote(_)) {
                    self.elected = None;
                }
                Some(Request { change, ..request })
            }
        }
    }

    fn write(&mut self, requests: &[Request<M>]) -> io::Result<()> {
        let mut transaction = self.database.begin_write().map_err(io_error)?;
        transaction.set_durability(Durability::Immediate).map_err(io_error)?;
        {
            let mut log = transaction.open_table(LOG).map_err(io_error)?;
            let mut meta = transaction.open_table(META).map_err(io_error)?;
            let mut put = |key: &str, value: &[u8]| -> io::Result<()> {
                meta.insert(key, value).map(drop).map_err(io_error)
            };
            for request in requests {
                match &request.change {
                    Change::Append { rows, .. } => {
                        for (index, row) in rows {
                            log.insert(index, row.as_slice()).map_err(io_error)?;
                        }
                    }
                    Change::Vote(vote) => put(VOTE, vote)?,
                    Change::Truncate { first } => {
                        log.retain_in(*first.., |_, _| false).map_err(io_error)?;
                    }
                    Change::Purge { last, id } => {
                        log.retain_in(..=*last, |_, _| false).map_err(io_error)?;
                        put(PURGED, id)?;
                    }
                    Change::Meta(key, row) => put(key, row)?,
                    Change::Committed(_) | Change::Elected(_) | Change::Close => {}
                }
            }
            if let Some(committed) = self.committed.take() {
                put(COMMITTED, &committed)?;
            }
            // After the votes of the requests: those that came after it have replaced it.
            if let Some(elected) = self.elected.take() {
                put(VOTE, &elected)?;
            }
        }
        transaction.commit().map_err(io_error)
    }

    fn close(mut self) -> io::Result<()> {
        if self.committed.is_some() || self.elected.is_some() {
            self.write(&[])?;
        }
        self.database.close().map_err(io_error)
    }
}

impl<M: Machine> Request<M> {
    fn bytes(&self) -> usize {
        match &self.change {
            Change::Append { rows, .. } => rows.iter().map(|(_, row)| row.len()).sum(),
            Change::Vote(_)
            | Change::Elected(_)
            | Change::Truncate { .. }
            | Change::Purge { .. }
            | Change::Committed(_)
            | Change::Meta(..)
            | Change::Close => 0,
        }
    }

    fn answer(self, result: io::Result<()>) {
        drop(self.permit);
        match (self.change, self.done) {
            (Change::Append { flushed, .. }, _) => flushed.io_completed(result),
            // Nobody waits any more when the receiver is gone.
            (_, Some(done)) => drop(done.send(result)),
            (_, None) => {}
        }
    }
}

fn copy(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

/// What the file holds.
pub(crate) struct Stored<M: Machine> {
    pub(crate) entries: Vec<Entry<M>>,
    pub(crate) vote: Option<Vote>,
    pub(crate) committed: Option<LogId>,
    pub(crate) purged: Option<LogId>,
    pub(crate) identity: Option<wire::Identity>,
    /// The random number of the directory, if it has one.
    pub(crate) store: Option<u64>,
    /// Directories of the members.
    pub(crate) stores: Stores,
}

impl<M: Machine> Default for Stored<M> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            vote: None,
            committed: None,
            purged: None,
            identity: None,
            store: None,
            stores: Stores::new(),
        }
    }
}

/// Reads the whole file.
pub(crate) fn read<M: Machine>(database: &Database, path: &Path) -> Result<Stored<M>, StartError> {
    read_tables(database).map_err(|error| match error {
        ReadError::Disk(source) => StartError::Io { path: path.to_owned(), source },
        ReadError::Content(reason) => corrupt(path, reason),
    })
}

enum ReadError {
    Disk(io::Error),
    Content(Undecodable),
}

impl From<Undecodable> for ReadError {
    fn from(error: Undecodable) -> Self {
        Self::Content(error)
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

fn read_tables<M: Machine>(database: &Database) -> Result<Stored<M>, ReadError> {
    let mut stored = Stored::default();
    let transaction = database.begin_read().map_err(io_error)?;
    let meta = match transaction.open_table(META) {
        Ok(meta) => meta,
        // A new file: nothing was ever written.
        Err(TableError::TableDoesNotExist(_)) => return Ok(stored),
        Err(error) => return Err(io_error(error).into()),
    };
    let get = |key: &str| -> io::Result<Option<Vec<u8>>> {
        Ok(meta.get(key).map_err(io_error)?.map(|row| row.value().to_vec()))
    };
    if let Some(row) = get(VOTE)? {
        let vote = wire::Vote::decode(row.as_slice()).map_err(Undecodable::from)?;
        stored.vote = Some(codec::vote_from_wire(&vote));
    }
    let log_id = |key: &str| -> Result<Option<LogId>, ReadError> {
        let Some(row) = get(key)? else { return Ok(None) };
        let id = wire::LogId::decode(row.as_slice()).map_err(Undecodable::from)?;
        Ok(Some(codec::log_id_from_wire(&id)))
    };
    stored.committed = log_id(COMMITTED)?;
    stored.purged = log_id(PURGED)?;
    if let Some(row) = get(IDENTITY)? {
        let identity = wire::Identity::decode(row.as_slice()).map_err(Undecodable::from)?;
        codec::check_version(identity.version, IDENTITY_VERSION)?;
        stored.identity = Some(identity);
    }
    if let Some(row) = get(STORE)? {
        let number = row.try_into().map_err(|_| Undecodable::Missing("store"))?;
        stored.store = Some(u64::from_be_bytes(number));
    }
    if let Some(row) = get(STORES)? {
        let known = wire::KnownStores::decode(row.as_slice()).map_err(Undecodable::from)?;
        codec::check_version(known.version, STORES_VERSION)?;
        stored.stores = known.stores.iter().map(|known| (known.node, known.store)).collect();
    }
    let log = transaction.open_table(LOG).map_err(io_error)?;
    for row in log.iter().map_err(io_error)? {
        let (_, entry) = row.map_err(io_error)?;
        stored.entries.push(codec::decode_entry::<M>(entry.value())?);
    }
    Ok(stored)
}

/// How long the recent commits took.
#[derive(Debug, Default)]
pub(crate) struct CommitTimes {
    recent: std::collections::VecDeque<Duration>,
    /// When the commit began that has not returned yet.
    pub(crate) writing_since: Option<Instant>,
}

impl CommitTimes {
    const KEPT: usize = 512;

    fn wrote(&mut self, time: Duration) {
        self.writing_since = None;
        if self.recent.len() == Self::KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back(time);
    }

    pub(crate) fn p99(&self) -> Option<Duration> {
        let mut times: Vec<Duration> = self.recent.iter().copied().collect();
        times.sort_unstable();
        times.get((times.len().checked_sub(1)?) * 99 / 100).copied()
    }
}
