//! A mutating call as the client sends it, and what comes of one. Must not know how the leader is
//! found. Next: `client.rs`.

use std::time::Duration;

use serde_json::Value;

/// The idempotency key of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    /// None: a call that must not be made again when its answer is lost.
    None,
    /// The caller's.
    Given(String),
    /// Made for this call only. The call goes without it when the masters keep no more keys.
    Made(String),
}

impl Key {
    /// What is sent.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Given(key) | Self::Made(key) => Some(key),
        }
    }
}

/// A mutating call.
#[derive(Debug)]
pub(crate) struct Mutating<'a> {
    /// Path and query.
    pub(crate) path: String,
    /// The body.
    pub(crate) body: &'a Value,
    /// How long the master was asked to hold its answer.
    pub(crate) wait: Duration,
    /// Its idempotency key.
    pub(crate) key: Key,
    /// The agent's version that it is meant for.
    pub(crate) if_version: Option<u64>,
}

/// A mutating call that was accepted, or the answer to a dry run.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// Under which id its progress can be asked for.
    pub(crate) operation_id: Option<String>,
    /// The body of the answer, when it has one.
    pub(crate) body: Option<Value>,
}
