//! ACCEPT: what the edge refuses of it, and what goes through, as the framework hears it.

use serde_json::{Value, json};

use crate::calls::{reserved_cpus, static_disk, volume};
use crate::scheduler::{Stream, ask, subscribe};
use crate::support::{Agent, Cluster};

/// A framework with its stream, of the principal `ops` in the role `ads`.
struct Framework {
    leader: String,
    id: String,
    stream_id: String,
    stream: Stream,
}

impl Framework {
    async fn subscribe(leader: &str) -> Self {
        let capabilities = ["MULTI_ROLE", "RESERVATION_REFINEMENT", "PARTITION_AWARE"];
        let capabilities = capabilities.map(|kind| json!({"type": kind}));
        let info = json!({"principal": "ops", "capabilities": capabilities});
        let mut stream = Stream::open(leader, &subscribe(&info)).await;
        let id = stream.subscribed().await;
        let stream_id = stream.stream_id.clone().unwrap();
        Self { leader: leader.to_owned(), id, stream_id, stream }
    }

    /// The next event of a kind; others are passed over.
    async fn event(&mut self, kind: &str) -> Value {
        loop {
            let event = self.stream.event().await.expect("the stream goes on");
            if event["type"] == kind {
                return event;
            }
        }
    }

    async fn offer(&mut self) -> String {
        let offers = self.event("OFFERS").await;
        offers["offers"]["offers"][0]["id"]["value"].as_str().unwrap().to_owned()
    }

    async fn accept(&self, offer: &str, operations: &Value) -> u16 {
        let call = json!({"type": "ACCEPT", "accept": {"offer_ids": [{"value": offer}],
            "filters": {"refuse_seconds": 0}, "operations": operations}});
        ask(&self.leader, &self.id, &self.stream_id, call).await.status
    }

    /// State and message of an operation.
    async fn operation(&mut self, id: &str) -> (String, String) {
        let event = self.event("UPDATE_OPERATION_STATUS").await;
        let status = &event["update_operation_status"]["status"];
        assert_eq!(status["operation_id"]["value"], id, "{status}");
        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        (text("state"), text("message"))
    }

    /// State, reason and message of a task.
    async fn task(&mut self, id: &str) -> (String, String, String) {
        let event = self.event("UPDATE").await;
        let status = &event["update"]["status"];
        assert_eq!(status["task_id"]["value"], id, "{status}");
        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        (text("state"), text("reason"), text("message"))
    }
}

fn cpus(amount: f64) -> Value {
    json!({"name": "cpus", "type": "SCALAR", "scalar": {"value": amount}})
}

fn task(agent: &Agent, id: &str, more: &Value) -> Value {
    let mut task = json!({"name": id, "task_id": {"value": id}, "resources": [cpus(1.0)],
        "agent_id": {"value": agent.id.as_str()}, "command": {"value": "true"}});
    for (key, value) in more.as_object().unwrap() {
        task[key] = value.clone();
    }
    task
}

fn launch(tasks: &[Value]) -> Value {
    json!({"type": "LAUNCH", "launch": {"task_infos": tasks}})
}

