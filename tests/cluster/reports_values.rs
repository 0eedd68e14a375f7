//! Field reports about amounts and forms: R01, R04 and R05. Whatever is wrong in a request, all of
//! it is refused, the answer says where, and the log has no entry.

use std::process::{Command, Stdio};

use chaos::wait;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Dev, free_port, operator_call, reserved, volume};

/// Text of a form value.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

/// R01: three resources, the second of which is wrong, on all endpoints.
#[tokio::test]
async fn r01_one_bad_element_refuses_the_request_and_is_named() {
    let dev = Dev::start(1, 1);
    let agent = dev.agent_id(0).await;
    dev.call(0, "RESERVE_RESOURCES", &[reserved("disk", 64.0)]).await.expect("disk", 202, "");
    let before = dev.slave(0).await;
    let index = dev.last_log().await;
    let of = |resource: &Value, pointer: &str, value: Value| {
        let mut bad = resource.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        bad
    };
    for (list, kinds) in [
        ("resources", [("RESERVE_RESOURCES", "reserve"), ("UNRESERVE_RESOURCES", "unreserve")]),
        ("volumes", [("CREATE_VOLUMES", "create-volumes"), ("DESTROY_VOLUMES", "destroy-volumes")]),
    ] {
        let good: Vec<Value> = match list {
            "volumes" => (0..3).map(|n| volume(&format!("v{n}"), 1.0)).collect(),
            _ => (0..3).map(|_| reserved("disk", 1.0)).collect(),
        };
        let one = &good[1];
        let role = "/reservations/0/role";
        let mut payload = of(one, "/type", json!("RANGES"));
        payload["name"] = json!("other");
        for (what, bad) in [
            ("negative", of(one, "/scalar/value", json!(-1.0))),
            ("another type than its payload", payload),
            ("no name", of(one, "/name", json!(""))),
            ("role with a blank", of(one, role, json!("a b"))),
            ("role that begins with a dash", of(one, role, json!("-a"))),
            ("role that begins with a slash", of(one, role, json!("/a"))),
            ("role of nobody", of(one, role, json!("*"))),
            ("empty role", of(one, role, json!(""))),
        ] {
            let all = [good[0].clone(), bad, good[2].clone()];
            for (kind, endpoint) in kinds {
                let call = operator_call(&agent, kind, &all);
                let answer = dev.post("/api/v1", &[("holdfast-errors", "json")], &call).await;
                answer.expect(&format!("{kind}: {what}"), 400, "");
                assert_eq!(answer.json()["index"], 1, "{kind}: {what}: {}", answer.text);
                let form = format!(
                    "slaveId={}&{list}={}",
                    encoded(&agent),
                    encoded(&json!(all).to_string())
                );
                let headers = [("content-type", "application/x-www-form-urlencoded")];
                let path = format!("/master/{endpoint}");
                let answer = dev.ask(Method::POST, &path, &headers, &form).await;
                answer.expect(&format!("{endpoint}: {what}"), 400, "[1]");
            }
        }
    }
    assert_eq!(dev.last_log().await, index, "a refusal of form is no log entry");
    let after = dev.slave(0).await;
    assert_eq!(after["reserved_resources_full"], before["reserved_resources_full"]);
    assert_eq!(after["resource_version"], before["resource_version"]);
    dev.assert_no_errors();
}

/// RESERVE of cpus whose amount is this JSON text.
fn reserve(agent: &str, amount: &str) -> String {
    operator_call(agent, "RESERVE_RESOURCES", &[reserved("cpus", 77.25)])
        .to_string()
        .replace("77.25", amount)
}

async fn check_refused(dev: &Dev, body: &str) {
    let answer =
        dev.ask(Method::POST, "/api/v1", &[("content-type", "application/json")], body).await;
    let begin: String = answer.text.chars().take(300).collect();
    assert!([400, 409].contains(&answer.status), "{}: {begin}\n{body}", answer.status);
    assert!(answer.text.len() < 2_000, "an answer of {} bytes", answer.text.len());
}

