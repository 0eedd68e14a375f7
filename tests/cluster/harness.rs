//! A local cluster of the built program for one test, started by `holdfast dev` and stopped when
//! the test ends, and calls to it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chaos::client::{Client, Outcome};
use chaos::cluster::{Cluster, Member};
use chaos::{observe, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long any state may take to come about, on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Role that the tests reserve for.
pub(crate) const ROLE: &str = "ads";

static BLOCKS: AtomicU32 = AtomicU32::new(0);

/// First port of a block of 40 that nobody listens in, nor in the one of the peers 1,000 above.
/// Blocks are below the ephemeral ports, and no block's peers meet another block.
pub(crate) fn free_port() -> u16 {
    for _ in 0..1000 {
        let block = (std::process::id() * 7 + BLOCKS.fetch_add(1, Ordering::Relaxed)) % 200;
        let port = u16::try_from(12_000 + block / 24 * 2_000 + block % 24 * 40).unwrap();
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if (port..port + 20).chain(port + 1000..port + 1009).all(is_free) {
            return port;
        }
    }
    panic!("no free block of ports");
}

/// Runs the built program to its end.
pub(crate) fn holdfast(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("HOLDFAST_")) {
            command.env_remove(name);
        }
    }
    command.args(arguments).output().unwrap()
}

/// Fails with what the program said unless it succeeded.
pub(crate) fn assert_success(output: &Output) {
    assert!(output.status.success(), "{}", errors(output));
}

/// Standard error as text.
pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A running cluster.
pub(crate) struct Dev {
    folder: TempDir,
    pub(crate) port: u16,
    pub(crate) cluster: Cluster,
    pub(crate) client: Client,
}

impl Dev {
    /// Starts a cluster and waits until it serves.
    pub(crate) fn start(masters: u16, agents: u16) -> Self {
        Self::start_with(masters, agents, &[])
    }

    /// The same with further flags of `holdfast dev`.
    pub(crate) fn start_with(masters: u16, agents: u16, further: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let dir = folder.path().join("cluster");
        let numbers = [masters, agents, port].map(|number| number.to_string());
        let own = [
            "dev",
            "--detach",
            "--dir",
            dir.to_str().unwrap(),
            "--masters",
            &numbers[0],
            "--agents",
            &numbers[1],
            "--port",
            &numbers[2],
        ];
        let output = holdfast(&[&own[..], further].concat());
        let cluster = Cluster::open(&dir);
        if !output.status.success() {
            panic!("dev: {}{}", errors(&output), cluster.map(|c| logs(&c)).unwrap_or_default());
        }
        Self { folder, port, cluster: cluster.unwrap(), client: Client::new(None).unwrap() }
    }

    /// `holdfast dev --detach` on the same directory.
    pub(crate) fn resume(&mut self) -> Output {
        let output = holdfast(&["dev", "--detach", "--dir", self.dir().to_str().unwrap()]);
        self.cluster = Cluster::open(&self.dir()).unwrap();
        output
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.folder.path().join("cluster")
    }

    pub(crate) fn work_dir(&self, agent: usize) -> &Path {
        Path::new(&self.cluster.layout().agents[agent].work_dir)
    }

    /// Place of the leader.
    pub(crate) async fn leader(&self) -> usize {
        observe::leader(&self.client, &self.cluster, DEADLINE).await.unwrap()
    }

    /// Address of the leader.
    pub(crate) async fn leader_address(&self) -> String {
        let leader = self.leader().await;
        self.cluster.masters()[leader].clone()
    }

    /// The leader's entry of `/slaves` for an agent.
    pub(crate) async fn slave(&self, agent: usize) -> Value {
        let http = &self.cluster.layout().agents[agent].http;
        wait::until("the agent's entry", DEADLINE, async || {
            let slaves = self.client.get(&self.leader_address().await, "/slaves").await?;
            observe::slave(&slaves, http).cloned().ok_or_else(|| "not registered".to_owned())
        })
        .await
        .unwrap()
    }

    pub(crate) async fn agent_id(&self, agent: usize) -> String {
        self.slave(agent).await["id"].as_str().unwrap().to_owned()
    }

    /// An operator call on an agent of this cluster, sent to the leader; again while that says
    /// that it executed nothing.
    pub(crate) async fn operate(&self, agent: usize, kind: &str, resources: &[Value]) -> Outcome {
        let call = operator_call(&self.agent_id(agent).await, kind, resources);
        wait::until("an outcome", DEADLINE, async || {
            let leader = self.leader_address().await;
            let query = "?wait=checkpointed&timeout=30s";
            match self.client.call_with(&leader, query, &call).await {
                Outcome::NotExecuted { leader } => Err(format!("leader is {leader:?}")),
                outcome => Ok(outcome),
            }
        })
        .await
        .unwrap()
    }

    /// No process has written a line that asks an operator to look.
    pub(crate) fn assert_no_errors(&self) {
        let logs = logs(&self.cluster);
        let errors: Vec<&str> = logs.lines().filter(|line| line.contains("ERROR")).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", logs(&self.cluster));
        }
        let output = holdfast(&["dev", "stop", "--dir", self.dir().to_str().unwrap()]);
        if !output.status.success() && !std::thread::panicking() {
            panic!("dev stop: {}", errors(&output));
        }
    }
}

/// What all processes of a cluster have logged.
fn logs(cluster: &Cluster) -> String {
    let log = |member: Member| {
        let bytes = std::fs::read(cluster.log(member)).unwrap_or_default();
        format!("--- {}\n{}", cluster.name(member), String::from_utf8_lossy(&bytes))
    };
    cluster.members().map(log).collect()
}

/// A v1 operator call.
pub(crate) fn operator_call(agent_id: &str, kind: &str, resources: &[Value]) -> Value {
    chaos::drills::workload::operator_call(agent_id, kind, resources)
}

/// A scalar reserved for [`ROLE`] by `ops`.
pub(crate) fn reserved(name: &str, amount: f64) -> Value {
    json!({
        "name": name,
        "type": "SCALAR",
        "scalar": {"value": amount},
        "reservations": [{"type": "DYNAMIC", "role": ROLE, "principal": "ops"}],
    })
}

/// A volume of [`ROLE`] by `ops`.
pub(crate) fn volume(id: &str, amount: f64) -> Value {
    let mut volume = reserved("disk", amount);
    volume["disk"] = json!({
        "persistence": {"id": id, "principal": "ops"},
        "volume": {"container_path": "data", "mode": "RW"},
    });
    volume
}
