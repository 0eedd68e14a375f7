//! `POST /api/v1/transaction`: several operations, all or none (contract, extensions). The body is
//! `{"operations":[{"agent_id":"…","type":"RESERVE","reserve":{…}},…],"if_versions":{"…":12}}`;
//! each operation is Mesos' `Offer.Operation` with its agent beside it. Also what became of one.
//! Must not decide whether it may run. Next: `inventory.rs`.

use std::collections::{BTreeMap, BTreeSet};

use axum::response::Response;
use proto::convert;
use proto::mesos::v1::offer;
use resources::id::AgentId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::Failure;
use super::extension::OperationEntry;
use super::incoming::Incoming;
use super::negotiate::{self, Media};
use super::options::Options;
use super::permit::Asked;
use super::{App, execute, read, shapes};
use crate::leader::View;
use crate::state::limits::TRANSACTION_OPERATIONS_MAX;
use crate::state::transactions::TransactionId;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    operations: Vec<Map<String, Value>>,
    #[serde(default)]
    if_versions: BTreeMap<String, u64>,
}

/// Answers the call.
pub(super) async fn call(app: &App, incoming: &mut Incoming) -> Result<Response, Failure> {
    let mut options = Options::of(incoming)?;
    match negotiate::of_request(incoming.headers())? {
        Media::Json => {}
        Media::Protobuf => return Err(Failure::UnsupportedMediaType),
    }
    let body = incoming.bytes().await?;
    let (operations, mut if_versions) = decode(&body)?;
    if let Some(version) = options.if_version.take() {
        if_versions.insert(only_agent(&operations)?, version);
    }
    execute::transaction(app, incoming, options, if_versions, operations).await
}

type Decoded = (Vec<Asked>, BTreeMap<AgentId, u64>);

fn decode(body: &[u8]) -> Result<Decoded, Failure> {
    let body: Body = serde_json::from_slice(body).map_err(|error| {
        Failure::bad_request(format!("Expecting {{\"operations\":[…]}}: {error}"))
    })?;
    let count = body.operations.len();
    if !(1..=TRANSACTION_OPERATIONS_MAX).contains(&count) {
        return Err(Failure::bad_request(format!(
            "A transaction has 1 to {TRANSACTION_OPERATIONS_MAX} operations, found {count}"
        )));
    }
    let operations = body.operations.into_iter().enumerate().map(|(position, operation)| {
        member(operation)
            .map_err(|failure| Failure::Member { position, failure: Box::new(failure) })
    });
    let versions = body.if_versions.into_iter().map(|(agent_id, version)| {
        let agent_id = AgentId::parse(agent_id).map_err(|_| no_agent())?;
        Ok((agent_id, version))
    });
    Ok((operations.collect::<Result<_, _>>()?, versions.collect::<Result<_, Failure>>()?))
}

fn member(mut operation: Map<String, Value>) -> Result<Asked, Failure> {
    let agent_id = match operation.remove("agent_id") {
        Some(Value::String(agent_id)) => agent_id,
        Some(Value::Object(mut id)) => match id.remove("value") {
            Some(Value::String(agent_id)) if id.is_empty() => agent_id,
            _ => return Err(Failure::bad_request("Expecting 'agent_id' to be an id")),
        },
        Some(_) => return Err(Failure::bad_request("Expecting 'agent_id' to be an id")),
        None => return Err(Failure::bad_request("Expecting 'agent_id' to be present")),
    };
    let agent_id = AgentId::parse(agent_id).map_err(|_| no_agent())?;
    let text = Value::Object(operation).to_string();
    let wire = proto::json::decode::<offer::Operation>(text.as_bytes())
        .map_err(|error| Failure::bad_request(error.to_string()))?;
    Ok((agent_id, convert::operation::from_wire(wire)?))
}

fn no_agent() -> Failure {
    Failure::bad_request("No agent found with specified ID")
}

/// `If-Match` holds one version, so there must be one agent that it can be of.
fn only_agent(operations: &[Asked]) -> Result<AgentId, Failure> {
    let agents: BTreeSet<&AgentId> = operations.iter().map(|(agent_id, _)| agent_id).collect();
    match agents.first() {
        Some(agent_id) if agents.len() == 1 => Ok((*agent_id).clone()),
        _ => Err(Failure::bad_request(
            "Expecting 'if_versions' instead of If-Match: the operations are on several agents",
        )),
    }
}

/// What became of a transaction.
#[derive(Serialize)]
struct TransactionEntry<'a> {
    transaction_id: &'a str,
    state: String,
    principal: Option<&'a str>,
    submitted_at: f64,
    settled_at: Option<f64>,
    /// Operations that their agents have not confirmed.
    pending: u64,
    /// Those that failed on their agents.
    failed: Vec<&'a str>,
    operation_ids: Vec<&'a str>,
    /// Those which are still on record.
    operations: Vec<OperationEntry<'a>>,
}

