//! Kills the agent at every step, also while it recovers, and starts it again on the same
//! directory: each order is either not done at all, or done as a whole and never twice.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use resources::collection::Resources;
use resources::message::Order;

use super::rig::{Agent, Kind, Mounted, Rig, folder};

/// What happens before the kills, and what is killed; each batch comes in one message.
struct Plot {
    rig: Rig,
    before: Vec<Vec<Order>>,
    batches: Vec<Vec<Order>>,
}

/// Totals that the agent may stand at: after each batch that a restart can find done.
fn stages(plot: &Plot, start: &Resources) -> Vec<Resources> {
    let mut total = start.clone();
    let mut stages = vec![total.clone()];
    for batch in &plot.batches {
        for order in batch {
            total.apply(&order.operation).unwrap();
        }
        stages.push(total.clone());
    }
    stages
}

/// Kills the life after `write` step by step, and each of the recoveries step by step.
fn kill_everywhere(write: impl Fn() -> Plot, keep: &[&str]) -> BTreeSet<&'static str> {
    let mut places = BTreeSet::new();
    for fuel in 1.. {
        let plot = write();
        let rig = &plot.rig;
        let mut agent = rig.start();
        agent.serve(&plot.before);
        let stages = stages(&plot, agent.total());
        drop(agent);
        for volume in stages[0].volumes() {
            let directory = rig.directory(volume.volume_id().unwrap().as_str());
            fs::write(directory.join("precious"), "x").unwrap();
        }
        let kept: Vec<u64> = keep.iter().map(|id| inode(&rig.directory(id))).collect();

        let end = rig.live(fuel, &mut places, |agent| agent.serve(&plot.batches));
        let mut recoveries = 1;
        while rig.live(recoveries, &mut places, |_| ()).is_none() {
            recoveries += 1;
        }
        let mut agent = rig.start();
        let stage = stages.iter().position(|stage| stage == agent.total());
        assert!(stage.is_some(), "killed at {fuel}: {}", agent.total());
        check_directories(&agent, rig, &stages, fuel);
        agent.serve(&plot.batches);
        assert_eq!(agent.total(), stages.last().unwrap(), "killed at {fuel}");
        assert_eq!(agent.failures(), Vec::<String>::new(), "killed at {fuel}");
        check_directories(&agent, rig, &stages, fuel);
        assert_eq!(rig.trash(), 0, "killed at {fuel}");
        let now: Vec<u64> = keep.iter().map(|id| inode(&rig.directory(id))).collect();
        assert_eq!(now, kept, "killed at {fuel}");
        for id in keep {
            assert!(rig.directory(id).join("precious").exists(), "killed at {fuel}");
        }
        if end.is_some() {
            assert!(fuel > 3, "the agent was killed only {fuel} times");
            return places;
        }
    }
    unreachable!("a life ends")
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// Every volume has its directory, and nothing else has one.
fn check_directories(agent: &Agent, rig: &Rig, stages: &[Resources], fuel: usize) {
    assert_eq!(agent.unavailable(), Vec::<String>::new(), "killed at {fuel}");
    if matches!(rig.kind, Kind::Mount(_)) {
        return;
    }
    let ids = |total: &Resources| -> BTreeSet<String> {
        total.volumes().map(|volume| volume.volume_id().unwrap().to_string()).collect()
    };
    let volumes = ids(agent.total());
    for id in stages.iter().flat_map(ids) {
        let is_there = rig.directory(&id).is_dir();
        assert_eq!(is_there, volumes.contains(&id), "{id}, killed at {fuel}");
    }
}

/// Several orders in one batch, and more than one batch.
fn directories(kind: Kind) -> Plot {
    let mut rig = Rig::new(kind);
    let before = vec![vec![rig.reserve(300), rig.create(&[("v1", 64), ("v2", 64)])]];
    let batches = vec![
        vec![
            rig.destroy(&[("v1", 64)]),
            rig.create(&[("v1", 64)]),
            rig.destroy(&[("v1", 64)]),
            rig.create(&[("v3", 32), ("v4", 32)]),
            rig.reserve(100),
        ],
        vec![rig.destroy(&[("v2", 64), ("v3", 32)]), rig.unreserve(100)],
    ];
    Plot { rig, before, batches }
}

