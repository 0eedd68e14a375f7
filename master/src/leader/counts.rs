//! What a leader has done since its process began, as numbers: metrics read them. Nothing is
//! decided by them. Next: `mod.rs`.

use std::collections::BTreeMap;

use resources::id::{AgentId, FrameworkId};
use resources::task::TaskState;

use super::scheduler::Ask;
use crate::state::command::Change;
use crate::state::operations::OperationState;

/// How often each thing happened on this master.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// What became of offers.
    pub offers: OfferCounts,
    /// Offers by framework, while it is known.
    pub by_framework: BTreeMap<FrameworkId, OfferCounts>,
    /// Agents that were admitted, or came back with news for the log.
    pub agents_registered: u64,
    /// Agents that came back as they were known.
    pub agents_reregistered: u64,
    /// What became of agents.
    pub agents: AgentCounts,
    /// Frameworks that subscribed for the first time or again.
    pub frameworks_subscribed: u64,
    /// Operations by their name in Mesos.
    pub operations: BTreeMap<&'static str, OperationCounts>,
    /// Tasks that came to a state, by that state.
    pub tasks: BTreeMap<TaskState, u64>,
    /// Calls of schedulers by their name in Mesos.
    pub calls: BTreeMap<&'static str, u64>,
    /// Statuses of tasks that agents sent.
    pub status_updates: u64,
}

/// What became of agents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgentCounts {
    /// Silent for one ping timeout.
    pub departed: u64,
    /// There again.
    pub returned: u64,
    /// Away for too long.
    pub unreachable: u64,
    /// Of those, which had not come back under this leader.
    pub not_recovered: u64,
    /// Left by themselves.
    pub unregistered: u64,
    /// Given up by an operator.
    pub gone: u64,
}

/// What became of offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OfferCounts {
    /// Sent.
    pub sent: u64,
    /// Used.
    pub accepted: u64,
    /// Given back.
    pub declined: u64,
    /// Taken back.
    pub rescinded: u64,
}

/// What became of operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OperationCounts {
    /// Durable on their agents.
    pub finished: u64,
    /// Not done by their agents.
    pub failed: u64,
    /// Never to be done: their agents are gone.
    pub gone: u64,
    /// Refused by the leader's state or by the log.
    pub refused: u64,
}

impl Counts {
    pub(super) fn ended(&mut self, name: &'static str, state: OperationState) {
        let counts = self.operations.entry(name).or_default();
        match state {
            OperationState::Pending => {}
            OperationState::Finished => counts.finished += 1,
            OperationState::Failed => counts.failed += 1,
            OperationState::GoneByOperator => counts.gone += 1,
        }
    }
    pub(super) fn followed(&mut self, change: &Change, has_returned: impl Fn(&AgentId) -> bool) {
        if let Change::AgentUnreachable(agent_id) = change
            && !has_returned(agent_id)
        {
            self.agents.not_recovered += 1;
        }
        let AgentCounts { departed, returned, unreachable, unregistered, gone, .. } =
            &mut self.agents;
        let count = match change {
            Change::AgentAway(_) => departed,
            Change::AgentReturned(_) => returned,
            Change::AgentUnreachable(_) => unreachable,
            Change::AgentUnregistered(_) => unregistered,
            Change::AgentGone(_) => gone,
            Change::ClusterFormed(_)
            | Change::LeaderAnnounced(..)
            | Change::AgentAdded(..)
            | Change::AgentUpdated(_)
            | Change::AgentSuperseded { .. }
            | Change::ReservationGone { .. }
            | Change::VolumeGone { .. }
            | Change::OperationSettled(..)
            | Change::TransactionMoved(..)
            | Change::FrameworkSubscribed(_)
            | Change::FrameworkDisconnected(_)
            | Change::FrameworkUpdated(_)
            | Change::FrameworkRemoved(_)
            | Change::TaskAdded(..)
            | Change::TaskMoved(..)
            | Change::QuotaUpdated(_)
            | Change::QuotaSet(_)
            | Change::WeightsUpdated(_)
            | Change::MaintenanceScheduled(_)
            | Change::AgentShutDown(_)
            | Change::MachinesUp(_)
            | Change::AlarmRaised(_) => return,
        };
        *count += 1;
    }
    pub(super) fn refused(&mut self, name: &'static str) {
        self.operations.entry(name).or_default().refused += 1;
    }
    pub(super) fn came_to(&mut self, state: TaskState) {
        *self.tasks.entry(state).or_default() += 1;
    }
    pub(super) fn called(&mut self, name: &'static str) {
        *self.calls.entry(name).or_default() += 1;
    }
}

impl Ask {
    /// Mesos' name of the call.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Teardown => "TEARDOWN",
            Self::Accept { .. } => "ACCEPT",
            Self::Decline { .. } => "DECLINE",
            Self::Revive(_) => "REVIVE",
            Self::Suppress(_) => "SUPPRESS",
            Self::Kill { .. } => "KILL",
            Self::Shutdown { .. } => "SHUTDOWN",
            Self::Acknowledge { .. } => "ACKNOWLEDGE",
            Self::AcknowledgeOperation { .. } => "ACKNOWLEDGE_OPERATION_STATUS",
            Self::Reconcile(_) => "RECONCILE",
            Self::ReconcileOperations(_) => "RECONCILE_OPERATIONS",
            Self::Message { .. } => "MESSAGE",
            Self::Update(_) => "UPDATE_FRAMEWORK",
            Self::AnswerInverse { is_accepted: true, .. } => "ACCEPT_INVERSE_OFFERS",
            Self::AnswerInverse { is_accepted: false, .. } => "DECLINE_INVERSE_OFFERS",
            Self::Nothing => "REQUEST",
        }
    }
}
