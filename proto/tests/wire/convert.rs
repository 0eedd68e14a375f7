//! Wire ⇄ domain for resources, attributes, operations and operators' calls: what comes out of
//! one side comes back from the other, and what has no meaning is refused with its place.

use proto::convert::{attribute, operation, resource};
use proto::json::{decode, encode};
use proto::mesos::v1::{self, master, offer};
use resources::form::Format;
use resources::id::OperationId;

use crate::samples::{operations, refined, samples};

const ANSWERS: &str = include_str!("../data/mesos-1.11-answers.json");

#[test]
fn resources_come_back_in_every_format() {
    for format in [Format::Post, Format::Pre, Format::Endpoint] {
        for sample in samples() {
            let wire = resource::try_to_wire(&sample, format).unwrap();
            let read: v1::Resource = decode(&encode(&wire)).unwrap();
            assert_eq!(read, wire);
            assert_eq!(resource::from_wire(read), Ok(sample), "{format:?}");
        }
    }
    for format in [Format::Post, Format::Endpoint] {
        assert_eq!(resource::from_wire(resource::to_wire(&refined(), format)), Ok(refined()));
    }
    assert!(resource::try_to_wire(&refined(), Format::Pre).is_err());
    assert_eq!(
        resource::to_wire(&refined(), Format::Pre),
        resource::to_wire(&refined(), Format::Post),
    );
}

#[test]
fn endpoint_format_is_that_of_mesos() {
    let mut answers: serde_json::Value = serde_json::from_str(ANSWERS).unwrap();
    let json = serde_json::to_vec(&answers["get_agents_after"].take()).unwrap();
    let answer: master::Response = decode(&json).unwrap();
    let agent = answer.get_agents.unwrap().agents.remove(0);
    assert_eq!(agent.total_resources.len(), 11);
    let total = resource::list_from_wire("total", agent.total_resources.clone()).unwrap();
    assert_eq!(resource::list_to_wire(&total, Format::Endpoint), agent.total_resources);
    let info = agent.agent_info;
    let declared = resource::list_from_wire("resources", info.resources.clone()).unwrap();
    assert_eq!(resource::list_to_wire(&declared, Format::Post), info.resources);
    let attributes = attribute::list_from_wire(info.attributes.clone()).unwrap();
    let written: Vec<_> = attributes.iter().map(attribute::to_wire).collect();
    assert_eq!(written, info.attributes);
}

#[test]
fn operations_come_back() {
    let id = OperationId::parse("7-1").unwrap();
    for sample in operations() {
        for format in [Format::Post, Format::Endpoint] {
            let wire = operation::to_wire(&sample, Some(&id), format);
            assert_eq!(operation::id_from_wire(&wire), Ok(Some(id.clone())));
            assert_eq!(operation::from_wire(wire), Ok(sample.clone()));
        }
        assert_eq!(operation::to_wire(&sample, None, Format::Post).id, None);
    }
}

#[track_caller]
fn check_operation(json: &str, expected: &str) {
    let wire: offer::Operation = decode(json.as_bytes()).unwrap();
    assert_eq!(operation::from_wire(wire).unwrap_err().to_string(), expected);
}

#[test]
fn operations_refused() {
    check_operation("{}", "Expecting 'type' to be present");
    check_operation(r#"{"type":"FROM_THE_FUTURE"}"#, "Expecting 'type' to be present");
    check_operation(r#"{"type":"RESERVE"}"#, "Expecting 'reserve' to be present");
    check_operation(r#"{"type":"LAUNCH"}"#, "operation type LAUNCH is not supported");
    check_operation(r#"{"type":"CREATE_DISK"}"#, "operation type CREATE_DISK is not supported");
    check_operation(
        r#"{"type":"UNRESERVE","unreserve":{"resources":[
            {"name":"cpus","type":"SCALAR","scalar":{"value":1}},
            {"name":"cpus","type":"SCALAR","scalar":{"value":-1}}]}}"#,
        "invalid 'resources[1]': scalar -1 is negative, or rounds to nothing",
    );
    check_operation(
        r#"{"type":"SHRINK_VOLUME","shrink_volume":{"subtract":{"value":"Infinity"},
            "volume":{"name":"disk","type":"SCALAR","scalar":{"value":1}}}}"#,
        "'subtract' is inf, which is no amount",
    );
    check_operation(
        r#"{"type":"SHRINK_VOLUME","shrink_volume":{"subtract":{"value":1e300},
            "volume":{"name":"disk","type":"SCALAR","scalar":{"value":1}}}}"#,
        "'subtract' is 1e300, which is no amount",
    );
}

/// What the call of the JSON form does, as one line.
fn called(json: &str) -> String {
    let call: master::Call = decode(json.as_bytes()).unwrap();
    match operation::from_call(call) {
        Ok(None) => "none".into(),
        Ok(Some((agent_id, operation))) => {
            let wire = operation::to_wire(&operation, None, Format::Post);
            format!("{agent_id} {}", wire.r#type().as_str_name())
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn calls_of_operators() {
    let agent = r#""agent_id":{"value":"S0"}"#;
    let disk = r#"{"name":"disk","type":"SCALAR","scalar":{"value":1}}"#;
    for (name, members, expected) in [
        ("RESERVE_RESOURCES", r#""resources":[]"#, "S0 RESERVE"),
        ("RESERVE_RESOURCES", &format!(r#""source":{disk}"#), "S0 RESERVE"),
        ("UNRESERVE_RESOURCES", &format!(r#""resources":[{disk}]"#), "S0 UNRESERVE"),
        ("CREATE_VOLUMES", &format!(r#""volumes":[{disk}]"#), "S0 CREATE"),
        ("DESTROY_VOLUMES", &format!(r#""volumes":[{disk}]"#), "S0 DESTROY"),
        ("GROW_VOLUME", &format!(r#""volume":{disk},"addition":{disk}"#), "S0 GROW_VOLUME"),
        (
            "SHRINK_VOLUME",
            &format!(r#""volume":{disk},"subtract":{{"value":1}}"#),
            "S0 SHRINK_VOLUME",
        ),
        (
            "CREATE_VOLUMES",
            &format!(r#""volumes":[{disk},{{"name":"","type":"SCALAR"}}]"#),
            "invalid 'volumes[1]': resource has an empty name",
        ),
    ] {
        let field = name.to_lowercase();
        let call = format!(r#"{{"type":"{name}","{field}":{{{agent},{members}}}}}"#);
        assert_eq!(called(&call), expected, "{call}");
        let missing = format!("Expecting '{field}' to be present");
        assert_eq!(called(&format!(r#"{{"type":"{name}"}}"#)), missing);
    }
    assert_eq!(called(r#"{"type":"GET_HEALTH"}"#), "none");
    assert_eq!(called("{}"), "none");
    assert_eq!(
        called(r#"{"type":"DESTROY_VOLUMES","destroy_volumes":{"agent_id":{"value":"a/b"}}}"#),
        "No agent found with specified ID",
    );
    assert_eq!(
        called(&format!(
            r#"{{"type":"GROW_VOLUME","grow_volume":{{"volume":{disk},"addition":{disk}}}}}"#
        )),
        "Expecting 'agent_id' to be present",
    );
}
