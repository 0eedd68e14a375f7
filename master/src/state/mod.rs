//! The replicated state of a cluster: a function from (state, batch) to (state, responses,
//! effects). It cannot fail, cannot know whether this master leads, and performs nothing. It
//! must not know of sockets, clocks or consensus.
//!
//! Reading order: [`command`], [`accept`], [`effect`], [`notice`] and [`rejection`] (what is
//! asked and answered), `reading` (what can be looked up), [`agents`], [`usage`] (what of one is
//! free), [`presence`], [`activation`] and [`gone`] (their lives), [`limits`], [`keys`]
//! (repeats), [`rules`] ([`quota`], [`weights`], [`maintenance`]), [`operations`], [`checks`],
//! [`transactions`],
//! [`dry_run`], [`reservations`], [`confirm`], [`reconcile`] (what a registration comes to),
//! [`frameworks`], [`tasks`], `judge` (ACCEPT), `feedback` (what frameworks hear of operations),
//! [`codec`] (snapshots).
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

pub mod accept;
pub mod activation;
pub mod agents;
mod checks;
pub mod codec;
pub mod command;
mod confirm;
pub mod dry_run;
pub mod effect;
mod feedback;
pub mod frameworks;
pub mod gone;
mod judge;
pub mod keys;
pub mod limits;
pub mod maintenance;
pub mod notice;
pub mod operations;
pub mod presence;
pub mod quota;
mod reading;
pub mod reconcile;
pub mod rejection;
mod reservations;
pub mod rules;
pub mod tasks;
#[cfg(test)]
pub(crate) mod tests;
pub mod transactions;
pub mod usage;
pub mod weights;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;

use resources::id::{
    AgentId, CheckpointId, ClusterId, FrameworkId, Incarnation, LogIndex, MasterId, OperationId,
    Term,
};
use resources::persistent::PersistentMap;
use resources::quota::Quota;
use resources::role::Role;
use resources::time::Timestamp;
use resources::weight::Weight;
use serde::{Deserialize, Serialize};

pub use self::activation::{Activation, Drain};
pub use self::agents::{Agent, AgentStatus};
pub use self::command::{Change, Command, CommandKind, Effect, Response, SourceAddr, Standing};
pub use self::dry_run::{Asked, DryRun};
pub use self::frameworks::{Connection, Framework};
pub use self::gone::Gone;
pub use self::judge::VoidAccept;
use self::keys::{KeyName, KeyTable, Looked};
pub use self::maintenance::Maintenance;
pub use self::operations::{OperationRecord, OperationState};
pub use self::presence::{Away, Presence};
pub use self::rejection::{ActivationRefusal, RegistrationRefusal, Rejection};
pub use self::rules::Rule;
pub use self::tasks::{KillRequest, Task, TaskName};
pub use self::transactions::{TransactionId, TransactionRecord, TransactionState};

/// What `apply` does and how bytes look, as a number: raised by a command once every member
/// knows how.
pub const LEVEL: u32 = 1;

/// When and where in the log something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The entry.
    pub index: LogIndex,
    /// Cluster time.
    pub clock: Timestamp,
    /// Wall time of the leader, for display only.
    pub wall: Timestamp,
}

/// Everything that the masters agree on.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    level: u32,
    cluster_id: Option<ClusterId>,
    incarnation: Incarnation,
    /// Whether it comes from a backup, and no leader has begun a new incarnation yet.
    is_restored: bool,
    clock: Timestamp,
    leader: Option<Announcement>,
    /// Public addresses that masters announced when they led.
    masters: BTreeMap<MasterId, String>,
    agents: PersistentMap<AgentId, Arc<Agent>>,
    by_checkpoint: PersistentMap<CheckpointId, AgentId>,
    agents_made: u64,
    /// Agents that were given up, for ever.
    gone: PersistentMap<AgentId, Arc<Gone>>,
    gone_checkpoints: PersistentMap<CheckpointId, AgentId>,
    gone_order: PersistentMap<u64, AgentId>,
    /// Pending ones and those that ended lately.
    operations: PersistentMap<OperationId, Arc<OperationRecord>>,
    /// Ended ones in the order of their end, oldest first.
    settled: PersistentMap<u64, OperationId>,
    settled_next: u64,
    /// Those with an operation on record.
    transactions: PersistentMap<TransactionId, Arc<TransactionRecord>>,
    keys: KeyTable,
    alarms: VecDeque<Alarm>,
    frameworks: PersistentMap<FrameworkId, Arc<Framework>>,
    frameworks_made: u64,
    /// Removed frameworks, for ever, each with its place in the order of removals.
    tombstones: PersistentMap<FrameworkId, u64>,
    /// The last of them as they ended, in that order.
    completed_frameworks: PersistentMap<u64, Arc<Framework>>,
    quotas: PersistentMap<Role, Arc<Quota>>,
    weights: PersistentMap<Role, Weight>,
    maintenance: Arc<Maintenance>,
}

