//! The file: reopened, damaged, newer, taken.

use resources::id::{ClusterId, Incarnation, OperationId, Seq, Term};
use resources::message::{Fence, Order, Outcome, Settled};
use resources::operation::Operation;
use resources::parse;
use resources::resource::{Labels, Reservation, ReservationKind, Resource};
use resources::role::Role;

use super::*;

fn open(work_dir: &Path, id: &str) -> Result<(Checkpoint, Stored), OpenError> {
    let fresh = || Stored::fresh(CheckpointId::parse(id).unwrap());
    let stored = Checkpoint::look(work_dir)?.unwrap_or_else(fresh);
    Ok((Checkpoint::open(work_dir, &stored.checkpoint_id)?, stored))
}

fn fence(term: u64) -> Fence {
    let cluster_id = ClusterId::parse("c").unwrap();
    Fence { cluster_id, incarnation: Incarnation(0), term: Term(term) }
}

#[test]
fn rows_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let (checkpoint, stored) = open(folder.path(), "k1").unwrap();
    assert_eq!(stored.checkpoint_id.as_str(), "k1");
    checkpoint
        .commit(&[Write::Fence(fence(7)), Write::Applied { seq: Seq(3), failed: Seq(2) }])
        .unwrap();
    drop(checkpoint);
    let (_checkpoint, stored) = open(folder.path(), "k2").unwrap();
    assert_eq!(stored.checkpoint_id.as_str(), "k1", "made once");
    assert_eq!(stored.memory.fence, Some(fence(7)));
    assert_eq!((stored.memory.applied_seq, stored.memory.failed_seq), (Seq(3), Seq(2)));
}

#[test]
fn half_made_file_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("meta")).unwrap();
    fs::write(folder.path().join("meta/agent.redb.new"), "torn").unwrap();
    open(folder.path(), "k1").unwrap();
}

#[test]
fn second_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _first = open(folder.path(), "k1").unwrap();
    assert!(matches!(open(folder.path(), "k1"), Err(OpenError::Locked { .. })));
}

#[test]
fn newer_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (checkpoint, _) = open(folder.path(), "k1").unwrap();
    let transaction = checkpoint.database.begin_write().unwrap();
    transaction.open_table(META).unwrap().insert("version", encode(&9_u64).as_slice()).unwrap();
    transaction.commit().unwrap();
    drop(checkpoint);
    let error = open(folder.path(), "k1").unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 9, .. }), "{error}");
}

#[test]
fn damage_is_refused_and_nothing_is_made_anew() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 4] = [
        ("empty", Vec::clear),
        ("truncated", |bytes| bytes.truncate(bytes.len() / 2)),
        ("header overwritten", |bytes| bytes[..512].fill(0xA5)),
        ("body overwritten", |bytes| bytes[4_096..].fill(0xA5)),
    ];
    for (name, damage) in damages {
        let folder = tempfile::tempdir().unwrap();
        let (checkpoint, _) = open(folder.path(), "k1").unwrap();
        checkpoint.commit(&[Write::Fence(fence(7))]).unwrap();
        drop(checkpoint);
        let path = path_of(folder.path());
        let mut bytes = fs::read(&path).unwrap();
        damage(&mut bytes);
        fs::write(&path, &bytes).unwrap();
        let error = open(folder.path(), "k2").expect_err(name);
        assert!(matches!(error, OpenError::Corrupt { .. }), "{name}: {error}");
        assert!(error.to_string().contains("agent.redb"), "{name}: {error}");
    }
}

fn reservation(cpus: u32) -> Resource {
    let text = format!("cpus:{cpus}");
    let plain = parse::resources_text(&text, &Role::star()).unwrap();
    plain.iter().next().unwrap().clone().push_reservation(Reservation {
        kind: ReservationKind::Dynamic,
        role: Role::parse("ads").unwrap(),
        principal: None,
        labels: Labels::default(),
    })
}

fn info() -> AgentInfo {
    AgentInfo {
        hostname: "h".to_owned(),
        host: "h".to_owned(),
        port: 5051,
        version: "1".to_owned(),
        attributes: Vec::new(),
        resources: Vec::new(),
    }
}

