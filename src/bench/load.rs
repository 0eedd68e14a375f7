//! What the emulated agents get: reservations by transactions of an operator, and tasks by a
//! framework that takes every offer once. Next: `agents.rs`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chaos::client::{Client, Outcome};
use chaos::scheduler::{Subscribed, Subscription};
use chaos::wait;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Role of all reservations and tasks.
const ROLE: &str = "bench";

/// Operations in one transaction, below the limit of the masters.
const OPERATIONS: usize = 500;

/// Numbers of the keys of this process's calls.
static KEYS: AtomicU64 = AtomicU64::new(0);

/// Transactions in flight.
const IN_FLIGHT: usize = 4;

/// Without an event for so long the tasks count as stuck.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Acknowledgements in flight.
const ACKNOWLEDGEMENTS: usize = 64;

fn scalar(name: &str, value: f64) -> Value {
    json!({"name": name, "type": "SCALAR", "scalar": {"value": value}})
}

/// RESERVE of one MB of disk under a label of its own.
pub(super) fn reserve(agent_id: &str, label: &str) -> Value {
    let mut disk = scalar("disk", 1.0);
    disk["reservations"] = json!([{"type": "DYNAMIC", "role": ROLE, "principal": ROLE,
        "labels": {"labels": [{"key": ROLE, "value": label}]}}]);
    json!({"agent_id": {"value": agent_id}, "type": "RESERVE", "reserve": {"resources": [disk]}})
}

/// Reserves `each` times on every agent.
pub(super) async fn reservations(
    client: &Client,
    masters: &[String],
    agents: &[String],
    each: usize,
) -> Result<(), String> {
    let all: Vec<Value> = agents
        .iter()
        .flat_map(|id| (0..each).map(move |number| reserve(id, &number.to_string())))
        .collect();
    let mut calls = JoinSet::new();
    for operations in all.chunks(OPERATIONS) {
        if calls.len() >= IN_FLIGHT {
            joined(calls.join_next().await)?;
        }
        let (client, masters) = (client.clone(), masters.to_vec());
        let body = json!({"operations": operations});
        calls.spawn(async move { transact(&client, &masters, &body).await });
    }
    while let Some(ended) = calls.join_next().await {
        joined(Some(ended))?;
    }
    Ok(())
}

type Ended = Result<Result<(), String>, tokio::task::JoinError>;

fn joined(ended: Option<Ended>) -> Result<(), String> {
    ended.map_or(Ok(()), |ended| ended.map_err(|error| error.to_string())?)
}

/// Makes a transaction at whoever leads, under a key, until there is an answer: a busy cluster may
/// be without a leader for a while, and a leader may die with the call.
pub(super) async fn transact(
    client: &Client,
    masters: &[String],
    body: &Value,
) -> Result<(), String> {
    let begin = Instant::now();
    let number = KEYS.fetch_add(1, Ordering::Relaxed);
    let key = format!("bench-{}-{number}", std::process::id());
    let mut target = masters[0].clone();
    for attempt in 1.. {
        let answer = client.send_keyed(&target, "/api/v1/transaction", &key, body).await;
        let next = || masters[attempt % masters.len()].clone();
        match answer {
            Outcome::Accepted => break,
            Outcome::NotExecuted { leader } if begin.elapsed() < SILENCE_MAX => {
                target = leader.unwrap_or_else(next);
                wait::pause().await;
            }
            Outcome::Unknown { .. } if begin.elapsed() < SILENCE_MAX => {
                target = next();
                wait::pause().await;
            }
            other => return Err(format!("a transaction: {other:?}")),
        }
    }
    Ok(())
}

/// The framework of the tasks.
pub(super) struct Tasks {
    client: Client,
    framework_id: String,
    stream: Box<Subscription>,
}

