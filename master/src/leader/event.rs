//! What happens to a leader and what it orders, as data: the vocabulary between the pure core
//! and its shell. Must not know channels or consensus. Next: `request.rs`, `scheduler.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use resources::id::{AgentId, FrameworkId, OperationId, Principal, Seq, StreamId, Term};
use resources::message::{AgentMessage, MasterMessage, Registration};
use resources::resource::Resource;
use resources::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::request::{Administration, Granted, NotSettled, ProposeFailure, Refusal, Request};
use super::scheduler::{SchedulerCall, SchedulerEvent, SchedulerRefusal, Subscribing};
use crate::state::accept::Accept;
use crate::state::command::{CommandKind, Effect, Response, SourceAddr};
use crate::state::operations::OperationRecord;
use crate::state::reconcile::Held;

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
    /// A call of or about a framework that waits for its answer; this process only.
    AskId "a";
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
    /// What an agent said of tasks.
    Tasks(AgentId),
    /// A scheduler that subscribes.
    Subscribe(AskId),
    /// A scheduler whose call is answered once it is applied.
    Ask(AskId),
    /// A scheduler that wants offers for other roles; answered likewise.
    Suppress(AskId, FrameworkId),
    /// A scheduler that uses offers.
    Accept(AskId),
    /// Frameworks whose streams ended.
    Departures,
    /// Agents that were silent for some time.
    Absences,
    /// Whether an agent is there, or has anything left to run.
    Presence(AgentId),
    /// An agent that leaves.
    Farewell(SessionId),
    /// A framework that was away for too long.
    Removal(FrameworkId),
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
    /// Use offers, under a fresh name.
    Accept {
        /// Authenticated identity of the scheduler.
        principal: Option<Principal>,
        /// From where.
        source: SourceAddr,
        /// What is accepted.
        accept: Box<Accept>,
    },
    /// Carry out an operator's command that needs no name of a leader.
    Administer(Box<Administration>),
    /// A command that needs no name of a leader.
    Plain {
        /// Authenticated identity of whoever asked.
        principal: Option<Principal>,
        /// From where; none when the leader itself asks.
        source: Option<SourceAddr>,
        /// The command.
        kind: Box<CommandKind>,
    },
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
        /// What it told.
        held: Held,
    },
    /// Something that an operator must look at.
    RaiseAlarm {
        /// Whom it is about, if it is one agent.
        agent_id: Option<AgentId>,
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
        /// Wall time, for the statuses that the leader makes itself.
        wall: Timestamp,
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
    /// An operator gave a command.
    AdministrationArrived {
        /// Its ticket.
        call_id: CallId,
        /// The command.
        administration: Box<Administration>,
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
    /// A scheduler subscribes; its stream is open.
    SubscribeArrived {
        /// Its ticket.
        ask_id: AskId,
        /// What it says.
        subscribing: Box<Subscribing>,
    },
    /// A scheduler made another call.
    AskArrived {
        /// Its ticket.
        ask_id: AskId,
        /// The call.
        call: Box<SchedulerCall>,
    },
    /// An operator removes a framework.
    TeardownArrived {
        /// Its ticket.
        ask_id: AskId,
        /// Who asks.
        principal: Option<Principal>,
        /// From where.
        source: SourceAddr,
        /// Which.
        framework_id: FrameworkId,
    },
    /// A scheduler's stream ended, or its queue ran over.
    StreamEnded {
        /// Its name.
        stream_id: StreamId,
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
    /// Answer a scheduler's call.
    AnswerAsk(AskId, Result<(), SchedulerRefusal>),
    /// Say this to a scheduler.
    Say(StreamId, Box<SchedulerEvent>),
    /// End a scheduler's stream after what was said.
    EndStream(StreamId),
}

/// An agent's live session, as readers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// When it went live, in the leader's cluster time.
    pub connected_at: Timestamp,
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
