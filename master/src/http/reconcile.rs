//! An agent that holds otherwise than the log says (contract, extensions): what differs, each
//! object under a name, with the next step; and `POST /api/v1/agents/{id}/reconcile`, by which an
//! operator chooses for each of them. Must not know what a choice comes to. Next: `inventory.rs`.

use std::collections::BTreeSet;

use axum::response::Response;
use resources::form::ResourceForm;
use resources::id::AgentId;
use resources::operation::Operation;
use resources::resource::Resource;
use serde::{Deserialize, Serialize};

use super::error::{Failure, Refused, Report};
use super::incoming::Incoming;
use super::options::{Earnest, Options};
use super::{App, execute, read, shapes};
use crate::auth::Viewer;
use crate::leader::{Administration, Consistency};
use crate::state::agents::Agent;
use crate::state::command::{CommandKind, Standing};
use crate::state::limits::DIVERGING_OBJECTS_MAX;
use crate::state::reconcile::{Choice, Difference, Held, ReconcileRefusal};
use crate::state::rejection::Rejection;

/// What differs, as `/api/v1/agents` shows it.
#[derive(Serialize)]
pub(super) struct Discrepancy {
    standing: String,
    /// Where its disk stands; none until the agent told what it holds.
    applied_seq: Option<u64>,
    /// Names what the lists were made of: a call that gives it is refused once they changed.
    digest: Option<String>,
    /// What the agent holds and the log does not know.
    foreign: Vec<Object>,
    /// What the log knows and the agent does not hold.
    missing: Vec<Object>,
    /// Whether more differs than is listed.
    is_cut: bool,
    next_step: String,
}

#[derive(Serialize)]
struct Object {
    name: String,
    next_step: &'static str,
    resource: ResourceForm,
}

/// What differs on an agent, as far as the reader may see it.
pub(super) fn discrepancy(agent: &Agent, viewer: &Viewer<'_>) -> Option<Discrepancy> {
    let standing = agent.status.standing();
    if standing == Standing::InStep {
        return None;
    }
    let difference = agent.status.difference();
    let next_step = match &difference {
        None => "wait until the agent is connected: it is asked what it holds".to_owned(),
        Some(_) => format!(
            "put back the disk that the agent had, or accept what it holds: holdfast agent \
             reconcile {} --accept",
            agent.id
        ),
    };
    let (foreign, missing) = difference.as_ref().map(|d| (&*d.foreign, &*d.missing)).unzip();
    let (foreign, missing) = (foreign.unwrap_or_default(), missing.unwrap_or_default());
    let objects = |kind: &'static str, list: &[Resource], next_step| -> Vec<Object> {
        let named = list.iter().zip(1..).filter(|(resource, _)| viewer.sees(resource));
        let object = |(resource, number)| {
            let (name, resource) = (format!("{kind}-{number}"), shapes::form(resource));
            Object { name, next_step, resource }
        };
        named.map(object).collect()
    };
    Some(Discrepancy {
        standing: standing.to_string(),
        applied_seq: difference.as_ref().map(|found| found.held.applied_seq.0),
        digest: difference.as_ref().map(|found| digest(found.held)),
        foreign: objects("foreign", foreign, "--adopt: the masters take it over"),
        missing: objects(
            "missing",
            missing,
            "--forget: the masters give it up; --recreate: it is made again, a volume without data",
        ),
        is_cut: foreign.len().max(missing.len()) >= DIVERGING_OBJECTS_MAX,
        next_step,
    })
}

fn digest(held: Held) -> String {
    format!("{:032x}", held.digest)
}

/// The body of the call. Objects go by the names that the agent's entry shows, or volumes as
/// `role/id`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Body {
    digest: Option<String>,
    accept: bool,
    adopt: Vec<String>,
    forget: Vec<String>,
    recreate: Vec<String>,
}

/// The body of the answer, also of a dry run.
#[derive(Serialize)]
struct Answer {
    agent_id: String,
    dry_run: bool,
    adopted: Vec<ResourceForm>,
    forgotten: Vec<ResourceForm>,
    recreated: Vec<ResourceForm>,
    /// Whether more differed than was listed: the agent is asked again.
    is_cut: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failing: Vec<Failing>,
}

#[derive(Serialize)]
struct Failing {
    status: u16,
    #[serde(flatten)]
    report: Report,
}

