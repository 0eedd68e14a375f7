//! The answer to `?dry_run=true`: what would change, or every check that fails, each with its
//! numbers. Nothing is written. Must not decide anything. Next: `operator.rs`.

use axum::response::Response;
use resources::form::ResourceForm;
use resources::resource::Resource;
use serde::Serialize;

use super::error::{Failure, Refused, Report};
use super::incoming::Incoming;
use super::{App, read, shapes};
use crate::auth::Viewer;
use crate::leader::{ReadFailure, Request};
use crate::state::dry_run::{AgentChange, FailedCheck};

/// The body of the answer. Exactly one of its lists is empty, or both when nothing would change.
#[derive(Serialize)]
struct Answer {
    dry_run: bool,
    would_be_accepted: bool,
    changes: Vec<Change>,
    failing: Vec<Failing>,
}

/// What an agent would have instead of what it has.
#[derive(Serialize)]
struct Change {
    agent_id: String,
    /// What `If-Match` wants now.
    resource_version: u64,
    removed: Vec<ResourceForm>,
    added: Vec<ResourceForm>,
}

/// A check that fails, as the error that the real call could get.
#[derive(Serialize)]
struct Failing {
    status: u16,
    #[serde(flatten)]
    report: Report,
}

/// Asks the leader what would come of a request.
pub(super) async fn answer(
    app: &App,
    incoming: &Incoming,
    request: &Request,
) -> Result<Response, Failure> {
    let outcome = app.handle.dry_run(request).await.map_err(|failure| match failure {
        ReadFailure::NotLeader => app.not_here(incoming),
        ReadFailure::NoLeader => Failure::NoLeader,
    })?;
    let viewer = app.viewer(incoming);
    let answer = Answer {
        dry_run: true,
        would_be_accepted: outcome.failing.is_empty(),
        changes: outcome.changes.iter().map(|change| Change::of(change, &viewer)).collect(),
        failing: outcome
            .failing
            .into_iter()
            .map(|failed| Failing::of(failed, request, &viewer))
            .collect(),
    };
    read::json(incoming, &answer)
}

impl Change {
    fn of(change: &AgentChange, viewer: &Viewer<'_>) -> Self {
        let forms = |resources: &[Resource]| {
            resources.iter().filter(|resource| viewer.sees(resource)).map(shapes::form).collect()
        };
        Self {
            agent_id: change.agent_id.to_string(),
            resource_version: change.resource_version,
            removed: forms(&change.removed),
            added: forms(&change.added),
        }
    }
}

impl Failing {
    fn of(failed: FailedCheck, request: &Request, viewer: &Viewer<'_>) -> Self {
        let mut refused = Refused::new(failed.rejection, viewer);
        // That of a wrong element of the only list is found without it.
        refused.index = match request {
            Request::Operate(_) | Request::Rule(_) => None,
            Request::Transact(_) => failed.position,
        };
        let failure = Failure::Refused(Box::new(refused));
        Self { status: failure.status().as_u16(), report: failure.full_report() }
    }
}
