//! What an operator chooses for each object that an agent holds otherwise than the log says. The
//! books follow the agent's disk, never the other way round: no choice removes anything there.
//! Next: `incarnation.rs`.
//!
//! | object | choice | comes to |
//! |---|---|---|
//! | foreign: it holds it, the log does not know it | adopt | the log knows it |
//! | missing: the log knows it, it does not hold it | forget | the log knows it no longer |
//! | missing | recreate | the same, then ordinary orders make it again: a volume is empty |
//!
//! When nothing differs any longer the agent is registered, and counts its orders from the
//! later of both ends; orders that it had under a number before that have failed. Where more
//! differs than a record holds, the agent is asked for its total again, and the operator for the
//! next choices.

use std::fmt;
use std::sync::Arc;

use resources::collection::Resources;
use resources::id::{AgentId, LogIndex, OperationId, Principal, Seq};
use resources::message::Order;
use resources::operation::Operation;
use resources::resource::{Reservation, ReservationKind, Resource};
use resources::time::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::super::agents::{Agent, AgentStatus};
use super::super::command::{Change, Command, Effect, Response};
use super::super::confirm::ended;
use super::super::operations::{OperationRecord, OperationState, Stamp};
use super::super::rejection::{Rejection, list};
use super::super::tasks::once_per_agent;
use super::super::{Moment, State};
use super::Held;

/// What becomes of one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Choice {
    /// The log takes over what the agent holds.
    Adopt(Resource),
    /// The log gives up what the agent does not hold.
    Forget(Resource),
    /// The agent makes anew what it does not hold. The data of a volume is lost.
    Recreate(Resource),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adopt(resource) => write!(f, "adopt {resource}"),
            Self::Forget(resource) => write!(f, "forget {resource}"),
            Self::Recreate(resource) => write!(f, "recreate {resource}"),
        }
    }
}

/// Why choices are not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum ReconcileRefusal {
    /// Nothing differs.
    #[error("it holds what the log says")]
    InStep,
    /// The agent has not told its total since it differs.
    #[error("it has not told yet what it holds")]
    Untold,
    /// It holds something else than the caller saw.
    #[error("what it holds differs otherwise by now: {found}")]
    Moved {
        /// What it holds.
        found: Held,
    },
    /// Objects without a choice.
    #[error("no choice for {}", list(objects))]
    Unchosen {
        /// The objects.
        objects: Vec<Resource>,
    },
    /// Choices for what does not differ, or not in this way.
    #[error("nothing to choose for {}", list(objects))]
    Unasked {
        /// The objects.
        objects: Vec<Resource>,
    },
    /// Tasks that go on use what is to be forgotten.
    #[error("tasks use {}", list(objects))]
    InUse {
        /// What is used and would not be there.
        objects: Vec<Resource>,
    },
}

impl ReconcileRefusal {
    pub(in crate::state) const fn hint(&self) -> &'static str {
        match self {
            Self::InStep => "Nothing is to be done",
            Self::Untold => "Wait until the agent is connected, then look at it again",
            Self::Moved { .. } | Self::Unasked { .. } => "Look at the agent again, and choose anew",
            Self::Unchosen { .. } => {
                "Choose for each object, or accept what the agent holds with --accept"
            }
            Self::InUse { .. } => "End the tasks that use it first",
        }
    }
}

impl State {
    /// Makes the books of an agent those of its disk, as an operator chose. All or nothing.
    pub(in crate::state) fn reconcile(
        &mut self,
        now: Moment,
        command: &Command,
        (agent_id, held, choices): (&AgentId, Held, &[Choice]),
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        let mut next = self.clone();
        let principal = command.principal.as_ref();
        let effects = next.choose(now, principal, (agent_id, held, choices))?;
        *self = next;
        Ok((Response::Done, effects))
    }

