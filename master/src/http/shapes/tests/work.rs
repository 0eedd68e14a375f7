//! Frameworks with tasks, executors and offers, key by key, in both APIs.

use std::collections::BTreeSet;
use std::time::Duration;

use prost::Message as _;
use proto::mesos::v1;
use resources::capability::FrameworkCapability;
use resources::framework::FrameworkInfo;
use resources::id::{ExecutorId, FrameworkId, OfferId, TaskId, UpdateId};
use resources::opaque::Opaque;
use resources::task::{ExecutorInfo, StatusSource, StatusUpdate, TaskInfo, TaskState, TaskStatus};
use serde_json::Value;

use super::*;
use crate::http::answers;
use crate::http::roles::Roles;
use crate::http::shapes::framework::{FrameworkShape, Standing};
use crate::http::shapes::task::TaskShape;
use crate::http::usage::Usage;
use crate::leader::scheduler::Offer;
use crate::state::accept::{Accept, LaunchedTask, Step};
use crate::state::command::Subscription;

/// What the tests look at.
struct Scene {
    view: View,
    offers: Offers,
    authorizer: Authorizer,
    framework_id: FrameworkId,
}

impl Scene {
    fn with_rules(rules: &str) -> Self {
        let authorizer = Authorizer::new(Acls::parse(rules).unwrap());
        Self { authorizer, ..Self::new() }
    }

    /// A framework that runs a command on a volume and a task in an executor, and holds an offer.
    fn new() -> Self {
        let mut state = state();
        let framework_id = subscribe(&mut state, 5);
        launch(&mut state, 6, &framework_id);
        apply(&mut state, 7, running(&framework_id));
        let offers = Offers::from(vec![offer(&state, &framework_id)]);
        Self { view: of(&state), offers, authorizer: Authorizer::default(), framework_id }
    }

    fn picture(&self) -> Picture<'_> {
        let viewer = Viewer::new(&self.authorizer, None);
        Picture { view: &self.view, offers: &self.offers, viewer }
    }

    fn framework(&self) -> Value {
        let (picture, usage) = (self.picture(), Usage::of(&self.view.state));
        let framework = self.view.state.framework(&self.framework_id).unwrap();
        let standing = Standing::Live;
        let shape = FrameworkShape { picture, usage: &usage, framework, standing };
        serde_json::to_value(shape).unwrap()
    }

    fn printed(&self, answer: impl Fn(&Picture<'_>) -> v1::master::Response) -> Value {
        let answer = answer(&self.picture());
        serde_json::from_slice(&proto::json::encode_response(&answer)).unwrap()
    }
}

fn subscribe(state: &mut State, index: u64) -> FrameworkId {
    let label = v1::Label { key: "tier".to_owned(), value: Some("1".to_owned()) };
    let given = v1::FrameworkInfo {
        user: "bob".to_owned(),
        name: "web".to_owned(),
        roles: vec!["ads".to_owned()],
        webui_url: Some("http://s1/".to_owned()),
        labels: Some(v1::Labels { labels: vec![label] }),
        ..v1::FrameworkInfo::default()
    };
    let info = FrameworkInfo {
        name: "web".to_owned(),
        user: "bob".to_owned(),
        principal: Some(Principal::new("ops")),
        roles: [Role::parse("ads").unwrap()].into(),
        capabilities: [FrameworkCapability::MultiRole, FrameworkCapability::ReservationRefinement]
            .into(),
        failover_timeout: Duration::from_secs(60),
        checkpoint: true,
        hostname: "s1".to_owned(),
        min_allocatable: BTreeMap::new(),
        wire: given.encode_to_vec().into(),
    };
    let (suppressed, constraints) = (BTreeSet::new(), Opaque::default());
    let subscription = Box::new(Subscription { info, suppressed, constraints });
    let kind = CommandKind::Subscribe { framework_id: None, subscription };
    match apply(state, index, kind) {
        Response::Subscribed { framework_id, .. } => framework_id,
        other => panic!("{other}"),
    }
}

fn plain(text: &str) -> Vec<Resource> {
    parse::resources_text(text, &Role::star()).unwrap().iter().cloned().collect()
}

fn task_id(id: &str) -> TaskId {
    TaskId::parse(id).unwrap()
}

