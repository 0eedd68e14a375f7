//! Drill `agent-reboot`: an agent dies with its tasks and with orders on their way, and starts in
//! another boot, round after round. It keeps its id, its tasks have ended, its reservations and
//! volumes are there with their data. Next: `agent_partition.rs`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rand::Rng as _;

use super::framework_failover::calls::STARTS;
use super::framework_failover::framework::{Framework, Stage};
use super::ground::{DEADLINE, Ground, Options};
use super::outcome::{Report, Round};
use super::sweep::sweep;
use crate::cluster::Member;
use crate::disk;
use crate::observe;
use crate::process::{self, Signal};
use crate::slots::verdict::Failures;
use crate::wait;

/// Slots on each agent.
const SLOTS: usize = 4;

/// Most steps in one row.
const STEPS_MAX: usize = 4;

/// Tasks that a round starts.
const TASKS: usize = 2;

/// Longest time between the first call and the agent's death, in microseconds.
const KILL_AFTER_MAX_US: u64 = 30_000;

/// The drill's framework.
struct Tasks {
    framework: Framework,
    /// Prefix of its tasks, labels and volumes.
    prefix: String,
    made: usize,
}

/// Runs the drill, removes what it made, and reports. Violations are in the report.
///
/// # Errors
/// When there is no running cluster in the directory.
pub async fn run(options: Options) -> anyhow::Result<Report> {
    let mut ground = Ground::prepare(&options).await?;
    ground.add_slots_everywhere(SLOTS);
    let prefix = format!("t{}", ground.run);
    let masters = ground.cluster.masters();
    let client = ground.workload.client.clone();
    let mut framework = Framework::new(client, masters, &format!("drill {prefix}"));
    framework.subscribe().await?;
    let tasks = Tasks { framework, prefix, made: 0 };
    Ok(ground.drill(options.rounds, tasks, reboot, end).await)
}

