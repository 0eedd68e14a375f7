//! How processes start and refuse to: flags, ports, directories of somebody else, and `dev` on a
//! directory it has seen before.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use chaos::client::Client;
use chaos::cluster::{Cluster, Member};
use chaos::process::{self, Signal};
use chaos::{observe, wait};

use crate::harness::{DEADLINE, Dev, assert_success, errors, free_port, holdfast};

fn assert_fails(output: &Output, code: i32, part: &str) {
    let text = errors(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.contains(part), "'{text}' lacks '{part}'");
    assert_eq!(text.trim().lines().count(), 1, "one clear line: {text}");
}

#[test]
fn wrong_flags_are_one_line_and_exit_2() {
    for (arguments, part) in [
        (vec!["master"], "--id"),
        (vec!["master", "--id", "x", "--work-dir", "d"], "'x'"),
        (vec!["master", "--id=1", "--work-dir=d", "--peers=1=a:1", "--wrong=1"], "--wrong"),
        (vec!["master", "--id=1", "--work_dir=d", "--peers=1=a:1", "--listen=nonsense"], "listen"),
        (vec!["master", "--id=1", "--work-dir=d", "--election-timeout=soon"], "election-timeout"),
        (vec!["master", "--config=/nonexistent/file"], "/nonexistent/file"),
        (vec!["agent"], "agent: --"),
        (vec!["agent", "--master=a:1", "--work-dir=d", "--resources=cpus"], "resources"),
        (vec!["dev", "--masters=0"], "--masters"),
        (vec!["dev", "--dir=/nonexistent/x", "--master-flag=nonsense=1"], "--nonsense"),
        (vec!["drill", "nonsense"], "leader-kill"),
        (vec!["nonsense"], "nonsense"),
        (vec!["volume", "list", "-o", "yaml"], "yaml"),
    ] {
        assert_fails(&holdfast(&arguments), 2, part);
    }
}

#[test]
fn help_and_version_are_no_failures() {
    for arguments in [vec!["--help"], vec!["--version"], vec!["master", "--help"]] {
        let output = holdfast(&arguments);
        assert!(output.status.success(), "{}", errors(&output));
        assert!(!output.stdout.is_empty());
    }
}

fn master(port: u16, dir: &Path, id: &str) -> Output {
    let peer = port + 1000;
    holdfast(&[
        "master",
        "--id",
        id,
        "--listen",
        &format!("127.0.0.1:{port}"),
        "--peers",
        &format!("{id}=127.0.0.1:{peer}"),
        "--work-dir",
        dir.to_str().unwrap(),
    ])
}

/// The last line of a process that logs before it fails.
fn last_line(output: &Output) -> String {
    errors(output).trim().lines().last().unwrap_or_default().to_owned()
}

#[test]
fn taken_port_is_said_before_anything_starts() {
    let port = free_port();
    let _taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("cluster");
    let port_text = port.to_string();
    let output =
        holdfast(&["dev", "--detach", "--dir", dir.to_str().unwrap(), "--port", &port_text]);
    assert_fails(&output, 1, &port_text);
    assert!(!Cluster::exists(&dir), "nothing was started");

    let output = master(port, &folder.path().join("master"), "1");
    assert_eq!(output.status.code(), Some(1));
    assert!(last_line(&output).contains(&port_text), "{}", errors(&output));
}

#[tokio::test]
async fn directory_of_another_master_and_a_corrupt_store_are_refused() {
    let dev = Dev::start(1, 1);
    let member = Member::Master(0);
    dev.cluster.signal(member, Signal::TERM).unwrap();
    dev.cluster.ended(&[member], DEADLINE).await.unwrap();
    let work_dir = dev.cluster.layout().masters[0].work_dir.clone();
    let work_dir = Path::new(&work_dir);

    let output = master(dev.port, work_dir, "7");
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    assert!(last_line(&output).contains('7'), "{}", errors(&output));

    let stores: Vec<_> = fs::read_dir(work_dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "redb"))
        .collect();
    assert!(!stores.is_empty());
    for store in &stores {
        let whole = fs::read(store).unwrap();
        fs::write(store, b"this is no database").unwrap();
        let output = master(dev.port, work_dir, "1");
        assert_eq!(output.status.code(), Some(1), "{}: {}", store.display(), errors(&output));
        assert!(!errors(&output).contains("panicked"), "{}", errors(&output));
        fs::write(store, whole).unwrap();
    }
}

#[tokio::test]
async fn dev_leaves_what_runs_alone_and_starts_what_does_not() {
    let mut dev = Dev::start(3, 1);
    let pids = |cluster: &Cluster| cluster.members().map(|m| cluster.pid(m)).collect::<Vec<_>>();
    let before = pids(&dev.cluster);
    assert_success(&dev.resume());
    assert_eq!(pids(&dev.cluster), before, "all run: nothing is started");

    let killed = Member::Master(1);
    dev.cluster.signal(killed, Signal::KILL).unwrap();
    dev.cluster.ended(&[killed], DEADLINE).await.unwrap();
    let argv = dev.cluster.argv(killed).to_vec();
    assert_success(&dev.resume());
    let after = pids(&dev.cluster);
    assert_eq!((after[0], after[2], after[3]), (before[0], before[2], before[3]));
    assert_ne!(after[1], before[1]);
    assert_eq!(dev.cluster.argv(killed), argv);

    let output = holdfast(&["dev", "--dir", dir(&dev).as_str(), "--masters=5", "--detach"]);
    assert_fails(&output, 2, "holds a cluster of 3 masters");
}

#[tokio::test]
async fn interrupt_ends_a_cluster_in_the_foreground() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("cluster");
    let port = free_port().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.args(["dev", "--masters=1", "--agents=1", "--port", &port]);
    command.arg("--dir").arg(&dir).stdout(Stdio::null());
    let mut dev = command.spawn().unwrap();
    let client = Client::new(None).unwrap();
    let cluster = wait::until("two processes", DEADLINE, async || {
        let cluster = Cluster::open(&dir).map_err(|error| error.to_string())?;
        match cluster.members().all(|member| cluster.is_alive(member)) {
            true => Ok(cluster),
            false => Err("not yet".to_owned()),
        }
    })
    .await
    .unwrap();
    observe::leader(&client, &cluster, DEADLINE).await.unwrap();

    process::signal(dev.id(), Signal::INT).unwrap();
    dev.wait().unwrap();
    for member in cluster.members() {
        assert!(!cluster.is_alive(member), "{} outlives dev", cluster.name(member));
    }
}

fn dir(dev: &Dev) -> String {
    dev.dir().to_str().unwrap().to_owned()
}
