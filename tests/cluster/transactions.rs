//! Several operations as one: all or none at commit, in one log entry; PARTIAL when an agent
//! cannot make a directory; a dry run that writes nothing.

use std::fs;

use chaos::cluster::Member;
use chaos::process::Signal;
use chaos::wait;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Dev, ROLE, errors, holdfast, reserved, volume};

const PATH: &str = "/api/v1/transaction";

fn reserve(agent: &str, resources: &[Value]) -> Value {
    json!({"agent_id": agent, "type": "RESERVE", "reserve": {"resources": resources}})
}

fn create(agent: &str, volumes: &[Value]) -> Value {
    json!({"agent_id": agent, "type": "CREATE", "create": {"volumes": volumes}})
}

async fn agents(dev: &Dev) -> [String; 2] {
    [dev.agent_id(0).await, dev.agent_id(1).await]
}

#[tokio::test]
async fn all_or_nothing_over_two_agents_and_a_killed_leader() {
    let dev = Dev::start(3, 2);
    let [one, two] = &agents(&dev).await;
    let good = reserve(one, &[reserved("mem", 32.0)]);
    let before = [dev.slave(0).await, dev.slave(1).await];
    let index = dev.last_log().await;
    for (bad, status, what) in [
        (reserve(two, &[reserved("cpus", 1e6)]), 409, "too much on the other agent"),
        (reserve(two, &[reserved("cpus", -1.0)]), 400, "a wrong form"),
        (reserve("nobody-S9", &[reserved("cpus", 1.0)]), 400, "an unknown agent"),
    ] {
        let body = json!({"operations": [good, bad]});
        let answer = dev.post(PATH, &[("holdfast-errors", "json")], &body).await;
        answer.expect(what, status, "");
        assert_eq!(answer.json()["index"], 1, "{what}: {}", answer.text);
    }
    for (place, before) in before.iter().enumerate() {
        let after = dev.slave(place).await;
        assert_eq!(after["reserved_resources_full"], before["reserved_resources_full"]);
        assert_eq!(after["resource_version"], before["resource_version"]);
    }
    assert_eq!(dev.last_log().await, index, "a refusal is no log entry");

    // Later operations see what earlier ones made.
    let body = json!({"operations": [
        good,
        reserve(two, &[reserved("disk", 64.0)]),
        create(two, &[volume("t1", 48.0)]),
    ]});
    let headers = [("idempotency-key", "all")];
    let answer = dev.post(PATH, &headers, &body).await;
    answer.expect("all", 202, "");
    let accepted = answer.json();
    assert_eq!(accepted["operation_ids"].as_array().unwrap().len(), 3);
    let leader = Member::Master(dev.leader().await);
    dev.cluster.signal(leader, Signal::KILL).unwrap();
    dev.cluster.ended(&[leader], DEADLINE).await.unwrap();
    let again = dev.post(PATH, &headers, &body).await.json();
    assert_eq!(again["transaction_id"], accepted["transaction_id"]);
    assert_eq!(dev.slave(0).await["reserved_resources"][ROLE]["mem"], 32.0);
    assert_eq!(dev.slave(1).await["reserved_resources"][ROLE]["disk"], 64.0);
    let transaction = settled(&dev, &accepted).await;
    assert_eq!(transaction["state"], "TRANSACTION_FINISHED");
    assert!(dev.work_dir(1).join("volumes/roles").join(ROLE).join("t1").is_dir());
}

/// The record of a transaction once no agent owes an answer.
async fn settled(dev: &Dev, accepted: &Value) -> Value {
    let path = format!("/api/v1/transactions/{}", accepted["transaction_id"].as_str().unwrap());
    wait::until("the transaction is settled", DEADLINE, async || {
        let answer = dev.ask(Method::GET, &path, &[], "").await;
        match answer.status == 200 && answer.json()["settled_at"].is_number() {
            true => Ok(answer.json()),
            false => Err(answer.text),
        }
    })
    .await
    .unwrap()
}

