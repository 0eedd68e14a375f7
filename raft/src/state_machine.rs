//! The machine under its lock, driven by the committed log: applies batches, keeps the digest
//! chain, hands outcomes to the sink, builds and installs snapshots. Must not know the network.
//! Next: `reads.rs`.

use std::io;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine, Snapshot};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot, watch};

use resources::id::LogIndex;

use crate::codec;
use crate::database::corrupt;
use crate::env::{Environment, Executor, FatalHook};
use crate::error::{FatalError, StartError};
use crate::machine::{AppliedBatch, Chunk, Machine};
use crate::snapshot::{Checksum, Coverage, Image, SnapshotStore, Source};
use crate::types::{CommittedLeaderId, Entry, LogId, Peer, SnapshotMeta, StoredMembership, Types};

/// The replicated state of this node. Clones are handles on the same state.
pub(crate) struct StateMachine<M: Machine> {
    shared: Arc<Shared<M>>,
}

struct Shared<M: Machine> {
    cell: Mutex<Cell<M>>,
    applied: watch::Sender<Option<LogId>>,
    snapshots: Arc<SnapshotStore>,
    executor: Arc<dyn Executor>,
    fatal: Arc<dyn FatalHook>,
}

/// Everything that moves together with an applied entry.
struct Cell<M: Machine> {
    machine: M,
    at: Coverage,
    sink: Option<Sink<M>>,
}

struct Sink<M: Machine> {
    term: u64,
    outcomes: mpsc::UnboundedSender<AppliedBatch<M>>,
}

impl<M: Machine> Cell<M> {
    /// Applies one entry and returns what its proposer hears.
    fn apply(&mut self, entry: &Entry<M>) -> Result<Vec<M::Response>, FatalError> {
        let id = entry.log_id;
        // A sink belongs to one term: what a later leader committed is not this one's to send.
        self.sink.take_if(|sink| sink.term != id.committed_leader_id().term);
        let responses = match &entry.payload {
            EntryPayload::Blank => Vec::new(),
            EntryPayload::Membership(membership) => {
                self.at.membership = StoredMembership::new(Some(id), membership.clone());
                Vec::new()
            }
            EntryPayload::Normal(proposal) => {
                let fail = |reason: String| FatalError::Apply { index: id.index, reason };
                let batch = proposal.batch().map_err(|error| fail(error.to_string()))?;
                let index = LogIndex(id.index);
                let outcomes = self.machine.apply(index, &batch);
                if outcomes.len() != batch.commands.len() {
                    let (found, expected) = (outcomes.len(), batch.commands.len());
                    return Err(fail(format!("{found} outcomes for {expected} commands")));
                }
                let responses: Vec<M::Response> =
                    outcomes.iter().map(|(response, _)| response.clone()).collect();
                self.at.digest = chain(&self.at.digest, proposal.bytes(), &responses);
                if let Some(sink) = &self.sink {
                    let applied = AppliedBatch { index, at: batch.at, outcomes };
                    if sink.outcomes.send(applied).is_err() {
                        self.sink = None;
                    }
                }
                responses
            }
        };
        self.at.last = Some(id);
        Ok(responses)
    }
}

/// The digest after an entry: SHA-256 over the digest before it, the bytes of its batch and the
/// encoding of its responses. Equal on all replicas at the same index; survives in the snapshot.
fn chain<R: serde::Serialize>(previous: &Checksum, batch: &[u8], responses: &[R]) -> Checksum {
    let mut hash = Sha256::new();
    hash.update(previous);
    hash.update(batch);
    hash.update(codec::pack(&responses));
    hash.finalize().into()
}

/// The library's worker would vanish on a panic and leave a core that leads and applies nothing.
struct PanicWatch<'a, M: Machine> {
    index: u64,
    shared: &'a Shared<M>,
}

impl<M: Machine> Drop for PanicWatch<'_, M> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (index, reason) = (self.index, "the machine panicked".to_owned());
            self.shared.fatal.fatal(&FatalError::Apply { index, reason });
        }
    }
}

impl<M: Machine> Clone for StateMachine<M> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<M: Machine> StateMachine<M> {
    /// The state of the newest snapshot, or the empty one.
    pub(crate) fn open(
        environment: &Environment,
        snapshots: Arc<SnapshotStore>,
    ) -> Result<Self, StartError> {
        let path = snapshots.path().to_owned();
        let cell = match snapshots.head() {
            None => Cell { machine: M::default(), at: Coverage::default(), sink: None },
            Some(head) => {
                let image = Image { head, source: Source::Stored(snapshots.clone()) };
                let machine = thaw::<M>(&image).map_err(|error| corrupt(&path, error))?;
                Cell { machine, at: image.head.covers, sink: None }
            }
        };
        let (applied, _) = watch::channel(cell.at.last);
        Ok(Self {
            shared: Arc::new(Shared {
                cell: Mutex::new(cell),
                applied,
                snapshots,
                executor: environment.executor.clone(),
                fatal: environment.fatal.clone(),
            }),
        })
    }

    /// Runs `f` on the state, under the apply lock.
    pub(crate) fn read<T>(&self, f: impl FnOnce(&M) -> T) -> T {
        f(&self.shared.cell.lock().machine)
    }

