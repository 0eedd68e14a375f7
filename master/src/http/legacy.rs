//! The unversioned mutating endpoints: form bodies with an agent's id and a JSON array of
//! resources (spec §6.1). The content type is not looked at, as in Mesos. Must not decide
//! whether the operation may run. Next: `read.rs`.

use std::collections::BTreeMap;

use axum::response::Response;
use proto::convert;
use proto::mesos::v1;
use resources::id::AgentId;
use resources::operation::Operation;
use resources::resource::Resource;

use super::error::Failure;
use super::incoming::Incoming;
use super::options::Options;
use super::permit::Asked;
use super::route::LegacyCall;
use super::{App, execute, form};

/// Answers one of the four endpoints.
pub(crate) async fn call(
    app: &App,
    incoming: &mut Incoming,
    call: LegacyCall,
) -> Result<Response, Failure> {
    let options = Options::of(incoming)?;
    let body = incoming.bytes().await?;
    let asked = decode(call, &body)?;
    execute::operation(app, incoming, options, asked).await
}

/// Takes a form body apart.
fn decode(call: LegacyCall, body: &[u8]) -> Result<Asked, Failure> {
    let text = std::str::from_utf8(body).map_err(|_| {
        Failure::bad_request("Unable to decode query string: the body is not UTF-8")
    })?;
    let fields = form::parse(text)
        .map_err(|error| Failure::bad_request(format!("Unable to decode query string: {error}")))?;
    let agent_id = fields.get("slaveId").ok_or_else(|| missing("slaveId"))?;
    // What is no id at all is no agent's id either.
    let agent_id = AgentId::parse(agent_id.as_str())
        .map_err(|_| Failure::bad_request("No agent found with specified ID"))?;
    let list = |key| resources(&fields, key);
    let operation = match call {
        LegacyCall::Reserve => Operation::Reserve {
            resources: list("resources")?,
            source: match fields.contains_key("source") {
                true => list("source")?,
                false => Vec::new(),
            },
        },
        LegacyCall::Unreserve => Operation::Unreserve { resources: list("resources")? },
        LegacyCall::CreateVolumes => Operation::Create { volumes: list("volumes")? },
        LegacyCall::DestroyVolumes => Operation::Destroy { volumes: list("volumes")? },
    };
    Ok((agent_id, operation))
}

fn resources(
    fields: &BTreeMap<String, String>,
    key: &'static str,
) -> Result<Vec<Resource>, Failure> {
    let text = fields.get(key).ok_or_else(|| missing(key))?;
    let malformed = |reason: String| {
        format!("Error parsing '{key}' query parameter in the request body: {reason}")
    };
    let elements: Vec<serde_json::Value> = serde_json::from_str(text)
        .map_err(|error| Failure::bad_request(malformed(error.to_string())))?;
    let decode = |(index, element): (usize, &serde_json::Value)| {
        proto::json::decode::<v1::Resource>(element.to_string().as_bytes()).map_err(|error| {
            Failure::bad_element(malformed(format!("element {index}: {error}")), index)
        })
    };
    let wire = elements.iter().enumerate().map(decode).collect::<Result<Vec<_>, _>>()?;
    Ok(convert::resource::list_from_wire(key, wire)?)
}

fn missing(key: &str) -> Failure {
    Failure::bad_request(format!("Missing '{key}' query parameter in the request body"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUS: &str = r#"[{"name":"cpus","type":"SCALAR","scalar":{"value":1.5},"role":"ads",
        "reservation":{"principal":"ops"}}]"#;

    fn body(fields: &[(&str, &str)]) -> Vec<u8> {
        let escape = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let pairs: Vec<String> = fields
            .iter()
            .map(|(key, value)| -> String {
                let value: String = escape(value);
                format!("{key}={value}")
            })
            .collect();
        pairs.join("&").into_bytes()
    }

    fn text(call: LegacyCall, fields: &[(&str, &str)]) -> String {
        match decode(call, &body(fields)) {
            Ok((agent_id, operation)) => format!("{agent_id} {operation:?}"),
            Err(failure) => {
                assert_eq!(failure.status().as_u16(), 400);
                format!("{failure:?}")
            }
        }
    }

    #[test]
    fn missing_and_malformed_fields() {
        let agent = ("slaveId", "a-S0");
        for (fields, expected) in [
            (&[("resources", CPUS)][..], "Missing 'slaveId' query parameter in the request body"),
            (&[agent][..], "Missing 'resources' query parameter in the request body"),
            (&[agent, ("resources", "{nope")][..], "Error parsing 'resources' query parameter"),
            (&[agent, ("resources", "{}")][..], "Error parsing 'resources' query parameter"),
            (&[agent, ("resources", "")][..], "Error parsing 'resources' query parameter"),
            (&[("slaveId", ""), ("resources", CPUS)][..], "No agent found with specified ID"),
            (&[agent, ("resources", r#"[{"nam":"cpus"}]"#)][..], ""),
        ] {
            let text = text(LegacyCall::Reserve, fields);
            assert!(text.contains(expected) && !text.starts_with("a-S0"), "{fields:?}: {text}");
        }
        let volumes = text(LegacyCall::CreateVolumes, &[agent, ("resources", CPUS)]);
        assert!(volumes.contains("Missing 'volumes' query parameter"), "{volumes}");
    }

    #[test]
    fn a_reservation_in_the_old_form() {
        let (agent_id, operation) =
            decode(LegacyCall::Reserve, &body(&[("slaveId", "a-S0"), ("resources", CPUS)]))
                .unwrap();
        assert_eq!(agent_id.as_str(), "a-S0");
        let Operation::Reserve { resources, source } = operation else { panic!("{operation:?}") };
        assert!(source.is_empty());
        assert_eq!(resources[0].to_string(), "cpus(reservations: [(DYNAMIC,ads,ops)]):1.5");
    }

    #[test]
    fn an_empty_list_is_left_to_the_rules() {
        let decoded =
            decode(LegacyCall::Unreserve, &body(&[("slaveId", "a-S0"), ("resources", "[]")]));
        assert_eq!(decoded.unwrap().1, Operation::Unreserve { resources: Vec::new() });
    }
}
