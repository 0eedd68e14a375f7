//! Idempotency keys: which command a key named, and what it came to, for at least an hour of
//! cluster time. Entries go only from the front of their age, so that a younger one is never
//! forgotten for an older. Must not know what commands do. Next: `operations.rs`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use resources::id::{LogIndex, Principal};
use resources::persistent::PersistentMap;
use resources::time::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::codec::{digest, encoded_bytes};
use super::command::{Command, CommandKind, Response};
use super::rejection::Rejection;
use super::{Moment, limits};

/// A caller's own name for a command, so that a repeat is answered and not executed again. 1 to
/// [`limits::KEY_BYTES_MAX`] bytes without control characters, scoped to the principal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IdempotencyKey(String);

/// Why a text is no key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidKey {
    /// It is the empty text.
    #[error("idempotency key is empty")]
    Empty,
    /// It is too long.
    #[error("idempotency key has {bytes} bytes, more than {}", limits::KEY_BYTES_MAX)]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It holds a control character.
    #[error("idempotency key holds the control character {character:?}")]
    Character {
        /// The first one.
        character: char,
    },
}

impl IdempotencyKey {
    /// Checks the form of a key.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidKey> {
        let text = text.into();
        if text.is_empty() {
            return Err(InvalidKey::Empty);
        }
        if text.len() > limits::KEY_BYTES_MAX {
            return Err(InvalidKey::TooLong { bytes: text.len() });
        }
        match text.chars().find(|c| c.is_control()) {
            Some(character) => Err(InvalidKey::Character { character }),
            None => Ok(Self(text)),
        }
    }
    /// The text of the key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for IdempotencyKey {
    type Err = InvalidKey;
    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        Self::parse(text)
    }
}

impl TryFrom<String> for IdempotencyKey {
    type Error = InvalidKey;
    fn try_from(text: String) -> Result<Self, InvalidKey> {
        Self::parse(text)
    }
}

impl From<IdempotencyKey> for String {
    fn from(key: IdempotencyKey) -> Self {
        key.0
    }
}

/// Whose table of keys is full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyQuota {
    /// That of all callers together.
    Cluster,
    /// That of one principal; none for callers without one.
    Caller(Option<Principal>),
}

impl fmt::Display for KeyQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("all callers together"),
            Self::Caller(Some(principal)) => write!(f, "caller '{principal}'"),
            Self::Caller(None) => f.write_str("callers without a principal"),
        }
    }
}

/// A key under its principal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeyName {
    /// Who used it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
    /// The key.
    pub key: IdempotencyKey,
}

/// A key that was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyEntry {
    /// Its place in the order of first uses.
    pub number: u64,
    /// The key.
    pub name: KeyName,
    /// SHA-256 of the command without times and ids.
    pub digest: [u8; 32],
    /// What it came to.
    pub response: Response,
    /// The entry that decided it.
    pub index: LogIndex,
    /// Cluster time of that.
    pub clock: Timestamp,
}

/// All keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeyTable {
    entries: PersistentMap<KeyName, Arc<KeyEntry>>,
    /// Oldest first.
    by_age: PersistentMap<u64, Arc<KeyEntry>>,
    usage: PersistentMap<Option<Principal>, Usage>,
    all: Usage,
    next: u64,
}

/// What keys take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Usage {
    keys: u64,
    bytes: u64,
}

/// A key's command before it is decided.
#[derive(Debug)]
pub(super) enum Looked {
    /// It was decided before: this is the answer.
    Known(Response),
    /// It is to be decided, and put on record under this digest.
    Fresh([u8; 32]),
}

impl KeyTable {
    /// Forgets what is older than promised, a bounded number at a time.
    pub(super) fn expire(&mut self, clock: Timestamp) {
        for _ in 0..limits::KEYS_EXPIRED_AT_ONCE_MAX {
            let Some((number, entry)) = self.by_age.first() else { return };
            if clock.since(entry.clock) <= limits::KEY_RETENTION {
                return;
            }
            let (number, entry) = (*number, Arc::clone(entry));
            self.by_age.remove_mut(&number);
            self.entries.remove_mut(&entry.name);
            let cost = Usage { keys: 1, bytes: encoded_bytes(&*entry) };
            self.all.subtract(cost);
            let principal = &entry.name.principal;
            if let Some(usage) = self.usage.get_mut(principal) {
                usage.subtract(cost);
                if usage.keys == 0 {
                    self.usage.remove_mut(principal);
                }
            }
        }
    }

