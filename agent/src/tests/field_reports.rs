//! What went wrong in the field with other clusters, as far as it concerns the agent alone. The
//! name of each test begins with the number of its report; `v02` and `v04` are in `crash.rs`,
//! `a14` in `reconfiguration.rs`, `a10` in `session/tests.rs` too; those about volumes are in
//! `volume_reports.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use resources::id::{AgentId, Seq};
use resources::message::{AgentMessage, Order};

use super::rig::{Agent, Kind, Mounted, Rig, config, image};

/// An agent `S0` with 200 MB reserved, and the volume `v1` with a file in it.
pub(crate) fn with_volume(kind: Kind) -> Rig {
    let mut rig = Rig::new(kind);
    let mb = if matches!(rig.kind, Kind::Mount(_)) { 64 } else { 200 };
    let batch = vec![rig.reserve(mb), rig.create(&[("v1", 64)])];
    rig.start().serve(&[batch]);
    fs::write(rig.directory("v1").join("precious"), "x").unwrap();
    rig
}

type Damage = fn(&Path);

#[test]
fn a01_damaged_files_are_named_and_nothing_is_removed() {
    let damages: [(&str, Damage); 7] = [
        ("emptied", |path| fs::write(path, "").unwrap()),
        ("cut in half", |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("garbled", |path| {
            let len = fs::read(path).unwrap().len();
            fs::write(path, vec![0xA5; len]).unwrap();
        }),
        ("deleted", |path| fs::remove_file(path).unwrap()),
        ("a directory", |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
        ("a link to nowhere", |path| {
            fs::remove_file(path).unwrap();
            symlink("/does/not/exist", path).unwrap();
        }),
        ("a pipe", |path| {
            fs::remove_file(path).unwrap();
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
        }),
    ];
    let rig = with_volume(Kind::Root);
    let good = fs::read(rig.checkpoint()).unwrap();
    for (name, damage) in damages {
        damage(&rig.checkpoint());
        let is_pipe = name == "a pipe";
        let before = if is_pipe { Vec::new() } else { image(rig.work_dir()) };
        let text = rig.refusal(&[]);
        assert!(text.contains("agent.redb"), "{name}: {text}");
        if !is_pipe {
            assert_eq!(image(rig.work_dir()), before, "{name}");
        }
        assert!(rig.directory("v1").join("precious").exists(), "{name}");
        let path = rig.checkpoint();
        if path.is_dir() {
            fs::remove_dir(&path).unwrap()
        } else {
            let _gone = fs::remove_file(&path);
        }
        fs::write(&path, &good).unwrap();
        assert_eq!(rig.start().total().volumes().count(), 1, "{name}: repaired");
    }
    // The other file of the state: it only names the work directory.
    let name = rig.work_dir().join("meta/checkpoint_id");
    fs::write(&name, "garbled").unwrap();
    let text = rig.refusal(&[]);
    assert!(text.contains("meta/checkpoint_id"), "{text}");
    fs::remove_file(&name).unwrap();
    assert_eq!(rig.start().total().volumes().count(), 1, "made again");
    assert!(name.exists());
}

/// Random orders with a death somewhere in each batch: whatever the agent says it has done is
/// done, once, and resources and outcomes never part.
#[test]
fn a03_operations_and_resources_are_one_record() {
    for seed in 0..6 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut rig = Rig::new(Kind::Root);
        let mut model = rig.start().total().clone();
        let mut orders: Vec<Order> = vec![rig.reserve(500)];
        model.apply(&orders[0].operation).unwrap();
        let mut sizes: [Option<i64>; 4] = [None; 4];
        let mut places = BTreeSet::new();
        for _ in 0..12 {
            for _ in 0..rng.random_range(1..5) {
                let at = rng.random_range(0..sizes.len());
                let id = format!("v{at}");
                let order = match (sizes[at], rng.random_range(0..4)) {
                    (None, _) => {
                        sizes[at] = Some(20);
                        rig.create(&[(&id, 20)])
                    }
                    (Some(mb), 0) => {
                        sizes[at] = None;
                        rig.destroy(&[(&id, mb)])
                    }
                    (Some(mb), 1) if mb > 5 => {
                        sizes[at] = Some(mb - 5);
                        rig.shrink(&id, mb, 5)
                    }
                    (Some(mb), 2) if mb < 60 => {
                        sizes[at] = Some(mb + 7);
                        rig.grow(&id, mb, 7)
                    }
                    (Some(_), _) => rig.reserve(1),
                };
                model.apply(&order.operation).unwrap();
                orders.push(order);
            }
            let batch = [orders.clone()];
            let fuel = rng.random_range(1..40);
            rig.live(fuel, &mut places, |agent| agent.serve(&batch));
            rig.live(rng.random_range(1..10), &mut places, |_| ());
        }
        let mut agent = rig.start();
        agent.serve(&[orders.clone()]);
        assert_eq!(*agent.total(), model, "seed {seed}");
        assert_eq!(agent.applied(), orders.last().unwrap().seq, "seed {seed}");
        assert_eq!(agent.failures(), Vec::<String>::new(), "seed {seed}");
        for (at, size) in sizes.iter().enumerate() {
            let is_there = rig.directory(&format!("v{at}")).is_dir();
            assert_eq!(is_there, size.is_some(), "seed {seed}");
        }
    }
}

#[test]
fn a04_orders_of_the_time_away_are_carried_out() {
    let mut rig = with_volume(Kind::Root);
    let away = vec![
        rig.destroy(&[("v1", 64)]),
        rig.reserve(100),
        rig.create(&[("v2", 128)]),
        rig.unreserve(100),
    ];
    // Restarted quickly, it never gets as far as to hear of them.
    for _ in 0..3 {
        let mut agent = rig.start();
        agent.register();
        assert_eq!(agent.registration().applied_seq, Seq(2));
    }
    let mut agent = rig.start();
    agent.serve(&[away]);
    assert_eq!(agent.applied(), Seq(6));
    assert_eq!(agent.failures(), Vec::<String>::new());
    assert!(!rig.directory("v1").exists() && rig.directory("v2").is_dir());
    let Some(AgentMessage::Report { upto, exceptions }) = agent.sent.last() else { panic!() };
    assert!(*upto == Seq(6) && exceptions.is_empty());
}

#[test]
fn a05_reboot_keeps_id_and_volumes() {
    let rig = with_volume(Kind::Root);
    let before = rig.start().total().clone();
    let mut agent = Agent::try_start(&rig.config(&["--boot-id", "b2"])).unwrap();
    assert_eq!(agent.recovered.core.agent_id().map(AgentId::as_str), Some("S0"));
    assert_eq!(*agent.total(), before);
    agent.register();
    assert_eq!(agent.registration().unavailable, []);
    assert!(rig.directory("v1").join("precious").exists());
}

#[test]
fn a08_changed_flags_are_taken_or_explained() {
    let mut rig = Rig::new(Kind::Root);
    rig.flags = ["--resources", "cpus:4;mem:64;disk:1000"].map(String::from).into();
    let batch = vec![rig.reserve(200), rig.create(&[("v1", 64)])];
    rig.start().serve(&[batch]);
    let start = |resources: &str| {
        let flags = ["--reconfiguration-policy", "additive", "--resources", resources];
        Agent::try_start(&config(rig.work_dir(), &flags))
    };
    let before = image(rig.work_dir());
    for less in ["cpus:4;mem:64;disk:900", "cpus:4;mem:63;disk:1000", "cpus:4;mem:64;disk:20"] {
        let text = super::rig::one_line(&start(less).unwrap_err());
        assert!(text.contains("resources was 'cpus:4; disk:1000; mem:64; "), "{text}");
        assert_eq!(image(rig.work_dir()), before, "{text}");
    }
    for more in
        ["cpus:8;mem:64;disk:1000", "cpus:8;mem:64;disk:2000", "cpus:8;mem:64;disk:2000;x:1"]
    {
        let agent = start(more).unwrap();
        assert_eq!(agent.recovered.core.agent_id().map(AgentId::as_str), Some("S0"));
    }
}

#[test]
fn a09_detected_disk_is_its_capacity_and_stays() {
    let Some(mounted) = Mounted::try_new("size=40m") else { return };
    let work_dir = mounted.path().join("w");
    let flags = ["--resources", "cpus:4;mem:64"];
    let total = |flags: &[&str]| {
        let agent = Agent::try_start(&config(&work_dir, flags)).unwrap();
        agent.total().scalar("disk").unwrap().milli()
    };
    let first = total(&flags);
    assert_eq!(first, 20_000, "half of a small disk");
    fs::write(mounted.path().join("data"), vec![7; 30 << 20]).unwrap();
    for _ in 0..3 {
        assert_eq!(total(&flags), first);
    }
    mounted.mount("remount,size=42m");
    assert_eq!(total(&flags), first, "a small drift counts as none");
    assert_eq!(total(&[&flags[..], &["--reconfiguration-policy", "additive"]].concat()), 21_000);
}
