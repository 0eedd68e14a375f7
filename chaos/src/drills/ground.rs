//! The ground of the drills on agents: a running local cluster, the slots that a drill works on,
//! calls in flight, and the check that everything is in order again. Must not know what a drill
//! breaks. Next: `ground/check.rs`.

mod check;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::Value;
use tokio::task::JoinSet;

use super::outcome::{Report, Round};
use crate::client::{Client, Credential, Outcome};
use crate::cluster::{Cluster, Member};
use crate::drills::workload::{Resize, Workload};
use crate::history::Change;
use crate::observe;
use crate::slots::verdict::Failures;
use crate::slots::{Asked, Slot, Step};

/// How long any state may take to come about.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// What to drill.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of a running `holdfast dev` cluster.
    pub dir: PathBuf,
    /// How many rounds.
    pub rounds: usize,
    /// Seed of the drill's choices; drawn when not given.
    pub seed: Option<u64>,
}

/// What a drill stands on.
pub(super) struct Ground {
    pub(super) cluster: Cluster,
    pub(super) workload: Arc<Workload>,
    pub(super) slots: Vec<Slot>,
    pub(super) rng: StdRng,
    /// Seed of the choices.
    seed: u64,
    /// Prefix of every label and volume id of this run.
    pub(super) run: String,
    /// Work directories that are not where the cluster's file says.
    pub(super) roots: BTreeMap<usize, PathBuf>,
    /// Programs that processes are started under.
    pub(super) wrappers: BTreeMap<Member, Vec<String>>,
    /// Volumes that got their marker.
    pub(super) marked: BTreeSet<String>,
    /// Volumes that no record knows any more, by an operator's choice; their data stays.
    pub(super) orphans: BTreeSet<String>,
    /// Operations that were told their end.
    finals: BTreeMap<String, String>,
    /// What could not be tried.
    pub(super) skipped: Vec<String>,
}

/// Calls in flight.
#[derive(Debug)]
pub(super) struct Burst(JoinSet<anyhow::Result<(usize, Vec<Asked>)>>);

impl Ground {
    /// Finds the cluster and its agents, all of which must run.
    pub(super) async fn prepare(options: &Options) -> anyhow::Result<Self> {
        let seed = options.seed.unwrap_or_else(|| rand::rng().random());
        let cluster = Cluster::open(&std::path::absolute(&options.dir)?)?;
        if let Some(dead) = cluster.members().find(|member| !cluster.is_alive(*member)) {
            bail!("{} does not run; start it with: holdfast dev", cluster.name(dead));
        }
        if cluster.layout().agents.is_empty() {
            bail!("the cluster has no agent");
        }
        let client = Client::new(Credential::of_master(cluster.argv(Member::Master(0)))?)?;
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
        Ok(Self {
            workload: Arc::new(Workload { client, masters: cluster.masters(), agents }),
            cluster,
            slots: Vec::new(),
            rng: StdRng::seed_from_u64(seed),
            seed,
            run: format!("{seed:x}-{:x}-", now.as_millis()),
            roots: BTreeMap::new(),
            wrappers: BTreeMap::new(),
            marked: BTreeSet::new(),
            orphans: BTreeSet::new(),
            finals: BTreeMap::new(),
            skipped: Vec::new(),
        })
    }

    /// Runs the rounds, removes what they made, and reports. Violations are in the report.
    ///
    /// `with` is what a drill has beside the ground; `end` gives up what it started.
    pub(super) async fn drill<S>(
        mut self,
        rounds: usize,
        mut with: S,
        mut one: impl AsyncFnMut(&mut Self, &mut S, usize) -> anyhow::Result<Round>,
        end: impl AsyncFnOnce(&mut Self, &mut S) -> anyhow::Result<()>,
    ) -> Report {
        let mut report = Report { seed: self.seed, ..Report::default() };
        for round in 1..=rounds {
            match one(&mut self, &mut with, round).await {
                Ok(done) => {
                    tracing::info!("round {round}/{rounds}: {done}");
                    let is_clean = done.violations.is_empty();
                    report.rounds.push(done);
                    if !is_clean {
                        // What follows would be about the same again.
                        break;
                    }
                }
                Err(error) => {
                    report.beside.push(format!("round {round} did not end: {error:#}"));
                    break;
                }
            }
        }
        let cleaned = async {
            self.start_dead()?;
            self.clean_up().await
        };
        for result in [cleaned.await, end(&mut self, &mut with).await] {
            if let Err(error) = result {
                report.beside.push(format!("clean-up: {error:#}"));
            }
        }
        report.skipped = self.skipped;
        report
    }

    /// Adds slots on one agent.
    pub(super) fn add_slots(&mut self, agent: usize, count: usize) {
        for _ in 0..count {
            let label = format!("{}s{}", self.run, self.slots.len() + 1);
            self.slots.push(Slot::new(agent, label));
        }
    }

    /// Adds slots on every agent.
    pub(super) fn add_slots_everywhere(&mut self, count: usize) {
        for agent in 0..self.cluster.layout().agents.len() {
            self.add_slots(agent, count);
        }
    }

