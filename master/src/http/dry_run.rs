//! The answer to `?dry_run=true`: what would change, or every check that fails, each with its
//! numbers. Nothing is written. Must not decide anything. Next: `operator.rs`.

use std::collections::BTreeMap;

use axum::response::Response;
use resources::form::ResourceForm;
use resources::id::AgentId;
use resources::resource::Resource;
use serde::Serialize;

use super::error::{Failure, Refused, Report};
use super::incoming::Incoming;
use super::{App, administer, read, shapes};
use crate::auth::Viewer;
use crate::leader::{ReadFailure, Request};
use crate::state::State;
use crate::state::command::CommandKind;
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

/// What would become of an agent as a whole.
#[derive(Serialize)]
struct CommandAnswer {
    #[serde(flatten)]
    answer: Answer,
    /// Tasks that would end.
    tasks: usize,
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

/// What would come of a command about one agent.
pub(super) fn command(
    app: &App,
    incoming: &Incoming,
    state: &State,
    (agent_id, if_versions, kind): (&AgentId, &BTreeMap<AgentId, u64>, &CommandKind),
) -> Result<Response, Failure> {
    let viewer = app.viewer(incoming);
    let (changes, failing) = match state.dry_run_command(agent_id, if_versions, kind) {
        Ok(changes) => (changes.iter().map(|change| Change::of(change, &viewer)).collect(), None),
        Err(rejection) => {
            let refused = Failure::Refused(Box::new(Refused::new(rejection, &viewer)));
            (Vec::new(), Some(administer::as_mesos(kind, refused)))
        }
    };
    let ends_tasks = matches!(kind, CommandKind::MarkGone { .. } | CommandKind::Drain { .. });
    let agent = state.agent(agent_id).filter(|_| ends_tasks);
    let failing: Vec<Failing> = failing.iter().map(Failing::from).collect();
    let would_be_accepted = failing.is_empty();
    let answer = Answer { dry_run: true, would_be_accepted, changes, failing };
    let tasks = agent.map_or(0, |agent| agent.tasks.size());
    read::json(incoming, &CommandAnswer { answer, tasks })
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
        Self::from(&Failure::Refused(Box::new(refused)))
    }
}

impl From<&Failure> for Failing {
    fn from(failure: &Failure) -> Self {
        Self { status: failure.status().as_u16(), report: failure.full_report() }
    }
}
