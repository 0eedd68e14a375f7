//! The life of a volume, on a cluster of one master and one agent.

use std::fs;

use chaos::client::Outcome;
use chaos::cluster::Member;
use chaos::process::Signal;
use chaos::wait;

use crate::harness::{DEADLINE, Dev, ROLE, assert_success, operator_call, reserved, volume};

fn assert_refused(outcome: Outcome, expected: u16, part: &str) {
    match outcome {
        Outcome::Refused { status, text } => {
            assert_eq!(status, expected, "{text}");
            assert!(text.contains(part), "'{text}' lacks '{part}'");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn reserve_create_destroy_unreserve() {
    let dev = Dev::start(1, 1);
    let reservation = [reserved("cpus", 1.0), reserved("disk", 512.0)];
    assert_eq!(dev.operate(0, "RESERVE_RESOURCES", &reservation).await, Outcome::Accepted);
    let slave = dev.slave(0).await;
    assert_eq!(slave["reserved_resources"][ROLE]["disk"], 512.0);

    let created = [volume("v1", 128.0)];
    assert_eq!(dev.operate(0, "CREATE_VOLUMES", &created).await, Outcome::Accepted);
    let folder = dev.work_dir(0).join("volumes/roles").join(ROLE).join("v1");
    let entries: Vec<_> = fs::read_dir(&folder).unwrap().collect();
    assert!(entries.is_empty(), "users see an empty directory: {entries:?}");
    fs::write(folder.join("marker"), "kept").unwrap();

    let whole = dev.operate(0, "UNRESERVE_RESOURCES", &[reserved("disk", 512.0)]).await;
    assert_refused(whole, 409, "");
    let of_volume = dev.operate(0, "UNRESERVE_RESOURCES", &created).await;
    assert_refused(of_volume, 400, "Invalid UNRESERVE operation");
    let again = dev.operate(0, "CREATE_VOLUMES", &created).await;
    assert_refused(again, 400, "Invalid CREATE operation");
    assert_eq!(fs::read_to_string(folder.join("marker")).unwrap(), "kept");

    // What the agent has on its disk is what the master lists, and can be posted back.
    let agent = &dev.cluster.layout().agents[0].http;
    let state = dev.client.get(agent, "/state").await.unwrap();
    let listed = dev.slave(0).await["reserved_resources_full"].clone();
    assert_eq!(state["reserved_resources_full"], listed);
    let mut volumes = listed[ROLE].as_array().unwrap().clone();
    volumes.retain(|resource| resource["disk"].is_object());
    assert_eq!(volumes.len(), 1);
    assert_eq!(dev.operate(0, "DESTROY_VOLUMES", &volumes).await, Outcome::Accepted);
    assert!(!folder.exists(), "the data goes with the volume");
    assert_eq!(dev.operate(0, "UNRESERVE_RESOURCES", &reservation).await, Outcome::Accepted);
    let slave = dev.slave(0).await;
    assert_eq!(slave["reserved_resources_full"].as_object().unwrap().len(), 0);
    dev.assert_no_errors();
}

#[tokio::test]
async fn agent_killed_and_started_again_keeps_its_volume() {
    let mut dev = Dev::start(1, 1);
    let id = dev.agent_id(0).await;
    dev.operate(0, "RESERVE_RESOURCES", &[reserved("disk", 64.0)]).await;
    assert_eq!(dev.operate(0, "CREATE_VOLUMES", &[volume("v", 64.0)]).await, Outcome::Accepted);
    let marker = dev.work_dir(0).join("volumes/roles").join(ROLE).join("v/marker");
    fs::write(&marker, "kept").unwrap();

    let agent = Member::Agent(0);
    dev.cluster.signal(agent, Signal::KILL).unwrap();
    dev.cluster.ended(&[agent], DEADLINE).await.unwrap();
    // Operator calls on an agent that is away are accepted, and done when it is back.
    let leader = dev.leader_address().await;
    let call = operator_call(&id, "RESERVE_RESOURCES", &[reserved("mem", 7.0)]);
    assert_eq!(dev.client.call(&leader, &call).await, Outcome::Accepted);

    assert_success(&dev.resume());
    assert_eq!(dev.agent_id(0).await, id);
    let http = dev.cluster.layout().agents[0].http.clone();
    let master = dev.slave(0).await["reserved_resources_full"].clone();
    wait::until("the agent has both", DEADLINE, async || {
        let state = dev.client.get(&http, "/state").await?;
        match state["reserved_resources_full"] == master {
            true => Ok(()),
            false => Err(state["reserved_resources_full"].to_string()),
        }
    })
    .await
    .unwrap();
    assert!(master[ROLE].to_string().contains("\"mem\""), "{master}");
    assert_eq!(fs::read_to_string(&marker).unwrap(), "kept");
}
