//! Custom executors, which the test plays over the executor API; their processes are real.

use std::fs;

use axum::body::Body;
use axum::http::Request;
use axum::http::header::CONTENT_TYPE;
use futures::StreamExt as _;
use proto::mesos::v1;
use proto::recordio::Decoder;
use resources::message::{AgentMessage, Instruction, MasterMessage};
use resources::task::{StatusReason, TaskState};
use serde_json::{Value, json};

use super::pilot::{Pilot, Task, executor_name, launch, sandbox, wait_for};
use super::rig::{Kind, Rig};
use crate::http::testing;

/// Executors here do not end by themselves.
const GRACE: [&str; 2] = ["--executor-shutdown-grace-period", "100ms"];

fn executor(id: &str) -> v1::ExecutorInfo {
    let line = "env > env; mv env environment; while true; do sleep 0.01; done";
    v1::ExecutorInfo {
        executor_id: v1::ExecutorId { value: id.to_owned() },
        command: Some(v1::CommandInfo { value: Some(line.to_owned()), ..Default::default() }),
        ..Default::default()
    }
}

fn task(id: &str) -> Task {
    Task::shell(id, "").change(|info| {
        info.command = None;
        info.data = Some(b"opaque".to_vec().into());
    })
}

/// An executor's end of the API.
struct Api<'a>(&'a Pilot);

impl Api<'_> {
    async fn call(&self, id: &str, call: Value) -> axum::response::Response {
        let mut body = json!({"executor_id": {"value": id}, "framework_id": {"value": "f"}});
        body.as_object_mut().unwrap().extend(call.as_object().unwrap().clone());
        let request = Request::post("/slave(1)/api/v1/executor");
        let request = request.header(CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(body.to_string())).unwrap();
        testing::answer(&self.0.handle, request).await
    }

    async fn status(&self, id: &str, call: Value) -> u16 {
        self.call(id, call).await.status().as_u16()
    }

    async fn subscribe(&self, id: &str, known: &[&str]) -> Events {
        let known: Vec<Value> = known
            .iter()
            .map(|id| json!({"name": id, "task_id": {"value": id}, "agent_id": {"value": "S0"}}))
            .collect();
        let call = json!({"type": "SUBSCRIBE", "subscribe": {"unacknowledged_tasks": known}});
        let response = self.call(id, call).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
        let stream = response.into_body().into_data_stream();
        Events { stream, decoder: Decoder::new(1 << 20) }
    }

    async fn update(&self, id: &str, task: &str, state: &str, uuid: &str) {
        let status = json!({"task_id": {"value": task}, "state": state, "uuid": uuid,
            "source": "SOURCE_EXECUTOR"});
        let update = json!({"type": "UPDATE", "update": {"status": status}});
        assert_eq!(self.status(id, update).await, 202);
    }
}

struct Events {
    stream: axum::body::BodyDataStream,
    decoder: Decoder,
}

impl Events {
    /// The next event, which must be of this kind; one record is one chunk.
    async fn next(&mut self, kind: &str) -> Value {
        let chunk = self.stream.next().await.expect("the stream is open").unwrap();
        let records = self.decoder.push(&chunk).unwrap();
        assert_eq!(records.len(), 1);
        let event: Value = serde_json::from_slice(&records[0]).unwrap();
        assert_eq!(event["type"], kind, "{event}");
        event[kind.to_lowercase().as_str()].clone()
    }
}

const UUIDS: [&str; 3] =
    ["AAAAAAAAAAAAAAAAAAAAAQ==", "AAAAAAAAAAAAAAAAAAAAAg==", "AAAAAAAAAAAAAAAAAAAAAw=="];

