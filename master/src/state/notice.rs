//! What frameworks are told beside offers: statuses of tasks and operations, and losses
//! (spec §4.3). Next: `frameworks.rs`.

use std::fmt;

use resources::id::{AgentId, OperationId, UpdateId};
use resources::message::ExecutorExit;
use resources::resource::Resource;
use resources::task::TaskStatus;

use super::operations::OperationState;

/// What a framework is told beside offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Of a task.
    Task(TaskStatus),
    /// Of an operation that it gave a name.
    Operation(OperationStatus),
    /// An executor ended.
    ExecutorExited {
        /// On which agent.
        agent_id: AgentId,
        /// Which, and how.
        exit: ExecutorExit,
    },
    /// An agent is gone.
    AgentLost(AgentId),
    /// Its stream ends with these words.
    Error(String),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(status) => write!(f, "update {status}"),
            Self::Operation(status) => write!(f, "operation {status}"),
            Self::ExecutorExited { agent_id, exit } => {
                write!(f, "failure {agent_id} {} status {}", exit.executor, exit.status)
            }
            Self::AgentLost(agent_id) => write!(f, "failure {agent_id}"),
            Self::Error(text) => write!(f, "error {text}"),
        }
    }
}

/// What is said of a framework's operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationStatus {
    /// The framework's own name for it.
    pub own_id: OperationId,
    /// Where it stands.
    pub state: FeedbackState,
    /// In words.
    pub message: Option<String>,
    /// What it made, once it is finished; in unallocated form.
    pub converted: Vec<Resource>,
    /// Its agent, where known.
    pub agent_id: Option<AgentId>,
    /// Name of this word; with one it is said again until it is acknowledged.
    pub uuid: Option<UpdateId>,
}

impl fmt::Display for OperationStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' {}", self.own_id, self.state)?;
        if let Some(message) = &self.message {
            write!(f, " ({message})")?;
        }
        if let Some(uuid) = self.uuid { write!(f, " #{uuid}") } else { Ok(()) }
    }
}

/// Where a framework's operation stands, or why nothing is known of it (spec §2.4, §4.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedbackState {
    /// As the record says.
    Recorded(OperationState),
    /// It was refused.
    Error,
    /// It never reached its agent.
    Dropped,
    /// Its agent is away.
    Unreachable,
    /// Its agent was given up by an operator.
    GoneByOperator,
    /// Nothing is known of it.
    Unknown,
}

impl fmt::Display for FeedbackState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recorded(state) => state.fmt(f),
            Self::Error => f.write_str("OPERATION_ERROR"),
            Self::Dropped => f.write_str("OPERATION_DROPPED"),
            Self::Unreachable => f.write_str("OPERATION_UNREACHABLE"),
            Self::GoneByOperator => f.write_str("OPERATION_GONE_BY_OPERATOR"),
            Self::Unknown => f.write_str("OPERATION_UNKNOWN"),
        }
    }
}