/// A leader's first word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// Who leads.
    pub master_id: MasterId,
    /// Its public address.
    pub advertise: String,
    /// Its term.
    pub term: Term,
    /// Wall time, for display.
    pub elected_at: Timestamp,
}

/// Something that an operator must look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// The entry that raised it.
    pub index: LogIndex,
    /// What was seen.
    pub text: String,
}

/// An immutable image of the state. Cheap: all of it is shared with the state until that moves on.
#[derive(Debug, Clone)]
pub struct Frozen(State);

impl Deref for Frozen {
    type Target = State;
    fn deref(&self) -> &State {
        &self.0
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            level: LEVEL,
            cluster_id: None,
            incarnation: Incarnation(1),
            is_restored: false,
            clock: Timestamp::default(),
            leader: None,
            masters: BTreeMap::new(),
            agents: PersistentMap::default(),
            by_checkpoint: PersistentMap::default(),
            agents_made: 0,
            gone: PersistentMap::default(),
            gone_checkpoints: PersistentMap::default(),
            gone_order: PersistentMap::default(),
            operations: PersistentMap::default(),
            settled: PersistentMap::default(),
            settled_next: 0,
            transactions: PersistentMap::default(),
            keys: KeyTable::default(),
            alarms: VecDeque::new(),
            frameworks: PersistentMap::default(),
            frameworks_made: 0,
            tombstones: PersistentMap::default(),
            completed_frameworks: PersistentMap::default(),
            quotas: PersistentMap::default(),
            weights: PersistentMap::default(),
            maintenance: Arc::default(),
        }
    }
}

impl State {
    /// Applies one command. A rejection leaves the state as it was, but for an alarm and the
    /// answer that its key keeps.
    pub fn apply(&mut self, now: Moment, command: &Command) -> (Response, Vec<Effect>) {
        self.clock = self.clock.max(now.clock);
        let now = Moment { clock: self.clock, ..now };
        self.keys.expire(now.clock);
        match &command.key {
            Some(key) => {
                let (principal, key) = (command.principal.clone(), key.clone());
                self.repeat_or_decide(now, command, KeyName { principal, key })
            }
            None => self.decide(now, command),
        }
    }

    /// The answer of a keyed command: the one that its key has, or a new one.
    fn repeat_or_decide(
        &mut self,
        now: Moment,
        command: &Command,
        name: KeyName,
    ) -> (Response, Vec<Effect>) {
        match self.keys.look_up(&name, command) {
            Ok(Looked::Known(response)) => (response, Vec::new()),
            Ok(Looked::Fresh(digest)) => {
                let (response, effects) = self.decide(now, command);
                self.keys.keep(now, name, digest, &response);
                (response, effects)
            }
            Err(rejection) => (Response::Rejected(rejection), Vec::new()),
        }
    }

