//! What can be asked of the state. All of it is cheap but where it says otherwise. Must not
//! change anything. Next: `agents.rs`.

use std::sync::Arc;

use resources::id::{
    AgentId, CheckpointId, ClusterId, FrameworkId, Incarnation, MasterId, OperationId, Seq, TaskId,
};
use resources::message::{Instruction, Order};
use resources::time::Timestamp;

use super::agents::Agent;
use super::command::OperationStatus;
use super::frameworks::Framework;
use super::gone::Gone;
use super::keys::KeyTable;
use super::operations::OperationRecord;
use super::tasks::Task;
use super::transactions::{TransactionId, TransactionRecord};
use super::{Alarm, Announcement, State};

impl State {
    /// The level that `apply` keeps to.
    #[must_use]
    pub const fn level(&self) -> u32 {
        self.level
    }
    /// Name of the cluster, once formed.
    #[must_use]
    pub const fn cluster_id(&self) -> Option<&ClusterId> {
        self.cluster_id.as_ref()
    }
    /// Raised by every restore from a backup.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }
    /// Whether it comes from a backup, and no leader has begun a new incarnation yet: agents may
    /// hold more than it knows.
    #[must_use]
    pub const fn is_restored(&self) -> bool {
        self.is_restored
    }
    /// Says that it comes from a backup.
    pub const fn mark_restored(&mut self) {
        self.is_restored = true;
    }
    /// Cluster time of the last entry.
    #[must_use]
    pub const fn clock(&self) -> Timestamp {
        self.clock
    }
    /// The last announced leader.
    #[must_use]
    pub const fn leader(&self) -> Option<&Announcement> {
        self.leader.as_ref()
    }
    /// The public address that a master announced when it last led.
    #[must_use]
    pub fn advertised(&self, master_id: MasterId) -> Option<&str> {
        self.masters.get(&master_id).map(String::as_str)
    }
    /// All agents on record, by id, whether somebody waits for them or not.
    pub fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values().map(Arc::as_ref)
    }
    /// Agents whose resources are part of the cluster, by id.
    pub fn counted_agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents().filter(|agent| agent.is_counted())
    }
    /// Unreachable agents, by id.
    pub fn unreachable_agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents().filter(|agent| agent.presence.unreachable_since().is_some())
    }
    /// An agent that was given up.
    #[must_use]
    pub fn gone_agent(&self, id: &AgentId) -> Option<&Gone> {
        self.gone.get(id).map(Arc::as_ref)
    }
    /// Agents that were given up, oldest first.
    pub fn gone_agents(&self) -> impl Iterator<Item = &Gone> {
        self.gone_order.values().filter_map(|id| self.gone_agent(id))
    }
    /// An agent that was given up, by its work directory.
    #[must_use]
    pub fn gone_agent_of(&self, checkpoint_id: &CheckpointId) -> Option<&Gone> {
        self.gone_agent(self.gone_checkpoints.get(checkpoint_id)?)
    }
    /// Number of agents on record.
    #[must_use]
    pub fn agents_len(&self) -> usize {
        self.agents.size()
    }
    /// An agent by its id.
    #[must_use]
    pub fn agent(&self, id: &AgentId) -> Option<&Agent> {
        self.agents.get(id).map(Arc::as_ref)
    }
    /// An agent by its work directory.
    #[must_use]
    pub fn agent_of(&self, checkpoint_id: &CheckpointId) -> Option<&Agent> {
        self.agent(self.by_checkpoint.get(checkpoint_id)?)
    }
    /// Operations that are pending or ended lately, by id. Launches are none of them.
    pub fn operations(&self) -> impl Iterator<Item = &OperationRecord> {
        self.operations.values().map(Arc::as_ref)
    }
    /// An operation by its id.
    #[must_use]
    pub fn operation(&self, id: &OperationId) -> Option<&OperationRecord> {
        self.operations.get(id).map(Arc::as_ref)
    }
    /// Transactions with an operation on record, by id.
    pub fn transactions(&self) -> impl Iterator<Item = &TransactionRecord> {
        self.transactions.values().map(Arc::as_ref)
    }
    /// A transaction by its id.
    #[must_use]
    pub fn transaction(&self, id: &TransactionId) -> Option<&TransactionRecord> {
        self.transactions.get(id).map(Arc::as_ref)
    }
    /// Idempotency keys that are kept.
    #[must_use]
    pub const fn keys(&self) -> &KeyTable {
        &self.keys
    }
    /// Orders that an agent has not confirmed, ascending. What effects ask to be sent can be
    /// derived from here at any time.
    pub fn outstanding(&self, agent_id: &AgentId) -> impl Iterator<Item = Order> + '_ {
        self.agent(agent_id).into_iter().flat_map(|agent| agent.outstanding(Seq(0)))
    }
    /// What an operator must look at, oldest first.
    pub fn alarms(&self) -> impl Iterator<Item = &Alarm> {
        self.alarms.iter()
    }
}

/// Frameworks and what is theirs.
impl State {
    /// Frameworks that are not removed, by id.
    pub fn frameworks(&self) -> impl Iterator<Item = &Framework> {
        self.frameworks.values().map(Arc::as_ref)
    }
    /// A framework that is not removed, by its id.
    #[must_use]
    pub fn framework(&self, id: &FrameworkId) -> Option<&Framework> {
        self.frameworks.get(id).map(Arc::as_ref)
    }
    /// Whether a framework of this id was removed: it never comes back.
    #[must_use]
    pub fn removed_framework(&self, id: &FrameworkId) -> bool {
        self.tombstones.contains_key(id)
    }
    /// The last removed frameworks as they ended, oldest first.
    pub fn completed_frameworks(&self) -> impl Iterator<Item = &Framework> {
        self.completed_frameworks.values().map(Arc::as_ref)
    }
    /// A task that is not forgotten: it lives, or its end is not acknowledged.
    #[must_use]
    pub fn task(&self, framework_id: &FrameworkId, task_id: &TaskId) -> Option<&Task> {
        self.framework(framework_id)?.tasks.get(task_id).map(Arc::as_ref)
    }
    /// What is asked of an agent beside its orders, after them: to end tasks whose end is
    /// wanted, and whatever a removed framework has there. Derived, at the cost of a look at
    /// each of its tasks and orders.
    pub fn instructions(&self, agent_id: &AgentId) -> impl Iterator<Item = Instruction> {
        self.agent(agent_id).map(|agent| self.asked_of(agent)).unwrap_or_default().into_iter()
    }
    /// An operation by its framework's own name for it, until its end is acknowledged.
    #[must_use]
    pub fn operation_of(
        &self,
        framework_id: &FrameworkId,
        own_id: &OperationId,
    ) -> Option<&OperationRecord> {
        self.operation(self.framework(framework_id)?.operations.get(own_id)?)
    }
    /// How the framework's operations ended, as far as it has not acknowledged it: to be said
    /// again.
    pub fn feedback(&self, framework_id: &FrameworkId) -> impl Iterator<Item = OperationStatus> {
        let framework = self.framework(framework_id).into_iter();
        let records = framework.flat_map(|framework| framework.operations.values());
        let settled = records
            .filter_map(|id| self.operation(id))
            .filter(|record| record.is_settled() && !record.is_acknowledged);
        settled.filter_map(OperationRecord::status)
    }
}
