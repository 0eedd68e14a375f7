//! Runs every case of `algebra.json`, and of `validation.json` what this crate decides, found
//! in the folder that `HOLDFAST_CONFORMANCE` names (default: the workspace's copy). Each case
//! is an operation of this crate and what it must give; the rules are the crate's, nothing is
//! computed here. Next: `operations.rs` (which operation calls what), `decode.rs` (how a case
//! is read), `compare.rs` (how answers are judged), `classes.rs` (which error is which class),
//! `validation.rs` (operations of operators and frameworks).

mod classes;
mod compare;
mod decode;
mod frameworks;
mod operations;
mod validation;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Groups without an implementation; they are named, not failed.
const WAITING: [&str; 0] = [];

#[derive(Deserialize)]
struct Suite {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    group: String,
    op: String,
    #[serde(default)]
    input: Value,
    expect: Value,
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
}

fn read_suite<T: DeserializeOwned>(file: &str) -> T {
    let folder = std::env::var_os("HOLDFAST_CONFORMANCE").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| "tests/data/conformance".into());
    // Tests run in the folder of their package; a relative path is meant from the workspace's.
    let path = Path::new(WORKSPACE).join(folder).join(file);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Writes past the harness' capture, in one piece: the counts of a passing run are wanted too.
pub(crate) fn publish(report: &str) {
    std::io::stdout().lock().write_all(report.as_bytes()).expect("stdout is open");
}

#[test]
fn conformance() {
    let suite: Suite = read_suite("algebra.json");
    let mut report = String::new();
    let mut groups: BTreeMap<String, Tally> = BTreeMap::new();
    let mut waiting: BTreeMap<String, usize> = BTreeMap::new();
    for case in &suite.cases {
        if WAITING.contains(&case.group.as_str()) {
            *waiting.entry(case.group.clone()).or_default() += 1;
            continue;
        }
        let tally = groups.entry(case.group.clone()).or_default();
        match operations::run(&case.op, &case.input, &case.expect) {
            Ok(()) => tally.passed += 1,
            Err(reason) => {
                tally.failed += 1;
                writeln!(report, "FAILED {} ({}): {reason}", case.id, case.op).unwrap();
            }
        }
    }
    for (group, tally) in &groups {
        writeln!(report, "{group}: {}/{}", tally.passed, tally.failed).unwrap();
    }
    for (group, count) in &waiting {
        writeln!(report, "{group}: waits ({count} cases)").unwrap();
    }
    let passed: usize = groups.values().map(|tally| tally.passed).sum();
    let failed: usize = groups.values().map(|tally| tally.failed).sum();
    let waits: usize = waiting.values().sum();
    writeln!(report, "algebra: passed/failed: {passed}/{failed}, waits: {waits}").unwrap();
    publish(&report);
    assert!(passed + failed > 0, "no case was read");
    assert_eq!(failed, 0, "cases failed");
}
