//! How a node comes to life: files, checks, consensus core, listener, tasks, in this order; and
//! how what was started is stopped. Must not know what is replicated. Next: `self_test.rs`.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use resources::id::Term;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::bootstrap::{self, Entry, Files};
use crate::config::NodeConfig;
use crate::env::{Environment, Listener};
use crate::error::StartError;
use crate::failover::{Counts, Failover, Prober};
use crate::formation::Formation;
use crate::leadership::{Heard, Leadership, Watcher};
use crate::log_store::LogStore;
use crate::machine::Machine;
use crate::members::Members;
use crate::membership::Finisher;
use crate::network::{self, Dialer, Handshake, PeerService};
use crate::node::{Inner, Node};
use crate::reads::Barrier;
use crate::registry::Registry;
use crate::runtime;
use crate::self_test;
use crate::snapshot::SnapshotStore;
use crate::state_machine::StateMachine;
use crate::status::Timing;
use crate::supervisor::Supervisor;
use crate::types::Raft;
use crate::upkeep::Upkeep;
use crate::watchdog::{Stall, Watchdog};

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
        Self::start_as(Entry::Found, config, environment).await
    }

    /// Starts a node that waits to be added to a cluster, with [`Node::add_learner`] on its
    /// leader; the initial members of `config` do not matter. A directory that was added goes on
    /// as with [`Node::start`].
    ///
    /// # Errors
    /// [`StartError`], each one line for the operator.
    pub async fn join(config: NodeConfig) -> Result<Self, StartError> {
        Self::join_in(config, Environment::os()).await
    }

    /// As [`Node::join`], in a given world.
    ///
    /// # Errors
    /// [`StartError`], each one line for the operator.
    pub async fn join_in(config: NodeConfig, environment: Environment) -> Result<Self, StartError> {
        let config = NodeConfig { peers: BTreeMap::new(), ..config };
        Self::start_as(Entry::Join, config, environment).await
    }

    async fn start_as(
        entry: Entry,
        config: NodeConfig,
        environment: Environment,
    ) -> Result<Self, StartError> {
        let files = Files::of(&config.work_dir);
        files.prepare(&environment, &config.work_dir)?;
        let log = LogStore::<M>::open(&environment, &files.log, &config.limits)?;
        let started = Self::start_on(log.clone(), entry, config, &environment, &files).await;
        if started.is_err() {
            // The file is free again when the refusal is heard; whether it closes well does not
            // matter any more.
            drop(log.close().await);
        }
        started
    }

    async fn start_on(
        log: LogStore<M>,
        entry: Entry,
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
        let (identity, store) = bootstrap::claim(&log, &snapshots, &config, entry, files).await?;
        let members = Arc::new(Members::new(store, log.stake(), log.stores()));
        let (boot, advertise) = (runtime::random(), config.advertise.clone());
        let handshake = Arc::new(Handshake::new(boot, advertise, &identity, members.clone()));
        let dialer = Dialer::<M>::new(
            log.clone(),
            environment.network.clone(),
            handshake.clone(),
            members.clone(),
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
        let formation = Formation {
            identity,
            raft: raft.clone(),
            log: log.clone(),
            members: members.clone(),
            handshake: handshake.clone(),
            network: environment.network.clone(),
            fatal: environment.fatal.clone(),
        };
        let is_joining = formation.identity.peers.is_empty();
        let listener = Some(listener);
        let parts =
            Parts { timing, raft, log, snapshots, state, handshake, members, is_joining, listener };
        let node = Self::run(config, environment, parts);
        // At once where it can be decided at once, so that a refusal is a refusal to start.
        if let Err(error) = formation.step().await {
            node.shutdown().await;
            return Err(error);
        }
        let supervisor =
            Supervisor { closing: node.inner.closing.clone(), fatal: environment.fatal.clone() };
        let forming = supervisor.spawn_endless("formation", formation.run());
        node.inner.tasks.lock().push(forming);
        Ok(node)
    }

    /// Starts the tasks of a node whose parts are all there.
    fn run(config: NodeConfig, environment: &Environment, mut parts: Parts<M>) -> Self {
        let closing = CancellationToken::new();
        let timeout = config.election_timeout_max();
        let (announced, leadership) = watch::channel(Leadership::Unknown { term: Term(0) });
        let (barrier, serving_reads) = Barrier::new(parts.raft.clone(), timeout * 2);
        let shared = Shared::default();
        let watcher =
            Watcher { heard: shared.heard.clone(), timeout, announced, closing: closing.clone() };
        let failover = Arc::new(parts.failover(&config, environment, &shared));
        let serving = parts.serving(&config, &shared, failover.clone(), closing.clone());
        let Parts { timing, raft, log, snapshots, state, handshake, members, .. } = parts;
        let registry = Registry {
            raft: raft.clone(),
            log: log.clone(),
            members: members.clone(),
            handshake: handshake.clone(),
        };
        let finisher = Finisher { raft: raft.clone(), changing: shared.changing.clone() };
        let watchdog = Watchdog {
            id: config.id.0,
            raft: raft.clone(),
            log: log.clone(),
            heard: shared.heard.clone(),
            stall: shared.stall.clone(),
            timeout,
            heartbeat: config.heartbeat,
        };
        let upkeep = Upkeep {
            raft: raft.clone(),
            log: log.clone(),
            limits: config.limits.clone(),
            fatal: environment.fatal.clone(),
            closing: closing.clone(),
        };
        let supervisor = Supervisor { closing: closing.clone(), fatal: environment.fatal.clone() };
        let tasks = vec![
            supervisor.spawn("peer listener", serving),
            supervisor.spawn("leadership", watcher.run::<M>(raft.server_metrics())),
            supervisor.spawn_endless("reads", serving_reads),
            supervisor.spawn_endless("upkeep", upkeep.run()),
            supervisor.spawn_endless("members", registry.run()),
            supervisor.spawn_endless("membership", finisher.run()),
            supervisor.spawn_endless("watchdog", watchdog.run()),
            supervisor.spawn_endless("failover", failover.run()),
        ];
        let Shared { counts, stall, changing, .. } = shared;
        let network = environment.network.clone();
        let tasks = Mutex::new(tasks);
        Self::of(Inner {
            config,
            timing,
            failover: counts,
            raft,
            log,
            snapshots,
            state,
            handshake,
            members,
            network,
            changing,
            leadership,
            barrier,
            stall,
            closing,
            tasks,
        })
    }
}

