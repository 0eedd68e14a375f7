//! The drill's scheduler: a few jobs, each a task on a volume of its own. It takes note of all it
//! is told, acknowledges it, finds the leader again, and asks about what it does not know. Must
//! not know what the drill breaks. Next: `mod.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::calls::{self, Identity, JOB};
use crate::client::{Client, Outcome};
use crate::scheduler::{Subscribed, Subscription};
use crate::wait;

/// How long a cluster may be without a leader before the drill gives up.
const LEADERLESS_DEADLINE: Duration = Duration::from_secs(60);

/// Jobs that one ACCEPT starts at most.
const JOBS_PER_ACCEPT: usize = 5;

/// Where a job stands, as far as the framework was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::drills) enum Stage {
    /// It waits for an offer.
    Wanted,
    /// An ACCEPT is out, and nothing is heard yet.
    Sent,
    /// Its task runs.
    Running,
    /// Its task ended.
    Ended(String),
}

/// One task on one volume.
#[derive(Debug)]
pub(in crate::drills) struct Job {
    pub(in crate::drills) stage: Stage,
    pub(in crate::drills) agent_id: Option<String>,
    attempt: u32,
}

/// An ACCEPT that is ready to be sent.
#[derive(Debug)]
pub(in crate::drills) struct Prepared {
    pub(in crate::drills) address: String,
    pub(in crate::drills) stream_id: String,
    pub(in crate::drills) call: Value,
    /// The jobs that it starts.
    pub(in crate::drills) task_ids: Vec<String>,
}

/// What the framework knows.
pub(in crate::drills) struct Framework {
    pub(in crate::drills) client: Client,
    pub(in crate::drills) identity: Identity,
    pub(in crate::drills) jobs: BTreeMap<String, Job>,
    /// Final statuses by operation: state and uuid of each that was ever told.
    pub(in crate::drills) operations: BTreeMap<String, BTreeSet<(String, String)>>,
    /// What should never have been told.
    pub(in crate::drills) violations: Vec<String>,
    /// When the last stream opened, and when the first offer came on it.
    pub(in crate::drills) subscribed_at: Instant,
    pub(in crate::drills) offered_at: Option<Instant>,
    /// Tasks that a reconciliation named since it was asked for.
    pub(in crate::drills) reconciled: BTreeMap<String, String>,
    masters: Vec<String>,
    stream: Option<Box<Subscription>>,
    /// Whether tasks are being ended on purpose.
    pub(in crate::drills) is_ending: bool,
    /// Tasks that are ended with their agent, and with any final state.
    pub(in crate::drills) doomed: BTreeSet<String>,
}

impl Framework {
    pub(in crate::drills) fn new(client: Client, masters: Vec<String>, name: &str) -> Self {
        let principal = client.principal().map(str::to_owned);
        Self {
            client,
            identity: Identity { framework_id: None, principal, name: name.to_owned() },
            jobs: BTreeMap::new(),
            operations: BTreeMap::new(),
            violations: Vec::new(),
            subscribed_at: Instant::now(),
            offered_at: None,
            reconciled: BTreeMap::new(),
            masters,
            stream: None,
            is_ending: false,
            doomed: BTreeSet::new(),
        }
    }

    /// The address of the master that serves the stream.
    pub(in crate::drills) fn address(&self) -> anyhow::Result<&str> {
        Ok(self.stream.as_ref().context("no stream is open")?.address.as_str())
    }

    /// Wants one more job.
    pub(in crate::drills) fn want(&mut self, task_id: String) {
        self.jobs.insert(task_id, Job { stage: Stage::Wanted, agent_id: None, attempt: 0 });
    }

    /// Jobs at a stage.
    pub(in crate::drills) fn count(&self, stage: &Stage) -> usize {
        self.jobs.values().filter(|job| job.stage == *stage).count()
    }

