//! How much each volume holds, measured in the background from time to time: a volume is a
//! directory, and nothing but its user keeps it to its size. Knows no tasks. Next: `gc.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tracing::{debug, warn};

use resources::resource::Resource;

use crate::core::event::VolumeKey;
use crate::volumes::Volumes;

/// From one measurement to the next.
const INTERVAL: Duration = Duration::from_secs(15);
/// From a new volume to its first measurement.
const INTERVAL_FIRST: Duration = Duration::from_secs(1);
/// Entries of one volume that are looked at; beyond it the number is a lower bound.
const ENTRIES_MAX: usize = 1_000_000;
/// Entries after which others may have the disk for a moment.
const ENTRIES_AT_ONCE: usize = 4_096;
const PAUSE: Duration = Duration::from_millis(2);
const BLOCK_BYTES: u64 = 512;
const MEGABYTE: u64 = 1 << 20;

/// What volumes hold.
pub(crate) type Usage = BTreeMap<VolumeKey, Used>;

/// What one volume holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Used {
    /// On the disk.
    pub(crate) bytes: u64,
    /// Its size.
    pub(crate) limit_bytes: u64,
    /// Whether it may hold more than was counted.
    pub(crate) is_partial: bool,
}

impl Used {
    /// Whether it holds more than it should.
    pub(crate) fn is_over(self) -> bool {
        self.bytes > self.limit_bytes
    }
}

/// Says which volumes there are.
#[derive(Debug)]
pub(crate) struct Measured(mpsc::Sender<Vec<Resource>>);

impl Measured {
    /// These from now on.
    pub(crate) fn set(&self, volumes: Vec<Resource>) {
        if self.0.send(volumes).is_err() {
            debug!("volumes are not measured any more");
        }
    }
}

/// Starts to measure. Ends by itself when nobody says any more which volumes there are.
pub(crate) fn start(volumes: Volumes) -> std::io::Result<(Measured, watch::Receiver<Usage>)> {
    let (measured, wanted) = mpsc::channel();
    let (usage_tx, usage) = watch::channel(Usage::new());
    let run = move || {
        let mut list: Vec<Resource> = Vec::new();
        let mut next_at = Instant::now() + INTERVAL;
        loop {
            match wanted.recv_timeout(next_at.saturating_duration_since(Instant::now())) {
                Ok(next) => {
                    list = next;
                    next_at = next_at.min(Instant::now() + INTERVAL_FIRST);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let found = measure(&volumes, &list, &usage_tx.borrow());
                    usage_tx.send_replace(found);
                    next_at = Instant::now() + INTERVAL;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    };
    thread::Builder::new().name("agent-disk".to_owned()).spawn(run)?;
    Ok((Measured(measured), usage))
}

fn measure(volumes: &Volumes, list: &[Resource], before: &Usage) -> Usage {
    let mut usage = Usage::new();
    for volume in list {
        let (Some(key), Ok(path)) = (VolumeKey::of(volume), volumes.path_of(volume)) else {
            continue;
        };
        let megabytes = u64::try_from(volume.value.quantity().milli()).unwrap_or_default();
        let limit_bytes = megabytes.saturating_mul(MEGABYTE) / 1_000;
        let mut counter = Counter::default();
        counter.add(&path);
        let used =
            Used { bytes: counter.bytes, limit_bytes, is_partial: counter.entries >= ENTRIES_MAX };
        let was_over = before.get(&key).is_some_and(|used| used.is_over());
        if used.is_over() && !was_over {
            warn!(volume = %key, bytes = used.bytes, limit_bytes, "a volume is over its size");
        }
        usage.insert(key, used);
    }
    usage
}

#[derive(Default)]
struct Counter {
    bytes: u64,
    entries: usize,
}

impl Counter {
    /// Counts what is below a directory, on its own file system. Links are not followed; what
    /// vanishes meanwhile counts for nothing.
    fn add(&mut self, root: &Path) {
        let Ok(device) = fs::symlink_metadata(root).map(|found| found.dev()) else { return };
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                self.entries += 1;
                if self.entries >= ENTRIES_MAX {
                    return;
                }
                if self.entries.is_multiple_of(ENTRIES_AT_ONCE) {
                    thread::sleep(PAUSE);
                }
                let Ok(found) = entry.metadata() else { continue };
                if found.dev() != device {
                    continue;
                }
                let bytes = found.blocks() * BLOCK_BYTES;
                if found.is_dir() {
                    self.bytes += bytes;
                    folders.push(entry.path());
                } else {
                    // A file of several names is shared among them.
                    self.bytes += bytes / found.nlink().max(1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_is_there_and_follows_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("v");
        fs::create_dir_all(volume.join("a/b")).unwrap();
        fs::write(volume.join("a/b/f"), vec![1; 100_000]).unwrap();
        fs::write(folder.path().join("outside"), vec![1; 1_000_000]).unwrap();
        std::os::unix::fs::symlink(folder.path(), volume.join("link")).unwrap();
        let mut counter = Counter::default();
        counter.add(&volume);
        assert!((100_000..400_000).contains(&counter.bytes), "{}", counter.bytes);
        let mut nothing = Counter::default();
        nothing.add(&folder.path().join("nowhere"));
        assert_eq!(nothing.bytes, 0);
    }
}
