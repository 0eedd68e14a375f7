//! A disk in memory that forgets what was not synced, and fails when it is told to.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use raft::env::{Disk, File, OpenError};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The disk of one machine. It outlives the processes that use it.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<PathBuf, Image>,
    /// Handles of an earlier epoch belong to a process that is dead.
    epoch: u64,
    operations: u64,
    syncs: u64,
    lost: u64,
    fails_at: Option<u64>,
    has_failed: bool,
    lies: bool,
    trips_in: Option<u64>,
    is_off: bool,
    latency: Option<StdRng>,
    known_sync: Duration,
}

#[derive(Debug, Default)]
struct Image {
    durable: Vec<u8>,
    current: Vec<u8>,
    unsynced: Vec<Write>,
}

#[derive(Debug)]
enum Write {
    Data { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

impl Write {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Length(length) => content.resize(*length, 0),
            Self::Data { offset, bytes } => {
                let end = offset + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(bytes);
            }
        }
    }
}

impl SimDisk {
    /// Lets commits take up to 5 ms of simulated time, as `seed` says.
    pub(crate) fn slow(self, seed: u64) -> Self {
        self.0.lock().latency = Some(StdRng::seed_from_u64(seed));
        self
    }

    /// Lets nodes that start find syncs this slow.
    pub(crate) fn syncs_take(&self, time: Duration) {
        self.0.lock().known_sync = time;
    }

    /// Lets the n-th write, change of length or sync fail, and no other.
    pub(crate) fn fail_at(&self, n: u64) {
        self.0.lock().fails_at = Some(n);
    }

    /// Whether an operation has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.lock().has_failed
    }

    /// Lets the power fail in the middle of things: after `operations` more writes, changes of
    /// length and syncs, nothing works until the disk is [cut](Self::cut).
    pub(crate) fn trip_in(&self, operations: u64) {
        self.0.lock().trips_in = Some(operations);
    }

    /// Takes [`Self::trip_in`] back if the power has not failed yet.
    pub(crate) fn mend(&self) {
        self.0.lock().trips_in = None;
    }

    /// Whether the power has failed.
    pub(crate) fn is_off(&self) -> bool {
        self.0.lock().is_off
    }

    /// From now on syncs do nothing: the fault that a simulation must be able to see.
    pub(crate) fn lie(&self) {
        self.0.lock().lies = true;
    }

    /// The power goes. Each unsynced write survives or not, as `seed` says; whoever still holds
    /// a file gets errors.
    pub(crate) fn cut(&self, seed: u64) {
        let mut random = StdRng::seed_from_u64(seed);
        let mut guard = self.0.lock();
        let state = &mut *guard;
        for image in state.files.values_mut() {
            for write in std::mem::take(&mut image.unsynced) {
                // Lengths are kept: a database that sees its file cut needs no luck to notice.
                if matches!(write, Write::Length(_)) || random.random_bool(0.5) {
                    write.apply(&mut image.durable);
                } else {
                    state.lost += 1;
                }
            }
            image.current = image.durable.clone();
        }
        state.epoch += 1;
        state.fails_at = None;
        state.trips_in = None;
        state.is_off = false;
    }

    /// Another disk takes its place: nothing of what was written is there any more.
    pub(crate) fn wipe(&self) {
        let mut state = self.0.lock();
        state.files.clear();
        state.epoch += 1;
    }

    /// Syncs and lost writes, for traces.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.0.lock();
        (state.syncs, state.lost)
    }
}

impl Disk for SimDisk {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn holds_data(&self, path: &Path) -> io::Result<bool> {
        Ok(self.0.lock().files.get(path).is_some_and(|image| !image.current.is_empty()))
    }
    fn open(&self, path: &Path) -> Result<Box<dyn File>, OpenError> {
        let mut state = self.0.lock();
        state.files.entry(path.to_owned()).or_default();
        let epoch = state.epoch;
        Ok(Box::new(Handle { disk: self.clone(), path: path.to_owned(), epoch }))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        let image = state.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.files.insert(to.to_owned(), image);
        Ok(())
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.0.lock().files.remove(path);
        removed.map(drop).ok_or(io::ErrorKind::NotFound.into())
    }
    fn known_sync(&self) -> Option<Duration> {
        Some(self.0.lock().known_sync)
    }
    fn latency(&self) -> Duration {
        let mut state = self.0.lock();
        let micros = state.latency.as_mut().map_or(0, |random| random.random_range(0..5_000));
        Duration::from_micros(micros)
    }
}

#[derive(Debug)]
struct Handle {
    disk: SimDisk,
    path: PathBuf,
    epoch: u64,
}

impl Handle {
    fn with<T>(&self, f: impl FnOnce(&mut State, &PathBuf) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.0.lock();
        if state.epoch != self.epoch {
            return Err(io::Error::other("the process is dead"));
        }
        if state.is_off {
            return Err(io::Error::other("the power is off"));
        }
        f(&mut state, &self.path)
    }

    /// As `with`, for what may fail on command.
    fn change<T>(&self, f: impl FnOnce(&mut Image) -> T) -> io::Result<T> {
        self.with(|state, path| {
            state.operations += 1;
            match &mut state.trips_in {
                Some(0) => {
                    state.is_off = true;
                    return Err(io::Error::other("the power failed"));
                }
                Some(left) => *left -= 1,
                None => {}
            }
            if state.fails_at == Some(state.operations) {
                state.has_failed = true;
                return Err(io::Error::other("the disk failed"));
            }
            Ok(f(state.files.get_mut(path).expect("opened files exist")))
        })
    }
}

impl File for Handle {
    fn len(&self) -> io::Result<u64> {
        self.with(|state, path| Ok(state.files[path].current.len() as u64))
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|state, path| {
            let start = usize::try_from(offset).expect("files fit into memory");
            let content = &state.files[path].current;
            let bytes = content.get(start..start + out.len());
            out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        let length = usize::try_from(len).expect("files fit into memory");
        self.change(|image| {
            image.current.resize(length, 0);
            image.unsynced.push(Write::Length(length));
        })
    }
    fn sync_data(&self) -> io::Result<()> {
        let lies = self.with(|state, _| {
            state.syncs += 1;
            Ok(state.lies)
        })?;
        self.change(|image| {
            if !lies {
                for write in std::mem::take(&mut image.unsynced) {
                    write.apply(&mut image.durable);
                }
            }
        })
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).expect("files fit into memory");
        self.change(|image| {
            let write = Write::Data { offset, bytes: data.to_vec() };
            write.apply(&mut image.current);
            image.unsynced.push(write);
        })
    }
}
