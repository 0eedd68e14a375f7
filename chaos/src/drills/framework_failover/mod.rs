//! Drill `framework-failover`: a scheduler with tasks on volumes, and a leader that is killed
//! while an ACCEPT is in flight, round after round. No task and no volume may be lost, no task
//! may be started twice, and each operation is told one final status.
//!
//! Reading order: `calls.rs`, `framework.rs`, `report.rs`, this file.

pub(super) mod calls;
pub(super) mod framework;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use anyhow::{Context as _, bail};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use self::framework::{Framework, Stage};
pub use self::report::{Report, Round};
use crate::client::{Client, Credential};
use crate::cluster::{Cluster, Member};
use crate::drills::sweep::sweep;
use crate::drills::workload::ROLE;
use crate::observe;
use crate::process::{self, Signal};
use crate::wait;

/// How long any state may take to come about.
const DEADLINE: Duration = Duration::from_secs(60);

/// Longest time between an ACCEPT and the leader's death, in microseconds.
const KILL_AFTER_MAX_US: u64 = 6_000;

/// What to drill.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of a running `holdfast dev` cluster.
    pub dir: PathBuf,
    /// How many leaders to kill.
    pub rounds: usize,
    /// How many tasks run in the end, at least one a round.
    pub tasks: usize,
    /// Seed of the drill's choices; drawn when not given.
    pub seed: Option<u64>,
}

struct Drill {
    cluster: Cluster,
    framework: Framework,
    /// Work directories of the agents by id.
    agents: BTreeMap<String, PathBuf>,
    rng: StdRng,
    /// Prefix of every task, label and volume of this run.
    run: String,
    made: usize,
}

/// Runs the drill, removes what it made, and reports. Violations are in the report.
///
/// # Errors
/// When there is no running cluster in the directory, or more rounds than tasks.
pub async fn run(options: Options) -> anyhow::Result<Report> {
    if options.rounds > options.tasks {
        bail!("{} rounds want a task each, and there are {}", options.rounds, options.tasks);
    }
    let seed = options.seed.unwrap_or_else(|| rand::rng().random());
    let mut report = Report { seed, ..Report::default() };
    let mut drill = Drill::prepare(&options.dir, seed).await?;
    drill.framework.subscribe().await?;
    let each = options.tasks.checked_div(2 * options.rounds).unwrap_or_default().max(1);
    drill.launch(options.tasks - each * options.rounds).await?;
    for round in 1..=options.rounds {
        match drill.round(round, each).await {
            Ok(done) => {
                tracing::info!("round {round}/{}: {done}", options.rounds);
                report.rounds.push(done);
            }
            Err(error) => {
                report.cleanup.push(format!("round {round} did not end: {error:#}"));
                break;
            }
        }
    }
    report.operations = drill.framework.operations.len();
    if let Err(error) = drill.clean_up().await {
        report.cleanup.push(format!("clean-up: {error:#}"));
    }
    report.cleanup.append(&mut drill.framework.violations);
    Ok(report)
}

impl Drill {
    async fn prepare(dir: &Path, seed: u64) -> anyhow::Result<Self> {
        let cluster = Cluster::open(dir)?;
        if let Some(dead) = cluster.members().find(|member| !cluster.is_alive(*member)) {
            bail!("{} does not run; start it with: holdfast dev", cluster.name(dead));
        }
        let client = Client::new(Credential::of_master(cluster.argv(Member::Master(0)))?)?;
        let leader = observe::leader(&client, &cluster, DEADLINE).await?;
        let slaves = client.get(&cluster.masters()[leader], "/slaves").await;
        let slaves = slaves.map_err(|error| anyhow::anyhow!("{error}"))?;
        let mut agents = BTreeMap::new();
        for agent in &cluster.layout().agents {
            let entry = observe::slave(&slaves, &agent.http);
            let id = entry.and_then(|entry| entry["id"].as_str());
            let id = id.with_context(|| format!("{} is not registered", agent.name))?;
            agents.insert(id.to_owned(), PathBuf::from(&agent.work_dir));
        }
        // The clock keeps the names of two runs with one seed apart.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let run = format!("{seed:x}-{:x}-", now.as_millis());
        let framework = Framework::new(client, cluster.masters(), &format!("drill {run}"));
        Ok(Self { cluster, framework, agents, rng: StdRng::seed_from_u64(seed), run, made: 0 })
    }

