//! Operations: the order that one becomes, and its record until long after it ended. Whether it
//! may run is decided in `checks.rs`. Next: `checks.rs`.

use std::fmt;
use std::sync::Arc;

use resources::conversion::Unconvertible;
use resources::id::{AgentId, FrameworkId, LogIndex, OperationId, Principal, Seq};
use resources::message::Order;
use resources::operation::Operation;
use resources::time::Timestamp;
use resources::value::Value;
use serde::{Deserialize, Serialize};

use super::agents::Agent;
use super::command::{Command, Effect, Response};
use super::rejection::Rejection;
use super::transactions::TransactionId;
use super::{Moment, State};

/// Where an operation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OperationState {
    /// Committed, and not yet confirmed by its agent.
    Pending,
    /// Durable on its agent.
    Finished,
    /// Not done; its inputs are free again.
    Failed,
    /// Its agent was given up first.
    GoneByOperator,
}

impl fmt::Display for OperationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "OPERATION_PENDING",
            Self::Finished => "OPERATION_FINISHED",
            Self::Failed => "OPERATION_FAILED",
            Self::GoneByOperator => "OPERATION_GONE_BY_OPERATOR",
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
    /// The framework that asked; none for an operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub framework_id: Option<FrameworkId>,
    /// The framework's own name for it: it wants to hear what became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_id: Option<OperationId>,
    /// Whether nobody waits any longer to hear of its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_acknowledged: bool,
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
    /// Whether it launches tasks: then it is an order like others, and no operation to show.
    #[must_use]
    pub const fn is_launch(&self) -> bool {
        match self.operation {
            Operation::Launch(_) => true,
            Operation::Reserve { .. }
            | Operation::Unreserve { .. }
            | Operation::Create { .. }
            | Operation::Destroy { .. }
            | Operation::Grow { .. }
            | Operation::Shrink { .. } => false,
        }
    }
    /// Whether it has ended.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        match self.state {
            OperationState::Pending => false,
            OperationState::Finished | OperationState::Failed | OperationState::GoneByOperator => {
                true
            }
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
        Operation::Launch(launch) if launch.is_group => "LAUNCH_GROUP",
        Operation::Launch(_) => "LAUNCH",
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
        Operation::Launch(launch) => {
            let ids: Vec<&str> = launch.tasks.iter().map(|task| task.task_id.as_str()).collect();
            format!("{}/{}", launch.framework_id, ids.join(" "))
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
    /// The framework that asks, and its own name for the operation.
    pub(super) framework: Option<(&'a FrameworkId, Option<&'a OperationId>)>,
}

impl Agent {
    /// Takes an operation among its orders, or says why not and stays as it was.
    pub(super) fn accept(
        this: &mut Arc<Self>,
        stamp: &Stamp<'_>,
        (operation_id, operation): (&OperationId, &Operation),
    ) -> Result<Arc<OperationRecord>, Rejection> {
        let operation = this.prepare(stamp.principal, operation)?;
        if !this.used.is_empty() {
            let applies = this.applies(&operation);
            applies.map_err(|short| this.inapplicable(&operation, short, stamp.now.index))?;
        }
        let agent = Arc::make_mut(this);
        let given = agent.give(stamp, operation_id, operation);
        given.map_err(|failed| {
            let (short, operation) = *failed;
            agent.inapplicable(&operation, short, stamp.now.index)
        })
    }

    /// Makes an operation its next order, if the total holds what it takes: all or nothing.
    pub(super) fn give(
        &mut self,
        stamp: &Stamp<'_>,
        operation_id: &OperationId,
        operation: Operation,
    ) -> Result<Arc<OperationRecord>, Box<(Unconvertible, Operation)>> {
        if let Err(short) = self.total.apply_ahead_of(&mut self.confirmed, &operation) {
            return Err(Box::new((short, operation)));
        }
        let record = Arc::new(OperationRecord {
            operation_id: operation_id.clone(),
            agent_id: self.id.clone(),
            seq: self.next_seq,
            operation,
            state: OperationState::Pending,
            principal: stamp.principal.cloned(),
            index: stamp.now.index,
            submitted_at: stamp.now.wall,
            settled_at: None,
            message: None,
            transaction_id: stamp.transaction_id.cloned(),
            framework_id: stamp.framework.map(|(id, _)| id.clone()),
            own_id: stamp.framework.and_then(|(_, own_id)| own_id.cloned()),
            is_acknowledged: false,
        });
        self.next_seq = self.next_seq.next();
        if !record.is_launch() {
            self.moved(stamp.now.index);
        }
        self.pending.insert_mut(record.seq, Arc::clone(&record));
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
        let principal = command.principal.as_ref();
        let stamp = Stamp { now, principal, transaction_id: None, framework: None };
        let accepted = Agent::accept(agent, &stamp, (operation_id, operation));
        let resource_version = agent.resource_version;
        let record = accepted.map_err(|rejection| self.naming_tasks(rejection))?;
        let order = Effect::Order(agent_id.clone(), Box::new(record.order()));
        self.operations.insert_mut(operation_id.clone(), record);
        let response = Response::Accepted {
            operation_id: operation_id.clone(),
            agent_id: agent_id.clone(),
            resource_version,
        };
        Ok((response, vec![order, Effect::CapacityChanged(agent_id.clone())]))
    }
}
