//! Backups of a cluster where no master runs: what one holds, and the work directories that are
//! made of it. Must not know how one is fetched. Next: `lib.rs`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use raft::{Archive, BadArchive, Restoration, StartError};
use resources::id::{AgentId, ClusterId, Incarnation, LogIndex, MasterId, Seq, Term};
use resources::time::Timestamp;
use serde::Serialize;
use thiserror::Error;

use crate::machine::Replica;
use crate::state::State;

/// Why a file is no backup, or makes no work directory.
#[derive(Debug, Error)]
pub enum BackupError {
    /// The file is not there, or cannot be read.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The file is no whole backup.
    #[error("{}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: BadArchive,
    },
    /// The directory cannot be made.
    #[error(transparent)]
    Directory(#[from] StartError),
}

/// A backup that was read and checked whole.
#[derive(Debug)]
pub struct Backup {
    archive: Archive,
    replica: Replica,
}

/// What a backup holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The cluster's id, if it had one.
    pub cluster_id: Option<ClusterId>,
    /// How often the cluster was restored before.
    pub incarnation: Incarnation,
    /// The last entry in it, and its term.
    pub index: LogIndex,
    /// See `index`.
    pub term: Term,
    /// Wall time of the last election before it.
    pub elected_at: Option<Timestamp>,
    /// Bytes of the state.
    pub bytes: u64,
    /// Masters by number, with their peer addresses.
    pub masters: BTreeMap<u64, String>,
    /// Agents.
    pub agents: Vec<AgentSummary>,
    /// Frameworks that were not removed.
    pub frameworks: usize,
    /// Their tasks.
    pub tasks: usize,
    /// Operations that no agent had confirmed.
    pub pending: usize,
}

/// What a backup knows of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentSummary {
    /// Its id.
    pub id: AgentId,
    /// Where it served HTTP.
    pub address: String,
    /// The last order that it was given.
    pub last_seq: Seq,
    /// Reserved resources, volumes among them.
    pub reserved: usize,
    /// Persistent volumes.
    pub volumes: usize,
}

impl Backup {
    /// Reads a file and checks all of it, down to the last row.
    ///
    /// # Errors
    /// [`BackupError`], in one line.
    pub fn read(path: &Path) -> Result<Self, BackupError> {
        let bad = |source| BackupError::Bad { path: path.to_owned(), source };
        let file = File::open(path)
            .map_err(|source| BackupError::File { path: path.to_owned(), source })?;
        let archive = Archive::read(BufReader::new(file)).map_err(bad)?;
        let replica = archive.thaw::<Replica>().map_err(bad)?;
        Ok(Self { archive, replica })
    }

    /// What it holds.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let state = self.replica.state();
        let members = self.archive.members().into_iter();
        Summary {
            cluster_id: state.cluster_id().cloned(),
            incarnation: state.incarnation(),
            index: self.archive.index(),
            term: self.archive.term(),
            elected_at: state.leader().map(|leader| leader.elected_at),
            bytes: self.archive.bytes(),
            masters: members.map(|(id, address)| (id.0, address)).collect(),
            agents: agents(state),
            frameworks: state.frameworks().count(),
            tasks: state.frameworks().map(|framework| framework.tasks.size()).sum(),
            pending: state.agents().map(|agent| agent.pending.size()).sum(),
        }
    }

    /// Makes a work directory for one master of the cluster that it becomes again. Made from one
    /// file with the same members, those of all masters hold the same.
    ///
    /// # Errors
    /// [`BackupError`], in one line.
    pub async fn restore(
        self,
        id: MasterId,
        peers: BTreeMap<MasterId, String>,
        work_dir: PathBuf,
    ) -> Result<(), BackupError> {
        let restored = self.replica.into_restored();
        let cluster_id = restored.cluster_id().map(ToString::to_string);
        let archive = self.archive.with_state::<Replica>(&restored.freeze());
        let into = Restoration { id, peers, work_dir, cluster_id };
        Ok(raft::restore::<Replica>(&archive, into).await?)
    }
}

fn agents(state: &State) -> Vec<AgentSummary> {
    let agents = state.agents().map(|agent| AgentSummary {
        id: agent.id.clone(),
        address: format!("{}:{}", agent.info.host, agent.info.port),
        last_seq: agent.last_given(),
        reserved: agent.total.iter().filter(|resource| resource.is_reserved()).count(),
        volumes: agent.total.iter().filter(|resource| resource.volume_id().is_some()).count(),
    });
    agents.collect()
}
