//! Field reports about reservations: R06, R08, R09, R11 and R12, where the whole product is
//! needed to show them. Offers in these reports are in `reports_streams.rs`.

use std::fs;

use chaos::cluster::Member;
use chaos::process::Signal;
use serde_json::{Value, json};

use crate::ask::CHECKPOINTED;
use crate::harness::{DEADLINE, Dev, ROLE, assert_success, operator_call, reserved, volume};

/// `p` with the secret `s`, as Basic authentication sends it.
const BASIC: &str = "Basic cDpz";

/// Layers of a stack, `(type, role)`, all by `ops`.
fn stack(layers: &[(&str, &str)]) -> Value {
    let layer = |(kind, role): &(&str, &str)| match *kind {
        "STATIC" => json!({"type": kind, "role": role}),
        _ => json!({"type": kind, "role": role, "principal": "ops"}),
    };
    layers.iter().map(layer).collect()
}

fn scalar(name: &str, amount: f64, reservations: Value) -> Value {
    let mut resource = reserved(name, amount);
    resource["reservations"] = reservations;
    resource
}

/// Amounts of `name` that are reserved on the agent by the stack's text, in order.
async fn amounts(dev: &Dev, name: &str) -> Vec<(String, f64)> {
    let full = dev.reserved_on(0).await;
    let mut amounts: Vec<(String, f64)> = full
        .as_object()
        .unwrap()
        .values()
        .flat_map(|list| list.as_array().unwrap())
        .filter(|resource| resource["name"] == name)
        .map(|resource| {
            (resource["reservations"].to_string(), resource["scalar"]["value"].as_f64().unwrap())
        })
        .collect();
    amounts.sort_by(|a, b| a.partial_cmp(b).unwrap());
    amounts
}

/// R06: a reservation is its stack with principal and labels. Equal ones add up, others stay
/// apart, also under the next leader.
#[tokio::test]
async fn r06_reservations_differ_by_principal_and_labels() {
    let dev = Dev::start(3, 1);
    let of = |principal: &str, label: Option<&str>, amount: f64| {
        let mut resource = reserved("cpus", amount);
        let top = &mut resource["reservations"][0];
        top["principal"] = json!(principal);
        if let Some(value) = label {
            top["labels"] = json!({"labels": [{"key": "x", "value": value}]});
        }
        resource
    };
    let four = [
        of("p1", None, 0.5),
        of("p2", None, 0.5),
        of("p1", Some("1"), 0.5),
        of("p1", Some("2"), 0.5),
    ];
    for resource in &four {
        dev.call(0, "RESERVE_RESOURCES", std::slice::from_ref(resource)).await.expect("", 202, "");
    }
    assert_eq!(amounts(&dev, "cpus").await.len(), 4);
    dev.call(0, "UNRESERVE_RESOURCES", &[of("p1", None, 1.0)]).await.expect(
        "more than one identity has",
        409,
        "",
    );
    dev.call(0, "UNRESERVE_RESOURCES", &[of("p1", Some("1"), 0.2)]).await.expect("part", 202, "");
    let before = amounts(&dev, "cpus").await;
    let mut values: Vec<f64> = before.iter().map(|(_, amount)| *amount).collect();
    values.sort_by(f64::total_cmp);
    assert_eq!(values, [0.3, 0.5, 0.5, 0.5]);
    let ids = reservation_ids(&dev).await;

    let leader = Member::Master(dev.leader().await);
    dev.cluster.signal(leader, Signal::KILL).unwrap();
    dev.cluster.ended(&[leader], DEADLINE).await.unwrap();
    assert_eq!(amounts(&dev, "cpus").await, before);
    assert_eq!(reservation_ids(&dev).await, ids);
    let again = of("p1", Some("1"), 0.2);
    dev.call(0, "RESERVE_RESOURCES", &[again]).await.expect("adds up", 202, "");
    assert_eq!(amounts(&dev, "cpus").await.len(), 4);
    assert_eq!(reservation_ids(&dev).await, ids, "an id names the identity, whatever its amount");
}

