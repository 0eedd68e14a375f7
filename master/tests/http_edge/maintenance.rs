//! Maintenance of machines as operators and frameworks meet it: the schedule, machines that go
//! down and come up, and inverse offers.

use reqwest::Method;
use serde_json::{Value, json};

use crate::calls::{Answer, call, send};
use crate::scheduler::{Stream, ask, subscribe};
use crate::support::{Agent, Cluster, client, json, until};

fn window(machines: &Value) -> Value {
    json!({"machine_ids": machines, "unavailability": {
        "start": {"nanoseconds": 1000}, "duration": {"nanoseconds": 500}}})
}

async fn post(address: &str, path: &str, body: &Value) -> Answer {
    let request = client().request(Method::POST, format!("http://{address}{path}"));
    send(request.body(body.to_string())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_go_down_and_come_up() {
    let cluster = Cluster::start(1, 1, &[]).await;
    let leader = cluster.leader().await;
    let agent = Agent::register(&leader, "web1", "cpus:4;mem:512;cpus(ads):1").await;
    let schedule = "/maintenance/schedule";
    assert_eq!(json(&leader, schedule).await.unwrap(), json!({}));
    for bad in [
        json!({"windows": [window(&json!([]))]}),
        json!({"windows": [window(&json!([{}]))]}),
        json!({"windows": [window(&json!([{"ip": "x"}]))]}),
        json!({"windows": [window(&json!([{"hostname": "a"}, {"hostname": "A"}]))]}),
        json!({"windows": [{"machine_ids": [{"hostname": "a"}]}]}),
        json!([]),
    ] {
        assert_eq!(post(&leader, schedule, &bad).await.status, 400, "{bad}");
    }
    let machines = json!([{"hostname": "Web1", "ip": "127.0.0.1"}]);
    let good = json!({"windows": [window(&machines), window(&json!([{"hostname": "other"}]))]});
    let answer = post(&leader, schedule, &good).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, None));
    let machines = json!([{"hostname": "web1", "ip": "127.0.0.1"}]);
    let expected = json!({"windows": [window(&machines), window(&json!([{"hostname": "other"}]))]});
    assert_eq!(json(&leader, schedule).await.unwrap(), expected);
    let asked = call(&leader, "", &json!({"type": "GET_MAINTENANCE_SCHEDULE"})).await.json();
    assert_eq!(asked["get_maintenance_schedule"]["schedule"], expected);
    let status = json(&leader, "/maintenance/status").await.unwrap();
    assert_eq!(status["draining_machines"][0]["id"], machines[0], "{status}");

    // Only what is scheduled goes down, and only what is down comes up.
    assert_eq!(post(&leader, "/machine/down", &json!([{"hostname": "web1"}])).await.status, 400);
    assert_eq!(post(&leader, "/machine/down", &json!([])).await.status, 400);
    assert_eq!(post(&leader, "/machine/up", &machines).await.status, 400);
    assert_eq!(post(&leader, "/machine/down", &machines).await.status, 200);
    assert_eq!(post(&leader, "/machine/down", &machines).await.status, 400);
    let asked = call(&leader, "", &json!({"type": "GET_MAINTENANCE_STATUS"})).await.json();
    assert_eq!(asked["get_maintenance_status"]["status"]["down_machines"], machines);
    let slaves = json(&leader, "/slaves").await.unwrap();
    assert_eq!(slaves["slaves"], json!([]), "the agent is out at once");
    // What it has reserved stays on record; it may not come back, and is told to try later.
    let agents = json(&leader, "/api/v1/agents").await.unwrap();
    assert_eq!(agents[0]["presence"], "UNREGISTERED", "{agents}");
    assert!(agents[0]["total"].to_string().contains("ads"), "{agents}");
    assert_eq!(post(&leader, schedule, &json!({"windows": []})).await.status, 400);
    let stop = json!({"type": "STOP_MAINTENANCE", "stop_maintenance": {"machines": machines}});
    assert_eq!(call(&leader, "", &stop).await.status, 200);
    let rest = json!({"windows": [window(&json!([{"hostname": "other"}]))]});
    assert_eq!(json(&leader, schedule).await.unwrap(), rest);
    drop(agent);
}

