//! Removes sandboxes of executors that ended long ago. Never follows a link, and takes mounts
//! off: volumes are not a sandbox's, even where one leads to them (field report V05).

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::mount::UnmountFlags;
use tracing::{debug, info, warn};

use super::job::WORDS;
use super::plan::run_directory;
use crate::volumes::directory::{open_root, remove};

/// Longest time between two looks.
const INTERVAL_MAX: Duration = Duration::from_secs(3_600);
/// From one look to the next at least: an executor that ends sets one off.
const INTERVAL_MIN: Duration = Duration::from_millis(200);

/// Says which runs are not over.
#[derive(Debug)]
pub(crate) struct Sweep(mpsc::Sender<BTreeSet<String>>);

impl Sweep {
    /// These from now on.
    pub(crate) fn set(&self, live: BTreeSet<String>) {
        if self.0.send(live).is_err() {
            debug!("sandboxes are not removed any more");
        }
    }
}

/// Starts to sweep. Ends by itself when nobody says any more which runs are not over.
pub(crate) fn start(work_dir: &Path, delay: Duration) -> std::io::Result<Sweep> {
    let (sweep, known) = mpsc::channel();
    let work_dir = work_dir.to_owned();
    let run = move || {
        // Nothing is known to be over before the first word.
        let Ok(mut live) = known.recv() else { return };
        loop {
            let wait = sweep_once(&work_dir, delay, &live);
            match known.recv_timeout(wait.clamp(INTERVAL_MIN, INTERVAL_MAX)) {
                Ok(next) => live = next,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(next) = known.try_recv() {
                live = next;
            }
        }
    };
    thread::Builder::new().name("agent-gc".to_owned()).spawn(run)?;
    Ok(Sweep(sweep))
}

/// Removes what is due; gives the time until the next is.
fn sweep_once(work_dir: &Path, delay: Duration, live: &BTreeSet<String>) -> Duration {
    let mut next = INTERVAL_MAX;
    for sandbox in sandboxes(work_dir) {
        let Some(container) = sandbox.file_name().and_then(|name| name.to_str()) else { continue };
        if live.contains(container) {
            continue;
        }
        let run = run_directory(work_dir, container);
        let age = age_of(&run.join(WORDS)).or_else(|| age_of(&sandbox)).unwrap_or_default();
        if age < delay {
            next = next.min(delay - age);
            continue;
        }
        match clear(&sandbox).and_then(|()| clear(&run)) {
            Ok(()) => {
                info!(path = %sandbox.display(), "old sandbox removed");
                forget_parents(&sandbox);
            }
            Err(error) => warn!(path = %sandbox.display(), %error, "a sandbox cannot be removed"),
        }
    }
    next
}

/// Every run of every executor; links such as `latest` are none.
fn sandboxes(work_dir: &Path) -> Vec<PathBuf> {
    let mut level = vec![work_dir.join("slaves")];
    for below in ["", "frameworks", "", "executors", "", "runs", ""] {
        let next = level.iter().flat_map(|folder| {
            if below.is_empty() { folders(folder) } else { vec![folder.join(below)] }
        });
        level = next.collect();
    }
    level
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    entries.map(|entry| entry.path()).collect()
}

fn age_of(path: &Path) -> Option<Duration> {
    let changed = fs::symlink_metadata(path).ok()?.modified().ok()?;
    SystemTime::now().duration_since(changed).ok()
}

/// Removes a directory with all that is in it.
fn clear(path: &Path) -> std::io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    for mounted in mounts_below(path) {
        rustix::mount::unmount(&mounted, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?;
    }
    let parent = open_root(parent)?;
    remove(&parent, &CString::new(name.as_bytes())?)
}

/// Places below a path where something is mounted, innermost first.
fn mounts_below(path: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let place = |line: &str| Some(PathBuf::from(unescaped(line.split(' ').nth(4)?)));
    let mut found: Vec<PathBuf> =
        table.lines().filter_map(place).filter(|place| place.starts_with(path)).collect();
    found.reverse();
    found
}

/// The table has spaces and the like as `\040`.
fn unescaped(text: &str) -> String {
    let mut plain = text.to_owned();
    for (code, character) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        plain = plain.replace(code, character);
    }
    plain
}

/// Folders that hold nothing any more go with their last run; one that holds something stays.
fn forget_parents(sandbox: &Path) {
    let Some(runs) = sandbox.parent() else { return };
    if fs::read_link(runs.join("latest")).is_ok_and(|newest| newest == sandbox) {
        let _gone = fs::remove_file(runs.join("latest"));
    }
    for folder in runs.ancestors().take(4) {
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v05_nothing_outside_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let work_dir = folder.path();
        let volume = work_dir.join("volumes/roles/ads/v1");
        fs::create_dir_all(&volume).unwrap();
        fs::write(volume.join("precious"), "x").unwrap();
        let runs = work_dir.join("slaves/S0/frameworks/f/executors/t/runs");
        for run in ["old", "live"] {
            fs::create_dir_all(runs.join(run)).unwrap();
            std::os::unix::fs::symlink(&volume, runs.join(run).join("data")).unwrap();
        }
        std::os::unix::fs::symlink(runs.join("live"), runs.join("latest")).unwrap();
        fs::create_dir(runs.join("old/mounted")).unwrap();
        let is_mounted = rustix::mount::mount_bind(&volume, runs.join("old/mounted")).is_ok();
        let live = BTreeSet::from(["live".to_owned()]);
        let wait = sweep_once(work_dir, Duration::from_secs(60), &live);
        assert!(wait <= Duration::from_secs(60) && runs.join("old").exists());
        sweep_once(work_dir, Duration::ZERO, &live);
        assert!(!runs.join("old").exists(), "mounted: {is_mounted}");
        assert!(runs.join("live/data/precious").exists());
        sweep_once(work_dir, Duration::ZERO, &BTreeSet::new());
        assert!(!work_dir.join("slaves/S0/frameworks/f").exists());
        assert!(volume.join("precious").exists());
    }
}
