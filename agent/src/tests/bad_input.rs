//! Disks, directories and work directories that are not what they should be: a clear line or an
//! unavailable volume, and nothing is removed.

use std::fs;
use std::os::unix::fs::symlink;

use tokio::net::TcpListener;

use resources::message::MasterMessage;

use super::rig::{Agent, Kind, Mounted, Rig, config, folder, image, mount_at, unmount};
use crate::RunError;
use crate::checkpoint::Checkpoint;
use crate::core::event::Write;
use crate::recovery::recover;

#[tokio::test]
async fn taken_port_is_one_line() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = config(folder.path(), &[]);
    config.listen.port = taken.local_addr().unwrap().port();
    let error = crate::run(config).await.unwrap_err();
    assert!(matches!(error, RunError::Listen { .. }), "{error}");
    super::rig::one_line(&error);
}

#[test]
fn mount_disk_needs_a_mount() {
    let root = folder();
    let rig = Rig::new(Kind::Mount(root.path().to_owned()));
    let error = recover(&rig.config(&[])).unwrap_err();
    assert!(matches!(error, RunError::NotMounted { .. }), "{error}");
    assert_eq!(image(rig.work_dir()), [], "nothing is made");
}

#[test]
fn second_agent_on_a_work_directory_is_refused() {
    let rig = Rig::new(Kind::Root);
    let mut first = rig.start();
    first.register();
    let text = rig.refusal(&[]);
    assert!(text.contains("another agent process runs on this work directory"), "{text}");
    drop(first);
    rig.start();
}

#[test]
fn work_directory_of_another_cluster_is_refused_for_ever() {
    let mut rig = Rig::new(Kind::Root);
    let batch = vec![rig.reserve(100), rig.create(&[("v1", 64)])];
    rig.start().serve(&[batch]);
    for _ in 0..2 {
        let mut agent = rig.start();
        agent.step(crate::core::event::Event::Opened);
        agent.receive_from("d", MasterMessage::Ping);
        let reason = agent.exit.as_deref().unwrap_or_default();
        assert!(reason.contains("belongs to cluster c"), "{reason}");
        assert!(reason.contains("for cluster d"), "{reason}");
    }
    assert!(rig.directory("v1").is_dir());
    assert_eq!(rig.start().total().volumes().count(), 1);
}

#[test]
fn read_only_disk_is_one_line() {
    let Some(mounted) = Mounted::try_new("size=16m") else { return };
    let mut rig = Rig::new(Kind::Root);
    rig.folder = tempfile::tempdir_in(mounted.path()).unwrap();
    rig.start();
    mounted.mount("remount,ro");
    let text = rig.refusal(&[]);
    assert!(text.contains("agent.redb") && text.contains("Read-only file system"), "{text}");
    mounted.mount("remount,rw");
    rig.start();
}

#[test]
fn full_disk_at_the_first_start() {
    let Some(mounted) = Mounted::try_new("size=16k") else { return };
    let mut rig = Rig::new(Kind::Root);
    rig.folder = tempfile::tempdir_in(mounted.path()).unwrap();
    let text = rig.refusal(&[]);
    assert!(text.contains("agent.redb") && text.contains("No space left"), "{text}");
    mounted.mount("remount,size=16m");
    rig.start();
}

#[test]
fn full_disk_while_running() {
    let Some(mounted) = Mounted::try_new("size=16m") else { return };
    let mut rig = Rig::new(Kind::Root);
    rig.folder = tempfile::tempdir_in(mounted.path()).unwrap();
    let batch = vec![rig.reserve(100), rig.create(&[("v1", 64)])];
    let mut agent = rig.start();
    agent.serve(&[batch]);
    let total = agent.total().clone();
    let filler = mounted.path().join("filler");
    let _full = fs::write(&filler, vec![7; 16 << 20]).unwrap_err();
    // More than the file has room for.
    let put = (0..8_000).map(|n| {
        let mut resource = rig.reserved(1);
        resource.name = format!("name{n}");
        (resource, 1)
    });
    let write = Write::Entries { removed: Vec::new(), put: put.collect() };
    let failure = agent.recovered.checkpoint.commit(&[write]).unwrap_err().to_string();
    assert!(failure.contains("No space left"), "{failure}");
    drop(agent);
    fs::remove_file(filler).unwrap();
    let agent = rig.start();
    assert_eq!(*agent.total(), total, "the last checkpoint stands");
    assert!(rig.directory("v1").is_dir());
}

