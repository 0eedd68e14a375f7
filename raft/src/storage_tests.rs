//! The consensus library's own suite for stores, run on ours, and what it does not ask.

use std::sync::Arc;

use openraft::StorageError;
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::type_config::TypeConfigExt;
use openraft::{EntryPayload, RaftLogReader};
use proto::holdfast::raft as wire;
use resources::id::LogIndex;
use resources::time::Timestamp;
use tempfile::TempDir;

use crate::codec;
use crate::config::Limits;
use crate::env::Environment;
use crate::log_store::LogStore;
use crate::machine::{Batch, Chunk, CorruptSnapshot, Machine};
use crate::snapshot::{Coverage, SnapshotStore};
use crate::state_machine::StateMachine;
use crate::types::{CommittedLeaderId, Entry, LogId, Proposal, Types, Vote};

/// Adds up numbers.
#[derive(Default)]
struct Sum(u64);

impl Machine for Sum {
    type Command = u64;
    type Response = u64;
    type Effect = ();
    type Frozen = u64;

    fn apply(&mut self, _: LogIndex, batch: &Batch<u64>) -> Vec<(u64, Vec<()>)> {
        let add = |number: &u64| {
            self.0 += number;
            (self.0, Vec::new())
        };
        batch.commands.iter().map(add).collect()
    }
    fn freeze(&self) -> u64 {
        self.0
    }
    fn chunks(frozen: &u64) -> impl Iterator<Item = Chunk> {
        std::iter::once(Chunk(frozen.to_be_bytes().to_vec()))
    }
    fn thaw(mut chunks: impl Iterator<Item = Chunk>) -> Result<Self, CorruptSnapshot> {
        let Chunk(bytes) = chunks.next().ok_or_else(|| CorruptSnapshot::new("no chunk"))?;
        let bytes = bytes.try_into().map_err(|_| CorruptSnapshot::new("not 8 bytes"))?;
        Ok(Self(u64::from_be_bytes(bytes)))
    }
}

fn open_log(dir: &TempDir, limits: &Limits) -> LogStore<Sum> {
    LogStore::open(&Environment::os(), &dir.path().join("log"), limits).unwrap()
}

fn open_snapshots(dir: &TempDir) -> Arc<SnapshotStore> {
    Arc::new(SnapshotStore::open(&Environment::os(), &dir.path().join("snapshot")).unwrap())
}

fn entry(index: u64, bytes: usize) -> Entry<Sum> {
    let proposal = Proposal::from_bytes(vec![7; bytes].into());
    let log_id = LogId::new(CommittedLeaderId::new(1), index);
    Entry::<Sum>::new(log_id, EntryPayload::Normal(proposal))
}

/// Appends and waits for the disk.
async fn append(log: &mut LogStore<Sum>, entries: Vec<Entry<Sum>>) {
    let (flushed, done) = Types::<Sum>::oneshot();
    log.append(entries, IOFlushed::signal(flushed)).await.unwrap();
    done.await.unwrap().unwrap();
}

struct Stores;

