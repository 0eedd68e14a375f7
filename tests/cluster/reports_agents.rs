//! Field reports about agents that are away, drained or gone: V06, V08, A11, A14 and A15.

use std::fs;
use std::path::{Path, PathBuf};

use chaos::cluster::{Cluster, Member};
use chaos::process::Signal;
use chaos::wait;
use serde_json::{Value, json};

use crate::ask::CHECKPOINTED;
use crate::harness::{DEADLINE, Dev, assert_success, errors, holdfast, reserved, volume};
use crate::scheduler::{Framework, create, launch, plain, reserve, reserved_for, volume_for};

/// Agents that are silent for two seconds are away, and unreachable soon after.
const FLAGS: [&str; 8] = [
    "--master-flag",
    "allocation-interval=50ms",
    "--master-flag",
    "agent-ping-timeout=1s",
    "--master-flag",
    "max-agent-ping-timeouts=1",
    "--agent-resources",
    "cpus:4;mem:1024;disk:1024",
];

const UNKNOWN: &str = "No agent found with specified ID";

/// A call about a whole agent.
fn about(kind: &str, agent_id: &str) -> Value {
    json!({"type": kind, kind.to_lowercase(): {"agent_id": {"value": agent_id}}})
}

/// Waits until `/slaves` shows what is wanted.
async fn shown<T>(dev: &Dev, what: &str, wanted: impl Fn(&Value) -> Option<T>) -> T {
    wait::until(what, DEADLINE, async || {
        let slaves = dev.read("/slaves").await;
        wanted(&slaves).ok_or_else(|| slaves.to_string())
    })
    .await
    .unwrap()
}

/// The entry of an agent in one of the lists.
fn listed(slaves: &Value, list: &str, agent_id: &str) -> Option<Value> {
    let entries = slaves[list].as_array()?;
    entries.iter().find(|entry| entry["id"] == agent_id).cloned()
}

async fn unreachable(dev: &Dev, agent_id: &str) -> Value {
    shown(dev, "the agent is unreachable", |slaves| listed(slaves, "unreachable_slaves", agent_id))
        .await
}

async fn active(dev: &Dev, agent_id: &str) -> Value {
    shown(dev, "the agent is active", |slaves| {
        listed(slaves, "slaves", agent_id).filter(|entry| entry["active"] == true)
    })
    .await
}

fn volume_folder(dev: &Dev) -> PathBuf {
    dev.work_dir(0).join("volumes/roles/ads/v1")
}

/// Starts a task on the volume `v1` of 64 MB.
async fn task_on_volume(framework: &mut Framework, task_id: &str, command: &str) {
    let offer = framework.offers().await.remove(0);
    let volume = volume_for("ads", "v1", 64.0);
    let resources = [plain("cpus", 0.1), plain("mem", 32.0), volume.clone()];
    let operations = [
        reserve("reserve", &[reserved_for("ads", "disk", 64.0)]),
        create("create", &[volume]),
        launch(task_id, &offer, &resources, command),
    ];
    framework.accept(&[&offer], &operations).await;
    framework.reaches(task_id, "TASK_RUNNING").await;
}

/// Waits for an offer with the volume `v1`; it must be in there once.
async fn offered_volume(framework: &mut Framework) {
    loop {
        let offers = framework.offers().await;
        let holding = |offer: &Value| offer["resources"].to_string().matches("\"v1\"").count();
        match offers.iter().map(holding).sum::<usize>() {
            0 => framework.decline(0.0, &offers).await,
            times => return assert_eq!(times, 1, "{offers:?}"),
        }
    }
}

/// The process that a task wrote into its volume.
async fn process_of_task(dev: &Dev) -> PathBuf {
    let file = volume_folder(dev).join("pid");
    wait::until("the task's process", DEADLINE, async || {
        let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
        let id: u32 = text.trim().parse().map_err(|_| format!("'{text}'"))?;
        Ok(Path::new("/proc").join(id.to_string()))
    })
    .await
    .unwrap()
}