/// What several tasks look at.
#[derive(Default)]
struct Shared {
    heard: Arc<Heard>,
    counts: Arc<Counts>,
    stall: Arc<Stall>,
    changing: Arc<tokio::sync::Mutex<()>>,
}

/// What a node is made of.
struct Parts<M: Machine> {
    timing: Timing,
    raft: Raft<M>,
    log: LogStore<M>,
    snapshots: Arc<SnapshotStore>,
    state: StateMachine<M>,
    handshake: Arc<Handshake>,
    members: Arc<Members>,
    is_joining: bool,
    /// Taken by the task that serves it.
    listener: Option<Box<dyn Listener>>,
}

impl<M: Machine> Parts<M> {
    fn failover(
        &self,
        config: &NodeConfig,
        environment: &Environment,
        shared: &Shared,
    ) -> Failover<M> {
        Failover {
            id: config.id.0,
            raft: self.raft.clone(),
            log: self.log.clone(),
            lines: Arc::default(),
            heard: shared.heard.clone(),
            stall: shared.stall.clone(),
            prober: Prober::new(environment.network.clone(), self.handshake.clone()),
            counts: shared.counts.clone(),
        }
    }

    fn serving(
        &mut self,
        config: &NodeConfig,
        shared: &Shared,
        failover: Arc<Failover<M>>,
        closing: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<M> {
        let service = PeerService {
            raft: self.raft.clone(),
            handshake: self.handshake.clone(),
            heard: shared.heard.clone(),
            failover,
            members: self.members.clone(),
            stall: shared.stall.clone(),
            is_joining: self.is_joining,
        };
        let listener = self.listener.take().expect("it is served once");
        network::serve(listener, service, config.limits.message_bytes, closing)
    }
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