/// R04: what rounds to nothing is no amount.
#[tokio::test]
async fn r04_amounts_that_round_to_nothing_are_refused() {
    let dev = Dev::start(1, 1);
    let agent = dev.agent_id(0).await;
    let (index, server) = (dev.last_log().await, dev.read("/api/v1/server").await);
    for amount in ["0.0001", "0.0004", "0.00049", "1e-30", "5e-324", "-0.0", "0", "0.0"] {
        let body = reserve(&agent, amount);
        let headers = [("content-type", "application/json")];
        dev.ask(Method::POST, "/api/v1", &headers, &body).await.expect(amount, 400, "");
    }
    assert_eq!(dev.last_log().await, index);
    let headers = [("content-type", "application/json")];
    let least = reserve(&agent, "0.001");
    dev.ask(Method::POST, "/api/v1", &headers, &least).await.expect("0.001", 202, "");
    assert_eq!(dev.read("/api/v1/server").await["term"], server["term"]);
    dev.assert_no_errors();
}

/// R05: what no fixed-point number can hold is refused everywhere it can be sent, and answers stay
/// JSON.
#[tokio::test]
async fn r05_amounts_beyond_every_bound_are_refused() {
    let dev = Dev::start(1, 1);
    let agent = dev.agent_id(0).await;
    dev.call(0, "RESERVE_RESOURCES", &[reserved("disk", 64.0)]).await.expect("disk", 202, "");
    dev.call(0, "CREATE_VOLUMES", &[volume("v1", 8.0)]).await.expect("volume", 202, "");
    let before = dev.reserved_on(0).await;
    let digits = "9".repeat(400);
    let amounts = [
        "9e15",
        "1e18",
        "1.8e308",
        "1e400",
        "-1e400",
        "\"Infinity\"",
        "\"-Infinity\"",
        "\"NaN\"",
        "Infinity",
        "NaN",
        &digits,
    ];
    for amount in amounts {
        check_refused(&dev, &reserve(&agent, amount)).await;
        for (kind, part) in [("GROW_VOLUME", "addition"), ("SHRINK_VOLUME", "subtract")] {
            let member = kind.to_lowercase();
            let mut body = json!({"type": kind, member.as_str(): {
                "agent_id": {"value": agent}, "volume": volume("v1", 8.0)}});
            body[&member][part] = match part {
                "addition" => reserved("disk", 77.25),
                _ => json!({"value": 77.25}),
            };
            check_refused(&dev, &body.to_string().replace("77.25", amount)).await;
        }
    }
    assert_eq!(dev.reserved_on(0).await, before);
    let state = dev.post("/api/v1", &[], &json!({"type": "GET_STATE"})).await;
    assert_eq!(state.json()["type"], "GET_STATE");
    dev.assert_no_errors();
}

#[tokio::test]
async fn r05_an_agent_does_not_start_with_such_amounts() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    for amount in ["9e15", "1e18", "1.8e308", "inf", "Infinity", "nan", "-1", "0.0001"] {
        let mut agent = Command::new(env!("CARGO_BIN_EXE_holdfast"))
            .args(["agent", "--master=127.0.0.1:1", &format!("--listen=127.0.0.1:{port}")])
            .arg(format!("--work-dir={}", folder.path().display()))
            .arg(format!("--resources=cpus:{amount}"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let ended = wait::until("the agent ends", DEADLINE, async || {
            agent.try_wait().unwrap().ok_or_else(|| format!("it runs with cpus:{amount}"))
        })
        .await;
        if ended.is_err() {
            agent.kill().unwrap();
        }
        assert_eq!(ended.unwrap().code(), Some(2), "{amount}");
        let text = std::io::read_to_string(agent.stderr.take().unwrap()).unwrap();
        assert_eq!(text.trim().lines().count(), 1, "{amount}: {text}");
    }
}
