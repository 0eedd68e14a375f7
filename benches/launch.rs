//! How long a framework waits: from its ACCEPT (RESERVE, CREATE and LAUNCH of `true` on the new
//! volume) to TASK_FINISHED, and from the registration of an agent to the first offer of it. On a
//! local cluster of the built program, with an allocation interval of its own.
//!
//! `cargo bench --bench launch`
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use chaos::client::{Client, Outcome};
use chaos::cluster::{Cluster, Member};
use chaos::process::Signal;
use chaos::scheduler::{Subscribed, Subscription};
use serde_json::{Value, json};

/// Launches measured.
const ROUNDS: usize = 200;

/// Agents started anew and measured.
const STARTS: usize = 10;

/// What the masters are given as `--allocation-interval`, in milliseconds.
const INTERVAL_MS: u128 = 200;

const ROLE: &str = "bench";

struct Framework {
    client: Client,
    stream: Box<Subscription>,
    id: Value,
}

impl Framework {
    async fn subscribe(cluster: &Cluster) -> Self {
        let client = Client::new(None).unwrap();
        let call = json!({"type": "SUBSCRIBE", "subscribe": {"framework_info": {
            "user": "root", "name": "bench", "roles": [ROLE], "checkpoint": true,
            "capabilities": [{"type": "MULTI_ROLE"}, {"type": "RESERVATION_REFINEMENT"}],
        }}});
        for address in cluster.masters() {
            if let Subscribed::Open(mut stream) = client.subscribe(&address, &call).await {
                let event = stream.next().await.unwrap().unwrap();
                let id = event["subscribed"]["framework_id"].clone();
                return Self { client, stream, id };
            }
        }
        panic!("no master takes SUBSCRIBE");
    }

    async fn next(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let event = self.stream.next().await.unwrap().expect("the stream lives");
            if wanted(&event) {
                return event;
            }
        }
    }

    async fn call(&self, kind: &str, key: &str, body: Value) {
        let mut call = json!({"type": kind, "framework_id": self.id});
        call[key] = body;
        let outcome =
            self.client.schedule(&self.stream.address, &self.stream.stream_id, &call).await;
        assert_eq!(outcome, Outcome::Accepted, "{kind}");
    }

    async fn offer(&mut self) -> Value {
        let event = self.next(|event| event["type"] == "OFFERS").await;
        event["offers"]["offers"][0].clone()
    }

    async fn accept(&self, offer: &Value, operations: Value) {
        let body = json!({"offer_ids": [offer["id"]], "operations": operations,
            "filters": {"refuse_seconds": 0.0}});
        self.call("ACCEPT", "accept", body).await;
    }

    /// One launch on a new volume; gives the time to TASK_FINISHED, and puts all back.
    async fn launch(&mut self, round: usize) -> Duration {
        let offer = self.offer().await;
        let disk = json!({"name": "disk", "type": "SCALAR", "scalar": {"value": 8.0},
            "reservations": [{"type": "DYNAMIC", "role": ROLE}]});
        let mut volume = disk.clone();
        volume["disk"] = json!({"persistence": {"id": format!("v{round}")},
            "volume": {"container_path": "data", "mode": "RW"}});
        let plain = |name: &str, amount: f64| {
            let scalar = json!({"value": amount});
            json!({"name": name, "type": "SCALAR", "scalar": scalar})
        };
        let task_id = format!("t{round}");
        let task = json!({"name": "true", "task_id": {"value": task_id},
            "agent_id": offer["agent_id"],
            "resources": [plain("cpus", 0.1), plain("mem", 32.0), volume],
            "command": {"value": "true"}});
        let begin = Instant::now();
        let operations = json!([
            {"type": "RESERVE", "reserve": {"resources": [disk]}},
            {"type": "CREATE", "create": {"volumes": [volume]}},
            {"type": "LAUNCH", "launch": {"task_infos": [task]}},
        ]);
        self.accept(&offer, operations).await;
        loop {
            let event = self.next(|event| event["type"] == "UPDATE").await;
            let status = &event["update"]["status"];
            let state = status["state"].as_str().unwrap().to_owned();
            let elapsed = begin.elapsed();
            if status["uuid"].is_string() {
                let body = json!({"agent_id": status["agent_id"], "task_id": status["task_id"],
                    "uuid": status["uuid"]});
                self.call("ACKNOWLEDGE", "acknowledge", body).await;
            }
            match state.as_str() {
                "TASK_STAGING" | "TASK_STARTING" | "TASK_RUNNING" => {}
                "TASK_FINISHED" => {
                    self.put_back(&volume, &disk).await;
                    return elapsed;
                }
                _ => panic!("{status}"),
            }
        }
    }

    async fn put_back(&mut self, volume: &Value, disk: &Value) {
        let offer = loop {
            let offer = self.offer().await;
            if offer["resources"].to_string().contains("persistence") {
                break offer;
            }
            let body = json!({"offer_ids": [offer["id"]], "filters": {"refuse_seconds": 0.0}});
            self.call("DECLINE", "decline", body).await;
        };
        let operations = json!([
            {"type": "DESTROY", "destroy": {"volumes": [volume]}},
            {"type": "UNRESERVE", "unreserve": {"resources": [disk]}},
        ]);
        self.accept(&offer, operations).await;
    }
}

fn holdfast(arguments: &[&str]) {
    let status = Command::new(env!("CARGO_BIN_EXE_holdfast")).args(arguments).status().unwrap();
    assert!(status.success(), "{arguments:?}");
}

fn free_port() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    (20_000..31_000)
        .step_by(40)
        .find(|port| (*port..port + 20).chain(port + 1000..port + 1009).all(is_free))
        .expect("a free block of ports")
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    println!(
        "{what}: p50 {:.1} ms, p95 {:.1} ms, worst {:.1} ms ({} times)",
        at(50),
        at(95),
        at(100),
        times.len()
    );
}

/// From the start of the agent's process to the first offer of it: registration lies in between.
async fn first_offers(cluster: &mut Cluster, framework: &mut Framework) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let offer = framework.offer().await;
        let agent = Member::Agent(0);
        cluster.signal(agent, Signal::KILL).unwrap();
        cluster.ended(&[agent], Duration::from_secs(10)).await.unwrap();
        let id = offer["id"].clone();
        framework.next(|event| event["rescind"]["offer_id"] == id).await;
        let begin = Instant::now();
        cluster.start(agent).unwrap();
        let again = framework.offer().await;
        times.push(begin.elapsed());
        framework.accept(&again, json!([])).await;
    }
    times
}

async fn measure(dir: &Path) {
    let mut cluster = Cluster::open(dir).unwrap();
    let mut framework = Framework::subscribe(&cluster).await;
    let mut launches = Vec::new();
    for round in 0..ROUNDS {
        launches.push(framework.launch(round).await);
    }
    show("ACCEPT (RESERVE, CREATE, LAUNCH `true`) to TASK_FINISHED", launches);
    let starts = first_offers(&mut cluster, &mut framework).await;
    show(&format!("start of an agent to its offer, interval {INTERVAL_MS} ms"), starts);
    framework.call("TEARDOWN", "teardown", json!({})).await;
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("cluster");
    let path = dir.to_str().unwrap().to_owned();
    let interval = format!("allocation-interval={INTERVAL_MS}ms");
    let port = free_port().to_string();
    let flags =
        ["--detach", "--agents", "1", "--dir", &path, "--port", &port, "--master-flag", &interval];
    holdfast(&[&["dev"][..], &flags].concat());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(measure(&dir));
    holdfast(&["dev", "stop", "--dir", &path]);
}
