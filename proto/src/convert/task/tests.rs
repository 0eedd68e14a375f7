//! Tasks of the wire against the rules that need no state.

use serde_json::{Value, json};

use super::*;
use crate::json;

fn ids() -> (FrameworkId, AgentId, Role) {
    let framework_id = FrameworkId::parse("c-0001").unwrap();
    (framework_id, AgentId::parse("c-S0").unwrap(), Role::parse("ads").unwrap())
}

fn scalar(name: &str, value: f64) -> Value {
    json!({"name": name, "type": "SCALAR", "scalar": {"value": value}})
}

/// A task that breaks no rule, with `more` laid over it; null takes a member out.
fn task(more: &Value) -> Value {
    let mut task = json!({
        "name": "n", "task_id": {"value": "t"}, "agent_id": {"value": "c-S0"},
        "resources": [scalar("cpus", 1.0)], "command": {"value": "true"},
    });
    for (key, value) in more.as_object().unwrap() {
        task[key] = value.clone();
    }
    task
}

fn executor(more: &Value) -> Value {
    let mut executor = json!({"executor_id": {"value": "e"}, "command": {"value": "run"}});
    for (key, value) in more.as_object().unwrap() {
        executor[key] = value.clone();
    }
    executor
}

fn asked(wire: &Value) -> Result<AskedTask, InvalidWire> {
    let (framework_id, agent_id, role) = ids();
    let under = Under { framework_id: &framework_id, agent_id: &agent_id, role: &role };
    let message: v1::TaskInfo = json::decode(wire.to_string().as_bytes()).unwrap();
    AskedTask::from_wire(message, &under)
}

fn judged(wire: &Value) -> Result<(), InvalidTask> {
    let (framework_id, agent_id, role) = ids();
    let under = Under { framework_id: &framework_id, agent_id: &agent_id, role: &role };
    asked(wire).unwrap().check(&under)
}

#[track_caller]
fn good(more: Value) {
    assert_eq!(judged(&task(&more)), Ok(()), "{more}");
}

#[track_caller]
fn bad(more: Value, text: &str) {
    let error = judged(&task(&more)).expect_err(&more.to_string()).to_string();
    assert!(error.contains(text), "{more}: {error}");
}

#[test]
fn tasks_alone() {
    good(json!({}));
    bad(json!({"agent_id": {"value": "c-S1"}}), "agent 'c-S1'");
    bad(json!({"kill_policy": {"grace_period": {"nanoseconds": -1}}}), "kill_policy");
    bad(json!({"max_completion_time": {"nanoseconds": -1}}), "max_completion_time");
    bad(json!({"resources": []}), "no resources");
    bad(json!({"resources": [scalar("gpus", 0.5)]}), "gpus");
    bad(json!({"command": null}), "CommandInfo or ExecutorInfo");
    bad(json!({"executor": executor(&json!({}))}), "CommandInfo or ExecutorInfo");
    let other = json!({"name": "cpus", "type": "SCALAR", "scalar": {"value": 1},
        "allocation_info": {"role": "web"}});
    bad(json!({"resources": [other]}), "allocated to 'web'");
    let data = "A".repeat(4 * ((64 << 10) / 3 + 1));
    bad(json!({ "data": data }), "'data'");
}

#[test]
fn checks_have_the_part_of_their_type() {
    good(json!({"check": {"type": "COMMAND", "command": {"command": {"value": "x"}}}}));
    bad(json!({"check": {}}), "check.type");
    bad(json!({"check": {"type": "UNKNOWN"}}), "check.type");
    bad(json!({"check": {"type": "COMMAND"}}), "check.command");
    bad(json!({"check": {"type": "COMMAND", "command": {"command": {}}}}), "value");
    bad(json!({"check": {"type": "HTTP", "http": {"port": 1, "path": "x"}}}), "check.http.path");
    bad(json!({"check": {"type": "TCP"}}), "check.tcp");
    bad(json!({"check": {"type": "TCP", "tcp": {"port": 1}, "delay_seconds": -1}}), "delay");
    good(json!({"health_check": {"type": "HTTP", "http": {"port": 1, "scheme": "https"}}}));
    bad(json!({"health_check": {"type": "HTTP", "http": {"port": 1, "scheme": "ftp"}}}), "scheme");
    bad(json!({"health_check": {"http": {"port": 1}}}), "health_check.type");
    let endless = json!({"type": "TCP", "tcp": {"port": 1}, "grace_period_seconds": -0.5});
    bad(json!({ "health_check": endless }), "grace_period");
}