fn launch(state: &mut State, index: u64, framework_id: &FrameworkId) {
    let command = v1::TaskInfo {
        name: "server".to_owned(),
        command: Some(v1::CommandInfo {
            value: Some("sleep 1".to_owned()),
            user: Some("eve".to_owned()),
            ..v1::CommandInfo::default()
        }),
        limits: [("mem".to_owned(), v1::value::Scalar { value: f64::INFINITY })].into(),
        ..v1::TaskInfo::default()
    };
    let mut resources = plain("cpus:1;mem:64");
    resources.push(reserved(VOLUME));
    let server = TaskInfo {
        task_id: task_id("t1"),
        name: "server".to_owned(),
        resources,
        wire: command.encode_to_vec().into(),
    };
    let executor = v1::ExecutorInfo {
        name: Some("runner".to_owned()),
        r#type: Some(v1::executor_info::Type::Custom.into()),
        command: Some(v1::CommandInfo {
            value: Some("run".to_owned()),
            ..v1::CommandInfo::default()
        }),
        ..v1::ExecutorInfo::default()
    };
    let executor = ExecutorInfo {
        executor_id: ExecutorId::parse("e1").unwrap(),
        resources: plain("cpus:0.5;mem:32"),
        wire: executor.encode_to_vec().into(),
    };
    let worker = TaskInfo {
        task_id: task_id("t2"),
        name: "worker".to_owned(),
        resources: plain("cpus:0.5"),
        wire: Opaque::default(),
    };
    let offered = plain("cpus:8;mem:1024").into_iter().chain([reserved(VOLUME)]).collect();
    let launched = |task, executor| LaunchedTask { task, executor, refused: None };
    let tasks = vec![launched(server, None), launched(worker, Some(executor))];
    let accept = Accept {
        framework_id: framework_id.clone(),
        agent_id: AgentId::parse("c-S0").unwrap(),
        role: Role::parse("ads").unwrap(),
        offered,
        steps: vec![Step::Launch { tasks }],
    };
    let name = OperationId::parse("1-6").unwrap();
    let response = apply(state, index, CommandKind::Accept { name, accept: Box::new(accept) });
    assert!(matches!(response, Response::Judged { .. }), "{response}");
}

fn running(framework_id: &FrameworkId) -> CommandKind {
    let agent_id = AgentId::parse("c-S0").unwrap();
    let status = TaskStatus {
        task_id: task_id("t1"),
        state: TaskState::Running,
        agent_id: Some(agent_id.clone()),
        executor_id: Some(ExecutorId::of_command(&task_id("t1"))),
        source: StatusSource::Executor,
        reason: None,
        message: None,
        uuid: Some(UpdateId([7; 16])),
        at: Timestamp::from_nanos(9_000_000_000),
        unreachable_at: None,
        healthy: Some(true),
        data: Opaque::default(),
        wire: Opaque::default(),
    };
    let (framework_id, latest) = (framework_id.clone(), TaskState::Running);
    let updates = vec![StatusUpdate { framework_id, status, latest }];
    CommandKind::UpdateTasks { agent_id, updates, exited: Vec::new() }
}

fn offer(state: &State, framework_id: &FrameworkId) -> Offer {
    let agent = state.agents().next().unwrap();
    Offer {
        offer_id: OfferId::parse("c-O1-1").unwrap(),
        framework_id: framework_id.clone(),
        role: Role::parse("ads").unwrap(),
        agent_id: agent.id.clone(),
        agent: Arc::clone(&agent.info),
        resources: plain("cpus:2;mem:100").into_iter().collect(),
        executor_ids: vec![ExecutorId::parse("e1").unwrap()],
        unavailability: None,
    }
}

fn sums(cpus: f64, mem: f64, disk: f64) -> Value {
    json!({"cpus": cpus, "mem": mem, "disk": disk, "gpus": 0.0})
}