    /// Opens a stream at whoever leads, and asks about what is not known.
    pub(in crate::drills) async fn subscribe(&mut self) -> anyhow::Result<()> {
        let begin = Instant::now();
        self.stream = None;
        self.offered_at = None;
        let mut next = 0;
        let mut target = self.masters[0].clone();
        loop {
            if begin.elapsed() > LEADERLESS_DEADLINE {
                bail!("no master takes SUBSCRIBE for {} s", LEADERLESS_DEADLINE.as_secs());
            }
            match self.client.subscribe(&target, &self.identity.subscribe()).await {
                Subscribed::Refused(reason) => bail!("SUBSCRIBE: {reason}"),
                Subscribed::Elsewhere(Some(leader)) if leader != target => target = leader,
                Subscribed::Elsewhere(_) => {
                    next = (next + 1) % self.masters.len();
                    target.clone_from(&self.masters[next]);
                    wait::pause().await;
                }
                Subscribed::Open(mut stream) => match stream.next().await? {
                    Some(event) if event["type"] == "SUBSCRIBED" => {
                        self.subscribed_at = Instant::now();
                        self.stream = Some(stream);
                        return self.subscribed(&event).await;
                    }
                    Some(event) => bail!("SUBSCRIBE: {event}"),
                    None => wait::pause().await,
                },
            }
        }
    }

    async fn subscribed(&mut self, event: &Value) -> anyhow::Result<()> {
        let id = event["subscribed"]["framework_id"]["value"].as_str().context("no id")?;
        match &self.identity.framework_id {
            Some(own) if own != id => self.violations.push(format!("{own} is called {id} now")),
            _ => self.identity.framework_id = Some(id.to_owned()),
        }
        let sent = self.jobs.iter().filter(|(_, job)| job.stage == Stage::Sent);
        let asked: Vec<_> = sent.map(|(id, job)| (id.as_str(), job.agent_id.as_deref())).collect();
        if !asked.is_empty() {
            let call = self.identity.reconcile(&asked);
            self.send(&call).await?;
        }
        Ok(())
    }