async fn reservation_ids(dev: &Dev) -> Vec<String> {
    let list = dev.read("/api/v1/reservations").await;
    let ids = list.as_array().unwrap().iter().map(|entry| entry["reservation_id"].to_string());
    let mut ids: Vec<String> = ids.collect();
    ids.sort();
    ids
}

/// R08: disk under a volume is not given back, and the refusal names the volume.
#[tokio::test]
async fn r08_unreserve_of_what_carries_a_volume_names_it() {
    let dev = Dev::start(1, 1);
    let whole = [reserved("cpus", 2.0), reserved("disk", 100.0)];
    dev.call(0, "RESERVE_RESOURCES", &whole).await.expect("reserve", 202, "");
    dev.call(0, "CREATE_VOLUMES", &[volume("v1", 100.0)]).await.expect("create", 202, "");
    let total = dev.slave(0).await["resources"].clone();
    let call = operator_call(&dev.agent_id(0).await, "UNRESERVE_RESOURCES", &[whole[1].clone()]);
    let answer = dev.post("/api/v1", &[("holdfast-errors", "json")], &call).await;
    answer.expect("disk under the volume", 409, "");
    assert!(answer.json()["blocked_by"].to_string().contains("v1"), "{}", answer.text);
    dev.call(0, "UNRESERVE_RESOURCES", &[reserved("cpus", 1.0)]).await.expect("free", 202, "");
    dev.call(0, "DESTROY_VOLUMES", &[volume("v1", 100.0)]).await.expect("destroy", 202, "");
    let rest = [reserved("cpus", 1.0), whole[1].clone()];
    dev.call(0, "UNRESERVE_RESOURCES", &rest).await.expect("the rest", 202, "");
    assert_eq!(dev.slave(0).await["resources"], total, "nothing is lost or made");
    assert_eq!(dev.reserved_on(0).await, json!({}));
}

/// R09: UNRESERVE takes the top of a stack off, and no more.
#[tokio::test]
async fn r09_unreserve_pops_the_top_and_a_restart_keeps_the_stack() {
    let mut dev = Dev::start_with(1, 1, &["--agent-resources=cpus:2;cpus(eng):2;mem:64"]);
    let eng = ("STATIC", "eng");
    let (db, pg) = (("DYNAMIC", "eng/db"), ("DYNAMIC", "eng/db/pg"));
    let of = |layers: &[(&str, &str)]| [scalar("cpus", 1.0, stack(layers))];
    dev.call(0, "RESERVE_RESOURCES", &of(&[eng, db])).await.expect("eng/db", 202, "");
    dev.call(0, "RESERVE_RESOURCES", &of(&[eng, db, pg])).await.expect("eng/db/pg", 202, "");
    dev.call(0, "UNRESERVE_RESOURCES", &of(&[eng])).await.expect("static", 400, "");
    dev.call(0, "UNRESERVE_RESOURCES", &of(&[eng, db])).await.expect("not on top", 409, "");

    let before = amounts(&dev, "cpus").await;
    let member = Member::Agent(0);
    dev.cluster.signal(member, Signal::KILL).unwrap();
    dev.cluster.ended(&[member], DEADLINE).await.unwrap();
    assert_success(&dev.resume());
    assert_eq!(amounts(&dev, "cpus").await, before);

    dev.call(0, "UNRESERVE_RESOURCES", &of(&[eng, db, pg])).await.expect("pop", 202, "");
    let roles =
        |amounts: Vec<(String, f64)>| amounts.into_iter().map(|(s, _)| s).collect::<Vec<_>>();
    let left = roles(amounts(&dev, "cpus").await);
    assert!(left.iter().any(|stack| stack.contains("\"eng/db\"")), "{left:?}");
    assert!(!left.iter().any(|stack| stack.contains("eng/db/pg")), "{left:?}");
    assert_eq!(dev.slave(0).await["unreserved_resources"]["cpus"], 2.0);
    dev.call(0, "UNRESERVE_RESOURCES", &of(&[eng, db])).await.expect("pop", 202, "");
    assert_eq!(amounts(&dev, "cpus").await.len(), 1);
    assert_eq!(dev.slave(0).await["reserved_resources"]["eng"]["cpus"], 2.0);
}