#[tokio::test]
async fn one_executor_runs_many_tasks() {
    let rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &GRACE).await;
    let first = launch(1, &[task("t1")], Some((executor("e"), true)), true);
    pilot.say(MasterMessage::Orders(vec![first])).await;
    wait_for_executor(&rig, "e").await;
    let environment = fs::read_to_string(sandbox(&rig, "e").join("environment")).unwrap();
    for line in [
        "MESOS_FRAMEWORK_ID=f\n",
        "MESOS_EXECUTOR_ID=e\n",
        "MESOS_SLAVE_ID=S0\n",
        "MESOS_CHECKPOINT=1\n",
        "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD=100ms\n",
        "MESOS_RECOVERY_TIMEOUT=15mins\n",
        "MESOS_AGENT_ENDPOINT=127.0.0.1:",
        "MESOS_SLAVE_PID=slave(1)@127.0.0.1:",
    ] {
        assert!(environment.contains(line), "{line} {environment}");
    }
    let heartbeat = json!({"type": "HEARTBEAT"});
    assert_eq!(Api(&pilot).status("e", heartbeat.clone()).await, 403);
    assert_eq!(Api(&pilot).status("other", heartbeat).await, 400);
    let mut events = Api(&pilot).subscribe("e", &[]).await;
    let subscribed = events.next("SUBSCRIBED").await;
    assert_eq!(subscribed["executor_info"]["executor_id"], json!({"value": "e"}));
    assert_eq!(subscribed["framework_info"]["id"], json!({"value": "f"}));
    assert_eq!(subscribed["agent_info"]["hostname"], json!("127.0.0.1"));
    let launched = events.next("LAUNCH").await;
    assert_eq!(launched["task"]["data"], json!("b3BhcXVl"));
    assert_eq!(launched["task"]["resources"][0]["name"], json!("cpus"));

    Api(&pilot).update("e", "t1", "TASK_RUNNING", UUIDS[0]).await;
    assert_eq!(events.next("ACKNOWLEDGED").await["uuid"], json!(UUIDS[0]));
    pilot.until_state("t1", TaskState::Running).await;
    // Said again, it is acknowledged again and goes nowhere.
    Api(&pilot).update("e", "t1", "TASK_RUNNING", UUIDS[0]).await;
    events.next("ACKNOWLEDGED").await;

    let second = launch(2, &[task("t2")], Some((executor("e"), false)), true);
    pilot.say(MasterMessage::Orders(vec![second])).await;
    assert_eq!(events.next("LAUNCH").await["task"]["task_id"], json!({"value": "t2"}));
    pilot.kill("t2", None).await;
    assert_eq!(events.next("KILL").await["task_id"], json!({"value": "t2"}));
    Api(&pilot).update("e", "t2", "TASK_KILLED", UUIDS[1]).await;
    events.next("ACKNOWLEDGED").await;
    pilot.until_state("t2", TaskState::Killed).await;

    let message = json!({"type": "MESSAGE", "message": {"data": "eA=="}});
    assert_eq!(Api(&pilot).status("e", message).await, 202);
    let is_word = |m: &AgentMessage| matches!(m, AgentMessage::FrameworkMessage { .. });
    pilot.until(|pilot| pilot.messages.iter().any(is_word)).await;
    let data = b"y".to_vec().into();
    pilot.instruct(Instruction::ExecutorMessage { executor: executor_name("e"), data }).await;
    assert_eq!(events.next("MESSAGE").await["data"], json!("eQ=="));

    let mut state = testing::get(&pilot.handle, "/state").await;
    let shown = state["frameworks"][0]["executors"][0].take();
    assert_eq!(shown["id"], json!("e"));
    assert_eq!(shown["tasks"][0]["id"], json!("t1"));
    assert_eq!(shown["directory"], json!(sandbox(&rig, "e").to_str().unwrap()));
    pilot.instruct(Instruction::ShutDownExecutor(executor_name("e"))).await;
    events.next("SHUTDOWN").await;
    Api(&pilot).update("e", "t1", "TASK_FINISHED", UUIDS[2]).await;
    pilot.until_state("t1", TaskState::Finished).await;
    assert_eq!(pilot.states("t1"), [TaskState::Running, TaskState::Finished]);
    pilot.stop().await;
}

async fn wait_for_executor(rig: &Rig, id: &str) {
    let runs = format!("slaves/S0/frameworks/f/executors/{id}/runs/latest/environment");
    wait_for(&rig.work_dir().join(runs)).await;
}

#[tokio::test]
async fn an_executor_comes_back_to_a_restarted_agent() {
    let rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &GRACE).await;
    let executors = [launch(1, &[task("t1")], Some((executor("e1"), true)), true), {
        launch(2, &[task("t2")], Some((executor("e2"), true)), true)
    }];
    pilot.say(MasterMessage::Orders(executors.into())).await;
    wait_for_executor(&rig, "e1").await;
    wait_for_executor(&rig, "e2").await;
    for (id, uuid) in [("e1", UUIDS[0]), ("e2", UUIDS[1])] {
        let mut events = Api(&pilot).subscribe(id, &[]).await;
        events.next("SUBSCRIBED").await;
        let task = events.next("LAUNCH").await["task"]["task_id"]["value"].clone();
        Api(&pilot).update(id, task.as_str().unwrap(), "TASK_RUNNING", uuid).await;
    }
    pilot.until_state("t1", TaskState::Running).await;
    pilot.until_state("t2", TaskState::Running).await;
    pilot.leave().await;
    let flags = ["--executor-reregistration-timeout", "300ms"];
    let flags = [&flags[..], &GRACE].concat();
    let mut pilot = Pilot::start(&rig, &flags).await;
    let mut events = Api(&pilot).subscribe("e1", &["t1"]).await;
    events.next("SUBSCRIBED").await;
    pilot.until_state("t2", TaskState::Failed).await;
    let reason = pilot.statuses.last().unwrap().status.reason;
    assert_eq!(reason, Some(StatusReason::ExecutorReregistrationTimeout));
    Api(&pilot).update("e1", "t1", "TASK_FINISHED", UUIDS[2]).await;
    pilot.until_state("t1", TaskState::Finished).await;
    pilot.instruct(Instruction::ShutDownFramework(super::pilot::framework_id())).await;
    events.next("ACKNOWLEDGED").await;
    events.next("SHUTDOWN").await;
    pilot.stop().await;
}

#[tokio::test]
async fn an_executor_that_never_speaks_is_ended() {
    let rig = Rig::new(Kind::Root);
    let mut pilot = Pilot::start(&rig, &["--executor-registration-timeout", "200ms"]).await;
    let order = launch(1, &[task("t1")], Some((executor("e"), true)), true);
    pilot.say(MasterMessage::Orders(vec![order])).await;
    pilot.until_state("t1", TaskState::Failed).await;
    let reason = pilot.statuses.last().unwrap().status.reason;
    assert_eq!(reason, Some(StatusReason::ExecutorRegistrationTimeout));
    pilot.until(|pilot| pilot.exits.len() == 1).await;
    // Killed while its executor is not there yet, a task never begins.
    let order = launch(2, &[task("t2")], Some((executor("late"), true)), true);
    pilot.say(MasterMessage::Orders(vec![order])).await;
    pilot.kill("t2", None).await;
    pilot.until_state("t2", TaskState::Killed).await;
    let reason = pilot.statuses.last().unwrap().status.reason;
    assert_eq!(reason, Some(StatusReason::TaskKilledDuringLaunch));
    pilot.until(|pilot| pilot.exits.len() == 2).await;
    pilot.stop().await;
}
