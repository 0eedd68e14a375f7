//! The calls a drill makes: their JSON, the hunt for the leader, and the closed-loop callers that
//! keep calls in flight while something breaks. Next: `leader_kill.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::client::{Client, Outcome, Reply};
use crate::history::{Change, MARK, Object, POOL_MILLI, Subject};
use crate::observe::LABEL_KEY;
use crate::wait;

/// Role that every drill reserves for.
pub const ROLE: &str = "drill";

/// How long a cluster may be without a leader before the drill gives up.
const LEADERLESS_DEADLINE: Duration = Duration::from_secs(60);

/// Size of the volumes that callers make in flight, in thousandths of a MB.
const SMALL_VOLUME_MILLI: i64 = 10;

/// What all callers of a drill share.
#[derive(Debug)]
pub struct Workload {
    /// The HTTP client.
    pub client: Client,
    /// Public addresses of all masters.
    pub masters: Vec<String>,
    /// Ids of the agents, in the order of the cluster's list.
    pub agents: Vec<String>,
}

/// The end of one call.
#[derive(Debug, Clone)]
pub struct Answer {
    /// How it ended; never [`Outcome::NotExecuted`].
    pub outcome: Outcome,
    /// The id under which the operation can be looked up; only of accepted calls.
    pub operation_id: Option<String>,
    /// Address of the master that was asked last.
    pub by: String,
    /// When.
    pub at: Instant,
}

impl Workload {
    /// Makes the call until its outcome is known, or certainly unknown. `target` is the address
    /// to begin with and is left at the one that answered.
    ///
    /// # Errors
    /// When no master executes anything for a minute.
    pub async fn attempt(&self, target: &mut String, call: &Value) -> anyhow::Result<Answer> {
        let begin = Instant::now();
        loop {
            let Reply { outcome, operation_id } = self.client.operate(target, call).await;
            let Outcome::NotExecuted { leader } = outcome else {
                let (by, at) = (target.clone(), Instant::now());
                return Ok(Answer { outcome, operation_id, by, at });
            };
            if begin.elapsed() > LEADERLESS_DEADLINE {
                bail!("no master has executed a call for {} s", LEADERLESS_DEADLINE.as_secs());
            }
            *target = leader.unwrap_or_else(|| self.after(target));
            wait::pause().await;
        }
    }

    /// The next master of the list.
    fn after(&self, target: &str) -> String {
        let place = self.masters.iter().position(|master| master == target).unwrap_or(0);
        self.masters[(place + 1) % self.masters.len()].clone()
    }

    /// The operator call that makes or removes `subject`.
    #[must_use]
    pub fn call(&self, subject: &Subject, change: Change) -> Value {
        let (agent, object) = subject;
        let resources: Vec<Value> = match object {
            Object::Mark { label } => {
                MARK.iter().map(|(name, milli)| self.reserved(name, *milli, label)).collect()
            }
            Object::Pool { label } => vec![self.reserved("disk", POOL_MILLI, label)],
            Object::Volume { pool, id, milli } => {
                let mut volume = self.reserved("disk", *milli, pool);
                volume["disk"] = json!({
                    "persistence": {"id": id, "principal": self.principal()},
                    "volume": {"container_path": "data", "mode": "RW"},
                });
                vec![volume]
            }
        };
        let is_volume = matches!(object, Object::Volume { .. });
        operator_call(&self.agents[*agent], kind(is_volume, change), &resources)
    }

    /// The operator call that makes a volume of `milli` larger or smaller.
    #[must_use]
    pub fn resize(&self, subject: &Subject, by: Resize) -> Value {
        let (agent, _) = subject;
        let made = self.call(subject, Change::Make);
        let volume = &made["create_volumes"]["volumes"][0];
        let label = volume["reservations"][0]["labels"]["labels"][0]["value"].as_str();
        let agent_id = json!({"value": self.agents[*agent]});
        match by {
            Resize::Grow(milli) => {
                let addition = self.reserved("disk", milli, label.unwrap_or_default());
                json!({"type": "GROW_VOLUME", "grow_volume": {
                    "agent_id": agent_id, "volume": volume, "addition": addition}})
            }
            Resize::Shrink(milli) => {
                json!({"type": "SHRINK_VOLUME", "shrink_volume": {
                    "agent_id": agent_id, "volume": volume, "subtract": {"value": decimal(milli)}}})
            }
        }
    }

    fn reserved(&self, name: &str, milli: i64, label: &str) -> Value {
        json!({
            "name": name,
            "type": "SCALAR",
            "scalar": {"value": decimal(milli)},
            "reservations": [{
                "type": "DYNAMIC",
                "role": ROLE,
                "principal": self.principal(),
                "labels": {"labels": [{"key": LABEL_KEY, "value": label}]},
            }],
        })
    }

    fn principal(&self) -> &str {
        self.client.principal().unwrap_or(ROLE)
    }
}

/// What happens to the size of a volume, in thousandths of a MB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resize {
    /// It takes this much of its pool.
    Grow(i64),
    /// It gives this much back.
    Shrink(i64),
}