    /// Sends a call on the open stream. What is not executed is no error: the stream is about to
    /// end, and all is asked about anew.
    pub(in crate::drills) async fn send(&mut self, call: &Value) -> anyhow::Result<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        match self.client.schedule(&stream.address, &stream.stream_id, call).await {
            Outcome::Accepted | Outcome::NotExecuted { .. } | Outcome::Unknown { .. } => Ok(()),
            // The stream was ended a moment ago, and that is still to be read.
            Outcome::Refused { status: 403, .. } => Ok(()),
            Outcome::Refused { status, text } => bail!("{}: {status} {text}", call["type"]),
        }
    }

    /// Asks for everything that the master knows of this framework.
    pub(in crate::drills) async fn reconcile_all(&mut self) -> anyhow::Result<()> {
        self.reconciled.clear();
        let call = self.identity.reconcile(&[]);
        self.send(&call).await
    }

    /// Takes in events, sends what they call for, and subscribes again when the stream ends,
    /// until `done` holds.
    pub(in crate::drills) async fn until(
        &mut self,
        what: &str,
        deadline: Duration,
        done: impl Fn(&Self) -> Result<(), String>,
    ) -> anyhow::Result<()> {
        let begin = Instant::now();
        while let Err(missing) = done(self) {
            let left = deadline.checked_sub(begin.elapsed());
            let step = tokio::time::timeout(left.unwrap_or_default(), self.step()).await;
            match step {
                Ok(Ok(Some(prepared))) => self.post(prepared).await?,
                Ok(Ok(None)) => {}
                Ok(Err(error)) => return Err(error.context(format!("{what}: {missing}"))),
                Err(_) => bail!("{what}: not within {} s: {missing}", deadline.as_secs()),
            }
        }
        Ok(())
    }

    /// Takes in events until an ACCEPT is ready.
    pub(in crate::drills) async fn next_accept(
        &mut self,
        deadline: Duration,
    ) -> anyhow::Result<Prepared> {
        let next = async {
            loop {
                if let Some(prepared) = self.step().await? {
                    return Ok(prepared);
                }
            }
        };
        let waited = tokio::time::timeout(deadline, next).await;
        waited.unwrap_or_else(|_| bail!("no offer within {} s", deadline.as_secs()))
    }

    async fn post(&mut self, prepared: Prepared) -> anyhow::Result<()> {
        let Prepared { address, stream_id, call, task_ids } = prepared;
        let outcome = self.client.schedule(&address, &stream_id, &call).await;
        self.posted(&task_ids, &outcome)
    }

    /// What an ACCEPT came to, as far as its answer says.
    pub(in crate::drills) fn posted(
        &mut self,
        task_ids: &[String],
        outcome: &Outcome,
    ) -> anyhow::Result<()> {
        match outcome {
            // Statuses will tell, or a reconciliation after the end of the stream.
            Outcome::Accepted | Outcome::Unknown { .. } => {}
            Outcome::NotExecuted { .. } | Outcome::Refused { status: 403, .. } => {
                for (_, job) in self.jobs.iter_mut().filter(|(id, _)| task_ids.contains(id)) {
                    job.stage = Stage::Wanted;
                }
            }
            Outcome::Refused { status, text } => bail!("ACCEPT: {status} {text}"),
        }
        Ok(())
    }

    /// One event, or the end of the stream.
    async fn step(&mut self) -> anyhow::Result<Option<Prepared>> {
        let Some(stream) = &mut self.stream else {
            self.subscribe().await?;
            return Ok(None);
        };
        let Some(event) = stream.next().await? else {
            self.subscribe().await?;
            return Ok(None);
        };
        match event["type"].as_str().unwrap_or_default() {
            "OFFERS" => return self.offers(&event["offers"]["offers"]).await,
            "UPDATE" => self.update(&event["update"]["status"]).await?,
            "UPDATE_OPERATION_STATUS" => {
                self.operation(&event["update_operation_status"]["status"]).await?;
            }
            "ERROR" => self.violations.push(format!("told {}", event["error"])),
            "FAILURE" if !self.is_ending && self.doomed.is_empty() => {
                self.violations.push(format!("told {event}"))
            }
            _ => {}
        }
        Ok(None)
    }

    /// Uses the first offer that fits, and gives the others back.
    async fn offers(&mut self, offers: &Value) -> anyhow::Result<Option<Prepared>> {
        self.offered_at.get_or_insert_with(Instant::now);
        let mut prepared = None;
        let mut unwanted = Vec::new();
        for offer in offers.as_array().into_iter().flatten() {
            let id = offer["id"]["value"].as_str().context("an offer without id")?;
            if prepared.is_none() {
                prepared = self.prepare(id, offer)?;
                if prepared.is_some() {
                    continue;
                }
            }
            unwanted.push(id.to_owned());
        }
        if !unwanted.is_empty() {
            let call = self.identity.decline(&unwanted);
            self.send(&call).await?;
        }
        Ok(prepared)
    }

    fn prepare(&mut self, id: &str, offer: &Value) -> anyhow::Result<Option<Prepared>> {
        let agent_id = offer["agent_id"]["value"].as_str().context("an offer without agent")?;
        let Some(stream) = &self.stream else { return Ok(None) };
        let wanted = self.jobs.iter_mut().filter(|(_, job)| job.stage == Stage::Wanted);
        let (mut operations, mut task_ids) = (Vec::new(), Vec::new());
        for (task_id, job) in wanted.take(fitting(offer).min(JOBS_PER_ACCEPT)) {
            job.stage = Stage::Sent;
            job.agent_id = Some(agent_id.to_owned());
            job.attempt += 1;
            operations.extend(self.identity.job(task_id, job.attempt, agent_id));
            task_ids.push(task_id.clone());
        }
        let call = self.identity.accept(id, &operations);
        Ok((!operations.is_empty()).then(|| Prepared {
            address: stream.address.clone(),
            stream_id: stream.stream_id.clone(),
            call,
            task_ids,
        }))
    }

    async fn update(&mut self, status: &Value) -> anyhow::Result<()> {
        let task_id = status["task_id"]["value"].as_str().context("a status without task")?;
        let state = status["state"].as_str().context("a status without state")?;
        if status["reason"] == "REASON_RECONCILIATION" {
            self.reconciled.insert(task_id.to_owned(), state.to_owned());
        }
        let Some(job) = self.jobs.get_mut(task_id) else {
            self.violations.push(format!("told of task {task_id}, which nobody launched"));
            return Ok(());
        };
        match (state, &job.stage) {
            ("TASK_STAGING" | "TASK_STARTING" | "TASK_KILLING", _) => {}
            ("TASK_RUNNING", Stage::Sent | Stage::Running) => job.stage = Stage::Running,
            // It never came to be: the ACCEPT was lost with its leader, or its offers were.
            ("TASK_UNKNOWN" | "TASK_DROPPED" | "TASK_GONE", Stage::Sent) => {
                job.stage = Stage::Wanted;
                job.agent_id = None;
                self.send(&self.identity.revive()).await?;
            }
            (state, stage) => {
                let is_doomed = self.doomed.contains(task_id) && *stage == Stage::Running;
                if !(is_doomed || self.is_ending && state == "TASK_KILLED") {
                    let text = format!("task {task_id} is {state} after {stage:?}: {status}");
                    self.violations.push(text);
                }
                job.stage = Stage::Ended(state.to_owned());
            }
        }
        if status["uuid"].is_string() {
            let call = self.identity.acknowledge(status);
            self.send(&call).await?;
        }
        Ok(())
    }

    async fn operation(&mut self, status: &Value) -> anyhow::Result<()> {
        let id = status["operation_id"]["value"].as_str().context("a status without operation")?;
        let state = status["state"].as_str().unwrap_or_default().to_owned();
        let uuid = status["uuid"]["value"].as_str().unwrap_or_default().to_owned();
        self.operations.entry(id.to_owned()).or_default().insert((state, uuid));
        if status["uuid"].is_object() {
            let call = self.identity.acknowledge_operation(status);
            self.send(&call).await?;
        }
        Ok(())
    }

    /// Operations that were told anything but one final status, and those of running tasks that
    /// were told none.
    pub(in crate::drills) fn feedback(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (id, told) in self.operations.iter().filter(|(_, told)| told.len() > 1) {
            wrong.push(format!("operation {id} was told several final statuses: {told:?}"));
        }
        for (task_id, job) in self.jobs.iter().filter(|(_, job)| job.stage == Stage::Running) {
            for step in ["reserve", "create"] {
                let id = calls::operation_id(task_id, job.attempt, step);
                let told = self.operations.get(&id).and_then(BTreeSet::first);
                if told.is_none_or(|(state, _)| state != "OPERATION_FINISHED") {
                    wrong.push(format!("operation {id} of a running task was told {told:?}"));
                }
            }
        }
        wrong
    }
}

/// How many jobs an offer has room for.
fn fitting(offer: &Value) -> usize {
    let of = |name: &str| {
        let resources = offer["resources"].as_array().into_iter().flatten();
        let plain = resources.filter(|resource| {
            resource["name"] == name
                && resource["disk"].is_null()
                && resource["reservations"].as_array().is_none_or(Vec::is_empty)
        });
        plain.filter_map(|resource| resource["scalar"]["value"].as_f64()).sum::<f64>()
    };
    let (cpus, mem, disk) = JOB;
    let counts = [of("cpus") / cpus, of("mem") / mem, of("disk") / disk];
    let fits = |jobs: &u32| counts.iter().all(|count| *count >= f64::from(*jobs));
    (1..).take_while(fits).take(JOBS_PER_ACCEPT).count()
}
