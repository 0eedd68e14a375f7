//! A backup becomes the work directory of a master that was never started: the way back after
//! the loss of all masters, or to an earlier day. Every master of the new cluster is restored
//! from the same file with the same members, and they elect a leader as after a restart. Must
//! not know the machine's state. Next: `types.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use openraft::storage::RaftLogStorage;
use proto::holdfast::raft as wire;
use resources::id::MasterId;

use crate::archive::Archive;
use crate::bootstrap::Files;
use crate::config::Limits;
use crate::env::Environment;
use crate::error::StartError;
use crate::log_store::LogStore;
use crate::log_writer::IDENTITY_VERSION;
use crate::machine::Machine;
use crate::runtime;
use crate::snapshot::{Coverage, SnapshotStore};
use crate::types::{Membership, Peer, StoredMembership, Vote};

/// Where a backup goes.
#[derive(Debug, Clone)]
pub struct Restoration {
    /// The master that will own the directory.
    pub id: MasterId,
    /// All masters of the new cluster and their peer addresses, this one among them.
    pub peers: BTreeMap<MasterId, String>,
    /// An empty or missing directory.
    pub work_dir: PathBuf,
    /// The id that the cluster has, if it has one.
    pub cluster_id: Option<String>,
}

/// Writes the directory: under another name until it is whole, so that a restore that broke off
/// is not taken for one.
///
/// # Errors
/// [`StartError`], each one line for the operator.
pub async fn restore<M: Machine>(archive: &Archive, into: Restoration) -> Result<(), StartError> {
    let work_dir = into.work_dir.clone();
    let io = |source| StartError::Io { path: work_dir.clone(), source };
    if holds_anything(&work_dir).map_err(io)? {
        return Err(StartError::InitialisedAlready { dir: work_dir });
    }
    let mut unfinished = work_dir.clone().into_os_string();
    unfinished.push(".restoring");
    let unfinished = PathBuf::from(unfinished);
    match fs::remove_dir_all(&unfinished) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io(error)),
    }
    write::<M>(archive, Restoration { work_dir: unfinished.clone(), ..into }).await?;
    let moved = fs::rename(&unfinished, &work_dir).and_then(|()| match work_dir.parent() {
        Some(parent) if parent != Path::new("") => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    });
    moved.map_err(io)
}

fn holds_anything(dir: &Path) -> io::Result<bool> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

async fn write<M: Machine>(archive: &Archive, into: Restoration) -> Result<(), StartError> {
    let environment = Environment::os();
    let Restoration { id, peers, work_dir, cluster_id } = into;
    if !peers.contains_key(&id) {
        let peers: Vec<String> = peers.iter().map(|(id, at)| format!("{id}={at}")).collect();
        return Err(StartError::NotAMember { id, peers: peers.join(",") });
    }
    let files = Files::of(&work_dir);
    files.prepare(&environment, &work_dir)?;
    let covers =
        Coverage { membership: membership(archive, &peers)?, ..archive.head.covers.clone() };
    let last = covers.last;
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| StartError::Io { path, source }
    };
    let snapshots = SnapshotStore::open(&environment, &files.snapshot)?;
    snapshots
        .replace(covers, archive.chunks.iter().cloned())
        .and_then(|_| snapshots.close())
        .map_err(io(&files.snapshot))?;
    let mut log = LogStore::<M>::open(&environment, &files.log, &Limits::default())?;
    let written = async {
        if let Some(last) = last {
            // Whoever is restored has voted in the term of its last entry: the next is a new one.
            let term = last.committed_leader_id().term;
            log.save_vote(&Vote::new(term, id.0)).await?;
            log.purge(last).await?;
        }
        log.set_store(runtime::random().max(1)).await?;
        let member = |(id, address): (&MasterId, &String)| wire::Member {
            node: id.0,
            address: address.clone(),
            store: 0,
        };
        let identity = wire::Identity {
            version: IDENTITY_VERSION,
            node: id.0,
            peers: peers.iter().map(member).collect(),
            cluster_id: cluster_id.unwrap_or_default(),
        };
        log.set_identity(identity).await
    };
    let written = written.await;
    let closed = log.close().await;
    written.and(closed).map_err(io(&files.log))
}

/// All given masters as voters, at the position of the backup.
fn membership(
    archive: &Archive,
    peers: &BTreeMap<MasterId, String>,
) -> Result<StoredMembership, StartError> {
    let voters: BTreeSet<u64> = peers.keys().map(|id| id.0).collect();
    let peer = |(id, at): (&MasterId, &String)| (id.0, Peer { addr: at.clone(), store: 0 });
    let nodes: BTreeMap<u64, Peer> = peers.iter().map(peer).collect();
    let membership = Membership::new(vec![voters], nodes)
        .map_err(|error| StartError::Config { reason: error.to_string() })?;
    Ok(StoredMembership::new(archive.head.covers.last, membership))
}
