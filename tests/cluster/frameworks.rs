//! Frameworks over the whole product: what a new leader knows without any agent, what a real
//! Mesos gets wrong (observed 3 and 11), and field report V05.

use std::fs;
use std::path::PathBuf;

use chaos::cluster::Member;
use chaos::process::Signal;
use chaos::wait;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Dev};
use crate::scheduler::{
    Framework, amount, create, launch, plain, reserve, reserved_for, volume_for,
};

const QUICK: [&str; 4] =
    ["--master-flag", "allocation-interval=50ms", "--agent-resources", "cpus:4;mem:1024;disk:1024"];

/// A task on a volume of 64 MB, started by one ACCEPT.
async fn task_on_volume(framework: &mut Framework, task_id: &str, command: &str) -> Value {
    let offer = framework.offers().await.remove(0);
    let disk = reserved_for("a", "disk", 64.0);
    let volume = volume_for("a", "v1", 64.0);
    let resources = [plain("cpus", 0.1), plain("mem", 32.0), volume.clone()];
    let operations = [
        reserve("reserve", &[disk]),
        create("create", &[volume]),
        launch(task_id, &offer, &resources, command),
    ];
    framework.accept(&[&offer], &operations).await;
    framework.reaches(task_id, "TASK_RUNNING").await;
    offer
}

fn volume_folder(dev: &Dev) -> PathBuf {
    dev.work_dir(0).join("volumes/roles/a/v1")
}

/// Goal F5: with all agents stopped, a new leader lists every reservation, volume, task, quota
/// and weight.
#[tokio::test]
async fn new_leader_knows_everything_without_an_agent() {
    let mut dev = Dev::start_with(3, 1, &QUICK);
    let mut framework = Framework::subscribe(&dev, "a").await;
    task_on_volume(&mut framework, "t1", "sleep 1000").await;
    let config = json!({"role": "a", "guarantees": {"cpus": {"value": 1.0}},
        "limits": {"cpus": {"value": 2.0}}});
    let quota =
        json!({"type": "UPDATE_QUOTA", "update_quota": {"quota_configs": [config.clone()]}});
    let infos = json!([{"role": "a", "weight": 2.5}]);
    let weights = json!({"type": "UPDATE_WEIGHTS", "update_weights": {"weight_infos": infos}});
    for call in [quota, weights] {
        dev.post("/api/v1", &[], &call).await.expect("a rule", 200, "");
    }
    let rules = [dev.read("/quota").await, dev.read("/weights").await];
    let before = dev.slave(0).await;
    dev.cluster.signal(Member::Agent(0), Signal::KILL).unwrap();
    dev.cluster.ended(&[Member::Agent(0)], DEADLINE).await.unwrap();
    let leader = Member::Master(dev.leader().await);
    dev.cluster.signal(leader, Signal::KILL).unwrap();
    dev.cluster.ended(&[leader], DEADLINE).await.unwrap();

    let after = dev.slave(0).await;
    for key in ["reserved_resources_full", "resources", "used_resources", "id"] {
        assert_eq!(after[key], before[key], "{key}");
    }
    assert!(after["reserved_resources_full"].to_string().contains("\"v1\""), "{after}");
    assert_eq!(after["active"], false);
    assert_eq!([dev.read("/quota").await, dev.read("/weights").await], rules);
    assert_eq!(rules[0]["configs"], json!([config]));
    let tasks = dev.read("/tasks").await;
    assert_eq!(tasks["tasks"][0]["id"], "t1", "{tasks}");
    assert_eq!(tasks["tasks"][0]["state"], "TASK_RUNNING", "{tasks}");
    framework.resubscribe().await;
    framework.call("RECONCILE", "reconcile", json!({"tasks": []})).await;
    let status = framework.status("t1").await;
    assert_eq!(status["state"], "TASK_RUNNING", "{status}");
    assert_eq!(status["reason"], "REASON_RECONCILIATION", "{status}");
    // The task is its agent's to end.
    crate::harness::assert_success(&dev.resume());
}

