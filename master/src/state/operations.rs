//! Operations: the order that one becomes, and its record until long after it ended. Whether it
//! may run is decided in `checks.rs`. Next: `checks.rs`.

use std::fmt;
use std::sync::Arc;

use resources::id::{AgentId, LogIndex, OperationId, Principal, Seq};
use resources::message::Order;
use resources::operation::Operation;
use resources::time::Timestamp;
use resources::value::Value;
use serde::{Deserialize, Serialize};

use super::agents::Agent;
use super::command::{Change, Command, Effect, Response};
use super::rejection::Rejection;
use super::transactions::TransactionId;
use super::{Moment, State, limits};

/// Where an operation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OperationState {
    /// Committed, and not yet confirmed by its agent.
    Pending,
    /// Durable on its agent.
    Finished,
    /// Not done; its inputs are free again.
    Failed,
}

impl fmt::Display for OperationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "OPERATION_PENDING",
            Self::Finished => "OPERATION_FINISHED",
            Self::Failed => "OPERATION_FAILED",
        })
    }
}

/// An operation from its acceptance until it is forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationRecord {
    /// Its name.
    pub operation_id: OperationId,
    /// Where it runs.
    pub agent_id: AgentId,
    /// Its number among the agent's orders.
    pub seq: Seq,
    /// What it does; volumes as they are stored, not as they were asked for.
    pub operation: Operation,
    /// Where it stands.
    pub state: OperationState,
    /// Who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
    /// The entry that accepted it.
    pub index: LogIndex,
    /// Wall time of its acceptance, for display.
    pub submitted_at: Timestamp,
    /// Wall time of its end, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The transaction that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction_id: Option<TransactionId>,
}

impl OperationRecord {
    /// A name in the form of a UUID (version 8), made from the operation id: Mesos' clients
    /// want one. The same on every master.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        let text = [self.agent_id.as_str(), "/", self.operation_id.as_str()].concat();
        let hash = text
            .bytes()
            .fold(OFFSET_BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
        let mut uuid = hash.to_be_bytes();
        uuid[6] = (uuid[6] & 0x0f) | 0x80;
        uuid[8] = (uuid[8] & 0x3f) | 0x80;
        uuid
    }
    /// The order for the agent.
    #[must_use]
    pub fn order(&self) -> Order {
        Order {
            seq: self.seq,
            operation_id: self.operation_id.clone(),
            operation: self.operation.clone(),
        }
    }
    /// Whether it has ended.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        match self.state {
            OperationState::Pending => false,
            OperationState::Finished | OperationState::Failed => true,
        }
    }
}

impl fmt::Display for OperationRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{} {} {}", self.operation_id, self.seq, self.state, name(&self.operation))?;
        self.message.as_ref().map_or(Ok(()), |message| write!(f, " ({message})"))
    }
}

/// Mesos' name of the operation.
#[must_use]
pub const fn name(operation: &Operation) -> &'static str {
    match operation {
        Operation::Reserve { .. } => "RESERVE",
        Operation::Unreserve { .. } => "UNRESERVE",
        Operation::Create { .. } => "CREATE",
        Operation::Destroy { .. } => "DESTROY",
        Operation::Grow { .. } => "GROW_VOLUME",
        Operation::Shrink { .. } => "SHRINK_VOLUME",
    }
}

/// An operation on one line.
pub(crate) fn describe(operation: &Operation) -> String {
    use super::rejection::list;
    let subject = match operation {
        Operation::Reserve { resources, source } if source.is_empty() => list(resources),
        Operation::Reserve { resources, source } => {
            format!("{} from {}", list(resources), list(source))
        }
        Operation::Unreserve { resources } => list(resources),
        Operation::Create { volumes } | Operation::Destroy { volumes } => list(volumes),
        Operation::Grow { volume, addition } => format!("{volume} by {addition}"),
        Operation::Shrink { volume, subtract } => {
            format!("{volume} by {}", Value::Scalar(*subtract))
        }
    };
    format!("{} {subject}", name(operation))
}

/// When and for whom operations are accepted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp<'a> {
    pub(super) now: Moment,
    pub(super) principal: Option<&'a Principal>,
    pub(super) transaction_id: Option<&'a TransactionId>,
}

impl Agent {
    /// Takes an operation among its orders, or says why not and stays as it was.
    pub(super) fn accept(
        this: &mut Arc<Self>,
        stamp: &Stamp<'_>,
        (operation_id, operation): (&OperationId, &Operation),
    ) -> Result<Arc<OperationRecord>, Rejection> {
        let operation = this.prepare(stamp.principal, operation)?;
        let agent = Arc::make_mut(this);
        // All or nothing: an error leaves the total as it was.
        if let Err(short) = agent.total.apply(&operation) {
            return Err(agent.inapplicable(&operation, short, stamp.now.index));
        }
        let record = Arc::new(OperationRecord {
            operation_id: operation_id.clone(),
            agent_id: agent.id.clone(),
            seq: agent.next_seq,
            operation,
            state: OperationState::Pending,
            principal: stamp.principal.cloned(),
            index: stamp.now.index,
            submitted_at: stamp.now.wall,
            settled_at: None,
            message: None,
            transaction_id: stamp.transaction_id.cloned(),
        });
        agent.next_seq = agent.next_seq.next();
        agent.moved(stamp.now.index);
        agent.pending.insert_mut(record.seq, Arc::clone(&record));
        Ok(record)
    }
}

impl State {
    pub(super) fn operate(
        &mut self,
        now: Moment,
        command: &Command,
        (agent_id, operation_id, operation): (&AgentId, &OperationId, &Operation),
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        let is_taken = self.operations.contains_key(operation_id);
        let agent = self
            .agents
            .get_mut(agent_id)
            .ok_or_else(|| Rejection::UnknownAgent { agent_id: agent_id.clone() })?;
        if is_taken {
            return Err(Rejection::DuplicateOperation { operation_id: operation_id.clone() });
        }
        let stamp = Stamp { now, principal: command.principal.as_ref(), transaction_id: None };
        let record = Agent::accept(agent, &stamp, (operation_id, operation))?;
        let resource_version = agent.resource_version;
        let order = Effect::Order(agent_id.clone(), Box::new(record.order()));
        self.operations.insert_mut(operation_id.clone(), record);
        let response = Response::Accepted {
            operation_id: operation_id.clone(),
            agent_id: agent_id.clone(),
            resource_version,
        };
        Ok((response, vec![order]))
    }

    /// Takes ended operations on record and forgets the oldest beyond the limit.
    pub(super) fn keep_settled(&mut self, settled: Vec<Arc<OperationRecord>>) -> Vec<Effect> {
        let mut effects = Vec::with_capacity(settled.len());
        for record in settled {
            let id = record.operation_id.clone();
            effects.push(Effect::Change(Change::OperationSettled(id.clone(), record.state)));
            effects.extend(self.settle_member(&record));
            self.settled.insert_mut(self.settled_next, id.clone());
            self.settled_next += 1;
            self.operations.insert_mut(id, record);
        }
        while self.settled.size() > limits::SETTLED_OPERATIONS_MAX {
            let (number, id) = self.settled.first().expect("longer than the limit");
            let (number, id) = (*number, id.clone());
            self.settled.remove_mut(&number);
            if let Some(record) = self.operations.get(&id).cloned() {
                self.operations.remove_mut(&id);
                self.forget_member(&record);
            }
        }
        effects
    }
}
