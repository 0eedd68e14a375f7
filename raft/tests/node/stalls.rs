//! Disks that do not answer, for as long as the test says. Nothing fails, it only takes for ever.

use raft::{Leadership, Limits, Node};
use resources::id::Term;

use crate::harness::{Cluster, eventually};
use crate::support::register::{Register, put};

/// Lets the disk of a node stall while it has something to write.
async fn stall(cluster: &Cluster, id: u64, proposer: &Node<Register>) {
    cluster.gates[&id].close();
    let proposer = proposer.clone();
    drop(tokio::spawn(async move { proposer.propose(put(1000, 1)).await }));
    let node = &cluster.nodes[&id];
    eventually("a stall", || node.status().disk_stalled).await;
}

async fn recovered(node: &Node<Register>) {
    eventually("the end of a stall", || node.status().disk_stalled.is_none().then_some(())).await;
}

fn led_term(node: &Node<Register>) -> Option<Term> {
    match *node.leadership().borrow() {
        Leadership::Leading { term } => Some(term),
        Leadership::Following { .. } | Leadership::Unknown { .. } => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_with_a_stalled_disk_is_replaced_and_comes_back() {
    let cluster = Cluster::start(3, Limits::default()).await;
    let (old, term) = cluster.leader_after(0).await;
    let stalled = &cluster.nodes[&old];
    stalled.propose(put(1, 1)).await.unwrap();
    stall(&cluster, old, stalled).await;
    let (next, next_term) = eventually("another leader", || {
        let mut others = cluster.nodes.iter().filter(|(id, _)| **id != old);
        others.find_map(|(_, node)| Some((node, led_term(node)?)))
    })
    .await;
    assert!(next_term > term);
    assert_eq!(led_term(stalled), None);
    assert!(stalled.status().disk_stalled.is_some());
    // The other two are a quorum.
    next.propose(put(2, 2)).await.unwrap();
    assert!(stalled.status().disk_stalled.is_some());

    cluster.gates[&old].open();
    let (_, last_term) = cluster.leader_after(term.0).await;
    assert_eq!(last_term, next_term, "its return disturbs nobody");
    cluster.converge().await;
    recovered(stalled).await;
    assert!(stalled.read(|register| register.get(2)).is_some());
    // It may lead again.
    let id = stalled.status().id;
    next.transfer_leadership(Some(id)).await.unwrap();
    assert_eq!(cluster.leader_after(next_term.0).await.0, old);
    stalled.propose(put(3, 3)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follower_with_a_stalled_disk_stands_for_nothing() {
    let mut cluster = Cluster::start(3, Limits::default()).await;
    let (leader, term) = cluster.leader_after(0).await;
    let stalled = cluster.follower().await;
    stall(&cluster, stalled, &cluster.nodes[&leader]).await;
    cluster.nodes[&leader].propose(put(1, 1)).await.unwrap();
    assert_eq!(cluster.leader_after(0).await, (leader, term));

    // Without the leader there is no quorum, and the stalled one does not ask for one.
    cluster.kill(leader);
    let node = cluster.nodes[&stalled].clone();
    eventually("the death of the leader", || {
        matches!(*node.leadership().borrow(), Leadership::Unknown { .. }).then_some(())
    })
    .await;
    assert_eq!(node.status().failover.fast_elections, 0);
    assert!(node.status().disk_stalled.is_some());
    cluster.gates[&stalled].open();
    let (next, _) = cluster.leader_after(term.0).await;
    cluster.nodes[&next].propose(put(2, 2)).await.unwrap();
    cluster.converge().await;
    recovered(&node).await;
    assert!(node.read(|register| register.get(1)).is_some());
}

/// Alone, a node has nobody to hand over to; it goes on when its disk does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_node_waits_for_its_disk() {
    let cluster = Cluster::start(1, Limits::default()).await;
    let (node, term) = cluster.leader().await;
    stall(&cluster, 1, node).await;
    cluster.gates[&1].open();
    node.propose(put(2, 2)).await.unwrap();
    assert!(node.read(|register| register.get(1000)).is_some());
    assert_eq!(cluster.leader_after(0).await, (1, term));
    recovered(node).await;
}

/// Both others are gone when the disk of the leader stalls, so nobody takes over. It must not
/// stay a leader that nobody may vote for and that cannot lead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_that_nobody_succeeds_stands_for_election_again() {
    let mut cluster = Cluster::start(3, Limits::default()).await;
    let (old, term) = cluster.leader_after(0).await;
    let node = cluster.nodes[&old].clone();
    node.propose(put(1, 1)).await.unwrap();
    let others: Vec<u64> = (1..=3).filter(|id| *id != old).collect();
    for id in &others {
        cluster.kill(*id);
    }
    // Longer than the others' logs from here on: only this node can be elected.
    stall(&cluster, old, &node).await;
    eventually("the end of the office", || led_term(&node).is_none().then_some(())).await;
    cluster.gates[&old].open();
    cluster.start_node(others[0]).await;
    let (next, next_term) = cluster.leader_after(term.0).await;
    assert!(next_term > term);
    cluster.nodes[&next].propose(put(2, 2)).await.unwrap();
    cluster.converge().await;
}