impl StoreBuilder<Types<Sum>, LogStore<Sum>, StateMachine<Sum>, TempDir> for Stores {
    async fn build(
        &self,
    ) -> Result<(TempDir, LogStore<Sum>, StateMachine<Sum>), StorageError<Types<Sum>>> {
        let dir = tempfile::tempdir().unwrap();
        let log = open_log(&dir, &Limits::default());
        let state = StateMachine::open(&Environment::os(), open_snapshots(&dir)).unwrap();
        Ok((dir, log, state))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suite_of_the_consensus_library() {
    Suite::test_all(Stores).await.unwrap();
}

#[tokio::test]
async fn everything_survives_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open_log(&dir, &Limits::default());
    append(&mut log, (0..10).map(|index| entry(index, 100)).collect()).await;
    let vote = Vote::new_committed(3, 2);
    log.save_vote(&vote).await.unwrap();
    let last = LogId::new(CommittedLeaderId::new(1), 7);
    log.save_committed(Some(last)).await.unwrap();
    log.truncate_after(Some(LogId::new(CommittedLeaderId::new(1), 8))).await.unwrap();
    log.purge(LogId::new(CommittedLeaderId::new(1), 2)).await.unwrap();
    log.close().await.unwrap();
    drop(log);

    let mut log = open_log(&dir, &Limits::default());
    assert_eq!(log.read_vote().await.unwrap(), Some(vote));
    assert_eq!(log.read_committed().await.unwrap(), Some(last));
    let state = log.get_log_state().await.unwrap();
    assert_eq!(state.last_purged_log_id.unwrap().index, 2);
    assert_eq!(state.last_log_id.unwrap().index, 8);
    let entries = log.try_get_log_entries(..).await.unwrap();
    assert_eq!(entries.iter().map(RaftEntry::index).collect::<Vec<_>>(), [3, 4, 5, 6, 7, 8]);
}

/// A leadership waits for the next commit; it neither gets lost nor replaces a later vote.
#[tokio::test]
async fn leadership_rides_with_the_next_commit() {
    let dir = tempfile::tempdir().unwrap();
    let reopened = |log: LogStore<Sum>| async {
        log.close().await.unwrap();
        drop(log);
        open_log(&dir, &Limits::default())
    };
    let mut log = open_log(&dir, &Limits::default());
    log.save_vote(&Vote::new(3, 2)).await.unwrap();
    log.save_vote(&Vote::new_committed(3, 2)).await.unwrap();
    assert_eq!(log.read_vote().await.unwrap(), Some(Vote::new_committed(3, 2)));
    let mut log = reopened(log).await;
    assert_eq!(log.read_vote().await.unwrap(), Some(Vote::new_committed(3, 2)));

    log.save_vote(&Vote::new(4, 1)).await.unwrap();
    log.save_vote(&Vote::new_committed(4, 1)).await.unwrap();
    log.save_vote(&Vote::new(5, 3)).await.unwrap();
    append(&mut log, vec![entry(0, 10)]).await;
    let mut log = reopened(log).await;
    assert_eq!(log.read_vote().await.unwrap(), Some(Vote::new(5, 3)));

    // Nobody voted for this one here: it must be durable on return.
    log.save_vote(&Vote::new_committed(6, 1)).await.unwrap();
    let mut log = reopened(log).await;
    assert_eq!(log.read_vote().await.unwrap(), Some(Vote::new_committed(6, 1)));
}

#[tokio::test]
async fn messages_are_bounded_by_bytes_but_never_empty() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { append_bytes: 1000, ..Limits::default() };
    let mut log = open_log(&dir, &limits);
    append(&mut log, vec![entry(0, 300), entry(1, 300), entry(2, 2000), entry(3, 10)]).await;
    let mut lengths = Vec::new();
    for start in 0..4 {
        lengths.push(log.limited_get_log_entries(start, 4).await.unwrap().len());
    }
    assert_eq!(lengths, [2, 1, 1, 1]);
    assert_eq!(log.index_leaving(200), Some(2));
    assert_eq!(log.index_leaving(1 << 20), None);
}

/// What is left after a purge must not look like what was asked for.
#[tokio::test]
async fn purged_entries_leave_no_hole() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open_log(&dir, &Limits::default());
    append(&mut log, (0..10).map(|index| entry(index, 10)).collect()).await;
    log.purge(LogId::new(CommittedLeaderId::new(1), 4)).await.unwrap();
    assert_eq!(log.first(), 5);
    assert!(log.limited_get_log_entries(4, 10).await.unwrap().is_empty());
    assert_eq!(log.limited_get_log_entries(5, 10).await.unwrap().len(), 5);
}

