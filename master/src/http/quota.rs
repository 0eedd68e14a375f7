//! Quota of roles: `/quota`, and the calls that read and change it in both of Mesos' forms
//! (spec §5.2, §5.5, §6.1). Must not decide whether there is enough. Next: `weights.rs`.

use axum::body::Body;
use axum::response::Response;
use http::Method;
use http::header::CONTENT_TYPE;
use proto::convert;
use proto::mesos::v1::master::call::UpdateQuota;
use proto::mesos::v1::quota::{QuotaRequest, QuotaStatus};
use resources::quota::{Quota, QuotaConfig};
use resources::role::Role;

use super::error::Failure;
use super::incoming::Incoming;
use super::negotiate::Media;
use super::picture::Picture;
use super::{App, form, rules};
use crate::state::Rule;
use crate::state::quota::{Prior, QuotaUpdate};

/// The quotas that the reader may see.
pub(super) fn status(picture: &Picture<'_>) -> QuotaStatus {
    let quotas = picture.view.state.quotas();
    convert::quota::status(quotas.filter(|(role, _)| picture.viewer.sees_quota(role.as_str())))
}

/// GET /quota.
pub(super) fn read(picture: &Picture<'_>) -> Response {
    let mut response = Response::new(Body::from(proto::json::encode(&status(picture))));
    response.headers_mut().insert(CONTENT_TYPE, Media::Json.header());
    response
}

/// POST /quota and DELETE /quota/<role>.
pub(super) async fn write(app: &App, incoming: &mut Incoming) -> Result<Response, Failure> {
    if incoming.head.method == Method::DELETE {
        let role = named_in(incoming.head.uri.path())?;
        return remove(app, incoming, &role).await;
    }
    let body = incoming.bytes().await?;
    let request: QuotaRequest = proto::json::decode(&body).map_err(|error| {
        Failure::bad_request(format!("Failed to parse set quota request JSON: {error}"))
    })?;
    set(app, incoming, request).await
}

/// What stands behind `/quota/`.
fn named_in(path: &str) -> Result<String, Failure> {
    let segments: Option<Vec<String>> =
        path.split('/').filter(|segment| !segment.is_empty()).map(form::decode_path).collect();
    let segments = segments.unwrap_or_default();
    let behind = segments.iter().position(|segment| segment == "quota").map_or(0, |at| at + 1);
    match &segments[behind..] {
        [] => Err(Failure::bad_request("Expecting DELETE /quota/<role>")),
        role => Ok(role.join("/")),
    }
}

/// UPDATE_QUOTA.
pub(super) async fn update(
    app: &App,
    incoming: &Incoming,
    call: &UpdateQuota,
) -> Result<Response, Failure> {
    let configs = call.quota_configs.iter().map(convert::quota::config_from_wire);
    let configs = configs.collect::<Result<_, _>>()?;
    change(app, incoming, QuotaUpdate { configs, force: call.force(), prior: Prior::Any }).await
}

/// SET_QUOTA.
pub(super) async fn set(
    app: &App,
    incoming: &Incoming,
    request: QuotaRequest,
) -> Result<Response, Failure> {
    let force = request.force();
    let configs = vec![convert::quota::request_from_wire(request)?];
    change(app, incoming, QuotaUpdate { configs, force, prior: Prior::Without }).await
}

/// REMOVE_QUOTA.
pub(super) async fn remove(
    app: &App,
    incoming: &Incoming,
    role: &str,
) -> Result<Response, Failure> {
    let role = Role::parse(role)
        .map_err(|error| Failure::bad_request(format!("Invalid quota remove request: {error}")))?;
    let configs = vec![QuotaConfig { role, quota: Quota::default() }];
    change(app, incoming, QuotaUpdate { configs, force: false, prior: Prior::With }).await
}

async fn change(app: &App, incoming: &Incoming, update: QuotaUpdate) -> Result<Response, Failure> {
    let roles = || update.configs.iter().map(|config| &config.role);
    rules::check_allowed(app, roles())?;
    let principal = incoming.principal.as_ref();
    let permitted = app.config.authorizer.quota(principal, roles());
    rules::set(app, incoming, Rule::Quota(update), permitted).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_of_a_path() {
        let named = |path: &str| named_in(path).ok();
        for path in ["/quota/ads", "/master/quota/ads", "/quota/ads/", "//quota//ads"] {
            assert_eq!(named(path).as_deref(), Some("ads"), "{path}");
        }
        assert_eq!(named("/quota/quota").as_deref(), Some("quota"));
        assert_eq!(named("/quota/a%2Fb").as_deref(), Some("a/b"));
        assert_eq!(named("/quota/"), None);
    }
}
