//! Reading a snapshot. Everything is checked, and nothing panics: the bytes may come from a
//! damaged disk. Next: `../../machine.rs`.

use std::collections::VecDeque;
use std::sync::Arc;

use resources::collection::Resources;
use resources::conversion::{Fold, fold};
use resources::id::{OperationId, Seq};
use resources::persistent::PersistentMap;
use resources::quota::QuotaConfig;
use resources::resource::Resource;

use super::books::Books;
use super::{AgentRow, Corrupt, GoneRow, Head, Row, VERSION};
use crate::state::agents::Agent;
use crate::state::gone::Gone;
use crate::state::keys::KeyTable;
use crate::state::operations::OperationRecord;
use crate::state::tasks::Executor;
use crate::state::transactions::TransactionRecord;
use crate::state::{LEVEL, State};

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
    frameworks: Books,
    gone: Option<(GoneRow, Vec<(Resource, u64)>)>,
}

/// An agent whose rows are still coming.
struct OpenAgent {
    row: AgentRow,
    confirmed: Vec<(Resource, u64)>,
    pending: PersistentMap<Seq, Arc<OperationRecord>>,
    executors: Vec<Arc<Executor>>,
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
                let (confirmed, pending, executors) = Default::default();
                self.open = Some(OpenAgent { row: *row, confirmed, pending, executors });
            }
            Row::Confirmed { resource, count } => {
                self.open.as_mut().ok_or(out_of_place)?.confirmed.push((*resource, count));
            }
            Row::Pending(record) => {
                let open = self.open.as_mut().ok_or(out_of_place)?;
                open.pending.insert_mut(record.seq, Arc::new(*record));
            }
            Row::Executor(executor) => {
                let open = self.open.as_mut().ok_or(out_of_place)?;
                open.executors.push(Arc::new(*executor));
            }
            Row::Settled { number, record } => {
                self.close()?;
                self.settled(number, *record);
            }
            Row::Transaction(record) => {
                self.close()?;
                self.transaction(*record);
            }
            Row::Key(entry) => {
                self.close()?;
                if entry.number >= self.state.keys.next() {
                    return Err(out_of_place);
                }
                self.state.keys.insert(*entry);
            }
            row @ (Row::Framework(_)
            | Row::Task(_)
            | Row::CompletedTask { .. }
            | Row::Unacknowledged(_)
            | Row::Tombstone { .. }) => {
                self.close()?;
                let is_taken = self.frameworks.take(&mut self.state, row)?;
                is_taken.then_some(()).ok_or(out_of_place)?;
            }
            row @ (Row::Quota(_) | Row::Weight { .. } | Row::Maintenance(_)) => {
                self.close()?;
                self.rule(row);
            }
            Row::Gone(row) => self.gone(*row)?,
            Row::GoneHeld { resource, count } => {
                self.gone.as_mut().ok_or(out_of_place)?.1.push((*resource, count));
            }
            Row::Alarm(alarm) => {
                self.close()?;
                self.state.alarms.push_back(alarm);
            }
            Row::End { rows } => {
                self.close()?;
                self.close_gone();
                self.frameworks.finish(&mut self.state)?;
                self.said = Some(rows);
            }
        }
        Ok(())
    }

    fn gone(&mut self, row: GoneRow) -> Result<(), Corrupt> {
        self.close()?;
        self.close_gone();
        self.gone = Some((row, Vec::new()));
        Ok(())
    }

    /// A row of what holds for the whole cluster.
    fn rule(&mut self, row: Row) {
        match row {
            Row::Quota(row) => {
                let QuotaConfig { role, quota } = *row;
                self.state.quotas.insert_mut(role, Arc::new(quota));
            }
            Row::Weight { role, weight } => self.state.weights.insert_mut(role, weight),
            Row::Maintenance(there) => self.state.maintenance = Arc::new(*there),
            Row::Head(_)
            | Row::Agent(_)
            | Row::Confirmed { .. }
            | Row::Pending(_)
            | Row::Executor(_)
            | Row::Settled { .. }
            | Row::Transaction(_)
            | Row::Key(_)
            | Row::Framework(_)
            | Row::Task(_)
            | Row::CompletedTask { .. }
            | Row::Unacknowledged(_)
            | Row::Tombstone { .. }
            | Row::Gone(_)
            | Row::GoneHeld { .. }
            | Row::Alarm(_)
            | Row::End { .. } => unreachable!("take() hands over no other"),
        }
    }

    fn head(&mut self, head: Head) -> Result<(), Corrupt> {
        if head.version > VERSION || head.level > LEVEL {
            return Err(Corrupt::TooNew { version: head.version, level: head.level });
        }
        let mut keys = KeyTable::default();
        keys.set_next(head.keys_next);
        self.state = State {
            keys,
            level: head.level,
            cluster_id: head.cluster_id,
            incarnation: head.incarnation,
            is_restored: head.is_restored,
            clock: head.clock,
            leader: head.leader,
            masters: head.masters,
            agents_made: head.agents_made,
            settled_next: head.settled_next,
            frameworks_made: head.frameworks_made,
            alarms: VecDeque::new(),
            ..State::default()
        };
        Ok(())
    }

    fn settled(&mut self, number: u64, record: OperationRecord) {
        let id = record.operation_id.clone();
        self.state.settled.insert_mut(number, id.clone());
        if self.state.operations.get(&id).is_none() {
            self.state.operations.insert_mut(id, Arc::new(record));
        }
    }

    fn transaction(&mut self, mut record: TransactionRecord) {
        // What is remembered is counted anew: it has to be what is there.
        let is_known = |id: &&OperationId| self.state.operation(id).is_some();
        record.remembered = record.operation_ids.iter().filter(is_known).count() as u64;
        self.state.transactions.insert_mut(record.transaction_id.clone(), Arc::new(record));
    }

    fn close(&mut self) -> Result<(), Corrupt> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let agent = open.agent()?;
        for record in agent.pending.values().filter(|record| !record.is_launch()) {
            self.state.operations.insert_mut(record.operation_id.clone(), Arc::clone(record));
        }
        let (id, checkpoint_id) = (agent.id.clone(), agent.checkpoint_id.clone());
        self.state.by_checkpoint.insert_mut(checkpoint_id, id.clone());
        self.state.agents.insert_mut(id, Arc::new(agent));
        Ok(())
    }
}

