//! The way of a mutating call to the leader and back: it is held for a moment while nobody
//! leads, permitted, executed, and answered when the client wants to be answered. Must not know
//! in which form the call came. Next: `dry_run.rs`, `operator.rs`, `transaction.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures::future;
use http::header::ETAG;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use resources::id::{AgentId, OperationId};
use serde::Serialize;
use tokio::time::Instant;

use super::error::{Failure, OPERATION_ID, Refused};
use super::incoming::Incoming;
use super::options::{Earnest, Options, Wait};
use super::permit::Asked;
use super::redirect::{HOLD_MAX, Standing};
use super::{App, dry_run, forced, permit, read};
use crate::leader::{
    Call, NotSettled, ProposeFailure, Refusal, Request, Transaction, TransactionAccepted,
};
use crate::state::operations::OperationState;

/// Names the transaction that an answer is about.
const TRANSACTION_ID: HeaderName = HeaderName::from_static("holdfast-transaction-id");

/// Lets a mutating call through when this master leads; waits a moment while nobody does.
pub(crate) async fn admit(app: &App, incoming: &Incoming) -> Result<(), Failure> {
    let standing = match app.gate.standing() {
        Standing::Nowhere => app.gate.hold(None, Instant::now() + HOLD_MAX).await?,
        known => known,
    };
    match standing {
        Standing::Here(_) => Ok(()),
        Standing::Elsewhere(_) | Standing::Nowhere => Err(app.not_here(incoming)),
    }
}

/// Executes the operation and answers 202 with an empty body.
pub(crate) async fn operation(
    app: &App,
    incoming: &Incoming,
    options: Options,
    asked: Asked,
) -> Result<Response, Failure> {
    permit::operation(app, incoming, options.earnest, &asked).await?;
    forced::check(app, incoming, std::slice::from_ref(&asked)).await?;
    let (agent_id, operation) = asked;
    let call = Call {
        principal: incoming.principal.clone(),
        source: incoming.source(),
        key: options.key,
        if_version: options.if_version,
        agent_id: agent_id.clone(),
        operation,
    };
    if options.earnest == Earnest::DryRun {
        return dry_run::answer(app, incoming, &Request::Operate(call)).await;
    }
    let accepted = until_decided(app, incoming, || app.handle.execute(call.clone())).await?;
    app.counters.accepted(&call.operation);
    if let Wait::Checkpointed { timeout } = options.wait {
        settle(app, (&accepted.operation_id, Some(&agent_id)), timeout).await?;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    put(response.headers_mut(), OPERATION_ID, accepted.operation_id.as_str());
    put(response.headers_mut(), ETAG, &format!("\"{}\"", accepted.resource_version));
    Ok(response)
}

/// The body of the answer to a transaction.
#[derive(Serialize)]
struct TransactionAnswer<'a> {
    transaction_id: &'a str,
    operation_ids: Vec<&'a str>,
    resource_versions: BTreeMap<&'a str, u64>,
}

impl<'a> From<&'a TransactionAccepted> for TransactionAnswer<'a> {
    fn from(accepted: &'a TransactionAccepted) -> Self {
        let versions = accepted.versions.iter();
        Self {
            transaction_id: accepted.transaction_id.as_str(),
            operation_ids: accepted.operation_ids.iter().map(OperationId::as_str).collect(),
            resource_versions: versions.map(|(id, version)| (id.as_str(), *version)).collect(),
        }
    }
}

/// Executes all of the operations or none, and answers 202 with their names.
pub(crate) async fn transaction(
    app: &App,
    incoming: &Incoming,
    options: Options,
    if_versions: BTreeMap<AgentId, u64>,
    operations: Vec<Asked>,
) -> Result<Response, Failure> {
    permit::transaction(app, incoming, options.earnest, &operations).await?;
    forced::check(app, incoming, &operations).await?;
    let transaction = Transaction {
        principal: incoming.principal.clone(),
        source: incoming.source(),
        key: options.key,
        if_versions,
        operations,
    };
    if options.earnest == Earnest::DryRun {
        return dry_run::answer(app, incoming, &Request::Transact(transaction)).await;
    }
    let accepted =
        until_decided(app, incoming, || app.handle.transact(transaction.clone())).await?;
    transaction.operations.iter().for_each(|(_, done)| app.counters.accepted(done));
    if let Wait::Checkpointed { timeout } = options.wait {
        let each = accepted.operation_ids.iter().map(|id| settle(app, (id, None), timeout));
        future::try_join_all(each).await?;
    }
    let mut response = read::json(incoming, &TransactionAnswer::from(&accepted))?;
    *response.status_mut() = StatusCode::ACCEPTED;
    put(response.headers_mut(), TRANSACTION_ID, accepted.transaction_id.as_str());
    Ok(response)
}

fn put(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

/// Has a call executed here, again after a change of leadership that certainly left it undone.
pub(super) async fn until_decided<T, F: Future<Output = Result<T, Refusal>>>(
    app: &App,
    incoming: &Incoming,
    execute: impl Fn() -> F,
) -> Result<T, Failure> {
    let deadline = Instant::now() + HOLD_MAX;
    let mut failed = None;
    let mut standing = app.gate.standing();
    loop {
        let Standing::Here(term) = standing else {
            return Err(app.not_here(incoming));
        };
        match execute().await {
            Ok(done) => return Ok(done),
            Err(Refusal::Rejected(rejection)) => {
                let refused = Refused::new(rejection, &app.viewer(incoming));
                return Err(Failure::Refused(Box::new(refused)));
            }
            Err(Refusal::Propose(ProposeFailure::NotLeader | ProposeFailure::NoLeader)) => {
                failed = failed.max(Some(term));
                standing = app.gate.hold(failed, deadline).await?;
            }
            Err(Refusal::Propose(failure)) => return Err(failure.into()),
        }
    }
}

async fn settle(
    app: &App,
    (operation_id, agent_id): (&OperationId, Option<&AgentId>),
    timeout: Duration,
) -> Result<(), Failure> {
    match app.handle.settled(operation_id, timeout).await {
        Ok(record) => match record.state {
            OperationState::Failed | OperationState::GoneByOperator => Err(Failure::AgentFailed {
                operation_id: record.operation_id.clone(),
                agent_id: record.agent_id.clone(),
                reason: record.message.clone().unwrap_or_default(),
            }),
            OperationState::Pending | OperationState::Finished => Ok(()),
        },
        Err(NotSettled::Timeout | NotSettled::LeadershipLost | NotSettled::UnknownOperation) => {
            Err(Failure::NotSettled {
                operation_id: operation_id.clone(),
                agent_id: agent_id.cloned(),
                waited: timeout,
            })
        }
    }
}
