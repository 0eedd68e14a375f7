//! Field reports about volumes: V04, V13, V14 and V15.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use chaos::cluster::Member;
use chaos::process::Signal;
use serde_json::{Value, json};

use crate::ask::{Answer, CHECKPOINTED};
use crate::harness::{DEADLINE, Dev, ROLE, assert_success, operator_call, reserved, volume};

async fn grow(dev: &Dev, volume: &Value, addition: &Value) -> Answer {
    let agent = dev.agent_id(0).await;
    let body = json!({"type": "GROW_VOLUME", "grow_volume": {
        "agent_id": {"value": agent}, "volume": volume, "addition": addition}});
    dev.post(CHECKPOINTED, &[], &body).await
}

async fn shrink(dev: &Dev, volume: &Value, by: f64) -> Answer {
    let agent = dev.agent_id(0).await;
    let body = json!({"type": "SHRINK_VOLUME", "shrink_volume": {
        "agent_id": {"value": agent}, "volume": volume, "subtract": {"value": by}}});
    dev.post(CHECKPOINTED, &[], &body).await
}

/// V04: another size is the same volume: its directory, and what is in it, stay. After each step
/// the agent, or the leader, or both, are killed.
#[tokio::test]
async fn v04_resizing_keeps_the_data() {
    let mut dev = Dev::start(3, 1);
    dev.call(0, "RESERVE_RESOURCES", &[reserved("disk", 512.0)]).await.expect("disk", 202, "");
    dev.call(0, "CREATE_VOLUMES", &[volume("v1", 100.0)]).await.expect("create", 202, "");
    let folder = dev.work_dir(0).join("volumes/roles").join(ROLE).join("v1");
    fs::write(folder.join("marker"), "kept").unwrap();
    let inode = fs::metadata(&folder).unwrap().ino();
    let mut size = 100.0;
    for (by, kills_agent, kills_leader) in
        [(100.0, true, false), (-50.0, false, true), (100.0, true, true)]
    {
        let before = volume("v1", size);
        let answer = match by > 0.0 {
            true => grow(&dev, &before, &reserved("disk", by)).await,
            false => shrink(&dev, &before, -by).await,
        };
        answer.expect("resize", 202, "");
        size += by;
        let leader = Member::Master(dev.leader().await);
        let killed: Vec<Member> = [(kills_agent, Member::Agent(0)), (kills_leader, leader)]
            .into_iter()
            .filter_map(|(is_killed, member)| is_killed.then_some(member))
            .collect();
        for member in &killed {
            dev.cluster.signal(*member, Signal::KILL).unwrap();
        }
        dev.cluster.ended(&killed, DEADLINE).await.unwrap();
        assert_success(&dev.resume());
        assert_size(&dev, size).await;
        assert_eq!(fs::read_to_string(folder.join("marker")).unwrap(), "kept");
        assert_eq!(fs::metadata(&folder).unwrap().ino(), inode);
    }

    // While the agent is away, too.
    dev.cluster.signal(Member::Agent(0), Signal::KILL).unwrap();
    dev.cluster.ended(&[Member::Agent(0)], DEADLINE).await.unwrap();
    let body = json!({"type": "SHRINK_VOLUME", "shrink_volume": {"volume": volume("v1", size),
        "agent_id": {"value": dev.agent_id(0).await}, "subtract": {"value": 10.0}}});
    dev.post("/api/v1", &[], &body).await.expect("an agent that is away", 202, "");
    assert_success(&dev.resume());
    assert_size(&dev, size - 10.0).await;
    assert_eq!(fs::read_to_string(folder.join("marker")).unwrap(), "kept");
    assert_eq!(fs::metadata(&folder).unwrap().ino(), inode);
}

/// Master and agent both have the volume with that size.
async fn assert_size(dev: &Dev, size: f64) {
    let http = dev.cluster.layout().agents[0].http.clone();
    chaos::wait::until("the size on both sides", DEADLINE, async || {
        let state = dev.client.get(&http, "/state").await?;
        for full in [&state["reserved_resources_full"], &dev.reserved_on(0).await] {
            let mut list = full[ROLE].as_array().into_iter().flatten();
            let volume = list.find(|resource| resource["disk"]["persistence"]["id"] == "v1");
            let found = volume.map(|volume| &volume["scalar"]["value"]);
            if found != Some(&json!(size)) {
                return Err(format!("{found:?} instead of {size}: {full}"));
            }
        }
        Ok(())
    })
    .await
    .unwrap();
}