/// Agents that are gone.
impl Reader {
    fn close_gone(&mut self) {
        let Some((row, held)) = self.gone.take() else { return };
        let GoneRow { id, checkpoint_id, info, at } = row;
        let (number, held) = (self.state.gone.size() as u64, Resources::from(held));
        self.state.keep_gone(Gone { number, agent_id: id, checkpoint_id, info, at, held });
    }
}

impl OpenAgent {
    fn agent(self) -> Result<Agent, Corrupt> {
        let Self { row, confirmed, pending, executors } = self;
        let agent_id = row.id.clone();
        let inconsistent = |reason: String| Corrupt::Inconsistent { agent_id, reason };
        let given = (row.confirmed_seq.0.saturating_add(1)..row.next_seq.0).map(Seq);
        if !pending.keys().copied().eq(given) {
            return Err(inconsistent("its orders are not dense".to_owned()));
        }
        let open = pending.values().filter(|record| !record.is_settled());
        let Fold { total, confirmed, failed } =
            fold(confirmed.into(), open.map(|record| &record.operation));
        if !failed.is_empty() {
            return Err(inconsistent(format!("{} orders do not fold", failed.len())));
        }
        let mut agent = Agent {
            id: row.id,
            checkpoint_id: row.checkpoint_id,
            boot_counter: row.boot_counter,
            base: row.info.resources.iter().cloned().collect(),
            info: row.info,
            status: row.status,
            presence: row.presence,
            absences: row.absences,
            activation: row.activation,
            registered_at: row.registered_at,
            reregistered_at: row.reregistered_at,
            confirmed,
            confirmed_seq: row.confirmed_seq,
            pending,
            total,
            next_seq: row.next_seq,
            resource_version: row.resource_version,
            unavailable: row.unavailable,
            adopts: row.adopts,
            used: Resources::new(),
            used_by: PersistentMap::default(),
            tasks: PersistentMap::default(),
            executors: PersistentMap::default(),
        };
        for executor in executors {
            agent.add_executor(executor);
        }
        Ok(agent)
    }
}