/// Answers the call.
pub(super) async fn call(
    app: &App,
    incoming: &mut Incoming,
    id: &str,
) -> Result<Response, Failure> {
    let options = Options::of(incoming)?;
    let body = incoming.bytes().await?;
    let body: Body = serde_json::from_slice(&body).map_err(|error| {
        Failure::bad_request(format!("Expecting {{\"accept\":true}} or choices: {error}"))
    })?;
    let view = app.view(incoming, Consistency::Linearizable).await?;
    let unknown = || Failure::bad_request("No agent found with specified ID");
    let agent_id = AgentId::parse(id).map_err(|_| unknown())?;
    let agent = view.state.agent(&agent_id).ok_or_else(unknown)?;
    let refuse = |refusal| {
        let rejection = Rejection::Reconcile { agent_id: agent_id.clone(), refusal };
        Failure::Refused(Box::new(Refused::new(rejection, &app.viewer(incoming))))
    };
    let Some(difference) = agent.status.difference() else {
        return Err(refuse(match agent.status.standing() {
            Standing::InStep => ReconcileRefusal::InStep,
            Standing::Regressed | Standing::Diverged => ReconcileRefusal::Untold,
        }));
    };
    if body.digest.as_ref().is_some_and(|seen| *seen != digest(difference.held)) {
        return Err(refuse(ReconcileRefusal::Moved { found: difference.held }));
    }
    let choices = choices(&body, &difference)?;
    permitted(app, incoming, &choices)?;
    let held = difference.held;
    let mut answer = Answer::new(&agent_id, &choices, &app.viewer(incoming));
    answer.is_cut = difference.foreign.len().max(difference.missing.len()) >= DIVERGING_OBJECTS_MAX;
    if options.earnest == Earnest::DryRun {
        answer.dry_run = true;
        if let Err(rejection) = view.state.try_reconcile(&agent_id, held, &choices) {
            let refused = Box::new(Refused::new(rejection, &app.viewer(incoming)));
            let failure = Failure::Refused(refused);
            let (status, report) = (failure.status().as_u16(), failure.full_report());
            answer.failing.push(Failing { status, report });
        }
        return read::json(incoming, &answer);
    }
    let if_versions = options.if_version.map(|version| (agent_id.clone(), version));
    let administration = Administration {
        principal: incoming.principal.clone(),
        source: incoming.source(),
        key: options.key,
        if_versions: if_versions.into_iter().collect(),
        kind: CommandKind::Reconcile { agent_id, held, choices },
    };
    execute::until_decided(app, incoming, || app.handle.administer(administration.clone())).await?;
    read::json(incoming, &answer)
}

impl Answer {
    fn new(agent_id: &AgentId, choices: &[Choice], viewer: &Viewer<'_>) -> Self {
        let (mut adopted, mut forgotten, mut recreated) = (Vec::new(), Vec::new(), Vec::new());
        for choice in choices {
            let (list, resource) = match choice {
                Choice::Adopt(resource) => (&mut adopted, resource),
                Choice::Forget(resource) => (&mut forgotten, resource),
                Choice::Recreate(resource) => (&mut recreated, resource),
            };
            if viewer.sees(resource) {
                list.push(shapes::form(resource));
            }
        }
        let (agent_id, failing) = (agent_id.to_string(), Vec::new());
        Self { agent_id, dry_run: false, adopted, forgotten, recreated, is_cut: false, failing }
    }
}

/// The choices of a body, one for each object that it names; `accept` is one for each other.
fn choices(body: &Body, difference: &Difference) -> Result<Vec<Choice>, Failure> {
    let mut chosen = BTreeSet::new();
    let mut choices = Vec::new();
    let lists = [
        ("foreign", &difference.foreign, &body.adopt, Choice::Adopt as fn(Resource) -> Choice),
        ("missing", &difference.missing, &body.forget, Choice::Forget),
        ("missing", &difference.missing, &body.recreate, Choice::Recreate),
    ];
    for (kind, objects, names, choice) in lists {
        for name in names {
            let found = position(kind, objects, name).ok_or_else(|| {
                Failure::bad_request(format!("'{name}' is none of the {kind} objects"))
            })?;
            if !chosen.insert((kind, found)) {
                return Err(Failure::bad_request(format!("'{name}' is chosen for twice")));
            }
            choices.push(choice(objects[found].clone()));
        }
    }
    if body.accept {
        for (kind, objects, choice) in [
            ("foreign", &difference.foreign, Choice::Adopt as fn(Resource) -> Choice),
            ("missing", &difference.missing, Choice::Forget),
        ] {
            let left = objects.iter().enumerate().filter(|(at, _)| !chosen.contains(&(kind, *at)));
            choices.extend(left.map(|(_, resource)| choice(resource.clone())));
        }
    }
    Ok(choices)
}

