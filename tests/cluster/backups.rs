//! Backups: one is saved while the cluster is used, all masters lose their directories, and it
//! becomes the cluster again; agents that have done more than it knows lose no data.

use std::fs;
use std::path::{Path, PathBuf};

use chaos::cluster::Member;
use chaos::wait;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Dev, ROLE, assert_success, errors, holdfast, reserved, volume};

fn snapshot(dev: &Dev, arguments: &[&str]) -> std::process::Output {
    let masters = dev.cluster.masters().join(",");
    holdfast(&[&["--master", &masters, "-o", "json", "snapshot"], arguments].concat())
}

fn json_of(output: &std::process::Output) -> Value {
    assert_success(output);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn saved(dev: &Dev) -> PathBuf {
    let file = dev.dir().join("backup");
    assert_success(&snapshot(dev, &["save", file.to_str().unwrap()]));
    file
}

/// Every master ends, its directory goes, and one made of the file takes its place.
async fn restore(dev: &mut Dev, file: &Path) {
    let masters: Vec<Member> = (0..3).map(Member::Master).collect();
    dev.cluster.stop_members(&masters).await.unwrap();
    let layout = dev.cluster.layout().clone();
    let peers = layout.masters.iter().map(|master| format!("{}={}", master.id, master.peer));
    let peers = peers.collect::<Vec<_>>().join(",");
    for master in &layout.masters {
        fs::remove_dir_all(&master.work_dir).unwrap();
        let (file, id) = (file.to_str().unwrap(), master.id.to_string());
        let arguments =
            ["restore", file, "--id", &id, "--peers", &peers, "--work-dir", &master.work_dir];
        assert_success(&snapshot(dev, &arguments));
    }
    assert_success(&dev.resume());
}

async fn make_volume(dev: &Dev, id: &str) -> PathBuf {
    dev.operate(0, "RESERVE_RESOURCES", &[reserved("disk", 16.0)]).await;
    dev.operate(0, "CREATE_VOLUMES", &[volume(id, 16.0)]).await;
    let directory = dev.work_dir(0).join("volumes/roles").join(ROLE).join(id);
    fs::write(directory.join("data"), id).unwrap();
    directory
}

#[tokio::test]
async fn lost_masters_begin_again_from_a_file() {
    let mut dev = Dev::start(3, 1);
    let directory = make_volume(&dev, "v1").await;
    let before = dev.slave(0).await;
    let file = saved(&dev);
    let summary = json_of(&snapshot(&dev, &["verify", file.to_str().unwrap()]));
    assert_eq!(summary["agents"][0]["volumes"], 1);
    let shown = snapshot(&dev, &["inspect", file.to_str().unwrap(), "--agents"]);
    assert_eq!(json_of(&shown)["compared"][0]["found"], "the same");

    restore(&mut dev, &file).await;
    let after = dev.slave(0).await;
    for key in ["id", "reserved_resources_full"] {
        assert_eq!(after[key], before[key], "{key}");
    }
    assert_eq!(fs::read(directory.join("data")).unwrap(), b"v1");
    make_volume(&dev, "v2").await;
    dev.assert_no_errors();
}

#[tokio::test]
async fn agents_that_did_more_than_a_backup_knows_keep_their_data() {
    let mut dev = Dev::start(3, 1);
    let old = make_volume(&dev, "old").await;
    let file = saved(&dev);
    let new = make_volume(&dev, "new").await;
    let shown = snapshot(&dev, &["inspect", file.to_str().unwrap(), "--agents"]);
    assert_eq!(json_of(&shown)["compared"][0]["found"], "2 orders newer");

    restore(&mut dev, &file).await;
    let id = dev.agent_id(0).await;
    let entry = async || {
        let agents = dev.client.get(&dev.leader_address().await, "/api/v1/agents").await?;
        let agents = agents.as_array().cloned().unwrap_or_default();
        let entry = agents.into_iter().find(|agent| agent["id"] == *id);
        entry.ok_or_else(|| "no such agent".to_owned())
    };
    wait::until("a visible difference", DEADLINE, async || {
        let entry = entry().await?;
        let is_diverged = entry["status"].as_str().is_some_and(|s| s.starts_with("DIVERGED"));
        if is_diverged { Ok(()) } else { Err(entry.to_string()) }
    })
    .await
    .unwrap();
    let masters = dev.cluster.masters().join(",");
    let accept = ["--master", &masters, "agent", "reconcile", &id, "--accept", "--yes"];
    wait::until("the operator's choice", DEADLINE, async || {
        let output = holdfast(&accept);
        if output.status.success() { Ok(()) } else { Err(errors(&output)) }
    })
    .await
    .unwrap();
    for (directory, data) in [(old, "old"), (new, "new")] {
        assert_eq!(fs::read_to_string(directory.join("data")).unwrap(), data);
    }
    let volumes = dev.slave(0).await["reserved_resources_full"][ROLE].clone();
    let ids: Vec<&Value> = volumes.as_array().unwrap().iter().map(id_of).collect();
    assert_eq!(ids.iter().filter(|id| **id == "old").count(), 1, "{volumes}");
    assert_eq!(ids.iter().filter(|id| **id == "new").count(), 1, "{volumes}");
    make_volume(&dev, "later").await;
}

fn id_of(resource: &Value) -> &Value {
    &resource["disk"]["persistence"]["id"]
}

#[tokio::test]
async fn files_that_are_no_backup_and_directories_that_are_in_use_are_refused() {
    let dev = Dev::start(1, 1);
    let file = saved(&dev);
    let bytes = fs::read(&file).unwrap();
    let bad = dev.dir().join("bad");
    let peers = "1=127.0.0.1:6050";
    let empty = dev.dir().join("empty");
    let target = |file: &Path, dir: &Path| {
        let (file, dir) = (file.to_str().unwrap(), dir.to_str().unwrap());
        let arguments = ["restore", file, "--id", "1", "--peers", peers, "--work-dir", dir];
        errors(&snapshot(&dev, &arguments))
    };
    let flipped = {
        let mut bytes = bytes.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        bytes
    };
    for (content, text) in [
        (vec![], "no snapshot"),
        (bytes[..bytes.len() - 1].to_vec(), "ends in the middle"),
        (flipped, "damaged"),
        (b"{\"json\": true, \"and\": 7}".to_vec(), "no snapshot"),
    ] {
        fs::write(&bad, content).unwrap();
        let said = target(&bad, &empty);
        assert!(said.contains(text) && said.contains("bad"), "{said}");
        assert!(!empty.exists());
    }
    let used = dev.cluster.layout().masters[0].work_dir.clone();
    let said = target(&file, Path::new(&used));
    assert!(said.contains("holds data already"), "{said}");
    let output = snapshot(&dev, &["verify", "/nowhere/at/all"]);
    assert_eq!(output.status.code(), Some(1));
    let output = snapshot(&dev, &["restore", "x", "--id", "1", "--peers", "1", "--work-dir", "y"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(json!(fs::read(&file).unwrap().len()), json!(bytes.len()), "nothing touched it");
}
