//! Agents: what each durably confirmed, the orders it has not confirmed yet, and the fold of
//! both. Also how an agent is admitted. What its registration means is decided in
//! `reconcile.rs`. Next: `operations.rs`.

use std::fmt;
use std::sync::Arc;

use resources::collection::Resources;
use resources::earlier::Earlier;
use resources::id::{AgentId, CheckpointId, FrameworkId, LogIndex, Seq};
use resources::message::{AgentInfo, Order, Registration};
use resources::persistent::PersistentMap;
use resources::resource::Resource;
use resources::role::Role;
use resources::task::ExecutorName;
use resources::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::command::{Change, Effect, Response, Standing};
use super::operations::OperationRecord;
use super::presence::Presence;
use super::reconcile::{Comparison, Held, Naming, Reregistered, compare, surplus};
use super::rejection::{RegistrationRefusal, Rejection};
use super::tasks::{Executor, TaskName, once_per_agent};
use super::{Moment, State};

/// An agent on record. `total = fold(confirmed, pending)` always.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its name.
    pub id: AgentId,
    /// Its work directory: what everything here belongs to.
    pub checkpoint_id: CheckpointId,
    /// Of its last registration.
    pub boot_counter: u64,
    /// What it says of itself.
    pub info: Arc<AgentInfo>,
    /// How its disk compares with the log.
    pub status: AgentStatus,
    /// Whether it is there.
    pub presence: Presence,
    /// How often it has been away.
    pub absences: u64,
    /// Whether it is to be used.
    pub activation: Activation,
    /// Wall time of its admission, for display.
    pub registered_at: Timestamp,
    /// Wall time of its last registration that was written, for display.
    pub reregistered_at: Option<Timestamp>,
    /// What it declares, as a set.
    pub base: Resources,
    /// What it durably reported, at `confirmed_seq`: the total before the orders after it.
    pub(super) confirmed: Earlier,
    /// The last order that it confirmed.
    pub confirmed_seq: Seq,
    /// Orders after `confirmed_seq`, dense. One that has failed already stays until the agent
    /// has gone past it, and takes no part in the fold.
    pub pending: PersistentMap<Seq, Arc<OperationRecord>>,
    /// `fold(confirmed, pending)`: what commands work on.
    pub total: Resources,
    /// The number of the next order.
    pub next_seq: Seq,
    /// Raised by every change of its resources: the index of the entry, or one more than before
    /// where an entry changes them several times.
    pub resource_version: u64,
    /// What it held when an operator chose, and at which order: it goes on from `confirmed_seq`
    /// once it is told. None after its next confirmation.
    pub adopts: Option<Held>,
    /// Volumes whose directory is missing or not the one that was made.
    pub unavailable: Vec<Resource>,
    /// What tasks that have not ended and executors use; a shared volume has a share for each.
    pub used: Resources,
    /// The same by framework and role.
    pub used_by: PersistentMap<(FrameworkId, Role), Resources>,
    /// Tasks that are not forgotten, and the orders that launched them.
    pub tasks: PersistentMap<TaskName, Seq>,
    /// Executors other than those of commands.
    pub executors: PersistentMap<ExecutorName, Arc<Executor>>,
}

/// How an agent's disk compares with the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentStatus {
    /// As the log says.
    Registered,
    /// Behind what it confirmed: its disk was restored. No operations until an operator chooses.
    Regressed {
        /// Where its disk stands.
        applied_seq: Seq,
        /// What it holds and the log does not know; never deleted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        foreign: Vec<Resource>,
        /// What the log knows and it does not hold; never made again unasked.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        missing: Vec<Resource>,
        /// What of it the two lists were made of; none until it told its total.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<Held>,
    },
    /// At the right order with other contents. No operations until an operator chooses.
    Diverged {
        /// What it holds and the log does not know; never deleted.
        foreign: Vec<Resource>,
        /// What the log knows and it does not hold; never made again unasked.
        missing: Vec<Resource>,
        /// What of it the two lists were made of; none until it told its total.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<Held>,
    },
}

impl AgentStatus {
    /// Its kind alone.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        match self {
            Self::Registered => Standing::InStep,
            Self::Regressed { .. } => Standing::Regressed,
            Self::Diverged { .. } => Standing::Diverged,
        }
    }
}

