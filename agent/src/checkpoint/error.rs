//! Why a checkpoint cannot be opened or written, with what an operator can do about it. Next:
//! `load.rs`.

use thiserror::Error;

use super::FORMAT_VERSION;

/// Why the checkpoint cannot be opened. The process ends with status 1.
#[derive(Debug, Error)]
pub(crate) enum OpenError {
    /// Another process holds the file.
    #[error("{path}: another agent process runs on this work directory")]
    Locked {
        /// The file.
        path: String,
    },
    /// The file is damaged.
    #[error(
        "{path}: the checkpoint is corrupt ({what}); stop, keep a copy of the work directory, \
         and restore it from a backup; volumes are untouched"
    )]
    Corrupt {
        /// The file.
        path: String,
        /// What was found.
        what: String,
    },
    /// The work directory was in use, and the file is not there.
    #[error(
        "{path}: the checkpoint is missing, though {because}; put it back from a backup, or start \
         with another --work-dir as a new agent; nothing was made or removed"
    )]
    Missing {
        /// The file.
        path: String,
        /// Why it should be there.
        because: String,
    },
    /// The file belongs to another work directory.
    #[error(
        "{path}: the checkpoint is that of {found}, and this work directory is {expected} (see \
         meta/checkpoint_id); put the right one back; nothing was made or removed"
    )]
    Foreign {
        /// The file.
        path: String,
        /// Id of the work directory.
        expected: String,
        /// Id in the file.
        found: String,
    },
    /// A newer program wrote it.
    #[error("{path}: checkpoint format {found} is newer than {FORMAT_VERSION}, use a newer agent")]
    Newer {
        /// The file.
        path: String,
        /// The version found.
        found: u64,
    },
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

/// The disk failed while the agent ran. Nothing may be reported after it: the process aborts.
#[derive(Debug, Error)]
#[error("checkpoint: {0}")]
pub(crate) struct StorageFailure(String);

impl<E: Into<redb::Error>> From<E> for StorageFailure {
    fn from(error: E) -> Self {
        Self(error.into().to_string())
    }
}