const DIRECTORY_PLACES: [&str; 12] = [
    "a directory is made",
    "a volume is moved to the trash",
    "a volume's directory is synced",
    "an earlier move is synced",
    "an entry is removed",
    "an entry of the trash is removed",
    "its parent is synced",
    "the next action",
    "the trash is synced",
    "the volume's parent is synced",
    "the volumes are made",
    "the volumes are out of the way",
];

#[test]
fn killed_anywhere_on_the_root_disk() {
    let places = kill_everywhere(|| directories(Kind::Root), &[]);
    assert_eq!(Vec::from_iter(places), DIRECTORY_PLACES);
}

#[test]
fn killed_anywhere_on_a_path_disk() {
    let disks = folder();
    let n = std::cell::Cell::new(0);
    let fresh = || {
        n.set(n.get() + 1);
        directories(Kind::Path(disks.path().join(n.get().to_string())))
    };
    let places = kill_everywhere(fresh, &[]);
    assert_eq!(Vec::from_iter(places), DIRECTORY_PLACES);
}

#[test]
fn killed_anywhere_on_a_mount_disk() {
    let Some(mounted) = Mounted::try_new("size=1m") else { return };
    let write = || {
        for entry in fs::read_dir(mounted.path()).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }
        let mut rig = Rig::new(Kind::Mount(mounted.path().to_owned()));
        let before = vec![vec![rig.reserve(64), rig.create(&[("v1", 64)])]];
        let batches = vec![
            vec![rig.destroy(&[("v1", 64)]), rig.create(&[("v2", 64)])],
            vec![rig.destroy(&[("v2", 64)]), rig.unreserve(64)],
        ];
        fs::create_dir(mounted.path().join("folder")).unwrap();
        fs::write(mounted.path().join("folder/file"), "x").unwrap();
        Plot { rig, before, batches }
    };
    let places = kill_everywhere(write, &[]);
    assert_eq!(fs::read_dir(mounted.path()).unwrap().count(), 0, "emptied in place");
    assert!(places.contains("an emptied mount is synced"), "{places:?}");
    assert!(places.contains("an entry is removed"), "{places:?}");
}

/// One operation at a time, on a disk that can be divided.
fn single(kind: Kind, name: &str) -> Plot {
    let mut rig = Rig::new(kind);
    let before = vec![vec![rig.reserve(300), rig.create(&[("v1", 64), ("v2", 64)])]];
    let order = match name {
        "reserve" => rig.reserve(50),
        "unreserve" => rig.unreserve(50),
        "create" => rig.create(&[("v3", 32), ("v4", 32)]),
        "destroy" => rig.destroy(&[("v2", 64)]),
        "grow" => rig.grow("v1", 64, 36),
        _ => rig.shrink("v1", 64, 24),
    };
    Plot { rig, before, batches: vec![vec![order]] }
}

#[test]
fn killed_anywhere_in_each_operation() {
    let disks = folder();
    let n = std::cell::Cell::new(0);
    let path = || {
        n.set(n.get() + 1);
        Kind::Path(disks.path().join(n.get().to_string()))
    };
    for name in ["reserve", "unreserve", "create", "destroy", "grow", "shrink"] {
        let keep: &[&str] = if name == "destroy" { &["v1"] } else { &["v1", "v2"] };
        kill_everywhere(|| single(Kind::Root, name), keep);
        kill_everywhere(|| single(path(), name), keep);
    }
}

/// A MOUNT disk goes as a whole: its volume cannot be resized.
#[test]
fn killed_anywhere_in_each_operation_on_a_mount_disk() {
    let Some(mounted) = Mounted::try_new("size=1m") else { return };
    for name in ["reserve", "create", "destroy", "unreserve"] {
        let write = || {
            for entry in fs::read_dir(mounted.path()).unwrap().flatten() {
                fs::remove_file(entry.path()).unwrap();
            }
            let mut rig = Rig::new(Kind::Mount(mounted.path().to_owned()));
            let (reserve, create) = (rig.reserve(64), rig.create(&[("v1", 64)]));
            let (destroy, unreserve) = (rig.destroy(&[("v1", 64)]), rig.unreserve(64));
            let orders = [reserve, create, destroy, unreserve];
            let names = ["reserve", "create", "destroy", "unreserve"];
            let at = names.iter().position(|of| *of == name).unwrap();
            let before = vec![orders[..at].to_vec()];
            Plot { rig, before, batches: vec![vec![orders[at].clone()]] }
        };
        kill_everywhere(write, &[]);
    }
}