/// What version 1 left behind: a total, and a journal to be folded over it.
#[test]
fn version_1_is_read_and_the_next_start_writes_version_3() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("meta")).unwrap();
    let database = Database::create(path_of(folder.path())).unwrap();
    let transaction = database.begin_write().unwrap();
    let total: Resources = parse::resources_text("cpus:4", &Role::star()).unwrap();
    let order = Order {
        seq: Seq(1),
        operation_id: OperationId::parse("o1").unwrap(),
        operation: Operation::Reserve { resources: vec![reservation(3)], source: Vec::new() },
    };
    let settled = Settled {
        seq: Seq(1),
        operation_id: OperationId::parse("o1").unwrap(),
        outcome: Outcome::Finished,
    };
    {
        let mut meta = transaction.open_table(META).unwrap();
        for (key, value) in [
            ("version", encode(&1_u64)),
            ("checkpoint_id", encode("k1")),
            ("boot_counter", encode(&7_u64)),
            ("boot_id", encode("b1")),
            ("info", encode(&info())),
            ("applied", encode(&Seq(1))),
            ("total", encode(&total)),
        ] {
            meta.insert(key, value.as_slice()).unwrap();
        }
        let mut journal = transaction.open_table(JOURNAL).unwrap();
        journal.insert(1, encode(&order).as_slice()).unwrap();
        let mut table = transaction.open_table(SETTLED).unwrap();
        table.insert(1, encode(&settled).as_slice()).unwrap();
        transaction.open_table(INTENTS).unwrap();
        transaction.open_table(VOLUMES).unwrap();
    }
    transaction.commit().unwrap();
    drop(database);

    let mut expected = total;
    expected.apply(&order.operation).unwrap();
    for is_rewritten in [false, true] {
        let (checkpoint, stored) = open(folder.path(), "k2").unwrap();
        assert_eq!(stored.checkpoint_id.as_str(), "k1");
        assert_eq!(stored.total, expected);
        assert_eq!(stored.version == FORMAT_VERSION, is_rewritten);
        assert_eq!(stored.memory.settled[&Seq(1)].settled, settled);
        let start = Start {
            stored: &stored,
            boot_counter: 8,
            boot_id: "b1",
            info: &info(),
            total: &expected,
            forgets_agent_id: false,
        };
        checkpoint.start(&start).unwrap();
    }
}

/// Only entries that differ are written at a start, and none is forgotten.
#[test]
fn total_of_a_start_replaces_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let set = |text: &str| parse::resources_text(text, &Role::star()).unwrap();
    for text in ["cpus:4;mem:64;ports:[1-9]", "cpus:5;ports:[1-9];disk:7", "cpus:5;disk:7"] {
        let (checkpoint, stored) = open(folder.path(), "k1").unwrap();
        let start = Start {
            stored: &stored,
            boot_counter: 1,
            boot_id: "b1",
            info: &info(),
            total: &set(text),
            forgets_agent_id: false,
        };
        checkpoint.start(&start).unwrap();
        drop(checkpoint);
        assert_eq!(Checkpoint::look(folder.path()).unwrap().unwrap().total, set(text));
    }
}

#[test]
fn looking_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (checkpoint, _) = open(folder.path(), "k1").unwrap();
    checkpoint.commit(&[Write::Fence(fence(7))]).unwrap();
    // As a killed process leaves it: the store repairs such a file when it opens it.
    let killed = fs::read(path_of(folder.path())).unwrap();
    drop(checkpoint);
    fs::write(path_of(folder.path()), &killed).unwrap();
    let stored = Checkpoint::look(folder.path()).unwrap().unwrap();
    assert_eq!(stored.memory.fence, Some(fence(7)));
    assert_eq!(fs::read(path_of(folder.path())).unwrap(), killed);
}

/// One flipped bit anywhere is found, or was in a place that holds nothing.
#[test]
fn flipped_bits_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let (checkpoint, _) = open(folder.path(), "k1").unwrap();
    for term in 1..40 {
        let seq = Seq(term);
        checkpoint
            .commit(&[
                Write::Fence(fence(term)),
                Write::Applied { seq, failed: Seq(0) },
                Write::Entries {
                    removed: Vec::new(),
                    put: vec![(reservation(u32::try_from(term).unwrap()), 1)],
                },
            ])
            .unwrap();
    }
    drop(checkpoint);
    let path = path_of(folder.path());
    let good = fs::read(&path).unwrap();
    let header = 0..512;
    let pages = (512..good.len()).step_by(997);
    let (mut found, mut unused) = (0, 0);
    for at in header.chain(pages) {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        match Checkpoint::look(folder.path()) {
            Err(OpenError::Corrupt { .. }) => found += 1,
            Err(other) => panic!("byte {at}: {other}"),
            Ok(stored) => {
                let memory = stored.expect("the file is there").memory;
                assert_eq!(memory.applied_seq, Seq(39), "byte {at}");
                assert_eq!(memory.fence, Some(fence(39)), "byte {at}");
                unused += 1;
            }
        }
    }
    assert!(found > 20, "{found} found, {unused} in unused places");
}

