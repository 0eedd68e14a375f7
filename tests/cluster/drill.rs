//! The drills and the bench themselves: a round of each ends without a violation, with credentials
//! or without.

use std::fs;

use crate::harness::{Dev, errors, holdfast};

#[tokio::test]
async fn leader_kill_finds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let credentials = folder.path().join("credentials.json");
    let list = r#"{"credentials": [{"principal": "ops", "secret": "s3cret"}]}"#;
    fs::write(&credentials, list).unwrap();
    let flag = format!("credentials={}", credentials.display());
    let dev = Dev::start_with(3, 2, &["--master-flag", &flag, "--master-flag=authenticate-http"]);
    let dir = dev.dir();
    let output = holdfast(&["drill", "leader-kill", "--rounds=1", "--dir", dir.to_str().unwrap()]);
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{table}{}", errors(&output));
    assert!(table.contains(" 0 violations"), "{table}");
}

#[tokio::test]
async fn framework_failover_finds_nothing() {
    let dev = Dev::start_with(3, 2, &["--master-flag", "allocation-interval=100ms"]);
    let dir = dev.dir();
    let dir = dir.to_str().unwrap();
    let output =
        holdfast(&["drill", "framework-failover", "--rounds=1", "--tasks=4", "--dir", dir]);
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{table}{}", errors(&output));
    assert!(table.contains(" 0 violations"), "{table}");
}

/// Two rounds of each drill on agents, one after the other on one cluster.
#[tokio::test]
async fn drills_on_agents_find_nothing() {
    let flags =
        ["allocation-interval=100ms", "agent-ping-timeout=1secs", "max-agent-ping-timeouts=2"];
    let flags: Vec<&str> = flags.iter().flat_map(|flag| ["--master-flag", flag]).collect();
    let dev = Dev::start_with(3, 2, &flags);
    let dir = dev.dir();
    let dir = dir.to_str().unwrap();
    for drill in [
        "agent-kill-mid-operation",
        "agent-reboot",
        "agent-partition",
        "stale-checkpoint",
        "masters-wiped",
        "disk-full",
    ] {
        let output = holdfast(&["drill", drill, "--rounds=2", "--dir", dir]);
        let table = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{drill}: {table}{}", errors(&output));
        assert!(table.contains(" 0 violations"), "{drill}: {table}");
    }
}

/// The emulated agents get all they should, and come back to another leader.
#[tokio::test]
async fn bench_of_agents_comes_to_its_end() {
    let dev = Dev::start_with(3, 0, &["--master-flag", "allocation-interval=100ms"]);
    let dir = dev.dir();
    let counts = ["--count=20", "--reservations=2", "--tasks=2"];
    let output =
        holdfast(&[&["bench", "agents", "--dir", dir.to_str().unwrap()][..], &counts].concat());
    let numbers = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{numbers}{}", errors(&output));
    for line in ["40 tasks run", "20 agents registered again", "registrations unchanged: 20"] {
        assert!(numbers.contains(line), "{line}: {numbers}");
    }
}
