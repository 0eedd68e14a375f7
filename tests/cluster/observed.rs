//! What a real Mesos was seen doing wrong (spec, observed.md), and what happens here instead.

use chaos::cluster::Member;
use chaos::process::Signal;
use chaos::wait;
use reqwest::Method;
use serde_json::json;

use crate::ask::once;
use crate::harness::{DEADLINE, Dev, ROLE, assert_success, operator_call, reserved, volume};

/// Observed 4: an operator CREATE of a shared volume that is there already ended the master.
#[tokio::test]
async fn create_of_a_shared_volume_that_exists_is_refused() {
    let dev = Dev::start(1, 1);
    let mut shared = volume("s1", 32.0);
    shared["shared"] = json!({});
    dev.call(0, "RESERVE_RESOURCES", &[reserved("disk", 128.0)]).await.expect("disk", 202, "");
    dev.call(0, "CREATE_VOLUMES", std::slice::from_ref(&shared)).await.expect("first", 202, "");
    let before = dev.reserved_on(0).await;
    dev.call(0, "CREATE_VOLUMES", std::slice::from_ref(&shared)).await.expect("again", 400, "s1");
    let twice = [shared.clone(), shared];
    dev.call(0, "CREATE_VOLUMES", &twice).await.expect("twice in one call", 400, "s1");
    assert_eq!(dev.reserved_on(0).await, before);
    assert!(dev.cluster.is_alive(Member::Master(0)));
    dev.assert_no_errors();
}

/// Observed 6: 202 was forgotten when the agent died within the next milliseconds.
#[tokio::test]
async fn reservation_of_an_agent_killed_right_after_the_202_is_there() {
    let mut dev = Dev::start(1, 1);
    let member = Member::Agent(0);
    for round in 1..=5_u32 {
        let id = dev.agent_id(0).await;
        let leader = dev.leader_address().await;
        let call = operator_call(&id, "RESERVE_RESOURCES", &[reserved("mem", 1.0)]).to_string();
        let headers = [("content-type", "application/json")];
        let answer = once(Method::POST, &leader, "/api/v1", &headers, &call).await.unwrap();
        dev.cluster.signal(member, Signal::KILL).unwrap();
        answer.expect("reserve", 202, "");
        dev.cluster.ended(&[member], DEADLINE).await.unwrap();
        assert_success(&dev.resume());
        let http = dev.cluster.layout().agents[0].http.clone();
        wait::until("the agent has it", DEADLINE, async || {
            let state = dev.client.get(&http, "/state").await?;
            let on_disk = &state["reserved_resources"][ROLE]["mem"];
            if *on_disk == f64::from(round) { Ok(()) } else { Err(state.to_string()) }
        })
        .await
        .unwrap();
        assert_eq!(dev.agent_id(0).await, id);
        assert_eq!(dev.slave(0).await["reserved_resources"][ROLE]["mem"], f64::from(round));
    }
}

/// Observed 9: one master of three still acted on the unversioned endpoints.
#[tokio::test]
async fn one_master_of_three_answers_503_on_both_apis() {
    let dev = Dev::start(3, 1);
    let agent = dev.agent_id(0).await;
    let left = (dev.leader().await + 1) % 3;
    for killed in (0..3).filter(|place| *place != left) {
        dev.cluster.signal(Member::Master(killed), Signal::KILL).unwrap();
    }
    let address = dev.cluster.masters()[left].clone();
    let call = operator_call(&agent, "RESERVE_RESOURCES", &[reserved("mem", 1.0)]).to_string();
    let form = format!("slaveId={agent}&resources=[]");
    let urlencoded = "application/x-www-form-urlencoded";
    for (path, content_type, body) in [
        ("/api/v1", "application/json", call.as_str()),
        ("/master/reserve", urlencoded, form.as_str()),
        ("/create-volumes", urlencoded, form.as_str()),
    ] {
        wait::until(path, DEADLINE, async || {
            let headers = [("content-type", content_type)];
            let answer = once(Method::POST, &address, path, &headers, body).await;
            let answer = answer.map_err(|error| error.to_string())?;
            match answer.status == 503 && !answer.header("retry-after").is_empty() {
                true => Ok(()),
                false => Err(format!("{} {}", answer.status, answer.text)),
            }
        })
        .await
        .unwrap();
    }
}
