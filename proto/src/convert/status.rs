//! `TaskStatus` ⇄ the domain's status of a task. What no part of the product looks at stays in
//! the message as it came. Next: `convert/agent.rs`.

use std::time::Duration;

use prost::Message as _;
use resources::id::{AgentId, ExecutorId, InvalidId, TaskId, UpdateId};
use resources::opaque::Opaque;
use resources::task::{StatusReason, StatusSource, TaskState, TaskStatus};
use resources::time::Timestamp;

use crate::convert::InvalidWire;
use crate::mesos::v1;

/// A status, as an agent or an executor says it.
///
/// # Errors
/// When its id, state, source, reason or uuid has no meaning.
pub fn from_wire(wire: v1::TaskStatus) -> Result<TaskStatus, InvalidWire> {
    let task_id = id("task_id", TaskId::parse(wire.task_id.value.as_str()))?;
    let state = state_from_wire("state", wire.state)?;
    let source = wire.source.unwrap_or(v1::task_status::Source::Master.into());
    let source = StatusSource::of_number(source)
        .ok_or(InvalidWire::Enumerator { field: "source", found: source })?;
    let agent_id = wire.agent_id.as_ref().map(|id| AgentId::parse(id.value.as_str()));
    let executor_id = wire.executor_id.as_ref().map(|id| ExecutorId::parse(id.value.as_str()));
    Ok(TaskStatus {
        task_id,
        state,
        agent_id: agent_id.transpose().map_err(InvalidWire::AgentId)?,
        executor_id: id("executor_id", executor_id.transpose())?,
        source,
        // A reason that is newer than this program is left out.
        reason: wire.reason.and_then(StatusReason::of_number),
        message: wire.message.clone(),
        uuid: wire.uuid.as_deref().map(uuid_from_wire).transpose()?,
        at: time_from_seconds(wire.timestamp.unwrap_or_default()),
        unreachable_at: wire
            .unreachable_time
            .as_ref()
            .map(|time| Timestamp::from_nanos(u64::try_from(time.nanoseconds).unwrap_or_default())),
        healthy: wire.healthy,
        data: Opaque::from(wire.data.as_deref().unwrap_or_default().to_vec()),
        wire: rest_of(wire),
    })
}

/// The status for a framework, an agent, or a reader.
#[must_use]
pub fn to_wire(status: &TaskStatus) -> v1::TaskStatus {
    let rest = v1::TaskStatus::decode(status.wire.as_bytes()).unwrap_or_default();
    let data = status.data.as_bytes();
    v1::TaskStatus {
        task_id: v1::TaskId { value: status.task_id.to_string() },
        state: status.state.number(),
        data: (!data.is_empty()).then(|| data.to_vec().into()),
        message: status.message.clone(),
        agent_id: status.agent_id.as_ref().map(|id| v1::AgentId { value: id.to_string() }),
        timestamp: Some(Duration::from_nanos(status.at.as_nanos()).as_secs_f64()),
        executor_id: status.executor_id.as_ref().map(|id| v1::ExecutorId { value: id.to_string() }),
        healthy: status.healthy,
        source: Some(status.source.number()),
        reason: status.reason.map(StatusReason::number),
        uuid: status.uuid.map(|uuid| uuid.0.to_vec().into()),
        unreachable_time: status.unreachable_at.map(|at| v1::TimeInfo {
            nanoseconds: i64::try_from(at.as_nanos()).unwrap_or(i64::MAX),
        }),
        ..rest
    }
}

/// A state by its number.
///
/// # Errors
/// When the number names none.
pub fn state_from_wire(field: &'static str, found: i32) -> Result<TaskState, InvalidWire> {
    TaskState::of_number(found).ok_or(InvalidWire::Enumerator { field, found })
}

/// The name of an update.
///
/// # Errors
/// When it has not 16 bytes.
pub fn uuid_from_wire(bytes: &[u8]) -> Result<UpdateId, InvalidWire> {
    let uuid = <[u8; 16]>::try_from(bytes);
    uuid.map(UpdateId).map_err(|_| InvalidWire::Uuid { bytes: bytes.len() })
}

/// Seconds since 1970 as a time; what is none is the beginning.
fn time_from_seconds(seconds: f64) -> Timestamp {
    Timestamp::default() + Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// What the domain has no field for.
fn rest_of(wire: v1::TaskStatus) -> Opaque {
    let rest = v1::TaskStatus {
        labels: wire.labels,
        container_status: wire.container_status,
        check_status: wire.check_status,
        limitation: wire.limitation,
        ..Default::default()
    };
    if rest == v1::TaskStatus::default() { Opaque::default() } else { rest.encode_to_vec().into() }
}

fn id<T>(field: &'static str, parsed: Result<T, InvalidId>) -> Result<T, InvalidWire> {
    parsed.map_err(|source| InvalidWire::Id { field, source })
}
