//! The way of a mutating call to the leader and back: it is held for a moment while nobody
//! leads, executed, and answered when the client wants to be answered. Must not know in which
//! form the call came. Next: `operator.rs`.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::header::{ETAG, HeaderName, IF_MATCH};
use http::{HeaderValue, StatusCode};
use resources::id::AgentId;
use resources::operation::Operation;
use tokio::time::Instant;

use super::App;
use super::error::{Failure, OPERATION_ID};
use super::incoming::Incoming;
use super::redirect::{HOLD_MAX, Standing};
use crate::leader::{Accepted, Call, NotSettled, ProposeFailure, Refusal};
use crate::state::operations::OperationState;

/// Name of a call, chosen by its caller.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// How long `?wait=checkpointed` waits when the client does not say.
const WAIT_DEFAULT: Duration = Duration::from_secs(5);
/// How long it waits at most.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// When the client wants its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// When a quorum has it and it is applied.
    Committed,
    /// When the agent has it on its disk.
    Checkpointed { timeout: Duration },
}

impl Wait {
    /// What the query asks for.
    pub(crate) fn of(incoming: &Incoming) -> Result<Self, Failure> {
        let query = incoming.query()?;
        let timeout = match query.get("timeout") {
            None => WAIT_DEFAULT,
            Some(text) => resources::parse::duration(text)
                .map_err(|error| Failure::bad_request(format!("Malformed 'timeout': {error}")))?,
        };
        match query.get("wait").map(String::as_str) {
            None | Some("committed") => Ok(Self::Committed),
            Some("checkpointed") => Ok(Self::Checkpointed { timeout: timeout.min(WAIT_MAX) }),
            Some(other) => Err(Failure::bad_request(format!(
                "Expecting 'wait' to be 'committed' or 'checkpointed', found '{other}'"
            ))),
        }
    }
}

/// Refuses what this version would have to ignore: a client that sends one of these relies on it.
pub(crate) fn refuse_unsupported(incoming: &Incoming) -> Result<(), Failure> {
    for name in [IDEMPOTENCY_KEY, IF_MATCH] {
        if incoming.headers().contains_key(&name) {
            return Err(Failure::NotImplemented(format!(
                "The header {name} is not supported by this version; nothing was done"
            )));
        }
    }
    match incoming.query()?.get("dry_run").map(String::as_str) {
        None | Some("false") => Ok(()),
        Some(_) => Err(Failure::NotImplemented(
            "The parameter dry_run is not supported by this version; nothing was done".to_owned(),
        )),
    }
}

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
    wait: Wait,
    (agent_id, operation): (AgentId, Operation),
) -> Result<Response, Failure> {
    let call = Call {
        principal: incoming.principal.clone(),
        source: incoming.source(),
        agent_id: agent_id.clone(),
        operation,
    };
    let accepted = execute(app, incoming, call).await?;
    if let Wait::Checkpointed { timeout } = wait {
        settle(app, &agent_id, &accepted, timeout).await?;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(accepted.operation_id.as_str()) {
        headers.insert(OPERATION_ID, value);
    }
    if let Ok(value) = HeaderValue::from_str(&format!("\"{}\"", accepted.resource_version)) {
        headers.insert(ETAG, value);
    }
    Ok(response)
}

/// Executes a call here, again after a change of leadership that certainly left it undone.
async fn execute(app: &App, incoming: &Incoming, call: Call) -> Result<Accepted, Failure> {
    let deadline = Instant::now() + HOLD_MAX;
    let mut failed = None;
    let mut standing = app.gate.standing();
    loop {
        let Standing::Here(term) = standing else {
            return Err(app.not_here(incoming));
        };
        match app.handle.execute(call.clone()).await {
            Ok(accepted) => return Ok(accepted),
            Err(Refusal::Rejected(rejection)) => {
                let rejection = Box::new(rejection);
                return Err(Failure::Rejected { agent_id: call.agent_id, rejection });
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
    agent_id: &AgentId,
    accepted: &Accepted,
    timeout: Duration,
) -> Result<(), Failure> {
    let operation_id = accepted.operation_id.clone();
    let agent_id = agent_id.clone();
    match app.handle.settled(&accepted.operation_id, timeout).await {
        Ok(record) => match record.state {
            OperationState::Failed => {
                let reason = record.message.clone().unwrap_or_default();
                Err(Failure::AgentFailed { operation_id, agent_id, reason })
            }
            OperationState::Pending | OperationState::Finished => Ok(()),
        },
        Err(NotSettled::Timeout | NotSettled::LeadershipLost | NotSettled::UnknownOperation) => {
            Err(Failure::NotSettled { operation_id, agent_id, waited: timeout })
        }
    }
}