impl Tasks {
    /// A framework at the leader.
    pub(super) async fn subscribe(client: &Client, address: &str) -> Result<Self, String> {
        let call = json!({"type": "SUBSCRIBE", "subscribe": {"framework_info": {
            "user": "root", "name": "bench", "principal": ROLE, "roles": [ROLE],
            "checkpoint": true, "failover_timeout": 3600.0,
            "capabilities": [{"type": "MULTI_ROLE"}, {"type": "RESERVATION_REFINEMENT"},
                {"type": "PARTITION_AWARE"}]}}});
        let mut stream = match client.subscribe(address, &call).await {
            Subscribed::Open(stream) => stream,
            other => return Err(format!("SUBSCRIBE: {other:?}")),
        };
        let event = next(&mut stream).await?;
        let id = event["subscribed"]["framework_id"]["value"].as_str();
        let framework_id = id.ok_or_else(|| format!("SUBSCRIBE: {event}"))?.to_owned();
        Ok(Self { client: client.clone(), framework_id, stream })
    }

    /// Starts `each` tasks on each of `agents` agents, and waits until all run.
    pub(super) async fn launch(&mut self, agents: usize, each: usize) -> Result<(), String> {
        let mut done = BTreeSet::new();
        let mut running = BTreeSet::new();
        let mut calls: JoinSet<Outcome> = JoinSet::new();
        while running.len() < agents * each {
            let event = next(&mut self.stream).await?;
            while calls.len() >= ACKNOWLEDGEMENTS || calls.try_join_next().is_some() {
                calls.join_next().await;
            }
            match event["type"].as_str().unwrap_or_default() {
                "OFFERS" => {
                    for offer in event["offers"]["offers"].as_array().into_iter().flatten() {
                        let agent_id = offer["agent_id"]["value"].as_str().unwrap_or_default();
                        let is_new = done.insert(agent_id.to_owned());
                        let tasks = if is_new { each } else { 0 };
                        self.send(&mut calls, accept(offer, agent_id, tasks));
                    }
                }
                "UPDATE" => {
                    let status = &event["update"]["status"];
                    if status["state"] != "TASK_RUNNING" {
                        return Err(format!("a task does not run: {status}"));
                    }
                    running.insert(status["task_id"]["value"].to_string());
                    let body = json!({"agent_id": status["agent_id"],
                        "task_id": status["task_id"], "uuid": status["uuid"]});
                    let call = json!({"type": "ACKNOWLEDGE", "acknowledge": body});
                    self.send(&mut calls, call);
                }
                _ => {}
            }
        }
        while calls.join_next().await.is_some() {}
        Ok(())
    }

    fn send(&self, calls: &mut JoinSet<Outcome>, mut call: Value) {
        call["framework_id"] = json!({"value": self.framework_id});
        let client = self.client.clone();
        let (address, stream_id) = (self.stream.address.clone(), self.stream.stream_id.clone());
        calls.spawn(async move { client.schedule(&address, &stream_id, &call).await });
    }
}

async fn next(stream: &mut Subscription) -> Result<Value, String> {
    match timeout(SILENCE_MAX, stream.next()).await {
        Ok(Ok(Some(event))) => Ok(event),
        Ok(Ok(None)) => Err("the stream of the framework ended".to_owned()),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(_) => Err(format!("no event for {} s", SILENCE_MAX.as_secs())),
    }
}

/// ACCEPT with so many tasks; with none it gives the offer back for good.
fn accept(offer: &Value, agent_id: &str, tasks: usize) -> Value {
    let tasks: Vec<Value> = (0..tasks)
        .map(|number| {
            json!({
                "name": "t",
                "task_id": {"value": format!("{agent_id}-{number}")},
                "agent_id": {"value": agent_id},
                "resources": [scalar("cpus", 0.1), scalar("mem", 32.0)],
                "command": {"value": "sleep 86400"},
            })
        })
        .collect();
    let operations = match tasks.is_empty() {
        true => json!([]),
        false => json!([{"type": "LAUNCH", "launch": {"task_infos": tasks}}]),
    };
    json!({"type": "ACCEPT", "accept": {"offer_ids": [offer["id"]], "operations": operations,
        "filters": {"refuse_seconds": 86_400.0}}})
}