impl fmt::Display for AgentStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered => f.write_str("REGISTERED"),
            Self::Regressed { applied_seq, foreign, missing, held: None } => {
                debug_assert!(foreign.is_empty() && missing.is_empty(), "made of nothing");
                write!(f, "REGRESSED at {applied_seq}")
            }
            Self::Regressed { applied_seq, foreign, missing, held: Some(_) } => {
                let (foreign, missing) = (foreign.len(), missing.len());
                write!(f, "REGRESSED at {applied_seq}, {foreign} foreign, {missing} missing")
            }
            Self::Diverged { foreign, missing, held: _ } => {
                write!(f, "DIVERGED, {} foreign, {} missing", foreign.len(), missing.len())
            }
        }
    }
}

impl Agent {
    /// A new agent that holds what it declares.
    #[must_use]
    pub(super) fn admitted(id: AgentId, registration: &Registration, now: Moment) -> Self {
        let base: Resources = registration.info.resources.iter().cloned().collect();
        Self {
            id,
            checkpoint_id: registration.checkpoint_id.clone(),
            boot_counter: registration.boot_counter,
            info: Arc::new(registration.info.clone()),
            status: AgentStatus::Registered,
            presence: Presence::Here,
            absences: 0,
            activation: Activation::Active,
            registered_at: now.wall,
            reregistered_at: None,
            confirmed: Earlier::default(),
            confirmed_seq: Seq(0),
            pending: PersistentMap::default(),
            total: base.clone(),
            base,
            next_seq: Seq(1),
            resource_version: now.index.0,
            adopts: None,
            unavailable: registration.unavailable.clone(),
            used: Resources::new(),
            used_by: PersistentMap::default(),
            tasks: PersistentMap::default(),
            executors: PersistentMap::default(),
        }
    }

    /// What it durably reported, at `confirmed_seq`. Costs what its open orders touch.
    #[must_use]
    pub fn confirmed(&self) -> Resources {
        self.confirmed.of(&self.total)
    }

    /// The number of the last order that it was given.
    #[must_use]
    pub const fn last_given(&self) -> Seq {
        Seq(self.next_seq.0.saturating_sub(1))
    }

    /// Its resources have changed: no two states of an agent share a version.
    pub(super) fn moved(&mut self, index: LogIndex) {
        self.resource_version = index.0.max(self.resource_version.saturating_add(1));
    }

    /// Orders that it has to be sent from `from` on. None while its disk disagrees with the
    /// log: an order must not run on something else than it was made for.
    pub fn outstanding(&self, from: Seq) -> impl Iterator<Item = Order> + '_ {
        let sendable = match self.status {
            AgentStatus::Registered => true,
            AgentStatus::Regressed { .. } | AgentStatus::Diverged { .. } => false,
        };
        let orders = sendable.then(|| self.pending.range(from..));
        orders.into_iter().flatten().map(|(_, record)| record.order())
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} confirmed {} pending {} version {}",
            self.id,
            self.status,
            self.confirmed_seq,
            self.pending.size(),
            self.resource_version
        )?;
        if !self.presence.is_here() {
            write!(f, " {}", self.presence)?;
        }
        if self.activation.is_active() { Ok(()) } else { write!(f, " {}", self.activation) }
    }
}

impl State {
    pub(super) fn register_agent(
        &mut self,
        now: Moment,
        registration: &Registration,
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        match compare(self, registration) {
            Comparison::Admit => Ok(self.admit(now, registration)),
            Comparison::Unchanged { agent_id, standing } => {
                Ok((Response::Registered { agent_id, standing }, Vec::new()))
            }
            Comparison::Confirm { agent_id, upto, exceptions } => {
                let (_, effects) = self.confirm(now, &agent_id, upto, &exceptions)?;
                let standing = Standing::InStep;
                Ok((Response::Registered { agent_id, standing }, effects))
            }
            Comparison::Change(found) => Ok(self.reregister(now, *found, registration)),
            Comparison::Refuse(refusal) => {
                if refusal.is_alarming() {
                    self.raise_alarm(
                        now.index,
                        format!("{}: {refusal}", registration.checkpoint_id),
                    );
                }
                Err(Rejection::Registration(refusal))
            }
        }
    }

