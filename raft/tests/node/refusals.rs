//! Directories, files and addresses with which a node must not start.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use raft::{Limits, Node, NodeConfig, StartError};
use resources::id::MasterId;
use tempfile::TempDir;

use crate::harness::{config, free_address};
use crate::support::register::{Register, put};

struct Alone {
    dir: TempDir,
    peers: BTreeMap<MasterId, String>,
}

impl Alone {
    /// A cluster of one that ran and stopped.
    async fn ran() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let peers = BTreeMap::from([(MasterId(1), free_address())]);
        let alone = Self { dir, peers };
        let node = Node::<Register>::start(alone.config()).await.unwrap();
        node.leadership()
            .wait_for(|now| matches!(now, raft::Leadership::Leading { .. }))
            .await
            .unwrap();
        for key in 0..50 {
            node.propose(put(key, key)).await.unwrap();
        }
        node.snapshot().await.unwrap();
        node.shutdown().await;
        alone
    }

    fn config(&self) -> NodeConfig {
        config(1, &self.dir, &self.peers, Limits::default())
    }

    async fn refusal(&self, config: NodeConfig) -> StartError {
        match Node::<Register>::start(config).await {
            Ok(_) => panic!("the node started"),
            Err(refusal) => refusal,
        }
    }
}

#[tokio::test]
async fn directory_of_another_node() {
    let alone = Alone::ran().await;
    let other = NodeConfig { id: MasterId(2), ..alone.config() };
    let refusal = alone.refusal(other).await;
    assert!(matches!(refusal, StartError::OtherNode { owner: MasterId(1), .. }), "{refusal}");
}

#[tokio::test]
async fn directory_of_another_cluster() {
    let alone = Alone::ran().await;
    let peers = BTreeMap::from([(MasterId(1), free_address())]);
    let refusal = alone.refusal(NodeConfig { peers, ..alone.config() }).await;
    assert!(matches!(refusal, StartError::OtherCluster { .. }), "{refusal}");
}

#[tokio::test]
async fn members_without_this_node() {
    let alone = Alone { dir: tempfile::tempdir().unwrap(), peers: BTreeMap::new() };
    let refusal = alone.refusal(alone.config()).await;
    assert!(matches!(refusal, StartError::NotAMember { .. }), "{refusal}");
}

#[tokio::test]
async fn taken_port() {
    let alone = Alone::ran().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let refusal = alone.refusal(NodeConfig { listen, ..alone.config() }).await;
    assert!(matches!(refusal, StartError::PortTaken { .. }), "{refusal}");
    // The refused start let go of the files.
    Node::<Register>::start(alone.config()).await.unwrap().shutdown().await;
}

#[tokio::test]
async fn directory_in_use() {
    let alone = Alone::ran().await;
    let node = Node::<Register>::start(alone.config()).await.unwrap();
    let refusal = alone.refusal(alone.config()).await;
    assert!(matches!(refusal, StartError::InUse { .. }), "{refusal}");
    node.shutdown().await;
}

#[tokio::test]
async fn damaged_files() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 4] = [
        ("overwritten", |path| fs::write(path, b"no database at all").unwrap()),
        ("cut", |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("flipped bits", |path| {
            let mut bytes = fs::read(path).unwrap();
            for byte in bytes.iter_mut().skip(4096) {
                *byte ^= 0x55;
            }
            fs::write(path, bytes).unwrap();
        }),
        ("removed", |path| fs::remove_file(path).unwrap()),
    ];
    let alone = Alone::ran().await;
    let dir = alone.config().work_dir;
    for file in ["raft-log.redb", "raft-snapshot.redb"] {
        let path = dir.join(file);
        let intact = fs::read(&path).unwrap();
        for (name, damage) in damages {
            if name == "removed" && file == "raft-snapshot.redb" {
                // Nothing was purged, so the log alone still holds everything.
                continue;
            }
            damage(&path);
            let refusal = alone.refusal(alone.config()).await;
            assert!(matches!(refusal, StartError::Corrupt { .. }), "{name} {file}: {refusal:?}");
            fs::write(&path, &intact).unwrap();
        }
    }
    Node::<Register>::start(alone.config()).await.unwrap().shutdown().await;
}