/// Type of the operator call that makes or removes volumes or reservations.
#[must_use]
pub fn kind(is_volume: bool, change: Change) -> &'static str {
    match (is_volume, change) {
        (false, Change::Make) => "RESERVE_RESOURCES",
        (false, Change::Remove) => "UNRESERVE_RESOURCES",
        (true, Change::Make) => "CREATE_VOLUMES",
        (true, Change::Remove) => "DESTROY_VOLUMES",
    }
}

/// A v1 operator call on resources of one agent.
#[must_use]
pub fn operator_call(agent_id: &str, kind: &str, resources: &[Value]) -> Value {
    let list = if kind.ends_with("VOLUMES") { "volumes" } else { "resources" };
    json!({
        "type": kind,
        kind.to_lowercase(): {"agent_id": {"value": agent_id}, list: resources},
    })
}

/// `milli` thousandths as a JSON number, through its decimal text: no float is divided.
fn decimal(milli: i64) -> Value {
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    serde_json::from_str(&text).expect("digits, a point and three digits are a JSON number")
}

/// What tells the callers of one round how far it is.
#[derive(Debug)]
pub struct Progress {
    /// Calls acknowledged in this round.
    pub accepted: AtomicUsize,
    /// When the leader was killed; none before.
    pub killed: watch::Sender<Option<Instant>>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { accepted: AtomicUsize::new(0), killed: watch::Sender::new(None) }
    }
}

/// One ended call of a caller.
#[derive(Debug, Clone)]
pub struct Ended {
    /// What it was about.
    pub subject: Subject,
    /// Made or removed.
    pub change: Change,
    /// How it ended.
    pub answer: Answer,
}

/// A closed-loop caller: one call in flight at any time.
#[derive(Debug)]
pub struct Caller {
    workload: Arc<Workload>,
    progress: Arc<Progress>,
    rng: StdRng,
    target: String,
    /// Prefix of its labels and volume ids; no two callers share one.
    name: String,
    /// The agent and label whose disk its volumes are cut from.
    pool: (usize, String),
    made: usize,
    marks: Vec<Subject>,
    volumes: Vec<Subject>,
}

impl Caller {
    /// A caller with choices of its own, drawn from `seed`.
    #[must_use]
    pub fn new(
        workload: Arc<Workload>,
        progress: Arc<Progress>,
        seed: u64,
        target: String,
        name: String,
        pool: (usize, String),
    ) -> Self {
        Self {
            workload,
            progress,
            rng: StdRng::seed_from_u64(seed),
            target,
            name,
            pool,
            made: 0,
            marks: Vec::new(),
            volumes: Vec::new(),
        }
    }

    /// Calls until one that began after the kill is acknowledged. Gives up at the first refusal,
    /// because nothing this caller asks for should be refused.
    ///
    /// # Errors
    /// When no master executes anything for a minute.
    pub async fn run(mut self) -> anyhow::Result<Vec<Ended>> {
        let mut calls = Vec::new();
        loop {
            let (subject, change) = self.choose();
            let call = self.workload.call(&subject, change);
            let begun = Instant::now();
            let answer = self.workload.attempt(&mut self.target, &call).await?;
            let outcome = answer.outcome.clone();
            calls.push(Ended { subject: subject.clone(), change, answer });
            match outcome {
                Outcome::Accepted => {
                    self.progress.accepted.fetch_add(1, Ordering::Relaxed);
                    self.keep(subject, change);
                    let killed = *self.progress.killed.borrow();
                    if killed.is_some_and(|killed| begun > killed) {
                        return Ok(calls);
                    }
                }
                Outcome::Refused { .. } => return Ok(calls),
                Outcome::Unknown { .. } | Outcome::NotExecuted { .. } => {}
            }
        }
    }

    fn choose(&mut self) -> (Subject, Change) {
        let roll = self.rng.random_range(0..10);
        let removed = match roll {
            6 | 7 => self.marks.pop(),
            9 => self.volumes.pop(),
            _ => None,
        };
        if let Some(subject) = removed {
            return (subject, Change::Remove);
        }
        self.made += 1;
        let name = format!("{}-{}", self.name, self.made);
        let (agent, pool) = self.pool.clone();
        if roll == 8 {
            let object = Object::Volume { pool, id: name, milli: SMALL_VOLUME_MILLI };
            return ((agent, object), Change::Make);
        }
        let agent = self.rng.random_range(0..self.workload.agents.len());
        ((agent, Object::Mark { label: name }), Change::Make)
    }

    fn keep(&mut self, subject: Subject, change: Change) {
        if change == Change::Make {
            match subject.1 {
                Object::Volume { .. } => self.volumes.push(subject),
                Object::Mark { .. } | Object::Pool { .. } => self.marks.push(subject),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_the_operator_api() {
        let workload = Workload {
            client: Client::new(None).unwrap(),
            masters: vec!["a:1".into(), "b:2".into()],
            agents: vec!["c-S0".into()],
        };
        let volume = Object::Volume { pool: "p".into(), id: "v".into(), milli: 10 };
        let call = workload.call(&(0, volume), Change::Make);
        assert_eq!(call["type"], "CREATE_VOLUMES");
        let volume = &call["create_volumes"]["volumes"][0];
        assert_eq!(volume["scalar"]["value"].to_string(), "0.01");
        assert_eq!(volume["disk"]["persistence"]["id"], "v");
        assert_eq!(workload.after("b:2"), "a:1");
        assert_eq!(workload.after("unknown:3"), "b:2");
    }
}
