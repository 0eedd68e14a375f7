//! The errors of this crate, by what the caller does next: not start, try again or not, end the
//! process. Next: `node.rs`.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use resources::id::MasterId;

/// Why a node did not start. Each is one clear line for the operator.
#[derive(Debug, Error)]
pub enum StartError {
    /// Another socket listens on the peer address.
    #[error("peer address {address} is already in use")]
    PortTaken {
        /// The address.
        address: String,
    },
    /// The peer address cannot be bound for another reason.
    #[error("cannot listen on peer address {address}")]
    Listen {
        /// The address.
        address: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The data directory belongs to another node.
    #[error("{} belongs to master {owner}, not to master {id}", dir.display())]
    OtherNode {
        /// The data directory.
        dir: PathBuf,
        /// The node that wrote it.
        owner: MasterId,
        /// The node that was started.
        id: MasterId,
    },
    /// The data directory belongs to another cluster.
    #[error("{} belongs to another cluster: its members are {members}, not {peers}", dir.display())]
    OtherCluster {
        /// The data directory.
        dir: PathBuf,
        /// Members it knows.
        members: String,
        /// Members that were given.
        peers: String,
    },
    /// A backup goes into an empty directory only.
    #[error("{} holds data already: a backup is restored into an empty directory", dir.display())]
    InitialisedAlready {
        /// The data directory.
        dir: PathBuf,
    },
    /// The initial members do not contain this node, or there are none for a new directory.
    #[error("master {id} is not among the initial members ({peers})")]
    NotAMember {
        /// The node that was started.
        id: MasterId,
        /// Members that were given.
        peers: String,
    },
    /// The cluster knows this node with another data directory.
    #[error(transparent)]
    Wiped(#[from] Wiped),
    /// Another process uses the data directory.
    #[error("{} is in use by another process", path.display())]
    InUse {
        /// The locked file.
        path: PathBuf,
    },
    /// A file was damaged, or is of a version that this program does not know.
    #[error("{} is corrupt: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The configured numbers contradict each other.
    #[error("invalid timing: {reason}")]
    Config {
        /// What is wrong with them.
        reason: String,
    },
    /// The disk failed.
    #[error("cannot use {}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// A node whose empty data directory is not the one that the cluster knows. It has forgotten
/// votes and entries on which others count, so it must not take part under this id again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "master {id} is known to master {by} with another data directory: its disk was wiped or \
     exchanged. Put the old directory back, or start an empty one under a new id with --join and \
     replace master {id} by it"
)]
pub struct Wiped {
    /// The node that was started.
    pub id: MasterId,
    /// The member that knows better.
    pub by: MasterId,
}

/// Why a proposal, a read or a transfer of leadership got no answer from a quorum.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProposeError {
    /// Definite: nothing was proposed, another node leads (or none that is known).
    #[error("this master does not lead")]
    NotLeader {
        /// The leader, if one is known.
        leader: Option<MasterId>,
    },
    /// Definite: nothing was proposed, no quorum answers.
    #[error("no quorum of masters answers")]
    NoQuorum,
    /// Definite: nothing was proposed, this node is stopping or stopped.
    #[error("this master is stopping")]
    Stopped,
    /// Definite: the batch is larger than any log entry may be.
    #[error("batch of {bytes} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// Its encoded size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The entry may or may not be committed, now or later.
    #[error("the outcome is not known")]
    Unknown,
}

impl ProposeError {
    /// Whether nothing was proposed, so that the same proposal may be made again.
    #[must_use]
    pub fn is_definite(&self) -> bool {
        match self {
            Self::NotLeader { .. } | Self::NoQuorum | Self::Stopped | Self::TooLarge { .. } => true,
            Self::Unknown => false,
        }
    }

    /// Whether the same proposal may succeed later or elsewhere without harm.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::NotLeader { .. } | Self::NoQuorum | Self::Stopped => true,
            Self::TooLarge { .. } | Self::Unknown => false,
        }
    }
}

/// Why a cluster id was not stored.
#[derive(Debug, Error)]
pub enum ClusterIdError {
    /// The directory already holds another one.
    #[error("this master belongs to cluster {known}, not to {given}")]
    Other {
        /// The stored id.
        known: String,
        /// The id that was to be stored.
        given: String,
    },
    /// The node is stopping, or its disk failed.
    #[error("the cluster id cannot be stored")]
    Io(#[source] io::Error),
}

/// Why this process must end: it can neither write nor promise anything any more. A failed
/// sync is never tried again on the same file, because the kernel may have dropped the pages.
#[derive(Debug, Error)]
pub enum FatalError {
    /// The log could not be written.
    #[error("the log cannot be written")]
    Log(#[source] io::Error),
    /// The snapshot could not be written or read back.
    #[error("the snapshot cannot be stored")]
    Snapshot(#[source] io::Error),
    /// A committed entry cannot be decoded, so the state cannot go on.
    #[error("entry {index} cannot be applied: {reason}")]
    Apply {
        /// Position of the entry.
        index: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The cluster knows this node with another data directory.
    #[error(transparent)]
    Wiped(Wiped),
    /// The consensus core stopped by itself.
    #[error("consensus stopped: {0}")]
    Consensus(String),
    /// A task without which a node is only half alive ended by itself.
    #[error("the task '{0}' ended")]
    Task(&'static str),
}
