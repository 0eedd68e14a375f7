//! What went wrong in the field with volumes on other clusters, as far as it concerns the agent
//! alone. The name of each test begins with the number of its report.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use resources::id::Seq;
use resources::message::{MasterMessage, Retry};

use super::field_reports::with_volume;
use super::rig::{Kind, Mounted, Rig, folder};
use crate::core::event::Event;

fn plant(directory: &Path, outside: &Path) {
    for n in 0..3_000 {
        fs::write(directory.join(format!("file{n}")), "x").unwrap();
    }
    fs::create_dir_all(directory.join("a/b/c/d/e/f")).unwrap();
    fs::write(directory.join("a/b/c/d/e/f/deep"), "x").unwrap();
    fs::create_dir(directory.join("closed")).unwrap();
    fs::write(directory.join("closed/file"), "x").unwrap();
    fs::create_dir(directory.join("closed/inner")).unwrap();
    fs::write(directory.join("none"), "x").unwrap();
    let mode = |path: &str, mode| {
        fs::set_permissions(directory.join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("none", 0o000);
    mode("closed/inner", 0o000);
    mode("closed", 0o500);
    symlink(outside, directory.join("link")).unwrap();
    symlink(outside.join("precious"), directory.join("a/link")).unwrap();
}

#[test]
fn v01_destroy_removes_all_data_and_nothing_else() {
    let outside = folder();
    fs::write(outside.path().join("precious"), "x").unwrap();
    let disks = folder();
    let mounted = Mounted::try_new("size=16m,nr_inodes=8k");
    let mount = mounted.as_ref().map(|mounted| Kind::Mount(mounted.path().to_owned()));
    let kinds = [Kind::Root, Kind::Path(disks.path().to_owned())];
    for kind in kinds.into_iter().chain(mount) {
        let mut rig = with_volume(kind.clone());
        plant(&rig.directory("v1"), outside.path());
        let destroy = rig.destroy(&[("v1", 64)]);
        let mut agent = rig.start();
        agent.serve(&[vec![destroy]]);
        assert_eq!(agent.failures(), Vec::<String>::new());
        match kind {
            Kind::Mount(ref root) => assert_eq!(fs::read_dir(root).unwrap().count(), 0),
            Kind::Root | Kind::Path(_) => assert!(!rig.directory("v1").exists()),
        }
        assert_eq!(rig.trash(), 0, "{kind:?}");
        assert!(outside.path().join("precious").exists(), "{kind:?}");
    }
}

#[test]
fn v06_agent_that_was_cut_off_comes_back_with_its_volumes() {
    let rig = with_volume(Kind::Root);
    let mut agent = rig.start();
    agent.register();
    let before = agent.registration().clone();
    for _ in 0..5 {
        agent.step(Event::Closed);
        agent.step(Event::Opened);
    }
    assert_eq!(*agent.registration(), before);
    assert!(rig.directory("v1").join("precious").exists());
}

#[test]
fn v08_agent_that_is_gone_ends_and_touches_nothing() {
    let rig = with_volume(Kind::Root);
    let mut agent = rig.start();
    agent.step(Event::Opened);
    let reason = "agent has been marked gone".to_owned();
    agent.receive(MasterMessage::Refused {
        reason,
        retry: Retry::Never,
        end_tasks: true,
        retry_after: None,
    });
    assert!(agent.exit.as_deref().is_some_and(|reason| reason.contains("marked gone")));
    assert!(agent.recovered.core.step(Event::Opened).is_empty(), "nothing follows");
    drop(agent);
    assert!(rig.directory("v1").join("precious").exists());
    assert_eq!(rig.start().total().volumes().count(), 1);
}

#[test]
fn v10_new_volume_never_holds_files_of_a_former_one() {
    let disks = folder();
    let mounted = Mounted::try_new("size=1m");
    let mount = mounted.as_ref().map(|mounted| Kind::Mount(mounted.path().to_owned()));
    let kinds = [Kind::Root, Kind::Path(disks.path().to_owned())];
    for kind in kinds.into_iter().chain(mount) {
        for id in ["v1", "v2"] {
            let mut rig = with_volume(kind.clone());
            let mb = if matches!(kind, Kind::Mount(_)) { 64 } else { 200 };
            let batch = vec![
                rig.destroy(&[("v1", 64)]),
                rig.unreserve(mb),
                rig.reserve(mb),
                rig.create(&[(id, 64)]),
            ];
            let mut agent = rig.start();
            agent.serve(&[batch]);
            assert_eq!(agent.failures(), Vec::<String>::new(), "{kind:?}");
            assert_eq!(fs::read_dir(rig.directory(id)).unwrap().count(), 0, "{kind:?}");
            fs::remove_dir_all(disks.path().join("volumes")).ok();
        }
    }
    // A directory of unknown origin is no former volume of ours: the case agt-009 has it taken
    // over with its content, which is never wiped. Without a checkpoint nobody can tell.
    let mut rig = Rig::new(Kind::Root);
    let batch = vec![rig.reserve(64), rig.create(&[("v1", 64)])];
    fs::create_dir_all(rig.directory("v1")).unwrap();
    fs::write(rig.directory("v1").join("secret"), "x").unwrap();
    fs::create_dir_all(rig.work_dir().join("meta")).unwrap();
    let text = rig.refusal(&[]);
    assert!(text.contains("holds volumes"), "a lost checkpoint: {text}");
    let kept = rig.work_dir().join("kept");
    fs::rename(rig.work_dir().join("volumes"), &kept).unwrap();
    let mut agent = rig.start();
    fs::rename(&kept, rig.work_dir().join("volumes")).unwrap();
    agent.serve(&[batch]);
    assert_eq!(agent.failures(), Vec::<String>::new());
    assert!(rig.directory("v1").join("secret").exists());
}

#[test]
fn v12_repeated_create_makes_one_volume() {
    let mut rig = Rig::new(Kind::Root);
    let batch = vec![rig.reserve(200), rig.create(&[("v1", 64)])];
    let mut agent = rig.start();
    agent.serve(std::slice::from_ref(&batch));
    fs::write(rig.directory("v1").join("precious"), "x").unwrap();
    let total = agent.total().clone();
    for _ in 0..3 {
        agent.receive(MasterMessage::Orders(batch.clone()));
        agent.step(Event::Closed);
        agent.register();
    }
    assert_eq!(*agent.total(), total);
    assert_eq!(agent.applied(), Seq(2));
    assert!(rig.directory("v1").join("precious").exists());
}

#[test]
fn v17_missing_volume_is_unavailable_until_it_is_back() {
    let mut rig = with_volume(Kind::Root);
    let create = vec![rig.create(&[("v2", 64)])];
    rig.start().serve(&[create]);
    let elsewhere = rig.work_dir().join("elsewhere");
    fs::rename(rig.directory("v1"), &elsewhere).unwrap();
    let mut agent = rig.start();
    assert!(agent.unavailable()[0].ends_with("ads/v1: missing"));
    agent.register();
    assert_eq!(agent.registration().unavailable, [rig.volume("v1", 64)]);
    assert_eq!(agent.total().volumes().count(), 2, "it stays on record");
    assert!(!rig.directory("v1").exists(), "and is not made again");
    drop(agent);

    fs::rename(&elsewhere, rig.directory("v1")).unwrap();
    let mut agent = rig.start();
    assert_eq!(agent.unavailable(), Vec::<String>::new());
    assert!(rig.directory("v1").join("precious").exists());
    fs::rename(rig.directory("v1"), &elsewhere).unwrap();
    let destroy = vec![rig.destroy(&[("v1", 64)])];
    agent.serve(&[destroy]);
    assert_eq!(agent.failures(), Vec::<String>::new(), "a missing volume can be destroyed");
    assert!(elsewhere.join("precious").exists());
}

/// Also while the agent runs: it registers anew, so that the master hears of it.
#[test]
fn v17_volume_that_goes_and_comes_back_is_seen_without_a_restart() {
    let rig = with_volume(Kind::Root);
    let elsewhere = rig.work_dir().join("elsewhere");
    let mut agent = rig.start();
    agent.register();
    agent.look_again();
    assert_eq!(agent.unavailable(), Vec::<String>::new());
    fs::rename(rig.directory("v1"), &elsewhere).unwrap();
    agent.look_again();
    assert!(agent.unavailable()[0].ends_with("ads/v1: missing"));
    agent.register();
    assert_eq!(agent.registration().unavailable, [rig.volume("v1", 64)]);
    fs::create_dir(rig.directory("v1")).unwrap();
    agent.look_again();
    assert!(agent.unavailable()[0].ends_with("another directory than the one made"));
    fs::remove_dir(rig.directory("v1")).unwrap();
    fs::rename(&elsewhere, rig.directory("v1")).unwrap();
    agent.look_again();
    assert_eq!(agent.unavailable(), Vec::<String>::new());
    agent.register();
    assert_eq!(agent.registration().unavailable, []);
}

#[test]
fn v17_missing_mount_is_unavailable_until_it_is_back() {
    let Some(mounted) = Mounted::try_new("size=1m") else { return };
    let mut rig = with_volume(Kind::Mount(mounted.path().to_owned()));
    mounted.unmount();
    let mut agent = rig.start();
    let reasons = agent.unavailable();
    assert!(reasons.len() == 1 && reasons[0].contains("another file system"), "{reasons:?}");
    // What lies below the mount point is not the volume: nothing is put there or removed.
    let below = mounted.path().join("below");
    fs::write(&below, "x").unwrap();
    let batch = vec![rig.destroy(&[("v1", 64)]), rig.create(&[("v2", 64)])];
    agent.serve(&[batch]);
    assert!(below.exists());
    let failures = agent.failures();
    assert!(failures.len() == 1 && failures[0].contains("not the file system"), "{failures:?}");
    drop(agent);
    assert!(mounted.mount("size=1m"));
    let mut agent = rig.start();
    let create = vec![rig.create(&[("v3", 64)])];
    agent.serve(&[create]);
    assert_eq!(agent.total().volumes().count(), 1);
}