#[tokio::test(flavor = "multi_thread")]
async fn frameworks_are_asked_to_leave() {
    let cluster = Cluster::start(1, 1, &["--allocation-interval=20ms"]).await;
    let leader = cluster.leader().await;
    let _agent = Agent::register(&leader, "web1", "cpus:4;mem:512").await;
    let mut stream = Stream::open(&leader, &subscribe(&json!({"name": "web"}))).await;
    let id = stream.subscribed().await;
    let stream_id = stream.stream_id.clone().unwrap();
    let offer = next(&mut stream, "OFFERS").await["offers"]["offers"][0].clone();
    assert_eq!(offer["unavailability"], Value::Null);
    let scalar = |name: &str, value: f64| {
        let scalar = json!({"value": value});
        json!({"name": name, "type": "SCALAR", "scalar": scalar})
    };
    let task = json!({"name": "server", "task_id": {"value": "t1"},
        "agent_id": offer["agent_id"], "command": {"value": "sleep 1"},
        "resources": [scalar("cpus", 1.0), scalar("mem", 64.0)]});
    let launch = json!({"type": "LAUNCH", "launch": {"task_infos": [task]}});
    let accept = json!({"type": "ACCEPT", "accept": {"offer_ids": [offer["id"]],
        "operations": [launch], "filters": {"refuse_seconds": 0.0}}});
    assert_eq!(ask(&leader, &id, &stream_id, accept).await.status, 202);

    let machines = json!([{"hostname": "web1"}]);
    let schedule = json!({"windows": [window(&machines)]});
    let update = json!({"type": "UPDATE_MAINTENANCE_SCHEDULE",
        "update_maintenance_schedule": {"schedule": schedule}});
    assert_eq!(call(&leader, "", &update).await.status, 200);
    let asked = next(&mut stream, "INVERSE_OFFERS").await;
    let inverse = &asked["inverse_offers"]["inverse_offers"][0];
    assert_eq!(inverse["agent_id"], offer["agent_id"], "{asked}");
    assert_eq!(inverse["unavailability"]["start"]["nanoseconds"], 1000);
    let leave = json!({"type": "ACCEPT_INVERSE_OFFERS",
        "accept_inverse_offers": {"inverse_offer_ids": [inverse["id"]],
            "filters": {"refuse_seconds": 3600.0}}});
    assert_eq!(ask(&leader, &id, &stream_id, leave).await.status, 202);
    until("the answer is shown", async || {
        let status = json(&leader, "/maintenance/status").await.unwrap();
        let said = &status["draining_machines"][0]["statuses"][0];
        said["status"] == "ACCEPT" && said["framework_id"]["value"] == id.as_str()
    })
    .await;
    let start = json!({"type": "START_MAINTENANCE", "start_maintenance": {"machines": machines}});
    assert_eq!(call(&leader, "", &start).await.status, 200);
    let status = next(&mut stream, "UPDATE").await["update"]["status"].clone();
    assert_eq!(status["state"], "TASK_LOST", "{status}");
    assert_eq!(status["reason"], "REASON_AGENT_REMOVED", "{status}");
    assert_eq!(next(&mut stream, "FAILURE").await["failure"]["agent_id"], offer["agent_id"]);
}

async fn next(stream: &mut Stream, kind: &str) -> Value {
    loop {
        let event = stream.event().await.expect(kind);
        if event["type"] == kind {
            return event;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_is_for_who_may() {
    let acls = r#"--acls={"permissive": false,
        "get_maintenance_schedules": [{"principals": {"type": "ANY"}, "machines": {"type": "ANY"}}],
        "update_maintenance_schedules":
            [{"principals": {"type": "ANY"}, "machines": {"type": "ANY"}}]}"#;
    let cluster = Cluster::start(1, 1, &[acls]).await;
    let leader = cluster.leader().await;
    let machines = json!([{"hostname": "web1"}]);
    let schedule = json!({"windows": [window(&machines)]});
    assert_eq!(post(&leader, "/maintenance/schedule", &schedule).await.status, 200);
    assert_eq!(json(&leader, "/maintenance/schedule").await.unwrap(), schedule);
    assert_eq!(json(&leader, "/maintenance/status").await.unwrap(), json!({}));
    for path in ["/machine/down", "/machine/up", "/machine/down?dry_run=true"] {
        assert_eq!(post(&leader, path, &machines).await.status, 403, "{path}");
    }
}
