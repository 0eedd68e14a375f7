//! Reads every row of the checkpoint at a start, and refuses what it does not understand. The
//! layout stands in `checkpoint.rs`.

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, TableError};
use serde::de::DeserializeOwned;

use resources::collection::Resources;
use resources::id::{ExecutorId, FrameworkId, TaskId, VolumeId};
use resources::message::Order;
use resources::resource::Resource;
use resources::role::Role;
use resources::task::ExecutorName;

use super::row::{SettledRow, VolumeRow};
use super::{
    EXECUTORS, FORMAT_VERSION, FRAMEWORKS, HEARD, INTENTS, JOURNAL, META, RESOURCES, SETTLED,
    STATUSES, Stored, TASKS, VOLUMES,
};
use crate::core::event::{Ended, Memory, VolumeKey};
use crate::core::tasks::TaskMemory;
use crate::core::tasks::row::{StatusRow, TaskName};

/// The last version without a table of resources.
pub(super) const VERSION_WITH_JOURNAL: u64 = 1;
/// The last version without tables of tasks.
const VERSION_WITHOUT_TASKS: u64 = 2;

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
        let row: SettledRow = decode("settled", entry?.1.value())?;
        let ended = Ended::from(row);
        memory.settled.insert(ended.settled.seq, ended);
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
    if version > VERSION_WITHOUT_TASKS {
        memory.tasks = tasks(&transaction)?;
    }
    let total = if version > VERSION_WITH_JOURNAL {
        resources(&transaction)?
    } else {
        let total = optional("total", row("total")?)?.unwrap_or_default();
        with_journal(total, &transaction)?
    };
    let boot_id = optional("boot_id", row("boot_id")?)?;
    let info = optional("info", row("info")?)?;
    Ok(Stored {
        checkpoint_id: need("checkpoint_id", row("checkpoint_id")?)?,
        boot_counter: optional("boot_counter", row("boot_counter")?)?.unwrap_or_default(),
        last_start: boot_id.zip(info),
        memory,
        total,
        version,
    })
}

fn resources(transaction: &ReadTransaction) -> Result<Resources, LoadError> {
    let mut entries: Vec<(Resource, u64)> = Vec::new();
    for entry in transaction.open_table(RESOURCES)?.iter()? {
        entries.push(decode("resources", entry?.1.value())?);
    }
    let count = entries.len();
    let total = Resources::from(entries);
    if total.entries().count() != count {
        return Err(LoadError::Corrupt("resources: two rows for one resource".to_owned()));
    }
    Ok(total)
}

/// Executors and tasks. Their tables are made at the first start.
fn tasks(transaction: &ReadTransaction) -> Result<TaskMemory, LoadError> {
    let mut memory = TaskMemory::default();
    let table = match transaction.open_table(FRAMEWORKS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(memory),
        Err(error) => return Err(error.into()),
    };
    for entry in table.iter()? {
        let (key, value) = entry?;
        let id = framework_id("frameworks", key.value())?;
        memory.frameworks.insert(id, decode("frameworks", value.value())?);
    }
    let heard = transaction.open_table(HEARD)?;
    for entry in transaction.open_table(EXECUTORS)?.iter()? {
        let (key, value) = entry?;
        let (framework, executor) = key.value();
        let name = ExecutorName {
            framework_id: framework_id("executors", framework)?,
            executor_id: ExecutorId::parse(executor).map_err(|error| bad("executors", &error))?,
        };
        let upto = heard.get((framework, executor))?.map_or(0, |number| number.value());
        memory.executors.insert(name, (decode("executors", value.value())?, upto));
    }
    let statuses = transaction.open_table(STATUSES)?;
    for entry in transaction.open_table(TASKS)?.iter()? {
        let (key, value) = entry?;
        let (framework, task) = key.value();
        let name = TaskName {
            framework_id: framework_id("tasks", framework)?,
            task_id: TaskId::parse(task).map_err(|error| bad("tasks", &error))?,
        };
        let status = statuses.get((framework, task))?;
        let status = status.map(|row| decode("statuses", row.value())).transpose()?;
        let status = status.unwrap_or_else(StatusRow::new);
        memory.tasks.insert(name, (decode("tasks", value.value())?, status));
    }
    Ok(memory)
}

fn framework_id(table: &str, text: &str) -> Result<FrameworkId, LoadError> {
    FrameworkId::parse(text).map_err(|error| bad(table, &error))
}

fn bad(table: &str, error: &dyn std::fmt::Display) -> LoadError {
    LoadError::Corrupt(format!("{table}: {error}"))
}

/// How version 1 kept the total.
fn with_journal(
    mut total: Resources,
    transaction: &ReadTransaction,
) -> Result<Resources, LoadError> {
    let journal = match transaction.open_table(JOURNAL) {
        Ok(journal) => journal,
        Err(TableError::TableDoesNotExist(_)) => return Ok(total),
        Err(error) => return Err(error.into()),
    };
    for entry in journal.iter()? {
        let order: Order = decode("journal", entry?.1.value())?;
        total.apply(&order.operation).map_err(|why| {
            LoadError::Corrupt(format!("journal: order {} does not apply: {why}", order.seq))
        })?;
    }
    Ok(total)
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