#[test]
fn a_framework_has_every_key() {
    let scene = Scene::new();
    let id = scene.framework_id.as_str();
    let server = json!({
        "id": "t1", "name": "server", "framework_id": id, "executor_id": "", "slave_id": "c-S0",
        "state": "TASK_RUNNING", "resources": sums(1.0, 64.0, 60.0),
        "limits": {"mem": "Infinity"}, "role": "ads", "user": "eve",
        "statuses": [{"state": "TASK_RUNNING", "timestamp": 9.0, "healthy": true}]});
    let worker = json!({
        "id": "t2", "name": "worker", "framework_id": id, "executor_id": "e1",
        "slave_id": "c-S0", "state": "TASK_STAGING", "resources": sums(0.5, 0.0, 0.0),
        "role": "ads", "statuses": []});
    let executor = json!({
        "executor_id": "e1", "name": "runner", "framework_id": id, "slave_id": "c-S0",
        "command": {"value": "run", "shell": true}, "type": "CUSTOM", "role": "ads",
        "resources": sums(0.5, 32.0, 0.0)});
    let expected = json!({
        "id": id, "name": "web", "user": "bob", "principal": "ops", "hostname": "s1",
        "webui_url": "http://s1/", "capabilities": ["MULTI_ROLE", "RESERVATION_REFINEMENT"],
        "active": true, "connected": true, "recovered": false, "checkpoint": true,
        "failover_timeout": 60.0, "registered_time": 6.5, "unregistered_time": 0.0,
        "roles": ["ads"], "labels": [{"key": "tier", "value": "1"}],
        "used_resources": sums(2.0, 96.0, 60.0), "offered_resources": sums(2.0, 100.0, 0.0),
        "resources": sums(4.0, 196.0, 60.0),
        "tasks": [server, worker], "unreachable_tasks": [], "completed_tasks": [],
        "offers": [{"id": "c-O1-1", "framework_id": id, "slave_id": "c-S0",
            "allocation_info": {"role": "ads"}, "resources": sums(2.0, 100.0, 0.0)}],
        "executors": [executor]});
    assert_eq!(scene.framework(), expected);
}

#[test]
fn an_agent_shows_what_is_used_and_offered() {
    let scene = Scene::new();
    let slaves = Slaves::of(&scene.picture(), None, Detail::Full);
    let slave = serde_json::to_value(&slaves.slaves[0]).unwrap();
    assert_eq!(slave["used_resources"], sums(2.0, 96.0, 60.0));
    assert_eq!(slave["offered_resources"], sums(2.0, 100.0, 0.0));
    let used = slave["used_resources_full"].as_array().unwrap();
    assert!(used.iter().all(|resource| resource["allocation_info"]["role"] == "ads"), "{used:?}");
    assert_eq!(used.len(), 3, "{used:?}");
    assert_eq!(slave["offered_resources_full"].as_array().unwrap().len(), 2);
    assert_eq!(slave["resources"]["cpus"], 8.0);
}

#[test]
fn get_tasks_and_get_executors() {
    let scene = Scene::new();
    let answer = scene.printed(answers::tasks);
    let tasks = answer["get_tasks"]["tasks"].as_array().unwrap();
    assert_eq!(answer["get_tasks"]["unreachable_tasks"], json!([]));
    let server = &tasks[0];
    assert_eq!(server["task_id"], json!({"value": "t1"}));
    assert_eq!(server["status_update_state"], "TASK_RUNNING");
    assert_eq!(server["statuses"][0]["uuid"], "BwcHBwcHBwcHBwcHBwcHBw==");
    assert_eq!(server["user"], "eve");
    let volume = &server["resources"][2];
    assert_eq!(volume["allocation_info"], json!({"role": "ads"}));
    assert_eq!(volume["reservations"][0]["role"], "ads");
    assert!(volume.get("role").is_none(), "{volume}");
    assert_eq!(tasks[1]["executor_id"], json!({"value": "e1"}));
    assert_eq!(tasks[1]["state"], "TASK_STAGING");

    let answer = scene.printed(answers::executors);
    let executors = answer["get_executors"]["executors"].as_array().unwrap();
    assert_eq!(executors.len(), 1);
    assert_eq!(executors[0]["agent_id"], json!({"value": "c-S0"}));
    let info = &executors[0]["executor_info"];
    assert_eq!(info["executor_id"], json!({"value": "e1"}));
    assert_eq!(info["framework_id"], json!({"value": scene.framework_id.as_str()}));
    assert_eq!(info["resources"][0]["scalar"]["value"], 0.5);
}