/// Where an object stands in its list: `missing-2`, or the only volume of that role and id.
fn position(kind: &str, objects: &[Resource], name: &str) -> Option<usize> {
    let number = name.strip_prefix(kind).and_then(|rest| rest.strip_prefix('-'));
    if let Some(number) = number.and_then(|number| number.parse::<usize>().ok()) {
        return number.checked_sub(1).filter(|at| *at < objects.len());
    }
    let (role, id) = name.rsplit_once('/')?;
    let mut fitting = objects.iter().enumerate().filter(|(_, object)| {
        object.reservation_role().is_some_and(|of| of.as_str() == role)
            && object.volume_id().is_some_and(|of| of.as_str() == id)
    });
    let (at, _) = fitting.next()?;
    fitting.next().is_none().then_some(at)
}

/// Whoever reconciles must be allowed what it comes to: to reserve and create what is adopted or
/// made again, to unreserve and destroy what is given up.
fn permitted(app: &App, incoming: &Incoming, choices: &[Choice]) -> Result<(), Failure> {
    for choice in choices {
        let operations = match choice {
            Choice::Adopt(resource) | Choice::Recreate(resource) => [
                reserves(resource)
                    .map(|resources| Operation::Reserve { resources, source: vec![] }),
                volume(resource).map(|volumes| Operation::Create { volumes }),
            ],
            Choice::Forget(resource) => [
                reserves(resource).map(|resources| Operation::Unreserve { resources }),
                volume(resource).map(|volumes| Operation::Destroy { volumes }),
            ],
        };
        for operation in operations.iter().flatten() {
            let creator = |volume: &Resource| {
                Some(volume.disk.as_ref()?.persistence.as_ref()?.principal.clone())
            };
            let principal = incoming.principal.as_ref();
            app.config
                .authorizer
                .operation(principal, operation, creator)
                .map_err(Failure::from)?;
        }
    }
    Ok(())
}

fn reserves(resource: &Resource) -> Option<Vec<Resource>> {
    resource.is_dynamically_reserved().then(|| vec![resource.to_plain_disk()])
}

fn volume(resource: &Resource) -> Option<Vec<Resource>> {
    resource.is_persistent_volume().then(|| vec![resource.clone()])
}

#[cfg(test)]
mod tests {
    use resources::id::Seq;
    use resources::parse;
    use resources::role::Role;

    use super::*;

    fn difference() -> Difference {
        let list = |text| -> Vec<Resource> {
            parse::resources_text(text, &Role::star()).unwrap().iter().cloned().collect()
        };
        let held = Held { applied_seq: Seq(3), digest: 7 };
        Difference { held, foreign: list("cpus:1;mem:2"), missing: list("disk:3;gpus:1") }
    }

    fn check(body: &str, expected: Result<&[&str], &str>) {
        let body: Body = serde_json::from_str(body).unwrap();
        let found = choices(&body, &difference()).map_err(|failure| format!("{failure:?}"));
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                let found: Vec<String> = found.iter().map(ToString::to_string).collect();
                assert_eq!(found, expected);
            }
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("{found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn choices_by_name() {
        let all: &[&str] = &["adopt cpus:1", "adopt mem:2", "forget disk:3", "forget gpus:1"];
        check(r#"{"accept":true}"#, Ok(all));
        check(r#"{}"#, Ok(&[]));
        check(
            r#"{"accept":true,"recreate":["missing-2"]}"#,
            Ok(&["recreate gpus:1", "adopt cpus:1", "adopt mem:2", "forget disk:3"]),
        );
        check(r#"{"adopt":["foreign-3"]}"#, Err("none of the foreign objects"));
        check(r#"{"adopt":["missing-1"]}"#, Err("none of the foreign objects"));
        check(r#"{"forget":["ads/v1"]}"#, Err("none of the missing objects"));
        let twice = r#"{"forget":["missing-1"],"recreate":["missing-1"]}"#;
        check(twice, Err("chosen for twice"));
    }
}
