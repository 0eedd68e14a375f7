//! Every call but SUBSCRIBE as what it asks of the leader. Whoever is answered 202 only knows
//! that the call was understood: what came of it is told on the stream. Next: `accept.rs`.

use axum::response::Response;
use http::StatusCode;
use proto::convert::scheduler as parts;
use proto::convert::{self, InvalidWire};
use proto::mesos::v1;
use proto::mesos::v1::scheduler::Call;
use proto::mesos::v1::scheduler::call::{self, Type};
use resources::id::{FrameworkId, StreamId};
use resources::opaque::Opaque;

use super::super::App;
use super::super::error::Failure;
use super::super::incoming::Incoming;
use super::framework::{self, Described, Fill};
use super::{STREAM_ID, accept, empty, refused};
use crate::leader::scheduler::{Ask, SchedulerCall, SchedulerRefusal};

/// A call that is answered as soon as it is understood.
pub(super) async fn queue(
    app: &App,
    incoming: &Incoming,
    kind: Type,
    mut call: Call,
) -> Result<Response, Failure> {
    let asked = match (kind, call.accept.take()) {
        (Type::Accept, Some(accept)) => {
            let framework_id = framework_id(&call)?;
            accept::ask(app, incoming, &framework_id, accept).await?
        }
        _ => plain(kind, &mut call)?,
    };
    ask(app, incoming, &call, asked).await?;
    Ok(empty(StatusCode::ACCEPTED))
}

/// UPDATE_FRAMEWORK, which is answered when it is done. Whose call it is comes first: rules and
/// rights are for the framework itself to hear about.
pub(super) async fn update(
    app: &App,
    incoming: &Incoming,
    mut call: Call,
) -> Result<Response, Failure> {
    ask(app, incoming, &call, Ask::Nothing).await?;
    let Some(update) = call.update_framework.take() else {
        return Err(Failure::bad_request("Expecting 'update_framework' to be present"));
    };
    let described = Described {
        info: update.framework_info,
        suppressed_roles: update.suppressed_roles,
        offer_constraints: update.offer_constraints,
    };
    let subscription =
        framework::subscription(app, described, &Fill::Nothing).map_err(Failure::bad_request)?;
    framework::permitted(app, &subscription)?;
    ask(app, incoming, &call, Ask::Update(Box::new(subscription))).await?;
    Ok(empty(StatusCode::OK))
}

/// Hands on what is asked; the leader checks whose call it is, and which stream it belongs to.
pub(super) async fn ask(
    app: &App,
    incoming: &Incoming,
    call: &Call,
    ask: Ask,
) -> Result<(), Failure> {
    let stream_id = incoming.header(STREAM_ID).map(StreamId::parse);
    let call = SchedulerCall {
        framework_id: framework_id(call)?,
        // A text that no stream can have as its id is that of another stream.
        stream_id: stream_id.map(|parsed| parsed.unwrap_or_else(|_| nobodys_stream())),
        principal: incoming.principal.clone(),
        source: incoming.source(),
        ask,
    };
    app.handle.schedule(call).await.map_err(|refusal| refused(app, incoming, refusal))
}

fn nobodys_stream() -> StreamId {
    StreamId::parse("no stream").expect("a constant of the form of an id")
}

/// An id that no framework can have is unknown.
fn framework_id(call: &Call) -> Result<FrameworkId, Failure> {
    parts::framework_id(call)
        .ok_or_else(|| Failure::bad_request(SchedulerRefusal::UnknownFramework.to_string()))
}

