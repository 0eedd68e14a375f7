//! Drill `leader-kill`: the leader is killed with calls in flight, round after round. Every call
//! that was ever acknowledged must stand on every master, on the agents and on their disks.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::task::JoinSet;

use crate::client::{Client, Credential, Outcome};
use crate::cluster::{Cluster, Member};
use crate::drills::workload::{Caller, Ended, Progress, ROLE, Workload, kind, operator_call};
use crate::history::{Change, Expectation, History, Object, Subject};
use crate::invariants;
use crate::observe::{self, Groups};
use crate::process::Signal;
use crate::report::{Report, Round};
use crate::wait;

/// Calls in flight at any time.
const CALLERS: u64 = 8;

/// Size of the volume that holds a round's marker, in thousandths of a MB.
const VOLUME_MILLI: i64 = 8_000;

/// How long any state may take to come about.
const DEADLINE: Duration = Duration::from_secs(30);

/// Resources per call when everything is removed at the end.
const CLEANUP_CHUNK: usize = 100;

/// What to drill.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of a running `holdfast dev` cluster.
    pub dir: PathBuf,
    /// How many leaders to kill.
    pub rounds: usize,
    /// Seed of the drill's choices; drawn when not given.
    pub seed: Option<u64>,
}

/// A volume with a file of known content in it.
#[derive(Debug)]
struct Marker {
    subject: Subject,
    path: PathBuf,
    text: String,
}

struct Drill {
    cluster: Cluster,
    workload: Arc<Workload>,
    history: History,
    markers: Vec<Marker>,
    rng: StdRng,
    /// Prefix of every label and volume id of this run.
    run: String,
}

/// Runs the drill, removes what it made, and reports. Violations are in the report.
///
/// # Errors
/// When there is no running cluster in the directory.
pub async fn run(options: Options) -> anyhow::Result<Report> {
    let seed = options.seed.unwrap_or_else(|| rand::rng().random());
    let mut report = Report { seed, ..Report::default() };
    let mut drill = Drill::prepare(&options.dir, seed).await?;
    for round in 1..=options.rounds {
        match drill.round(round).await {
            Ok(done) => {
                tracing::info!(
                    "round {round}/{}: master {} killed, master {} leads after {} ms, {} \
                     acknowledged, {} violations",
                    options.rounds,
                    done.killed,
                    done.leader,
                    done.gap_ms,
                    done.acknowledged,
                    done.violations.len()
                );
                report.rounds.push(done);
            }
            Err(error) => {
                report.cleanup.push(format!("round {round} did not end: {error:#}"));
                break;
            }
        }
    }
    if let Err(error) = drill.clean_up().await {
        report.cleanup.push(format!("clean-up: {error:#}"));
    }
    Ok(report)
}

impl Drill {
    async fn prepare(dir: &Path, seed: u64) -> anyhow::Result<Self> {
        let cluster = Cluster::open(dir)?;
        if let Some(dead) = cluster.members().find(|member| !cluster.is_alive(*member)) {
            bail!("{} does not run; start it with: holdfast dev", cluster.name(dead));
        }
        if cluster.layout().agents.is_empty() {
            bail!("the cluster has no agent");
        }
        let credential = Credential::of_master(cluster.argv(Member::Master(0)))?;
        let client = Client::new(credential)?;
        let leader = observe::leader(&client, &cluster, DEADLINE).await?;
        let slaves = client.get(&cluster.masters()[leader], "/slaves").await;
        let slaves = slaves.map_err(|error| anyhow::anyhow!("{error}"))?;
        let mut agents = Vec::new();
        for agent in &cluster.layout().agents {
            let entry = observe::slave(&slaves, &agent.http);
            let id = entry.and_then(|entry| entry["id"].as_str());
            agents.push(id.with_context(|| format!("{} is not registered", agent.name))?.into());
        }
        // The clock keeps the names of two runs with one seed apart.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let run = format!("{seed:x}-{:x}-", now.as_millis());
        let workload = Workload { client, masters: cluster.masters(), agents };
        Ok(Self {
            cluster,
            workload: Arc::new(workload),
            history: History::default(),
            markers: Vec::new(),
            rng: StdRng::seed_from_u64(seed),
            run,
        })
    }

