//! Snapshots of the state as bytes: rows in MessagePack with field names, packed into chunks of
//! at most [`CHUNK_BYTES_MAX`]. The same state gives the same bytes. A wire format: versioned,
//! rows and fields are only added. Reading checks everything and never panics.
//! Next: `../machine.rs`.
//!
//! ```text
//! Head (version, level, cluster, clock, counters)
//! per agent, by id:  Agent · Confirmed (resource, count)* · Pending (record)*
//! Settled (number, record)*, oldest first
//! Alarm*
//! End (number of rows before it)
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use resources::collection::Resources;
use resources::conversion::fold;
use resources::id::{AgentId, CheckpointId, ClusterId, Incarnation, MasterId, Seq};
use resources::message::AgentInfo;
use resources::resource::Resource;
use resources::time::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::agents::{Agent, AgentStatus};
use super::operations::OperationRecord;
use super::{Alarm, Announcement, Frozen, LEVEL, State};

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
    Alarm(Alarm),
    End { rows: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    version: u32,
    level: u32,
    cluster_id: Option<ClusterId>,
    incarnation: Incarnation,
    clock: Timestamp,
    leader: Option<Announcement>,
    masters: BTreeMap<MasterId, String>,
    agents_made: u64,
    settled_next: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct AgentRow {
    id: AgentId,
    checkpoint_id: CheckpointId,
    boot_counter: u64,
    info: AgentInfo,
    status: AgentStatus,
    registered_at: Timestamp,
    reregistered_at: Option<Timestamp>,
    confirmed_seq: Seq,
    next_seq: Seq,
    resource_version: u64,
    unavailable: Vec<Resource>,
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
        clock: state.clock,
        leader: state.leader.clone(),
        masters: state.masters.clone(),
        agents_made: state.agents_made,
        settled_next: state.settled_next,
    };
    let settled = state.settled.iter().filter_map(|(number, id)| {
        let record = Box::new(state.operation(id)?.clone());
        Some(Row::Settled { number: *number, record })
    });
    std::iter::once(Row::Head(Box::new(head)))
        .chain(state.agents().flat_map(agent_rows))
        .chain(settled)
        .chain(state.alarms().cloned().map(Row::Alarm))
}

fn agent_rows(agent: &Agent) -> impl Iterator<Item = Row> + '_ {
    let row = AgentRow {
        id: agent.id.clone(),
        checkpoint_id: agent.checkpoint_id.clone(),
        boot_counter: agent.boot_counter,
        info: agent.info.clone(),
        status: agent.status.clone(),
        registered_at: agent.registered_at,
        reregistered_at: agent.reregistered_at,
        confirmed_seq: agent.confirmed_seq,
        next_seq: agent.next_seq,
        resource_version: agent.resource_version,
        unavailable: agent.unavailable.clone(),
    };
    let confirmed = agent
        .confirmed
        .entries()
        .map(|(resource, count)| Row::Confirmed { resource: Box::new(resource.clone()), count });
    let pending = agent.pending.values().map(|record| Row::Pending(Box::new((**record).clone())));
    std::iter::once(Row::Agent(Box::new(row))).chain(confirmed).chain(pending)
}

/// Rebuilds a state from its chunks.
///
/// # Errors
/// When the bytes are not what [`chunks`] yields.
pub fn thaw(chunks: impl Iterator<Item = Vec<u8>>) -> Result<State, Corrupt> {
    let mut reader = Reader::default();
    for chunk in chunks {
        let mut bytes = chunk.as_slice();
        while !bytes.is_empty() {
            let row: Row = rmp_serde::from_read(&mut bytes).map_err(|error| {
                Corrupt::Undecodable { row: reader.rows, reason: error.to_string() }
            })?;
            reader.take(row)?;
        }
    }
    match reader.said {
        Some(said) if said + 1 == reader.rows => Ok(reader.state),
        said => Err(Corrupt::Incomplete { rows: reader.rows, said }),
    }
}

#[derive(Default)]
struct Reader {
    state: State,
    rows: u64,
    said: Option<u64>,
    open: Option<OpenAgent>,
}