    /// Whether choices would be taken. Writes nothing.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn try_reconcile(
        &self,
        agent_id: &AgentId,
        held: Held,
        choices: &[Choice],
    ) -> Result<(), Rejection> {
        let now = Moment { index: LogIndex(0), clock: self.clock, wall: Timestamp::default() };
        self.clone().choose(now, None, (agent_id, held, choices)).map(|_| ())
    }

    fn choose(
        &mut self,
        now: Moment,
        principal: Option<&Principal>,
        (agent_id, held, choices): (&AgentId, Held, &[Choice]),
    ) -> Result<Vec<Effect>, Rejection> {
        let refuse = |refusal| Rejection::Reconcile { agent_id: agent_id.clone(), refusal };
        let chosen = Chosen::of(choices);
        chosen.check(&self.known_agent(agent_id)?.status, held).map_err(refuse)?;
        let agent = self.agent_mut(agent_id).expect("looked up above");
        let settled = agent.take_over(&chosen, held);
        agent.moved(now.index);
        let settled = agent.stamp(settled, now.wall);
        let is_in_step = agent.status == AgentStatus::Registered;
        let mut effects = vec![Effect::Change(Change::AgentUpdated(agent_id.clone()))];
        effects.extend(self.keep_settled(settled));
        let agent = self.agent_mut(agent_id).expect("looked up above");
        let objects = agent.used_and_not_there();
        if !objects.is_empty() {
            return Err(refuse(ReconcileRefusal::InUse { objects }));
        }
        effects.push(Effect::Resync(agent_id.clone()));
        if is_in_step {
            let stamp = Stamp { now, principal, transaction_id: None, framework: None };
            for object in &chosen.recreated {
                let given = self.recreate(&stamp, agent_id, object)?;
                let order = |order: Order| Effect::Order(agent_id.clone(), Box::new(order));
                effects.extend(given.into_iter().map(order));
            }
        }
        effects.push(Effect::CapacityChanged(agent_id.clone()));
        Ok(once_per_agent(effects))
    }

    /// The orders that make something again: reserved where it is not, and a volume on it.
    fn recreate(
        &mut self,
        stamp: &Stamp<'_>,
        agent_id: &AgentId,
        object: &Resource,
    ) -> Result<Vec<Order>, Rejection> {
        let agent = self.agents.get_mut(agent_id).expect("the caller has it");
        let agent = Arc::make_mut(agent);
        let is_volume = object.is_persistent_volume();
        let plain = if is_volume { object.to_plain_disk() } else { object.clone() };
        let mut operations = Vec::new();
        if !is_volume || !agent.total.contains_one(&plain) {
            operations.push(reserve(plain));
        }
        if is_volume {
            operations.push(Operation::Create { volumes: vec![object.clone()] });
        }
        let mut orders = Vec::new();
        for operation in operations {
            let record = agent.give_again(stamp, &operation)?;
            orders.push(record.order());
            self.operations.insert_mut(record.operation_id.clone(), record);
        }
        Ok(orders)
    }
}

/// Choices by their kind.
#[derive(Default)]
struct Chosen {
    adopted: Resources,
    forgotten: Resources,
    recreated: Vec<Resource>,
}

impl Chosen {
    fn of(choices: &[Choice]) -> Self {
        let mut chosen = Self::default();
        for choice in choices {
            match choice {
                Choice::Adopt(object) => chosen.adopted.add(object),
                Choice::Forget(object) => chosen.forgotten.add(object),
                Choice::Recreate(object) => chosen.recreated.push(object.clone()),
            }
        }
        chosen
    }

    /// What the log gives up, whether it is made again or not.
    fn given_up(&self) -> Resources {
        let mut given_up = self.forgotten.clone();
        self.recreated.iter().for_each(|object| given_up.add(object));
        given_up
    }

