//! Nodes that come back without their disk. What they promised is gone, so nobody may count on
//! them under their old id, whoever is up at that moment.

use raft::{Leadership, Limits, Node, StartError, Wiped};
use redb::TableDefinition;
use resources::id::MasterId;

use crate::harness::{Cluster, eventually};
use crate::support::register::{Register, put};

/// Three nodes with an acknowledged write; the leader and the others.
async fn formed() -> (Cluster, u64, [u64; 2]) {
    let cluster = Cluster::start(3, Limits::default()).await;
    let (leader, _) = cluster.leader_after(0).await;
    cluster.nodes[&leader].propose(put(1, 1)).await.unwrap();
    cluster.converge().await;
    let others: Vec<u64> = (1..=3).filter(|id| *id != leader).collect();
    (cluster, leader, [others[0], others[1]])
}

fn has_stake(node: &Node<Register>) -> bool {
    let status = node.status();
    status.term.0 > 0 || status.last_log.is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wiped_follower_does_not_start_again() {
    let (mut cluster, leader, [wiped, _]) = formed().await;
    cluster.stop_node(wiped).await;
    cluster.wipe(wiped);
    let refusal = cluster.try_start_node(wiped).await.unwrap_err();
    let StartError::Wiped(Wiped { id, .. }) = &refusal else { panic!("{refusal}") };
    assert_eq!(*id, MasterId(wiped));
    assert!(refusal.to_string().contains("--join"), "{refusal}");
    cluster.nodes[&leader].propose(put(2, 2)).await.unwrap();
}

/// The moment in which a vote of the wiped one would elect a node that may lack acknowledged
/// entries. The follower has never heard of the wiped one by itself, but it met it when the
/// cluster was formed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wiped_follower_elects_nobody_while_the_leader_is_away() {
    let (mut cluster, leader, [wiped, other]) = formed().await;
    cluster.stop_node(wiped).await;
    cluster.stop_node(other).await;
    cluster.wipe(wiped);
    cluster.kill(leader);
    // Nobody is there who knows, so it waits, and promises nothing.
    cluster.start_node(wiped).await;
    assert!(!has_stake(&cluster.nodes[&wiped]));
    cluster.start_node(other).await;
    let said =
        eventually("the last word of the wiped node", || cluster.fatal(wiped).first().cloned())
            .await;
    assert!(said.contains(&format!("master {wiped} is known to master {other}")), "{said}");
    assert!(!has_stake(&cluster.nodes[&wiped]));
    let now = *cluster.nodes[&other].leadership().borrow();
    assert!(matches!(now, Leadership::Unknown { .. }), "{now}");

    // With the former leader everything is there again.
    cluster.kill(wiped);
    cluster.start_node(leader).await;
    cluster.leader_after(0).await;
    cluster.converge().await;
    for node in cluster.nodes.values() {
        assert!(node.read(|register| register.get(1)).is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_wiped_of_three_form_no_cluster_of_their_own() {
    let (mut cluster, leader, [one, two]) = formed().await;
    for id in 1..=3 {
        cluster.stop_node(id).await;
    }
    cluster.wipe(one);
    cluster.wipe(two);
    cluster.start_node(one).await;
    cluster.start_node(two).await;
    cluster.start_node(leader).await;
    for id in [one, two] {
        eventually("a refusal", || cluster.fatal(id).first().cloned()).await;
        assert!(!has_stake(&cluster.nodes[&id]));
    }
    assert!(cluster.nodes[&leader].status().last_log.is_some());
}

/// The first formation needs all: a pair of fresh nodes cannot tell a new cluster from one that
/// lost two disks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_is_formed_when_all_have_met() {
    let mut cluster = Cluster::new(3, Limits::default());
    cluster.start_node(1).await;
    cluster.start_node(2).await;
    // Not formed yet, so a new disk harms nobody.
    cluster.stop_node(1).await;
    cluster.wipe(1);
    cluster.start_node(1).await;
    assert!(cluster.nodes.values().all(|node| !has_stake(node)));
    cluster.start_node(3).await;
    cluster.leader_after(0).await;
    cluster.converge().await;
}

/// Directories of a version that knew no numbers get them, one after the other, and protect
/// their cluster from then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_directories_are_taken_over() {
    let (mut cluster, _, [wiped, _]) = formed().await;
    for id in 1..=3 {
        cluster.stop_node(id).await;
    }
    for id in 1..=3 {
        forget_numbers(&cluster, id);
    }
    for id in 1..=3 {
        cluster.start_node(id).await;
    }
    cluster.leader_after(0).await;
    cluster.converge().await;
    cluster.stop_node(wiped).await;
    cluster.wipe(wiped);
    let refusal = cluster.try_start_node(wiped).await.unwrap_err();
    assert!(matches!(refusal, StartError::Wiped(_)), "{refusal}");
}

const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("raft_meta");

/// Makes a directory of a version that knew no numbers.
fn forget_numbers(cluster: &Cluster, id: u64) {
    let path = cluster.config(id).work_dir.join("raft-log.redb");
    let database = redb::Database::open(path).unwrap();
    let write = database.begin_write().unwrap();
    for key in ["store", "stores"] {
        assert!(write.open_table(META).unwrap().remove(key).unwrap().is_some());
    }
    write.commit().unwrap();
}
