//! Masters that come and go: a cluster of three becomes one of five and one of three others
//! while it is in use, the leader leaving last; and what the masters refuse.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use chaos::client::{Client, Outcome};
use chaos::cluster::Member;
use chaos::wait;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Dev, assert_success, errors, holdfast, operator_call, reserved};

/// A process of this test's own, killed with it.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(dev: &Dev, name: &str, arguments: &[&str]) -> Process {
    let dir = dev.dir().join(name);
    std::fs::create_dir_all(&dir).unwrap();
    let log = File::create(dir.join("log")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.args(arguments).args(["--work-dir", dir.join("data").to_str().unwrap()]);
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    Process(command.spawn().unwrap())
}

/// Public and peer address of the master of that number, where `dev` would put it.
fn addresses(dev: &Dev, id: u16) -> [String; 2] {
    let port = dev.port + id - 1;
    [format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", port + 1000)]
}

/// Starts master `id`, which asks the cluster of `dev` to be added.
fn join(dev: &Dev, id: u16) -> Process {
    let [http, _] = addresses(dev, id);
    let cluster = &dev.cluster.masters()[0];
    let id = id.to_string();
    start(dev, &format!("m{id}"), &["master", "--id", &id, "--listen", &http, "--join", cluster])
}

/// `holdfast server …`, asked of all the masters there ever are.
fn server(dev: &Dev, arguments: &[&str]) -> std::process::Output {
    let masters: Vec<String> = (1..=6).map(|id| addresses(dev, id)[0].clone()).collect();
    let masters = masters.join(",");
    holdfast(&[&["--master", &masters, "-o", "json", "server"], arguments].concat())
}

fn members(dev: &Dev) -> Vec<Value> {
    let output = server(dev, &["list"]);
    assert_success(&output);
    serde_json::from_slice::<Vec<Value>>(&output.stdout).unwrap()
}

/// The numbers of the members of that role, and of the leader.
fn ids(members: &[Value], role: &str) -> Vec<u64> {
    let of_role = members.iter().filter(|member| member["role"] == role);
    of_role.map(|member| member["id"].as_u64().unwrap()).collect()
}

fn leader(members: &[Value]) -> u64 {
    let leader = members.iter().find(|member| member["leader"] == true);
    leader.map_or(0, |member| member["id"].as_u64().unwrap())
}

/// Repeats a command until it is done: a learner has to catch up, a change has to end.
async fn done(dev: &Dev, arguments: &[&str]) {
    wait::until("a change of the members", DEADLINE, async || {
        let output = server(dev, arguments);
        if output.status.success() { Ok(()) } else { Err(errors(&output)) }
    })
    .await
    .unwrap();
}

async fn added(dev: &Dev, id: u16) {
    wait::until("a new member", DEADLINE, async || {
        let found = members(dev).iter().any(|member| member["id"] == id);
        found.then_some(()).ok_or_else(|| "not there".to_owned())
    })
    .await
    .unwrap();
}

/// Reserves one CPU after another from whoever leads, under a key, until it is told to end.
/// Gives how many calls were acknowledged.
async fn load(client: Client, masters: Vec<String>, agent: String, end: Arc<AtomicBool>) -> u64 {
    let mut acknowledged = 0;
    let mut others = masters.iter().cycle();
    let mut at = masters[0].clone();
    let mut begun = Instant::now();
    while !end.load(Ordering::Acquire) {
        let mut resource = reserved("cpus", 0.001);
        resource["reservations"][0]["role"] = json!("load");
        let call = operator_call(&agent, "RESERVE_RESOURCES", &[resource]);
        match client.call_keyed(&at, &format!("load-{acknowledged}"), &call).await {
            Outcome::Accepted => {
                acknowledged += 1;
                begun = Instant::now();
                continue;
            }
            Outcome::NotExecuted { leader: Some(leader) } => at = leader,
            Outcome::NotExecuted { leader: None } | Outcome::Unknown { .. } => {
                others.next().unwrap().clone_into(&mut at);
            }
            Outcome::Refused { status, text } => panic!("a call failed: {status} {text}"),
        }
        assert!(begun.elapsed() < DEADLINE, "no acknowledgement after {acknowledged}");
        wait::pause().await;
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_master_is_replaced_under_load_and_the_leader_last() {
    let dev = Dev::start(3, 0);
    let masters: Vec<String> = (1..=6).map(|id| addresses(&dev, id)[0].clone()).collect();
    let listen = format!("127.0.0.1:{}", dev.port + 11);
    let all = masters.join(",");
    let flags = ["agent", "--master", &all, "--listen", &listen, "--resources", "cpus:64;mem:64"];
    let _agent = start(&dev, "agent", &flags);
    let agent = wait::until("the agent", DEADLINE, async || {
        let slaves = dev.client.get(&dev.leader_address().await, "/slaves").await?;
        let id = slaves["slaves"][0]["id"].as_str().map(str::to_owned);
        id.ok_or_else(|| "not registered".to_owned())
    })
    .await
    .unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let loading = load(dev.client.clone(), masters, agent.clone(), Arc::clone(&end));
    let loading = tokio::spawn(loading);

    let first = leader(&members(&dev));
    let others: Vec<u64> = (1..=3).filter(|id| *id != first).collect();
    // Three become five.
    let mut newcomers = Vec::new();
    for id in [4, 5] {
        newcomers.push(join(&dev, id));
        added(&dev, id).await;
        done(&dev, &["promote", &id.to_string()]).await;
    }
    assert_eq!(ids(&members(&dev), "voter"), [1, 2, 3, 4, 5]);
    // Five become three: the followers go, then the leader is replaced in one step.
    for id in &others {
        done(&dev, &["remove", &id.to_string(), "--yes"]).await;
        dev.cluster
            .stop_members(&[Member::Master(usize::try_from(*id - 1).unwrap())])
            .await
            .unwrap();
    }
    assert_eq!(leader(&members(&dev)), first, "nobody else had to lead");
    let [http, peer] = addresses(&dev, 6);
    let last = dev.cluster.masters()[usize::try_from(first - 1).unwrap()].clone();
    let arguments = ["master", "--id", "6", "--listen", &http, "--join", &last];
    newcomers.push(start(&dev, "m6", &arguments));
    done(&dev, &["replace", &first.to_string(), "6", &peer, "--yes"]).await;
    let voters = members(&dev);
    assert_eq!(ids(&voters, "voter"), [4, 5, 6]);
    assert!([4, 5, 6].contains(&leader(&voters)), "{voters:?}");
    dev.cluster.stop_members(&[Member::Master(usize::try_from(first - 1).unwrap())]).await.unwrap();

    end.store(true, Ordering::Release);
    let acknowledged = loading.await.unwrap();
    let [at, _] = addresses(&dev, u16::try_from(leader(&members(&dev))).unwrap());
    let slaves = dev.client.get(&at, "/slaves").await.unwrap();
    let held = slaves["slaves"][0]["reserved_resources"]["load"]["cpus"].as_f64().unwrap();
    assert!(acknowledged > 0);
    let thousandths = format!("{:.0}", held * 1000.0);
    assert_eq!(thousandths, acknowledged.to_string(), "each acknowledged call counts once");
}

#[tokio::test]
async fn leadership_is_given_to_whom_it_is_asked_for() {
    let dev = Dev::start(3, 0);
    let first = leader(&members(&dev));
    let to = if first == 3 { 1 } else { 3 };
    for _ in 0..2 {
        // The second time it leads already.
        assert_success(&server(&dev, &["transfer-leader", &to.to_string()]));
        assert_eq!(leader(&members(&dev)), to);
    }
    assert_success(&server(&dev, &["transfer-leader"]));
    assert_ne!(leader(&members(&dev)), to);
    dev.assert_no_errors();
}

#[tokio::test]
async fn changes_that_cannot_be_are_refused_and_change_nothing() {
    let dev = Dev::start(3, 0);
    let before = ids(&members(&dev), "voter");
    let [_, second] = addresses(&dev, 2);
    let [_, nobody] = addresses(&dev, 9);
    for (arguments, code, text) in [
        (vec!["promote", "9"], 1, "Master 9 is not a member (404)"),
        (vec!["remove", "9", "--yes"], 1, "not a member"),
        (vec!["add", "2", &nobody], 5, "is a member at"),
        (vec!["add", "9", &second], 5, "is the peer address of master 2"),
        (vec!["add", "9", &nobody], 5, "does not answer at"),
        (vec!["add", "9", "here"], 1, "host:port"),
        (vec!["add", "0", &nobody], 2, "0 is not in 1.."),
        (vec!["transfer-leader", "9"], 1, "not a member"),
    ] {
        let output = server(&dev, &arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", errors(&output));
        assert!(errors(&output).contains(text), "{arguments:?}: {}", errors(&output));
    }
    // A change that would leave no quorum.
    let silent = (1..=3).find(|id| *id != leader(&members(&dev))).unwrap();
    dev.cluster
        .stop_members(&[Member::Master(usize::try_from(silent - 1).unwrap())])
        .await
        .unwrap();
    let healthy = (1..=3).find(|id| ![silent, leader(&members(&dev))].contains(id)).unwrap();
    let output = server(&dev, &["remove", &healthy.to_string(), "--yes"]);
    assert_eq!(output.status.code(), Some(5), "{}", errors(&output));
    assert!(errors(&output).contains("would lose the quorum"), "{}", errors(&output));
    assert_eq!(ids(&members(&dev), "voter"), before);
}