    async fn round(&mut self, round: usize) -> anyhow::Result<Round> {
        let (acknowledged, unknown) = (self.history.acknowledged, self.history.unknown);
        let refused = self.history.refused.len();
        let leader = observe::leader(&self.workload.client, &self.cluster, DEADLINE).await?;
        let pool = self.make_volume(round, leader).await?;
        let (killed_at, calls) = self.kill_under_load(round, leader, pool).await?;
        let gap_ms = self.take(&calls, leader, killed_at)?;
        let killed = Member::Master(leader);
        self.cluster.ended(&[killed], DEADLINE).await?;
        let next = observe::leader(&self.workload.client, &self.cluster, DEADLINE).await?;

        let mut violations = self.history.refused[refused..].to_vec();
        violations.extend(self.check_masters().await?);
        self.cluster.start(killed)?;
        violations.extend(self.check_masters().await?);
        violations.extend(self.check_agents(next).await?);
        violations.extend(self.check_markers());
        let number = |place: usize| self.cluster.layout().masters[place].id;
        Ok(Round {
            round,
            killed: number(leader),
            leader: number(next),
            gap_ms,
            acknowledged: self.history.acknowledged - acknowledged,
            unknown: self.history.unknown - unknown,
            checked: self.history.len(),
            violations,
        })
    }

    /// Reserves a pool on the round's agent, creates a volume from it, and writes the marker.
    async fn make_volume(
        &mut self,
        round: usize,
        leader: usize,
    ) -> anyhow::Result<(usize, String)> {
        let agent = round % self.workload.agents.len();
        let label = format!("{}{round}-pool", self.run);
        let id = format!("{}{round}", self.run);
        let volume = Object::Volume { pool: label.clone(), id: id.clone(), milli: VOLUME_MILLI };
        let mut target = self.workload.masters[leader].clone();
        for object in [Object::Pool { label: label.clone() }, volume] {
            let subject = (agent, object);
            let call = self.workload.call(&subject, Change::Make);
            let answer = self.workload.attempt(&mut target, &call).await?;
            self.history.record(&subject, Change::Make, &answer.outcome);
            if answer.outcome != Outcome::Accepted {
                bail!("{:?}: {:?}", subject.1, answer.outcome);
            }
            if matches!(subject.1, Object::Volume { .. }) {
                let entry = &self.cluster.layout().agents[agent];
                let folder = Path::new(&entry.work_dir).join("volumes/roles").join(ROLE).join(&id);
                let text = format!("round {round} of {}", self.run);
                self.markers.push(Marker { subject, path: folder.join("marker"), text });
            }
        }
        let marker = self.markers.last().context("a marker was just made")?;
        let folder = marker.path.parent().context("a marker lies in its volume")?;
        wait::until("the volume's directory", DEADLINE, async || match folder.is_dir() {
            true => Ok(()),
            false => Err(format!("{} is missing", folder.display())),
        })
        .await?;
        fs::write(&marker.path, &marker.text)?;
        fs::File::open(&marker.path)?.sync_all()?;
        Ok((agent, label))
    }

    /// Keeps calls in flight, kills the leader among them, and waits until every caller has
    /// been served by a new one.
    async fn kill_under_load(
        &mut self,
        round: usize,
        leader: usize,
        pool: (usize, String),
    ) -> anyhow::Result<(Instant, Vec<Ended>)> {
        let progress = Arc::new(Progress::default());
        let mut callers = JoinSet::new();
        for number in 0..CALLERS {
            let caller = Caller::new(
                Arc::clone(&self.workload),
                Arc::clone(&progress),
                self.rng.random(),
                self.workload.masters[leader].clone(),
                format!("{}{round}-{number}", self.run),
                pool.clone(),
            );
            callers.spawn(caller.run());
        }
        let enough = self.rng.random_range(20..80);
        wait::until("calls before the kill", DEADLINE, async || {
            let accepted = progress.accepted.load(Ordering::Relaxed);
            if accepted >= enough { Ok(()) } else { Err(format!("{accepted} of {enough}")) }
        })
        .await?;
        let killed_at = Instant::now();
        self.cluster.signal(Member::Master(leader), Signal::KILL)?;
        progress.killed.send_replace(Some(killed_at));
        let mut calls = Vec::new();
        while let Some(ended) = callers.join_next().await {
            calls.extend(ended.context("a caller panicked")??);
        }
        Ok((killed_at, calls))
    }

    /// Adds the calls to the history; gives the gap in milliseconds.
    fn take(&mut self, calls: &[Ended], leader: usize, killed: Instant) -> anyhow::Result<u128> {
        for call in calls {
            self.history.record(&call.subject, call.change, &call.answer.outcome);
        }
        let old = &self.workload.masters[leader];
        let accepted = calls.iter().map(|call| &call.answer).filter(|answer| {
            answer.outcome == Outcome::Accepted && answer.at > killed && answer.by != *old
        });
        let first = accepted.map(|answer| answer.at).min();
        let first = first.context("no call was acknowledged by a new leader")?;
        Ok(first.duration_since(killed).as_millis())
    }