#[test]
fn get_frameworks() {
    let scene = Scene::new();
    let answer = scene.printed(answers::frameworks);
    assert_eq!(answer["get_frameworks"]["completed_frameworks"], json!([]));
    let framework = &answer["get_frameworks"]["frameworks"][0];
    let info = &framework["framework_info"];
    assert_eq!(info["id"], json!({"value": scene.framework_id.as_str()}));
    assert_eq!((&info["principal"], &info["roles"]), (&json!("ops"), &json!(["ads"])));
    assert_eq!((&framework["active"], &framework["recovered"]), (&json!(true), &json!(false)));
    assert_eq!(framework["offers"][0]["url"]["path"], "/slave(1)");
    assert_eq!(framework["offers"][0]["allocation_info"], json!({"role": "ads"}));
    let allocated = framework["allocated_resources"].as_array().unwrap();
    let cpus = allocated.iter().find(|resource| resource["name"] == "cpus").unwrap();
    assert_eq!(cpus["scalar"]["value"], 2.0);
    assert_eq!(framework["offered_resources"].as_array().unwrap().len(), 2);
}

#[test]
fn a_role_with_what_is_allocated_and_offered() {
    let scene = Scene::new();
    let roles = Roles::of(&scene.picture(), None);
    let roles = serde_json::to_value(&roles).unwrap();
    let expected = json!({"name": "ads", "weight": 1.0, "frameworks": [scene.framework_id],
        "allocated": {"cpus": 2.0, "mem": 96.0, "disk": 60.0},
        "offered": {"cpus": 2.0, "mem": 100.0}, "reserved": {"disk": 100.0},
        "resources": {"cpus": 4.0, "mem": 196.0, "disk": 60.0},
        "quota": {"role": "ads", "guarantee": {}, "limit": {},
            "consumed": {"disk": 100.0, "cpus": 2.0, "mem": 96.0}}});
    assert_eq!(roles["roles"][0], expected);
    let answer = scene.printed(|picture| answers::roles(&Roles::of(picture, None)));
    let ads = &answer["get_roles"]["roles"][0];
    assert_eq!(ads["frameworks"], json!([{"value": scene.framework_id.as_str()}]));
    assert_eq!(ads["resources"][0]["allocation_info"], json!({"role": "ads"}));
}

#[test]
fn users_may_be_hidden() {
    let names = |scene: &Scene| -> Vec<String> {
        let framework = scene.framework();
        let tasks = framework["tasks"].as_array().unwrap();
        tasks.iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
    };
    let hidden = |key: &str, user: &str| {
        let rule = json!([{"principals": {"type": "ANY"}, "users": {"values": [user]}}]);
        json!({key: rule, "permissive": false}).to_string()
    };
    let scene = Scene::with_rules(&hidden("view_tasks", "bob"));
    assert_eq!(names(&scene), ["t2"], "eve's is not shown");
    assert_eq!(scene.picture().frameworks().count(), 0, "nor is anything else");
    let scene = Scene::with_rules(&hidden("view_frameworks", "bob"));
    assert_eq!(scene.picture().frameworks().count(), 1);
    let none = scene.framework();
    assert_eq!((&none["tasks"], &none["executors"]), (&json!([]), &json!([])));
}

#[test]
fn a_removed_framework_keeps_its_end() {
    let mut state = state();
    let framework_id = subscribe(&mut state, 5);
    launch(&mut state, 6, &framework_id);
    let kind = CommandKind::RemoveFramework { framework_id, witness: None };
    apply(&mut state, 7, kind);
    let (view, offers, authorizer) = (of(&state), Offers::default(), Authorizer::default());
    let viewer = Viewer::new(&authorizer, None);
    let picture = Picture { view: &view, offers: &offers, viewer };
    assert_eq!(picture.frameworks().count(), 0);
    let framework = picture.completed_frameworks().next().unwrap();
    let usage = Usage::of(&view.state);
    let shape = FrameworkShape { picture, usage: &usage, framework, standing: Standing::Completed };
    let printed = serde_json::to_value(shape).unwrap();
    assert_eq!(printed["active"], false);
    assert_eq!(printed["unregistered_time"], 8.5);
    let tasks: Vec<_> = picture
        .known_tasks(framework)
        .chain(picture.completed_tasks(framework))
        .map(|task| serde_json::to_value(TaskShape::of(task)).unwrap()["state"].clone())
        .collect();
    assert_eq!(tasks, ["TASK_KILLED", "TASK_KILLED"]);
}
