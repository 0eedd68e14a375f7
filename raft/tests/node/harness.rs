//! Clusters on loopback with files in temporary directories. Each node has a runtime of its own,
//! so that it can be killed: its sockets close, and nobody says goodbye.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use raft::env::{OsDisk, OsNetwork};
use raft::{Environment, FailoverCounts, Leadership, Limits, Node, NodeConfig, StartError, Status};
use resources::id::{MasterId, Term};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::support::Recorder;
use crate::support::faulty::{Faults, Faulty};
use crate::support::register::Register;
use crate::support::stall::{Gate, Stalling};

/// More than any test needs, so that only a fault ends a wait.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Cluster {
    dirs: BTreeMap<u64, TempDir>,
    addresses: BTreeMap<MasterId, String>,
    limits: Limits,
    pub(crate) nodes: BTreeMap<u64, Node<Register>>,
    pub(crate) faults: BTreeMap<u64, Arc<Faults>>,
    runtimes: BTreeMap<u64, Runtime>,
    fatal: BTreeMap<u64, Recorder>,
    pub(crate) gates: BTreeMap<u64, Arc<Gate>>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.gates.values().for_each(|gate| gate.open());
        // A runtime that is dropped in a test's own would wait, which is not allowed there.
        let runtimes = std::mem::take(&mut self.runtimes);
        runtimes.into_values().for_each(Runtime::shutdown_background);
    }
}

/// One thread: when it ends, no task sees another one gone and draws conclusions.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// An address that nobody used a moment ago.
pub(crate) fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

pub(crate) fn config(
    id: u64,
    dir: &TempDir,
    peers: &BTreeMap<MasterId, String>,
    limits: Limits,
) -> NodeConfig {
    NodeConfig {
        id: MasterId(id),
        peers: peers.clone(),
        listen: peers.get(&MasterId(id)).cloned().unwrap_or_else(free_address),
        work_dir: dir.path().join("raft"),
        advertise: format!("public{id}:5050"),
        heartbeat: NodeConfig::HEARTBEAT,
        // Longer than the default, so that a busy machine does not change leaders in a test.
        election_timeout: Duration::from_millis(500),
        limits,
    }
}

impl Cluster {
    /// Starts `size` nodes.
    pub(crate) async fn start(size: u64, limits: Limits) -> Self {
        let mut cluster = Self::new(size, limits);
        for id in 1..=size {
            cluster.start_node(id).await;
        }
        cluster
    }

    /// A cluster of which nothing runs yet.
    pub(crate) fn new(size: u64, limits: Limits) -> Self {
        let addresses = (1..=size).map(|id| (MasterId(id), free_address())).collect();
        let dirs = (1..=size).map(|id| (id, tempfile::tempdir().unwrap())).collect();
        let faults = (1..=size).map(|id| (id, Arc::default())).collect();
        let (nodes, runtimes) = (BTreeMap::new(), BTreeMap::new());
        let (fatal, gates) = (BTreeMap::new(), BTreeMap::new());
        Self { dirs, addresses, limits, nodes, faults, runtimes, fatal, gates }
    }

    pub(crate) fn config(&self, id: u64) -> NodeConfig {
        config(id, &self.dirs[&id], &self.addresses, self.limits.clone())
    }

    pub(crate) async fn start_node(&mut self, id: u64) {
        self.try_start_node(id).await.unwrap();
    }

    pub(crate) async fn try_start_node(&mut self, id: u64) -> Result<(), StartError> {
        let (runtime, environment) = (runtime(), self.environment(id));
        let starting = runtime.spawn(Node::start_in(self.config(id), environment));
        let started = starting.await.unwrap();
        self.keep(id, started, runtime)
    }

    /// Starts a node that waits to be added, with an address and a directory of its own.
    pub(crate) async fn join_node(&mut self, id: u64) {
        self.addresses.entry(MasterId(id)).or_insert_with(free_address);
        self.dirs.entry(id).or_insert_with(|| tempfile::tempdir().unwrap());
        self.faults.entry(id).or_default();
        let (runtime, environment) = (runtime(), self.environment(id));
        let starting = runtime.spawn(Node::join_in(self.config(id), environment));
        let started = starting.await.unwrap();
        self.keep(id, started, runtime).unwrap();
    }

