//! What a command asks of the shell of the leader, and what it changed for those who watch.
//! Next: `rejection.rs`.

use std::fmt;

use resources::id::{
    AgentId, CheckpointId, ClusterId, FrameworkId, MasterId, OperationId, Seq, TaskId, Term,
};
use resources::machine::MachineId;
use resources::message::{Instruction, Order};
use resources::resource::Resource;
use resources::role::Role;
use resources::task::TaskState;

use super::notice::Notice;
use super::operations::{OperationState, describe};
use super::transactions::{TransactionId, TransactionState};

/// What the shell of the leader does after a command; everything here can be derived from the
/// state again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Give the agent this order.
    Order(AgentId, Box<Order>),
    /// Tell the agent that outcomes up to here are replicated.
    Acknowledge(AgentId, Seq),
    /// How the agent's disk compares has changed while it was there: say to it what follows.
    Resync(AgentId),
    /// Ask this of the agent, after the orders before it.
    Instruct(AgentId, Box<Instruction>),
    /// Tell the framework.
    Tell(FrameworkId, Box<Notice>),
    /// What the agent has, or what of it is free, is not what it was: offers look again.
    CapacityChanged(AgentId),
    /// Tell whoever watches.
    Change(Change),
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order(agent_id, order) => {
                write!(f, "order {agent_id} #{} {}", order.seq, describe(&order.operation))
            }
            Self::Acknowledge(agent_id, upto) => write!(f, "acknowledge {agent_id} upto {upto}"),
            Self::Resync(agent_id) => write!(f, "resync {agent_id}"),
            Self::Instruct(agent_id, instruction) => write!(f, "instruct {agent_id} {instruction}"),
            Self::Tell(framework_id, notice) => write!(f, "tell {framework_id} {notice}"),
            Self::CapacityChanged(agent_id) => write!(f, "capacity of {agent_id} changed"),
            Self::Change(change) => change.fmt(f),
        }
    }
}

/// Something that changed, for those who watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The cluster has its id.
    ClusterFormed(ClusterId),
    /// A leader has announced itself.
    LeaderAnnounced(MasterId, Term),
    /// A new agent.
    AgentAdded(AgentId, CheckpointId),
    /// An agent came back changed.
    AgentUpdated(AgentId),
    /// An agent goes on under another id.
    AgentSuperseded {
        /// The id that is gone.
        old: AgentId,
        /// The id it has now.
        new: AgentId,
    },
    /// An agent has been silent for some time.
    AgentAway(AgentId),
    /// An agent is back: it was away, unreachable or unregistered.
    AgentReturned(AgentId),
    /// An agent has been away for too long.
    AgentUnreachable(AgentId),
    /// An agent has left in order.
    AgentUnregistered(AgentId),
    /// An agent was given up, after what it held.
    AgentGone(AgentId),
    /// Something reserved was given up with its agent.
    ReservationGone {
        /// The agent.
        agent_id: AgentId,
        /// What it was.
        resource: Box<Resource>,
    },
    /// A volume was given up with its agent.
    VolumeGone {
        /// The agent.
        agent_id: AgentId,
        /// What it was.
        resource: Box<Resource>,
    },
    /// An operation ended.
    OperationSettled(OperationId, OperationState),
    /// A transaction stands elsewhere, because one of its operations ended.
    TransactionMoved(TransactionId, TransactionState),
    /// A framework is subscribed, for the first time or again.
    FrameworkSubscribed(FrameworkId),
    /// A framework says other things of itself.
    FrameworkUpdated(FrameworkId),
    /// A framework's stream ended.
    FrameworkDisconnected(FrameworkId),
    /// A framework is no more.
    FrameworkRemoved(FrameworkId),
    /// A task is launched.
    TaskAdded(FrameworkId, TaskId),
    /// A task stands elsewhere.
    TaskMoved(FrameworkId, TaskId, TaskState),
    /// Quotas of these roles are others, by UPDATE_QUOTA or REMOVE_QUOTA.
    QuotaUpdated(Vec<Role>),
    /// Roles have a quota that had none, by SET_QUOTA.
    QuotaSet(Vec<Role>),
    /// Machines are scheduled otherwise: that is about these agents.
    MaintenanceScheduled(Vec<AgentId>),
    /// An agent's machine is down: its tasks are lost, and it may not come back before it is up.
    AgentShutDown(AgentId),
    /// Machines are up again.
    MachinesUp(Vec<MachineId>),
    /// Roles weigh otherwise.
    WeightsUpdated(Vec<Role>),
    /// An operator must look.
    AlarmRaised(String),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClusterFormed(id) => write!(f, "cluster {id} formed"),
            Self::LeaderAnnounced(id, term) => write!(f, "master {id} leads term {term}"),
            Self::AgentAdded(id, checkpoint) => write!(f, "agent {id} added for {checkpoint}"),
            Self::AgentUpdated(id) => write!(f, "agent {id} updated"),
            Self::AgentSuperseded { old, new } => write!(f, "agent {old} goes on as {new}"),
            Self::AgentAway(id) => write!(f, "agent {id} is away"),
            Self::AgentReturned(id) => write!(f, "agent {id} is back"),
            Self::AgentUnreachable(id) => write!(f, "agent {id} is unreachable"),
            Self::AgentUnregistered(id) => write!(f, "agent {id} has unregistered"),
            Self::AgentGone(id) => write!(f, "agent {id} is gone"),
            Self::ReservationGone { agent_id, resource } => {
                write!(f, "reservation gone with {agent_id}: {resource}")
            }
            Self::VolumeGone { agent_id, resource } => {
                write!(f, "volume gone with {agent_id}: {resource}")
            }
            Self::OperationSettled(id, state) => write!(f, "operation {id} {state}"),
            Self::TransactionMoved(id, state) => write!(f, "transaction {id} {state}"),
            Self::FrameworkSubscribed(id) => write!(f, "framework {id} subscribed"),
            Self::FrameworkUpdated(id) => write!(f, "framework {id} updated"),
            Self::FrameworkDisconnected(id) => write!(f, "framework {id} disconnected"),
            Self::FrameworkRemoved(id) => write!(f, "framework {id} removed"),
            Self::TaskAdded(framework, task) => write!(f, "task {framework}/{task} added"),
            Self::TaskMoved(framework, task, state) => write!(f, "task {framework}/{task} {state}"),
            Self::QuotaUpdated(roles) => write!(f, "quota of {} updated", names(roles)),
            Self::QuotaSet(roles) => write!(f, "quota of {} set", names(roles)),
            Self::MaintenanceScheduled(agents) => {
                write!(f, "maintenance scheduled")?;
                agents.iter().try_for_each(|id| write!(f, " {id}"))
            }
            Self::AgentShutDown(id) => write!(f, "agent {id} shut down with its machine"),
            Self::MachinesUp(machines) => {
                write!(f, "machines up")?;
                machines.iter().try_for_each(|machine| write!(f, " {machine}"))
            }
            Self::WeightsUpdated(roles) => write!(f, "weight of {} updated", names(roles)),
            Self::AlarmRaised(text) => write!(f, "ALARM {text}"),
        }
    }
}

fn names(roles: &[Role]) -> String {
    let names: Vec<&str> = roles.iter().map(Role::as_str).collect();
    names.join(", ")
}