/// Calls that need no look at the state. Their members are there: `form.rs` has checked it.
fn plain(kind: Type, call: &mut Call) -> Result<Ask, InvalidWire> {
    Ok(match kind {
        Type::Teardown => Ask::Teardown,
        Type::Decline => {
            let decline = present("decline", call.decline.take())?;
            Ask::Decline {
                offer_ids: parts::offer_ids(&decline.offer_ids),
                refuse: parts::refuse(decline.filters.as_ref()),
            }
        }
        Type::Revive => of_roles(call.revive.take().map(|revive| revive.roles), Ask::Revive),
        Type::Suppress => {
            of_roles(call.suppress.take().map(|suppress| suppress.roles), Ask::Suppress)
        }
        Type::Kill => {
            let kill = present("kill", call.kill.take())?;
            Ask::Kill {
                task_id: parts::task_id(&kill.task_id)?,
                agent_id: parts::optional_agent_id(kill.agent_id.as_ref())?,
                grace: parts::grace(kill.kill_policy.as_ref()),
            }
        }
        Type::Shutdown => {
            let shutdown = present("shutdown", call.shutdown.take())?;
            Ask::Shutdown {
                agent_id: parts::agent_id(&shutdown.agent_id)?,
                executor_id: parts::executor_id(&shutdown.executor_id)?,
            }
        }
        Type::Acknowledge => {
            let acknowledged = present("acknowledge", call.acknowledge.take())?;
            Ask::Acknowledge {
                agent_id: parts::agent_id(&acknowledged.agent_id)?,
                task_id: parts::task_id(&acknowledged.task_id)?,
                uuid: convert::status::uuid_from_wire(&acknowledged.uuid)?,
            }
        }
        Type::AcknowledgeOperationStatus => {
            let field = "acknowledge_operation_status";
            let acknowledged = present(field, call.acknowledge_operation_status.take())?;
            Ask::AcknowledgeOperation {
                own_id: parts::operation_id(&acknowledged.operation_id)?,
                uuid: convert::status::uuid_from_wire(&acknowledged.uuid)?,
            }
        }
        Type::Reconcile => reconcile(&present("reconcile", call.reconcile.take())?)?,
        Type::ReconcileOperations => {
            let field = "reconcile_operations";
            reconcile_operations(&present(field, call.reconcile_operations.take())?)?
        }
        Type::Message => {
            let message = present("message", call.message.take())?;
            Ask::Message {
                agent_id: parts::agent_id(&message.agent_id)?,
                executor_id: parts::executor_id(&message.executor_id)?,
                data: Opaque::from(message.data.to_vec()),
            }
        }
        Type::AcceptInverseOffers => {
            let answer = present("accept_inverse_offers", call.accept_inverse_offers.take())?;
            answer_inverse(&answer.inverse_offer_ids, true, answer.filters.as_ref())
        }
        Type::DeclineInverseOffers => {
            let answer = present("decline_inverse_offers", call.decline_inverse_offers.take())?;
            answer_inverse(&answer.inverse_offer_ids, false, answer.filters.as_ref())
        }
        Type::Request | Type::Unknown | Type::Subscribe | Type::Accept | Type::UpdateFramework => {
            Ask::Nothing
        }
    })
}

fn answer_inverse(ids: &[v1::OfferId], is_accepted: bool, filters: Option<&v1::Filters>) -> Ask {
    let (offer_ids, refuse) = (parts::offer_ids(ids), parts::refuse(filters));
    Ask::AnswerInverse { offer_ids, is_accepted, refuse }
}

/// A call that names what is no role is taken and does nothing (spec §4.4).
fn of_roles(
    texts: Option<Vec<String>>,
    ask: impl FnOnce(std::collections::BTreeSet<resources::role::Role>) -> Ask,
) -> Ask {
    parts::roles(&texts.unwrap_or_default()).map_or(Ask::Nothing, ask)
}

fn reconcile(wanted: &call::Reconcile) -> Result<Ask, InvalidWire> {
    let task = |task: &call::reconcile::Task| {
        let agent_id = parts::optional_agent_id(task.agent_id.as_ref())?;
        Ok((parts::task_id(&task.task_id)?, agent_id))
    };
    Ok(Ask::Reconcile(wanted.tasks.iter().map(task).collect::<Result<_, InvalidWire>>()?))
}

fn reconcile_operations(wanted: &call::ReconcileOperations) -> Result<Ask, InvalidWire> {
    let operation = |operation: &call::reconcile_operations::Operation| {
        let agent_id = parts::optional_agent_id(operation.agent_id.as_ref())?;
        Ok((parts::operation_id(&operation.operation_id)?, agent_id))
    };
    let operations = wanted.operations.iter().map(operation);
    Ok(Ask::ReconcileOperations(operations.collect::<Result<_, InvalidWire>>()?))
}

fn present<T>(field: &'static str, member: Option<T>) -> Result<T, InvalidWire> {
    member.ok_or(InvalidWire::Absent(field))
}