/// Observed 3: what SHRINK_VOLUME frees in an ACCEPT is offered again.
#[tokio::test]
async fn observed_3_what_a_shrink_frees_is_offered_again() {
    let dev = Dev::start_with(1, 1, &QUICK);
    let mut framework = Framework::subscribe(&dev, "a").await;
    let offer = framework.offers().await.remove(0);
    // Plain disk of the same reservation stays in the offer: that is where Mesos loses it.
    let operations = [
        reserve("reserve", &[reserved_for("a", "disk", 200.0)]),
        create("create", &[volume_for("a", "v1", 100.0)]),
    ];
    framework.accept(&[&offer], &operations).await;
    // What the agent has not confirmed yet is not offered.
    let offer = loop {
        let offer = framework.offers().await.remove(0);
        if amount(&offer["resources"], "disk") == 1024.0 {
            break offer;
        }
        framework.decline(0.0, &[offer]).await;
    };
    let shrink = json!({
        "type": "SHRINK_VOLUME",
        "id": {"value": "shrink"},
        "shrink_volume": {"volume": volume_for("a", "v1", 100.0), "subtract": {"value": 60.0}},
    });
    framework.accept(&[&offer], &[shrink]).await;
    assert_eq!(framework.feedback("shrink").await["state"], "OPERATION_FINISHED");
    loop {
        let offer = framework.offers().await.remove(0);
        let reserved: f64 = offer["resources"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|held| held["name"] == "disk" && held["disk"].is_null())
            .filter(|held| held["reservations"].as_array().is_some_and(|stack| !stack.is_empty()))
            .filter_map(|held| held["scalar"]["value"].as_f64())
            .sum();
        if reserved == 160.0 {
            break;
        }
        framework.decline(0.0, &[offer]).await;
    }
}

/// Observed 11: an ACCEPT or DECLINE that names another framework's offer leaves it alone.
#[tokio::test]
async fn observed_11_foreign_offers_are_left_alone() {
    let dev = Dev::start_with(1, 1, &QUICK);
    let mut owner = Framework::subscribe(&dev, "a").await;
    let offer = owner.offers().await.remove(0);
    let mut thief = Framework::subscribe(&dev, "b").await;
    thief.decline(0.0, std::slice::from_ref(&offer)).await;
    let stolen = [reserve("stolen", &[reserved_for("b", "cpus", 1.0)])];
    thief.accept(&[&offer], &stolen).await;
    assert_eq!(thief.feedback("stolen").await["state"], "OPERATION_ERROR");

    let own = [reserve("own", &[reserved_for("a", "cpus", 1.0)])];
    owner.accept(&[&offer], &own).await;
    assert_eq!(owner.feedback("own").await["state"], "OPERATION_FINISHED");
    let rescinded = owner.told.iter().find(|event| event["type"] == "RESCIND");
    assert_eq!(rescinded, None);
}

/// V05: what cleans sandboxes up never follows a link into a volume.
#[tokio::test]
async fn v05_cleaning_a_sandbox_leaves_the_volume() {
    let flags = [&QUICK[..], &["--agent-flag", "gc-delay=10ms"]].concat();
    let mut dev = Dev::start_with(1, 1, &flags);
    let mut framework = Framework::subscribe(&dev, "a").await;
    let command = "echo kept > data/marker; ln -s \"$PWD/data\" second; sleep 1000";
    let offer = task_on_volume(&mut framework, "t1", command).await;
    let marker = volume_folder(&dev).join("marker");
    wait::until("the marker", DEADLINE, async || match fs::read_to_string(&marker) {
        Ok(text) if text == "kept\n" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    let agent_id = offer["agent_id"]["value"].as_str().unwrap().to_owned();
    let sandbox = dev
        .work_dir(0)
        .join("slaves")
        .join(agent_id)
        .join("frameworks")
        .join(&framework.id)
        .join("executors/t1/runs/latest");
    assert!(sandbox.is_dir(), "{}", sandbox.display());

    dev.cluster.signal(Member::Agent(0), Signal::KILL).unwrap();
    dev.cluster.ended(&[Member::Agent(0)], DEADLINE).await.unwrap();
    crate::harness::assert_success(&dev.resume());
    framework.call("KILL", "kill", json!({"task_id": {"value": "t1"}})).await;
    framework.reaches("t1", "TASK_KILLED").await;
    wait::until("the sandbox is gone", DEADLINE, async || match sandbox.exists() {
        true => Err(format!("{} is there", sandbox.display())),
        false => Ok(()),
    })
    .await
    .unwrap();
    assert_eq!(fs::read_to_string(&marker).unwrap(), "kept\n");
}