/// V06: unreachable is not gone. What the agent holds stays listed, no call touches it, and it
/// comes back with the agent, once.
#[tokio::test]
async fn v06_volumes_of_an_unreachable_agent_come_back_with_it() {
    let dev = Dev::start_with(1, 1, &FLAGS);
    let id = dev.agent_id(0).await;
    dev.call(0, "RESERVE_RESOURCES", &[reserved("disk", 64.0)]).await.operation_id();
    dev.call(0, "CREATE_VOLUMES", &[volume("v1", 64.0)]).await.operation_id();
    fs::write(volume_folder(&dev).join("marker"), "kept").unwrap();

    dev.cluster.signal(Member::Agent(0), Signal::STOP).unwrap();
    let away = unreachable(&dev, &id).await;
    assert!(away["reserved_resources_full"].to_string().contains("\"v1\""), "{away}");
    let volumes = dev.read("/api/v1/volumes").await;
    assert_eq!(
        (&volumes[0]["id"], &volumes[0]["agent_state"]),
        (&json!("v1"), &json!("unreachable"))
    );
    let address = dev.leader_address().await;
    let list = holdfast(&["--master", &address, "agent", "list"]);
    assert_success(&list);
    assert!(String::from_utf8_lossy(&list.stdout).contains("unreachable"), "{list:?}");
    let destroy =
        chaos::drills::workload::operator_call(&id, "DESTROY_VOLUMES", &[volume("v1", 64.0)]);
    dev.post("/api/v1", &[], &destroy).await.expect("DESTROY", 400, UNKNOWN);
    assert_eq!(dev.read("/api/v1/volumes").await, volumes, "nothing changed");

    dev.cluster.signal(Member::Agent(0), Signal::CONT).unwrap();
    let back = active(&dev, &id).await;
    assert_eq!(back["reserved_resources_full"], away["reserved_resources_full"]);
    let mut framework = Framework::subscribe(&dev, "ads").await;
    offered_volume(&mut framework).await;
    assert_eq!(fs::read_to_string(volume_folder(&dev).join("marker")).unwrap(), "kept");
    dev.assert_no_errors();
}

/// V08: a gone agent takes its volumes out of every list but the one of what was, and never comes
/// back; the data on its disk is nobody's to remove.
#[tokio::test]
async fn v08_a_gone_agent_takes_its_volumes_along() {
    let mut dev = Dev::start_with(1, 2, &FLAGS);
    let id = dev.agent_id(1).await;
    let operations: Vec<Value> = [json!({"type": "RESERVE", "agent_id": id,
        "reserve": {"resources": [reserved("disk", 100.0)]}})]
    .into_iter()
    .chain((0..100).map(|n| {
        let volumes = [volume(&format!("v{n}"), 1.0)];
        json!({"type": "CREATE", "agent_id": id, "create": {"volumes": volumes}})
    }))
    .collect();
    let path = CHECKPOINTED.replace("/api/v1?", "/api/v1/transaction?");
    let made = dev.post(&path, &[], &json!({"operations": operations})).await;
    assert_eq!(made.status, 202, "{}", made.text);
    let data = dev.work_dir(1).join("volumes/roles/ads/v7/precious");
    fs::write(&data, "kept").unwrap();

    dev.cluster.signal(Member::Agent(1), Signal::KILL).unwrap();
    dev.cluster.ended(&[Member::Agent(1)], DEADLINE).await.unwrap();
    let address = dev.leader_address().await;
    let gone = |further: &[&str]| {
        holdfast(&[&["--master", address.as_str(), "agent", "gone", id.as_str()], further].concat())
    };
    let unsure = gone(&[]);
    assert_eq!(unsure.status.code(), Some(2), "nobody was asked: {}", errors(&unsure));
    assert_success(&gone(&["--dry-run"]));
    assert_eq!(dev.read("/api/v1/volumes").await.as_array().unwrap().len(), 100);
    assert_success(&gone(&["--yes"]));
    assert_eq!(dev.read("/api/v1/volumes").await, json!([]));
    let kept = dev.read("/api/v1/agents?gone=true").await;
    assert_eq!(kept[0]["id"], id.as_str());
    let volumes = kept[0]["held"].as_array().unwrap();
    assert_eq!(volumes.iter().filter(|held| held["disk"].is_object()).count(), 100);
    dev.post("/api/v1", &[], &about("MARK_AGENT_GONE", &id)).await.expect("again", 200, "");
    dev.call(0, "RESERVE_RESOURCES", &[reserved("cpus", 1.0)]).await.operation_id();

    dev.cluster.start(Member::Agent(1)).unwrap();
    dev.cluster.ended(&[Member::Agent(1)], DEADLINE).await.unwrap();
    let log = fs::read_to_string(dev.cluster.log(Member::Agent(1))).unwrap();
    assert!(log.contains("gone"), "{log}");
    assert_eq!(fs::read_to_string(&data).unwrap(), "kept");
    let slaves = dev.read("/slaves").await;
    assert_eq!(slaves["slaves"].as_array().unwrap().len(), 1, "{slaves}");
}

