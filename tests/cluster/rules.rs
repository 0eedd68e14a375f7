//! Quota, weights and maintenance over the whole product: by command line, and through the loss
//! of every process (F02).

use chaos::cluster::Member;
use chaos::process::Signal;
use chaos::wait;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Dev, assert_success, errors, holdfast};

fn by_command(dev: &Dev, line: &str) -> Result<String, i32> {
    let masters = dev.cluster.masters().join(",");
    let words = line.split_whitespace();
    let arguments: Vec<&str> = ["--master", masters.as_str()].into_iter().chain(words).collect();
    let output = holdfast(&arguments);
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(output.status.code().unwrap_or_else(|| panic!("{}", errors(&output)))),
    }
}

#[tokio::test]
async fn quota_and_weights_by_command_line() {
    let dev = Dev::start_with(1, 1, &["--agent-resources", "cpus:4;mem:1024;disk(ads):100"]);
    let run = |line: &str| by_command(&dev, line);
    let set = "quota set ads --guarantee cpus:1 --limit cpus:2;mem:0";
    assert!(run(&format!("{set} --dry-run")).unwrap().contains("would be accepted"));
    assert_eq!(run("-o json quota list").unwrap().trim(), "[]");
    assert_eq!(run(set).unwrap().trim(), "committed");
    let listed = run("quota list").unwrap();
    for text in ["ads", "cpus:1", "cpus:2; mem:0", "disk:100"] {
        assert!(listed.contains(text), "'{listed}' lacks '{text}'");
    }
    assert_eq!(run("quota set ads --limit disk:99"), Err(1));
    assert_eq!(run("quota set ads --limit disk:99 --force").unwrap().trim(), "committed");
    assert_eq!(run("quota set web --guarantee cpus:5"), Err(1));
    assert_eq!(run("quota set web"), Err(2));
    assert_eq!(run("quota set a/b --limit cpus:1"), Err(1));
    assert_eq!(run("quota remove ads"), Err(2), "it does not ask a pipe");
    assert_eq!(run("quota remove ads --yes").unwrap().trim(), "committed");
    assert_eq!(run("quota remove ads --yes"), Err(1));

    assert_eq!(run("weight set ads=2.5 *=3 --key w").unwrap().trim(), "committed");
    assert_eq!(run("weight set ads=0"), Err(2));
    let weights = json!([{"role": "*", "weight": 3.0}, {"role": "ads", "weight": 2.5}]);
    let listed = run("-o json weight list").unwrap();
    assert_eq!(serde_json::from_str::<Value>(&listed).unwrap(), weights);
    assert!(run("-o wide role list").unwrap().contains("2.5"));
    dev.assert_no_errors();
}

/// F02: every process is killed and the masters come back alone; with no agent and no framework
/// they know quota, weights and reservations, and the same when the agent is back.
#[tokio::test]
async fn f02_rules_outlive_every_process() {
    let mut dev = Dev::start_with(3, 1, &["--agent-resources", "cpus:4;mem:1024;disk(ads):100"]);
    by_command(&dev, "quota set ads --guarantee cpus:1 --limit cpus:2").unwrap();
    by_command(&dev, "weight set ads=2.5").unwrap();
    let before = [dev.read("/roles").await, dev.read("/quota").await, dev.read("/weights").await];
    let members: Vec<Member> = dev.cluster.members().collect();
    for member in &members {
        dev.cluster.signal(*member, Signal::KILL).unwrap();
    }
    dev.cluster.ended(&members, DEADLINE).await.unwrap();
    for master in 0..3 {
        dev.cluster.start(Member::Master(master)).unwrap();
    }
    let after = [dev.read("/roles").await, dev.read("/quota").await, dev.read("/weights").await];
    assert_eq!(after, before);
    let quota = json!({"type": "GET_QUOTA"});
    let status = dev.post("/api/v1", &[], &quota).await.json();
    assert_eq!(status["get_quota"]["status"], before[1]);
    dev.cluster.save().unwrap();
    assert_success(&dev.resume());
    assert_eq!(dev.slave(0).await["reserved_resources"]["ads"]["disk"], 100.0);
    assert_eq!(dev.read("/roles").await, before[0]);
}

/// A machine goes down by command, and its agent comes back when it is up.
#[tokio::test]
async fn maintenance_by_command_line() {
    let dev = Dev::start_with(1, 1, &["--agent-resources", "cpus:4;mem:1024;disk(ads):100"]);
    let run = |line: &str| by_command(&dev, line);
    let host = dev.slave(0).await["hostname"].as_str().unwrap().to_owned();
    let file = dev.dir().join("schedule.json");
    let schedule = json!({"windows": [{"machine_ids": [{"hostname": host}],
        "unavailability": {"start": {"nanoseconds": 5_000_000_000_i64}}}]});
    std::fs::write(&file, schedule.to_string()).unwrap();
    assert_eq!(run(&format!("maintenance start {host} --yes")), Err(1));
    assert_eq!(run(&format!("maintenance set -f {}", file.display())).unwrap().trim(), "committed");
    let listed = run("maintenance schedule").unwrap();
    assert!(listed.contains(&host) && listed.contains("5s"), "{listed}");
    assert!(run("maintenance status").unwrap().contains("draining"));
    assert_eq!(run(&format!("maintenance start {host}")), Err(2), "it does not ask a pipe");
    assert_eq!(run(&format!("maintenance start {host} --yes")).unwrap().trim(), "committed");
    assert!(run("maintenance status").unwrap().contains("down"));
    let slaves = dev.client.get(&dev.leader_address().await, "/slaves").await.unwrap();
    assert_eq!(slaves["slaves"], json!([]), "the agent is out at once");
    assert_eq!(run(&format!("maintenance stop {host}")).unwrap().trim(), "committed");
    wait::until("the agent is back", DEADLINE, async || match dev.slave(0).await["active"] {
        Value::Bool(true) => Ok(()),
        ref other => Err(other.to_string()),
    })
    .await
    .unwrap();
    assert_eq!(dev.slave(0).await["reserved_resources"]["ads"]["disk"], 100.0);
}
