//! A key makes a call one that is done once: its outcome is told again, also by the next leader.

use chaos::client::Outcome;
use chaos::cluster::Member;
use chaos::process::Signal;
use serde_json::json;

use crate::harness::{DEADLINE, Dev, ROLE, operator_call, reserved, volume};

const KEY: &str = "idempotency-key";

/// R07: a client whose answer was lost asks again, five times, at a leader that is not the one
/// which executed the call. One reservation, one operation.
#[tokio::test]
async fn r07_same_key_is_one_operation_across_a_killed_leader() {
    let dev = Dev::start(3, 1);
    let agent = dev.agent_id(0).await;
    let call = operator_call(&agent, "RESERVE_RESOURCES", &[reserved("mem", 64.0)]);
    let headers = [(KEY, "r07")];
    let first = dev.post("/api/v1", &headers, &call).await;
    let operation = first.operation_id().to_owned();
    assert!(!operation.is_empty());

    let leader = Member::Master(dev.leader().await);
    dev.cluster.signal(leader, Signal::KILL).unwrap();
    dev.cluster.ended(&[leader], DEADLINE).await.unwrap();
    for _ in 0..5 {
        assert_eq!(dev.post("/api/v1", &headers, &call).await.operation_id(), operation);
    }
    assert_eq!(dev.slave(0).await["reserved_resources"][ROLE]["mem"], 64.0);

    // The key belongs to that call: with another one it is refused, and nothing is done.
    let other = operator_call(&agent, "RESERVE_RESOURCES", &[reserved("mem", 65.0)]);
    dev.post("/api/v1", &headers, &other).await.expect("another body", 422, "");
    assert_eq!(dev.slave(0).await["reserved_resources"][ROLE]["mem"], 64.0);

    // Control: without a key the same call twice is two reservations, which add up.
    assert_eq!(
        dev.operate(0, "RESERVE_RESOURCES", &[reserved("mem", 64.0)]).await,
        Outcome::Accepted
    );
    assert_eq!(dev.slave(0).await["reserved_resources"][ROLE]["mem"], 128.0);
}

/// A refusal by the state is an outcome too: it is told again even when the call would now be
/// accepted. Refusals of form are not kept.
#[tokio::test]
async fn refusals_by_the_state_are_kept_and_those_of_form_are_not() {
    let dev = Dev::start(1, 1);
    let agent = dev.agent_id(0).await;
    let create = operator_call(&agent, "CREATE_VOLUMES", &[volume("v1", 32.0)]);
    let early = [(KEY, "early")];
    dev.post("/api/v1", &early, &create).await.expect("no disk yet", 409, "");
    dev.call(0, "RESERVE_RESOURCES", &[reserved("disk", 64.0)]).await.expect("disk", 202, "");
    dev.post("/api/v1", &early, &create).await.expect("still that outcome", 409, "");
    dev.post("/api/v1", &[(KEY, "later")], &create).await.expect("a new call", 202, "");

    let bad = operator_call(&agent, "RESERVE_RESOURCES", &[reserved("cpus", -1.0)]);
    let good = operator_call(&agent, "RESERVE_RESOURCES", &[reserved("cpus", 1.0)]);
    dev.post("/api/v1", &[(KEY, "form")], &bad).await.expect("form", 400, "");
    dev.post("/api/v1", &[(KEY, "form")], &good).await.expect("the key is free", 202, "");
}

/// `If-Match` names the version that the caller has seen.
#[tokio::test]
async fn if_match_refuses_what_was_decided_on_another_version() {
    let dev = Dev::start(1, 1);
    let call = operator_call(&dev.agent_id(0).await, "RESERVE_RESOURCES", &[reserved("mem", 1.0)]);
    let version = dev.slave(0).await["resource_version"].as_u64().unwrap();
    let matching = json!(version).to_string();
    let first = dev.post("/api/v1", &[("if-match", &format!("\"{matching}\""))], &call).await;
    first.expect("the version", 202, "");
    let moved = first.header("etag").to_owned();
    assert_ne!(moved, format!("\"{matching}\""));
    dev.post("/api/v1", &[("if-match", &matching)], &call).await.expect("moved", 412, "");
    dev.post("/api/v1", &[("if-match", &moved)], &call).await.expect("the new one", 202, "");
    assert_eq!(dev.slave(0).await["reserved_resources"][ROLE]["mem"], 2.0);
}
