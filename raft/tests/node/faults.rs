//! Disks that fail, and power that goes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use raft::env::{InTasks, OsNetwork};
use raft::{Environment, Leadership, Limits, Node, NodeConfig, StartError};
use resources::id::MasterId;

use crate::support::Recorder;
use crate::support::disk::SimDisk;
use crate::support::register::{Register, put};

/// Longer than any answer takes in paused time.
const PATIENCE: Duration = Duration::from_secs(60);

async fn start(disk: &SimDisk, fatal: &Recorder) -> Result<Node<Register>, StartError> {
    let environment = Environment {
        network: Arc::new(OsNetwork),
        disk: Arc::new(disk.clone()),
        executor: Arc::new(InTasks),
        fatal: Arc::new(fatal.clone()),
    };
    let config = NodeConfig {
        id: MasterId(1),
        peers: BTreeMap::from([(MasterId(1), "127.0.0.1:1".to_owned())]),
        listen: "127.0.0.1:0".to_owned(),
        work_dir: PathBuf::from("disk"),
        advertise: "public:1".to_owned(),
        heartbeat: NodeConfig::HEARTBEAT,
        election_timeout: NodeConfig::ELECTION_TIMEOUT,
        limits: Limits { kept_entries: 1, ..Limits::default() },
    };
    Node::start_in(config, environment).await
}

async fn lead(node: &Node<Register>) -> bool {
    let mut leadership = node.leadership();
    let leading = leadership.wait_for(|now| matches!(now, Leadership::Leading { .. }));
    matches!(tokio::time::timeout(PATIENCE, leading).await, Ok(Ok(_)))
}

/// Writes key after key until something fails, with a snapshot on the way. Returns what was
/// acknowledged.
async fn write(node: &Node<Register>, keys: std::ops::Range<u64>) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    for key in keys {
        let answer = tokio::time::timeout(PATIENCE, node.propose(put(key, key))).await;
        match answer.expect("a failed disk is answered, too") {
            Ok(_) => acknowledged.push(key),
            Err(_) => break,
        }
        if key % 4 == 3 && tokio::time::timeout(PATIENCE, node.snapshot()).await.is_err() {
            break;
        }
    }
    acknowledged
}

/// Timeouts below what the disk needs would never give a leader.
#[tokio::test(start_paused = true)]
async fn slow_disk_raises_the_timeouts() {
    let (disk, fatal) = (SimDisk::default(), Recorder::default());
    let node = start(&disk, &fatal).await.unwrap();
    let configured = node.status().timing;
    assert_eq!(configured.heartbeat, NodeConfig::HEARTBEAT);
    assert_eq!(configured.election_timeout, NodeConfig::ELECTION_TIMEOUT);
    node.shutdown().await;
    let slow = Duration::from_millis(150);
    disk.syncs_take(slow);
    let node = start(&disk, &fatal).await.unwrap();
    let raised = node.status().timing;
    assert_eq!(raised.sync_p99, slow);
    assert_eq!((raised.heartbeat, raised.election_timeout), (slow * 4 / 3, slow * 4));
    assert!(lead(&node).await);
    node.shutdown().await;
    assert_eq!(fatal.seen(), [""; 0]);
}

/// For every n: the n-th write, change of length or sync of the disk fails. Then the hook
/// fires, the power goes, and what was acknowledged is still there.
#[tokio::test(start_paused = true)]
async fn failing_write_is_fatal_and_takes_nothing_acknowledged() {
    let mut fired = 0;
    for n in 1.. {
        let (disk, fatal) = (SimDisk::default(), Recorder::default());
        disk.fail_at(n);
        let mut acknowledged = Vec::new();
        let started = start(&disk, &fatal).await;
        if let Ok(node) = &started
            && lead(node).await
        {
            acknowledged = write(node, 0..6).await;
        }
        if !disk.has_failed() {
            assert!(fatal.seen().is_empty(), "{:?}", fatal.seen());
            assert_eq!(acknowledged.len(), 6);
            break;
        }
        fired = n;
        if let Ok(node) = started {
            assert!(!fatal.seen().is_empty(), "operation {n} failed unnoticed");
            disk.cut(n);
            node.shutdown().await;
        }
        disk.cut(n + 1_000_000);

        let fresh = Recorder::default();
        let node = start(&disk, &fresh).await.unwrap_or_else(|error| panic!("{n}: {error}"));
        assert!(lead(&node).await, "{n}");
        for key in acknowledged {
            assert!(node.read(|register| register.get(key)).is_some(), "{n}: lost {key}");
        }
        assert_eq!(write(&node, 100..102).await.len(), 2, "{n}");
        node.shutdown().await;
    }
    assert!(fired > 50, "only {fired} operations");
}

/// Kills between writes: the disk forgets what was not synced, and nobody closes anything.
#[tokio::test(start_paused = true)]
async fn killed_node_keeps_every_acknowledged_write() {
    let disk = SimDisk::default();
    let mut acknowledged = Vec::new();
    for round in 0..20_u64 {
        let fatal = Recorder::default();
        let node = start(&disk, &fatal).await.unwrap();
        assert!(lead(&node).await);
        for key in &acknowledged {
            assert!(node.read(|register| register.get(*key)).is_some(), "{round}: lost {key}");
        }
        acknowledged.extend(write(&node, round * 10..round * 10 + 5).await);
        // Something is under way when the power goes.
        let under_way = tokio::spawn({
            let node = node.clone();
            async move { node.propose(put(round * 10 + 9, 0)).await }
        });
        tokio::task::yield_now().await;
        disk.cut(round);
        under_way.abort();
        drop(under_way.await);
        node.shutdown().await;
    }
    assert_eq!(acknowledged.len(), 100);
}
