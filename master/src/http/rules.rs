//! The way of a rule for the whole cluster: form, then what its caller may do, then the leader.
//! Answers 200 without a body (spec §5.2). Must not know which rule it is. Next: `quota.rs`,
//! `weights.rs`.

use axum::body::Body;
use axum::response::Response;
use resources::role::Role;

use super::error::{Failure, Refused};
use super::incoming::Incoming;
use super::options::{Earnest, Options};
use super::{App, dry_run, execute};
use crate::auth::Forbidden;
use crate::leader::{Request, Ruling};
use crate::state::Rule;

/// Executes a rule that is permitted.
pub(super) async fn set(
    app: &App,
    incoming: &Incoming,
    rule: Rule,
    permitted: Result<(), Forbidden>,
) -> Result<Response, Failure> {
    let options = Options::of(incoming)?;
    if options.if_version.is_some() {
        return Err(Failure::bad_request(
            "If-Match is about an agent, and this call is about none",
        ));
    }
    // A dry run names the checks that fail, those of form among them.
    if options.earnest == Earnest::Real {
        rule.check_form().map_err(|rejection| {
            Failure::Refused(Box::new(Refused::new(rejection, &app.viewer(incoming))))
        })?;
    }
    permitted?;
    let (principal, source) = (incoming.principal.clone(), incoming.source());
    let ruling = Ruling { principal, source, key: options.key, rule };
    if options.earnest == Earnest::DryRun {
        return dry_run::answer(app, incoming, &Request::Rule(ruling)).await;
    }
    execute::until_decided(app, incoming, || app.handle.rule(ruling.clone())).await?;
    // No data, so no content type.
    Ok(Response::new(Body::empty()))
}

/// Whether roles are allowed at all (`--roles`).
pub(super) fn check_allowed<'a>(
    app: &App,
    roles: impl IntoIterator<Item = &'a Role>,
) -> Result<(), Failure> {
    let Some(whitelist) = &app.config.whitelist else { return Ok(()) };
    match roles.into_iter().find(|role| !whitelist.contains(*role)) {
        Some(role) => Err(Failure::bad_request(format!("Unknown role '{role}'"))),
        None => Ok(()),
    }
}
