//! Newtypes for every id and name. Text becomes an id in `FromStr`; past the edge nobody
//! checks its form again. Must not know what the ids stand for. Next: `role.rs`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::brief;

/// Longest id that a user may supply, in bytes (NAME_MAX of common file systems; spec §1.2).
pub const ID_BYTES_MAX: usize = 255;

/// Why a text is no id (spec §1.2).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidId {
    /// The id is the empty string.
    #[error("id is empty")]
    Empty,
    /// The id is longer than [`ID_BYTES_MAX`] bytes.
    #[error("id has {bytes} bytes, more than {ID_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The id is `.` or `..`.
    #[error("'{0}' is not an id")]
    Dots(String),
    /// The id holds a slash, a backslash or a control character.
    #[error("id '{}' holds the invalid character {character:?}", brief::text(id))]
    Character {
        /// The refused id.
        id: String,
        /// The first bad character.
        character: char,
    },
}

fn check(text: &str) -> Result<(), InvalidId> {
    if text.is_empty() {
        return Err(InvalidId::Empty);
    }
    if text.len() > ID_BYTES_MAX {
        return Err(InvalidId::TooLong { bytes: text.len() });
    }
    if text == "." || text == ".." {
        return Err(InvalidId::Dots(text.to_owned()));
    }
    match text.chars().find(|c| c.is_control() || matches!(c, '/' | '\\')) {
        Some(character) => Err(InvalidId::Character { id: text.to_owned(), character }),
        None => Ok(()),
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks the form of `text` (spec §1.2).
            ///
            /// # Errors
            /// Says what is wrong with the text.
            pub fn parse(text: impl Into<String>) -> Result<Self, InvalidId> {
                let text = text.into();
                check(&text)?;
                Ok(Self(text))
            }
            /// The text of the id.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::parse(text)
            }
        }
        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::parse(text)
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    )* };
}

ids! {
    /// Name of an agent: `<cluster id>-S<n>`. Sequence and volumes belong to [`CheckpointId`].
    AgentId;
    /// Name of a framework: `<cluster id>-NNNN`.
    FrameworkId;
    /// Name of an offer: `<cluster id>-O<term>-<n>`.
    OfferId;
    /// Name of an operation: `<term>-<n>` for operators, the framework's own text otherwise.
    OperationId;
    /// Name of a task, given by its framework.
    TaskId;
    /// Name of an executor, given by its framework; that of its task for a command.
    ExecutorId;
    /// Name of one subscription of a scheduler (`Mesos-Stream-Id`).
    StreamId;
    /// `persistence.id` of a volume: unique per reservation role on each agent.
    VolumeId;
    /// Random name of the cluster, committed by its first leader.
    ClusterId;
    /// Random name of an agent's work directory; what reservations and volumes belong to.
    CheckpointId;
    /// `provider_id` of a resource that a resource provider holds.
    ProviderId;
}

impl ExecutorId {
    /// The executor of a command has the name of its task.
    #[must_use]
    pub fn of_command(task_id: &TaskId) -> Self {
        Self(task_id.0.clone())
    }
}

/// Name of a status update: 16 random bytes, a UUID to Mesos' clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UpdateId(pub [u8; 16]);

impl fmt::Display for UpdateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An authenticated identity. Free text, never empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Principal(String);

impl Principal {
    /// Takes any text: principals have no grammar in Mesos.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
    /// The text of the principal.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The next higher one.
            ///
            /// # Panics
            /// At 2^64, which no cluster reaches.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.checked_add(1).expect("fewer than 2^64 of them in a cluster's life"))
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    )* };
}

numbers! {
    /// Raft term: one leader at most per term.
    Term;
    /// Position of an entry in the replicated log.
    LogIndex;
    /// Dense number of an order to one agent, starting at 1; 0 is "none yet".
    Seq;
    /// Raised by every restore from a backup.
    Incarnation;
    /// Number of a master, unique for ever in the cluster.
    MasterId;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_of_ids() {
        for good in ["a", "with space", "ümlaut", "-", "a.b", &"x".repeat(255)] {
            assert!(VolumeId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a\\b", "a\nb", "a\0", &"x".repeat(256)] {
            assert!(VolumeId::parse(bad).is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<VolumeId>("\"a/b\"").is_err());
    }
}
