//! What happens to a leader and what it orders, as data: the vocabulary between the pure core
//! and its shell. Must not know channels or consensus. Next: `core.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use resources::id::{AgentId, OperationId, Principal, Seq, Term};
use resources::message::{AgentMessage, MasterMessage, Registration};
use resources::operation::Operation;
use resources::resource::Resource;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::state::command::{Effect, IdempotencyKey, Response, SourceAddr};
use crate::state::dry_run::{Asked, Together};
use crate::state::operations::OperationRecord;
use crate::state::rejection::Rejection;
use crate::state::transactions::TransactionId;

macro_rules! tickets {
    ($($(#[$doc:meta])* $name:ident $letter:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }
    )* };
}

tickets! {
    /// A call that waits for its answer; this process only.
    CallId "c";
    /// Somebody who waits for the end of an operation; this process only.
    WaiterId "w";
    /// One stream of one agent; this process only.
    SessionId "s";
}

/// A mutating call that passed form and authorisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Who asks.
    pub principal: Option<Principal>,
    /// From where.
    pub source: SourceAddr,
    /// The caller's own name for it: a repeat is answered and not executed again.
    pub key: Option<IdempotencyKey>,
    /// The version of the agent that the caller saw: only then.
    pub if_version: Option<u64>,
    /// On which agent.
    pub agent_id: AgentId,
    /// What.
    pub operation: Operation,
}

/// Several operations, all or none, that passed form and authorisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Who asks.
    pub principal: Option<Principal>,
    /// From where.
    pub source: SourceAddr,
    /// The caller's own name for it: a repeat is answered and not executed again.
    pub key: Option<IdempotencyKey>,
    /// Versions of agents that the caller saw: only then. Also of agents without an operation.
    pub if_versions: BTreeMap<AgentId, u64>,
    /// What, in order.
    pub operations: Vec<(AgentId, Operation)>,
}

/// What a caller asks for.
#[expect(clippy::large_enum_variant, reason = "nearly every request is of the large kind")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// One operation.
    Operate(Call),
    /// Several, all or none.
    Transact(Transaction),
}

/// A call is committed by a quorum and applied here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The operation's name.
    pub operation_id: OperationId,
    /// The agent's version after it.
    pub resource_version: u64,
}

/// A transaction is committed by a quorum and applied here, in one log entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionAccepted {
    /// Its name.
    pub transaction_id: TransactionId,
    /// The names of its operations, in order.
    pub operation_ids: Vec<OperationId>,
    /// The versions of its agents after it.
    pub versions: BTreeMap<AgentId, u64>,
}

/// What a request came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Granted {
    /// One operation.
    Operation(Accepted),
    /// Several.
    Transaction(TransactionAccepted),
}

impl Request {
    /// The request as the state is asked about it.
    #[must_use]
    pub fn asked(&self) -> Asked<'_> {
        match self {
            Self::Operate(call) => {
                let version = call.if_version.map(|version| (call.agent_id.clone(), version));
                Asked {
                    principal: call.principal.as_ref(),
                    if_versions: version.into_iter().collect(),
                    operations: vec![(&call.agent_id, &call.operation)],
                    together: Together::No,
                }
            }
            Self::Transact(transaction) => Asked {
                principal: transaction.principal.as_ref(),
                if_versions: transaction.if_versions.clone(),
                operations: transaction.operations.iter().map(|(id, what)| (id, what)).collect(),
                together: Together::Yes,
            },
        }
    }

    /// Whether its outcome is kept for a repeat.
    pub(super) const fn is_keyed(&self) -> bool {
        match self {
            Self::Operate(call) => call.key.is_some(),
            Self::Transact(transaction) => transaction.key.is_some(),
        }
    }
}

/// A call is not carried out, or nobody can say.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The state says no.
    #[error(transparent)]
    Rejected(Rejection),
    /// There was no consensus on it.
    #[error(transparent)]
    Propose(ProposeFailure),
}

impl Refusal {
    /// Whether the same call may be made again as it is.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Rejected(rejection) => rejection.is_retryable(),
            Self::Propose(failure) => failure.is_retryable(),
        }
    }
}

/// No consensus on a call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProposeFailure {
    /// Nothing was proposed: another master leads.
    #[error("this master does not lead")]
    NotLeader,
    /// Nothing was proposed: no leader, or no quorum.
    #[error("no leader elected")]
    NoLeader,
    /// Nothing was proposed: too many calls are waiting.
    #[error("too many calls are waiting")]
    Overloaded {
        /// When to come again.
        retry_after: Duration,
    },
    /// It was proposed; whether it will be committed is not known.
    #[error("the outcome of operation {operation_id} is not known")]
    Unknown {
        /// The operation to ask for.
        operation_id: OperationId,
    },
}

