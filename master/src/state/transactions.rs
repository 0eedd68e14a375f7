//! Transactions: several operations on one or many agents, all or none in one log entry, and
//! the record of how they ended on their agents. They are tried on copies of the agents, which
//! take the agents' places only when each of them fits. Next: `dry_run.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use resources::id::{AgentId, InvalidId, LogIndex, OperationId, Principal};
use resources::operation::Operation;
use resources::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::agents::Agent;
use super::command::{Change, Command, Effect, Response};
use super::operations::{OperationRecord, OperationState, Stamp};
use super::rejection::Rejection;
use super::{Moment, State, limits};

/// Name of a transaction: `<term>-<n>`, from the same sequence as operations. Its operations
/// are `<term>-<n>.1` and so on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TransactionId(OperationId);

impl TransactionId {
    /// Checks the form of `text`.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidId> {
        OperationId::parse(text).map(Self)
    }
    /// The text of the id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl From<OperationId> for TransactionId {
    fn from(id: OperationId) -> Self {
        Self(id)
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Where.
    pub agent_id: AgentId,
    /// Its fresh name.
    pub operation_id: OperationId,
    /// What.
    pub operation: Operation,
}

/// Where a transaction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TransactionState {
    /// All of it is in the log, and none of it has failed; some agents have not confirmed.
    Committed,
    /// Durable on every agent.
    Finished,
    /// Some operations failed on their agents; the others stand.
    Partial,
    /// Every operation failed on its agent.
    Failed,
}

impl fmt::Display for TransactionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Committed => "TRANSACTION_COMMITTED",
            Self::Finished => "TRANSACTION_FINISHED",
            Self::Partial => "TRANSACTION_PARTIAL",
            Self::Failed => "TRANSACTION_FAILED",
        })
    }
}

/// A transaction, for as long as one of its operations is on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionRecord {
    /// Its name.
    pub transaction_id: TransactionId,
    /// Who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
    /// The entry that accepted it.
    pub index: LogIndex,
    /// Wall time of its acceptance, for display.
    pub submitted_at: Timestamp,
    /// Wall time of the end of its last operation, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
    /// Its operations, in order.
    pub operation_ids: Vec<OperationId>,
    /// How many have not ended.
    pub pending: u64,
    /// Those that failed on their agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<OperationId>,
    /// How many of its operations are still on record.
    pub remembered: u64,
}

impl TransactionRecord {
    /// Where it stands.
    #[must_use]
    pub const fn state(&self) -> TransactionState {
        if self.failed.is_empty() {
            if self.pending == 0 { TransactionState::Finished } else { TransactionState::Committed }
        } else if self.failed.len() == self.operation_ids.len() {
            TransactionState::Failed
        } else {
            TransactionState::Partial
        }
    }
    /// Whether each of its operations has ended.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.pending == 0
    }
}

impl fmt::Display for TransactionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, state, members) = (&self.transaction_id, self.state(), self.operation_ids.len());
        write!(f, "{id} {state} {members} operations, {} pending", self.pending)?;
        match self.failed.as_slice() {
            [] => Ok(()),
            failed => {
                let ids: Vec<&str> = failed.iter().map(OperationId::as_str).collect();
                write!(f, ", failed {}", ids.join(" "))
            }
        }
    }
}

/// Copies of agents on which operations are tried.
pub(super) struct Draft<'a> {
    state: &'a State,
    agents: BTreeMap<AgentId, Arc<Agent>>,
    records: Vec<Arc<OperationRecord>>,
    names: BTreeSet<OperationId>,
}

impl<'a> Draft<'a> {
    pub(super) const fn new(state: &'a State) -> Self {
        Self { state, agents: BTreeMap::new(), records: Vec::new(), names: BTreeSet::new() }
    }

    /// Runs one operation after those before it; a refused one leaves no trace.
    pub(super) fn run(
        &mut self,
        stamp: &Stamp<'_>,
        agent_id: &AgentId,
        (operation_id, operation): (&OperationId, &Operation),
    ) -> Result<(), Rejection> {
        if self.names.contains(operation_id) || self.state.operation(operation_id).is_some() {
            return Err(Rejection::DuplicateOperation { operation_id: operation_id.clone() });
        }
        if !self.agents.contains_key(agent_id) {
            let agent = self.state.known_agent(agent_id)?;
            self.agents.insert(agent_id.clone(), Arc::clone(agent));
        }
        let agent = self.agents.get_mut(agent_id).expect("put in above");
        let record = Agent::accept(agent, stamp, (operation_id, operation))?;
        self.names.insert(operation_id.clone());
        self.records.push(record);
        Ok(())
    }