/// A transaction of which the reader may see no operation looks like one that is not there.
pub(super) fn entry(
    app: &App,
    view: &View,
    incoming: &Incoming,
    id: &str,
) -> Result<Response, Failure> {
    let unknown = || Failure::NotFound(format!("No transaction found with ID '{id}'"));
    let parsed = TransactionId::parse(id).map_err(|_| unknown())?;
    let transaction = view.state.transaction(&parsed).ok_or_else(unknown)?;
    let viewer = app.viewer(incoming);
    let records = || transaction.operation_ids.iter().filter_map(|id| view.state.operation(id));
    let is_visible = |id: &&resources::id::OperationId| {
        view.state.operation(id).is_none_or(|record| viewer.sees_operation(&record.operation))
    };
    let shown: Vec<OperationEntry<'_>> = records()
        .filter(|record| viewer.sees_operation(&record.operation))
        .map(OperationEntry::from)
        .collect();
    if shown.is_empty() {
        return Err(unknown());
    }
    let names = |ids: &'_ [resources::id::OperationId]| -> Vec<String> {
        ids.iter().filter(is_visible).map(ToString::to_string).collect()
    };
    let (failed, operation_ids) = (names(&transaction.failed), names(&transaction.operation_ids));
    let entry = TransactionEntry {
        transaction_id: transaction.transaction_id.as_str(),
        state: transaction.state().to_string(),
        principal: transaction.principal.as_ref().map(resources::id::Principal::as_str),
        submitted_at: shapes::seconds(transaction.submitted_at),
        settled_at: transaction.settled_at.map(shapes::seconds),
        pending: transaction.pending,
        failed: failed.iter().map(String::as_str).collect(),
        operation_ids: operation_ids.iter().map(String::as_str).collect(),
        operations: shown,
    };
    read::json(incoming, &entry)
}

#[cfg(test)]
mod tests {
    use resources::operation::Operation;
    use serde_json::json;

    use super::*;

    fn check_refused(body: &Value, expected: &str, index: Option<u64>) {
        let failure = decode(body.to_string().as_bytes()).expect_err(expected);
        assert_eq!(failure.status().as_u16(), 400, "{body}");
        let report = failure.full_report();
        assert!(report.message.contains(expected), "{body}: {}", report.message);
        assert_eq!(report.index, index, "{body}");
    }

    fn reserve(agent_id: Value) -> Value {
        json!({"agent_id": agent_id, "type": "RESERVE", "reserve": {"resources": [{"name": "cpus",
            "type": "SCALAR", "scalar": {"value": 1}, "role": "ads", "reservation": {}}]}})
    }

    #[test]
    fn bodies() {
        let body = json!({"operations": [reserve(json!("c-S0")), reserve(json!({"value": "c-S1"}))],
            "if_versions": {"c-S0": 7}});
        let (operations, versions) = decode(body.to_string().as_bytes()).unwrap();
        assert_eq!(operations[0].0.as_str(), "c-S0");
        assert_eq!(operations[1].0.as_str(), "c-S1");
        assert!(matches!(&operations[0].1, Operation::Reserve { resources, .. }
            if resources[0].to_string() == "cpus(reservations: [(DYNAMIC,ads)]):1"));
        assert_eq!(versions.into_iter().collect::<Vec<_>>(), [(operations[0].0.clone(), 7)]);
        assert!(only_agent(&operations).is_err());
        assert_eq!(only_agent(&operations[..1]).unwrap().as_str(), "c-S0");
    }

    #[test]
    fn bodies_that_are_none() {
        check_refused(&json!([]), "Expecting {\"operations\"", None);
        check_refused(&json!({"operations": [], "x": 1}), "unknown field `x`", None);
        check_refused(&json!({"operations": []}), "1 to 1024 operations, found 0", None);
        let many = vec![reserve(json!("c-S0")); 1025];
        check_refused(&json!({"operations": many}), "found 1025", None);
        let mut wrong = reserve(json!("c-S0"));
        wrong["reserve"]["resources"][0]["scalar"]["value"] = json!(-1);
        let good = reserve(json!("c-S0"));
        for (member, expected) in [
            (wrong, "Operation 1 of the transaction: invalid 'resources[0]'"),
            (json!({"type": "RESERVE"}), "Expecting 'agent_id' to be present"),
            (reserve(json!(5)), "Expecting 'agent_id' to be an id"),
            (reserve(json!("a/b")), "No agent found"),
            (json!({"agent_id": "c-S0"}), "Expecting 'type' to be present"),
            (json!({"agent_id": "c-S0", "type": "CREATE"}), "Expecting 'create' to be present"),
            (json!({"agent_id": "c-S0", "type": "LAUNCH", "launch": {}}), "LAUNCH"),
        ] {
            check_refused(&json!({"operations": [good, member]}), expected, Some(1));
        }
    }
}
