//! Operations: what may run on an agent, the order it becomes, and its record until long after
//! it ended. Form is `resources::validate`'s matter, arithmetic `resources::conversion`'s.
//! Next: `confirm.rs`.

use std::fmt;
use std::sync::Arc;

use resources::collection::Resources;
use resources::conversion::Unconvertible;
use resources::id::{AgentId, LogIndex, OperationId, Principal, Seq};
use resources::message::Order;
use resources::operation::Operation;
use resources::resource::Resource;
use resources::time::Timestamp;
use resources::validate;
use resources::value::{Scalar, Value};
use serde::{Deserialize, Serialize};

use super::agents::{Agent, AgentStatus};
use super::command::{Change, Command, Effect, Response};
use super::rejection::Rejection;
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

impl Agent {
    /// Every check that an operation must pass here, and the operation as it is to be carried
    /// out.
    ///
    /// # Errors
    /// The first rule that says no.
    pub fn resolve(
        &self,
        principal: Option<&Principal>,
        operation: &Operation,
    ) -> Result<Operation, Rejection> {
        let operation = self.prepare(principal, operation)?;
        let applies = self.total.check(&operation);
        applies.map_err(|short| self.inapplicable(&operation, short))?;
        Ok(operation)
    }

    /// Every check but whether the resources are there. Volumes are named by role and id, and
    /// acted upon as they are stored.
    fn prepare(
        &self,
        principal: Option<&Principal>,
        operation: &Operation,
    ) -> Result<Operation, Rejection> {
        self.accepts_operations()?;
        validate::operation(operation, principal).map_err(|invalid| Rejection::Invalid {
            agent_id: self.id.clone(),
            operation: name(operation).to_owned(),
            reason: invalid.to_string(),
        })?;
        if self.pending.len() >= limits::PENDING_ORDERS_MAX {
            return Err(Rejection::Overloaded {
                agent_id: self.id.clone(),
                pending: self.pending.len() as u64,
            });
        }
        Ok(match operation {
            Operation::Reserve { .. } | Operation::Unreserve { .. } => operation.clone(),
            Operation::Create { volumes } => {
                volumes.iter().try_for_each(|volume| self.has_no_volume_like(volume))?;
                operation.clone()
            }
            Operation::Destroy { volumes } => Operation::Destroy { volumes: self.stored(volumes)? },
            Operation::Grow { volume, addition } => {
                Operation::Grow { volume: self.stored_or(volume), addition: addition.clone() }
            }
            Operation::Shrink { volume, subtract } => {
                Operation::Shrink { volume: self.stored_or(volume), subtract: *subtract }
            }
        })
    }

    pub(super) fn accepts_operations(&self) -> Result<(), Rejection> {
        match &self.status {
            AgentStatus::Registered => Ok(()),
            AgentStatus::Regressed { applied_seq } => Err(Rejection::Regressed {
                agent_id: self.id.clone(),
                applied_seq: *applied_seq,
                confirmed_seq: self.confirmed_seq,
            }),
            AgentStatus::Diverged { .. } => Err(Rejection::Diverged { agent_id: self.id.clone() }),
        }
    }

    /// Mesos compares sets after merging, so an equal shared volume slips through there; ours
    /// compares role and id of each entry (decision A7).
    fn has_no_volume_like(&self, volume: &Resource) -> Result<(), Rejection> {
        let (Some(role), Some(volume_id)) = (volume.reservation_role(), volume.volume_id()) else {
            return Ok(());
        };
        match self.total.find_volume(role, volume_id) {
            None => Ok(()),
            Some(_) => {
                Err(Rejection::VolumeExists { role: role.clone(), volume_id: volume_id.clone() })
            }
        }
    }

    fn stored(&self, volumes: &[Resource]) -> Result<Vec<Resource>, Rejection> {
        let mut found = Vec::with_capacity(volumes.len());
        let mut unknown = Vec::new();
        for volume in volumes {
            match self.find_stored(volume) {
                Some(stored) => found.push(stored.clone()),
                None => unknown.push(volume.clone()),
            }
        }
        if unknown.is_empty() {
            Ok(found)
        } else {
            Err(Rejection::VolumesNotFound { volumes: unknown })
        }
    }

    fn stored_or(&self, volume: &Resource) -> Resource {
        self.find_stored(volume).unwrap_or(volume).clone()
    }

    /// The volume on record that is meant: equal but for its mount and creator (spec §1.6).
    fn find_stored(&self, volume: &Resource) -> Option<&Resource> {
        let stored = self.total.find_volume(volume.reservation_role()?, volume.volume_id()?)?;
        [stored].into_iter().find(|_| self.total.contains_one(volume))
    }

