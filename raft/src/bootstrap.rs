//! The first start of a directory and every later one: whose it is, and how a new cluster gets
//! its members. Must not know the machine's state. Next: `supervisor.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use openraft::errors::{InitializeError, RaftError};
use proto::holdfast::raft as wire;
use resources::id::MasterId;

use crate::codec;
use crate::config::NodeConfig;
use crate::database::corrupt;
use crate::env::Environment;
use crate::error::StartError;
use crate::log_store::LogStore;
use crate::log_writer::IDENTITY_VERSION;
use crate::machine::Machine;
use crate::runtime;
use crate::snapshot::SnapshotStore;
use crate::types::{Peer, Raft};

/// The two files of a directory.
pub(crate) struct Files {
    pub(crate) log: PathBuf,
    pub(crate) snapshot: PathBuf,
}

impl Files {
    pub(crate) fn of(dir: &Path) -> Self {
        Self { log: dir.join("raft-log.redb"), snapshot: dir.join("raft-snapshot.redb") }
    }

    /// Makes the directory. A log that is gone while its snapshot is there was not lost by us.
    pub(crate) fn prepare(&self, environment: &Environment, dir: &Path) -> Result<(), StartError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| StartError::Io { path, source }
        };
        let disk = environment.disk.as_ref();
        disk.create_dir(dir).map_err(io(dir))?;
        let has_log = disk.holds_data(&self.log).map_err(io(&self.log))?;
        let has_snapshot = disk.holds_data(&self.snapshot).map_err(io(&self.snapshot))?;
        if has_snapshot && !has_log {
            return Err(corrupt(&self.log, "it is missing, while the snapshot is there"));
        }
        Ok(())
    }

    /// The snapshot must reach as far as the log was purged, or the state between is lost.
    pub(crate) fn compare<M: Machine>(
        &self,
        log: &LogStore<M>,
        snapshots: &SnapshotStore,
    ) -> Result<(), StartError> {
        let Some(purged) = log.purged() else { return Ok(()) };
        let covered = snapshots.last();
        if covered < Some(purged) {
            let covered = covered.map_or("nothing".to_owned(), |last| last.index.to_string());
            let reason =
                format!("it reaches to {covered}, but the log was purged to {}", purged.index);
            return Err(corrupt(&self.snapshot, reason));
        }
        Ok(())
    }
}

/// How a node without a history gets into a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It forms one with the initial members.
    Found,
    /// It waits until it is added to one.
    Join,
}

/// The owner of the directory and the directory's random number: checked if they are there,
/// written if they are not.
pub(crate) async fn claim<M: Machine>(
    log: &LogStore<M>,
    snapshots: &SnapshotStore,
    config: &NodeConfig,
    entry: Entry,
    files: &Files,
) -> Result<(wire::Identity, u64), StartError> {
    let io = |source| StartError::Io { path: files.log.clone(), source };
    let identity = claim_identity(log, snapshots, config, entry)?;
    let store = match log.store() {
        Some(store) => store,
        None => {
            // Never 0, which says that there is none.
            let store = runtime::random().max(1);
            log.set_store(store).await.map_err(io)?;
            store
        }
    };
    if log.identity().is_none() {
        log.set_identity(identity.clone()).await.map_err(io)?;
    }
    Ok((identity, store))
}

fn claim_identity<M: Machine>(
    log: &LogStore<M>,
    snapshots: &SnapshotStore,
    config: &NodeConfig,
    entry: Entry,
) -> Result<wire::Identity, StartError> {
    let dir = &config.work_dir;
    if let Some(identity) = log.identity() {
        if identity.node != config.id.0 {
            let owner = MasterId(identity.node);
            return Err(StartError::OtherNode { dir: dir.clone(), owner, id: config.id });
        }
        // All of the initial members may have been replaced since.
        let current = log.membership().or_else(|| snapshots.membership());
        let current = current.map(|membership| codec::membership_to_wire(&membership).members);
        let known = [&identity.peers[..], current.as_deref().unwrap_or_default()].concat();
        if !identity.peers.is_empty() && is_other_cluster(&known, &config.peers) {
            return Err(StartError::OtherCluster {
                dir: dir.clone(),
                members: text(known.iter().map(|peer| (peer.node, &*peer.address))),
                peers: peers_text(&config.peers),
            });
        }
        return Ok(identity);
    }
    let member = |(id, address): (&MasterId, &String)| wire::Member {
        node: id.0,
        address: address.clone(),
        store: 0,
    };
    let peers = match entry {
        Entry::Join => Vec::new(),
        Entry::Found if config.peers.contains_key(&config.id) => {
            config.peers.iter().map(member).collect()
        }
        Entry::Found => {
            let peers = peers_text(&config.peers);
            return Err(StartError::NotAMember { id: config.id, peers });
        }
    };
    let (version, node) = (IDENTITY_VERSION, config.id.0);
    Ok(wire::Identity { version, node, peers, cluster_id: String::new() })
}

/// Members may move and join, so a difference is ignored; nothing in common is a mistake.
fn is_other_cluster(known: &[wire::Member], given: &BTreeMap<MasterId, String>) -> bool {
    let is_known = |(id, address): (&MasterId, &String)| {
        known.iter().any(|peer| peer.node == id.0 && peer.address == *address)
    };
    !known.is_empty() && !given.is_empty() && !given.iter().any(is_known)
}

fn peers_text(peers: &BTreeMap<MasterId, String>) -> String {
    text(peers.iter().map(|(id, address)| (id.0, address.as_str())))
}

fn text<'a>(peers: impl Iterator<Item = (u64, &'a str)>) -> String {
    peers.map(|(id, address)| format!("{id}={address}")).collect::<Vec<_>>().join(",")
}

/// Gives a new cluster its first members, once they have met (see `formation.rs`). Each of them
/// may do so: all write the same first entry, and whoever has heard of a leader or a vote already
/// leaves it.
pub(crate) async fn form<M: Machine>(
    raft: &Raft<M>,
    identity: &wire::Identity,
) -> Result<(), StartError> {
    let failed = |reason: String| StartError::Config { reason };
    let is_formed = raft.is_initialized().await.map_err(|fatal| failed(fatal.to_string()))?;
    if is_formed {
        return Ok(());
    }
    let members: BTreeMap<u64, Peer> = identity
        .peers
        .iter()
        .map(|peer| (peer.node, Peer { addr: peer.address.clone(), store: 0 }))
        .collect();
    match raft.initialize(members).await {
        Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
        Err(error) => Err(failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_is_known_by_any_address_in_common() {
        let known = |list: &[(u64, &str)]| -> Vec<wire::Member> {
            let member = |(node, address): &(u64, &str)| wire::Member {
                node: *node,
                address: (*address).to_owned(),
                store: 0,
            };
            list.iter().map(member).collect()
        };
        let given = |list: &[(u64, &str)]| -> BTreeMap<MasterId, String> {
            list.iter().map(|(id, address)| (MasterId(*id), (*address).to_owned())).collect()
        };
        let ours = known(&[(1, "a:1"), (2, "b:1")]);
        assert!(!is_other_cluster(&ours, &given(&[(1, "a:1"), (2, "b:1")])));
        assert!(!is_other_cluster(&ours, &given(&[(1, "a:1"), (2, "moved:1")])));
        assert!(!is_other_cluster(&ours, &given(&[])));
        assert!(is_other_cluster(&ours, &given(&[(1, "x:1"), (2, "y:1")])));
        assert!(is_other_cluster(&ours, &given(&[(2, "a:1")])), "an address has one node");
    }
}
