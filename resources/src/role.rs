//! Roles: names of share groups, a `/`-separated path each (spec §3). Next: `value.rs`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::brief;

/// Longest role in bytes, so that a volume's directory name fits NAME_MAX (decisions, part E).
pub const ROLE_BYTES_MAX: usize = 200;

/// A valid role: `*`, or a path of components such as `eng/web`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Role(String);

/// Why a text is no role (spec §3).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidRole {
    /// The empty string.
    #[error("role is empty")]
    Empty,
    /// Longer than [`ROLE_BYTES_MAX`] bytes.
    #[error("role has {bytes} bytes, more than {ROLE_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Starts or ends with a slash, or has an empty component.
    #[error("role '{}' has a slash at its start or end, or two in a row", brief::text(.0))]
    Slash(String),
    /// A component is `.` or `..`.
    #[error("role '{}' has a component of dots only", brief::text(.0))]
    Dot(String),
    /// A component of a longer path is `*`.
    #[error("role '{}' has the component '*'", brief::text(.0))]
    Star(String),
    /// A component starts with a dash.
    #[error("role '{}' has a component that starts with '-'", brief::text(.0))]
    Dash(String),
    /// Holds white space, DEL or another control character.
    #[error("role '{}' holds white space or a control character", brief::text(.0))]
    Whitespace(String),
}

impl Role {
    /// Checks the grammar of spec §3.
    ///
    /// # Errors
    /// Says which rule the text breaks.
    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidRole> {
        let text: String = text.into();
        if text.is_empty() {
            return Err(InvalidRole::Empty);
        }
        if text.len() > ROLE_BYTES_MAX {
            return Err(InvalidRole::TooLong { bytes: text.len() });
        }
        if text == "*" {
            return Ok(Self(text));
        }
        // Mesos lists six of them; NUL and the others would end up in the name of a directory.
        if text.contains(|c: char| c.is_control() || c == ' ') {
            return Err(InvalidRole::Whitespace(text));
        }
        for component in text.split('/') {
            match component {
                "" => return Err(InvalidRole::Slash(text)),
                "." | ".." => return Err(InvalidRole::Dot(text)),
                "*" => return Err(InvalidRole::Star(text)),
                dash if dash.starts_with('-') => return Err(InvalidRole::Dash(text)),
                _ => {}
            }
        }
        Ok(Self(text))
    }
    /// The role of unreserved resources.
    #[must_use]
    pub fn star() -> Self {
        Self("*".to_owned())
    }
    /// Whether this is `*`.
    #[must_use]
    pub fn is_star(&self) -> bool {
        self.0 == "*"
    }
    /// The text of the role.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// Whether this role lies strictly below `other`: `a/b` below `a`, `ab` not.
    #[must_use]
    pub fn is_strict_subrole_of(&self, other: &Self) -> bool {
        self.0.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }
    /// Whether the path has more than one component.
    #[must_use]
    pub fn is_hierarchical(&self) -> bool {
        self.0.contains('/')
    }
    /// Strict ancestors, nearest first: `a/b/c` gives `a/b`, `a`.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> + '_ {
        self.0.rmatch_indices('/').map(|(at, _)| Self(self.0[..at].to_owned()))
    }
    /// Directory name of the role: every `/` becomes a blank, which no role holds (spec §7.6).
    #[must_use]
    pub fn directory_name(&self) -> String {
        self.0.replace('/', " ")
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Role {
    type Err = InvalidRole;
    fn from_str(text: &str) -> Result<Self, InvalidRole> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Role {
    type Error = InvalidRole;
    fn try_from(text: String) -> Result<Self, InvalidRole> {
        Self::parse(text)
    }
}

impl From<Role> for String {
    fn from(role: Role) -> String {
        role.0
    }
}
