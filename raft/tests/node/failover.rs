//! Leaders that die, that only lose their connections, or that only seem to be dead. What was
//! done is read off the counters and the terms, never off a clock.

use std::sync::Arc;
use std::time::Duration;

use raft::env::{InTasks, OsNetwork};
use raft::{
    Batch, Chunk, CorruptSnapshot, Environment, FailoverCounts, Leadership, Limits, Machine, Node,
    NodeConfig,
};
use resources::id::{LogIndex, MasterId, Term};
use resources::time::Timestamp;

use crate::harness::{Cluster, eventually};
use crate::support::Recorder;
use crate::support::disk::SimDisk;
use crate::support::register::put;

fn sum(counts: &[FailoverCounts], field: impl Fn(&FailoverCounts) -> u64) -> u64 {
    counts.iter().map(field).sum()
}

/// A leader that everybody follows, and an acknowledged write.
async fn settled(cluster: &Cluster) -> (u64, Term) {
    let (leader, term) = cluster.leader_after(0).await;
    cluster.nodes[&leader].propose(put(1, 1)).await.unwrap();
    cluster.converge().await;
    (leader, term)
}

/// After rounds in which every node applied something, the leader and its term are the same.
async fn assert_still_leads(cluster: &Cluster, leader: u64, term: Term) {
    for key in 0..3 {
        assert_eq!(cluster.leader_after(0).await, (leader, term));
        cluster.nodes[&leader].propose(put(key, 2)).await.unwrap();
        cluster.converge().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_leader_is_replaced_without_waiting_for_its_lease() {
    let mut cluster = Cluster::start(3, Limits::default()).await;
    let (leader, term) = settled(&cluster).await;
    cluster.kill(leader);
    let (next, next_term) = cluster.leader_after(term.0).await;
    assert!(next_term > term);
    let counts = cluster.failovers();
    assert_eq!(sum(&counts, |counts| counts.leases_released), 2, "{counts:?}");
    assert!(counts.iter().all(|counts| counts.found_dead >= 1), "{counts:?}");
    let winner = cluster.nodes[&next].status().failover;
    assert!(winner.fast_elections >= 1, "{winner:?}");
    let node = &cluster.nodes[&next];
    assert_eq!(node.read(|register| register.get(1)).unwrap().0, 1);
    node.propose(put(2, 2)).await.unwrap();

    // The dead one comes back as a follower.
    cluster.start_node(leader).await;
    assert_still_leads(&cluster, next, next_term).await;
}

/// Nobody is sent to a dead address while the next leader is not known yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_leader_is_not_named_any_more() {
    let mut cluster = Cluster::start(3, Limits::default()).await;
    let (leader, term) = settled(&cluster).await;
    let mut watches: Vec<_> = cluster
        .nodes
        .iter()
        .filter(|(id, _)| **id != leader)
        .map(|(_, node)| node.leadership())
        .collect();
    cluster.kill(leader);
    let dead = Leadership::Following { leader: MasterId(leader), term };
    for watch in &mut watches {
        watch.wait_for(|now| *now != dead).await.unwrap();
    }
    cluster.leader_after(term.0).await;
    for node in cluster.nodes.values() {
        let counts = node.status().failover;
        assert_eq!(counts.leases_released, 1, "{counts:?}");
    }
}

/// The second one dies while the others may still look after the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_killed_in_a_row_are_all_replaced() {
    let mut cluster = Cluster::start(5, Limits::default()).await;
    let (first, term) = settled(&cluster).await;
    cluster.kill(first);
    let mut leadership = cluster.nodes.values().next().unwrap().leadership();
    let follows_another = |now: &Leadership| match now {
        Leadership::Leading { .. } => true,
        Leadership::Following { leader, .. } => *leader != MasterId(first),
        Leadership::Unknown { .. } => false,
    };
    let second = match *leadership.wait_for(follows_another).await.unwrap() {
        Leadership::Following { leader, .. } => leader.0,
        _ => *cluster.nodes.keys().next().unwrap(),
    };
    cluster.kill(second);
    let (third, next_term) = cluster.leader_after(term.0).await;
    assert!(third != first && third != second && next_term.0 >= term.0 + 2);
    cluster.nodes[&third].propose(put(2, 2)).await.unwrap();
    cluster.converge().await;
    let counts = cluster.failovers();
    assert!(sum(&counts, |counts| counts.fast_elections) >= 1, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connections_of_a_living_leader_change_nothing() {
    let cluster = Cluster::start(3, Limits::default()).await;
    let (leader, term) = settled(&cluster).await;
    eventually("probes of the living leader", || {
        for (id, faults) in &cluster.faults {
            if *id != leader {
                faults.cut();
            }
        }
        (sum(&cluster.failovers(), |counts| counts.found_alive) >= 3).then_some(())
    })
    .await;
    assert_still_leads(&cluster, leader, term).await;
    let counts = cluster.failovers();
    assert_eq!(sum(&counts, |counts| counts.found_dead), 0, "{counts:?}");
    assert_eq!(sum(&counts, |counts| counts.leases_released), 0, "{counts:?}");
    assert_eq!(sum(&counts, |counts| counts.fast_elections), 0, "{counts:?}");
}

/// One follower believes that the leader is dead. The other looks for itself and refuses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fooled_follower_changes_nothing() {
    let cluster = Cluster::start(3, Limits::default()).await;
    let (leader, term) = settled(&cluster).await;
    let fooled = cluster.follower().await;
    cluster.faults[&fooled].refuse_knocks();
    let counts = || cluster.nodes[&fooled].status().failover;
    for elections in 1..=3 {
        eventually("an election that nobody wants", || {
            cluster.faults[&fooled].cut();
            (counts().fast_elections >= elections).then_some(())
        })
        .await;
        assert_still_leads(&cluster, leader, term).await;
    }
    assert!(counts().leases_released >= 1 && counts().found_dead >= 1, "{:?}", counts());
}

/// What a stopped process or a silent network looks like: nothing is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_leader_is_left_to_the_election_timeout() {
    let mut cluster = Cluster::start(3, Limits::default()).await;
    let (leader, term) = settled(&cluster).await;
    cluster.faults[&leader].fall_silent();
    let next = eventually("another leader", || {
        let leads = |node: &Node<_>| match *node.leadership().borrow() {
            Leadership::Leading { term: now } => now > term,
            Leadership::Following { .. } | Leadership::Unknown { .. } => false,
        };
        cluster.nodes.iter().find(|(_, node)| leads(node)).map(|(id, _)| *id)
    })
    .await;
    assert_ne!(next, leader);
    cluster.kill(leader);
    let counts = cluster.failovers();
    assert_eq!(sum(&counts, |counts| counts.found_dead), 0, "{counts:?}");
    assert_eq!(sum(&counts, |counts| counts.leases_released), 0, "{counts:?}");
    assert_eq!(sum(&counts, |counts| counts.fast_elections), 0, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_goes_to_a_voter_that_answers() {
    let mut cluster = Cluster::start(3, Limits::default()).await;
    let (leader, term) = settled(&cluster).await;
    let [one, other] = [1, 2, 3].into_iter().filter(|id| *id != leader).collect::<Vec<_>>()[..]
    else {
        panic!("two followers")
    };
    cluster.kill(one);
    let node = cluster.nodes[&leader].clone();
    // The dead one's log is as long as the others' were; only its silence tells.
    node.propose(put(2, 2)).await.unwrap();
    node.transfer_leadership(None).await.unwrap();
    assert_eq!(cluster.leader_after(term.0).await.0, other);
}

/// Cannot apply anything.
#[derive(Default)]
struct Broken;

impl Machine for Broken {
    type Command = ();
    type Response = ();
    type Effect = ();
    type Frozen = ();

    fn apply(&mut self, _: LogIndex, _: &Batch<()>) -> Vec<((), Vec<()>)> {
        panic!("the machine is broken on purpose")
    }
    fn freeze(&self) {}
    fn chunks((): &()) -> impl Iterator<Item = Chunk> {
        std::iter::empty()
    }
    fn thaw(_: impl Iterator<Item = Chunk>) -> Result<Self, CorruptSnapshot> {
        Ok(Self)
    }
}

/// A node without its core would hold its connections and its peers' patience for nothing.
#[tokio::test(start_paused = true)]
async fn panicking_core_ends_the_process() {
    let fatal = Recorder::default();
    let environment = Environment {
        network: Arc::new(OsNetwork),
        disk: Arc::new(SimDisk::default()),
        executor: Arc::new(InTasks),
        fatal: Arc::new(fatal.clone()),
    };
    let address = "127.0.0.1:1".to_owned();
    let config = NodeConfig {
        id: MasterId(1),
        peers: [(MasterId(1), address)].into(),
        listen: "127.0.0.1:0".to_owned(),
        work_dir: "disk".into(),
        advertise: "public:1".to_owned(),
        heartbeat: NodeConfig::HEARTBEAT,
        election_timeout: NodeConfig::ELECTION_TIMEOUT,
        limits: Limits::default(),
    };
    let node = Node::<Broken>::start_in(config, environment).await.unwrap();
    let mut leadership = node.leadership();
    leadership.wait_for(|now| matches!(now, Leadership::Leading { .. })).await.unwrap();
    let at = Timestamp::from_nanos(0);
    let patience = Duration::from_secs(60);
    let batch = Batch { at, wall: at, commands: vec![()] };
    let answer = tokio::time::timeout(patience, node.propose(batch)).await;
    assert!(answer.unwrap().is_err());
    eventually("the last resort", || fatal.seen().first().cloned()).await;
    node.shutdown().await;
}
