//! TEARDOWN by an operator (spec §5.2, §6.1): a framework is removed with all its tasks, whether
//! it is connected or not. Reservations and volumes stay. Must not know what that comes to on
//! agents. Next: `administer.rs`.

use axum::body::Body;
use axum::response::Response;
use proto::mesos::v1::master::call::Teardown;
use resources::id::FrameworkId;
use serde::Serialize;

use super::error::Failure;
use super::incoming::Incoming;
use super::options::{Earnest, Options};
use super::{App, execute, form, read};
use crate::auth::Action;
use crate::leader::scheduler::SchedulerRefusal;
use crate::leader::{Consistency, Refusal};

/// The body of the answer to a dry run: it would be done, or this request would be refused.
#[derive(Serialize)]
struct DryRun {
    dry_run: bool,
    would_be_accepted: bool,
    changes: [(); 0],
    failing: [(); 0],
}

/// The unversioned endpoint: `frameworkId=…` in a form body.
pub(super) async fn legacy(app: &App, incoming: &mut Incoming) -> Result<Response, Failure> {
    let body = incoming.bytes().await?;
    let malformed = |why: &dyn std::fmt::Display| format!("Unable to decode query string: {why}");
    let text = std::str::from_utf8(&body)
        .map_err(|_| Failure::bad_request(malformed(&"the body is not UTF-8")))?;
    let fields = form::parse(text).map_err(|error| Failure::bad_request(malformed(&error)))?;
    let Some(id) = fields.get("frameworkId") else {
        let missing = "Missing 'frameworkId' query parameter in the request body";
        return Err(Failure::bad_request(missing));
    };
    remove(app, incoming, id).await
}

/// The call of `/api/v1`.
pub(super) async fn call(
    app: &App,
    incoming: &Incoming,
    call: &Teardown,
) -> Result<Response, Failure> {
    remove(app, incoming, &call.framework_id.value).await
}

async fn remove(app: &App, incoming: &Incoming, id: &str) -> Result<Response, Failure> {
    let options = Options::of(incoming)?;
    let framework_id = permitted(app, incoming, id).await?;
    if options.earnest == Earnest::DryRun {
        let (changes, failing) = ([], []);
        let answer = DryRun { dry_run: true, would_be_accepted: true, changes, failing };
        return read::json(incoming, &answer);
    }
    let teardown = || {
        let (id, principal) = (framework_id.clone(), incoming.principal.clone());
        async move {
            match app.handle.teardown(id, principal, incoming.source()).await {
                Ok(()) => Ok(Ok(())),
                Err(SchedulerRefusal::Propose(failure)) => Err(Refusal::Propose(failure)),
                Err(_) => Ok(Err(unknown())),
            }
        }
    };
    execute::until_decided(app, incoming, teardown).await??;
    // No data, so no content type.
    Ok(Response::new(Body::empty()))
}

/// The framework, if the caller may remove it. Whoever may not see it learns that it is there:
/// Mesos, too, looks for it before it asks for the permission.
async fn permitted(app: &App, incoming: &Incoming, id: &str) -> Result<FrameworkId, Failure> {
    let framework_id = FrameworkId::parse(id).map_err(|_| unknown())?;
    let view = app.view(incoming, Consistency::Linearizable).await?;
    let framework = view.state.framework(&framework_id).ok_or_else(unknown)?;
    let owner = framework.info.principal.as_ref().map(|owner| owner.as_str());
    let may =
        app.config.authorizer.may(incoming.principal.as_ref(), Action::TeardownFramework, owner);
    match may {
        true => Ok(framework_id),
        false => Err(Failure::Forbidden(format!("framework {framework_id} is not yours to end"))),
    }
}

fn unknown() -> Failure {
    Failure::bad_request("No framework found with specified ID")
}
