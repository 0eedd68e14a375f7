//! What no client should send: it is refused with its place, leaves no entry in the log, and
//! ends nothing.

use serde_json::{Value, json};

use crate::calls::{call, form, reserved_cpus, send, static_disk, volume};
use crate::support::{Agent, Cluster, client, get, json};

async fn cluster() -> (Cluster, String, Agent) {
    let cluster = Cluster::start(1, 1, &[]).await;
    let leader = cluster.leader().await;
    let agent = Agent::register(&leader, "a1", "cpus:8;disk(ads):1000;ports:[1-100]").await;
    (cluster, leader, agent)
}

/// Reservations of which one is wrong.
fn wrong_reservations() -> Vec<Value> {
    let of = |role: &str, value: Value| {
        let mut wrong = reserved_cpus(role, 1.0);
        wrong["scalar"]["value"] = value;
        wrong
    };
    let mut wrong = vec![
        of("ads", json!("NaN")),
        of("ads", json!("Infinity")),
        of("ads", json!(-1)),
        of("ads", json!(0)),
        of("ads", json!(0.0004)),
        of("ads", json!(1e300)),
        of("ads", json!(-1e300)),
    ];
    let long = "r".repeat(300);
    for role in ["", "*", "/a", "a/", "a//b", "a/..", ".", "-a", "a b", "a\u{0}b\t", "a/*", &long] {
        wrong.push(of(role, json!(1)));
    }
    let mut ranges = reserved_cpus("ads", 1.0);
    ranges["name"] = json!("ports");
    ranges["type"] = json!("RANGES");
    ranges.as_object_mut().unwrap().remove("scalar");
    ranges["ranges"] = json!({"range": [{"begin": 1, "end": 5}, {"begin": 4, "end": 9}]});
    wrong.push(ranges);
    let mut mixed = reserved_cpus("ads", 1.0);
    mixed["role"] = json!("web");
    wrong.push(mixed);
    let mut mixed = reserved_cpus("ads", 1.0);
    mixed["reservation"] = json!({"principal": "other"});
    wrong.push(mixed);
    wrong.push(static_disk("ads", 1.0));
    wrong
}

/// Volumes of which one is wrong.
fn wrong_volumes() -> Vec<Value> {
    let long = "v".repeat(300);
    let ids = ["", "a/b", "..", ".", "a\u{0}", &long].map(|id| volume("ads", id, 1.0));
    let paths = ["", "/abs", "a/b", "..", "."].map(|path| {
        let mut wrong = volume("ads", "v", 1.0);
        wrong["disk"]["volume"]["container_path"] = json!(path);
        wrong
    });
    let mut host = volume("ads", "v", 1.0);
    host["disk"]["volume"]["host_path"] = json!("/etc");
    let mut read_only = volume("ads", "v", 1.0);
    read_only["disk"]["volume"]["mode"] = json!("RO");
    ids.into_iter().chain(paths).chain([host, read_only]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_elements_are_named_by_their_place_and_leave_no_entry() {
    let (_cluster, leader, agent) = cluster().await;
    let id = agent.id.as_str();
    let last_log = async || json(&leader, "/api/v1/server").await.unwrap()["last_log"].clone();
    let before = last_log().await;
    let cases = [
        ("RESERVE_RESOURCES", "resources", reserved_cpus("ads", 1.0), wrong_reservations()),
        ("CREATE_VOLUMES", "volumes", volume("ads", "good", 1.0), wrong_volumes()),
    ];
    for (kind, field, good, wrong) in cases {
        for wrong in wrong {
            let list = json!([good, wrong]);
            let body = json!({"type": kind,
                kind.to_lowercase(): {"agent_id": {"value": id}, field: list}});
            let url = format!("http://{leader}/api/v1");
            let request = client().post(url).json(&body).header("Holdfast-Errors", "json");
            let answer = send(request).await;
            assert_eq!(answer.status, 400, "{wrong}: {}", answer.text);
            let report = answer.json();
            // What is no number is no JSON of a call either; everything else has its place.
            let is_call = !wrong["scalar"]["value"].is_string();
            assert!(!is_call || report["index"] == 1, "{wrong}: {report}");
            let message = report["message"].as_str().unwrap();
            assert!(message.len() < 1000, "{message}");
            let path = if field == "volumes" { "/create-volumes" } else { "/reserve" };
            let text = list.to_string();
            let legacy = form(&leader, path, &[("slaveId", id), (field, &text)]).await;
            assert_eq!(legacy.status, 400, "{wrong}: {}", legacy.text);
        }
    }
    let twice = [volume("ads", "x", 1.0), volume("ads", "y", 1.0), volume("ads", "x", 2.0)];
    let body = json!({"type": "CREATE_VOLUMES",
        "create_volumes": {"agent_id": {"value": id}, "volumes": twice}});
    let answer = call(&leader, "", &body).await;
    assert_eq!(answer.status, 400);
    assert!(answer.text.contains("volumes[2]"), "{}", answer.text);
    assert_eq!(last_log().await, before, "the log has an entry");
}

#[tokio::test(flavor = "multi_thread")]
async fn h02_whatever_is_asked_the_master_goes_on() {
    let (_cluster, leader, agent) = cluster().await;
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_call = format!("{{\"type\":{deep}}}");
    let good = json!({"type": "GET_AGENTS"}).to_string();
    let media = [
        "application/json",
        "application/x-protobuf",
        "application/recordio",
        "*/*",
        "text/html",
        "garbage",
        "application/json;q=x",
        "",
    ];
    let bodies: Vec<Vec<u8>> = [
        "",
        "{",
        "{}",
        "null",
        "[]",
        "\"x\"",
        &good,
        &deep,
        &deep_call,
        "{\"type\":\"GET_AGENTS\",\"type\":5}",
        "{\"type\":999}",
        "{\"type\":\"SUBSCRIBE\"}",
        "{\"type\":\"RESERVE_RESOURCES\",\"reserve_resources\":{\"agent_id\":{}}}",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .chain([vec![8], vec![8, 255, 255, 255, 255, 255], vec![0xff; 64], vec![0x1a, 0xff, 0xff]])
    .collect();
    for body in &bodies {
        for content_type in media {
            for accept in media {
                let request = client()
                    .post(format!("http://{leader}/api/v1"))
                    .header("content-type", content_type)
                    .header("accept", accept)
                    .body(body.clone());
                let status = send(request).await.status;
                let expected = [200, 400, 406, 415, 501];
                assert!(expected.contains(&status), "{content_type} {accept} {body:?}: {status}");
            }
        }
        let endpoint = format!("http://{leader}/api/v1/transaction");
        let request = client().post(endpoint).header("content-type", "application/json");
        assert_eq!(send(request.body(body.clone())).await.status, 400, "{body:?}");
        let request = client().post(format!("http://{leader}/reserve")).body(body.clone());
        assert_eq!(send(request).await.status, 400, "{body:?}");
    }
    for path in ["//", "/%00", "/..", "/%2e%2e/slaves", "/slaves/%ff", "/api/v1/operations/%00"] {
        let (status, _) = get(&leader, path).await.unwrap();
        assert!([200, 404].contains(&status), "{path}: {status}");
    }
    assert_eq!(get(&leader, "/health").await.unwrap().0, 200);
    let slaves = json(&leader, "/slaves").await.unwrap();
    assert_eq!(slaves["slaves"][0]["id"], agent.id.as_str());
}
