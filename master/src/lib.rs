//! The master: replicated state, leadership, and the edges that clients and agents speak to.
//!
//! Reading order: [`state`] (pure: commands in, responses and effects out), [`allocator`] (pure:
//! who is offered what), `machine` (the state as what consensus replicates), [`leader`]
//! (sessions, offers, proposals, reads), [`grpc`] (agents),
//! [`auth`] (who asks), [`config`] (flags), `metrics`, `http` (everything else on the public
//! port), `joining` (`--join`), [`backup`], and this file, which puts one process together.

pub mod allocator;
pub mod auth;
pub mod backup;
pub mod config;
pub mod grpc;
pub mod leader;
pub mod machine;
pub mod state;

mod http;
mod joining;
mod metrics;

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use raft::{Limits, Node, NodeConfig, StartError};
use resources::time::Timestamp;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub use crate::config::{Config, ConfigError, Flags};
use crate::http::{App, Server};
use crate::leader::{Handle, Leader, MasterIdentity};
use crate::machine::Replica;
pub use raft::LOG_FILTER as CONSENSUS_LOG_FILTER;

/// How long a handover of leadership may take before the process ends all the same.
const HANDOVER_TIME_MAX: Duration = Duration::from_secs(2);
/// Threads of consensus and of the leader's loop, apart from those of the public API: a storm of
/// requests must not delay a heartbeat.
const CONSENSUS_THREADS: usize = 2;

/// Why a master ended. Exit status 1.
#[derive(Debug, Error)]
pub enum RunError {
    /// Another socket has the public port.
    #[error("--listen {address}: the port is already in use")]
    PortTaken {
        /// The address.
        address: String,
    },
    /// The public address cannot be listened on for another reason.
    #[error("--listen {address}: cannot listen")]
    Listen {
        /// The address.
        address: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The node does not start: data of another cluster or id, damaged data, a taken port.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The system refuses threads or signal handlers.
    #[error("cannot start")]
    System(#[source] io::Error),
}

/// Runs a master until SIGTERM or SIGINT, which is no error.
///
/// # Errors
/// When the master cannot start. A storage failure while it runs aborts the process instead.
pub async fn run(config: Config) -> Result<(), RunError> {
    for flag in &config.dormant {
        tracing::info!("--{} is not in force yet", flag.replace('_', "-"));
    }
    let config = Arc::new(config);
    let listener = listen(&config).await?;
    let signals = Signals::new().map_err(RunError::System)?;
    let consensus = Consensus::new().map_err(RunError::System)?;
    let (node, handle) = consensus.start(&config).await?;

    let agents =
        grpc::service(handle.clone(), config.authenticator.clone(), config.authorizer.clone());
    let app = Arc::new(App::new(handle.clone(), Arc::clone(&config)));
    let server = Server::start(listener, http::router(app, agents));
    tracing::info!(id = config.id.0, listen = %config.listen, "master serves");

    let joining = config.join.clone().map(|join| {
        let (node, config) = (node.clone(), Arc::clone(&config));
        tokio::spawn(async move { joining::ask(node, join, &config).await })
    });

    let signal = signals.recv().await;
    joining.inspect(tokio::task::JoinHandle::abort);
    tracing::info!(signal, "the master stops");
    hand_over(&node).await;
    handle.shutdown().await;
    server.shutdown().await;
    node.shutdown().await;
    Ok(())
}

/// Takes the public port before anything is written: a port that is taken changes no data.
async fn listen(config: &Config) -> Result<TcpListener, RunError> {
    http::bind(&config.listen).await.map_err(|source| {
        let address = config.listen.to_string();
        match source.kind() {
            io::ErrorKind::AddrInUse => RunError::PortTaken { address },
            _ => RunError::Listen { address, source },
        }
    })
}

/// Gives leadership away before the streams end: a few milliseconds without a leader instead of
/// an election timeout.
async fn hand_over(node: &Node<Replica>) {
    match tokio::time::timeout(HANDOVER_TIME_MAX, node.transfer_leadership(None)).await {
        Ok(Ok(())) => tracing::info!("leadership was handed over"),
        Ok(Err(error)) => tracing::debug!(%error, "leadership was not handed over"),
        Err(_) => tracing::info!("nobody took leadership over in time"),
    }
}

/// The runtime of consensus. Dropped, it ends without waiting.
struct Consensus(Option<Runtime>);

impl Consensus {
    fn new() -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(CONSENSUS_THREADS).thread_name("consensus").enable_all();
        builder.build().map(|runtime| Self(Some(runtime)))
    }

    async fn start(&self, config: &Config) -> Result<(Node<Replica>, Handle), StartError> {
        let (node_config, leader_config) = (node_config(config), leader_config(config));
        let is_joining = config.join.is_some();
        let start = async move {
            let node = match is_joining {
                false => Node::start(node_config).await?,
                true => Node::join(node_config).await?,
            };
            let handle = Leader::start(node.clone(), leader_config);
            Ok((node, handle))
        };
        let runtime = self.0.as_ref().expect("only dropping takes the runtime");
        match runtime.spawn(start).await {
            Ok(started) => started,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

impl Drop for Consensus {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn node_config(config: &Config) -> NodeConfig {
    NodeConfig {
        id: config.id,
        peers: config.peers.iter().map(|(id, address)| (*id, address.to_string())).collect(),
        listen: config.peer_listen.to_string(),
        work_dir: config.work_dir.clone(),
        advertise: config.advertise.to_string(),
        heartbeat: config.heartbeat,
        election_timeout: config.election_timeout,
        limits: Limits::default(),
    }
}

fn leader_config(config: &Config) -> leader::Config {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    leader::Config {
        identity: MasterIdentity {
            id: config.id,
            advertise: config.advertise.to_string(),
            started_at: Timestamp::default() + since,
        },
        agent_ping_timeout: config.agent_ping_timeout,
        agent_pings_missed_max: config.agent_pings_missed_max,
        election_timeout_max: config.election_timeout * 2,
        allocator: config.allocator.clone(),
        offer_timeout: config.offer_timeout,
        agent_reregister_timeout: config.agent_reregister_timeout,
        weights: config.weights.clone(),
        removal: config.removal,
    }
}

/// The signals that end a master.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn recv(mut self) -> &'static str {
        // Either arm may be dropped: a signal that came meanwhile is not needed any more.
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
