//! The agent: carries out the cluster's orders on one machine, checkpoints each before it is
//! reported, owns the volume directories, and follows the leading master.
//!
//! Reading order: [`config`] and `declared` (flags), `core` (the pure agent: events in, actions
//! out), `volumes` (directories), `checkpoint` (durable rows), `detect`, `disks`,
//! `reconfiguration` and `recovery` (the start), `driver` (the loop), `runner` (executors, seen
//! from the agent), `supervisor` (the process beside each executor), `session` and its `seeker`
//! (the stream to the leader), `metrics` and `http` (what users see).

mod checkpoint;
pub mod config;
mod core;
mod declared;
mod detect;
mod disks;
mod driver;
mod failpoint;
mod http;
mod metrics;
mod reconfiguration;
mod recovery;
mod runner;
#[cfg(test)]
mod script;
mod session;
mod supervisor;
mod volumes;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use thiserror::Error;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{info, warn};

use resources::conversion::Incompatible;

pub use crate::config::{Config, ConfigError, Flags};
pub use crate::disks::Conflict;
pub use crate::driver::emulated::{Told, emulate};
use crate::driver::{Driver, Handle, State};
pub use crate::reconfiguration::Difference;
use crate::runner::Program;
pub use crate::supervisor::supervise;

/// Name of the signal for the orderly end.
const SIGUSR1: &str = "SIGUSR1";
/// Longest time of the orderly end.
const RETIRE_TIMEOUT: Duration = Duration::from_secs(13);
/// From the end of the last executor to the end of the session.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Why the agent ended. The process ends with status 1 and this line.
#[derive(Debug, Error)]
pub enum RunError {
    /// The port of the HTTP server is taken, or the address is not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address of `--listen`.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file or directory cannot be used.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The checkpoint cannot be opened.
    #[error("{0}")]
    Checkpoint(String),
    /// The checkpoint contradicts itself.
    #[error(
        "the checkpoint is corrupt: {0}; keep a copy of the work directory and restore it from a \
         backup; volumes are untouched"
    )]
    Corrupt(String),
    /// A root of a MOUNT disk is no mount point.
    #[error(
        "--resources: MOUNT disk {}: not a mount point, see /proc/self/mountinfo; mount it first",
        root.display()
    )]
    NotMounted {
        /// The root.
        root: PathBuf,
    },
    /// What the machine tells of itself makes no resource.
    #[error("cannot detect the resources of this machine: {0}; name them with --resources")]
    Detection(String),
    /// Disks lie in each other's way.
    #[error("--resources: {0}")]
    Disks(Conflict),
    /// The flags differ from those of the last start.
    #[error(
        "{path}: incompatible agent configuration: {difference}; after a reboot the agent starts \
         with the new flags under a new id, which loses its tasks and keeps reservations and \
         volumes; another --work-dir starts a new agent, and leaves reservations and volumes of \
         this one behind, unused"
    )]
    IncompatibleInfo {
        /// The checkpoint, which holds what was expected.
        path: String,
        /// What was expected and found.
        difference: Difference,
    },
    /// The declared resources cannot hold what is reserved.
    #[error(
        "{path}: {source}; first start again with the --resources of the last start, '{earlier}', \
         which loses nothing, then unreserve or destroy what the new ones cannot hold: a \
         destroyed volume loses its data; another --work-dir starts a new agent, and leaves \
         reservations and volumes of this one behind, unused"
    )]
    IncompatibleResources {
        /// The checkpoint, which holds what was reserved.
        path: String,
        /// What does not fit.
        source: Incompatible,
        /// The resources of the last start.
        earlier: String,
    },
    /// The disk failed at the start.
    #[error("{0}")]
    Storage(String),
    /// A master sent the agent away for good, or an order cannot be carried out.
    #[error("{0}")]
    Ended(String),
}

impl RunError {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.display().to_string(), source }
    }
}

impl From<checkpoint::OpenError> for RunError {
    fn from(error: checkpoint::OpenError) -> Self {
        Self::Checkpoint(error.to_string())
    }
}