    /// The applied position and an image of the state there.
    pub(crate) fn freeze(&self) -> (LogIndex, M::Frozen) {
        let cell = self.shared.cell.lock();
        (index_of(cell.at.last), cell.machine.freeze())
    }

    /// The applied position and the digest there.
    pub(crate) fn digest(&self) -> (LogIndex, Checksum) {
        let cell = self.shared.cell.lock();
        (index_of(cell.at.last), cell.at.digest)
    }

    /// Position of the last applied entry, as it moves.
    pub(crate) fn applied(&self) -> watch::Receiver<Option<LogId>> {
        self.shared.applied.subscribe()
    }

    /// Installs a fresh sink for `term` and runs `f`, both under the apply lock, so that no
    /// entry falls between the state that `f` sees and the first outcome in the sink. `None`
    /// unless the last applied entry is of that term.
    pub(crate) fn install_sink<T>(
        &self,
        term: u64,
        f: impl FnOnce(LogIndex, &M) -> T,
    ) -> Option<(T, mpsc::UnboundedReceiver<AppliedBatch<M>>)> {
        let mut cell = self.shared.cell.lock();
        if cell.at.last.map(|last| last.committed_leader_id().term) != Some(term) {
            return None;
        }
        let (outcomes, receiver) = mpsc::unbounded_channel();
        cell.sink = Some(Sink { term, outcomes });
        Some((f(index_of(cell.at.last), &cell.machine), receiver))
    }

    fn fail(&self, error: FatalError) -> io::Error {
        self.shared.fatal.fatal(&error);
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    /// Runs a job where it may block.
    async fn blocking<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (done, result) = oneshot::channel();
        let job = Box::new(move || drop(done.send(job())));
        self.shared.executor.blocking(job).await;
        result.await.map_err(|_| io::Error::other("the job was cancelled"))
    }
}

/// 0 while nothing is applied; the first entry of a log has index 0 too, and is a membership.
fn index_of(last: Option<LogId>) -> LogIndex {
    LogIndex(last.map_or(0, |last| last.index))
}

fn thaw<M: Machine>(image: &Image) -> io::Result<M> {
    M::thaw(image.read_all()?.into_iter())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

impl<M: Machine> RaftSnapshotBuilder<Types<M>> for StateMachine<M> {
    type SnapshotData = Image;

    /// Only the freeze happens under the lock; encoding and writing do not hold up `apply`.
    async fn build_snapshot(
        &mut self,
    ) -> io::Result<Snapshot<CommittedLeaderId, u64, Peer, Image>> {
        let (covers, frozen) = {
            let cell = self.shared.cell.lock();
            (cell.at.clone(), cell.machine.freeze())
        };
        let snapshots = self.shared.snapshots.clone();
        let stored = self.blocking(move || snapshots.replace(covers, M::chunks(&frozen))).await?;
        let head = stored.map_err(|error| self.fail(FatalError::Snapshot(error)))?;
        let meta = head.meta();
        let source = Source::Stored(self.shared.snapshots.clone());
        Ok(Snapshot { meta, snapshot: Image { head, source } })
    }
}

impl<M: Machine> RaftStateMachine<Types<M>> for StateMachine<M> {
    type SnapshotData = Image;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let cell = self.shared.cell.lock();
        Ok((cell.at.last, cell.at.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types<M>>>> + Unpin + OptionalSend,
    {
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            let responses = {
                let watch = PanicWatch { index: entry.log_id.index, shared: &self.shared };
                let applied = watch.shared.cell.lock().apply(&entry);
                applied.map_err(|error| self.fail(error))?
            };
            self.shared.applied.send_replace(Some(entry.log_id));
            if let Some(responder) = responder {
                responder.send(responses);
            }
        }
        Ok(())
    }

    /// Not while a peer reads the last one; a transfer ends within its limit.
    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Self> {
        (force || !self.shared.snapshots.is_served()).then(|| self.clone())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    /// The state is rebuilt and the snapshot is durable before anything is replaced; then the
    /// state moves in one assignment.
    async fn install_snapshot(&mut self, meta: &SnapshotMeta, image: Image) -> io::Result<()> {
        if *meta != image.head.meta() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the snapshot is not the one that was announced",
            ));
        }
        let snapshots = self.shared.snapshots.clone();
        let (machine, covers) = self
            .blocking(move || -> io::Result<(M, Coverage)> {
                let chunks: Vec<Chunk> = image.read_all()?;
                let machine = M::thaw(chunks.iter().cloned())
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                let head = snapshots.replace(image.head.covers.clone(), chunks.into_iter())?;
                Ok((machine, head.covers))
            })
            .await?
            .map_err(|error| self.fail(FatalError::Snapshot(error)))?;
        let last = covers.last;
        *self.shared.cell.lock() = Cell { machine, at: covers, sink: None };
        self.shared.applied.send_replace(last);
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> io::Result<Option<Snapshot<CommittedLeaderId, u64, Peer, Image>>> {
        Ok(self.shared.snapshots.head().map(|head| {
            let meta = head.meta();
            let source = Source::Stored(self.shared.snapshots.clone());
            Snapshot { meta, snapshot: Image { head, source } }
        }))
    }
}