/// No inode left on a PATH disk: the CREATE fails as a whole, and nothing stays behind.
#[test]
fn full_disk_fails_the_create() {
    let Some(mounted) = Mounted::try_new("size=64k,nr_inodes=8") else { return };
    let mut rig = Rig::new(Kind::Path(mounted.path().join("disk")));
    let volumes: Vec<String> = (0..9).map(|n| format!("v{n}")).collect();
    let volumes: Vec<(&str, i64)> = volumes.iter().map(|id| (id.as_str(), 1)).collect();
    let batch = vec![rig.reserve(100), rig.create(&volumes), rig.create(&[("w", 1)])];
    let mut agent = rig.start();
    agent.serve(&[batch]);
    let failures = agent.failures();
    assert!(failures.len() == 1 && failures[0].contains("No space left"), "{failures:?}");
    let directory = rig.directory("w");
    assert!(directory.is_dir());
    let made = fs::read_dir(directory.parent().unwrap()).unwrap().count();
    assert_eq!(made, 1, "the failed ones are taken back");
    assert!(agent.total().contains_one(&rig.reserved(99)), "the reservation stands");
}

fn with_two_volumes() -> Rig {
    let mut rig = Rig::new(Kind::Root);
    let batch = vec![rig.reserve(200), rig.create(&[("v1", 64), ("v2", 64)])];
    rig.start().serve(&[batch]);
    rig
}

/// Starts and destroys `v1`, whose place was taken by something else.
fn is_left_alone(rig: &mut Rig, wrong: &str) {
    let mut agent = rig.start();
    let reasons = agent.unavailable();
    assert!(reasons.len() == 1 && reasons[0].ends_with(wrong), "{reasons:?}");
    agent.register();
    assert_eq!(agent.registration().unavailable, [rig.volume("v1", 64)]);
    let batch = vec![rig.destroy(&[("v1", 64)])];
    agent.serve(&[batch]);
    assert_eq!(agent.failures(), Vec::<String>::new());
    assert_eq!(agent.unavailable(), Vec::<String>::new());
    assert!(rig.directory("v2").is_dir(), "the other volume");
}

#[test]
fn volume_replaced_by_a_file() {
    let mut rig = with_two_volumes();
    fs::remove_dir(rig.directory("v1")).unwrap();
    fs::write(rig.directory("v1"), "precious").unwrap();
    is_left_alone(&mut rig, "no directory");
    assert_eq!(fs::read_to_string(rig.directory("v1")).unwrap(), "precious");
}

#[test]
fn volume_replaced_by_a_link() {
    let mut rig = with_two_volumes();
    let elsewhere = folder();
    fs::write(elsewhere.path().join("precious"), "x").unwrap();
    let moved = rig.work_dir().join("moved");
    fs::rename(rig.directory("v1"), &moved).unwrap();
    symlink(elsewhere.path(), rig.directory("v1")).unwrap();
    is_left_alone(&mut rig, "symbolic link");
    assert!(rig.directory("v1").is_symlink() && moved.is_dir());
    assert!(elsewhere.path().join("precious").exists());
}

#[test]
fn volume_replaced_by_a_mount() {
    let mut rig = with_two_volumes();
    let directory = rig.directory("v1");
    if !mount_at(&directory, "size=64k") {
        return;
    }
    fs::write(directory.join("precious"), "x").unwrap();
    is_left_alone(&mut rig, "another file system is mounted there");
    assert!(directory.join("precious").exists());
    unmount(&directory);
}