/// A11: a drain outlives the agent's absence and the leader; it ends when the agent is back and
/// its tasks have ended, and until somebody reactivates the agent nothing of it is offered.
#[tokio::test]
async fn a11_a_drain_outlives_absence_and_leader() {
    let dev = Dev::start_with(3, 1, &FLAGS);
    let id = dev.agent_id(0).await;
    let mut framework = Framework::subscribe(&dev, "ads").await;
    task_on_volume(&mut framework, "t1", "sleep 1000").await;
    dev.cluster.signal(Member::Agent(0), Signal::STOP).unwrap();
    unreachable(&dev, &id).await;
    let mut drain = about("DRAIN_AGENT", &id);
    drain["drain_agent"]["max_grace_period"] = json!({"seconds": 1});
    dev.post("/api/v1", &[], &drain).await.expect("DRAIN_AGENT", 200, "");

    let leader = Member::Master(dev.leader().await);
    dev.cluster.signal(leader, Signal::KILL).unwrap();
    dev.cluster.ended(&[leader], DEADLINE).await.unwrap();
    let away = unreachable(&dev, &id).await;
    assert_eq!(away["drain_info"]["state"], "DRAINING", "{away}");
    assert_eq!((&away["active"], &away["deactivated"]), (&json!(false), &json!(true)));
    let early = dev.post("/api/v1", &[], &about("REACTIVATE_AGENT", &id)).await;
    assert_eq!(early.status, 400, "{}", early.text);

    framework.resubscribe().await;
    dev.cluster.signal(Member::Agent(0), Signal::CONT).unwrap();
    framework.reaches("t1", "TASK_KILLED").await;
    let drained = shown(&dev, "the agent is drained", |slaves| {
        listed(slaves, "slaves", &id).filter(|entry| entry["drain_info"]["state"] == "DRAINED")
    })
    .await;
    assert!(drained["reserved_resources_full"].to_string().contains("\"v1\""), "{drained}");
    let offers = framework.told.iter().find(|event| event["type"] == "OFFERS");
    assert_eq!(offers, None, "nothing of a draining agent is offered");
    let address = dev.leader_address().await;
    assert_success(&holdfast(&["--master", &address, "agent", "reactivate", &id]));
    offered_volume(&mut framework).await;
    active(&dev, &id).await;
}

/// A14: an agent that died is unreachable although the leader that waited for it died, too; and
/// it is active again when it returns at another address.
#[tokio::test]
async fn a14_absence_and_return_converge_under_another_leader() {
    let flags = FLAGS.map(|flag| flag.replace("timeouts=1", "timeouts=4"));
    let mut dev = Dev::start_with(3, 1, &flags.each_ref().map(String::as_str));
    let id = dev.agent_id(0).await;
    let agent = Member::Agent(0);
    dev.cluster.signal(agent, Signal::KILL).unwrap();
    dev.cluster.ended(&[agent], DEADLINE).await.unwrap();
    wait::until("the agent is away", DEADLINE, async || {
        let agents = dev.read("/api/v1/agents").await;
        let in_seconds = agents[0]["unreachable_in"].as_f64();
        in_seconds.filter(|_| agents[0]["presence"] == "AWAY").ok_or_else(|| agents.to_string())
    })
    .await
    .unwrap();
    let leader = Member::Master(dev.leader().await);
    dev.cluster.signal(leader, Signal::KILL).unwrap();
    dev.cluster.ended(&[leader], DEADLINE).await.unwrap();
    unreachable(&dev, &id).await;

    let mut layout = dev.cluster.layout().clone();
    let (old, new) = (layout.agents[0].http.clone(), format!("127.0.0.2:{}", dev.port + 30));
    for argument in &mut layout.agents[0].argv {
        *argument = argument.replace(&old, &new);
    }
    // A name that follows from the address is another name, and not the same agent.
    layout.agents[0].argv.push("--hostname=127.0.0.1".to_owned());
    layout.agents[0].http.clone_from(&new);
    dev.cluster = Cluster::new(dev.dir(), layout);
    dev.cluster.start(agent).unwrap();
    let back = active(&dev, &id).await;
    assert_eq!(back["pid"], format!("slave(1)@{new}"));
    let slaves = dev.read("/slaves").await;
    assert_eq!(slaves["slaves"].as_array().unwrap().len(), 1, "{slaves}");
    assert_eq!(slaves["unreachable_slaves"], json!([]));
}