/// V13: an id is used once per role and agent.
#[tokio::test]
async fn v13_a_volume_id_is_unique_by_role_and_agent() {
    let dev = Dev::start(1, 2);
    let of_role = |mut resource: Value, role: &str| {
        resource["reservations"][0]["role"] = json!(role);
        resource
    };
    for agent in [0, 1] {
        let disks = [reserved("disk", 64.0), of_role(reserved("disk", 64.0), "other")];
        dev.call(agent, "RESERVE_RESOURCES", &disks).await.expect("disk", 202, "");
    }
    let roles = |agent: usize| dev.work_dir(agent).join("volumes/roles");
    dev.call(0, "CREATE_VOLUMES", &[volume("v1", 8.0)]).await.expect("first", 202, "");
    let call = operator_call(&dev.agent_id(0).await, "CREATE_VOLUMES", &[volume("v1", 9.0)]);
    let answer = dev.post("/api/v1", &[("holdfast-errors", "json")], &call).await;
    answer.expect("same role and agent", 400, "v1");
    assert!(answer.text.contains(":8"), "it names the volume that is there: {}", answer.text);
    let other = of_role(volume("v1", 8.0), "other");
    dev.call(0, "CREATE_VOLUMES", &[other]).await.expect("another role", 202, "");
    dev.call(1, "CREATE_VOLUMES", &[volume("v1", 8.0)]).await.expect("another agent", 202, "");
    let twice = [volume("v2", 8.0), volume("v2", 4.0)];
    dev.call(0, "CREATE_VOLUMES", &twice).await.expect("twice in one call", 400, "v2");
    assert_eq!(names(&roles(0).join(ROLE)), ["v1"]);
    assert_eq!(names(&roles(0).join("other")), ["v1"]);
    assert_eq!(names(&roles(1).join(ROLE)), ["v1"]);
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// V14: ids and paths that could lead out of their place are refused; others come back as they
/// were.
#[tokio::test]
async fn v14_ids_and_paths_stay_in_their_place() {
    let mut dev = Dev::start(1, 1);
    dev.call(0, "RESERVE_RESOURCES", &[reserved("disk", 512.0)]).await.expect("disk", 202, "");
    let work_dir = dev.work_dir(0).to_owned();
    let around = names(work_dir.parent().unwrap());
    let long = "é".repeat(300);
    let ids = ["../../../tmp/x", "a/b", "a\\b", ".", "..", "", &long, "a\u{0}b", "a\nb", "a\u{7f}"];
    for id in ids {
        dev.call(0, "CREATE_VOLUMES", &[volume(id, 1.0)]).await.expect(id, 400, "");
    }
    for path in ["/abs", "../x", "a/../b", "a/b", "", ".", "..", "a\u{0}"] {
        let mut with_path = volume("v1", 1.0);
        with_path["disk"]["volume"]["container_path"] = json!(path);
        dev.call(0, "CREATE_VOLUMES", &[with_path]).await.expect(path, 400, "");
    }
    for role in ["..", ".", "a/..", "a/../b", "/a", "a/", "a//b", "-a", "a b", "*"] {
        let mut of_role = reserved("cpus", 1.0);
        of_role["reservations"][0]["role"] = json!(role);
        dev.call(0, "RESERVE_RESOURCES", &[of_role]).await.expect(role, 400, "");
    }
    assert_eq!(names(work_dir.parent().unwrap()), around);
    let roles = work_dir.join("volumes/roles");
    assert!(!roles.join(ROLE).exists(), "nothing was made");

    let id = "Größe 東京 %2e%2e%2f";
    dev.call(0, "CREATE_VOLUMES", &[volume(id, 1.0)]).await.expect(id, 202, "");
    let member = Member::Agent(0);
    dev.cluster.signal(member, Signal::KILL).unwrap();
    dev.cluster.ended(&[member], DEADLINE).await.unwrap();
    assert_success(&dev.resume());
    assert_eq!(names(&roles.join(ROLE)), [id]);
    let full = dev.reserved_on(0).await;
    let listed = full[ROLE].as_array().unwrap();
    let volumes: Vec<&Value> =
        listed.iter().filter(|held| held["disk"]["persistence"]["id"] == id).collect();
    assert_eq!(volumes.len(), 1, "{full}");
    dev.call(0, "DESTROY_VOLUMES", &[volumes[0].clone()]).await.expect("destroy", 202, "");
    assert_eq!(names(&roles.join(ROLE)), Vec::<String>::new());
}

/// A tmpfs on a folder, unmounted when dropped.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    /// `None` where this machine does not let the test mount anything.
    fn new(folder: &'a Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m", "holdfast-test"]).arg(folder);
        mount.output().is_ok_and(|output| output.status.success()).then_some(Self(folder))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let is_done = Command::new("umount").arg("-l").arg(self.0).status();
        assert!(is_done.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

fn source(kind: &str, root: &Path) -> Value {
    json!({"type": kind, kind.to_lowercase(): {"root": root.to_str().unwrap()}})
}

/// Resources of an agent with one such disk.
fn with_disk(kind: &str, root: &Path) -> String {
    let scalar = |name: &str, amount: f64| {
        let value = json!({"value": amount});
        json!({"name": name, "type": "SCALAR", "scalar": value})
    };
    let mut disk = scalar("disk", 2048.0);
    disk["disk"] = json!({"source": source(kind, root)});
    json!([scalar("cpus", 1.0), scalar("mem", 64.0), disk]).to_string()
}

fn on(mut resource: Value, kind: &str, root: &Path) -> Value {
    resource["disk"]["source"] = source(kind, root);
    resource
}

/// V15: a MOUNT disk is one piece.
#[tokio::test]
async fn v15_a_mount_disk_is_one_piece() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_mounted) = Mounted::new(folder.path()) else {
        // Written past the capture of the test harness: what was not tried must be seen.
        writeln!(std::io::stdout(), "v15: MOUNT not tried: this user cannot mount").unwrap();
        return;
    };
    let dev = Dev::start_with(1, 1, &["--agent-resources", &with_disk("MOUNT", folder.path())]);
    let on = |resource: Value| on(resource, "MOUNT", folder.path());
    let half = [on(reserved("disk", 1024.0))];
    dev.call(0, "RESERVE_RESOURCES", &half).await.expect("half of it", 409, "");
    let whole = [on(reserved("disk", 2048.0))];
    dev.call(0, "RESERVE_RESOURCES", &whole).await.expect("all of it", 202, "");
    let part = [on(volume("m1", 1024.0))];
    dev.call(0, "CREATE_VOLUMES", &part).await.expect("half of it", 409, "");
    let all = on(volume("m1", 2048.0));
    dev.call(0, "CREATE_VOLUMES", std::slice::from_ref(&all)).await.expect("all of it", 202, "");
    grow(&dev, &all, &on(reserved("disk", 1.0))).await.expect("grow", 400, "MOUNT");
    shrink(&dev, &all, 1.0).await.expect("shrink", 400, "MOUNT");
    dev.call(0, "DESTROY_VOLUMES", &[all]).await.expect("destroy", 202, "");
    assert!(folder.path().is_dir(), "the mount point stays");
}

/// V15: a PATH disk can be divided.
#[tokio::test]
async fn v15_a_path_disk_takes_several_volumes() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start_with(1, 1, &["--agent-resources", &with_disk("PATH", folder.path())]);
    let on = |resource: Value| on(resource, "PATH", folder.path());
    let half = [on(reserved("disk", 1024.0))];
    for time in ["first half", "second half"] {
        dev.call(0, "RESERVE_RESOURCES", &half).await.expect(time, 202, "");
    }
    let two = [on(volume("p1", 1024.0)), on(volume("p2", 1024.0))];
    dev.call(0, "CREATE_VOLUMES", &two).await.expect("two volumes", 202, "");
    assert_eq!(names(&folder.path().join("volumes/roles").join(ROLE)), ["p1", "p2"]);
}
