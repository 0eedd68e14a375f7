//! What is reserved, for whom, under which names, and the numbers about it.

use serde_json::{Value, json};

use crate::calls::{call, reserved_cpus, volume};
use crate::support::{Agent, Cluster, get, json, until};

async fn cluster() -> (Cluster, String, Agent) {
    let cluster = Cluster::start(1, 1, &[]).await;
    let leader = cluster.leader().await;
    let resources = "cpus:8;mem:100;disk(ads):1000;gpus(eng/db/x):2";
    let agent = Agent::register(&leader, "a1", resources).await;
    let id = json!({"value": agent.id.as_str()});
    let reserve = json!({"type": "RESERVE_RESOURCES", "reserve_resources":
        {"agent_id": id, "resources": [reserved_cpus("web", 1.5)]}});
    let create = json!({"type": "CREATE_VOLUMES", "create_volumes":
        {"agent_id": id, "volumes": [volume("ads", "v1", 100.0)]}});
    for body in [reserve, create] {
        let answer = call(&leader, "?wait=checkpointed", &body).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
    }
    (cluster, leader, agent)
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|role| role["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn u01_roles_that_exist_only_by_reservations_are_listed() {
    let (_cluster, leader, _agent) = cluster().await;
    let roles = json(&leader, "/roles").await.unwrap();
    let expected = ["ads", "eng", "eng/db", "eng/db/x", "web"];
    assert_eq!(names(&roles["roles"]), expected);
    let answer = call(&leader, "", &json!({"type": "GET_ROLES"})).await.json();
    assert_eq!(names(&answer["get_roles"]["roles"]), expected);
    assert_eq!(answer["get_roles"]["roles"][0], json!({"name": "ads", "weight": 1.0}));
    let eng = &roles["roles"][1];
    assert_eq!(eng["reserved"], json!({"gpus": 2.0}));
    assert_eq!(eng["quota"]["consumed"], json!({"gpus": 2.0}));
    assert_eq!(roles["roles"][4]["reserved"], json!({"cpus": 1.5}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whitelist_is_what_the_roles_are() {
    let cluster = Cluster::start(1, 1, &["--roles=a/b,c"]).await;
    let leader = cluster.leader().await;
    let _agent = Agent::register(&leader, "a1", "disk(ads):5").await;
    let roles = json(&leader, "/roles").await.unwrap();
    assert_eq!(names(&roles["roles"]), ["*", "a", "a/b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reservations_and_volumes_have_names_that_stay() {
    let (_cluster, leader, agent) = cluster().await;
    let id = agent.id.as_str();
    let all = json(&leader, "/api/v1/reservations").await.unwrap();
    let ads = all.as_array().unwrap().iter().find(|entry| entry["role"] == "ads").unwrap();
    assert_eq!(ads["type"], "STATIC");
    assert_eq!(ads["quantities"], json!({"disk": 1000.0}));
    assert_eq!(ads["confirmed"], true);
    assert_eq!(ads["volumes"], json!([format!("{id}/ads/v1")]));
    let web = json(&leader, "/api/v1/reservations?role=web").await.unwrap();
    assert_eq!(web.as_array().unwrap().len(), 1);
    assert_eq!((&web[0]["principal"], &web[0]["agent_id"]), (&json!("ops"), &json!(id)));
    let named = web[0]["reservation_id"].as_str().unwrap().to_owned();

    let more = json!({"type": "RESERVE_RESOURCES", "reserve_resources":
        {"agent_id": {"value": id}, "resources": [reserved_cpus("web", 1.0)]}});
    assert_eq!(call(&leader, "", &more).await.status, 202);
    let web = json(&leader, "/api/v1/reservations?role=web").await.unwrap();
    assert_eq!(web[0]["reservation_id"], named.as_str(), "one reservation grows");
    assert_eq!(web[0]["quantities"], json!({"cpus": 2.5}));

    let volumes = json(&leader, "/api/v1/volumes").await.unwrap();
    let volume = &volumes[0];
    assert_eq!(volume["volume"], format!("{id}/ads/v1"));
    assert_eq!(volume["reservation_id"], ads["reservation_id"]);
    assert_eq!((&volume["size"], &volume["creator"]), (&json!(100.0), &json!("ops")));
    assert_eq!((&volume["disk_type"], &volume["unavailable"]), (&json!("ROOT"), &json!(false)));
    assert_eq!(json(&leader, "/api/v1/volumes?agent_id=x").await.unwrap(), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn u04_metrics_agree_with_the_state() {
    let (_cluster, leader, agent) = cluster().await;
    let refused = json!({"type": "RESERVE_RESOURCES", "reserve_resources":
        {"agent_id": {"value": agent.id.as_str()}, "resources": [reserved_cpus("web", 99.0)]}});
    assert_eq!(call(&leader, "", &refused).await.status, 409);
    let (status, text) = get(&leader, "/metrics").await.unwrap();
    assert_eq!(status, 200);
    for line in [
        "master_resources_reserved{resource=\"cpus\"} 1.5\n",
        "master_resources_reserved{resource=\"disk\"} 1000\n",
        "master_volumes 1\n",
        "master_volumes_disk_megabytes 100\n",
        "master_operations_accepted_total{operation=\"reserve\"} 1\n",
        "master_operations_accepted_total{operation=\"create\"} 1\n",
        "master_operations_on_record{state=\"finished\"} 2\n",
        "master_http_refusals_total{reason=\"conflict\"} 1\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    let snapshot = json(&leader, "/metrics/snapshot").await.unwrap();
    assert_eq!(snapshot["master/gpus_total"], 2.0);
    // What the leader counts is published a moment later.
    until("both operations are counted", async || {
        let snapshot = json(&leader, "/metrics/snapshot").await.unwrap();
        snapshot["master/operations/finished"] == 2.0
            && snapshot["master/operations/create/finished"] == 1.0
    })
    .await;
}