impl ProposeFailure {
    /// Whether nothing was proposed, so that the same call may be made again.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::NotLeader | Self::NoLeader | Self::Overloaded { .. } => true,
            Self::Unknown { .. } => false,
        }
    }
}

/// The end of an operation could not be waited for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotSettled {
    /// Nothing is known of such an operation.
    #[error("no operation of this id is known")]
    UnknownOperation,
    /// It is still pending after the given time.
    #[error("the operation is still pending")]
    Timeout,
    /// This master no longer leads; the operation goes on.
    #[error("this master no longer leads")]
    LeadershipLost,
}

/// Who is told what a proposal came to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A caller.
    Call(CallId),
    /// A registering session.
    Session(SessionId),
    /// What an agent reported.
    Report(AgentId),
    /// Nobody: announcements are made again by the next leader.
    Nobody,
}

/// What the core wants in the log. Ids and times are added where it is stamped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposal {
    /// Name the cluster.
    FormCluster,
    /// Announce the leader.
    TakeOffice,
    /// Register an agent.
    Register {
        /// Authenticated identity of the agent.
        principal: Option<Principal>,
        /// Its address.
        source: SourceAddr,
        /// What it says.
        registration: Box<Registration>,
    },
    /// Carry out a call or a transaction.
    Request(Box<Request>),
    /// An agent's reports of a tick.
    Confirm {
        /// Who.
        agent_id: AgentId,
        /// Cumulative.
        upto: Seq,
        /// Failed ones.
        exceptions: BTreeMap<Seq, String>,
    },
    /// How an agent differs from the log.
    RecordDivergence {
        /// Who.
        agent_id: AgentId,
        /// What it holds and the log does not know.
        foreign: Vec<Resource>,
        /// What the log knows and it does not hold.
        missing: Vec<Resource>,
    },
    /// Something that an operator must look at.
    RaiseAlarm {
        /// Whom it is about.
        agent_id: AgentId,
        /// What was seen.
        text: String,
    },
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// This master leads the term and has applied everything before it.
    OfficeTaken {
        /// Its term.
        term: Term,
    },
    /// It leads no longer, or is about to stop.
    OfficeLost,
    /// A call came in.
    CallArrived {
        /// Its ticket.
        call_id: CallId,
        /// The call.
        request: Box<Request>,
    },
    /// Somebody waits for the end of an operation.
    WaitArrived {
        /// Its ticket.
        waiter_id: WaiterId,
        /// The operation.
        operation_id: OperationId,
    },
    /// And waits no longer.
    WaitEnded {
        /// Its ticket.
        waiter_id: WaiterId,
        /// The operation.
        operation_id: OperationId,
    },
    /// A proposal is committed and applied.
    Decided {
        /// Who asked.
        origin: Origin,
        /// What it came to.
        response: Response,
    },
    /// A proposal has no known outcome, or was never made.
    Undecided {
        /// Who asked.
        origin: Origin,
        /// Why.
        failure: ProposeFailure,
    },
    /// An entry was applied; its effects in log order.
    Applied {
        /// What it asks for.
        effects: Vec<Effect>,
    },
    /// The read barrier that was asked for is over.
    BarrierEnded {
        /// Whether this master still led when it began.
        passed: bool,
    },
    /// An agent opened a stream.
    SessionOpened {
        /// Its ticket.
        session_id: SessionId,
        /// Authenticated identity.
        principal: Option<Principal>,
        /// Its address.
        address: SourceAddr,
    },
    /// An agent said something.
    SessionSpoke {
        /// Its ticket.
        session_id: SessionId,
        /// What.
        message: AgentMessage,
    },
    /// A stream ended, or its queue ran over.
    SessionClosed {
        /// Its ticket.
        session_id: SessionId,
    },
    /// Everything that was waiting has been taken in: time to act on it.
    InboxDrained,
    /// Time passed.
    Ticked {
        /// Whether a quorum answered within the longest election timeout.
        has_quorum: bool,
    },
}

/// What the shell shall do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Put this into the batch being built.
    Propose(Origin, Proposal),
    /// Answer a call.
    Answer(CallId, Result<Granted, Refusal>),
    /// Answer somebody who waits.
    AnswerWait(WaiterId, Box<Result<OperationRecord, NotSettled>>),
    /// Say this to an agent.
    Send(SessionId, Box<MasterMessage>),
    /// End a stream after what was sent.
    Close(SessionId),
    /// Begin a read barrier.
    StartBarrier,
}

/// An agent's live session, as readers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// When it went live, in the leader's cluster time.
    pub connected_at: resources::time::Timestamp,
    /// Where it comes from.
    pub address: SourceAddr,
}

/// Who is connected to this leader, and who has been.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionViews {
    /// Live sessions.
    pub live: BTreeMap<AgentId, SessionView>,
    /// Agents that came back under this leader, live or not.
    pub returned: BTreeSet<AgentId>,
}