    fn want(&mut self, jobs: usize) {
        for _ in 0..jobs {
            self.made += 1;
            self.framework.want(format!("{}{}", self.run, self.made));
        }
    }

    async fn launch(&mut self, jobs: usize) -> anyhow::Result<()> {
        self.want(jobs);
        let revive = self.framework.identity.revive();
        self.framework.send(&revive).await?;
        self.all_run().await
    }

    async fn all_run(&mut self) -> anyhow::Result<()> {
        self.framework
            .until("all tasks run", DEADLINE, |framework| {
                let open = framework.count(&Stage::Wanted) + framework.count(&Stage::Sent);
                if open == 0 { Ok(()) } else { Err(format!("{open} do not")) }
            })
            .await
    }

    async fn round(&mut self, round: usize, jobs: usize) -> anyhow::Result<Round> {
        self.want(jobs);
        let revive = self.framework.identity.revive();
        self.framework.send(&revive).await?;
        let prepared = self.framework.next_accept(DEADLINE).await?;
        let leader = self.place_of(&prepared.address)?;
        let pause = Duration::from_micros(self.rng.random_range(0..KILL_AFTER_MAX_US));
        let post =
            self.framework.client.schedule(&prepared.address, &prepared.stream_id, &prepared.call);
        let kill = async {
            wait::some(pause).await;
            self.cluster.signal(Member::Master(leader), Signal::KILL).map(|()| Instant::now())
        };
        let (outcome, killed_at) = tokio::join!(post, kill);
        let killed_at = killed_at?;
        self.framework.posted(&prepared.task_ids, &outcome)?;
        self.framework
            .until("a new leader", DEADLINE, |framework| {
                let is_new = framework.subscribed_at > killed_at;
                if is_new { Ok(()) } else { Err("the old stream is open".to_owned()) }
            })
            .await?;
        let subscribed_ms = self.framework.subscribed_at.duration_since(killed_at).as_millis();
        self.framework.send(&revive).await?;
        self.framework
            .until("an offer", DEADLINE, |framework| {
                framework.offered_at.map(|_| ()).ok_or_else(|| "none came".to_owned())
            })
            .await?;
        let offered_at = self.framework.offered_at.context("an offer just came")?;
        self.all_run().await?;
        self.cluster.ended(&[Member::Master(leader)], DEADLINE).await?;
        let next = self.place_of(self.framework.address()?)?;
        self.cluster.start(Member::Master(leader))?;

        self.told_finished().await?;
        let mut violations = std::mem::take(&mut self.framework.violations);
        violations.extend(self.framework.feedback());
        violations.extend(self.check_reconciliation().await?);
        violations.extend(self.check_master().await?);
        violations.extend(self.check_starts());
        observe::digests_agree(&self.framework.client, &self.cluster.masters(), DEADLINE).await?;
        let number = |place: usize| self.cluster.layout().masters[place].id;
        Ok(Round {
            round,
            killed: number(leader),
            leader: number(next),
            subscribed_ms,
            offered_ms: offered_at.duration_since(killed_at).as_millis(),
            tasks: self.framework.jobs.len(),
            violations,
        })
    }

    fn place_of(&self, address: &str) -> anyhow::Result<usize> {
        let masters = self.cluster.masters();
        masters.iter().position(|master| master == address).context("a master of the cluster")
    }

    /// Every operation of a running task has been told its end: that may come after its task's.
    async fn told_finished(&mut self) -> anyhow::Result<()> {
        self.framework
            .until("statuses of all operations", DEADLINE, |framework| {
                match framework.feedback().into_iter().find(|wrong| wrong.ends_with("None")) {
                    Some(missing) => Err(missing),
                    None => Ok(()),
                }
            })
            .await
    }

    /// The leader names every task, and says that it runs.
    async fn check_reconciliation(&mut self) -> anyhow::Result<Vec<String>> {
        self.framework.reconcile_all().await?;
        self.framework
            .until("a status of every task", DEADLINE, |framework| {
                let silent =
                    framework.jobs.keys().find(|id| !framework.reconciled.contains_key(*id));
                silent.map_or(Ok(()), |id| Err(format!("{id} is not named")))
            })
            .await?;
        let told = &self.framework.reconciled;
        let wrong = told.iter().filter(|(_, state)| *state != "TASK_RUNNING");
        Ok(wrong.map(|(id, state)| format!("task {id} is {state} by reconciliation")).collect())
    }

