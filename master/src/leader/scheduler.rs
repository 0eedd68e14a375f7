//! What schedulers ask of a leader and what they hear, as data. Whatever can be said about a
//! call without a look at offers and sessions was checked by the edge. Must not know HTTP.
//! Next: `core.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use resources::collection::Resources;
use resources::framework::FrameworkInfo;
use resources::id::{
    AgentId, ExecutorId, FrameworkId, OfferId, OperationId, Principal, StreamId, TaskId, UpdateId,
};
use resources::machine::Unavailability;
use resources::message::AgentInfo;
use resources::opaque::Opaque;
use resources::role::Role;
use resources::task::ExecutorName;
use resources::time::Timestamp;
use thiserror::Error;

use super::request::ProposeFailure;
use crate::state::accept::Step;
use crate::state::command::{Notice, SourceAddr, Subscription};

/// SUBSCRIBE that passed form and authorisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribing {
    /// The id that the framework says it has.
    pub framework_id: Option<FrameworkId>,
    /// What it says of itself.
    pub subscription: Subscription,
    /// Who asks, when authenticated.
    pub principal: Option<Principal>,
    /// From where.
    pub source: SourceAddr,
    /// A fresh name for the stream.
    pub stream_id: StreamId,
}

/// Any other call that passed form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerCall {
    /// Whose it is.
    pub framework_id: FrameworkId,
    /// The stream that it says it belongs to.
    pub stream_id: Option<StreamId>,
    /// Who asks, when authenticated.
    pub principal: Option<Principal>,
    /// From where.
    pub source: SourceAddr,
    /// What.
    pub ask: Ask,
}

/// What a scheduler asks (spec §4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Remove the framework.
    Teardown,
    /// Use offers.
    Accept {
        /// Which.
        offer_ids: Vec<OfferId>,
        /// For what, in order.
        steps: Vec<Step>,
        /// How long what is left is not wanted.
        refuse: Duration,
    },
    /// Give offers back.
    Decline {
        /// Which.
        offer_ids: Vec<OfferId>,
        /// How long they are not wanted.
        refuse: Duration,
    },
    /// Want offers again, whatever was refused; no role means all.
    Revive(BTreeSet<Role>),
    /// Want no offers; no role means all.
    Suppress(BTreeSet<Role>),
    /// End a task.
    Kill {
        /// Which.
        task_id: TaskId,
        /// Where the framework believes it to be.
        agent_id: Option<AgentId>,
        /// How long it may take to end by itself.
        grace: Option<Duration>,
    },
    /// End an executor.
    Shutdown {
        /// Where.
        agent_id: AgentId,
        /// Which.
        executor_id: ExecutorId,
    },
    /// A status of a task has arrived.
    Acknowledge {
        /// From where it came.
        agent_id: AgentId,
        /// Of which task.
        task_id: TaskId,
        /// Which.
        uuid: UpdateId,
    },
    /// A status of an operation has arrived.
    AcknowledgeOperation {
        /// The framework's own name for it.
        own_id: OperationId,
        /// Which.
        uuid: UpdateId,
    },
    /// Say where these tasks stand, and on which agent the framework believes each; none means
    /// all.
    Reconcile(Vec<(TaskId, Option<AgentId>)>),
    /// Say where these operations stand; none means all.
    ReconcileOperations(Vec<(OperationId, Option<AgentId>)>),
    /// Hand these words to an executor.
    Message {
        /// Where.
        agent_id: AgentId,
        /// To whom.
        executor_id: ExecutorId,
        /// What.
        data: Opaque,
    },
    /// Take another info.
    Update(Box<Subscription>),
    /// Say whether machines that will be out of service are left.
    AnswerInverse {
        /// To which inverse offers.
        offer_ids: Vec<OfferId>,
        /// Whether they are.
        is_accepted: bool,
        /// How long it shall not be asked again.
        refuse: Duration,
    },
    /// Nothing that Mesos acts on: REQUEST.
    Nothing,
}

/// A scheduler's call is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SchedulerRefusal {
    /// No such framework.
    #[error("Framework cannot be found")]
    UnknownFramework,
    /// It is another principal's.
    #[error("{0}")]
    OtherPrincipal(String),
    /// Its stream is not open.
    #[error("Framework is not subscribed")]
    NotSubscribed,
    /// No stream, or another than the open one, was named.
    #[error("{0}")]
    OtherStream(String),
    /// UPDATE_FRAMEWORK with what cannot change.
    #[error("{0}")]
    Invalid(String),
    /// There was no consensus on it.
    #[error(transparent)]
    Propose(ProposeFailure),
}

/// What a scheduler hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchedulerEvent {
    /// It is subscribed. What it can cope with says how it is spoken to.
    Subscribed(FrameworkId, Arc<FrameworkInfo>),
    /// Nothing for the wire: from here on it is spoken to as this info says.
    Updated(Arc<FrameworkInfo>),
    /// The stream lives.
    Heartbeat,
    /// Resources that it may use.
    Offers(Vec<Offer>),
    /// An offer is void.
    Rescind(OfferId),
    /// Machines that it uses will be out of service.
    InverseOffers(Vec<InverseOffer>),
    /// An inverse offer is void.
    RescindInverse(OfferId),
    /// Of tasks, operations and losses. After an error the stream ends.
    Notice(Box<Notice>),
    /// An executor's words.
    Message {
        /// From where.
        agent_id: AgentId,
        /// From whom.
        executor: ExecutorName,
        /// What.
        data: Opaque,
    },
}

/// Resources of an agent that a framework may use, until they are rescinded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Its name, never used twice.
    pub offer_id: OfferId,
    /// To whom.
    pub framework_id: FrameworkId,
    /// In which role.
    pub role: Role,
    /// Of which agent.
    pub agent_id: AgentId,
    /// What that says of itself.
    pub agent: Arc<AgentInfo>,
    /// What, in unallocated form; a shared volume once.
    pub resources: Resources,
    /// The framework's executors there.
    pub executor_ids: Vec<ExecutorId>,
    /// When its machine is out of service, if that is scheduled.
    pub unavailability: Option<Unavailability>,
}

/// A framework is asked to leave an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InverseOffer {
    /// Its name, never used twice.
    pub offer_id: OfferId,
    /// Who.
    pub framework_id: FrameworkId,
    /// Which agent.
    pub agent_id: AgentId,
    /// What that says of itself.
    pub agent: Arc<AgentInfo>,
    /// When its machine is out of service.
    pub unavailability: Unavailability,
}

/// What a framework said to that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InverseAnswer {
    /// About which agent.
    pub agent_id: AgentId,
    /// Who.
    pub framework_id: FrameworkId,
    /// Whether it leaves.
    pub is_accepted: bool,
    /// When: wall time.
    pub at: Timestamp,
}
