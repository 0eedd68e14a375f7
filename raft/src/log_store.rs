//! The replicated log, with votes and the directory's identity, as the consensus library wants
//! it. Everything unpurged is cached in memory; writes go to the one writer (`log_writer.rs`),
//! which owns the file. Must not know the network or the machine's state.
//!
//! Rules that keep it right:
//! - an entry is readable when `append` returns, and acknowledged only after its commit;
//! - votes, entries, truncations and purges go through one queue, so they reach the disk in
//!   the order in which they were decided;
//! - a vote is shown to readers only after its commit, or once it follows from one that is;
//! - the queue has a byte budget, and waiting for it suspends the caller, never its thread.

mod directory;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{EntryPayload, LogState, OptionalSend, RaftLogReader};
use parking_lot::{Mutex, RwLock};
use prost::Message;
use proto::holdfast::raft as wire;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use crate::codec;
use crate::config::Limits;
use crate::database;
use crate::env::Environment;
use crate::error::StartError;
use crate::log_writer::{self, Change, CommitTimes, Request, Stored, Writer};
use crate::machine::Machine;
use crate::members::Stores;
use crate::types::{Entry, LogId, Types, Vote};

/// The log of one node. Clones are handles on the same log.
pub(crate) struct LogStore<M: Machine> {
    shared: Arc<Shared<M>>,
}

struct Shared<M: Machine> {
    memory: RwLock<Memory<M>>,
    queue: mpsc::UnboundedSender<Request<M>>,
    /// Queue space, one permit per KiB.
    budget: Arc<Semaphore>,
    budget_kib: u32,
    append_bytes: usize,
    times: Arc<Mutex<CommitTimes>>,
    /// Whether anything was ever promised from this directory.
    stake: Arc<AtomicBool>,
}

/// What is readable. May be ahead of the disk by what is queued, except for votes.
struct Memory<M: Machine> {
    entries: BTreeMap<u64, Entry<M>>,
    bytes: u64,
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
    identity: Option<wire::Identity>,
    store: Option<u64>,
    stores: Stores,
}

impl<M: Machine> Memory<M> {
    fn has_stake(&self) -> bool {
        self.vote.is_some() || self.purged.is_some() || !self.entries.is_empty()
    }

    /// The lowest index that was not purged.
    fn first(&self) -> u64 {
        self.purged.map_or(0, |purged| purged.index + 1)
    }

    fn insert(&mut self, entry: Entry<M>) {
        self.bytes += size::<M>(&entry) as u64;
        self.entries.insert(entry.index(), entry);
    }

    fn drop_from(&mut self, first: u64) {
        let dropped = self.entries.split_off(&first);
        self.bytes -= total::<M>(&dropped);
    }

    fn drop_upto(&mut self, last: u64) {
        let kept = self.entries.split_off(&(last + 1));
        let dropped = std::mem::replace(&mut self.entries, kept);
        self.bytes -= total::<M>(&dropped);
    }
}

fn total<M: Machine>(entries: &BTreeMap<u64, Entry<M>>) -> u64 {
    entries.values().map(|entry| size::<M>(entry) as u64).sum()
}

fn size<M: Machine>(entry: &Entry<M>) -> usize {
    const OVERHEAD: usize = 64;
    match &entry.payload {
        EntryPayload::Normal(proposal) => OVERHEAD + proposal.bytes().len(),
        EntryPayload::Blank => OVERHEAD,
        EntryPayload::Membership(membership) => {
            OVERHEAD + membership.nodes().map(|(_, node)| 32 + node.addr.len()).sum::<usize>()
        }
    }
}

