//! The rows of the checkpoint: what each holds, and how it is written into a transaction. Which
//! rows belong together is the core's decision. Layout and version stand in `checkpoint.rs`.

use redb::WriteTransaction;
use serde::{Deserialize, Serialize};

use resources::id::{OperationId, Seq};
use resources::message::{Outcome, Settled};
use resources::operation::Operation;
use resources::resource::Resource;
use resources::value::{ItemSet, Ranges, Scalar, Value};

use super::{
    EXECUTORS, FRAMEWORKS, HEARD, INTENTS, META, RESOURCES, SETTLED, STATUSES, StorageFailure,
    TASKS, VOLUMES,
};
use crate::core::event::{Ended, Marker, VolumeRecord, Write};
use crate::core::tasks::event::TaskWrite;

/// Value of the table `volumes`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct VolumeRow {
    create_seq: Seq,
    device: u64,
    inode: u64,
}

impl From<&VolumeRecord> for VolumeRow {
    fn from(record: &VolumeRecord) -> Self {
        let VolumeRecord { create_seq, marker: Marker { device, inode } } = *record;
        Self { create_seq, device, inode }
    }
}

impl From<VolumeRow> for VolumeRecord {
    fn from(row: VolumeRow) -> Self {
        let VolumeRow { create_seq, device, inode } = row;
        Self { create_seq, marker: Marker { device, inode } }
    }
}

/// Value of the table `settled`. The operation is there since version 2.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SettledRow {
    seq: Seq,
    operation_id: OperationId,
    outcome: Outcome,
    #[serde(default)]
    operation: Option<Operation>,
}

impl From<&Ended> for SettledRow {
    fn from(ended: &Ended) -> Self {
        let Settled { seq, operation_id, outcome } = ended.settled.clone();
        Self { seq, operation_id, outcome, operation: ended.operation.clone() }
    }
}

impl From<SettledRow> for Ended {
    fn from(row: SettledRow) -> Self {
        let SettledRow { seq, operation_id, outcome, operation } = row;
        Self { settled: Settled { seq, operation_id, outcome }, operation }
    }
}

/// Key of a resource in the table `resources`: all that it has but what may change while the
/// entry stays the same one, which are its amount and, for a volume, its mount and creator.
pub(super) fn key(resource: &Resource) -> Vec<u8> {
    let mut resource = resource.clone();
    if !resource.shared && !resource.is_indivisible() {
        resource.value = match resource.value {
            Value::Scalar(_) => Value::Scalar(Scalar::from_milli(0)),
            Value::Ranges(_) => Value::Ranges(Ranges::default()),
            Value::Set(_) => Value::Set(ItemSet::default()),
        };
    }
    if let Some(disk) = &mut resource.disk {
        disk.volume = None;
        if let Some(persistence) = &mut disk.persistence {
            persistence.principal = None;
        }
    }
    encode(&resource)
}

/// Puts one row into the transaction, or takes it out.
pub(super) fn write(transaction: &WriteTransaction, row: &Write) -> Result<(), StorageFailure> {
    let put = |key: &str, value: &[u8]| -> Result<(), StorageFailure> {
        transaction.open_table(META)?.insert(key, value)?;
        Ok(())
    };
    match row {
        Write::Fence(fence) => put("fence", &encode(fence))?,
        Write::AgentId(agent_id) => put("agent_id", &encode(agent_id))?,
        Write::Applied { seq, failed } => {
            put("applied", &encode(seq))?;
            put("failed", &encode(failed))?;
        }
        Write::Entries { removed, put } => {
            let mut table = transaction.open_table(RESOURCES)?;
            for resource in removed {
                table.remove(key(resource).as_slice())?;
            }
            for entry in put {
                table.insert(key(&entry.0).as_slice(), encode(entry).as_slice())?;
            }
        }
        Write::Intents(orders) => {
            let mut table = transaction.open_table(INTENTS)?;
            table.retain(|_, _| false)?;
            for order in orders {
                table.insert(order.seq.0, encode(order).as_slice())?;
            }
        }
        Write::Settle(ended) => {
            let mut table = transaction.open_table(SETTLED)?;
            let row = encode(&SettledRow::from(&**ended));
            table.insert(ended.settled.seq.0, row.as_slice())?;
        }
        Write::Forget(upto) => {
            transaction.open_table(SETTLED)?.retain_in(..=upto.0, |_, _| false)?;
        }
        Write::Volume(key, record) => {
            let mut table = transaction.open_table(VOLUMES)?;
            let row = encode(&VolumeRow::from(record));
            table.insert((key.role.as_str(), key.id.as_str()), row.as_slice())?;
        }
        Write::RemoveVolume(key) => {
            let mut table = transaction.open_table(VOLUMES)?;
            table.remove((key.role.as_str(), key.id.as_str()))?;
        }
        Write::Tasks(row) => write_task(transaction, row)?,
    }
    Ok(())
}

fn write_task(transaction: &WriteTransaction, row: &TaskWrite) -> Result<(), StorageFailure> {
    match row {
        TaskWrite::Framework(id, row) => {
            let mut table = transaction.open_table(FRAMEWORKS)?;
            match row {
                Some(row) => table.insert(id.as_str(), encode(row).as_slice())?,
                None => table.remove(id.as_str())?,
            };
        }
        TaskWrite::Executor(name, row) => {
            let key = (name.framework_id.as_str(), name.executor_id.as_str());
            let mut table = transaction.open_table(EXECUTORS)?;
            match row {
                Some(row) => {
                    table.insert(key, encode(row).as_slice())?;
                }
                None => {
                    table.remove(key)?;
                    transaction.open_table(HEARD)?.remove(key)?;
                }
            }
        }
        TaskWrite::Heard(name, number) => {
            let key = (name.framework_id.as_str(), name.executor_id.as_str());
            transaction.open_table(HEARD)?.insert(key, *number)?;
        }
        TaskWrite::Task(name, row) => {
            let key = (name.framework_id.as_str(), name.task_id.as_str());
            let mut table = transaction.open_table(TASKS)?;
            match row {
                Some(row) => {
                    table.insert(key, encode(row).as_slice())?;
                }
                None => {
                    table.remove(key)?;
                    transaction.open_table(STATUSES)?.remove(key)?;
                }
            }
        }
        TaskWrite::Status(name, row) => {
            let key = (name.framework_id.as_str(), name.task_id.as_str());
            transaction.open_table(STATUSES)?.insert(key, encode(row).as_slice())?;
        }
    }
    Ok(())
}

pub(super) fn encode<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("our own types have no unserializable part")
}
