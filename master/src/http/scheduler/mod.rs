//! `POST /api/v1/scheduler`: the checks of spec §4.1 in their order as far as they need no
//! session, then a stream or a call to the leader, which checks the rest. Must not know what a
//! call leads to. Reading order: this file, `form.rs` (the call as a whole), `framework.rs` (what
//! a framework says of itself), `subscribe.rs`, `encode.rs` (events), `calls.rs`, `accept.rs`.

mod accept;
mod calls;
mod encode;
mod form;
mod framework;
mod subscribe;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderName, Method, StatusCode};
use proto::mesos::v1::scheduler::call::Type;

use super::error::Failure;
use super::incoming::Incoming;
use super::redirect::Standing;
use super::{App, execute, negotiate};
use crate::leader::scheduler::SchedulerRefusal;

/// Names the stream that a call belongs to.
const STREAM_ID: HeaderName = HeaderName::from_static("mesos-stream-id");

/// Answers a call.
pub(super) async fn call(app: &App, incoming: &mut Incoming) -> Result<Response, Failure> {
    admit(app, incoming).await?;
    if incoming.head.method != Method::POST {
        let received = incoming.head.method.clone();
        return Err(Failure::MethodNotAllowed { allowed: &[Method::POST], received });
    }
    let (kind, call) = form::decode(incoming).await?;
    form::check(kind, &call, incoming.principal.as_ref())?;
    match kind {
        Type::Subscribe => {
            let media = negotiate::of_response(incoming.headers())?;
            subscribe::open(app, incoming, call, media).await
        }
        Type::UpdateFramework => calls::update(app, incoming, call).await,
        Type::ReconcileOperations => {
            negotiate::of_response(incoming.headers())?;
            calls::queue(app, incoming, kind, call).await
        }
        Type::Unknown => {
            calls::ask(app, incoming, &call, crate::leader::scheduler::Ask::Nothing).await?;
            Err(Failure::NotImplemented("Calls of type UNKNOWN are not served".to_owned()))
        }
        Type::Teardown
        | Type::Accept
        | Type::Decline
        | Type::AcceptInverseOffers
        | Type::DeclineInverseOffers
        | Type::Revive
        | Type::Kill
        | Type::Shutdown
        | Type::Acknowledge
        | Type::AcknowledgeOperationStatus
        | Type::Reconcile
        | Type::Message
        | Type::Request
        | Type::Suppress => calls::queue(app, incoming, kind, call).await,
    }
}

/// Leadership comes before method and form. While nobody leads a call waits a moment, and only
/// for that its body is looked at first; a subscription never waits, and what is no call neither.
async fn admit(app: &App, incoming: &mut Incoming) -> Result<(), Failure> {
    match app.gate.standing() {
        Standing::Here(_) => Ok(()),
        Standing::Elsewhere(_) => Err(app.not_here(incoming)),
        Standing::Nowhere => match form::decode(incoming).await {
            Ok((kind, _)) if kind != Type::Subscribe => execute::admit(app, incoming).await,
            Ok(_) | Err(_) => Err(app.not_here(incoming)),
        },
    }
}

/// The one map from what the leader refuses to an answer.
fn refused(app: &App, incoming: &Incoming, refusal: SchedulerRefusal) -> Failure {
    match refusal {
        SchedulerRefusal::NotSubscribed => Failure::Forbidden(refusal.to_string()),
        SchedulerRefusal::UnknownFramework
        | SchedulerRefusal::OtherPrincipal(_)
        | SchedulerRefusal::OtherStream(_)
        | SchedulerRefusal::Invalid(_) => Failure::bad_request(refusal.to_string()),
        SchedulerRefusal::Propose(failure) => match Failure::from(failure) {
            Failure::NoLeader => app.not_here(incoming),
            other => other,
        },
    }
}

/// An answer without data, and so without a content type.
fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