/// R11: a reservation moves to another role as one step; a refused move leaves no trace.
#[tokio::test]
async fn r11_moving_a_reservation_is_one_step() {
    let dev = Dev::start(3, 1);
    let agent = dev.agent_id(0).await;
    let of =
        |role: &str, name: &str, amount: f64| scalar(name, amount, stack(&[("DYNAMIC", role)]));
    let moved = |name: &str, amount: f64| {
        let mut call = operator_call(&agent, "RESERVE_RESOURCES", &[of("b", name, amount)]);
        call["reserve_resources"]["source"] = json!([of("a", name, amount)]);
        call
    };
    let held = [of("a", "cpus", 1.0), of("a", "disk", 100.0)];
    dev.call(0, "RESERVE_RESOURCES", &held).await.expect("a", 202, "");
    let mut data = of("a", "disk", 100.0);
    data["disk"] = volume("v1", 100.0)["disk"].clone();
    dev.call(0, "CREATE_VOLUMES", &[data]).await.expect("volume", 202, "");
    let before = dev.reserved_on(0).await;
    let free = dev.slave(0).await["unreserved_resources"].clone();
    dev.post(CHECKPOINTED, &[], &moved("cpus", 2.0)).await.expect("more than there is", 409, "");
    dev.post(CHECKPOINTED, &[], &moved("disk", 50.0)).await.expect("under a volume", 409, "");
    assert_eq!(dev.reserved_on(0).await, before);

    dev.post("/api/v1", &[], &moved("cpus", 1.0)).await.expect("legal", 202, "");
    let leader = Member::Master(dev.leader().await);
    dev.cluster.signal(leader, Signal::KILL).unwrap();
    dev.cluster.ended(&[leader], DEADLINE).await.unwrap();
    let slave = dev.slave(0).await;
    assert_eq!(slave["reserved_resources"]["b"]["cpus"], 1.0, "{slave}");
    assert_eq!(slave["reserved_resources"]["a"]["cpus"], 0.0, "{slave}");
    assert_eq!(slave["unreserved_resources"], free, "it was nobody's at no time");
}

/// R12: whoever calls, and whatever principal stands in the reservation, the answer says at once
/// whether it is accepted.
#[tokio::test]
async fn r12_every_pair_of_principals_has_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let credentials = folder.path().join("credentials.json");
    let list = r#"{"credentials": [{"principal": "p", "secret": "s"}]}"#;
    fs::write(&credentials, list).unwrap();
    let flags = [
        "--master-flag",
        &format!("credentials={}", credentials.display()),
        "--master-flag=authenticate-http-readwrite",
    ];
    let open = Dev::start(1, 1);
    let strict = Dev::start_with(1, 1, &flags);
    for (dev, caller, expected) in [
        (&open, None, [202, 202, 202]),
        (&strict, None, [401, 401, 401]),
        (&strict, Some(BASIC), [400, 202, 400]),
    ] {
        let agent = dev.agent_id(0).await;
        for (principal, expected) in [None, Some("p"), Some("q")].into_iter().zip(expected) {
            let mut resource = reserved("mem", 1.0);
            match principal {
                Some(principal) => resource["reservations"][0]["principal"] = json!(principal),
                None => {
                    let layer = resource["reservations"][0].as_object_mut().unwrap();
                    layer.remove("principal");
                }
            }
            let call = operator_call(&agent, "RESERVE_RESOURCES", &[resource]);
            let headers: Vec<(&str, &str)> =
                caller.map(|caller| ("authorization", caller)).into_iter().collect();
            let answer = dev.post("/api/v1", &headers, &call).await;
            let cell = format!("{caller:?}, {principal:?}");
            answer.expect(&cell, expected, if expected == 400 { "principal" } else { "" });
        }
    }
    assert!(open.reserved_on(0).await[ROLE].is_array());
}