mod faulty {
    //! A disk in memory that fails at a chosen call, and at every later one.

    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use parking_lot::Mutex;
    use redb::StorageBackend;

    #[derive(Debug, Clone)]
    pub(super) struct Disk {
        pub(super) bytes: Arc<Mutex<Vec<u8>>>,
        /// Changing calls until the failure.
        pub(super) left: Arc<AtomicUsize>,
    }

    impl Disk {
        fn change(&self) -> io::Result<()> {
            let spend = |left: usize| left.checked_sub(1);
            let spent = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spend);
            spent.map(|_| ()).map_err(|_| io::ErrorKind::StorageFull.into())
        }
    }

    impl StorageBackend for Disk {
        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.lock().len() as u64)
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            let offset = usize::try_from(offset).unwrap();
            out.copy_from_slice(&self.bytes.lock()[offset..offset + out.len()]);
            Ok(())
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.change()?;
            self.bytes.lock().resize(usize::try_from(len).unwrap(), 0);
            Ok(())
        }
        fn sync_data(&self) -> io::Result<()> {
            self.change()
        }
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.change()?;
            let offset = usize::try_from(offset).unwrap();
            self.bytes.lock()[offset..offset + data.len()].copy_from_slice(data);
            Ok(())
        }
    }
}

/// A disk that is full from its n-th call on: the checkpoint says so, and what it held before
/// is there as a whole afterwards.
#[test]
fn full_disk_leaves_the_last_checkpoint() {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use parking_lot::Mutex;

    let folder = tempfile::tempdir().unwrap();
    let (checkpoint, _) = open(folder.path(), "k1").unwrap();
    checkpoint.commit(&[Write::Fence(fence(1))]).unwrap();
    drop(checkpoint);
    let image = fs::read(path_of(folder.path())).unwrap();
    let writes = [
        Write::Fence(fence(2)),
        Write::Applied { seq: Seq(5), failed: Seq(0) },
        Write::Entries { removed: Vec::new(), put: vec![(reservation(1), 1)] },
    ];
    let mut failures = 0;
    for n in 0.. {
        let bytes = Arc::new(Mutex::new(image.clone()));
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let disk = faulty::Disk { bytes: bytes.clone(), left: left.clone() };
        let database = Builder::new().create_with_backend(disk).unwrap();
        let checkpoint = Checkpoint { database };
        left.store(n, std::sync::atomic::Ordering::SeqCst);
        let end = checkpoint.commit(&writes);
        // A killed process writes nothing more.
        let left_behind = bytes.lock().clone();
        drop(checkpoint);
        fs::write(path_of(folder.path()), &left_behind).unwrap();
        let stored = Checkpoint::look(folder.path()).unwrap().unwrap();
        let is_new = stored.memory.fence == Some(fence(2));
        assert_eq!(stored.memory.applied_seq, Seq(if is_new { 5 } else { 0 }), "call {n}");
        assert_eq!(stored.total.len(), usize::from(is_new), "call {n}");
        if end.is_ok() {
            assert!(is_new, "call {n}");
            break;
        }
        failures += 1;
    }
    assert!(failures >= 2, "only {failures} calls could fail");
}

#[test]
fn lost_and_exchanged_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path(), "k1").unwrap());
    let other = tempfile::tempdir().unwrap();
    drop(open(other.path(), "k2").unwrap());
    fs::copy(path_of(other.path()), path_of(folder.path())).unwrap();
    let error = open(folder.path(), "k3").unwrap_err();
    assert!(
        matches!(&error, OpenError::Foreign { expected, found, .. }
        if expected == "k1" && found == "k2"),
        "{error}"
    );
    fs::remove_file(path_of(folder.path())).unwrap();
    let error = open(folder.path(), "k3").unwrap_err();
    assert!(error.to_string().contains("meta/checkpoint_id names k1"), "{error}");
    fs::remove_file(folder.path().join(NAME)).unwrap();
    fs::create_dir_all(folder.path().join("volumes/roles/ads")).unwrap();
    let error = open(folder.path(), "k3").unwrap_err();
    assert!(error.to_string().contains("holds volumes"), "{error}");
}
