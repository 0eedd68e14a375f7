//! Snapshots of the state as bytes: rows in MessagePack with field names, packed into chunks of
//! at most [`CHUNK_BYTES_MAX`]. The same state gives the same bytes. A wire format: versioned,
//! rows and fields are only added. Next: `codec/books.rs`.
//!
//! ```text
//! Head (version, level, cluster, clock, counters)
//! per agent, by id:  Agent · Confirmed (resource, count)* · Pending (record)* · Executor*
//! Settled (number, record)*, oldest first
//! Transaction*, by id
//! Key*, oldest first
//! per framework, by id:  Framework · Task* · CompletedTask (number, task)* · Unacknowledged
//!     (record)*, by the framework's own names
//! the same of each removed framework that is kept, oldest first, with its number
//! Tombstone (id, number)*, by id
//! Quota*, Weight*, by role, Maintenance when there is any
//! per gone agent, oldest first:  Gone · GoneHeld (resource, count)*
//! Alarm*
//! End (number of rows before it)
//! ```

mod books;
mod thaw;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use resources::id::{AgentId, CheckpointId, ClusterId, FrameworkId, Incarnation, MasterId, Seq};
use resources::message::AgentInfo;
use resources::quota::QuotaConfig;
use resources::resource::Resource;
use resources::role::Role;
use resources::time::Timestamp;
use resources::weight::Weight;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::activation::Activation;
use super::agents::{Agent, AgentStatus};
use super::gone::Gone;
use super::keys::KeyEntry;
use super::maintenance::Maintenance;
use super::operations::OperationRecord;
use super::presence::Presence;
use super::reconcile::Held;
use super::tasks::{Executor, Task};
use super::transactions::TransactionRecord;
use super::{Alarm, Announcement, Frozen, LEVEL, State};

use self::books::FrameworkRow;
pub use self::thaw::thaw;

/// Largest chunk. Rows are far smaller, because commands are bounded.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Version of the rows.
const VERSION: u32 = 1;

/// Bytes that are no snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Corrupt {
    /// A row that cannot be decoded.
    #[error("row {row} cannot be decoded: {reason}")]
    Undecodable {
        /// Its position.
        row: u64,
        /// The decoder's words.
        reason: String,
    },
    /// Written by a newer program.
    #[error("version {version} level {level}, this program knows {VERSION} and {LEVEL}")]
    TooNew {
        /// Of the rows.
        version: u32,
        /// Of the state.
        level: u32,
    },
    /// A row where none of its kind may stand.
    #[error("row {row} is out of place")]
    OutOfPlace {
        /// Its position.
        row: u64,
    },
    /// The rows end too early, or one is missing.
    #[error("{rows} rows, the last one says {said:?}")]
    Incomplete {
        /// How many there are.
        rows: u64,
        /// How many there should be, if the last row is there.
        said: Option<u64>,
    },
    /// The rows of a framework contradict each other.
    #[error("framework {framework_id}: {reason}")]
    FrameworkInconsistent {
        /// The framework.
        framework_id: FrameworkId,
        /// What does not fit.
        reason: String,
    },
    /// Rows that contradict each other.
    #[error("agent {agent_id}: {reason}")]
    Inconsistent {
        /// The agent.
        agent_id: AgentId,
        /// What does not fit.
        reason: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
enum Row {
    Head(Box<Head>),
    Agent(Box<AgentRow>),
    Confirmed { resource: Box<Resource>, count: u64 },
    Pending(Box<OperationRecord>),
    Settled { number: u64, record: Box<OperationRecord> },
    Transaction(Box<TransactionRecord>),
    Key(Box<KeyEntry>),
    Alarm(Alarm),
    End { rows: u64 },
    Executor(Box<Executor>),
    Framework(Box<FrameworkRow>),
    Task(Box<Task>),
    CompletedTask { number: u64, task: Box<Task> },
    Unacknowledged(Box<OperationRecord>),
    Tombstone { id: FrameworkId, number: u64 },
    Quota(Box<QuotaConfig>),
    Weight { role: Role, weight: Weight },
    Gone(Box<GoneRow>),
    GoneHeld { resource: Box<Resource>, count: u64 },
    Maintenance(Box<Maintenance>),
}

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    version: u32,
    level: u32,
    cluster_id: Option<ClusterId>,
    incarnation: Incarnation,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_restored: bool,
    clock: Timestamp,
    leader: Option<Announcement>,
    masters: BTreeMap<MasterId, String>,
    agents_made: u64,
    settled_next: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    keys_next: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    frameworks_made: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Debug, Serialize, Deserialize)]
struct AgentRow {
    id: AgentId,
    checkpoint_id: CheckpointId,
    boot_counter: u64,
    info: Arc<AgentInfo>,
    status: AgentStatus,
    #[serde(default, skip_serializing_if = "Presence::is_here")]
    presence: Presence,
    #[serde(default, skip_serializing_if = "is_zero")]
    absences: u64,
    #[serde(default, skip_serializing_if = "Activation::is_active")]
    activation: Activation,
    registered_at: Timestamp,
    reregistered_at: Option<Timestamp>,
    confirmed_seq: Seq,
    next_seq: Seq,
    resource_version: u64,
    unavailable: Vec<Resource>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    adopts: Option<Held>,
}

/// A gone agent without what it held.
#[derive(Debug, Serialize, Deserialize)]
struct GoneRow {
    id: AgentId,
    checkpoint_id: CheckpointId,
    info: Arc<AgentInfo>,
    at: Timestamp,
}

