//! What the leader says by itself, from the state: where a task or an operation stands for
//! whoever asks (spec §4.5, §4.6), and that an ACCEPT comes to nothing (§2.3). None of it is
//! acknowledged. Must not know who is connected. Next: `scheduling.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use resources::id::{AgentId, OperationId, TaskId};
use resources::task::{StatusReason, TaskState, TaskStatus};
use resources::time::Timestamp;

use crate::state::accept::Step;
use crate::state::command::{FeedbackState, Notice, OperationStatus};
use crate::state::frameworks::Framework;
use crate::state::tasks::said_by_master;
use crate::state::{OperationState, Presence, State};

/// Where a task stands. A new leader answers at once: agents that are not back yet are known.
pub(super) fn task(
    state: &State,
    framework: &Framework,
    (task_id, agent_id): (&TaskId, Option<&AgentId>),
    wall: Timestamp,
) -> TaskStatus {
    if let Some(task) = framework.tasks.get(task_id) {
        return task.current_status(wall);
    }
    let agent = agent_id.and_then(|agent_id| state.agent(agent_id));
    let is_gone = agent_id.is_some_and(|agent_id| state.gone_agent(agent_id).is_some());
    let (found, message) = match agent.map(|agent| agent.presence) {
        Some(Presence::Here | Presence::Away(_)) => {
            (TaskState::Gone, "its agent does not run this task")
        }
        Some(Presence::Unreachable { .. }) => (TaskState::Unreachable, "its agent is unreachable"),
        None if is_gone => (TaskState::GoneByOperator, "its agent is marked gone"),
        Some(Presence::Unregistered { .. }) | None => {
            (TaskState::Unknown, "neither this task nor its agent is known")
        }
    };
    let unreachable_at = agent.and_then(|agent| agent.presence.unreachable_since());
    let why = (StatusReason::Reconciliation, message.to_owned());
    let told = (task_id.clone(), framework.lost_as(found));
    let status = said_by_master(told, why, wall);
    TaskStatus { agent_id: agent_id.cloned(), unreachable_at, ..status }
}

/// Where an operation stands. One that is not known may have been acknowledged already.
pub(super) fn operation(
    state: &State,
    framework: &Framework,
    (own_id, agent_id): (&OperationId, Option<&AgentId>),
) -> OperationStatus {
    let record = state.operation_of(&framework.id, own_id);
    if let Some(status) = record.and_then(|record| record.status()) {
        let is_pending = status.state == FeedbackState::Recorded(OperationState::Pending);
        let agent = status.agent_id.as_ref().and_then(|id| state.agent(id));
        let is_away = is_pending && agent.is_some_and(|agent| !agent.is_counted());
        let state = if is_away { FeedbackState::Unreachable } else { status.state };
        return OperationStatus { uuid: None, state, ..status };
    }
    let away = agent_id.and_then(|agent_id| unknown_there(state, agent_id));
    OperationStatus {
        own_id: own_id.clone(),
        state: away.unwrap_or(FeedbackState::Unknown),
        message: None,
        converted: Vec::new(),
        agent_id: agent_id.cloned(),
        uuid: None,
    }
}

/// Where an operation stands that nobody knows, on an agent that is not there.
fn unknown_there(state: &State, agent_id: &AgentId) -> Option<FeedbackState> {
    if state.gone_agent(agent_id).is_some() {
        return Some(FeedbackState::GoneByOperator);
    }
    state.agent(agent_id)?.presence.unreachable_since().map(|_| FeedbackState::Unreachable)
}

/// Why an ACCEPT comes to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nothing<'a> {
    /// Its offers cannot be used, in these words.
    Offers(&'a str),
    /// Its agent is away.
    Agent,
}

/// What a framework hears of an ACCEPT that comes to nothing: of what is on record by these ids,
/// where it stands, because it may be a repeat; of the rest, that it never was.
pub(super) fn nothing_came(
    state: &State,
    framework: &Framework,
    agent_id: Option<&AgentId>,
    steps: &[Step],
    (why, wall): (Nothing<'_>, Timestamp),
) -> Vec<Notice> {
    let mut notices = Vec::new();
    for step in steps {
        let tasks: Vec<&TaskId> = match step {
            Step::Operate { own_id: Some(own_id), .. } => {
                let status = match state.operation_of(&framework.id, own_id) {
                    Some(_) => operation(state, framework, (own_id, None)),
                    None => undone(own_id, agent_id, why),
                };
                notices.push(Notice::Operation(status));
                continue;
            }
            Step::Operate { own_id: None, .. } => continue,
            Step::Launch { tasks } => tasks.iter().map(|one| &one.task.task_id).collect(),
            Step::LaunchGroup { tasks, .. } => tasks.iter().map(|task| &task.task_id).collect(),
        };
        let told = tasks.into_iter().map(|task_id| match framework.tasks.get(task_id) {
            Some(task) => task.current_status(wall),
            None => unlaunched(framework, (task_id, agent_id), why, wall),
        });
        notices.extend(told.map(Notice::Task));
    }
    notices
}

fn undone(own_id: &OperationId, agent_id: Option<&AgentId>, why: Nothing<'_>) -> OperationStatus {
    let (state, message) = match why {
        Nothing::Offers(words) => (FeedbackState::Error, words),
        Nothing::Agent => (FeedbackState::Dropped, "the agent is disconnected"),
    };
    OperationStatus {
        own_id: own_id.clone(),
        state,
        message: Some(message.to_owned()),
        converted: Vec::new(),
        agent_id: agent_id.cloned(),
        uuid: None,
    }
}

fn unlaunched(
    framework: &Framework,
    (task_id, agent_id): (&TaskId, Option<&AgentId>),
    why: Nothing<'_>,
    wall: Timestamp,
) -> TaskStatus {
    let (reason, message) = match why {
        Nothing::Offers(words) => (StatusReason::InvalidOffers, words),
        Nothing::Agent => (StatusReason::AgentDisconnected, "the agent is disconnected"),
    };
    let told = (task_id.clone(), framework.lost_as(TaskState::Dropped));
    let status = said_by_master(told, (reason, message.to_owned()), wall);
    TaskStatus { agent_id: agent_id.cloned(), ..status }
}