/// Runs the agent until a signal stops it, which is no error.
///
/// # Errors
/// When the agent cannot start or may not go on. A storage failure while it runs aborts the
/// process instead.
pub async fn run(config: Config) -> Result<(), RunError> {
    for flag in &config.not_in_force {
        info!("--{flag} is not in force yet");
    }
    let listen = config.listen.to_string();
    let failed = |source| RunError::Listen { address: listen.clone(), source };
    let listener = TcpListener::bind((config.listen.host.as_str(), config.listen.port)).await;
    let listener = listener.map_err(failed)?;
    let config = with_bound_port(config, listener.local_addr().map_err(failed)?.port());
    info!(listen = %config.listen, advertise = %config.advertise, "agent starts");

    let (stop, stopped) = watch::channel(false);
    let (driver_tx, driver_rx) = watch::channel(None);
    let server = Arc::new(http::Server {
        driver: driver_rx,
        flags: config.flags.clone(),
        started_at: SystemTime::now(),
    });
    let server = tokio::spawn(http::serve(listener, server, stopped.clone()));
    let result = serve_orders(config, &driver_tx, &stop, stopped).await;
    stop.send_replace(true);
    if server.await.is_err() {
        warn!("the HTTP server panicked");
    }
    result
}

/// Port 0 means any free one, which is known only now.
fn with_bound_port(mut config: Config, port: u16) -> Config {
    if config.advertise.port == 0 {
        config.advertise.port = port;
    }
    config.listen.port = port;
    config
}

async fn serve_orders(
    config: Config,
    driver_tx: &watch::Sender<Option<Handle>>,
    stop: &watch::Sender<bool>,
    stopped: watch::Receiver<bool>,
) -> Result<(), RunError> {
    let config = Arc::new(config);
    let signals = wait_for_signal()?;
    let recovered = {
        let config = config.clone();
        tokio::task::spawn_blocking(move || recovery::recover(&config)).await
    };
    let recovered = recovered.map_err(|error| RunError::Corrupt(error.to_string()))??;
    let work_dir = config.work_dir.clone();
    let driver = Driver::start(recovered, Program::own())
        .map_err(|source| RunError::io(&work_dir, source))?;
    let handle = driver.handle();
    driver_tx.send_replace(Some(handle.clone()));

    let mut session = tokio::spawn(sessions(config, handle.clone(), stopped));
    let mut state = handle.state();
    let mut over = handle.state();
    let result = tokio::select! {
        name = signals => {
            info!(signal = name, "the agent stops");
            if name == SIGUSR1 {
                retire(&handle).await;
                // What was said last is on its way, unless the session is over; what is lost of
                // it is said again at the next start.
                let _silence = timeout(LAST_WORDS, &mut session).await;
            }
            Ok(())
        }
        () = retired(&mut over) => {
            info!("the executors of earlier runs have ended");
            Ok(())
        }
        reason = exit_reason(&mut state) => Err(RunError::Ended(reason)),
        ended = &mut session => match ended {
            Ok(Err(reason)) => Err(RunError::Ended(reason)),
            Ok(Ok(())) => Ok(()),
            Err(error) => Err(RunError::Ended(error.to_string())),
        },
    };
    stop.send_replace(true);
    if !session.is_finished() && session.await.is_err() {
        warn!("the session panicked");
    }
    driver_tx.send_replace(None);
    driver.stop().await;
    result
}

/// Sessions begin when everything of an earlier run is finished.
async fn sessions(
    config: Arc<Config>,
    handle: Handle,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), String> {
    let mut state = handle.state();
    tokio::select! {
        ready = state.wait_for(|state| *state == State::Ready) => {
            if ready.is_err() {
                return Ok(());
            }
        }
        _ = stopped.wait_for(|is_stopped| *is_stopped) => return Ok(()),
    }
    session::run(&config, handle, stopped).await
}

async fn exit_reason(state: &mut watch::Receiver<State>) -> String {
    let exit = state.wait_for(|state| matches!(state, State::Exit(_))).await;
    match exit.as_deref() {
        Ok(State::Exit(reason)) => reason.clone(),
        Ok(State::Recovering | State::Ready | State::Retired) | Err(_) => {
            "the agent's core has ended".to_owned()
        }
    }
}

/// The orderly end: every task is killed.
async fn retire(handle: &Handle) {
    let mut state = handle.state();
    handle.retire().await;
    if timeout(RETIRE_TIMEOUT, retired(&mut state)).await.is_err() {
        warn!("executors are still there");
    }
}

/// Returns when no executor is left, as was asked.
async fn retired(state: &mut watch::Receiver<State>) {
    if state.wait_for(|state| *state == State::Retired).await.is_err() {
        // The driver's own end is told elsewhere.
        std::future::pending::<()>().await;
    }
}

/// SIGUSR1 is the orderly end; the others leave tasks running.
fn wait_for_signal() -> Result<impl Future<Output = &'static str>, RunError> {
    let listen = |kind| signal(kind).map_err(|source| RunError::io(Path::new("signals"), source));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut user = listen(SignalKind::user_defined1())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
            _ = user.recv() => SIGUSR1,
        }
    })
}

#[cfg(test)]
mod tests;