impl<M: Machine> Clone for LogStore<M> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<M: Machine> LogStore<M> {
    /// Opens the log, checks it, reads it and starts its writer.
    pub(crate) fn open(
        environment: &Environment,
        path: &Path,
        limits: &Limits,
    ) -> Result<Self, StartError> {
        let database = database::open(environment.disk.as_ref(), path)?;
        let stored = log_writer::read::<M>(&database, path)?;
        let memory = memory_of(stored, path)?;
        let (queue, requests) = mpsc::unbounded_channel();
        let times = Arc::new(Mutex::new(CommitTimes::default()));
        let writer = Writer {
            database,
            requests,
            commit_bytes: limits.commit_bytes,
            disk: environment.disk.clone(),
            fatal: environment.fatal.clone(),
            times: times.clone(),
            committed: None,
            elected: None,
        };
        environment
            .executor
            .spawn_writer("raft-log", Box::pin(writer.run()))
            .map_err(|source| StartError::Io { path: path.to_owned(), source })?;
        let budget_kib = kib(limits.queue_bytes).max(1);
        let shared = Shared {
            stake: Arc::new(memory.has_stake().into()),
            memory: memory.into(),
            queue,
            budget: Arc::new(Semaphore::new(budget_kib as usize)),
            budget_kib,
            append_bytes: limits.append_bytes,
            times,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Last entry that the log no longer holds.
    pub(crate) fn purged(&self) -> Option<LogId> {
        self.shared.memory.read().purged
    }

    /// The lowest index that was not purged.
    pub(crate) fn first(&self) -> u64 {
        self.shared.memory.read().first()
    }

    /// Bytes of the entries that the log holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.shared.memory.read().bytes
    }

    /// The lowest index such that the entries after it take at most `bytes`.
    pub(crate) fn index_leaving(&self, bytes: u64) -> Option<u64> {
        let memory = self.shared.memory.read();
        let mut left = 0;
        for (index, entry) in memory.entries.iter().rev() {
            left += size::<M>(entry) as u64;
            if left > bytes {
                return Some(*index);
            }
        }
        None
    }

    /// 99th percentile of the recent commits, each of which holds one sync.
    pub(crate) fn commit_p99(&self) -> Option<Duration> {
        self.shared.times.lock().p99()
    }

    /// When the commit began that has not returned yet.
    pub(crate) fn writing_since(&self) -> Option<Instant> {
        self.shared.times.lock().writing_since
    }

    /// Writes what is queued and closes the file. Later writes fail.
    pub(crate) async fn close(&self) -> io::Result<()> {
        self.write(Change::Close).await
    }

    async fn permit(&self, bytes: usize) -> io::Result<OwnedSemaphorePermit> {
        // Capped, so that one request above the whole budget waits for an empty queue only.
        let cost = kib(bytes).clamp(1, self.shared.budget_kib);
        self.shared.budget.clone().acquire_many_owned(cost).await.map_err(io::Error::other)
    }

    fn send(&self, change: Change<M>, permit: OwnedSemaphorePermit) -> io::Result<()> {
        self.shared.queue.send(Request { change, done: None, permit }).map_err(|_| stopped())
    }

    /// Queues a change and waits for its commit.
    async fn write(&self, change: Change<M>) -> io::Result<()> {
        let permit = self.permit(0).await?;
        let (done, committed) = oneshot::channel();
        self.shared
            .queue
            .send(Request { change, done: Some(done), permit })
            .map_err(|_| stopped())?;
        committed.await.map_err(|_| stopped())?
    }
}

fn stopped() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the log's writer has stopped")
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

fn memory_of<M: Machine>(stored: Stored<M>, path: &Path) -> Result<Memory<M>, StartError> {
    let mut memory = Memory {
        entries: BTreeMap::new(),
        bytes: 0,
        vote: stored.vote,
        committed: stored.committed,
        purged: stored.purged,
        identity: stored.identity,
        store: stored.store,
        stores: stored.stores,
    };
    let first = memory.first();
    for (expected, entry) in (first..).zip(stored.entries) {
        if entry.index() != expected {
            let reason = format!("entry {expected} is missing before {}", entry.index());
            return Err(database::corrupt(path, reason));
        }
        memory.insert(entry);
    }
    Ok(memory)
}

impl<M: Machine> RaftLogReader<Types<M>> for LogStore<M> {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> io::Result<Vec<Entry<M>>>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let bounds = (range.start_bound().cloned(), range.end_bound().cloned());
        if is_empty(&bounds) {
            return Ok(Vec::new());
        }
        let memory = self.shared.memory.read();
        Ok(memory.entries.range(bounds).map(|(_, entry)| entry.clone()).collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.shared.memory.read().vote)
    }

