//! Members that come, go, move and are replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use raft::{Limits, MembershipError, Node, Role};
use resources::id::MasterId;

use crate::harness::{Cluster, eventually};
use crate::support::register::{Register, put};

fn roles(node: &Node<Register>) -> BTreeMap<u64, Role> {
    node.membership().into_iter().map(|member| (member.id.0, member.role)).collect()
}

fn voters(ids: &[u64]) -> BTreeMap<u64, Role> {
    ids.iter().map(|id| (*id, Role::Voter)).collect()
}

async fn leader(cluster: &Cluster) -> (u64, Node<Register>) {
    let (id, _) = cluster.leader_after(0).await;
    (id, cluster.nodes[&id].clone())
}

/// Some other node than these.
fn other_than(cluster: &Cluster, ids: &[u64]) -> u64 {
    *cluster.nodes.keys().find(|id| !ids.contains(id)).unwrap()
}

async fn add(cluster: &mut Cluster, id: u64) {
    cluster.join_node(id).await;
    let address = cluster.address(id).to_owned();
    // The cluster has a leader, but the new node does not know it yet.
    let node = eventually("a leader", || {
        let leads = |node: &&Node<Register>| node.status().last_quorum_ack.is_some();
        cluster.nodes.values().find(leads).cloned()
    })
    .await;
    node.add_learner(MasterId(id), &address).await.unwrap();
    // A repetition changes nothing.
    node.add_learner(MasterId(id), &address).await.unwrap();
}