    /// Whether there is exactly one choice for each object on record.
    fn check(&self, status: &AgentStatus, seen: Held) -> Result<(), ReconcileRefusal> {
        if *status == AgentStatus::Registered {
            return Err(ReconcileRefusal::InStep);
        }
        let difference = status.difference().ok_or(ReconcileRefusal::Untold)?;
        if difference.held != seen {
            return Err(ReconcileRefusal::Moved { found: difference.held });
        }
        let foreign: Resources = difference.foreign.into_iter().collect();
        let missing: Resources = difference.missing.into_iter().collect();
        let given_up = self.given_up();
        let left = |all: &Resources, chosen: &Resources| {
            let mut left = all.clone();
            left.subtract_all(chosen);
            left.iter().cloned().collect::<Vec<_>>()
        };
        let mut objects = left(&self.adopted, &foreign);
        objects.extend(left(&given_up, &missing));
        if !objects.is_empty() {
            return Err(ReconcileRefusal::Unasked { objects });
        }
        objects = left(&foreign, &self.adopted);
        objects.extend(left(&missing, &given_up));
        if objects.is_empty() { Ok(()) } else { Err(ReconcileRefusal::Unchosen { objects }) }
    }
}

impl Agent {
    /// Follows what the agent holds. Gives the operations that ended by it.
    fn take_over(&mut self, chosen: &Chosen, held: Held) -> Vec<Arc<OperationRecord>> {
        let mut confirmed = self.confirmed();
        confirmed.subtract_all(&chosen.given_up());
        confirmed.add_all(&chosen.adopted);
        if confirmed.digest() != held.digest {
            self.status = self.status.with(None);
            return self.refold(confirmed, &[]);
        }
        let upto = self.confirmed_seq.max(held.applied_seq);
        let mut settled = self.fail_upto(upto);
        self.confirmed_seq = upto;
        self.next_seq = self.next_seq.max(upto.next());
        self.status = AgentStatus::Registered;
        self.adopts = Some(held);
        settled.extend(self.refold(confirmed, &[]));
        settled
    }

    /// Orders up to `upto` have no outcome that anybody knows: what they came to is part of what
    /// the agent holds.
    fn fail_upto(&mut self, upto: Seq) -> Vec<Arc<OperationRecord>> {
        let mut failed = Vec::new();
        while let Some((seq, record)) = self.pending.first().filter(|(seq, _)| **seq <= upto) {
            let (seq, record) = (*seq, Arc::clone(record));
            self.pending.remove_mut(&seq);
            if !record.is_settled() {
                let reason = "its agent was reconciled: what it holds was accepted instead";
                failed.push(ended(record, OperationState::Failed, Some(reason.to_owned())));
            }
        }
        failed
    }

    /// What tasks and executors use and the total does not hold.
    fn used_and_not_there(&self) -> Vec<Resource> {
        let entries = self.used.entries().filter(|(used, count)| {
            let count = if used.shared { 1 } else { *count };
            let used: Resources = vec![((*used).clone(), count)].into();
            !self.total.contains(&used)
        });
        entries.map(|(used, _)| used.clone()).collect()
    }

    /// One more order, under a name made of its number. Who may, and what it looks like, was
    /// settled when the object was made first.
    fn give_again(
        &mut self,
        stamp: &Stamp<'_>,
        operation: &Operation,
    ) -> Result<Arc<OperationRecord>, Rejection> {
        self.has_room()?;
        let operation = self.as_stored(operation)?;
        if !self.used.is_empty() {
            let applies = self.applies(&operation);
            applies.map_err(|short| self.inapplicable(&operation, short, stamp.now.index))?;
        }
        let name = OperationId::parse(format!("{}.{}", self.id, self.next_seq))
            .expect("the id of an agent, a dot and digits are an id");
        let given = self.give(stamp, &name, operation);
        given.map_err(|failed| {
            let (short, operation) = *failed;
            self.inapplicable(&operation, short, stamp.now.index)
        })
    }
}

/// The operation that reserves a resource as it stands, out of what an agent declares.
fn reserve(resource: Resource) -> Operation {
    let is_dynamic = |of: &&Reservation| of.kind == ReservationKind::Dynamic;
    if resource.reservations.iter().filter(is_dynamic).count() <= 1 {
        return Operation::Reserve { resources: vec![resource], source: Vec::new() };
    }
    let mut declared = resource.clone();
    declared.reservations.retain(|of| of.kind == ReservationKind::Static);
    Operation::Reserve { resources: vec![resource], source: vec![declared] }
}