    /// The leader lists every task and every volume.
    async fn check_master(&self) -> anyhow::Result<Vec<String>> {
        let address = self.framework.address()?;
        let client = &self.framework.client;
        let tasks = client.get(address, "/tasks?limit=-1").await;
        let tasks = tasks.map_err(|error| anyhow::anyhow!("{error}"))?;
        let groups = observe::master(client, &self.cluster, address, &self.run).await?;
        let mut wrong = Vec::new();
        for id in self.framework.jobs.keys() {
            let listed = tasks["tasks"].as_array().into_iter().flatten();
            let states: Vec<&Value> =
                listed.filter(|task| task["id"] == json!(id)).map(|task| &task["state"]).collect();
            if states != [&json!("TASK_RUNNING")] {
                wrong.push(format!("/tasks says of {id}: {states:?}"));
            }
            let holders = groups.iter().filter_map(|groups| groups.get(id));
            let volumes: usize = holders.map(|group| group.volumes.len()).sum();
            if volumes != 1 {
                wrong.push(format!("/slaves has {volumes} volumes of {id}"));
            }
        }
        Ok(wrong)
    }

    fn folder(&self, task_id: &str) -> anyhow::Result<PathBuf> {
        let job = self.framework.jobs.get(task_id).context("a job of this run")?;
        let agent = job.agent_id.as_ref().and_then(|id| self.agents.get(id));
        let work_dir = agent.context("an agent of this cluster")?;
        Ok(work_dir.join("volumes/roles").join(ROLE).join(task_id))
    }

    /// Each running task wrote one line into its volume, and that process lives.
    fn check_starts(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let running = self.framework.jobs.iter().filter(|(_, job)| job.stage == Stage::Running);
        for (id, _) in running {
            match self.starts(id) {
                Err(error) => wrong.push(format!("task {id}: {error:#}")),
                Ok(pids) => match pids.as_slice() {
                    [pid] if process::started(*pid).is_some() => {}
                    [pid] => wrong.push(format!("task {id}: process {pid} is gone")),
                    pids => wrong.push(format!("task {id} was started as {pids:?}")),
                },
            }
        }
        wrong
    }

    fn starts(&self, task_id: &str) -> anyhow::Result<Vec<u32>> {
        let text = fs::read_to_string(self.folder(task_id)?.join(calls::STARTS))?;
        text.lines().map(|line| line.parse().context("a line that is no process id")).collect()
    }

    /// Ends half of the tasks one by one and the rest with the framework, then removes volumes
    /// and reservations, and sees all of it gone.
    async fn clean_up(&mut self) -> anyhow::Result<()> {
        for member in self.cluster.members() {
            if !self.cluster.is_alive(member) {
                self.cluster.start(member)?;
            }
        }
        let running: Vec<String> = self.framework.jobs.keys().cloned().collect();
        let pids: Vec<u32> =
            running.iter().filter_map(|id| self.starts(id).ok()).flatten().collect();
        self.framework.is_ending = true;
        let half = &running[..running.len() / 2];
        for id in half {
            let call = self.framework.identity.kill(id);
            self.framework.send(&call).await?;
        }
        let killed = Stage::Ended("TASK_KILLED".to_owned());
        self.framework
            .until("killed tasks end", DEADLINE, |framework| {
                let alive = half.iter().find(|id| framework.jobs[*id].stage != killed);
                alive.map_or(Ok(()), |id| Err(format!("{id} is {:?}", framework.jobs[id].stage)))
            })
            .await?;
        let teardown = self.framework.identity.teardown();
        self.framework.send(&teardown).await?;
        wait::until("processes of tasks end", DEADLINE, async || {
            let alive = pids.iter().find(|pid| process::started(**pid).is_some());
            alive.map_or(Ok(()), |pid| Err(format!("process {pid} runs")))
        })
        .await?;
        sweep(&self.framework.client, &self.cluster, &self.run).await?;
        wait::until("directories of volumes are gone", DEADLINE, async || {
            for id in &running {
                let folder = self.folder(id).map_err(|error| error.to_string())?;
                match fs::metadata(&folder) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    _ => return Err(format!("{} is there", folder.display())),
                }
            }
            Ok(())
        })
        .await
    }
}
