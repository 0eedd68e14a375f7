//! The operator commands against a live cluster: what they do, print and exit with.

use std::process::Output;

use serde_json::Value;

use crate::harness::{Dev, ROLE, errors, holdfast};

struct Operator {
    masters: String,
}

impl Operator {
    fn run(&self, line: &str) -> Output {
        let words = line.split_whitespace();
        let arguments: Vec<&str> = ["--master", &self.masters].into_iter().chain(words).collect();
        holdfast(&arguments)
    }

    fn text(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", errors(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.text(&format!("-o json {line}"))).unwrap()
    }

    fn code(&self, line: &str) -> i32 {
        let output = self.run(line);
        // One line, and below it what the master tells beyond that.
        let text = errors(&output);
        assert!(text.lines().skip(1).all(|line| line.starts_with("  ")), "{line}: {text}");
        output.status.code().unwrap()
    }
}

#[tokio::test]
async fn a_volume_by_command_line() {
    let dev = Dev::start(3, 2);
    // A follower comes first in the list: the commands find the leader by themselves.
    let mut masters = dev.cluster.masters();
    let leader = dev.leader().await;
    masters.swap(2, leader);
    let operator = Operator { masters: masters.join(",") };

    let agents = operator.json("agent list");
    assert_eq!(agents.as_array().unwrap().len(), 2);
    let id = agents[0]["id"].as_str().unwrap();
    let agent = id.rsplit('-').next().unwrap();
    assert!(operator.text("status").contains("leader"));
    assert!(operator.text("agent list").contains(id));
    assert!(operator.text(&format!("agent inspect {agent}")).contains(id));

    let created = operator.json(&format!(
        "--principal ops reservation create --agent {agent} --role {ROLE} \
         --resources cpus:1;disk:512 --label team=a --wait"
    ));
    assert_eq!(created["state"], "checkpointed");
    let operation = created["operation_id"].as_str().unwrap();
    assert!(operator.text(&format!("operation wait {operation}")).contains("FINISHED"));
    assert_eq!(operator.json(&format!("operation inspect {operation}"))["agent_id"], id);
    assert!(operator.text("operation list").contains(operation));
    let reservations = operator.json("reservation list");
    assert_eq!(reservations[0]["role"], ROLE);
    assert_eq!(reservations[0]["principal"], "ops");
    let reservation = reservations[0]["reservation_id"].as_str().unwrap();
    assert!(operator.text("reservation list").contains(reservation));

    let volume = format!("--agent {agent} --role {ROLE} --id v1");
    operator.text(&format!("volume create {volume} --size 128 --path data --wait"));
    let folder = dev.work_dir(place(&dev, id).await).join("volumes/roles").join(ROLE).join("v1");
    assert!(folder.is_dir());
    assert_eq!(operator.json("volume list")[0]["id"], "v1");
    assert!(operator.text("-o wide volume list").contains("ROOT"));
    assert_eq!(operator.json("volume inspect v1")["agent_id"], id);

    let delete = format!("reservation delete --agent {agent} --role {ROLE}");
    assert_eq!(operator.code(&format!("{delete} --resources disk:512")), 5);
    assert_eq!(operator.code(&format!("volume create {volume} --size 1 --path data")), 1);
    assert_eq!(operator.code(&format!("volume destroy {volume}")), 2, "it does not ask a pipe");
    resize(&operator, &volume);
    assert!(operator.text(&format!("volume destroy {volume} --dry-run")).contains("- disk"));
    operator.text(&format!("volume destroy {volume} --yes --wait"));
    assert!(!folder.exists());
    operator.text(&format!("{delete} --resources cpus:1"));
    let version = operator.json("agent list");
    let version = version.as_array().unwrap().iter().find(|agent| agent["id"] == id).unwrap()
        ["resource_version"].as_u64().unwrap();
    let delete = format!("reservation delete {reservation}");
    assert_eq!(operator.code(&format!("{delete} --if-version {}", version - 1)), 5);
    operator.text(&format!("{delete} --if-version {version} --key last --wait"));
    assert_eq!(operator.json("reservation list"), Value::Array(Vec::new()));
    assert_eq!(operator.code("volume inspect v1"), 1);
    assert_eq!(operator.code("agent inspect nobody"), 1);
    assert_eq!(operator.code("operation inspect no-such-operation"), 1);
}

fn resize(operator: &Operator, volume: &str) {
    let size = || operator.json("volume list")[0]["resource"]["scalar"]["value"].as_f64().unwrap();
    operator.text(&format!("volume grow {volume} --by 64 --wait"));
    assert_eq!(size(), 192.0);
    assert!(operator.text(&format!("volume shrink {volume} --by 32 --dry-run")).contains("160"));
    assert_eq!(size(), 192.0);
    operator.text(&format!("volume shrink {volume} --by 32 --key shrink --wait"));
    assert_eq!(size(), 160.0);
}

/// Place of the agent with that id in the cluster's list.
async fn place(dev: &Dev, id: &str) -> usize {
    for place in 0..dev.cluster.layout().agents.len() {
        if dev.agent_id(place).await == id {
            return place;
        }
    }
    panic!("no agent {id}");
}

#[test]
fn no_leader_is_exit_3() {
    let output = holdfast(&["--master", "127.0.0.1:1", "agent", "list"]);
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
}