/// A15: a task of a framework that was removed meanwhile ends when its agent returns, and its
/// volume is offered once, with its data.
#[tokio::test]
async fn a15_tasks_of_removed_frameworks_end_when_their_agent_returns() {
    let dev = Dev::start_with(1, 1, &FLAGS);
    let id = dev.agent_id(0).await;
    let mut framework = Framework::subscribe(&dev, "ads").await;
    let command = "echo kept > data/marker; echo $$ > data/pid; exec sleep 1000";
    task_on_volume(&mut framework, "t1", command).await;
    let process = process_of_task(&dev).await;
    dev.cluster.signal(Member::Agent(0), Signal::STOP).unwrap();
    framework.reaches("t1", "TASK_UNREACHABLE").await;
    unreachable(&dev, &id).await;
    assert!(process.exists(), "the task goes on");
    framework.call("TEARDOWN", "teardown", json!({})).await;

    dev.cluster.signal(Member::Agent(0), Signal::CONT).unwrap();
    wait::until("the task has ended", DEADLINE, async || match process.exists() {
        true => Err(format!("{} is there", process.display())),
        false => Ok(()),
    })
    .await
    .unwrap();
    let mut next = Framework::subscribe(&dev, "ads").await;
    offered_volume(&mut next).await;
    assert_eq!(fs::read_to_string(volume_folder(&dev).join("marker")).unwrap(), "kept\n");
}

/// A15 without a removal: the task runs on, under the same id, and its framework hears so.
#[tokio::test]
async fn a15_tasks_run_on_when_their_agent_returns() {
    let dev = Dev::start_with(1, 1, &FLAGS);
    let id = dev.agent_id(0).await;
    let mut framework = Framework::subscribe(&dev, "ads").await;
    task_on_volume(&mut framework, "t1", "echo $$ > data/pid; exec sleep 1000").await;
    let process = process_of_task(&dev).await;
    dev.cluster.signal(Member::Agent(0), Signal::STOP).unwrap();
    let lost = framework.reaches("t1", "TASK_UNREACHABLE").await;
    assert_eq!(lost["reason"], "REASON_AGENT_REMOVED", "{lost}");
    assert!(lost["unreachable_time"].is_object(), "{lost}");
    let tasks = dev.read("/tasks").await;
    assert_eq!(tasks["tasks"][0]["state"], "TASK_UNREACHABLE", "{tasks}");
    let frameworks = dev.read("/frameworks").await;
    assert_eq!(frameworks["frameworks"][0]["unreachable_tasks"][0]["id"], "t1", "{frameworks}");

    dev.cluster.signal(Member::Agent(0), Signal::CONT).unwrap();
    let back = framework.reaches("t1", "TASK_RUNNING").await;
    assert_eq!(back["agent_id"]["value"], id.as_str());
    active(&dev, &id).await;
    assert!(process.exists(), "it is the same task");
    let frameworks = dev.read("/frameworks").await;
    assert_eq!(frameworks["frameworks"][0]["unreachable_tasks"], json!([]));
    assert_eq!(frameworks["frameworks"][0]["tasks"][0]["state"], "TASK_RUNNING");
}