fn reserve(id: &str, resources: &[Value]) -> Value {
    json!({"type": "RESERVE", "id": {"value": id}, "reserve": {"resources": resources}})
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_are_judged_one_by_one() {
    let acls = r#"{
        "reserve_resources": [
            {"principals": {"values": ["ops"]}, "roles": {"values": ["ads"]}}],
        "unreserve_resources": [
            {"principals": {"values": ["ops"]}, "reserver_principals": {"type": "NONE"}}],
        "destroy_volumes": [
            {"principals": {"values": ["ops"]}, "creator_principals": {"values": ["ops"]}},
            {"principals": {"type": "ANY"}, "creator_principals": {"type": "NONE"}}]}"#;
    let acls = format!("--acls={acls}");
    let cluster = Cluster::start(1, 1, &[&acls]).await;
    let leader = cluster.leader().await;
    let _agent = Agent::register(&leader, "a1", "cpus:8;mem:1024;disk(ads):1000").await;
    let mut framework = Framework::subscribe(&leader).await;
    let offer = framework.offer().await;
    let nameless = json!({"type": "RESERVE", "id": {"value": "a/b"}, "reserve": {"resources": []}});
    assert_eq!(framework.accept(&offer, &json!([nameless])).await, 400, "its id is no id");

    let mut other = reserved_cpus("ads", 1.0);
    other["reservations"][0]["principal"] = json!("somebody");
    let broken = json!({"name": "cpus", "type": "SCALAR", "scalar": {"value": -1}});
    let destroy = json!({"type": "DESTROY", "id": {"value": "destroy"},
        "destroy": {"volumes": [volume("ads", "v1", 100.0)]}});
    let create = json!({"type": "CREATE", "id": {"value": "create"},
        "create": {"volumes": [volume("ads", "v1", 100.0)]}});
    let mut strange = volume("ads", "v2", 50.0);
    strange["disk"]["persistence"]["principal"] = json!("somebody");
    let disk = json!({"type": "CREATE_DISK", "id": {"value": "disk"},
        "create_disk": {"source": static_disk("ads", 5.0), "target_type": "MOUNT"}});
    let unreserve = json!({"type": "UNRESERVE", "id": {"value": "unreserve"},
        "unreserve": {"resources": [reserved_cpus("ads", 1.0)]}});
    let operations = json!([
        {"type": "RESERVE", "id": {"value": "empty"}},
        reserve("other", &[other]),
        reserve("broken", &[broken]),
        reserve("good", &[reserved_cpus("ads", 2.0)]),
        unreserve,
        {"type": "CREATE", "id": {"value": "strange"}, "create": {"volumes": [strange]}},
        disk,
        create,
        destroy,
    ]);
    assert_eq!(framework.accept(&offer, &operations).await, 202);
    let mut known = std::collections::BTreeMap::new();
    while known.len() < 9 {
        let event = framework.event("UPDATE_OPERATION_STATUS").await;
        let status = event["update_operation_status"]["status"].clone();
        known.insert(status["operation_id"]["value"].as_str().unwrap().to_owned(), status);
    }
    for (id, state, text) in [
        ("empty", "OPERATION_ERROR", "'reserve' to be present"),
        ("other", "OPERATION_ERROR", "not the principal 'ops'"),
        ("broken", "OPERATION_ERROR", "Operation attempted with invalid resources"),
        ("good", "OPERATION_FINISHED", ""),
        ("unreserve", "OPERATION_ERROR", "may not unreserve"),
        ("strange", "OPERATION_ERROR", "not the principal 'ops'"),
        ("disk", "OPERATION_ERROR", "not supported"),
        ("create", "OPERATION_FINISHED", ""),
        // Whoever made it in the same call is who made it.
        ("destroy", "OPERATION_FINISHED", ""),
    ] {
        let status = &known[id];
        assert_eq!(status["state"], state, "{id}: {status}");
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.contains(text), "{id}: {message}");
        assert_eq!(status["uuid"].is_object(), state == "OPERATION_FINISHED", "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_judged_one_by_one_and_groups_as_one() {
    let acls = r#"{"run_tasks": [
        {"principals": {"values": ["ops"]}, "users": {"values": ["u"]}},
        {"principals": {"type": "ANY"}, "users": {"type": "NONE"}}]}"#;
    let acls = format!("--acls={acls}");
    let cluster = Cluster::start(1, 1, &[&acls]).await;
    let leader = cluster.leader().await;
    let agent = Agent::register(&leader, "a1", "cpus:8;mem:1024;disk:1000").await;
    let mut framework = Framework::subscribe(&leader).await;
    let offer = framework.offer().await;
    let nameless = task(&agent, "a/b", &json!({}));
    assert_eq!(framework.accept(&offer, &json!([launch(&[nameless])])).await, 400);

    let as_root = json!({"command": {"value": "true", "user": "root"}});
    let mut named = launch(&[task(&agent, "named", &json!({}))]);
    named["id"] = json!({"value": "op"});
    let broken = json!({"name": "cpus", "type": "SCALAR", "scalar": {"value": -1}});
    let executor = json!({"executor_id": {"value": "e"}, "type": "DEFAULT", "resources": [
        cpus(0.1), {"name": "mem", "type": "SCALAR", "scalar": {"value": 32}},
        {"name": "disk", "type": "SCALAR", "scalar": {"value": 10}}]});
    let group = |tasks: &[Value]| {
        json!({"type": "LAUNCH_GROUP", "launch_group": {
            "executor": executor, "task_group": {"tasks": tasks}}})
    };
    let operations = json!([
        launch(&[
            task(&agent, "root", &as_root),
            task(&agent, "nothing", &json!({"resources": []})),
            task(&agent, "good", &json!({})),
        ]),
        named,
        launch(&[
            task(&agent, "broken", &json!({"resources": [broken]})),
            task(&agent, "beside", &json!({})),
        ]),
        group(&[task(&agent, "g1", &as_root), task(&agent, "g2", &json!({}))]),
        group(&[task(&agent, "h1", &json!({"resources": []})), task(&agent, "h2", &json!({}))]),
        launch(&[]),
        group(&[]),
    ]);
    assert_eq!(framework.accept(&offer, &operations).await, 202);
    let (error, invalid) = ("TASK_ERROR", "REASON_TASK_INVALID");
    let (unauthorized, group) = ("REASON_TASK_GROUP_UNAUTHORIZED", "REASON_TASK_GROUP_INVALID");
    for (id, reason, text) in [
        ("root", "REASON_TASK_UNAUTHORIZED", "may not run tasks as user 'root'"),
        ("nothing", invalid, "no resources"),
        ("named", invalid, "'id'"),
        ("broken", invalid, "invalid resources"),
        ("beside", invalid, "invalid resources"),
        ("g1", unauthorized, "root"),
        ("g2", unauthorized, "root"),
        ("h1", group, "no resources"),
        ("h2", group, "no resources"),
    ] {
        let (state, found, message) = framework.task(id).await;
        assert_eq!((state.as_str(), found.as_str()), (error, reason), "{id}: {message}");
        assert!(message.contains(text), "{id}: {message}");
    }
    let reconcile = json!({"type": "RECONCILE", "reconcile": {
        "tasks": [{"task_id": {"value": "good"}}]}});
    let stream_id = framework.stream_id.clone();
    assert_eq!(ask(&leader, &framework.id, &stream_id, reconcile).await.status, 202);
    let (state, reason, _) = framework.task("good").await;
    assert_eq!((state.as_str(), reason.as_str()), ("TASK_STAGING", "REASON_RECONCILIATION"));
}

#[tokio::test(flavor = "multi_thread")]
async fn offers_that_are_no_offers() {
    let cluster = Cluster::start(1, 1, &[]).await;
    let leader = cluster.leader().await;
    let agent = Agent::register(&leader, "a1", "cpus:8;mem:1024").await;
    let mut framework = Framework::subscribe(&leader).await;
    for (offer, name) in [("a/b", "one"), ("unknown", "two")] {
        let operations = json!([
            reserve(name, &[reserved_cpus("ads", 1.0)]),
            launch(&[task(&agent, name, &json!({}))]),
        ]);
        assert_eq!(framework.accept(offer, &operations).await, 202);
        assert_eq!(framework.operation(name).await.0, "OPERATION_ERROR");
        let (state, reason, _) = framework.task(name).await;
        assert_eq!((state.as_str(), reason.as_str()), ("TASK_DROPPED", "REASON_INVALID_OFFERS"));
    }
}