    /// At least one entry, and no more than fit into one message. Nothing if the first is purged:
    /// the library would send what is left as if nothing was missing before it. A stream to a
    /// follower may ask for that, while the library has already turned to the snapshot.
    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry<M>>> {
        let memory = self.shared.memory.read();
        if start < memory.first() {
            return Ok(Vec::new());
        }
        let (mut entries, mut bytes) = (Vec::new(), 0);
        if start >= end {
            return Ok(entries);
        }
        for entry in memory.entries.range(start..end).map(|(_, entry)| entry) {
            bytes += size::<M>(entry);
            if bytes > self.shared.append_bytes && !entries.is_empty() {
                break;
            }
            entries.push(entry.clone());
        }
        Ok(entries)
    }
}

/// Whether two votes are for the same candidate in the same term.
fn is_same(one: &Vote, other: &Vote) -> bool {
    one.leader_id() == other.leader_id()
}

/// `BTreeMap::range` panics on a range that starts after its end.
fn is_empty(bounds: &(Bound<u64>, Bound<u64>)) -> bool {
    let start = match bounds.0 {
        Bound::Included(start) => start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    match bounds.1 {
        Bound::Included(end) => start > end,
        Bound::Excluded(end) => start >= end,
        Bound::Unbounded => false,
    }
}

impl<M: Machine> RaftLogStorage<Types<M>> for LogStore<M> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types<M>>> {
        let memory = self.shared.memory.read();
        let last = memory.entries.last_key_value().map(|(_, entry)| entry.log_id);
        Ok(LogState { last_purged_log_id: memory.purged, last_log_id: last.or(memory.purged) })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    /// A leadership that follows from a vote which is durable here promises nothing new: after a
    /// restart that vote excludes every other leader of its term just as well. It rides with the
    /// next commit, which saves one sync on the leader and one on the voter in each election.
    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        self.shared.stake.store(true, Ordering::Release);
        let row = codec::vote_to_wire(vote).encode_to_vec();
        let durable = self.shared.memory.read().vote;
        if vote.is_committed() && durable.is_some_and(|vote_before| is_same(&vote_before, vote)) {
            let permit = self.permit(0).await?;
            self.send(Change::Elected(row), permit)?;
        } else {
            self.write(Change::Vote(row)).await?;
        }
        self.shared.memory.write().vote = Some(*vote);
        Ok(())
    }

    /// Rides with the next commit: losing it only means that a restarted node learns again from
    /// the leader how far the log is committed.
    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        self.shared.memory.write().committed = committed;
        let Some(committed) = committed else { return Ok(()) };
        let permit = self.permit(0).await?;
        self.send(Change::Committed(codec::log_id_to_wire(&committed).encode_to_vec()), permit)
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.shared.memory.read().committed)
    }

    async fn append<I>(&mut self, entries: I, flushed: IOFlushed<Types<M>>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry<M>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry<M>> = entries.into_iter().collect();
        let rows: Vec<(u64, Vec<u8>)> =
            entries.iter().map(|entry| (entry.index(), codec::encode_entry::<M>(entry))).collect();
        self.shared.stake.store(true, Ordering::Release);
        let permit = self.permit(rows.iter().map(|(_, row)| row.len()).sum()).await?;
        {
            let mut memory = self.shared.memory.write();
            for entry in entries {
                memory.insert(entry);
            }
        }
        self.send(Change::Append { rows, flushed }, permit)
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let first = last.map_or(0, |last| last.index + 1);
        self.shared.memory.write().drop_from(first);
        self.write(Change::Truncate { first }).await
    }

    /// Not awaited: the queue keeps the order, and the snapshot that covers these entries is
    /// durable already.
    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        {
            let mut memory = self.shared.memory.write();
            memory.drop_upto(upto.index);
            if memory.purged < Some(upto) {
                memory.purged = Some(upto);
            }
        }
        let permit = self.permit(0).await?;
        let id = codec::log_id_to_wire(&upto).encode_to_vec();
        self.send(Change::Purge { last: upto.index, id }, permit)
    }
}
