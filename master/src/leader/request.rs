//! Mutating calls of operators: what each asks, what it comes to, and why it does not. Must not
//! know channels or consensus. Next: `scheduler.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use std::collections::BTreeMap;
use std::time::Duration;

use resources::id::{AgentId, OperationId, Principal};
use resources::operation::Operation;
use thiserror::Error;

use crate::state::State;
use crate::state::command::{CommandKind, IdempotencyKey, SourceAddr};
use crate::state::dry_run::{Asked, DryRun, FailedCheck, Together};
use crate::state::rejection::Rejection;
use crate::state::rules::Rule;
use crate::state::transactions::TransactionId;

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

/// A rule for the whole cluster that passed form and authorisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// Who asks.
    pub principal: Option<Principal>,
    /// From where.
    pub source: SourceAddr,
    /// The caller's own name for it: a repeat is answered and not executed again.
    pub key: Option<IdempotencyKey>,
    /// What shall hold.
    pub rule: Rule,
}

/// A command of an operator that passed form and authorisation, and that needs no name of a
/// leader: what it comes to is the same when it is repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Administration {
    /// Who asks.
    pub principal: Option<Principal>,
    /// From where.
    pub source: SourceAddr,
    /// The caller's own name for it: a repeat is answered and not executed again.
    pub key: Option<IdempotencyKey>,
    /// Versions of agents that the caller saw: only then.
    pub if_versions: BTreeMap<AgentId, u64>,
    /// What.
    pub kind: CommandKind,
}

/// What a caller asks for.
#[expect(clippy::large_enum_variant, reason = "nearly every request is of the large kind")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// One operation.
    Operate(Call),
    /// Several, all or none.
    Transact(Transaction),
    /// A rule for the whole cluster.
    Rule(Ruling),
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
    /// The rule holds.
    Rule,
    /// It is done, and there is nothing to tell.
    Nothing,
}

impl Request {
    /// The request as the state is asked about its operations. A rule has none.
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
            Self::Rule(ruling) => Asked {
                principal: ruling.principal.as_ref(),
                if_versions: BTreeMap::new(),
                operations: Vec::new(),
                together: Together::No,
            },
        }
    }

    /// The rules of form alone, which no state can change.
    ///
    /// # Errors
    /// The first one that is broken.
    pub(super) fn check_form(&self) -> Result<(), Rejection> {
        match self {
            Self::Operate(_) | Self::Transact(_) => self.asked().check_form(),
            Self::Rule(ruling) => ruling.rule.check_form(),
        }
    }

    /// The early check; `apply` repeats it.
    ///
    /// # Errors
    /// What `apply` would answer now.
    pub(super) fn check(&self, state: &State) -> Result<(), Rejection> {
        match self {
            Self::Operate(_) | Self::Transact(_) => state.check(&self.asked()),
            Self::Rule(ruling) => state.check_rule(&ruling.rule),
        }
    }

    /// What it would change on agents, or every check that it fails.
    pub(super) fn dry_run(&self, state: &State) -> DryRun {
        match self {
            Self::Operate(_) | Self::Transact(_) => state.dry_run(&self.asked()),
            Self::Rule(ruling) => {
                let rejection = state.check_rule(&ruling.rule).err().into_iter();
                let failing = rejection.map(|rejection| FailedCheck { position: None, rejection });
                DryRun { changes: Vec::new(), failing: failing.collect() }
            }
        }
    }

    /// Whether its outcome is kept for a repeat.
    pub(super) const fn is_keyed(&self) -> bool {
        match self {
            Self::Operate(call) => call.key.is_some(),
            Self::Transact(transaction) => transaction.key.is_some(),
            Self::Rule(ruling) => ruling.key.is_some(),
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
