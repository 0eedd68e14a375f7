//! A disk whose syncs do not return until a test lets them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use raft::env::{Disk, File, OpenError};

/// Closed, it holds up every sync.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    is_closed: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// From now on no sync returns.
    pub(crate) fn close(&self) {
        *self.is_closed.lock() = true;
    }

    /// All syncs go on.
    pub(crate) fn open(&self) {
        *self.is_closed.lock() = false;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let mut is_closed = self.is_closed.lock();
        while *is_closed {
            self.opened.wait(&mut is_closed);
        }
    }
}

/// Another disk behind a gate.
pub(crate) struct Stalling<D> {
    pub(crate) disk: D,
    pub(crate) gate: Arc<Gate>,
}

impl<D: Disk> Disk for Stalling<D> {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir(dir)
    }
    fn holds_data(&self, path: &Path) -> io::Result<bool> {
        self.disk.holds_data(path)
    }
    fn open(&self, path: &Path) -> Result<Box<dyn File>, OpenError> {
        let file = self.disk.open(path)?;
        Ok(Box::new(Handle { file, gate: self.gate.clone() }))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
}

#[derive(Debug)]
struct Handle {
    file: Box<dyn File>,
    gate: Arc<Gate>,
}

impl File for Handle {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.gate.pass();
        self.file.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }
}