    /// Every running master against the history, once they have applied the same.
    async fn check_masters(&mut self) -> anyhow::Result<Vec<String>> {
        let mut alive = Vec::new();
        for (place, master) in self.cluster.layout().masters.iter().enumerate() {
            if self.cluster.is_alive(Member::Master(place)) {
                alive.push((format!("master {}", master.id), master.http.clone()));
            }
        }
        let addresses: Vec<String> = alive.iter().map(|(_, address)| address.clone()).collect();
        observe::digests_agree(&self.workload.client, &addresses, DEADLINE).await?;
        let mut violations = Vec::new();
        for (name, address) in alive {
            let held = self.on_master(&address).await?;
            let by_agent: Vec<(usize, &Groups)> = held.iter().enumerate().collect();
            violations.extend(invariants::check(&self.history, &name, &by_agent));
            // From here on all places must agree on what became of unknown calls.
            self.history.settle(invariants::settle(&self.history, &held));
        }
        Ok(violations)
    }

    async fn on_master(&self, address: &str) -> anyhow::Result<Vec<Groups>> {
        observe::master(&self.workload.client, &self.cluster, address, &self.run).await
    }

    /// Both agents against the history, once they have done what the leader has committed.
    async fn check_agents(&self, leader: usize) -> anyhow::Result<Vec<String>> {
        let wanted = self.on_master(&self.workload.masters[leader]).await?;
        let mut violations = Vec::new();
        for (place, agent) in self.cluster.layout().agents.iter().enumerate() {
            let what = format!("{} holds what the leader has", agent.name);
            let held = wait::until(&what, DEADLINE, async || {
                let held = observe::agent(&self.workload.client, &agent.http, &self.run).await;
                let held = held.map_err(|error| format!("{error:#}"))?;
                match held == wanted[place] {
                    true => Ok(held),
                    false => Err(difference(&held, &wanted[place])),
                }
            })
            .await?;
            violations.extend(invariants::check(&self.history, &agent.name, &[(place, &held)]));
        }
        Ok(violations)
    }

    fn check_markers(&self) -> Vec<String> {
        let mut violations = Vec::new();
        for marker in &self.markers {
            if self.history.expectation(&marker.subject) != Expectation::Present {
                continue;
            }
            let path = marker.path.display();
            match fs::read_to_string(&marker.path) {
                Ok(text) if text == marker.text => {}
                Ok(text) => violations.push(format!("{path} holds '{text}'")),
                Err(error) => violations.push(format!("{path}: {error}")),
            }
        }
        violations
    }

    /// Destroys and unreserves all of this run, and sees it gone everywhere.
    async fn clean_up(&mut self) -> anyhow::Result<()> {
        for member in self.cluster.members() {
            if !self.cluster.is_alive(member) {
                self.cluster.start(member)?;
            }
        }
        let leader = observe::leader(&self.workload.client, &self.cluster, DEADLINE).await?;
        let mut target = self.workload.masters[leader].clone();
        for is_volume in [true, false] {
            // The groups are read anew: a destroyed volume is plain reserved disk afterwards.
            let held = self.on_master(&target).await?;
            for (agent, groups) in held.iter().enumerate() {
                let all = groups.values().flat_map(|group| &group.resources);
                let of_kind: Vec<_> = all
                    .filter(|held| held["disk"]["persistence"].is_object() == is_volume)
                    .cloned()
                    .collect();
                for chunk in of_kind.chunks(CLEANUP_CHUNK) {
                    let kind = kind(is_volume, Change::Remove);
                    let call = operator_call(&self.workload.agents[agent], kind, chunk);
                    let answer = self.workload.attempt(&mut target, &call).await?;
                    if answer.outcome != Outcome::Accepted {
                        bail!("{kind}: {:?}", answer.outcome);
                    }
                }
            }
        }
        self.history = History::default();
        let violations = self.check_masters().await?;
        if !violations.is_empty() {
            bail!("{}", violations.join("; "));
        }
        self.check_agents(leader).await?;
        wait::until("volume directories are gone", DEADLINE, async || {
            let folders = self.markers.iter().filter_map(|marker| marker.path.parent());
            match folders.into_iter().find(|folder| folder.exists()) {
                Some(folder) => Err(format!("{} stands", folder.display())),
                None => Ok(()),
            }
        })
        .await
    }
}

/// Labels on which an agent and the leader differ, a few of them.
fn difference(held: &Groups, wanted: &Groups) -> String {
    let labels = held.keys().chain(wanted.keys());
    let differing: Vec<&String> =
        labels.filter(|label| held.get(*label) != wanted.get(*label)).take(3).collect();
    format!("differs in {differing:?}")
}