    /// The agents as they would be.
    pub(super) fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values().map(Arc::as_ref)
    }

    /// Names a refused operation by its place. What an earlier one of the same transaction took
    /// is named by its place too: its id has never been.
    pub(super) fn refuse(&self, position: usize, mut rejection: Rejection) -> Rejection {
        if let Rejection::Insufficient { blocked_by, .. } = &mut rejection {
            for id in blocked_by {
                let at = self.records.iter().position(|record| record.operation_id == *id);
                if let Some(at) = at {
                    *id = place(at);
                }
            }
        }
        member(position, self.state.naming_tasks(rejection))
    }
}

/// A refused operation, named by its place.
pub(super) fn member(position: usize, rejection: Rejection) -> Rejection {
    Rejection::Member { position: position as u64, rejection: Box::new(rejection) }
}

/// How an operation of a request is called before it has an id.
pub(super) fn place(position: usize) -> OperationId {
    OperationId::parse(format!("operations[{position}]"))
        .expect("letters, digits and brackets are an id")
}

/// Whether a transaction may have so many operations.
pub(super) fn check_size(operations: usize) -> Result<(), Rejection> {
    match operations {
        1..=limits::TRANSACTION_OPERATIONS_MAX => Ok(()),
        _ => Err(Rejection::TransactionSize { operations: operations as u64 }),
    }
}

impl State {
    /// All of a transaction's operations, or none of them.
    pub(super) fn transact(
        &mut self,
        now: Moment,
        command: &Command,
        (transaction_id, members): (&TransactionId, &[Member]),
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        check_size(members.len())?;
        if self.transactions.contains_key(transaction_id) {
            let operation_id = transaction_id.0.clone();
            return Err(Rejection::DuplicateOperation { operation_id });
        }
        let principal = command.principal.as_ref();
        let transaction = Some(transaction_id);
        let stamp = Stamp { now, principal, transaction_id: transaction, framework: None };
        let mut draft = Draft::new(self);
        for (position, member) in members.iter().enumerate() {
            let asked = (&member.operation_id, &member.operation);
            draft
                .run(&stamp, &member.agent_id, asked)
                .map_err(|rejection| draft.refuse(position, rejection))?;
        }
        let Draft { agents, records, .. } = draft;
        let versions =
            agents.iter().map(|(id, agent)| (id.clone(), agent.resource_version)).collect();
        let orders = records.iter().map(|r| Effect::Order(r.agent_id.clone(), Box::new(r.order())));
        let changed = agents.keys().cloned().map(Effect::CapacityChanged);
        let effects = orders.chain(changed).collect();
        for (agent_id, agent) in agents {
            self.agents.insert_mut(agent_id, agent);
        }
        let operation_ids: Vec<OperationId> =
            records.iter().map(|record| record.operation_id.clone()).collect();
        for record in records {
            self.operations.insert_mut(record.operation_id.clone(), record);
        }
        let count = operation_ids.len() as u64;
        let record = TransactionRecord {
            transaction_id: transaction_id.clone(),
            principal: command.principal.clone(),
            index: now.index,
            submitted_at: now.wall,
            settled_at: None,
            operation_ids: operation_ids.clone(),
            pending: count,
            failed: Vec::new(),
            remembered: count,
        };
        self.transactions.insert_mut(transaction_id.clone(), Arc::new(record));
        let transaction_id = transaction_id.clone();
        Ok((Response::Transacted { transaction_id, operation_ids, versions }, effects))
    }

    /// Takes note of an operation's end in its transaction.
    pub(super) fn settle_member(&mut self, record: &OperationRecord) -> Option<Effect> {
        let transaction_id = record.transaction_id.as_ref()?;
        let transaction = Arc::make_mut(self.transactions.get_mut(transaction_id)?);
        let before = transaction.state();
        transaction.pending = transaction.pending.saturating_sub(1);
        if record.state != OperationState::Finished {
            transaction.failed.push(record.operation_id.clone());
        }
        if transaction.is_settled() {
            transaction.settled_at = record.settled_at;
        }
        let after = transaction.state();
        (after != before)
            .then(|| Effect::Change(Change::TransactionMoved(transaction_id.clone(), after)))
    }

    /// Forgets a transaction with the last of its operations.
    pub(super) fn forget_member(&mut self, record: &OperationRecord) {
        let Some(transaction_id) = &record.transaction_id else { return };
        let Some(transaction) = self.transactions.get_mut(transaction_id) else { return };
        let transaction = Arc::make_mut(transaction);
        transaction.remembered = transaction.remembered.saturating_sub(1);
        if transaction.remembered == 0 {
            self.transactions.remove_mut(transaction_id);
        }
    }
}