/// An agent whose rows are still coming.
struct OpenAgent {
    row: AgentRow,
    confirmed: Vec<(Resource, u64)>,
    pending: BTreeMap<Seq, Arc<OperationRecord>>,
}

impl Reader {
    fn take(&mut self, row: Row) -> Result<(), Corrupt> {
        let out_of_place = Corrupt::OutOfPlace { row: self.rows };
        let is_first = self.rows == 0;
        self.rows += 1;
        if is_first != matches!(row, Row::Head(_)) || self.said.is_some() {
            return Err(out_of_place);
        }
        match row {
            Row::Head(head) => self.head(*head)?,
            Row::Agent(row) => {
                self.close()?;
                let (confirmed, pending) = (Vec::new(), BTreeMap::new());
                self.open = Some(OpenAgent { row: *row, confirmed, pending });
            }
            Row::Confirmed { resource, count } => {
                self.open.as_mut().ok_or(out_of_place)?.confirmed.push((*resource, count));
            }
            Row::Pending(record) => {
                let open = self.open.as_mut().ok_or(out_of_place)?;
                open.pending.insert(record.seq, Arc::new(*record));
            }
            Row::Settled { number, record } => {
                self.close()?;
                let id = record.operation_id.clone();
                self.state.settled.insert(number, id.clone());
                if self.state.operations.get(&id).is_none() {
                    self.state.operations.insert(id, Arc::new(*record));
                }
            }
            Row::Alarm(alarm) => {
                self.close()?;
                self.state.alarms.push_back(alarm);
            }
            Row::End { rows } => {
                self.close()?;
                self.said = Some(rows);
            }
        }
        Ok(())
    }

    fn head(&mut self, head: Head) -> Result<(), Corrupt> {
        if head.version > VERSION || head.level > LEVEL {
            return Err(Corrupt::TooNew { version: head.version, level: head.level });
        }
        self.state = State {
            level: head.level,
            cluster_id: head.cluster_id,
            incarnation: head.incarnation,
            clock: head.clock,
            leader: head.leader,
            masters: head.masters,
            agents_made: head.agents_made,
            settled_next: head.settled_next,
            alarms: VecDeque::new(),
            ..State::default()
        };
        Ok(())
    }

    fn close(&mut self) -> Result<(), Corrupt> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let agent = open.agent()?;
        for record in agent.pending.values() {
            self.state.operations.insert(record.operation_id.clone(), Arc::clone(record));
        }
        let (id, checkpoint_id) = (agent.id.clone(), agent.checkpoint_id.clone());
        self.state.by_checkpoint.insert(checkpoint_id, id.clone());
        self.state.agents.insert(id, Arc::new(agent));
        Ok(())
    }
}

impl OpenAgent {
    fn agent(self) -> Result<Agent, Corrupt> {
        let Self { row, confirmed, pending } = self;
        let agent_id = row.id.clone();
        let inconsistent = |reason: String| Corrupt::Inconsistent { agent_id, reason };
        let given = (row.confirmed_seq.0.saturating_add(1)..row.next_seq.0).map(Seq);
        if !pending.keys().copied().eq(given) {
            return Err(inconsistent("its orders are not dense".to_owned()));
        }
        let confirmed = Resources::from(confirmed);
        let open = pending.values().filter(|record| !record.is_settled());
        let (total, failed) = fold(&confirmed, open.map(|record| &record.operation));
        if !failed.is_empty() {
            return Err(inconsistent(format!("{} orders do not fold", failed.len())));
        }
        Ok(Agent {
            id: row.id,
            checkpoint_id: row.checkpoint_id,
            boot_counter: row.boot_counter,
            base: row.info.resources.iter().cloned().collect(),
            info: row.info,
            status: row.status,
            registered_at: row.registered_at,
            reregistered_at: row.reregistered_at,
            confirmed,
            confirmed_seq: row.confirmed_seq,
            pending,
            total,
            next_seq: row.next_seq,
            resource_version: row.resource_version,
            unavailable: row.unavailable,
        })
    }
}
