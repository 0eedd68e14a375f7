//! The drills themselves: one round of each ends without a violation, with credentials or without.

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
