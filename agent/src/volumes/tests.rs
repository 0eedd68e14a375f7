//! Directories on a real file system: made, kept, moved, left alone.

use std::fs;

use resources::id::Principal;
use resources::parse;
use resources::resource::{Disk, Labels, Persistence, Reservation, ReservationKind, VolumeMode};
use resources::resource::{DiskSource, VolumeMount};
use resources::role::Role;

use super::*;

/// A volume `v1` of role `eng/web` on the given disk.
fn volume(source: Option<(DiskSourceKind, &Path)>) -> Resource {
    let disk = parse::resources_text("disk:64", &Role::star()).unwrap();
    let mut volume = disk.iter().next().unwrap().clone().push_reservation(Reservation {
        kind: ReservationKind::Dynamic,
        role: Role::parse("eng/web").unwrap(),
        principal: Some(Principal::new("ops")),
        labels: Labels::default(),
    });
    let source = source.map(|(kind, root)| DiskSource {
        kind,
        root: Some(root.to_str().unwrap().to_owned()),
        id: None,
        metadata: Labels::default(),
        profile: None,
        vendor: None,
    });
    volume.disk = Some(Disk {
        source,
        persistence: Some(Persistence { id: "v1".parse().unwrap(), principal: None }),
        volume: Some(VolumeMount { container_path: "data".to_owned(), mode: VolumeMode::Rw }),
    });
    volume
}

/// Name of the agent whose volumes these are.
const OWNER: &str = "k1";

struct Bench {
    folder: tempfile::TempDir,
    volumes: Volumes,
}

/// The volumes of an agent that declares the disks of these.
fn volumes_of(owner: &str, work_dir: &Path, declared: &[&Resource]) -> Volumes {
    let owner = CheckpointId::parse(owner).unwrap();
    Volumes::new(work_dir, &owner, declared.iter().copied(), |_| false)
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let volumes = volumes_of(OWNER, folder.path(), &[]);
        Self { folder, volumes }
    }
    fn declare(&mut self, volume: &Resource) {
        self.volumes = volumes_of(OWNER, self.folder.path(), &[volume]);
    }
    fn directory(&self) -> PathBuf {
        self.folder.path().join("volumes/roles/eng web/v1")
    }
    fn create(&self, volume: &Resource) -> VolumeRecord {
        let marker = self.volumes.create(std::slice::from_ref(volume)).unwrap()[0];
        VolumeRecord { create_seq: Seq(1), marker }
    }
    fn destroy(&self, seq: u64, volume: &Resource, record: Option<VolumeRecord>) {
        self.volumes.destroy(Seq(seq), &[(volume.clone(), record)]).unwrap();
    }
    fn trash(&self) -> Vec<String> {
        let own = self.folder.path().join(TRASH).join(OWNER);
        let entries = fs::read_dir(own).into_iter().flatten();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn life_of_a_directory() {
    let bench = Bench::new();
    let volume = volume(None);
    let record = bench.create(&volume);
    assert_eq!(bench.volumes.look(&volume, &record), Ok(()));
    fs::write(bench.directory().join("marker"), "x").unwrap();

    bench.destroy(2, &volume, Some(record));
    assert!(!bench.directory().exists());
    let wrong = bench.volumes.look(&volume, &record).unwrap_err();
    assert!(wrong.ends_with("eng web/v1: missing"), "{wrong}");
    assert_eq!(bench.trash(), ["2-0"]);

    bench.volumes.empty_trash(Seq(1));
    assert_eq!(bench.trash(), ["2-0"], "a later order's trash stays");
    bench.volumes.empty_trash(Seq(2));
    assert!(bench.trash().is_empty());
}

#[test]
fn directory_on_a_path_disk() {
    let mut bench = Bench::new();
    let root = tempfile::tempdir().unwrap();
    let volume = volume(Some((DiskSourceKind::Path, root.path())));
    bench.declare(&volume);
    let record = bench.create(&volume);
    let directory = root.path().join("volumes/roles/eng web/v1");
    assert!(directory.is_dir());
    bench.destroy(2, &volume, Some(record));
    assert!(!directory.exists());
    assert!(root.path().join(".trash/k1/2-0").is_dir());
    volumes_of(OWNER, bench.folder.path(), &[&volume]).empty_trash(Seq(2));
    assert!(!root.path().join(".trash/k1/2-0").exists());
}

#[test]
fn agents_that_share_a_root_empty_their_own_trash() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = tempfile::tempdir().unwrap();
    let volume = volume(Some((DiskSourceKind::Path, root.path())));
    let agents = [("k1", &one), ("k2", &two)];
    let agents = agents.map(|(name, work_dir)| volumes_of(name, work_dir.path(), &[&volume]));
    for agent in &agents {
        let marker = agent.create(std::slice::from_ref(&volume)).unwrap()[0];
        let record = VolumeRecord { create_seq: Seq(1), marker };
        agent.destroy(Seq(2), &[(volume.clone(), Some(record))]).unwrap();
    }
    let is_kept = |name: &str| root.path().join(TRASH).join(name).join("2-0").is_dir();
    assert!(is_kept("k1") && is_kept("k2"), "one number, two agents");
    agents[1].empty_trash(Seq(9));
    assert!(is_kept("k1") && !is_kept("k2"));
    agents[0].empty_trash(Seq(9));
    assert!(!is_kept("k1"));
}

