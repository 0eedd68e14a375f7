//! The answers of `/api/v1`, member by member.

use serde_json::{Value, json};

use super::*;
use crate::auth::{Authorizer, Viewer};
use crate::http::offers::Offers;
use crate::http::shapes::tests::view;

/// The answer about a cluster of one agent to a reader who may see everything.
fn told(answer: impl Fn(&Picture<'_>) -> Response) -> Value {
    let (view, offers, authorizer) = (view(), Offers::default(), Authorizer::default());
    let viewer = Viewer::new(&authorizer, None);
    printed(&answer(&Picture { view: &view, offers: &offers, viewer }))
}

fn printed(response: &Response) -> Value {
    serde_json::from_slice(&proto::json::encode_response(response)).unwrap()
}

#[test]
fn agents_come_in_the_endpoint_form() {
    let answer = told(agents);
    assert_eq!(answer["type"], "GET_AGENTS");
    let agent = &answer["get_agents"]["agents"][0];
    assert_eq!(agent["pid"], "slave(1)@127.0.0.1:5061");
    assert_eq!(agent["agent_info"]["id"], json!({"value": "c-S0"}));
    assert_eq!(agent["registered_time"]["nanoseconds"], 3_500_000_000_u64);
    let total = agent["total_resources"].as_array().unwrap();
    let volume = total.iter().find(|resource| resource["disk"].is_object()).unwrap();
    assert_eq!((&volume["role"], &volume["scalar"]["value"]), (&json!("ads"), &json!(60.0)));
    assert_eq!(volume["reservation"], json!({"principal": "ops"}));
    let declared = agent["agent_info"]["resources"][0].as_object().unwrap();
    assert!(!declared.contains_key("role"), "{declared:?}");
    assert_eq!(answer["get_agents"]["recovered_agents"].as_array().unwrap().len(), 1);
}

#[test]
fn the_version_is_that_of_compatibility_and_that_of_this_program() {
    let version = &printed(&version())["get_version"]["version_info"];
    assert_eq!(version["version"], "1.11.0");
    assert_eq!(version["holdfast_version"], crate::http::about::HOLDFAST_VERSION);
}

#[test]
fn state_holds_its_empty_lists() {
    let state = &told(state)["get_state"];
    assert_eq!(state["get_frameworks"]["frameworks"], json!([]));
    assert_eq!(state["get_tasks"]["tasks"], json!([]));
    assert_eq!(state["get_executors"]["executors"], json!([]));
    assert_eq!(state["get_agents"]["agents"].as_array().unwrap().len(), 1);
}

#[test]
fn pending_operations_are_listed() {
    let answer = told(operations);
    let listed = answer["get_operations"]["operations"].as_array().unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0]["latest_status"]["state"], "OPERATION_PENDING");
    assert_eq!(listed[0]["info"]["type"], "RESERVE");
    assert_eq!(listed[1]["info"]["create"]["volumes"][0]["scalar"]["value"], 60.0);
    assert!(listed[0]["uuid"]["value"].is_string());
}
