//! What readers see of frameworks and their tasks, and how an operator ends one.

use serde_json::{Value, json};

use crate::calls::{Answer, call, form};
use crate::scheduler::{Stream, ask, subscribe};
use crate::support::{Agent, Cluster, get, json, until};

/// A cluster with an agent, and a framework that has launched a task on it.
struct Scene {
    _cluster: Cluster,
    leader: String,
    agent: Agent,
    stream: Stream,
    id: String,
}

impl Scene {
    async fn new() -> Self {
        let cluster = Cluster::start(1, 1, &["--allocation-interval=20ms"]).await;
        let leader = cluster.leader().await;
        let agent = Agent::register(&leader, "a1", "cpus:4;mem:512;disk(eng):100").await;
        let mut stream = Stream::open(&leader, &subscribe(&json!({"name": "web"}))).await;
        let id = stream.subscribed().await;
        let mut scene = Self { _cluster: cluster, leader, agent, stream, id };
        scene.launch().await;
        scene
    }

    async fn ask(&self, call: Value) -> Answer {
        let stream_id = self.stream.stream_id.clone().unwrap();
        ask(&self.leader, &self.id, &stream_id, call).await
    }

    /// Uses the first offer for a task, and wants no other.
    async fn launch(&mut self) {
        let offer = loop {
            let event = self.stream.event().await.expect("an offer");
            if event["type"] == "OFFERS" {
                break event["offers"]["offers"][0].clone();
            }
        };
        assert_eq!(self.ask(json!({"type": "SUPPRESS"})).await.status, 202);
        let scalar = |name: &str, value: f64| {
            let scalar = json!({"value": value});
            json!({"name": name, "type": "SCALAR", "scalar": scalar})
        };
        let task = json!({"name": "server", "task_id": {"value": "t1"},
            "agent_id": offer["agent_id"], "command": {"value": "sleep 1"},
            "resources": [scalar("cpus", 1.0), scalar("mem", 64.0)]});
        let launch = json!({"type": "LAUNCH", "launch": {"task_infos": [task]}});
        let accept = json!({"type": "ACCEPT", "accept": {"offer_ids": [offer["id"]],
            "operations": [launch], "filters": {"refuse_seconds": 3600.0}}});
        assert_eq!(self.ask(accept).await.status, 202);
        until("the task is on record", async || {
            json(&self.leader, "/tasks").await.unwrap()["tasks"][0]["id"] == "t1"
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_see_frameworks_and_tasks() {
    let scene = Scene::new().await;
    let (leader, id) = (scene.leader.as_str(), scene.id.as_str());
    let all = json(leader, "/master/frameworks/").await.unwrap();
    let framework = &all["frameworks"][0];
    assert_eq!((&framework["id"], &framework["active"]), (&json!(id), &json!(true)));
    assert_eq!(framework["used_resources"]["cpus"], 1.0);
    assert_eq!(framework["tasks"][0]["id"], "t1");
    assert_eq!(all["completed_frameworks"], json!([]));
    assert_eq!(all["unregistered_frameworks"], json!([]));
    let none = json(leader, "/frameworks?framework_id=x").await.unwrap();
    assert_eq!(none["frameworks"], json!([]));

    let state = json(leader, "/state").await.unwrap();
    assert_eq!(state["frameworks"][0]["id"], id);
    assert_eq!(state["slaves"][0]["used_resources"]["mem"], 64.0);
    let slaves = json(leader, "/slaves").await.unwrap();
    let used = slaves["slaves"][0]["used_resources_full"].as_array().unwrap();
    assert!(used.iter().all(|resource| resource["allocation_info"]["role"] == "ads"), "{used:?}");

    let overview = json(leader, "/state-summary").await.unwrap();
    let slave = &overview["slaves"][0];
    assert_eq!((&slave["TASK_STAGING"], &slave["TASK_RUNNING"]), (&json!(1), &json!(0)));
    assert_eq!(slave["framework_ids"], json!([id]));
    let framework = &overview["frameworks"][0];
    assert_eq!(framework["slave_ids"], json!([scene.agent.id.as_str()]));
    assert_eq!(framework["TASK_STAGING"], 1);
    assert!(framework.get("tasks").is_none());

    for (query, count) in
        [("", 1), ("?task_id=t1", 1), ("?task_id=t2", 0), ("?limit=0", 0), ("?offset=1", 0)]
    {
        let tasks = json(leader, &format!("/tasks{query}")).await.unwrap();
        assert_eq!(tasks["tasks"].as_array().unwrap().len(), count, "{query}");
    }
    let roles = json(leader, "/roles").await.unwrap();
    let names: Vec<_> =
        roles["roles"].as_array().unwrap().iter().map(|role| &role["name"]).collect();
    assert_eq!(names, ["ads", "eng"]);
    assert_eq!(roles["roles"][0]["frameworks"], json!([id]));
    assert_eq!(roles["roles"][0]["allocated"], json!({"cpus": 1.0, "mem": 64.0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_v1_api_and_metrics_say_the_same() {
    let scene = Scene::new().await;
    let leader = scene.leader.as_str();
    let answer = async |kind: &str| {
        let answer = call(leader, "", &json!({"type": kind})).await;
        assert_eq!(answer.status, 200, "{kind}: {}", answer.text);
        answer.json()
    };
    let tasks = answer("GET_TASKS").await;
    assert_eq!(tasks["get_tasks"]["tasks"][0]["state"], "TASK_STAGING");
    assert_eq!(tasks["get_tasks"]["completed_tasks"], json!([]));
    let frameworks = answer("GET_FRAMEWORKS").await;
    let framework = &frameworks["get_frameworks"]["frameworks"][0];
    assert_eq!(framework["framework_info"]["id"]["value"], scene.id.as_str());
    assert_eq!(framework["allocated_resources"].as_array().unwrap().len(), 2);
    let state = answer("GET_STATE").await;
    assert_eq!(state["get_state"]["get_tasks"]["tasks"], tasks["get_tasks"]["tasks"]);
    let agent = &state["get_state"]["get_agents"]["agents"][0];
    assert_eq!(agent["allocated_resources"].as_array().unwrap().len(), 2);
    assert_eq!(answer("GET_EXECUTORS").await["get_executors"], json!({"executors": []}));
    assert_eq!(answer("GET_OPERATIONS").await["get_operations"], json!({}), "launches are tasks");

    let metrics = json(leader, "/metrics/snapshot").await.unwrap();
    for (name, value) in [
        ("master/elected", 1.0),
        ("master/frameworks_active", 1.0),
        ("master/frameworks_disconnected", 0.0),
        ("master/tasks_staging", 1.0),
        ("master/cpus_total", 4.0),
        ("master/cpus_used", 1.0),
        ("master/cpus_percent", 0.25),
        ("master/disk_revocable_used", 0.0),
        ("master/outstanding_offers", 0.0),
    ] {
        assert_eq!(metrics[name], value, "{name}");
    }
    // What the leader counts is published a moment later.
    until("the call is counted", async || {
        let metrics = json(leader, "/metrics/snapshot").await.unwrap();
        metrics["master/messages_suppress_offers"] == 1.0
    })
    .await;
    let one = format!("master/frameworks/web/{}/roles/ads/suppressed", scene.id);
    assert_eq!(metrics[one], 1.0);
    let text = get(leader, "/metrics").await.unwrap().1;
    assert!(text.contains("master_tasks{state=\"staging\"} 1\n"), "{text}");
    assert!(!text.contains(scene.id.as_str()), "no series has a framework's name");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_ends_a_framework() {
    let mut scene = Scene::new().await;
    let (leader, id) = (scene.leader.clone(), scene.id.clone());
    let missing = form(&leader, "/teardown", &[]).await;
    assert_eq!(missing.status, 400);
    assert_eq!(missing.text, "Missing 'frameworkId' query parameter in the request body");
    for unknown in ["", "x", "a/b"] {
        let answer = form(&leader, "/master/teardown", &[("frameworkId", unknown)]).await;
        let text = "No framework found with specified ID";
        assert_eq!((answer.status, answer.text.as_str()), (400, text), "{unknown}");
    }
    assert_eq!(get(&leader, "/teardown").await.unwrap().0, 405);
    let teardown = json!({"type": "TEARDOWN", "teardown": {"framework_id": {"value": id}}});
    let rehearsed = call(&leader, "?dry_run=true", &teardown).await;
    assert_eq!((rehearsed.status, &rehearsed.json()["would_be_accepted"]), (200, &json!(true)));
    let ended = call(&leader, "", &teardown).await;
    assert_eq!((ended.status, ended.text.as_str()), (200, ""));
    assert_eq!(ended.header("content-type"), None);
    while scene.stream.event().await.is_some() {}
    let all = json(&leader, "/frameworks").await.unwrap();
    assert_eq!(all["frameworks"], json!([]));
    let completed = &all["completed_frameworks"][0];
    assert_eq!((&completed["id"], &completed["active"]), (&json!(id), &json!(false)));
    assert_eq!(completed["completed_tasks"][0]["state"], "TASK_KILLED");
    assert_eq!(call(&leader, "", &teardown).await.status, 400);
    let tasks = json(&leader, "/tasks").await.unwrap();
    assert_eq!(tasks["tasks"][0]["state"], "TASK_KILLED");
}