async fn reboot(ground: &mut Ground, tasks: &mut Tasks, round: usize) -> anyhow::Result<Round> {
    let agent = tasks.launch(ground).await?;
    let agent_id = ground.workload.agents[agent].clone();
    let doomed = tasks.running_on(&agent_id);
    let starts = tasks.starts(ground, agent, &doomed).await?;
    tasks.framework.doomed.extend(doomed.iter().cloned());

    let member = Member::Agent(agent);
    let pause = Duration::from_micros(ground.rng.random_range(0..KILL_AFTER_MAX_US));
    ground.plan(agent, STEPS_MAX);
    let burst = ground.send().await?;
    wait::some(pause).await;
    let killed_at = Instant::now();
    let work_dir = std::fs::canonicalize(ground.work_dir(agent))?;
    ground.cluster.signal(member, Signal::KILL)?;
    // A supervisor that sees its agent end may start something: until nothing is left.
    wait::until("the end of everything on the agent", DEADLINE, async || {
        let alive = process::working_in(&work_dir);
        for pid in &alive {
            process::signal(*pid, Signal::KILL).map_err(|error| error.to_string())?;
        }
        if alive.is_empty() { Ok(()) } else { Err(format!("processes {alive:?}")) }
    })
    .await?;
    ground.cluster.ended(&[member], DEADLINE).await?;
    ground.cluster.set_flag(member, "boot-id", &format!("{}boot-{round}", ground.run));
    ground.cluster.start(member)?;
    ground.take(burst).await?;
    let mut settled = ground.settle(Failures::Allowed).await?;
    tasks.ended(&doomed).await?;
    settled.violations.append(&mut tasks.framework.violations);
    settled.violations.extend(tasks.check(ground, agent, &doomed, &starts).await?);
    Ok(Round {
        round,
        on: ground.cluster.name(member),
        what: format!("rebooted after {:.1} ms, {} tasks", ms(pause), doomed.len()),
        healed_ms: killed_at.elapsed().as_millis(),
        volumes: settled.volumes + starts.len(),
        ..settled
    })
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

async fn end(ground: &mut Ground, tasks: &mut Tasks) -> anyhow::Result<()> {
    tasks.framework.is_ending = true;
    let teardown = tasks.framework.identity.teardown();
    tasks.framework.send(&teardown).await?;
    for agent in 0..ground.workload.agents.len() {
        let work_dir = std::fs::canonicalize(ground.work_dir(agent))?;
        wait::until("processes of tasks end", DEADLINE, async || {
            let alive = process::working_in(&work_dir);
            if alive.is_empty() { Ok(()) } else { Err(format!("processes {alive:?} run")) }
        })
        .await?;
    }
    sweep(&tasks.framework.client, &ground.cluster, &tasks.prefix).await
}

impl Tasks {
    /// Starts the tasks of a round; gives the agent that runs the last of them.
    async fn launch(&mut self, ground: &Ground) -> anyhow::Result<usize> {
        for _ in 0..TASKS {
            self.made += 1;
            self.framework.want(format!("{}{}", self.prefix, self.made));
        }
        let revive = self.framework.identity.revive();
        self.framework.send(&revive).await?;
        self.framework
            .until("all tasks run", DEADLINE, |framework| {
                let open = framework.count(&Stage::Wanted) + framework.count(&Stage::Sent);
                if open == 0 { Ok(()) } else { Err(format!("{open} do not")) }
            })
            .await?;
        let last = self.framework.jobs.get(&format!("{}{}", self.prefix, self.made));
        let agent_id = last.and_then(|job| job.agent_id.clone()).context("a task just launched")?;
        let agents = &ground.workload.agents;
        agents.iter().position(|id| *id == agent_id).context("an agent of this cluster")
    }

    fn running_on(&self, agent_id: &str) -> Vec<String> {
        let jobs = self.framework.jobs.iter().filter(|(_, job)| {
            job.stage == Stage::Running && job.agent_id.as_deref() == Some(agent_id)
        });
        jobs.map(|(id, _)| id.clone()).collect()
    }

    fn file(ground: &Ground, agent: usize, task_id: &str) -> PathBuf {
        disk::folder(&ground.work_dir(agent)).join(task_id).join(STARTS)
    }

    /// What each task wrote into its volume when it started. One that runs has been started, and
    /// need not have come to its first command.
    async fn starts(
        &self,
        ground: &Ground,
        agent: usize,
        task_ids: &[String],
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let mut starts = BTreeMap::new();
        for id in task_ids {
            let path = Self::file(ground, agent, id);
            let text = wait::until("the first word of a task", DEADLINE, async || {
                let text = std::fs::read_to_string(&path);
                let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
                if text.ends_with('\n') { Ok(text) } else { Err(format!("{text:?}")) }
            });
            starts.insert(id.clone(), text.await?);
        }
        Ok(starts)
    }

    /// Waits until the framework was told the end of the tasks.
    async fn ended(&mut self, task_ids: &[String]) -> anyhow::Result<()> {
        self.framework
            .until("the end of tasks", DEADLINE, |framework| {
                let alive = task_ids
                    .iter()
                    .find(|id| !matches!(framework.jobs[*id].stage, Stage::Ended(_)));
                alive.map_or(Ok(()), |id| Err(format!("{id} is {:?}", framework.jobs[id].stage)))
            })
            .await
    }

    /// No task runs on or was started again, and each volume is there with what was written.
    async fn check(
        &self,
        ground: &Ground,
        agent: usize,
        task_ids: &[String],
        starts: &BTreeMap<String, String>,
    ) -> anyhow::Result<Vec<String>> {
        let mut violations = Vec::new();
        let address = ground.leader_address().await?;
        let client = &ground.workload.client;
        let groups = observe::master(client, &ground.cluster, &address, &self.prefix).await?;
        let tasks = client.get(&address, "/tasks?limit=-1").await;
        let tasks = tasks.map_err(|error| anyhow::anyhow!("{error}"))?;
        for id in task_ids {
            let listed = tasks["tasks"].as_array().into_iter().flatten();
            let states: Vec<&str> = listed
                .filter(|task| task["id"] == id.as_str())
                .filter_map(|task| task["state"].as_str())
                .collect();
            if !matches!(states.as_slice(), ["TASK_LOST" | "TASK_FAILED" | "TASK_GONE"]) {
                violations.push(format!("/tasks says of {id}: {states:?}"));
            }
            let volumes = groups[agent].get(id).map_or(0, |group| group.volumes.len());
            if volumes != 1 {
                violations.push(format!("/slaves has {volumes} volumes of {id}"));
            }
            let now = std::fs::read_to_string(Self::file(ground, agent, id));
            if now.as_ref().ok() != starts.get(id) {
                violations.push(format!("the volume of {id} holds {now:?}"));
            }
        }
        Ok(violations)
    }
}
