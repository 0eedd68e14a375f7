//! Reads every row of the checkpoint at a start, and refuses what it does not understand. The
//! layout stands in `checkpoint.rs`.

use redb::{Database, ReadableDatabase, ReadableTable};
use serde::de::DeserializeOwned;

use resources::id::VolumeId;
use resources::message::{Order, Settled};
use resources::role::Role;

use super::{FORMAT_VERSION, INTENTS, JOURNAL, META, SETTLED, Stored, VOLUMES, VolumeRow};
use crate::core::event::{Memory, VolumeKey};

/// Why the rows make no checkpoint.
pub(super) enum LoadError {
    /// A newer program wrote them, in this format.
    Newer(u64),
    /// They contradict the layout.
    Corrupt(String),
}

impl<E: Into<redb::Error>> From<E> for LoadError {
    fn from(error: E) -> Self {
        Self::Corrupt(error.into().to_string())
    }
}

/// Everything that the checkpoint holds.
pub(super) fn load(database: &Database) -> Result<Stored, LoadError> {
    let transaction = database.begin_read()?;
    let meta = transaction.open_table(META)?;
    let row = |key: &str| -> Result<Option<Vec<u8>>, LoadError> {
        Ok(meta.get(key)?.map(|value| value.value().to_vec()))
    };
    let version: u64 = need("version", row("version")?)?;
    if version > FORMAT_VERSION {
        return Err(LoadError::Newer(version));
    }
    let mut memory = Memory {
        agent_id: optional("agent_id", row("agent_id")?)?,
        fence: optional("fence", row("fence")?)?,
        applied_seq: optional("applied", row("applied")?)?.unwrap_or_default(),
        failed_seq: optional("failed", row("failed")?)?.unwrap_or_default(),
        ..Memory::default()
    };
    for entry in transaction.open_table(SETTLED)?.iter()? {
        let settled: Settled = decode("settled", entry?.1.value())?;
        memory.settled.insert(settled.seq, settled);
    }
    for entry in transaction.open_table(INTENTS)?.iter()? {
        memory.intents.push(decode("intents", entry?.1.value())?);
    }
    for entry in transaction.open_table(VOLUMES)?.iter()? {
        let (key, value) = entry?;
        let (role, id) = key.value();
        let bad = |what: String| LoadError::Corrupt(format!("volumes: {what}"));
        let role = Role::parse(role).map_err(|error| bad(error.to_string()))?;
        let id = VolumeId::parse(id).map_err(|error| bad(error.to_string()))?;
        let row: VolumeRow = decode("volumes", value.value())?;
        memory.volumes.insert(VolumeKey { role, id }, row.into());
    }
    let mut journal = Vec::new();
    for entry in transaction.open_table(JOURNAL)?.iter()? {
        journal.push(decode::<Order>("journal", entry?.1.value())?);
    }
    let boot_id = optional("boot_id", row("boot_id")?)?;
    let info = optional("info", row("info")?)?;
    Ok(Stored {
        checkpoint_id: need("checkpoint_id", row("checkpoint_id")?)?,
        boot_counter: optional("boot_counter", row("boot_counter")?)?.unwrap_or_default(),
        last_start: boot_id.zip(info),
        memory,
        total: optional("total", row("total")?)?.unwrap_or_default(),
        journal,
    })
}

fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, LoadError> {
    rmp_serde::from_slice(bytes).map_err(|error| LoadError::Corrupt(format!("{what}: {error}")))
}

fn optional<T: DeserializeOwned>(
    what: &str,
    bytes: Option<Vec<u8>>,
) -> Result<Option<T>, LoadError> {
    bytes.map(|bytes| decode(what, &bytes)).transpose()
}

fn need<T: DeserializeOwned>(what: &str, bytes: Option<Vec<u8>>) -> Result<T, LoadError> {
    optional(what, bytes)?.ok_or_else(|| LoadError::Corrupt(format!("row '{what}' is missing")))
}
