//! The executor API, `POST /api/v1/executor` (spec §5.7): checks of the request in their order,
//! and the stream of events. Paths and methods are in `http.rs`; decides nothing.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use proto::convert::status;
use proto::mesos::v1;
use proto::mesos::v1::executor::call::Type;
use proto::mesos::v1::executor::{Call, Event, event};
use proto::{json, recordio};
use resources::id::{ExecutorId, FrameworkId, TaskId};
use resources::opaque::Opaque;
use resources::task::{ExecutorName, StatusSource, TaskState, TaskStatus};

use super::api::{Encoding, accepted, bad, decode};
use super::plain;
use crate::core::tasks::event::TaskEvent;
use crate::driver::{ExecutorRefusal, Handle, Subscription};

const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(30 * 60);
/// Largest `data` of a status (architecture §4).
const DATA_BYTES_MAX: usize = 64 << 10;

/// Answers one call, whose method is checked already.
pub(super) async fn call(headers: &HeaderMap, body: &Bytes, driver: &Handle) -> Response {
    let call: Call = match decode(headers, body) {
        Ok(call) => call,
        Err(refusal) => return *refusal,
    };
    let Some(kind) = call.r#type.and_then(|kind| Type::try_from(kind).ok()) else {
        return invalid("Expecting 'type' to be present");
    };
    let Some(encoding) = accepted(headers) else {
        let text = "Expecting 'Accept' to allow 'application/json' or 'application/x-protobuf'";
        return plain(StatusCode::NOT_ACCEPTABLE, text);
    };
    let framework_id = FrameworkId::parse(call.framework_id.value.as_str());
    let executor_id = ExecutorId::parse(call.executor_id.value.as_str());
    let executor = match (framework_id, executor_id) {
        (Ok(framework_id), Ok(executor_id)) => ExecutorName { framework_id, executor_id },
        (Err(error), _) => return invalid(&format!("'framework_id' is invalid: {error}")),
        (_, Err(error)) => return invalid(&format!("'executor_id' is invalid: {error}")),
    };
    match kind {
        Type::Subscribe => {
            let Some(subscribe) = call.subscribe else {
                return invalid("Expecting 'subscribe' to be present");
            };
            let subscription = match subscription(executor, subscribe) {
                Ok(subscription) => subscription,
                Err(reason) => return invalid(&reason),
            };
            match driver.subscribe(subscription).await {
                Ok(events) => stream(events, encoding),
                Err(refusal) => refused(refusal),
            }
        }
        Type::Update => {
            let Some(update) = call.update else {
                return invalid("Expecting 'update' to be present");
            };
            match update_of(update.status) {
                Ok(status) => {
                    let event = TaskEvent::Updated(executor.clone(), Box::new(status));
                    accepted_or_not(driver.call(executor, event).await)
                }
                Err(reason) => invalid(&reason),
            }
        }
        Type::Message => {
            let Some(message) = call.message else {
                return invalid("Expecting 'message' to be present");
            };
            let data = Opaque::from(message.data.to_vec());
            let event = TaskEvent::Spoke(executor.clone(), data);
            accepted_or_not(driver.call(executor, event).await)
        }
        // It only keeps the connection; an event that changes nothing asks whether it may.
        Type::Heartbeat => {
            let event = TaskEvent::Heard(executor.clone(), Vec::new());
            accepted_or_not(driver.call(executor, event).await)
        }
        Type::Unknown => invalid("Expecting 'type' to be present"),
    }
}

fn invalid(reason: &str) -> Response {
    bad(format!("Failed to validate executor::Call: {reason}"))
}

fn accepted_or_not(done: Result<(), ExecutorRefusal>) -> Response {
    match done {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(refusal) => refused(refusal),
    }
}

fn refused(refusal: ExecutorRefusal) -> Response {
    match refusal {
        ExecutorRefusal::Framework => bad("Framework cannot be found"),
        ExecutorRefusal::Executor => bad("Executor cannot be found"),
        ExecutorRefusal::NotSubscribed => {
            plain(StatusCode::FORBIDDEN, "Executor is not subscribed")
        }
        ExecutorRefusal::Ending => {
            let text = "The agent is about to end";
            (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], text).into_response()
        }
    }
}

fn subscription(
    executor: ExecutorName,
    subscribe: v1::executor::call::Subscribe,
) -> Result<Subscription, String> {
    let task = |task: v1::TaskInfo| {
        TaskId::parse(task.task_id.value).map_err(|error| format!("'task_id': {error}"))
    };
    let tasks = subscribe.unacknowledged_tasks.into_iter().map(task);
    let updates =
        subscribe.unacknowledged_updates.into_iter().map(|update| update_of(update.status));
    Ok(Subscription {
        executor,
        tasks: tasks.collect::<Result<_, _>>()?,
        updates: updates.collect::<Result<_, _>>()?,
    })
}

fn update_of(wire: v1::TaskStatus) -> Result<TaskStatus, String> {
    if wire.uuid.is_none() {
        return Err("Expecting 'uuid' to be present".to_owned());
    }
    if wire.source != Some(v1::task_status::Source::Executor.into()) {
        return Err("Received Call from executor with a source other than SOURCE_EXECUTOR".into());
    }
    if wire.data.as_ref().is_some_and(|data| data.len() > DATA_BYTES_MAX) {
        return Err(format!("'data' has more than {DATA_BYTES_MAX} bytes"));
    }
    let status = status::from_wire(wire).map_err(|error| error.to_string())?;
    if status.state == TaskState::Staging {
        return Err("TASK_STAGING is not a valid status of an executor".to_owned());
    }
    Ok(TaskStatus { source: StatusSource::Executor, ..status })
}

/// The stream of an executor: one record is one chunk (clients 1).
fn stream(events: mpsc::Receiver<Event>, encoding: Encoding) -> Response {
    let mut heartbeats = interval_at(Instant::now() + HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL);
    heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let chunks = futures::stream::unfold((events, heartbeats), |(mut events, mut beats)| async {
        // Both arms are cancel-safe.
        let event = tokio::select! {
            event = events.recv() => event?,
            _ = beats.tick() => {
                Event { r#type: Some(event::Type::Heartbeat.into()), ..Event::default() }
            }
        };
        Some((event, (events, beats)))
    });
    let chunks = chunks.map(move |event| {
        let record = match encoding {
            Encoding::Json => json::encode(&event),
            Encoding::Protobuf => event.encode_to_vec(),
        };
        Ok::<_, Infallible>(recordio::frame(&record))
    });
    let content_type = encoding.content_type();
    ([(CONTENT_TYPE, content_type)], Body::from_stream(chunks)).into_response()
}
