//! The file: reopened, damaged, newer, taken.

use std::path::PathBuf;

use resources::id::{ClusterId, Incarnation, Term};
use resources::message::Fence;

use super::*;

fn file_of(work_dir: &Path) -> PathBuf {
    work_dir.join("meta/agent.redb")
}

fn open(work_dir: &Path, id: &str) -> Result<(Checkpoint, Stored), OpenError> {
    Checkpoint::open(work_dir, || CheckpointId::parse(id).unwrap())
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
        let path = file_of(folder.path());
        let mut bytes = fs::read(&path).unwrap();
        damage(&mut bytes);
        fs::write(&path, &bytes).unwrap();
        let error = open(folder.path(), "k2").expect_err(name);
        assert!(matches!(error, OpenError::Corrupt { .. }), "{name}: {error}");
        assert!(error.to_string().contains("agent.redb"), "{name}: {error}");
    }
}
