//! Everything through which a node touches the world: disk, sockets, threads, and what happens
//! on a fatal error. Time is tokio's, which a simulation pauses; randomness is in `runtime.rs`.
//! Must not know what is written or sent. Next: `env/os.rs` for the real thing.

mod os;

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::error::FatalError;

pub use os::{AbortProcess, OsDisk, OsNetwork, OsThreads};

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A byte stream to or from a peer.
pub trait Socket: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Socket for T {}

/// Opens byte streams.
pub trait Network: Send + Sync + 'static {
    /// Binds `address` (`host:port`).
    ///
    /// # Errors
    /// `AddrInUse` when another socket has it.
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>>;
    /// Connects to `address` (`host:port`), without delaying small writes.
    ///
    /// # Errors
    /// Whatever the network says.
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Socket>>>;
    /// Connects in order to learn whether anybody listens there. For the real network that is
    /// the same; a simulation may answer late, or lie.
    ///
    /// # Errors
    /// `ConnectionRefused` when nobody listens, which counts as the death of the process.
    fn knock(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Socket>>> {
        self.connect(address)
    }
}

/// Accepts byte streams.
pub trait Listener: Send + Sync + 'static {
    /// Waits for the next peer. Sockets come without delay of small writes: with it an answer
    /// waits for the peer's acknowledgement timer (measured: 41 instead of 2,000 writes a second).
    ///
    /// # Errors
    /// Whatever the system says; the caller goes on accepting.
    fn accept(&self) -> BoxFuture<'_, io::Result<Box<dyn Socket>>>;
    /// The bound address.
    ///
    /// # Errors
    /// Whatever the system says.
    fn local_address(&self) -> io::Result<SocketAddr>;
}

/// Opens files.
pub trait Disk: Send + Sync + 'static {
    /// Makes a directory and its parents, durably.
    ///
    /// # Errors
    /// Whatever the system says.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Whether there is a file with any content.
    ///
    /// # Errors
    /// Whatever the system says.
    fn holds_data(&self, path: &Path) -> io::Result<bool>;
    /// Opens a file for this process alone, making it if there is none.
    ///
    /// # Errors
    /// [`OpenError`].
    fn open(&self, path: &Path) -> Result<Box<dyn File>, OpenError>;
    /// Gives a file another name, durably. The file is not open.
    ///
    /// # Errors
    /// Whatever the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. A power cut may bring it back.
    ///
    /// # Errors
    /// Whatever the system says.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Time that passes before a commit. Real disks take their own time; a simulated one says
    /// here how long, since its calls return at once.
    fn latency(&self) -> Duration {
        Duration::ZERO
    }
    /// Time of one small synced write, where it is known. Real disks are measured at each start.
    fn known_sync(&self) -> Option<Duration> {
        None
    }
}

/// Why a file was not opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("in use by another process")]
    InUse,
    /// Whatever the system says.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A file with positioned access. What was written is durable after the next `sync_data`.
#[expect(clippy::len_without_is_empty, reason = "a file's length is a number, not a question")]
pub trait File: Debug + Send + Sync + 'static {
    /// Length in bytes.
    ///
    /// # Errors
    /// Whatever the system says.
    fn len(&self) -> io::Result<u64>;
    /// Fills `out` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` past the end.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Cuts or extends the file; new bytes are zero.
    ///
    /// # Errors
    /// Whatever the system says.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// Whatever the system says; after that nothing about unsynced writes is known.
    fn sync_data(&self) -> io::Result<()>;
    /// Writes `data` at `offset`.
    ///
    /// # Errors
    /// Whatever the system says.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;
}

/// Runs what must not run on the threads of the async runtime.
pub trait Executor: Send + Sync + 'static {
    /// Starts the log's writer, which blocks while it syncs.
    ///
    /// # Errors
    /// When no thread can be made.
    fn spawn_writer(&self, name: &str, writer: BoxFuture<'static, ()>) -> io::Result<()>;
    /// Runs a job that may take long, and waits for it.
    fn blocking(&self, job: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()>;
}

/// What to do when this process can no longer keep its promises.
pub trait FatalHook: Send + Sync + 'static {
    /// The real hook does not return. Where one does, the node answers every caller with an
    /// error and promises nothing more.
    fn fatal(&self, error: &FatalError);
}

/// The world of one node.
#[derive(Clone)]
pub struct Environment {
    /// Sockets.
    pub network: Arc<dyn Network>,
    /// Files.
    pub disk: Arc<dyn Disk>,
    /// Threads.
    pub executor: Arc<dyn Executor>,
    /// The last resort.
    pub fatal: Arc<dyn FatalHook>,
}

impl Environment {
    /// The real world: the system's files, sockets and threads; a fatal error aborts.
    #[must_use]
    pub fn os() -> Self {
        Self {
            network: Arc::new(OsNetwork),
            disk: Arc::new(OsDisk),
            executor: Arc::new(OsThreads),
            fatal: Arc::new(AbortProcess),
        }
    }
}

/// Runs everything as tasks of the current runtime, for simulations: deterministic, and it
/// vanishes with the simulated host.
#[derive(Debug, Clone, Copy, Default)]
pub struct InTasks;

impl Executor for InTasks {
    fn spawn_writer(&self, _name: &str, writer: BoxFuture<'static, ()>) -> io::Result<()> {
        tokio::spawn(writer);
        Ok(())
    }
    fn blocking(&self, job: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        Box::pin(async move { job() })
    }
}
