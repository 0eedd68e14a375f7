//! Commands of operators about a whole agent (spec §5.2, §7.10): MARK_AGENT_GONE, DRAIN_AGENT,
//! DEACTIVATE_AGENT and REACTIVATE_AGENT. Must not know what they come to for tasks and resources.
//! Next: `transaction.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use proto::mesos::v1;
use proto::mesos::v1::master::Call;
use proto::mesos::v1::master::call::drain_agent;
use resources::id::AgentId;

use super::error::{Failure, Refused};
use super::incoming::Incoming;
use super::options::{Earnest, Options};
use super::{App, dry_run, execute};
use crate::auth::Action;
use crate::leader::{Administration, Consistency};
use crate::state::command::CommandKind;
use crate::state::rejection::Rejection;

/// Nanoseconds of a second.
const SECOND: i32 = 1_000_000_000;

/// What is asked of which agent, and what that takes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    agent_id: AgentId,
    kind: CommandKind,
    needs: &'static [(Action, &'static str)],
}

/// Answers a call; 200 once it is committed and applied.
pub(super) async fn call(app: &App, incoming: &Incoming, call: Call) -> Result<Response, Failure> {
    let options = Options::of(incoming)?;
    let asked = Asked::of(call)?;
    permitted(app, incoming, &asked)?;
    let Asked { agent_id, kind, needs: _ } = asked;
    let if_versions: BTreeMap<AgentId, u64> =
        options.if_version.map(|version| (agent_id.clone(), version)).into_iter().collect();
    if options.earnest == Earnest::DryRun {
        let view = app.view(incoming, Consistency::Linearizable).await?;
        return dry_run::command(app, incoming, &view.state, (&agent_id, &if_versions, &kind));
    }
    let administration = Administration {
        principal: incoming.principal.clone(),
        source: incoming.source(),
        key: options.key,
        if_versions: if_versions.clone(),
        kind: kind.clone(),
    };
    let decided =
        execute::until_decided(app, incoming, || app.handle.administer(administration.clone()));
    decided.await.map_err(|failure| as_mesos(&kind, failure))?;
    // No data, so no content type.
    Ok(Response::new(Body::empty()))
}

impl Asked {
    fn of(call: Call) -> Result<Self, Failure> {
        const MARK_GONE: (Action, &str) = (Action::MarkAgentGone, "mark agents gone");
        const DRAIN: (Action, &str) = (Action::DrainAgent, "drain agents");
        if let Some(asked) = call.mark_agent_gone {
            let agent_id = agent_id(&asked.agent_id).ok_or_else(not_found)?;
            let kind = CommandKind::MarkGone { agent_id: agent_id.clone() };
            return Ok(Self { agent_id, kind, needs: &[MARK_GONE] });
        }
        if let Some(asked) = call.drain_agent {
            let agent_id = agent_id(&asked.agent_id).ok_or_else(unknown)?;
            let (max_grace, mark_gone) = (
                asked.max_grace_period.as_ref().map(grace).transpose()?,
                asked.mark_gone.unwrap_or_default(),
            );
            let kind = CommandKind::Drain { agent_id: agent_id.clone(), max_grace, mark_gone };
            let needs: &[_] = if mark_gone { &[DRAIN, MARK_GONE] } else { &[DRAIN] };
            return Ok(Self { agent_id, kind, needs });
        }
        if let Some(asked) = call.deactivate_agent {
            let agent_id = agent_id(&asked.agent_id).ok_or_else(unknown)?;
            let kind = CommandKind::Deactivate { agent_id: agent_id.clone() };
            let needs = &[(Action::DeactivateAgent, "deactivate agents")];
            return Ok(Self { agent_id, kind, needs });
        }
        if let Some(asked) = call.reactivate_agent {
            let agent_id = agent_id(&asked.agent_id).ok_or_else(unknown)?;
            let kind = CommandKind::Reactivate { agent_id: agent_id.clone() };
            let needs = &[(Action::ReactivateAgent, "reactivate agents")];
            return Ok(Self { agent_id, kind, needs });
        }
        Err(Failure::bad_request("Expecting a command about an agent"))
    }
}

/// Whoever may not do it learns nothing about the agent.
fn permitted(app: &App, incoming: &Incoming, asked: &Asked) -> Result<(), Failure> {
    let principal = incoming.principal.as_ref();
    for (action, what) in asked.needs {
        if !app.config.authorizer.may(principal, *action, None) {
            let who = principal.map_or("nobody".to_owned(), |name| format!("principal '{name}'"));
            return Err(Failure::Forbidden(format!("{who} may not {what}")));
        }
    }
    Ok(())
}

