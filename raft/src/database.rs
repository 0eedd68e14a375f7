//! The embedded database: opening a file with all its checks, and errors in our words. Must not
//! know what the tables hold. Next: `log_store.rs`.

use std::io;
use std::path::Path;

use redb::{Builder, Database, DatabaseError, StorageBackend, StorageError};

use crate::codec::Undecodable;
use crate::env::{Disk, File, OpenError};
use crate::error::StartError;

/// A file of our environment, in the database's terms. The lock against a second process is
/// taken by the environment when it opens the file.
#[derive(Debug)]
struct Backend(Box<dyn File>);

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

/// Opens a database, or makes one. Every page is checked against its checksum: without that a
/// damaged file could panic, or lie, long after the start.
pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<Database, StartError> {
    let io = |source| StartError::Io { path: path.to_owned(), source };
    if !disk.holds_data(path).map_err(io)? {
        // Under another name until it is complete: a power cut on the way must not leave a file
        // that looks like a damaged one.
        let unfinished = path.with_extension("new");
        let file = open_file(disk, &unfinished)?;
        file.set_len(0).map_err(io)?;
        let created = Builder::new().create_with_backend(Backend(file));
        let closed = created.and_then(Database::close);
        closed.map_err(|error| refusal(&unfinished, error))?;
        disk.rename(&unfinished, path).map_err(io)?;
    }
    Builder::new()
        .set_check_integrity_on_open(true)
        .create_with_backend(Backend(open_file(disk, path)?))
        .map_err(|error| refusal(path, error))
}

fn open_file(disk: &dyn Disk, path: &Path) -> Result<Box<dyn File>, StartError> {
    disk.open(path).map_err(|error| match error {
        OpenError::InUse => StartError::InUse { path: path.to_owned() },
        OpenError::Io(source) => StartError::Io { path: path.to_owned(), source },
    })
}

fn refusal(path: &Path, error: DatabaseError) -> StartError {
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
            StartError::InUse { path: path.to_owned() }
        }
        DatabaseError::Storage(StorageError::Io(source))
            if !matches!(
                source.kind(),
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
            ) =>
        {
            StartError::Io { path: path.to_owned(), source }
        }
        other => corrupt(path, other),
    }
}

/// A file whose content this program cannot use.
pub(crate) fn corrupt(path: &Path, reason: impl ToString) -> StartError {
    StartError::Corrupt { path: path.to_owned(), reason: reason.to_string() }
}

/// Any error of the database while it runs.
pub(crate) fn io_error(error: impl Into<redb::Error>) -> io::Error {
    match error.into() {
        redb::Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// Bytes that were readable when they were written.
pub(crate) fn invalid_data(error: Undecodable) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