/// The image as chunks of bytes, made one at a time.
pub fn chunks(frozen: &Frozen) -> impl Iterator<Item = Vec<u8>> + '_ {
    Chunks { rows: rows(frozen), count: 0, carried: None, is_ended: false }
}

struct Chunks<I: Iterator<Item = Row>> {
    rows: I,
    count: u64,
    carried: Option<Vec<u8>>,
    is_ended: bool,
}

impl<I: Iterator<Item = Row>> Chunks<I> {
    fn next_row(&mut self) -> Option<Vec<u8>> {
        if let Some(carried) = self.carried.take() {
            return Some(carried);
        }
        let row = match self.rows.next() {
            Some(row) => {
                self.count += 1;
                row
            }
            None if self.is_ended => return None,
            None => {
                self.is_ended = true;
                Row::End { rows: self.count }
            }
        };
        Some(rmp_serde::to_vec_named(&row).expect("rows hold nothing that has no encoding"))
    }
}

impl<I: Iterator<Item = Row>> Iterator for Chunks<I> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut chunk = self.next_row()?;
        while let Some(row) = self.next_row() {
            if chunk.len() + row.len() > CHUNK_BYTES_MAX {
                self.carried = Some(row);
                break;
            }
            chunk.extend_from_slice(&row);
        }
        Some(chunk)
    }
}

fn rows(state: &State) -> impl Iterator<Item = Row> + '_ {
    let head = Head {
        version: VERSION,
        level: state.level,
        cluster_id: state.cluster_id.clone(),
        incarnation: state.incarnation,
        is_restored: state.is_restored,
        clock: state.clock,
        leader: state.leader.clone(),
        masters: state.masters.clone(),
        agents_made: state.agents_made,
        settled_next: state.settled_next,
        keys_next: state.keys.next(),
        frameworks_made: state.frameworks_made,
    };
    let settled = state.settled.iter().filter_map(|(number, id)| {
        let record = Box::new(state.operation(id)?.clone());
        Some(Row::Settled { number: *number, record })
    });
    let transactions = state.transactions().map(|t| Row::Transaction(Box::new(t.clone())));
    let keys = state.keys.iter().map(|entry| Row::Key(Box::new(entry.clone())));
    let quotas = state.quotas().map(|(role, quota)| {
        Row::Quota(Box::new(QuotaConfig { role: role.clone(), quota: quota.clone() }))
    });
    let weights = state.weights();
    let weights =
        weights.map(|(role, weight)| Row::Weight { role: role.clone(), weight: weight.clone() });
    let maintenance = Some(state.maintenance()).filter(|there| !there.is_empty());
    let maintenance = maintenance.map(|there| Row::Maintenance(Box::new(there.clone())));
    std::iter::once(Row::Head(Box::new(head)))
        .chain(state.agents().flat_map(agent_rows))
        .chain(settled)
        .chain(transactions)
        .chain(keys)
        .chain(books::rows(state))
        .chain(quotas)
        .chain(weights)
        .chain(maintenance)
        .chain(state.gone_agents().flat_map(gone_rows))
        .chain(state.alarms().cloned().map(Row::Alarm))
}

fn agent_rows(agent: &Agent) -> impl Iterator<Item = Row> + '_ {
    let row = AgentRow {
        id: agent.id.clone(),
        checkpoint_id: agent.checkpoint_id.clone(),
        boot_counter: agent.boot_counter,
        info: agent.info.clone(),
        status: agent.status.clone(),
        presence: agent.presence,
        absences: agent.absences,
        activation: agent.activation,
        registered_at: agent.registered_at,
        reregistered_at: agent.reregistered_at,
        confirmed_seq: agent.confirmed_seq,
        next_seq: agent.next_seq,
        resource_version: agent.resource_version,
        unavailable: agent.unavailable.clone(),
        adopts: agent.adopts,
    };
    let confirmed = agent
        .confirmed
        .entries(&agent.total)
        .map(|(resource, count)| Row::Confirmed { resource: Box::new(resource.clone()), count });
    let pending = agent.pending.values().map(|record| Row::Pending(Box::new((**record).clone())));
    let executors = agent.executors.values().map(|e| Row::Executor(Box::new((**e).clone())));
    std::iter::once(Row::Agent(Box::new(row))).chain(confirmed).chain(pending).chain(executors)
}

fn gone_rows(gone: &Gone) -> impl Iterator<Item = Row> + '_ {
    let row = GoneRow {
        id: gone.agent_id.clone(),
        checkpoint_id: gone.checkpoint_id.clone(),
        info: Arc::clone(&gone.info),
        at: gone.at,
    };
    let held = gone.held.entries();
    let held =
        held.map(|(resource, count)| Row::GoneHeld { resource: Box::new(resource.clone()), count });
    std::iter::once(Row::Gone(Box::new(row))).chain(held)
}

/// SHA-256 of a value's encoding.
pub(super) fn digest(value: &impl Serialize) -> [u8; 32] {
    let mut hash = Sha256::new();
    encode_into(&mut hash, value);
    hash.finalize().into()
}

/// Size of a value's encoding, without making it.
pub(crate) fn encoded_bytes(value: &impl Serialize) -> u64 {
    struct Count(u64);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    encode_into(&mut count, value);
    count.0
}

fn encode_into(writer: &mut impl io::Write, value: &impl Serialize) {
    rmp_serde::encode::write_named(writer, value)
        .expect("nothing here is without an encoding, and the writers take every byte");
}