    fn decide(&mut self, now: Moment, command: &Command) -> (Response, Vec<Effect>) {
        let versions = self.check_versions(&command.if_versions);
        match versions.and_then(|()| self.change(now, command)) {
            Ok(applied) => applied,
            Err(rejection) => {
                let effects = match rejection.root() {
                    Rejection::Fault { what, .. } => self.raise_alarm(now.index, what.clone()),
                    Rejection::NeverGiven { .. } | Rejection::Registration(_) => {
                        self.alarms_of(now.index)
                    }
                    Rejection::UnknownAgent { .. }
                    | Rejection::Invalid { .. }
                    | Rejection::VolumeExists { .. }
                    | Rejection::VolumesNotFound { .. }
                    | Rejection::Insufficient { .. }
                    | Rejection::SharesRemain { .. }
                    | Rejection::Overloaded { .. }
                    | Rejection::Regressed { .. }
                    | Rejection::Diverged { .. }
                    | Rejection::VersionMoved { .. }
                    | Rejection::DuplicateOperation { .. }
                    | Rejection::KeyReused { .. }
                    | Rejection::KeyTableFull { .. }
                    | Rejection::TooLarge { .. }
                    | Rejection::TransactionSize { .. }
                    | Rejection::Member { .. }
                    | Rejection::VolumesInUse { .. }
                    | Rejection::Framework { .. }
                    | Rejection::Quota { .. }
                    | Rejection::Activation { .. }
                    | Rejection::Reconcile { .. }
                    | Rejection::Maintenance { .. }
                    | Rejection::ClusterFormed { .. } => Vec::new(),
                };
                (Response::Rejected(rejection), effects)
            }
        }
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each command")]
    fn change(
        &mut self,
        now: Moment,
        command: &Command,
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        match &command.kind {
            CommandKind::FormCluster { cluster_id } => self.form_cluster(cluster_id),
            CommandKind::TakeOffice { master_id, advertise, term } => {
                Ok(self.take_office(now, *master_id, advertise, *term))
            }
            CommandKind::RegisterAgent(registration) => self.register_agent(now, registration),
            CommandKind::Operate { agent_id, operation_id, operation } => {
                self.operate(now, command, (agent_id, operation_id, operation))
            }
            CommandKind::Transact { transaction_id, members } => {
                self.transact(now, command, (transaction_id, members))
            }
            CommandKind::Confirm { agent_id, upto, exceptions } => {
                self.confirm(now, agent_id, *upto, exceptions)
            }
            CommandKind::RecordDivergence { agent_id, foreign, missing, held } => {
                self.record_divergence(now, agent_id, (foreign, missing, *held))
            }
            CommandKind::Reconcile { agent_id, held, choices } => {
                self.reconcile(now, command, (agent_id, *held, choices))
            }
            CommandKind::NewIncarnation { incarnation } => Ok(self.begin_anew(*incarnation)),
            CommandKind::Subscribe { framework_id, subscription } => {
                self.subscribe(now, framework_id.as_ref(), subscription)
            }
            CommandKind::UpdateFramework { framework_id, subscription } => {
                self.update_framework(framework_id, subscription)
            }
            CommandKind::SetSuppressed { framework_id, suppressed } => {
                self.set_suppressed(framework_id, suppressed)
            }
            CommandKind::Disconnect { frameworks, grace } => {
                Ok(self.disconnect(now, frameworks, *grace))
            }
            CommandKind::RemoveFramework { framework_id, witness } => {
                Ok(self.remove_framework(now, framework_id, *witness))
            }
            CommandKind::Accept { name, accept } => self.judge(now, name, accept),
            CommandKind::Kill { framework_id, task_id, grace } => {
                Ok(self.kill(framework_id, task_id, *grace))
            }
            CommandKind::UpdateTasks { agent_id, updates, exited } => {
                self.update_tasks(agent_id, updates, exited)
            }
            CommandKind::AcknowledgeTask { framework_id, task_id, uuid } => {
                Ok(self.acknowledge_task(framework_id, task_id, *uuid))
            }
            CommandKind::AcknowledgeOperation { framework_id, own_id, uuid } => {
                Ok(self.acknowledge_operation(framework_id, own_id, *uuid))
            }
            CommandKind::SetRule(rule) => self.set_rule(now, rule),
            CommandKind::Depart { agents } => Ok(self.depart(now, agents)),
            CommandKind::Return { agent_id, epoch } => Ok(self.come_back(agent_id, *epoch)),
            CommandKind::MarkUnreachable { agent_id, witness } => {
                Ok(self.mark_unreachable(now, agent_id, *witness))
            }
            CommandKind::Unregister { agent_id } => self.unregister(now, agent_id),
            CommandKind::MarkGone { agent_id } => self.mark_gone(now, agent_id),
            CommandKind::Deactivate { agent_id } => self.deactivate(agent_id),
            CommandKind::Reactivate { agent_id } => self.reactivate(agent_id),
            CommandKind::Drain { agent_id, max_grace, mark_gone } => {
                self.drain(now, agent_id, (*max_grace, *mark_gone))
            }
            CommandKind::CompleteDrain { agent_id } => Ok(self.complete_drain(now, agent_id)),
            CommandKind::RaiseAlarm { agent_id, text } => {
                let text = match agent_id {
                    Some(agent_id) => format!("{agent_id}: {text}"),
                    None => text.clone(),
                };
                let effects = self.raise_alarm(now.index, text);
                Ok((Response::Done, effects))
            }
        }
    }

    fn form_cluster(&mut self, id: &ClusterId) -> Result<(Response, Vec<Effect>), Rejection> {
        if let Some(known) = &self.cluster_id {
            return Err(Rejection::ClusterFormed { cluster_id: known.clone() });
        }
        self.cluster_id = Some(id.clone());
        Ok((Response::Done, vec![Effect::Change(Change::ClusterFormed(id.clone()))]))
    }

    fn take_office(
        &mut self,
        now: Moment,
        master_id: MasterId,
        advertise: &str,
        term: Term,
    ) -> (Response, Vec<Effect>) {
        let (advertise, elected_at) = (advertise.to_owned(), now.wall);
        self.masters.insert(master_id, advertise.clone());
        self.leader = Some(Announcement { master_id, advertise, term, elected_at });
        (Response::Done, vec![Effect::Change(Change::LeaderAnnounced(master_id, term))])
    }

    fn raise_alarm(&mut self, index: LogIndex, text: String) -> Vec<Effect> {
        self.alarms.push_back(Alarm { index, text: text.clone() });
        if self.alarms.len() > limits::ALARMS_MAX {
            self.alarms.pop_front();
        }
        vec![Effect::Change(Change::AlarmRaised(text))]
    }

    fn alarms_of(&self, index: LogIndex) -> Vec<Effect> {
        let last = self.alarms.back().filter(|alarm| alarm.index == index);
        last.map(|alarm| Effect::Change(Change::AlarmRaised(alarm.text.clone())))
            .into_iter()
            .collect()
    }

    fn agent_mut(&mut self, id: &AgentId) -> Option<&mut Agent> {
        self.agents.get_mut(id).map(Arc::make_mut)
    }

    /// An image that does not move.
    #[must_use]
    pub fn freeze(&self) -> Frozen {
        Frozen(self.clone())
    }
}
