//! One simulated machine: where it is, how its node is set up, and one life of it.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use raft::env::InTasks;
use raft::{Environment, Limits, Node, NodeConfig, StartError};
use resources::id::MasterId;
use tokio::runtime::Handle;

use crate::checks::{Nodes, Running};
use crate::support::Recorder;
use crate::support::disk::SimDisk;
use crate::support::faulty::Faulty;
use crate::world::{SIZE, name};

const PORT: u16 = 6050;

pub(crate) fn address(id: u64) -> String {
    format!("{}:{PORT}", name(id))
}

fn config(id: u64) -> NodeConfig {
    NodeConfig {
        id: MasterId(id),
        peers: (1..=SIZE).map(|id| (MasterId(id), address(id))).collect(),
        listen: format!("0.0.0.0:{PORT}"),
        work_dir: PathBuf::from("raft"),
        advertise: format!("{}:5050", name(id)),
        heartbeat: NodeConfig::HEARTBEAT,
        election_timeout: NodeConfig::ELECTION_TIMEOUT,
        limits: Limits { snapshot_entries: 100, kept_entries: 20, ..Limits::default() },
    }
}

/// One life of a machine.
pub(crate) async fn run(
    id: u64,
    disk: SimDisk,
    network: Arc<Faulty>,
    nodes: Arc<Mutex<Nodes>>,
    fatal: Recorder,
) -> turmoil::Result {
    let environment = Environment {
        network,
        disk: Arc::new(disk.clone()),
        executor: Arc::new(InTasks),
        fatal: Arc::new(fatal.clone()),
    };
    match Node::start_in(config(id), environment).await {
        Ok(node) => {
            let runtime = Handle::current();
            nodes.lock().insert(id, Running { node, runtime });
        }
        // The power failed before it was up.
        Err(_) if disk.is_off() => {}
        Err(refusal @ StartError::Wiped(_)) => fatal.note(refusal.to_string()),
        Err(refusal) => return Err(refusal.into()),
    }
    std::future::pending::<()>().await;
    Ok(())
}
