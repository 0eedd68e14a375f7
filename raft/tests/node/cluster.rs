//! Three nodes on loopback, with real sockets, threads and files.

use raft::{ClusterIdError, Leadership, Limits, ProposeError};
use resources::id::{LogIndex, MasterId, Term};

use crate::harness::{Cluster, eventually};
use crate::support::register::{Replaced, padded, put};

fn small_snapshots() -> Limits {
    Limits { snapshot_entries: 20, kept_entries: 5, ..Limits::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn committed_batches_reach_every_node() {
    let cluster = Cluster::start(3, Limits::default()).await;
    let (leader, term) = cluster.leader().await;
    let first = leader.propose(put(1, 10)).await.unwrap();
    let second = leader.propose(put(1, 11)).await.unwrap();
    assert_eq!(first.responses, [Replaced(None)]);
    assert_eq!(second.responses, [Replaced(Some(10))]);
    assert!(second.index > first.index);
    cluster.converge().await;
    for node in cluster.nodes.values() {
        assert_eq!(node.read(|register| register.get(1)), Some((11, second.index)));
        assert_eq!(node.freeze().1.get(1), Some((11, second.index)));
    }
    let status = leader.status();
    assert_eq!((status.term, status.leadership), (term, Leadership::Leading { term }));
    assert!(status.commit_p99.is_some());
    assert!(status.last_quorum_ack.is_some());
    assert!(status.peers.iter().all(|peer| peer.matched.is_some()), "{:?}", status.peers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_refuse_and_name_the_leader() {
    let cluster = Cluster::start(3, Limits::default()).await;
    let follower = &cluster.nodes[&cluster.follower().await];
    let (leader, _) = cluster.leader().await;
    let refusal = ProposeError::NotLeader { leader: Some(leader.status().id) };
    assert_eq!(follower.propose(put(1, 1)).await.unwrap_err(), refusal);
    assert_eq!(follower.read_barrier().await.unwrap_err(), refusal);
    assert_eq!(follower.transfer_leadership(None).await.unwrap_err(), refusal);
    let id = leader.status().id;
    assert_eq!(follower.peer_advertise(id), Some(format!("public{id}:5050")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_follower_catches_up_from_the_log() {
    let mut cluster = Cluster::start(3, Limits::default()).await;
    let follower = cluster.follower().await;
    cluster.stop_node(follower).await;
    for key in 0..10 {
        cluster.leader().await.0.propose(put(key, key)).await.unwrap();
    }
    cluster.start_node(follower).await;
    cluster.leader().await;
    cluster.converge().await;
    assert_eq!(cluster.nodes[&follower].read(|register| register.len()), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lagging_follower_gets_the_snapshot() {
    let mut cluster = Cluster::start(3, small_snapshots()).await;
    let follower = cluster.follower().await;
    cluster.leader().await.0.propose(put(1000, 1)).await.unwrap();
    cluster.converge().await;
    let had = cluster.nodes[&follower].status().last_log;
    cluster.stop_node(follower).await;
    let (leader, _) = cluster.leader().await;
    for key in 0..100 {
        leader.propose(put(key, key)).await.unwrap();
    }
    let covered = leader.snapshot().await.unwrap();
    assert!(covered >= LogIndex(100));
    eventually("a purge past the follower's log", || (leader.status().purged > had).then_some(()))
        .await;
    cluster.start_node(follower).await;
    cluster.leader().await;
    cluster.converge().await;
    let node = &cluster.nodes[&follower];
    assert_eq!(node.read(|register| register.len()), 101);
    assert!(node.status().snapshot.unwrap() > had.unwrap());

    // What was installed is on its disk: it starts from there.
    cluster.stop_node(follower).await;
    cluster.start_node(follower).await;
    assert!(cluster.nodes[&follower].status().applied.unwrap() > had.unwrap());
    cluster.leader().await;
    cluster.converge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_of_large_batches_is_bounded_by_bytes() {
    let limits = Limits { snapshot_log_bytes: 64 << 10, ..Limits::default() };
    let cluster = Cluster::start(1, limits).await;
    let (leader, _) = cluster.leader().await;
    for key in 0..40 {
        leader.propose(padded(key, key, 8 << 10)).await.unwrap();
    }
    eventually("a purge", || leader.status().purged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_is_handed_over() {
    let cluster = Cluster::start(3, Limits::default()).await;
    let (old, term) = cluster.leader().await;
    old.propose(put(1, 1)).await.unwrap();
    old.transfer_leadership(None).await.unwrap();
    let (id, next) = cluster.leader_after(term.0).await;
    assert!(next > term);
    assert_ne!(MasterId(id), old.status().id);
    let back = old.status().id;
    cluster.nodes[&id].transfer_leadership(Some(back)).await.unwrap();
    assert_eq!(cluster.leader_after(next.0).await.0, back.0);
    old.propose(put(1, 2)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_see_everything_acknowledged_before_them() {
    let cluster = Cluster::start(3, Limits::default()).await;
    let (leader, _) = cluster.leader().await;
    for key in 0..20 {
        let index = leader.propose(put(key, key)).await.unwrap().index;
        assert!(leader.read_barrier().await.unwrap() >= index);
    }
    let barriers = (0..200).map(|_| {
        let node = leader.clone();
        tokio::spawn(async move { node.read_barrier().await })
    });
    for barrier in barriers.collect::<Vec<_>>() {
        assert!(barrier.await.unwrap().is_ok());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_read_or_proposed_without_a_quorum() {
    let mut cluster = Cluster::start(3, Limits::default()).await;
    let (id, _) = cluster.leader_after(0).await;
    for other in [1, 2, 3].into_iter().filter(|other| *other != id) {
        cluster.stop_node(other).await;
    }
    let leader = &cluster.nodes[&id];
    assert!(leader.read_barrier().await.is_err());
    // Once the last acknowledgement of a quorum is older than the longest election timeout.
    let refused = eventually("a definite refusal", || {
        let stale = leader
            .status()
            .last_quorum_ack
            .is_none_or(|ack| ack > cluster.config(id).election_timeout_max());
        stale.then(|| leader.clone())
    })
    .await
    .propose(put(1, 1))
    .await
    .unwrap_err();
    assert!(refused.is_definite(), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sink_starts_where_the_look_at_the_state_ended() {
    let cluster = Cluster::start(3, Limits::default()).await;
    let (leader, term) = cluster.leader().await;
    leader.propose(put(1, 1)).await.unwrap();
    let look = |index, register: &crate::support::register::Register| (index, register.len());
    let ((index, keys), mut sink) = leader.assume(term, look).await.unwrap();
    assert_eq!(keys, 1);
    let committed = leader.propose(put(2, 5)).await.unwrap();
    let applied = sink.recv().await.unwrap();
    assert_eq!(applied.index, committed.index);
    assert!(applied.index > index);
    assert_eq!(applied.outcomes.len(), 1);
    assert_eq!(applied.outcomes[0].1, [2]);

    let (_, mut fresh) = leader.assume(term, look).await.unwrap();
    assert!(sink.recv().await.is_none(), "the former sink ends");
    leader.propose(put(3, 5)).await.unwrap();
    assert_eq!(fresh.recv().await.unwrap().outcomes[0].1, [3]);

    let wrong = leader.assume(Term(term.0 + 1), look).await.unwrap_err();
    assert!(matches!(wrong, ProposeError::NotLeader { .. }));
    leader.transfer_leadership(None).await.unwrap();
    let (id, _) = cluster.leader_after(term.0).await;
    cluster.nodes[&id].propose(put(4, 5)).await.unwrap();
    cluster.converge().await;
    assert!(fresh.recv().await.is_none(), "a sink belongs to one term");
}

/// The library's default lets a restarted leader go on in its term (see `config.rs`).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_leader_needs_a_new_term() {
    let mut cluster = Cluster::start(3, Limits::default()).await;
    let (leader, term) = cluster.leader_after(0).await;
    cluster.nodes[&leader].propose(put(1, 1)).await.unwrap();
    cluster.stop_node(leader).await;
    cluster.start_node(leader).await;
    let (_, next) = cluster.leader_after(term.0).await;
    assert!(next > term);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_survives_a_restart_of_all() {
    let mut cluster = Cluster::start(3, small_snapshots()).await;
    let (leader, _) = cluster.leader().await;
    for key in 0..50 {
        leader.propose(put(key, key + 1)).await.unwrap();
    }
    leader.set_cluster_id("c1").await.unwrap();
    for id in 1..=3 {
        cluster.stop_node(id).await;
    }
    for id in 1..=3 {
        cluster.start_node(id).await;
    }
    let (leader, _) = cluster.leader().await;
    leader.propose(put(1000, 1)).await.unwrap();
    cluster.converge().await;
    for node in cluster.nodes.values() {
        for key in 0..50 {
            assert_eq!(node.read(|register| register.get(key)).unwrap().0, key + 1);
        }
    }
    let with_id = cluster.nodes.values().filter(|node| node.cluster_id().is_some()).count();
    assert_eq!(with_id, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_is_a_cluster() {
    let mut cluster = Cluster::start(1, Limits::default()).await;
    let (leader, _) = cluster.leader().await;
    leader.propose(put(1, 1)).await.unwrap();
    leader.read_barrier().await.unwrap();
    leader.set_cluster_id("c1").await.unwrap();
    leader.set_cluster_id("c1").await.unwrap();
    let other = leader.set_cluster_id("c2").await.unwrap_err();
    assert!(matches!(other, ClusterIdError::Other { .. }));
    assert_eq!(leader.transfer_leadership(None).await.unwrap_err(), ProposeError::NoQuorum);
    let limit = Limits::default().batch_bytes;
    let large = leader.propose(padded(2, 2, limit + 1)).await.unwrap_err();
    assert!(matches!(large, ProposeError::TooLarge { .. }));
    cluster.stop_node(1).await;
    cluster.start_node(1).await;
    let (leader, _) = cluster.leader().await;
    assert_eq!(leader.cluster_id().as_deref(), Some("c1"));
    assert!(leader.read(|register| register.get(1)).is_some());
    let stopped = leader.clone();
    cluster.stop_node(1).await;
    assert_eq!(stopped.propose(put(1, 1)).await.unwrap_err(), ProposeError::Stopped);
    assert_eq!(stopped.read_barrier().await.unwrap_err(), ProposeError::Stopped);
}
