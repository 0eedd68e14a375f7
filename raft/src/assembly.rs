//! How a node comes to life: files, checks, consensus core, listener, tasks, in this order; and
//! how what was started is stopped. Must not know what is replicated. Next: `self_test.rs`.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use resources::id::Term;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::bootstrap::{self, Files};
use crate::config::NodeConfig;
use crate::env::{Environment, Listener};
use crate::error::StartError;
use crate::failover::{Counts, Failover, Prober};
use crate::leadership::{Heard, Leadership, Watcher};
use crate::log_store::LogStore;
use crate::machine::Machine;
use crate::network::{self, Dialer, Handshake, PeerService};
use crate::node::{Inner, Node};
use crate::reads::Barrier;
use crate::runtime;
use crate::self_test;
use crate::snapshot::SnapshotStore;
use crate::state_machine::StateMachine;
use crate::status::Timing;
use crate::supervisor::Supervisor;
use crate::types::Raft;
use crate::upkeep::Upkeep;

impl<M: Machine> Node<M> {
    /// Starts a node in the real world.
    ///
    /// # Errors
    /// [`StartError`], each one line for the operator.
    pub async fn start(config: NodeConfig) -> Result<Self, StartError> {
        Self::start_in(config, Environment::os()).await
    }

    /// Starts a node in a given world.
    ///
    /// # Errors
    /// [`StartError`], each one line for the operator.
    pub async fn start_in(
        config: NodeConfig,
        environment: Environment,
    ) -> Result<Self, StartError> {
        let files = Files::of(&config.work_dir);
        files.prepare(&environment, &config.work_dir)?;
        let log = LogStore::<M>::open(&environment, &files.log, &config.limits)?;
        let started = Self::start_on(log.clone(), config, &environment, &files).await;
        if started.is_err() {
            // The file is free again when the refusal is heard; whether it closes well does not
            // matter any more.
            drop(log.close().await);
        }
        started
    }

    async fn start_on(
        log: LogStore<M>,
        config: NodeConfig,
        environment: &Environment,
        files: &Files,
    ) -> Result<Self, StartError> {
        let timing = self_test::timing(environment, &config).await?;
        let Timing { heartbeat, election_timeout, .. } = timing;
        let config = NodeConfig { heartbeat, election_timeout, ..config };
        let consensus =
            config.consensus().map_err(|e| StartError::Config { reason: e.to_string() })?;
        let snapshots = Arc::new(SnapshotStore::open(environment, &files.snapshot)?);
        files.compare(&log, &snapshots)?;
        let state = StateMachine::<M>::open(environment, snapshots.clone())?;
        let identity = bootstrap::claim(&log, &config, files).await?;
        let boot = runtime::random();
        let advertise = config.advertise.clone();
        let handshake = Arc::new(Handshake::new(config.id.0, boot, advertise, &identity));
        let dialer = Dialer::<M>::new(
            environment.network.clone(),
            handshake.clone(),
            config.limits.message_bytes,
            config.heartbeat,
        );
        let id = config.id.0;
        let raft = Raft::<M>::new(id, Arc::new(consensus), dialer, log.clone(), state.clone())
            .await
            .map_err(|fatal| StartError::Corrupt {
                path: config.work_dir.clone(),
                reason: fatal.to_string(),
            })?;
        // Bound only now: whoever can connect finds a node that answers.
        let listener = match listen(environment, &config.listen).await {
            Ok(listener) => listener,
            Err(error) => {
                stop(&raft, &log, &snapshots).await;
                return Err(error);
            }
        };
        let parts = Parts { timing, raft, log, snapshots, state, handshake, listener };
        let node = Self::run(config, environment, parts);
        if let Err(error) = bootstrap::form(node.raft(), &identity).await {
            node.shutdown().await;
            return Err(error);
        }
        Ok(node)
    }

    /// Starts the tasks of a node whose parts are all there.
    fn run(config: NodeConfig, environment: &Environment, parts: Parts<M>) -> Self {
        let Parts { timing, raft, log, snapshots, state, handshake, listener } = parts;
        let closing = CancellationToken::new();
        let timeout = config.election_timeout_max();
        let heard = Arc::new(Heard::default());
        let (announced, leadership) = watch::channel(Leadership::Unknown { term: Term(0) });
        let (barrier, serving_reads) = Barrier::new(raft.clone(), timeout * 2);
        let watcher =
            Watcher { heard: heard.clone(), timeout, announced, closing: closing.clone() };
        let counts = Arc::new(Counts::default());
        let failover = Arc::new(Failover {
            id: config.id.0,
            raft: raft.clone(),
            log: log.clone(),
            lines: Arc::default(),
            heard: heard.clone(),
            prober: Prober::new(environment.network.clone(), handshake.clone()),
            counts: counts.clone(),
        });
        let service = PeerService {
            raft: raft.clone(),
            handshake: handshake.clone(),
            heard,
            failover: failover.clone(),
        };
        let upkeep = Upkeep {
            raft: raft.clone(),
            log: log.clone(),
            limits: config.limits.clone(),
            fatal: environment.fatal.clone(),
            closing: closing.clone(),
        };
        let message_bytes = config.limits.message_bytes;
        let serving = network::serve(listener, service, message_bytes, closing.clone());
        let supervisor = Supervisor { closing: closing.clone(), fatal: environment.fatal.clone() };
        let tasks = vec![
            supervisor.spawn("peer listener", serving),
            supervisor.spawn("leadership", watcher.run::<M>(raft.server_metrics())),
            supervisor.spawn_endless("reads", serving_reads),
            supervisor.spawn_endless("upkeep", upkeep.run()),
            supervisor.spawn_endless("failover", failover.run()),
        ];
        let inner = Inner {
            config,
            timing,
            failover: counts,
            raft,
            log,
            snapshots,
            state,
            handshake,
            leadership,
            barrier,
            closing,
            tasks: Mutex::new(tasks),
        };
        Self::of(inner)
    }
}

/// What a node is made of.
struct Parts<M: Machine> {
    timing: Timing,
    raft: Raft<M>,
    log: LogStore<M>,
    snapshots: Arc<SnapshotStore>,
    state: StateMachine<M>,
    handshake: Arc<Handshake>,
    listener: Box<dyn Listener>,
}

async fn listen(environment: &Environment, address: &str) -> Result<Box<dyn Listener>, StartError> {
    environment.network.listen(address).await.map_err(|source| {
        let address = address.to_owned();
        match source.kind() {
            io::ErrorKind::AddrInUse => StartError::PortTaken { address },
            _ => StartError::Listen { address, source },
        }
    })
}

pub(crate) async fn stop<M: Machine>(raft: &Raft<M>, log: &LogStore<M>, snapshots: &SnapshotStore) {
    if let Err(error) = raft.shutdown().await {
        tracing::error!(%error, "the consensus core did not end well");
    }
    let closed = log.close().await.and(snapshots.close());
    if let Err(error) = closed {
        tracing::warn!(%error, "the files were not closed cleanly");
    }
}
