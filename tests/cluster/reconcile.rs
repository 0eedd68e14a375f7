//! An agent whose disk was restored from a copy: what differs is shown object by object, an
//! operator chooses, and the agent goes on. No directory is removed by any of it.

use std::fs;
use std::process::Output;

use chaos::cluster::Member;
use chaos::process::Signal;
use chaos::wait;
use serde_json::{Value, json};

use crate::harness::{
    DEADLINE, Dev, ROLE, assert_success, errors, holdfast, operator_call, reserved, volume,
};

const WAITED: &str = "/api/v1?wait=checkpointed&timeout=30s";

impl Dev {
    fn reconcile(&self, arguments: &[&str]) -> Output {
        let masters = self.cluster.masters().join(",");
        let own = ["agent", "reconcile", "S0", "--master", masters.as_str()];
        holdfast(&[&own[..], arguments].concat())
    }

    async fn kill_agent(&self) {
        self.cluster.signal(Member::Agent(0), Signal::KILL).unwrap();
        self.cluster.ended(&[Member::Agent(0)], DEADLINE).await.unwrap();
    }

    /// The agent's discrepancy, once the masters know its objects.
    async fn discrepancy(&self) -> Value {
        let id = self.agent_id(0).await;
        let path = format!("/api/v1/agents/{id}");
        wait::until("what differs", DEADLINE, async || {
            let found = self.read(&path).await["discrepancy"].clone();
            if found["digest"].is_string() { Ok(found) } else { Err(found.to_string()) }
        })
        .await
        .unwrap()
    }

    async fn create(&self, id: &str, status: u16, part: &str) {
        let call = operator_call(&self.agent_id(0).await, "CREATE_VOLUMES", &[volume(id, 64.0)]);
        self.post(WAITED, &[], &call).await.expect(id, status, part);
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A cluster whose agent was put back to before it made `v1`, with a file in its directory.
async fn restored() -> Dev {
    let mut dev = Dev::start(1, 1);
    dev.call(0, "RESERVE_RESOURCES", &[reserved("disk", 512.0)]).await.expect("disk", 202, "");
    let checkpoint = dev.work_dir(0).join("meta/agent.redb");
    let copy = dev.dir().join("copy.redb");
    dev.kill_agent().await;
    fs::copy(&checkpoint, &copy).unwrap();
    assert_success(&dev.resume());
    dev.create("v1", 202, "").await;
    let directory = dev.work_dir(0).join("volumes/roles").join(ROLE).join("v1");
    fs::write(directory.join("precious"), "x").unwrap();
    dev.kill_agent().await;
    fs::copy(&copy, &checkpoint).unwrap();
    assert_success(&dev.resume());
    dev
}

#[tokio::test]
async fn restored_disk_is_accepted_and_works_again() {
    let dev = restored().await;
    let found = dev.discrepancy().await;
    assert_eq!(found["standing"], "REGRESSED", "{found:#}");
    assert_eq!(found["missing"][0]["resource"]["disk"]["persistence"]["id"], "v1", "{found:#}");
    assert_eq!(found["foreign"].as_array().unwrap().len(), 1, "{found:#}");
    dev.create("v2", 409, "is at order 1 and had confirmed 2").await;
    let masters = dev.cluster.masters().join(",");
    let shown = holdfast(&["agent", "inspect", "S0", "--master", &masters]);
    assert!(text(&shown).contains("missing-1: ") && text(&shown).contains("next: "), "{shown:?}");
    assert!(text(&dev.reconcile(&[])).contains("--recreate"));

    let partly = dev.reconcile(&["--adopt", "foreign-1", "--yes"]);
    assert!(!partly.status.success() && errors(&partly).contains("no choice"), "{partly:?}");
    let unasked = dev.reconcile(&["--accept"]);
    assert!(errors(&unasked).contains("--yes"), "{unasked:?}");
    let dry = dev.reconcile(&["--accept", "--dry-run"]);
    assert!(text(&dry).contains("forgotten: ") && text(&dry).contains("nothing was done"));
    assert_eq!(dev.discrepancy().await, found, "nothing was done");

    assert_success(&dev.reconcile(&["--accept", "--yes"]));
    dev.create("v2", 202, "").await;
    assert!(text(&dev.reconcile(&[])).contains("nothing differs"));
    let again = dev.reconcile(&["--accept", "--yes"]);
    assert!(errors(&again).contains("holds what the log says"), "{again:?}");
    let directory = dev.work_dir(0).join("volumes/roles").join(ROLE).join("v1");
    assert!(directory.join("precious").exists(), "nobody removed it");
}

#[tokio::test]
async fn missing_volume_is_made_again_when_an_operator_says_so() {
    let mut dev = restored().await;
    let found = dev.discrepancy().await;
    let id = dev.agent_id(0).await;
    let path = format!("/api/v1/agents/{id}/reconcile");
    let stale = json!({"digest": "0", "accept": true});
    dev.post(&path, &[], &stale).await.expect("another digest", 409, "");
    let unknown = json!({"recreate": ["ads/v9"], "accept": true});
    dev.post(&path, &[], &unknown).await.expect("no such object", 400, "ads/v9");
    let body = json!({"digest": found["digest"], "recreate": ["ads/v1"], "accept": true});
    dev.post(&path, &[], &body).await.expect("recreate", 200, "recreated");
    wait::until("v1", DEADLINE, async || {
        let volumes = dev.read("/api/v1/volumes").await;
        let first = volumes[0].clone();
        let is_done = first["id"] == "v1" && first["confirmed"] == true;
        if is_done { Ok(()) } else { Err(volumes.to_string()) }
    })
    .await
    .unwrap();
    // It goes on from there, also after a restart.
    dev.kill_agent().await;
    assert_success(&dev.resume());
    dev.create("v2", 202, "").await;
    assert!(text(&dev.reconcile(&[])).contains("nothing differs"));
}