    /// Plans up to `steps_max` steps on each slot of the agent.
    pub(super) fn plan(&mut self, agent: usize, steps_max: usize) {
        for slot in self.slots.iter_mut().filter(|slot| slot.agent == agent) {
            for _ in 0..self.rng.random_range(1..=steps_max) {
                slot.plan(&mut self.rng);
            }
        }
    }

    /// Sends all that is planned: one slot's steps one after the other, slots side by side. A
    /// slot's first step that is not accepted ends its row.
    pub(super) async fn send(&mut self) -> anyhow::Result<Burst> {
        let leader = self.leader().await?;
        let mut callers = JoinSet::new();
        for place in 0..self.slots.len() {
            let slot = &mut self.slots[place];
            let planned = slot.asked.extract_if(.., |asked| asked.outcome.is_none());
            let planned: Vec<Asked> = planned.collect();
            let slot = &self.slots[place];
            let calls: Vec<(Asked, Value)> =
                planned.into_iter().map(|asked| (asked.clone(), self.call(slot, &asked))).collect();
            if calls.is_empty() {
                continue;
            }
            let workload = Arc::clone(&self.workload);
            let mut target = self.workload.masters[leader].clone();
            callers.spawn(async move {
                let mut sent = Vec::new();
                for (mut asked, call) in calls {
                    let answer = workload.attempt(&mut target, &call).await?;
                    let is_accepted = answer.outcome == Outcome::Accepted;
                    asked.outcome = Some(answer.outcome);
                    asked.operation_id = answer.operation_id;
                    sent.push(asked);
                    if !is_accepted {
                        break;
                    }
                }
                Ok((place, sent))
            });
        }
        Ok(Burst(callers))
    }

    /// Waits for the answers of a burst.
    pub(super) async fn take(&mut self, mut burst: Burst) -> anyhow::Result<()> {
        while let Some(ended) = burst.0.join_next().await {
            let (place, sent) = ended.context("a caller panicked")??;
            self.slots[place].asked.extend(sent);
        }
        Ok(())
    }

    /// Sends all that is planned, and waits until it is done.
    pub(super) async fn do_all(&mut self, failures: Failures) -> anyhow::Result<Round> {
        let burst = self.send().await?;
        self.take(burst).await?;
        self.settle(failures).await
    }

    /// The JSON of a step.
    pub(super) fn call(&self, slot: &Slot, asked: &Asked) -> Value {
        let subject = slot.subject(asked);
        match asked.step {
            Step::Reserve | Step::Create => self.workload.call(&subject, Change::Make),
            Step::Unreserve | Step::Destroy => self.workload.call(&subject, Change::Remove),
            Step::Grow => self.workload.resize(&subject, Resize::Grow(Slot::step_milli())),
            Step::Shrink => self.workload.resize(&subject, Resize::Shrink(Slot::step_milli())),
        }
    }

    /// Place of the leader.
    pub(super) async fn leader(&self) -> anyhow::Result<usize> {
        observe::leader(&self.workload.client, &self.cluster, DEADLINE).await
    }

    /// Address of the leader.
    pub(super) async fn leader_address(&self) -> anyhow::Result<String> {
        Ok(self.workload.masters[self.leader().await?].clone())
    }

    /// The agent of a round.
    pub(super) fn agent_of(&self, round: usize) -> usize {
        round % self.workload.agents.len()
    }

    /// The work directory of an agent.
    pub(super) fn work_dir(&self, agent: usize) -> PathBuf {
        let own = || PathBuf::from(&self.cluster.layout().agents[agent].work_dir);
        self.roots.get(&agent).cloned().unwrap_or_else(own)
    }

    /// Starts a process where it belongs.
    pub(super) fn start(&mut self, member: Member) -> anyhow::Result<()> {
        let wrapper = self.wrappers.get(&member).map(Vec::as_slice).unwrap_or_default();
        self.cluster.start_under(member, wrapper)
    }

    /// The agent that was added last to the cluster's list is called so.
    pub(super) fn add_agent_id(&mut self, id: &str) {
        let Workload { client, masters, agents } = self.workload.as_ref();
        let agents = agents.iter().map(String::as_str).chain([id]).map(str::to_owned).collect();
        let (client, masters) = (client.clone(), masters.clone());
        self.workload = Arc::new(Workload { client, masters, agents });
    }

    /// Starts everything that does not run.
    pub(super) fn start_dead(&mut self) -> anyhow::Result<()> {
        for member in self.cluster.members() {
            if !self.cluster.is_alive(member) {
                self.start(member)?;
            }
        }
        Ok(())
    }

    /// Destroys and unreserves all of this run, and sees it gone everywhere.
    async fn clean_up(&mut self) -> anyhow::Result<()> {
        self.slots.iter_mut().for_each(Slot::plan_end);
        let left = self.do_all(Failures::Forbidden).await?.violations;
        if !left.is_empty() {
            bail!("{}", left.join("; "));
        }
        Ok(())
    }
}