/// A file system inside a volume belongs to somebody else: the trash is not emptied through it.
#[test]
fn mount_inside_a_destroyed_volume_is_not_emptied() {
    let mut rig = with_two_volumes();
    let inside = rig.directory("v1").join("inside");
    fs::create_dir(&inside).unwrap();
    if !mount_at(&inside, "size=64k") {
        return;
    }
    fs::write(inside.join("precious"), "x").unwrap();
    let mut agent = rig.start();
    let batch = vec![rig.destroy(&[("v1", 64)])];
    agent.serve(&[batch]);
    assert_eq!(rig.trash(), 1);
    let id = agent.recovered.core.identity().checkpoint_id.to_string();
    let moved = rig.work_dir().join(".trash").join(id).join("3-0/inside");
    assert!(moved.join("precious").exists());
    drop(agent);
    unmount(&moved);
    rig.start();
    assert_eq!(rig.trash(), 0, "tried again at the next start");
}

/// A DESTROY on a mount that cannot be finished ends the process; the next start goes on.
#[test]
fn mount_inside_a_mount_disk_stops_its_destroy() {
    let Some(mounted) = Mounted::try_new("size=1m") else { return };
    let mut rig = Rig::new(Kind::Mount(mounted.path().to_owned()));
    let before = vec![rig.reserve(64), rig.create(&[("v1", 64)])];
    let destroy = rig.destroy(&[("v1", 64)]);
    let mut agent = rig.start();
    agent.serve(&[before]);
    let inside = mounted.path().join("inside");
    fs::create_dir(&inside).unwrap();
    assert!(mount_at(&inside, "size=64k"));
    fs::write(inside.join("precious"), "x").unwrap();
    let record = rig.volume("v1", 64);
    drop(agent);
    let stored = Checkpoint::look(rig.work_dir()).unwrap().unwrap();
    let known = *stored.memory.volumes.values().next().unwrap();
    let volumes = rig.start().recovered.volumes;
    let failure = volumes.destroy(destroy.seq, &[(record, Some(known))]).unwrap_err().to_string();
    assert!(failure.contains("inside: a file system is mounted there"), "{failure}");
    assert!(inside.join("precious").exists());
    unmount(&inside);
    rig.start().serve(&[vec![destroy]]);
    assert_eq!(fs::read_dir(mounted.path()).unwrap().count(), 0);
}

#[test]
fn disk_inside_a_volume_is_refused() {
    let rig = with_two_volumes();
    let before = image(rig.work_dir());
    let disk = |root: &str, kind: &str| {
        format!(
            r#"[{{"name":"cpus","type":"SCALAR","scalar":{{"value":4}}}},
            {{"name":"mem","type":"SCALAR","scalar":{{"value":64}}}},
            {{"name":"disk","type":"SCALAR","scalar":{{"value":1000}}}},
            {{"name":"disk","type":"SCALAR","scalar":{{"value":9}},"disk":{{"source":
                {{"type":"{}","{kind}":{{"root":"{root}"}}}}}}}}]"#,
            kind.to_uppercase()
        )
    };
    let refused = |root: &str, kind: &str| {
        let mut other = Rig::new(Kind::Root);
        other.flags = vec!["--resources".to_owned(), disk(root, kind)];
        let config =
            config(rig.work_dir(), &other.flags.iter().map(String::as_str).collect::<Vec<_>>());
        super::rig::one_line(&Agent::try_start(&config).unwrap_err())
    };
    let inside = rig.directory("v1").join("disk");
    let text = refused(inside.to_str().unwrap(), "path");
    assert!(text.contains("lies inside the volumes of"), "{text}");
    let text = refused("volumes/roles/web", "path");
    assert!(text.contains("lies inside the volumes of"), "{text}");
    let text = refused(rig.work_dir().parent().unwrap().to_str().unwrap(), "mount");
    assert!(text.contains("holds the work directory"), "{text}");
    assert_eq!(image(rig.work_dir()), before, "nothing is made or removed");
}
