//! The real world: files with locks, TCP sockets, OS threads, abort. Must not know what is
//! written or sent.

use std::fs::{self, File as OsFile, OpenOptions, TryLockError};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tokio::net::{TcpListener, TcpStream};

use super::{BoxFuture, Disk, Executor, FatalHook, File, Listener, Network, OpenError, Socket};
use crate::error::FatalError;

/// TCP of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsNetwork;

impl Network for OsNetwork {
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener = TcpListener::bind(address).await?;
            Ok(Box::new(OsListener(listener)) as Box<dyn Listener>)
        })
    }
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Socket>>> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Socket>)
        })
    }
}

#[derive(Debug)]
struct OsListener(TcpListener);

impl OsListener {
    async fn accept_tcp(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.0.accept().await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Listener for OsListener {
    fn accept(&self) -> BoxFuture<'_, io::Result<Box<dyn Socket>>> {
        Box::pin(async move { Ok(Box::new(self.accept_tcp().await?) as Box<dyn Socket>) })
    }
    fn local_address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Files of the operating system, locked against a second process.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsDisk;

impl Disk for OsDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(dir)?;
        sync_parent(dir)
    }
    fn holds_data(&self, path: &Path) -> io::Result<bool> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(metadata.len() > 0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
    fn open(&self, path: &Path) -> Result<Box<dyn File>, OpenError> {
        let is_new = !path.exists();
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        if is_new {
            // Without this a power cut could take the name away from a synced file.
            sync_parent(path)?;
        }
        Ok(Box::new(LockedFile(file)))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        sync_parent(to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => OsFile::open(parent)?.sync_all(),
        _ => OsFile::open(".")?.sync_all(),
    }
}

/// The lock goes with the descriptor.
#[derive(Debug)]
struct LockedFile(OsFile);

impl File for LockedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}

/// OS threads.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsThreads;

impl Executor for OsThreads {
    fn spawn_writer(&self, name: &str, writer: BoxFuture<'static, ()>) -> io::Result<()> {
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || futures::executor::block_on(writer))
            .map(drop)
    }
    fn blocking(&self, job: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if let Err(error) = tokio::task::spawn_blocking(job).await
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        })
    }
}

/// Ends the process at once, so that its peers see its sockets close and elect another leader:
/// by an abort, or with status 1 where the operator started it with the wrong directory.
#[derive(Debug, Clone, Copy, Default)]
pub struct AbortProcess;

impl FatalHook for AbortProcess {
    fn fatal(&self, error: &FatalError) {
        if let FatalError::Wiped(wiped) = error {
            // A mistake of configuration, not of this process.
            tracing::error!("{wiped}");
            std::process::exit(1);
        }
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::error!(%error, cause, "fatal: the process ends");
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn accepted_sockets_send_small_writes_at_once() {
        let listener = OsListener(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let address = listener.local_address().unwrap();
        let (accepted, connected) =
            tokio::join!(listener.accept_tcp(), TcpStream::connect(address));
        assert!(accepted.unwrap().nodelay().unwrap());
        drop(connected);
    }

    #[test]
    fn second_open_of_a_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let first = OsDisk.open(&path).unwrap();
        assert!(matches!(OsDisk.open(&path), Err(OpenError::InUse)));
        drop(first);
        assert!(OsDisk.open(&path).is_ok());
    }
}