/// Entries that do not follow each other are no message of ours.
#[test]
fn gaps_between_entries_are_refused() {
    let message = |previous: u64, entries: &[u64]| {
        let id = |index| LogId::new(CommittedLeaderId::new(1), index);
        codec::append_from_wire::<Sum>(wire::AppendRequest {
            vote: Some(codec::vote_to_wire(&Vote::new_committed(1, 1))),
            previous: Some(codec::log_id_to_wire(&id(previous))),
            entries: entries
                .iter()
                .map(|index| codec::entry_to_wire::<Sum>(&entry(*index, 1)))
                .collect(),
            committed: None,
        })
        .map(|request| request.entries.len())
    };
    assert_eq!(message(3, &[4, 5]), Ok(2));
    assert_eq!(message(3, &[]), Ok(0));
    let gap = |expected, found| Err(codec::Undecodable::Gap { expected, found });
    assert_eq!(message(1, &[380]), gap(2, 380));
    assert_eq!(message(3, &[4, 6]), gap(5, 6));
}

/// More than the queue holds: the appends wait for the writer, and all of them get through.
#[tokio::test]
async fn full_queue_suspends_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { queue_bytes: 4 << 10, ..Limits::default() };
    let mut log = open_log(&dir, &limits);
    let mut waiting = Vec::new();
    for index in 0..50 {
        let (flushed, done) = Types::<Sum>::oneshot();
        // Each is as large as the whole budget.
        log.append([entry(index, 8 << 10)], IOFlushed::signal(flushed)).await.unwrap();
        waiting.push(done);
    }
    for done in waiting {
        done.await.unwrap().unwrap();
    }
    assert!(log.commit_p99().is_some());
}

/// The snapshot file checks what it gives out, and knows when another snapshot took its place.
#[tokio::test]
async fn chunks_belong_to_their_head() {
    let dir = tempfile::tempdir().unwrap();
    let snapshots = open_snapshots(&dir);
    let covers = |index| Coverage {
        last: Some(LogId::new(CommittedLeaderId::new(1), index)),
        ..Coverage::default()
    };
    let chunks = |text: &str| vec![Chunk(text.as_bytes().to_vec()), Chunk(vec![])].into_iter();
    let first = snapshots.replace(covers(1), chunks("one")).unwrap();
    assert_eq!(&snapshots.chunk(&first, 0).unwrap()[..], b"one");
    let second = snapshots.replace(covers(2), chunks("two")).unwrap();
    assert_eq!(snapshots.chunk(&first, 0).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    assert_eq!(&snapshots.chunk(&second, 0).unwrap()[..], b"two");
    assert!(snapshots.chunk(&second, 2).is_err());
    snapshots.close().unwrap();
    drop(snapshots);
    assert_eq!(open_snapshots(&dir).head(), Some(second));
}

/// Bytes that a released version wrote must decode for ever.
#[test]
fn golden_bytes_of_an_entry() {
    let batch =
        Batch { at: Timestamp::from_nanos(5), wall: Timestamp::from_nanos(6), commands: vec![7] };
    let bytes = codec::encode_batch(&batch);
    assert_eq!(&bytes[..], b"\x83\xa2at\x05\xa4wall\x06\xa8commands\x91\x07");
    assert_eq!(codec::decode_batch::<u64>(&bytes).unwrap(), batch);
    let log_id = LogId::new(CommittedLeaderId::new(3), 9);
    let entry = Entry::<Sum>::new(log_id, EntryPayload::Normal(Proposal::from_bytes(bytes)));
    let row = codec::encode_entry::<Sum>(&entry);
    let golden = b"\x08\x01\x12\x04\x08\x03\x10\x09\x22\x16\
        \x83\xa2at\x05\xa4wall\x06\xa8commands\x91\x07";
    assert_eq!(row, golden);
    assert_eq!(codec::decode_entry::<Sum>(golden).unwrap().log_id, log_id);
}

#[test]
fn entries_of_a_newer_version_are_refused() {
    let newer = b"\x08\x02\x12\x04\x08\x03\x10\x09\x1a\x00";
    let error = codec::decode_entry::<Sum>(newer).unwrap_err();
    assert!(matches!(error, codec::Undecodable::Version { found: 2, known: 1 }), "{error}");
}