    /// The peer address at which a node starts.
    pub(crate) fn address(&self, id: u64) -> &str {
        &self.addresses[&MasterId(id)]
    }

    /// Lets a node start at another address from now on. Returns it.
    pub(crate) fn move_node(&mut self, id: u64) -> String {
        let address = free_address();
        self.addresses.insert(MasterId(id), address.clone());
        address
    }

    fn environment(&mut self, id: u64) -> Environment {
        let network = Arc::new(Faulty::new(OsNetwork, &self.faults[&id]));
        let fatal = Recorder::default();
        self.fatal.insert(id, fatal.clone());
        let gate = self.gates.entry(id).or_default().clone();
        let disk = Arc::new(Stalling { disk: OsDisk, gate });
        Environment { network, disk, fatal: Arc::new(fatal), ..Environment::os() }
    }

    fn keep(
        &mut self,
        id: u64,
        started: Result<Node<Register>, StartError>,
        runtime: Runtime,
    ) -> Result<(), StartError> {
        match started {
            Ok(node) => {
                self.nodes.insert(id, node);
                self.runtimes.insert(id, runtime);
                Ok(())
            }
            Err(refusal) => {
                runtime.shutdown_background();
                Err(refusal)
            }
        }
    }

    /// Takes everything away that a node wrote. It does not run.
    pub(crate) fn wipe(&self, id: u64) {
        std::fs::remove_dir_all(self.config(id).work_dir).unwrap();
    }

    /// What was fatal to the last life of a node.
    pub(crate) fn fatal(&self, id: u64) -> Vec<String> {
        self.fatal[&id].seen()
    }

    pub(crate) async fn stop_node(&mut self, id: u64) {
        self.nodes.remove(&id).unwrap().shutdown().await;
        self.runtimes.remove(&id).unwrap().shutdown_background();
    }

    /// Ends everything that runs for the node. The system closes its sockets.
    pub(crate) fn kill(&mut self, id: u64) {
        self.runtimes.remove(&id).unwrap().shutdown_background();
        self.nodes.remove(&id).unwrap();
    }

    /// What the nodes that live did about leaders, in the order of their ids.
    pub(crate) fn failovers(&self) -> Vec<FailoverCounts> {
        self.nodes.values().map(|node| node.status().failover).collect()
    }

    /// Waits until some node leads a term above `after` and the others follow it.
    pub(crate) async fn leader_after(&self, after: u64) -> (u64, Term) {
        let settled = || {
            let leads = |node: &Node<Register>| match *node.leadership().borrow() {
                Leadership::Leading { term } if term.0 > after => Some(term),
                _ => None,
            };
            let (id, term) = self.nodes.iter().find_map(|(id, n)| Some((*id, leads(n)?)))?;
            let following = Leadership::Following { leader: MasterId(id), term };
            self.nodes
                .iter()
                .all(|(other, node)| *other == id || *node.leadership().borrow() == following)
                .then_some((id, term))
        };
        eventually("a leader that all follow", settled).await
    }

    pub(crate) async fn leader(&self) -> (&Node<Register>, Term) {
        let (id, term) = self.leader_after(0).await;
        (&self.nodes[&id], term)
    }

    /// Some node that does not lead.
    pub(crate) async fn follower(&self) -> u64 {
        let (leader, _) = self.leader_after(0).await;
        *self.nodes.keys().find(|id| **id != leader).unwrap()
    }

    /// Waits until all nodes have applied the same entry, and compares their digests.
    pub(crate) async fn converge(&self) -> Vec<Status> {
        let statuses = eventually("equal applied positions", || {
            let statuses: Vec<Status> = self.nodes.values().map(Node::status).collect();
            let first = &statuses[0];
            statuses
                .iter()
                .all(|status| status.applied == first.last_log && status.digest.0 == first.digest.0)
                .then_some(statuses)
        })
        .await;
        for status in &statuses {
            assert_eq!(status.digest, statuses[0].digest, "digest of {}", status.id);
        }
        statuses
    }
}

/// Looks again and again until there is an answer.
pub(crate) async fn eventually<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    let waiting = async {
        loop {
            ticks.tick().await;
            if let Some(found) = look() {
                return found;
            }
        }
    };
    match tokio::time::timeout(PATIENCE, waiting).await {
        Ok(found) => found,
        Err(_) => panic!("waited in vain for {what}"),
    }
}
