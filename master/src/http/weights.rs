//! Weights of roles: `/weights`, GET_WEIGHTS and UPDATE_WEIGHTS (spec §5.2, §6.1). Must not know
//! shares. Next: `transaction.rs`.

use axum::response::Response;
use proto::convert;
use proto::mesos::v1::WeightInfo;
use serde::Serialize;

use super::error::Failure;
use super::incoming::Incoming;
use super::picture::Picture;
use super::{App, read, rules};
use crate::state::Rule;
use crate::state::weights::WeightUpdate;

/// An entry of `/weights`.
#[derive(Serialize)]
struct Entry<'a> {
    role: &'a str,
    weight: f64,
}

/// The weights that were given and that the reader may see.
pub(super) fn infos(picture: &Picture<'_>) -> Vec<WeightInfo> {
    let weights = picture.view.state.weights();
    convert::quota::weights_to_wire(
        weights.filter(|(role, _)| picture.viewer.sees_role(role.as_str())),
    )
}

/// GET /weights.
pub(super) fn read(picture: &Picture<'_>, incoming: &Incoming) -> Result<Response, Failure> {
    let infos = infos(picture);
    let entries = infos.iter().map(|info| Entry { role: info.role(), weight: info.weight });
    read::json(incoming, &entries.collect::<Vec<_>>())
}

/// PUT /weights.
pub(super) async fn write(app: &App, incoming: &mut Incoming) -> Result<Response, Failure> {
    let body = incoming.bytes().await?;
    let malformed =
        |reason: String| format!("Failed to parse update weights request JSON: {reason}");
    let elements: Vec<serde_json::Value> = serde_json::from_slice(&body)
        .map_err(|error| Failure::bad_request(malformed(error.to_string())))?;
    let decode = |(index, element): (usize, &serde_json::Value)| {
        proto::json::decode::<WeightInfo>(element.to_string().as_bytes()).map_err(|error| {
            Failure::bad_element(malformed(format!("element {index}: {error}")), index)
        })
    };
    let infos = elements.iter().enumerate().map(decode).collect::<Result<Vec<_>, _>>()?;
    update(app, incoming, &infos).await
}

/// UPDATE_WEIGHTS.
pub(super) async fn update(
    app: &App,
    incoming: &Incoming,
    infos: &[WeightInfo],
) -> Result<Response, Failure> {
    let weights = convert::quota::weights_from_wire(infos)?;
    if weights.is_empty() {
        return Err(Failure::bad_request("Expecting at least one role with its weight"));
    }
    rules::check_allowed(app, weights.keys())?;
    let permitted = app.config.authorizer.weights(incoming.principal.as_ref(), weights.keys());
    rules::set(app, incoming, Rule::Weights(WeightUpdate { weights }), permitted).await
}