    fn inapplicable(&self, operation: &Operation, short: Unconvertible) -> Rejection {
        let (wanted, available) = match short {
            Unconvertible::Insufficient { wanted, available } => (wanted, available),
            Unconvertible::SharesRemain { volume, shares: _ } => (volume.clone(), Some(volume)),
            Unconvertible::ProviderUnsupported { .. } | Unconvertible::NotConserved { .. } => {
                return Rejection::Invalid {
                    agent_id: self.id.clone(),
                    operation: name(operation).to_owned(),
                    reason: short.to_string(),
                };
            }
        };
        Rejection::Insufficient {
            blocked_by: self.blocked_by(&wanted),
            wanted: vec![*wanted],
            available: available.into_iter().map(|resource| *resource).collect(),
        }
    }

    /// Unconfirmed operations that took something of what is wanted.
    fn blocked_by(&self, wanted: &Resource) -> Vec<OperationId> {
        let sample = sample(wanted);
        self.pending
            .values()
            .filter(|record| !record.is_settled())
            .filter(|record| {
                let consumed: Resources = record.operation.consumed().into_iter().collect();
                consumed.contains_one(&sample)
            })
            .map(|record| record.operation_id.clone())
            .take(limits::BLOCKING_OPERATIONS_MAX)
            .collect()
    }
}

/// The smallest part of a resource, to ask whether a set has any of it.
fn sample(resource: &Resource) -> Resource {
    match resource.value {
        Value::Scalar(_) if !resource.is_persistent_volume() => {
            Resource { value: Value::Scalar(Scalar::from_milli(1)), ..resource.clone() }
        }
        Value::Scalar(_) | Value::Ranges(_) | Value::Set(_) => resource.clone(),
    }
}

impl State {
    /// The early check of the leader; `apply` repeats it.
    ///
    /// # Errors
    /// What `apply` would answer now.
    pub fn check(
        &self,
        principal: Option<&Principal>,
        agent_id: &AgentId,
        operation: &Operation,
    ) -> Result<Operation, Rejection> {
        let agent = self
            .agent(agent_id)
            .ok_or_else(|| Rejection::UnknownAgent { agent_id: agent_id.clone() })?;
        agent.resolve(principal, operation)
    }

    pub(super) fn operate(
        &mut self,
        now: Moment,
        command: &Command,
        asked: (&AgentId, &OperationId, &Operation),
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        let (agent_id, operation_id, operation) = asked;
        let agent = self
            .agent(agent_id)
            .ok_or_else(|| Rejection::UnknownAgent { agent_id: agent_id.clone() })?;
        let operation = agent.prepare(command.principal.as_ref(), operation)?;
        if self.operations.get(operation_id).is_some() {
            return Err(Rejection::DuplicateOperation { operation_id: operation_id.clone() });
        }
        let agent = self.agent_mut(agent_id).expect("looked up above");
        // All or nothing: an error leaves the total as it was.
        match agent.total.apply(&operation) {
            Ok(()) => {}
            Err(broken @ Unconvertible::NotConserved { .. }) => {
                let what = format!("{operation_id} on {agent_id}: {broken}");
                return Err(Rejection::Fault { index: now.index, what });
            }
            Err(
                short @ (Unconvertible::Insufficient { .. }
                | Unconvertible::SharesRemain { .. }
                | Unconvertible::ProviderUnsupported { .. }),
            ) => return Err(agent.inapplicable(&operation, short)),
        }
        let record = Arc::new(OperationRecord {
            operation_id: operation_id.clone(),
            agent_id: agent_id.clone(),
            seq: agent.next_seq,
            operation,
            state: OperationState::Pending,
            principal: command.principal.clone(),
            index: now.index,
            submitted_at: now.wall,
            settled_at: None,
            message: None,
        });
        agent.next_seq = agent.next_seq.next();
        agent.resource_version = now.index.0;
        agent.pending.insert(record.seq, Arc::clone(&record));
        let order = Effect::Order(agent_id.clone(), Box::new(record.order()));
        self.operations.insert(operation_id.clone(), record);
        let response = Response::Accepted {
            operation_id: operation_id.clone(),
            agent_id: agent_id.clone(),
            resource_version: now.index.0,
        };
        Ok((response, vec![order]))
    }

    /// Takes ended operations on record and forgets the oldest beyond the limit.
    pub(super) fn keep_settled(&mut self, settled: Vec<Arc<OperationRecord>>) -> Vec<Effect> {
        let mut effects = Vec::with_capacity(settled.len());
        for record in settled {
            let id = record.operation_id.clone();
            effects.push(Effect::Change(Change::OperationSettled(id.clone(), record.state)));
            self.settled.insert(self.settled_next, id.clone());
            self.settled_next += 1;
            self.operations.insert(id, record);
        }
        while self.settled.len() > limits::SETTLED_OPERATIONS_MAX {
            let (number, id) = self.settled.first().expect("longer than the limit");
            let (number, id) = (*number, id.clone());
            self.settled.remove(&number);
            self.operations.remove(&id);
        }
        effects
    }
}