#[test]
fn commands_and_containers() {
    let command = |variable: Value| {
        let environment = json!({"variables": [variable]});
        json!({"command": {"value": "x", "environment": environment}})
    };
    good(command(json!({"name": "A", "value": ""})));
    bad(command(json!({"name": "A"})), "environment.variables.value");
    bad(command(json!({"name": "A=B", "value": "x"})), "environment.variables.name");
    bad(command(json!({"name": "A", "type": "SECRET"})), "environment.variables.secret");
    let container = |volume: Value| json!({"container": {"type": "MESOS", "volumes": [volume]}});
    good(container(json!({"container_path": "a", "mode": "RW", "host_path": "/x"})));
    bad(container(json!({"container_path": "a", "mode": "RW"})), "source");
    let path = |path: &str| {
        let sandbox_path = json!({"type": "SELF", "path": path});
        let source = json!({"type": "SANDBOX_PATH", "sandbox_path": sandbox_path});
        container(json!({"container_path": "a", "mode": "RW", "source": source}))
    };
    good(path("a/b"));
    bad(path("a/../b"), "sandbox_path.path");
}

#[test]
fn limits_lie_above_requests() {
    let limits = |name: &str, value: Value| json!({"limits": {name: {"value": value}}});
    good(limits("cpus", json!(1.0)));
    good(limits("mem", json!("Infinity")));
    bad(limits("disk", json!(5)), "'disk'");
    bad(limits("cpus", json!(0.5)), "limit");
    bad(limits("mem", json!(-1)), "limit");
    bad(limits("mem", json!("-Infinity")), "limit");
}

#[test]
fn executors_of_tasks() {
    let with = |more: Value| json!({"command": null, "executor": executor(&more)});
    good(with(json!({})));
    good(with(json!({"type": "CUSTOM", "framework_id": {"value": "c-0001"}})));
    bad(with(json!({"type": "DEFAULT"})), "DEFAULT");
    bad(with(json!({"command": null})), "executor.command");
    bad(with(json!({"executor_id": {"value": "a/b"}})), "invalid ID");
    bad(with(json!({"framework_id": {"value": "c-0002"}})), "c-0002");
    bad(with(json!({"shutdown_grace_period": {"nanoseconds": -1}})), "shutdown_grace_period");
}

#[test]
fn groups_stand_or_fall_together() {
    let (framework_id, agent_id, role) = ids();
    let under = Under { framework_id: &framework_id, agent_id: &agent_id, role: &role };
    let sized = json!([scalar("cpus", 0.1), scalar("mem", 32.0), scalar("disk", 10.0)]);
    let group = |more: Value, tasks: &[Value]| {
        let mut wire =
            json!({"executor_id": {"value": "e"}, "type": "DEFAULT", "resources": sized});
        for (key, value) in more.as_object().unwrap() {
            wire[key] = value.clone();
        }
        let message: v1::ExecutorInfo = json::decode(wire.to_string().as_bytes()).unwrap();
        let executor = AskedExecutor::from_wire(message, &under).unwrap();
        let tasks: Vec<AskedTask> = tasks.iter().map(|wire| asked(&task(wire)).unwrap()).collect();
        executor.check_group(&tasks, &under)
    };
    let second = json!({"task_id": {"value": "t2"}});
    assert_eq!(group(json!({}), &[json!({}), second]), Ok(()));
    assert!(group(json!({}), &[json!({}), json!({})]).is_err(), "one name twice");
    assert!(group(json!({"type": null}), &[json!({})]).is_err());
    assert!(group(json!({"command": {"value": "x"}}), &[json!({})]).is_err());
    assert!(group(json!({"type": "CUSTOM"}), &[json!({})]).is_err());
    assert!(group(json!({"resources": []}), &[json!({})]).is_err());
    assert!(group(json!({}), &[json!({"executor": executor(&json!({}))})]).is_err());
    assert!(group(json!({}), &[json!({"container": {"type": "DOCKER"}})]).is_err());
}

#[test]
fn the_message_travels_without_resources() {
    let executor = executor(&json!({"resources": [scalar("mem", 32.0)], "data": "AAE="}));
    let labels = json!({"labels": [{"key": "k"}]});
    let wire = task(&json!({"command": null, "executor": executor, "labels": labels}));
    let asked = asked(&wire).unwrap();
    let ads = Role::parse("ads").unwrap();
    assert_eq!(asked.resources[0].allocation_role.as_ref(), Some(&ads));
    let (task, executor) = asked.into_domain();
    assert_eq!(task.resources[0].allocation_role, None);
    let stored = message(task.wire.as_bytes());
    assert!(stored.resources.is_empty());
    assert_eq!(stored.labels.unwrap().labels[0].key, "k");
    assert!(stored.executor.unwrap().resources.is_empty());
    let executor = executor.unwrap();
    assert_eq!(executor.resources.len(), 1);
    let stored = executor_message(executor.wire.as_bytes());
    assert_eq!(stored.framework_id.unwrap().value, "c-0001");
    assert_eq!(stored.data.as_deref(), Some(&[0, 1][..]));
    assert!(stored.resources.is_empty());
}

#[test]
fn users_of_tasks() {
    let user = |more: Value| asked(&task(&more)).unwrap().user().map(str::to_owned);
    assert_eq!(user(json!({})), None);
    assert_eq!(user(json!({"command": {"value": "x", "user": "u"}})).as_deref(), Some("u"));
    let executor = executor(&json!({"command": {"value": "x", "user": "e"}}));
    assert_eq!(user(json!({"command": null, "executor": executor})).as_deref(), Some("e"));
}