/// Mesos finds no page for an agent that is to be marked gone and was never there; everywhere
/// else the call is wrong.
pub(super) fn as_mesos(kind: &CommandKind, failure: Failure) -> Failure {
    let is_unknown = matches!(
        &failure,
        Failure::Refused(refused) if matches!(
            **refused, Refused { rejection: Rejection::UnknownAgent { .. }, .. }
        )
    );
    match kind {
        CommandKind::MarkGone { .. } if is_unknown => not_found(),
        _ => failure,
    }
}

fn agent_id(id: &v1::AgentId) -> Option<AgentId> {
    AgentId::parse(&id.value).ok()
}

fn unknown() -> Failure {
    Failure::bad_request(UNKNOWN)
}

fn not_found() -> Failure {
    Failure::NotFound(UNKNOWN.to_owned())
}

const UNKNOWN: &str = "No agent found with specified ID";

/// A duration as `google.protobuf.Duration` has it; none that is negative.
fn grace(given: &drain_agent::Duration) -> Result<Duration, Failure> {
    let (seconds, nanos) = (given.seconds.unwrap_or_default(), given.nanos.unwrap_or_default());
    match (u64::try_from(seconds), u32::try_from(nanos)) {
        (Ok(seconds), Ok(nanoseconds)) if nanos < SECOND => Ok(Duration::new(seconds, nanoseconds)),
        _ => Err(Failure::bad_request(format!(
            "Expecting 'max_grace_period' to be a duration of at least nothing, found {seconds} \
             seconds and {nanos} nanoseconds"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn asked(json: &str) -> Result<Asked, (StatusCode, String)> {
        let call = proto::json::decode(json.as_bytes()).unwrap();
        Asked::of(call).map_err(|failure| match failure {
            Failure::BadRequest { text, .. } => (StatusCode::BAD_REQUEST, text),
            Failure::NotFound(text) => (StatusCode::NOT_FOUND, text),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_drain_that_ends_in_gone_needs_both_permissions() {
        let call = r#"{"type": "DRAIN_AGENT", "drain_agent": {"agent_id": {"value": "c-S0"},
            "max_grace_period": {"seconds": 10, "nanos": 5}, "mark_gone": true}}"#;
        let found = asked(call).unwrap();
        assert_eq!(
            found.kind,
            CommandKind::Drain {
                agent_id: AgentId::parse("c-S0").unwrap(),
                max_grace: Some(Duration::new(10, 5)),
                mark_gone: true,
            },
        );
        let actions: Vec<Action> = found.needs.iter().map(|(action, _)| *action).collect();
        assert_eq!(actions, [Action::DrainAgent, Action::MarkAgentGone]);
        let plain = r#"{"type": "DRAIN_AGENT", "drain_agent": {"agent_id": {"value": "c-S0"}}}"#;
        assert_eq!(asked(plain).unwrap().needs.len(), 1);
    }

    #[test]
    fn durations_below_nothing_are_400() {
        for period in [r#"{"seconds": -1}"#, r#"{"nanos": -1}"#, r#"{"nanos": 1000000000}"#] {
            let call = format!(
                r#"{{"type": "DRAIN_AGENT", "drain_agent": {{"agent_id": {{"value": "c-S0"}},
                "max_grace_period": {period}}}}}"#
            );
            let (status, text) = asked(&call).unwrap_err();
            assert_eq!(status, StatusCode::BAD_REQUEST, "{period}");
            assert!(text.contains("'max_grace_period'"), "{text}");
        }
    }

    #[test]
    fn ids_that_name_nothing() {
        let refused = |name: &str| {
            let member = name.to_lowercase();
            let id = r#"{"agent_id": {"value": ""}}"#;
            asked(&format!(r#"{{"type": "{name}", "{member}": {id}}}"#)).unwrap_err()
        };
        for name in ["DRAIN_AGENT", "DEACTIVATE_AGENT", "REACTIVATE_AGENT"] {
            assert_eq!(refused(name), (StatusCode::BAD_REQUEST, UNKNOWN.to_owned()), "{name}");
        }
        assert_eq!(refused("MARK_AGENT_GONE"), (StatusCode::NOT_FOUND, UNKNOWN.to_owned()));
    }
}