    fn admit(&mut self, now: Moment, registration: &Registration) -> (Response, Vec<Effect>) {
        let id = self.former_id(registration).unwrap_or_else(|| self.fresh_agent_id());
        let mut agent = Agent::admitted(id.clone(), registration, now);
        let alarm = agent.count_from_before(registration);
        let standing = agent.status.standing();
        let checkpoint_id = agent.checkpoint_id.clone();
        self.by_checkpoint.insert_mut(checkpoint_id.clone(), id.clone());
        self.agents.insert_mut(id.clone(), Arc::new(agent));
        let change = Change::AgentAdded(id.clone(), checkpoint_id);
        let mut effects = vec![Effect::Change(change)];
        if let Some(text) = alarm {
            effects.extend(self.raise_alarm(now.index, text));
        }
        let response = Response::Registered { agent_id: id.clone(), standing };
        effects.push(Effect::CapacityChanged(id));
        (response, effects)
    }

    /// `<cluster id>-S<n>`, from a replicated counter: never used twice.
    pub(super) fn fresh_agent_id(&mut self) -> AgentId {
        let cluster_id = self.cluster_id.as_ref().expect("compare() admits only to a cluster");
        let number = self.agents_made;
        self.agents_made += 1;
        AgentId::parse(format!("{cluster_id}-S{number}"))
            .expect("a cluster id is short, and the rest are letters and digits")
    }

    fn reregister(
        &mut self,
        now: Moment,
        found: Reregistered,
        registration: &Registration,
    ) -> (Response, Vec<Effect>) {
        let Reregistered { mut agent, known_as, naming, mut settled, alarm, lost } = found;
        let mut effects = Vec::new();
        agent.reregistered_at = Some(now.wall);
        let known = self.agents.get(&known_as).expect("compare() found it in the same state");
        if known.total != agent.total {
            agent.moved(now.index);
        }
        let was_away = !known.presence.is_here();
        effects.push(Effect::Change(match naming {
            Naming::Keeps => Change::AgentUpdated(known_as),
            Naming::Supersedes => {
                let id = self.fresh_agent_id();
                self.rename(&mut agent, &known_as, id.clone());
                for record in &mut settled {
                    Arc::make_mut(record).agent_id = id.clone();
                }
                Change::AgentSuperseded { old: known_as, new: id }
            }
        }));
        if was_away {
            effects.push(Effect::Change(Change::AgentReturned(agent.id.clone())));
        }
        if let Some(text) = alarm {
            effects.extend(self.raise_alarm(now.index, text));
        }
        let (agent_id, standing) = (agent.id.clone(), agent.status.standing());
        if !settled.is_empty() {
            effects.push(Effect::Acknowledge(agent_id.clone(), agent.confirmed_seq));
        }
        let stamped = agent.stamp(settled, now.wall);
        self.agents.insert_mut(agent_id.clone(), Arc::new(*agent));
        effects.extend(self.keep_settled(stamped));
        effects.extend(self.lose(now, &agent_id, &lost));
        effects.extend(self.regain_touch(now, &agent_id, registration));
        let asked = surplus(self, registration).into_iter();
        effects.extend(asked.map(|asked| Effect::Instruct(agent_id.clone(), Box::new(asked))));
        effects.push(Effect::CapacityChanged(agent_id.clone()));
        (Response::Registered { agent_id, standing }, once_per_agent(effects))
    }

    /// The old id is gone, the orders and the tasks go on under the new one.
    fn rename(&mut self, agent: &mut Agent, old: &AgentId, new: AgentId) {
        let mut renamed = PersistentMap::default();
        for record in agent.pending.values() {
            let record = Arc::new(OperationRecord { agent_id: new.clone(), ..(**record).clone() });
            if !record.is_launch() {
                self.operations.insert_mut(record.operation_id.clone(), Arc::clone(&record));
            }
            renamed.insert_mut(record.seq, record);
        }
        agent.pending = renamed;
        self.move_tasks(agent, old, &new);
        self.agents.remove_mut(old);
        self.by_checkpoint.insert_mut(agent.checkpoint_id.clone(), new.clone());
        agent.id = new;
    }
}

/// Why a declared resource is none.
pub(super) fn undeclarable(registration: &Registration) -> Option<RegistrationRefusal> {
    let declared = &registration.info.resources;
    let wrong = declared.iter().find(|resource| {
        resource.needs_checkpoint()
            || resource.allocation_role.is_some()
            || resource.revocable
            || resource.shared
            || resource.provider_id.is_some()
    })?;
    Some(RegistrationRefusal::NotDeclarable { resource: wrong.to_string() })
}