/// A batch without directories, and one with: grow and shrink never touch files (V04).
#[test]
fn v04_killed_anywhere_while_a_volume_is_resized() {
    let write = || {
        let mut rig = Rig::new(Kind::Root);
        let before = vec![vec![rig.reserve(300), rig.create(&[("v1", 64), ("v2", 64)])]];
        let batches = vec![
            vec![rig.grow("v1", 64, 100), rig.shrink("v1", 164, 50), rig.grow("v1", 114, 6)],
            vec![rig.shrink("v1", 120, 20), rig.create(&[("v3", 8)]), rig.grow("v3", 8, 8)],
            vec![rig.destroy(&[("v3", 16)]), rig.shrink("v1", 100, 36)],
        ];
        Plot { rig, before, batches }
    };
    kill_everywhere(write, &["v1", "v2"]);
}

/// The first start of all: the checkpoint is made once, whatever happens.
#[test]
fn killed_anywhere_at_the_first_start() {
    let mut places = BTreeSet::new();
    for fuel in 1.. {
        let mut rig = Rig::new(Kind::Root);
        let orders = [vec![rig.reserve(64)], vec![rig.create(&[("v1", 64)])]];
        let mut known = None;
        let mut ended = false;
        for fuel in [fuel, fuel / 2, fuel / 3] {
            let end = rig.live(fuel.max(1), &mut places, |agent| {
                agent.serve(&orders);
                known = Some(agent.recovered.core.identity().checkpoint_id.clone());
            });
            ended |= end.is_some();
        }
        let mut agent = rig.start();
        let id = agent.recovered.core.identity().checkpoint_id.clone();
        assert!(known.is_none_or(|known| known == id), "killed at {fuel}");
        agent.serve(&orders);
        assert!(rig.directory("v1").is_dir());
        assert_eq!(agent.total().volumes().count(), 1);
        if ended {
            break;
        }
    }
    for place in [
        "the checkpoint is made under another name",
        "the checkpoint has its name",
        "the id stands beside the checkpoint",
    ] {
        assert!(places.contains(place), "{places:?}");
    }
}

/// All pairs of a death and a death in the first recovery after it.
#[test]
fn v02_killed_twice_anywhere() {
    let write = || {
        let mut rig = Rig::new(Kind::Root);
        let before = vec![vec![rig.reserve(300), rig.create(&[("v1", 64)])]];
        let batches = vec![vec![rig.destroy(&[("v1", 64)]), rig.create(&[("v1", 64)])]];
        Plot { rig, before, batches }
    };
    let mut places = BTreeSet::new();
    for first in 1.. {
        let mut is_over = false;
        for second in 1.. {
            let plot = write();
            let mut agent = plot.rig.start();
            agent.serve(&plot.before);
            let expected = agent.total().clone();
            drop(agent);
            fs::write(plot.rig.directory("v1").join("old"), "x").unwrap();
            let life = plot.rig.live(first, &mut places, |agent| agent.serve(&plot.batches));
            is_over = life.is_some();
            let recovery = plot.rig.live(second, &mut places, |_| ());
            let mut agent = plot.rig.start();
            assert_eq!(*agent.total(), expected, "killed at {first} and {second}");
            agent.serve(&plot.batches);
            assert_eq!(*agent.total(), expected, "killed at {first} and {second}");
            let v1 = plot.rig.directory("v1");
            assert_eq!(fs::read_dir(v1).unwrap().count(), 0, "killed at {first} and {second}");
            assert_eq!(plot.rig.trash(), 0, "killed at {first} and {second}");
            if recovery.is_some() {
                break;
            }
        }
        if is_over {
            break;
        }
    }
}