async fn promoted(node: &Node<Register>, id: u64) {
    loop {
        match node.promote(MasterId(id)).await {
            Ok(_) => return,
            Err(MembershipError::NotCaughtUp { .. } | MembershipError::NotAnswering { .. }) => {
                let is_there = |member: &raft::Member| {
                    member.id.0 == id && member.lag == Some(0) && member.is_answering == Some(true)
                };
                let caught_up = || node.membership().iter().any(is_there).then_some(());
                eventually("a learner that has caught up", caught_up).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_is_added_promoted_and_removed() {
    let limits = Limits { snapshot_entries: 20, kept_entries: 5, ..Limits::default() };
    let mut cluster = Cluster::start(3, limits).await;
    let (leader, node) = leader(&cluster).await;
    node.set_cluster_id("c1").await.unwrap();
    for key in 0..100 {
        node.propose(put(key, key)).await.unwrap();
    }
    // Idle from here on: the learner gets the snapshot without a new write.
    node.snapshot().await.unwrap();
    add(&mut cluster, 4).await;
    assert_eq!(roles(&node)[&4], Role::Learner);
    let joined = cluster.nodes[&4].clone();
    eventually("the state on the learner", || {
        (joined.read(|register| register.len()) == 100).then_some(())
    })
    .await;
    eventually("the cluster id on the learner", || joined.cluster_id()).await;
    promoted(&node, 4).await;
    node.promote(MasterId(4)).await.unwrap();
    assert_eq!(roles(&node), voters(&[1, 2, 3, 4]));
    let member = node.membership().pop().unwrap();
    assert_eq!((member.id, &*member.address), (MasterId(4), cluster.address(4)));

    let removed = other_than(&cluster, &[leader, 4]);
    node.remove(MasterId(removed)).await.unwrap();
    cluster.stop_node(removed).await;
    let gone = node.remove(MasterId(removed)).await.unwrap_err();
    assert_eq!(gone, MembershipError::NotAMember { id: MasterId(removed) });
    // What was added goes on like any other member.
    cluster.stop_node(4).await;
    cluster.start_node(4).await;
    node.propose(put(1000, 1)).await.unwrap();
    cluster.converge().await;
    assert_eq!(cluster.nodes[&4].cluster_id().as_deref(), Some("c1"));
    assert_eq!(roles(&cluster.nodes[&4]).len(), 3);
}

/// Writes without a pause to whoever leads, and remembers what was acknowledged.
async fn write(nodes: Arc<Mutex<BTreeMap<u64, Node<Register>>>>, written: Arc<Mutex<u64>>) {
    for key in 0.. {
        let mut is_written = false;
        while !is_written {
            let nodes: Vec<_> = nodes.lock().values().cloned().collect();
            for node in nodes {
                let proposing =
                    tokio::time::timeout(Duration::from_secs(5), node.propose(put(key, key)));
                is_written = matches!(proposing.await, Ok(Ok(_)));
                if is_written {
                    break;
                }
            }
            tokio::task::yield_now().await;
        }
        *written.lock() = key + 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_member_is_replaced_under_load() {
    let limits = Limits { snapshot_entries: 200, kept_entries: 50, ..Limits::default() };
    let mut cluster = Cluster::start(3, limits).await;
    let (first, _) = leader(&cluster).await;
    let nodes = Arc::new(Mutex::new(cluster.nodes.clone()));
    let written = Arc::default();
    let writer = tokio::spawn(write(nodes.clone(), Arc::clone(&written)));
    // The leader last.
    let mut old: Vec<u64> = (1..=3).filter(|id| *id != first).collect();
    old.push(first);
    for (old, new) in old.into_iter().zip(4_u64..) {
        cluster.join_node(new).await;
        let address = cluster.address(new).to_owned();
        loop {
            let leads = |node: &&Node<Register>| {
                matches!(*node.leadership().borrow(), raft::Leadership::Leading { .. })
            };
            let node = eventually("a leader", || cluster.nodes.values().find(leads).cloned()).await;
            match node.replace(MasterId(old), MasterId(new), &address).await {
                Ok(_) => break,
                Err(error) => assert!(error.is_retryable(), "{old} by {new}: {error}"),
            }
        }
        nodes.lock().remove(&old);
        cluster.stop_node(old).await;
        nodes.lock().insert(new, cluster.nodes[&new].clone());
    }
    let before = *written.lock();
    eventually("more writes", || (*written.lock() > before + 20).then_some(())).await;
    writer.abort();
    drop(writer.await);
    cluster.leader_after(0).await;
    cluster.converge().await;
    let acknowledged = *written.lock();
    for node in cluster.nodes.values() {
        assert_eq!(roles(node), voters(&[4, 5, 6]));
        for key in 0..acknowledged {
            assert!(node.read(|register| register.get(key)).is_some(), "lost {key}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_that_cannot_be_right_are_refused() {
    let mut cluster = Cluster::start(3, Limits::default()).await;
    let (id, node) = leader(&cluster).await;
    let follower = other_than(&cluster, &[id]);
    let last = other_than(&cluster, &[id, follower]);
    let four = MasterId(4);
    let refusal = cluster.nodes[&follower].add_learner(four, "127.0.0.1:1").await.unwrap_err();
    assert_eq!(refusal, MembershipError::NotLeader { leader: Some(MasterId(id)) });
    let refusal = node.add_learner(four, "127.0.0.1:1").await.unwrap_err();
    assert!(matches!(refusal, MembershipError::Unreachable { .. }), "{refusal}");
    let taken = cluster.address(follower).to_owned();
    let refusal = node.add_learner(four, &taken).await.unwrap_err();
    let (holder, address) = (MasterId(follower), taken);
    assert_eq!(refusal, MembershipError::AddressTaken { id: holder, address });
    assert_eq!(node.promote(four).await.unwrap_err(), MembershipError::NotAMember { id: four });
    // Another node than the one that was meant, and a node that has a cluster.
    cluster.join_node(5).await;
    let address = cluster.address(5).to_owned();
    let refusal = node.add_learner(four, &address).await.unwrap_err();
    assert!(matches!(refusal, MembershipError::Refused { .. }), "{refusal}");
    let other = Cluster::start(1, Limits::default()).await;
    other.leader().await.0.set_cluster_id("other").await.unwrap();
    node.set_cluster_id("c1").await.unwrap();
    let refusal = node.add_learner(MasterId(1), other.address(1)).await.unwrap_err();
    assert!(!refusal.is_retryable(), "{refusal}");

    // A learner that is silent stays one.
    node.add_learner(MasterId(5), &address).await.unwrap();
    cluster.kill(5);
    node.propose(put(1, 1)).await.unwrap();
    let refusal = eventually("silence", || {
        let members = node.membership();
        let silent = members.iter().any(|m| m.id.0 == 5 && m.is_answering == Some(false));
        silent.then_some(())
    });
    refusal.await;
    let refusal = node.promote(MasterId(5)).await.unwrap_err();
    assert!(refusal.is_retryable(), "{refusal}");
    // Dead learners and voters can go, the last living ones cannot.
    node.remove(MasterId(5)).await.unwrap();
    cluster.kill(last);
    eventually("the death of a voter", || {
        let dead = |m: &raft::Member| m.id.0 == last && m.is_answering == Some(false);
        node.membership().iter().any(dead).then_some(())
    })
    .await;
    let refusal = node.remove(MasterId(follower)).await.unwrap_err();
    assert_eq!(refusal, MembershipError::QuorumLost { voters: 2, answering: 1, needed: 2 });
    node.remove(MasterId(last)).await.unwrap();
    assert_eq!(roles(&node), voters(&[id.min(follower), id.max(follower)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_hands_over_before_it_is_removed() {
    let cluster = Cluster::start(3, Limits::default()).await;
    let (old, term) = cluster.leader_after(0).await;
    let node = cluster.nodes[&old].clone();
    let refusal = node.remove(MasterId(old)).await.unwrap_err();
    let MembershipError::NotLeader { leader: Some(next) } = refusal else { panic!("{refusal}") };
    cluster.leader_after(term.0).await;
    let next = &cluster.nodes[&next.0];
    next.remove(MasterId(old)).await.unwrap();
    assert_eq!(roles(next).len(), 2);
    next.propose(put(1, 1)).await.unwrap();
    // Then one of two, and the last one is never removed.
    let (me, other) =
        (next.status().id, *roles(next).keys().find(|id| **id != next.status().id.0).unwrap());
    next.remove(MasterId(other)).await.unwrap();
    let refusal = next.remove(me).await.unwrap_err();
    assert_eq!(refusal, MembershipError::QuorumLost { voters: 0, answering: 0, needed: 1 });
    next.propose(put(2, 2)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_moves_to_another_address() {
    let mut cluster = Cluster::start(3, Limits::default()).await;
    let (id, node) = leader(&cluster).await;
    let moved = other_than(&cluster, &[id]);
    let former = cluster.address(moved).to_owned();
    cluster.stop_node(moved).await;
    let address = cluster.move_node(moved);
    let refusal = node.set_address(MasterId(moved), &address).await.unwrap_err();
    assert!(matches!(refusal, MembershipError::Unreachable { .. }), "{refusal}");
    cluster.start_node(moved).await;
    node.replace(MasterId(moved), MasterId(moved), &address).await.unwrap();
    for key in 0..10 {
        node.propose(put(key, key)).await.unwrap();
    }
    cluster.leader_after(0).await;
    cluster.converge().await;
    let addresses: BTreeSet<String> = node.membership().into_iter().map(|m| m.address).collect();
    assert!(addresses.contains(&address) && !addresses.contains(&former));
}

/// The whole way out of a lost disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wiped_member_is_replaced_under_a_new_id() {
    let mut cluster = Cluster::start(3, Limits::default()).await;
    let (id, node) = leader(&cluster).await;
    node.propose(put(1, 1)).await.unwrap();
    let wiped = other_than(&cluster, &[id]);
    cluster.stop_node(wiped).await;
    cluster.wipe(wiped);
    assert!(cluster.try_start_node(wiped).await.is_err());
    cluster.join_node(4).await;
    let address = cluster.address(4).to_owned();
    node.replace(MasterId(wiped), MasterId(4), &address).await.unwrap();
    node.propose(put(2, 2)).await.unwrap();
    cluster.leader_after(0).await;
    cluster.converge().await;
    assert_eq!(cluster.nodes[&4].read(|register| register.len()), 2);

    // The one that was added is known by its disk, too.
    cluster.stop_node(4).await;
    cluster.wipe(4);
    cluster.join_node(4).await;
    let said = eventually("a refusal", || cluster.fatal(4).first().cloned()).await;
    assert!(said.contains("master 4 is known to master"), "{said}");
    assert_eq!(cluster.nodes[&4].status().last_log, None);
}

/// A caller that goes away leaves nothing in the middle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_change_is_finished() {
    let mut cluster = Cluster::start(3, Limits::default()).await;
    let (_, node) = leader(&cluster).await;
    add(&mut cluster, 4).await;
    eventually("a learner that has caught up", || {
        node.membership().iter().any(|m| m.id.0 == 4 && m.lag == Some(0)).then_some(())
    })
    .await;
    // The caller goes as soon as the first of the two sets of voters is in the log.
    tokio::select! {
        () = eventually("a voter", || (roles(&node)[&4] == Role::Voter).then_some(())) => {}
        done = node.promote(MasterId(4)) => drop(done.unwrap()),
    }
    let removed = loop {
        match node.remove(MasterId(4)).await {
            Err(MembershipError::InProgress) => tokio::task::yield_now().await,
            other => break other,
        }
    };
    removed.unwrap();
    assert_eq!(roles(&node), voters(&[1, 2, 3]));
}