#[test]
fn create_keeps_what_a_directory_holds() {
    let bench = Bench::new();
    fs::create_dir_all(bench.directory()).unwrap();
    fs::write(bench.directory().join("old"), "x").unwrap();
    bench.create(&volume(None));
    assert_eq!(fs::read_to_string(bench.directory().join("old")).unwrap(), "x");
}

#[test]
fn create_fails_without_a_trace() {
    let bench = Bench::new();
    let good = volume(None);
    let mut bad = volume(None);
    bad.disk.as_mut().unwrap().persistence.as_mut().unwrap().id = "v2".parse().unwrap();
    let parent = bench.directory().parent().unwrap().to_owned();
    fs::create_dir_all(&parent).unwrap();
    fs::write(parent.join("v2"), "a file").unwrap();
    let reason = bench.volumes.create(&[good, bad]).unwrap_err();
    assert!(reason.contains("v2"), "{reason}");
    assert!(!bench.directory().exists(), "the first one is taken back");
}

#[test]
fn destroy_runs_again_after_the_move() {
    let bench = Bench::new();
    let volume = volume(None);
    let record = bench.create(&volume);
    bench.destroy(2, &volume, Some(record));
    // The batch went on: order 3 made the directory anew. Then the process died, and order 2
    // runs again from the checkpoint before it.
    bench.create(&volume);
    fs::write(bench.directory().join("new"), "x").unwrap();
    bench.destroy(2, &volume, Some(record));
    assert!(bench.directory().join("new").exists(), "the new volume is not the old one");
}

#[test]
fn destroy_leaves_a_foreign_directory_alone() {
    let bench = Bench::new();
    let volume = volume(None);
    let record = bench.create(&volume);
    fs::rename(bench.directory(), bench.folder.path().join("elsewhere")).unwrap();
    fs::create_dir(bench.directory()).unwrap();
    fs::write(bench.directory().join("precious"), "x").unwrap();
    let wrong = bench.volumes.look(&volume, &record).unwrap_err();
    assert!(wrong.ends_with("another directory than the one made"), "{wrong}");
    bench.destroy(2, &volume, Some(record));
    bench.destroy(3, &volume, None);
    assert!(bench.directory().join("precious").exists());
}

#[test]
fn links_are_not_followed() {
    let bench = Bench::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("precious"), "x").unwrap();
    fs::create_dir_all(bench.directory().parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(outside.path(), bench.directory()).unwrap();
    let volume = volume(None);
    assert!(bench.volumes.create(std::slice::from_ref(&volume)).is_err());
    let stat = fs::metadata(outside.path()).unwrap();
    let marker = Marker {
        device: std::os::unix::fs::MetadataExt::dev(&stat),
        inode: std::os::unix::fs::MetadataExt::ino(&stat),
    };
    bench.destroy(2, &volume, Some(VolumeRecord { create_seq: Seq(1), marker }));
    assert!(outside.path().join("precious").exists());
}

/// The root of a MOUNT disk is a plain directory here: mounting needs rights.
#[test]
fn mount_is_emptied_in_place() {
    let mut bench = Bench::new();
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("precious"), "x").unwrap();
    let volume = volume(Some((DiskSourceKind::Mount, root.path())));
    bench.declare(&volume);
    fs::write(root.path().join("old"), "x").unwrap();
    let record = bench.create(&volume);
    assert!(root.path().join("old").exists(), "never wiped at CREATE");

    fs::create_dir_all(root.path().join("a/b")).unwrap();
    fs::write(root.path().join("a/b/file"), "x").unwrap();
    std::os::unix::fs::symlink(outside.path(), root.path().join("link")).unwrap();
    bench.destroy(2, &volume, Some(record));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    assert!(outside.path().join("precious").exists());
    bench.destroy(2, &volume, Some(record));

    fs::write(root.path().join("precious"), "x").unwrap();
    let other = Marker { inode: record.marker.inode + 1, ..record.marker };
    bench.destroy(3, &volume, Some(VolumeRecord { marker: other, ..record }));
    assert!(root.path().join("precious").exists(), "another file system is mounted there");
}