    /// What is known of a command's key.
    pub(super) fn look_up(&self, name: &KeyName, command: &Command) -> Result<Looked, Rejection> {
        let digest = body_digest(command);
        if let Some(entry) = self.entries.get(name) {
            if entry.digest == digest {
                return Ok(Looked::Known(entry.response.clone()));
            }
            return Err(Rejection::KeyReused { key: name.key.clone(), index: entry.index });
        }
        let own = self.usage.get(&name.principal).copied().unwrap_or_default();
        let caller = KeyQuota::Caller(name.principal.clone());
        own.within(
            caller,
            limits::KEYS_PER_PRINCIPAL_MAX,
            limits::OUTCOME_BYTES_PER_PRINCIPAL_MAX,
        )?;
        self.all.within(KeyQuota::Cluster, limits::KEYS_MAX, limits::OUTCOME_BYTES_MAX)?;
        Ok(Looked::Fresh(digest))
    }

    /// Puts an outcome on record, if it is of a kind that is repeated.
    pub(super) fn keep(
        &mut self,
        now: Moment,
        name: KeyName,
        digest: [u8; 32],
        response: &Response,
    ) {
        let is_kept = match response {
            Response::Accepted { .. }
            | Response::Transacted { .. }
            | Response::Ruled
            | Response::Done => true,
            Response::Rejected(rejection) => rejection.is_kept_under_key(),
            Response::Registered { .. } | Response::Subscribed { .. } | Response::Judged { .. } => {
                false
            }
        };
        if is_kept {
            let (number, response, index) = (self.next, response.clone(), now.index);
            self.next += 1;
            self.insert(KeyEntry { number, name, digest, response, index, clock: now.clock });
        }
    }

    /// Puts an entry in its place.
    pub(super) fn insert(&mut self, entry: KeyEntry) {
        let entry = Arc::new(entry);
        let cost = Usage { keys: 1, bytes: encoded_bytes(&*entry) };
        self.all.add(cost);
        let principal = &entry.name.principal;
        let mut usage = self.usage.get(principal).copied().unwrap_or_default();
        usage.add(cost);
        self.usage.insert_mut(principal.clone(), usage);
        self.by_age.insert_mut(entry.number, Arc::clone(&entry));
        self.entries.insert_mut(entry.name.clone(), entry);
    }

    /// The number of the next first use.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn set_next(&mut self, next: u64) {
        self.next = next;
    }

    /// All entries, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &KeyEntry> {
        self.by_age.values().map(Arc::as_ref)
    }

    /// How many keys are kept.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.all.keys
    }

    /// Whether none is kept.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.all.keys == 0
    }
}

impl Usage {
    const fn add(&mut self, cost: Self) {
        self.keys += cost.keys;
        self.bytes += cost.bytes;
    }
    const fn subtract(&mut self, cost: Self) {
        self.keys -= cost.keys;
        self.bytes -= cost.bytes;
    }
    /// Room for one more. The last outcome may go over the size; it is bounded by itself.
    fn within(self, quota: KeyQuota, keys_max: u64, bytes_max: u64) -> Result<(), Rejection> {
        let Self { keys, bytes } = self;
        if keys < keys_max && bytes < bytes_max {
            return Ok(());
        }
        Err(Rejection::KeyTableFull { quota, keys, keys_max, bytes, bytes_max })
    }
}

/// What a command asks, without who gave it which names: what a repeat has in common.
fn body_digest(command: &Command) -> [u8; 32] {
    let versions = &command.if_versions;
    match &command.kind {
        CommandKind::Operate { agent_id, operation_id: _, operation } => {
            digest(&("operate", versions, [(agent_id, operation)].as_slice()))
        }
        CommandKind::SetRule(rule) => digest(&("rule", rule)),
        CommandKind::Transact { transaction_id: _, members } => {
            let asked: Vec<_> = members.iter().map(|m| (&m.agent_id, &m.operation)).collect();
            digest(&("transact", versions, asked.as_slice()))
        }
        kind @ (CommandKind::FormCluster { .. }
        | CommandKind::TakeOffice { .. }
        | CommandKind::RegisterAgent(_)
        | CommandKind::Confirm { .. }
        | CommandKind::RecordDivergence { .. }
        | CommandKind::Reconcile { .. }
        | CommandKind::NewIncarnation { .. }
        | CommandKind::Subscribe { .. }
        | CommandKind::UpdateFramework { .. }
        | CommandKind::SetSuppressed { .. }
        | CommandKind::Disconnect { .. }
        | CommandKind::RemoveFramework { .. }
        | CommandKind::Accept { .. }
        | CommandKind::Kill { .. }
        | CommandKind::UpdateTasks { .. }
        | CommandKind::AcknowledgeTask { .. }
        | CommandKind::AcknowledgeOperation { .. }
        | CommandKind::Depart { .. }
        | CommandKind::Return { .. }
        | CommandKind::MarkUnreachable { .. }
        | CommandKind::Unregister { .. }
        | CommandKind::MarkGone { .. }
        | CommandKind::Deactivate { .. }
        | CommandKind::Reactivate { .. }
        | CommandKind::Drain { .. }
        | CommandKind::CompleteDrain { .. }
        | CommandKind::RaiseAlarm { .. }) => digest(&("other", versions, kind)),
    }
}
