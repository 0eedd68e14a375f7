//! Backups: what a cluster of one's own gives out, what a new one makes of it, and bytes that
//! are none.

use std::collections::BTreeMap;

use raft::{Archive, BadArchive, Limits, Restoration, StartError};
use resources::id::MasterId;

use crate::harness::Cluster;
use crate::support::register::{Register, put};

async fn backup(cluster: &Cluster) -> Vec<u8> {
    let (node, _) = cluster.leader().await;
    let export = node.export().await.unwrap();
    export.map(|part| part.unwrap()).collect::<Vec<_>>().concat()
}

async fn filled() -> Cluster {
    let cluster = Cluster::start(3, Limits::default()).await;
    let (node, _) = cluster.leader().await;
    for key in 1..=20 {
        node.propose(put(key, key * 10)).await.unwrap();
    }
    cluster
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_empty_directories_become_the_cluster_again() {
    let old = filled().await;
    let archive = Archive::read(backup(&old).await.as_slice()).unwrap();
    let (node, _) = old.leader().await;
    node.propose(put(99, 99)).await.unwrap();
    drop(old);

    let mut new = Cluster::new(3, Limits::default());
    let peers: BTreeMap<MasterId, String> =
        (1..=3).map(|id| (MasterId(id), new.address(id).to_owned())).collect();
    for id in 1..=3 {
        let work_dir = new.config(id).work_dir;
        let into =
            Restoration { id: MasterId(id), peers: peers.clone(), work_dir, cluster_id: None };
        raft::restore::<Register>(&archive, into.clone()).await.unwrap();
        let again = raft::restore::<Register>(&archive, into).await;
        assert!(matches!(again, Err(StartError::InitialisedAlready { .. })), "{again:?}");
        new.start_node(id).await;
    }
    let (node, _) = new.leader().await;
    assert!(node.status().term > archive.term(), "{:?}", node.status());
    assert_eq!(node.read(|register| register.len()), 20, "nothing of later");
    node.propose(put(100, 1)).await.unwrap();
    new.converge().await;
    for node in new.nodes.values() {
        assert_eq!(node.read(|register| register.len()), 21);
    }
    // As any other cluster: all of it stops and comes back.
    for id in 1..=3 {
        new.stop_node(id).await;
    }
    for id in 1..=3 {
        new.start_node(id).await;
    }
    let (node, _) = new.leader().await;
    assert_eq!(node.read(|register| register.len()), 21);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_no_backup_are_told_apart() {
    let cluster = filled().await;
    let bytes = backup(&cluster).await;
    let read = |bytes: &[u8]| Archive::read(bytes).map(|archive| archive.index());
    assert!(matches!(read(b""), Err(BadArchive::Magic)));
    assert!(matches!(read(b"#!/bin/sh\necho nothing to see here\n"), Err(BadArchive::Magic)));
    for length in 20..bytes.len() {
        assert!(matches!(read(&bytes[..length]), Err(BadArchive::Truncated { .. })), "{length}");
    }
    for place in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[place] ^= 0x10;
        assert!(read(&flipped).is_err(), "byte {place} of {} flipped unseen", bytes.len());
    }
    let longer = [bytes.clone(), vec![0; 8]].concat();
    assert!(matches!(read(&longer), Err(BadArchive::Damaged { .. })));
    let not_a_member = Restoration {
        id: MasterId(9),
        peers: BTreeMap::from([(MasterId(1), "127.0.0.1:1".to_owned())]),
        work_dir: tempfile::tempdir().unwrap().path().join("new"),
        cluster_id: None,
    };
    let archive = Archive::read(bytes.as_slice()).unwrap();
    let refused = raft::restore::<Register>(&archive, not_a_member).await;
    assert!(matches!(refused, Err(StartError::NotAMember { .. })), "{refused:?}");
}