/// Only CREATE can fail on an agent. The rest of its transaction stands, and the record says so.
#[tokio::test]
async fn create_that_fails_on_its_agent_makes_it_partial() {
    let dev = Dev::start(1, 2);
    let [one, two] = &agents(&dev).await;
    // Where the directory of the role would be made stands a file.
    let roles = dev.work_dir(1).join("volumes/roles");
    fs::create_dir_all(&roles).unwrap();
    fs::write(roles.join(ROLE), "in the way").unwrap();
    let body = json!({"operations": [
        reserve(one, &[reserved("mem", 32.0)]),
        reserve(two, &[reserved("disk", 64.0)]),
        create(two, &[volume("t1", 48.0)]),
    ]});
    let answer = dev.post(PATH, &[], &body).await;
    answer.expect("committed", 202, "");
    let accepted = answer.json();
    let record = settled(&dev, &accepted).await;
    assert_eq!(record["state"], "TRANSACTION_PARTIAL", "{record}");
    assert_eq!(record["failed"], json!([accepted["operation_ids"][2]]));
    let failed = accepted["operation_ids"][2].as_str().unwrap();
    let operation = dev.read(&format!("/api/v1/operations/{failed}")).await;
    assert_eq!(operation["state"], "OPERATION_FAILED");
    assert_eq!(dev.slave(0).await["reserved_resources"][ROLE]["mem"], 32.0);
    let slave = dev.slave(1).await;
    assert_eq!(slave["reserved_resources"][ROLE]["disk"], 64.0);
    assert!(!slave["reserved_resources_full"].to_string().contains("t1"), "{slave}");
    assert_eq!(fs::read_to_string(roles.join(ROLE)).unwrap(), "in the way");

    // The command line says which operation failed, and why.
    let id = accepted["transaction_id"].as_str().unwrap();
    let output = holdfast(&["--master", &dev.leader_address().await, "operation", "wait", id]);
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    assert!(errors(&output).contains("PARTIAL"), "{}", errors(&output));
}

#[tokio::test]
async fn dry_run_answers_and_writes_nothing() {
    let dev = Dev::start(1, 2);
    let [one, two] = &agents(&dev).await;
    let before = [dev.reserved_on(0).await, dev.reserved_on(1).await];
    let index = dev.last_log().await;
    let fine = json!({"operations": [
        reserve(one, &[reserved("disk", 64.0)]),
        create(one, &[volume("t1", 48.0)]),
    ]});
    let path = format!("{PATH}?dry_run=true");
    let answer = dev.post(&path, &[], &fine).await;
    answer.expect("fine", 200, "");
    let answer = answer.json();
    assert_eq!(answer["would_be_accepted"], true, "{answer}");
    assert_eq!(answer["changes"][0]["agent_id"], one.as_str());
    assert!(answer["changes"][0]["added"].to_string().contains("t1"), "{answer}");

    // Every check that fails is told at once, each with its numbers.
    let wrong = json!({"operations": [
        reserve(one, &[reserved("cpus", 1e6)]),
        reserve(one, &[reserved("cpus", 1.0)]),
        create(two, &[volume("t1", 48.0)]),
    ]});
    let answer = dev.post(&path, &[], &wrong).await.json();
    assert_eq!(answer["would_be_accepted"], false, "{answer}");
    let failing = answer["failing"].as_array().unwrap();
    let places: Vec<&Value> = failing.iter().map(|check| &check["index"]).collect();
    assert_eq!(places, [&json!(0), &json!(2)], "{answer}");
    for check in failing {
        assert_eq!(check["status"], 409, "{check}");
        assert!(!check["wanted"].as_array().unwrap().is_empty(), "{check}");
    }
    assert_eq!(dev.last_log().await, index);
    assert_eq!([dev.reserved_on(0).await, dev.reserved_on(1).await], before);
}

#[tokio::test]
async fn apply_takes_a_file() {
    let dev = Dev::start(1, 2);
    let masters = dev.leader_address().await;
    let [one, two] = &agents(&dev).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("operations.json");
    let apply = |further: &[&str]| {
        let file = file.to_str().unwrap();
        holdfast(&[&["--master", &masters, "apply", "-f", file], further].concat())
    };
    let short = |id: &str| id.rsplit('-').next().unwrap().to_owned();
    let body = json!({"operations": [
        reserve(&short(one), &[reserved("mem", 32.0)]),
        reserve(&short(two), &[reserved("disk", 64.0)]),
    ]});
    fs::write(&file, body.to_string()).unwrap();
    let output = apply(&["--dry-run"]);
    assert!(output.status.success(), "{}", errors(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(&format!("agent {one}")) && text.contains("+ mem"), "{text}");
    assert_eq!(dev.reserved_on(0).await, json!({}));

    let output = apply(&["--wait", "--key", "file"]);
    assert!(output.status.success(), "{}", errors(&output));
    let first = String::from_utf8_lossy(&output.stdout).into_owned();
    let again = apply(&["--wait", "--key", "file"]);
    assert_eq!(String::from_utf8_lossy(&again.stdout), first, "{}", errors(&again));
    assert_eq!(dev.slave(0).await["reserved_resources"][ROLE]["mem"], 32.0);

    let body = json!({"operations": [reserve(one, &[reserved("mem", 1e6)])]});
    fs::write(&file, body.to_string()).unwrap();
    for further in [&["--dry-run"][..], &[]] {
        let output = apply(further);
        assert_eq!(output.status.code(), Some(5), "{}", errors(&output));
        assert!(errors(&output).contains("\n  available: "), "{}", errors(&output));
    }
    let output = apply(&["--key", "file"]);
    assert_eq!(output.status.code(), Some(5), "{}", errors(&output));
}
