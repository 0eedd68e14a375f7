//! `holdfast bench agents`: many emulated agents on a local cluster. Measures how fast they
//! register, what the leader needs for them, their reservations and their tasks, and how fast all
//! come back after a change of leader while an operator goes on. Next: `bench/swarm.rs`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use chaos::client::{Client, Credential};
use chaos::cluster::{Cluster, Member};
use chaos::process::Signal;
use chaos::{observe, wait};
use serde_json::json;

use super::load::{self, Tasks};
use super::swarm::Swarm;
use crate::cli;
use crate::exit::Failure;
use crate::flags;

/// How often agents have registered, by kind.
const REGISTRATIONS: &str = "master_agent_registrations_total";

/// How long any state may take to come about.
const DEADLINE: Duration = Duration::from_secs(600);

/// Flags of `holdfast bench agents`.
#[derive(Debug, clap::Args)]
struct Flags {
    /// Directory of a running `holdfast dev` cluster; better one without other agents
    #[arg(long, value_name = "DIR", default_value = "./holdfast-dev")]
    dir: PathBuf,
    /// Number of emulated agents
    #[arg(long, value_name = "N", default_value = "2000")]
    count: u32,
    /// Reservations on each agent
    #[arg(long, value_name = "N", default_value = "10")]
    reservations: u32,
    /// Tasks on each agent
    #[arg(long, value_name = "N", default_value = "10")]
    tasks: u32,
}

/// Runs the bench.
pub(super) async fn run(argv: &[String]) -> Result<(), Failure> {
    let about = "Registers many emulated agents, gives them reservations and tasks, and changes \
                 the leader under them; the cluster knows these agents afterwards";
    let (flags, _) = flags::parse::<Flags>("bench agents", about, argv)?;
    let refused = |error: String| Failure::Refused(format!("bench agents: {error}"));
    let bench = Bench::open(&flags).map_err(refused)?;
    bench.run().await.map_err(refused)
}

struct Bench {
    cluster: Cluster,
    client: Client,
    count: usize,
    reservations: usize,
    tasks: usize,
}

impl Bench {
    fn open(flags: &Flags) -> Result<Self, String> {
        let number = |count: u32| usize::try_from(count).expect("a 32-bit number fits in usize");
        let text = |error| format!("{error:#}");
        let dir = std::path::absolute(&flags.dir).map_err(|error| error.to_string())?;
        let cluster = Cluster::open(&dir).map_err(text)?;
        if let Some(dead) = cluster.members().find(|member| !cluster.is_alive(*member)) {
            return Err(format!(
                "{} does not run; start it with: holdfast dev",
                cluster.name(dead)
            ));
        }
        let credential = Credential::of_master(cluster.argv(Member::Master(0))).map_err(text)?;
        Ok(Self {
            client: Client::new(credential).map_err(text)?,
            cluster,
            count: number(flags.count),
            reservations: number(flags.reservations),
            tasks: number(flags.tasks),
        })
    }

    async fn run(mut self) -> Result<(), String> {
        let leader = self.leader().await?;
        let mut kilobytes = self.resident(leader)?;
        say(&format!("leader: master {leader}, {kilobytes} KiB resident", leader = leader + 1))?;

        let begin = Instant::now();
        let mut swarm = Swarm::start(self.count, &self.cluster.masters())
            .map_err(|failure| format!("{failure:?}"))?;
        let times = swarm.registered(&vec![0; self.count], begin).await?;
        say(&format!("{} agents registered: {}", self.count, spread(&times)))?;
        self.tell_memory(leader, &mut kilobytes, self.count, "agent")?;

        let address = self.cluster.masters()[leader].clone();
        let ids = self.agent_ids(&address).await?;
        let begin = Instant::now();
        let masters = self.cluster.masters();
        load::reservations(&self.client, &masters, &ids, self.reservations).await?;
        let committed = begin.elapsed();
        self.nothing_pending().await?;
        let sum = self.count * self.reservations;
        say(&format!(
            "{sum} reservations: committed after {:.2} s, confirmed by all agents after {:.2} s",
            committed.as_secs_f64(),
            begin.elapsed().as_secs_f64()
        ))?;
        self.tell_memory(leader, &mut kilobytes, sum, "reservation")?;

        let begin = Instant::now();
        let (leader, mut tasks) = self.subscribe().await?;
        tasks.launch(ids.len(), self.tasks).await?;
        let sum = ids.len() * self.tasks;
        say(&format!("{sum} tasks run after {:.2} s", begin.elapsed().as_secs_f64()))?;
        self.tell_memory(leader, &mut kilobytes, sum, "task")?;

        self.change_leader(leader, &mut swarm, &ids).await?;
        swarm.end().await;
        Ok(())
    }

    /// A framework at whoever leads by now, on a machine that may be too busy for one leader.
    async fn subscribe(&self) -> Result<(usize, Tasks), String> {
        let waited = wait::until("a framework is subscribed", DEADLINE, async || {
            let leader = self.leader().await?;
            let address = &self.cluster.masters()[leader];
            Tasks::subscribe(&self.client, address).await.map(|tasks| (leader, tasks))
        });
        waited.await.map_err(|error| format!("{error:#}"))
    }

    /// Kills the leader, and measures how all agents come back and an operator's calls meanwhile.
    async fn change_leader(
        &mut self,
        leader: usize,
        swarm: &mut Swarm,
        ids: &[String],
    ) -> Result<(), String> {
        let before = swarm.registrations();
        let killed_at = Instant::now();
        let text = |error| format!("{error:#}");
        self.cluster.signal(Member::Master(leader), Signal::KILL).map_err(text)?;
        let (calls, times) = {
            let storm = swarm.registered(&before, killed_at);
            tokio::pin!(storm);
            let mut calls = Vec::new();
            loop {
                tokio::select! {
                    times = &mut storm => break (calls, times?),
                    took = self.reserve_once(ids, calls.len()) => calls.push(took?),
                }
            }
        };
        self.cluster.ended(&[Member::Master(leader)], DEADLINE).await.map_err(text)?;
        let next = self.leader().await?;
        let address = self.cluster.masters()[next].clone();
        let first = calls.first().copied().unwrap_or_default();
        say(&format!("new leader: master {}, first RESERVE answered after {first:.0?}", next + 1))?;
        say(&format!("{} agents registered again: {}", self.count, spread(&times)))?;
        let mut sorted: Vec<Duration> = calls.clone();
        sorted.sort_unstable();
        say(&format!("{} RESERVE meanwhile: {}", calls.len(), spread(&sorted)))?;
        // The leader publishes its counts from time to time.
        let waited = wait::until("the leader has counted all agents", DEADLINE, async || {
            let is_wanted = |name: &str| name.starts_with(REGISTRATIONS);
            match usize::try_from(self.metric(&address, is_wanted).await?) {
                Ok(counted) if counted < self.count => Err(format!("{counted} are counted")),
                Ok(_) | Err(_) => Ok(()),
            }
        });
        waited.await.map_err(text)?;
        for kind in ["unchanged", "new_or_changed"] {
            let name = format!("{REGISTRATIONS}{{kind=\"{kind}\"}}");
            let count = self.metric(&address, |line| line == name).await?;
            say(&format!("registrations {kind}: {count}"))?;
        }
        let server = self.client.get(&address, "/api/v1/server").await?;
        say(&format!("log: {} entries in all", server["applied"]))?;
        say(&format!("new leader: {} KiB resident", self.resident(next)?))?;
        self.cluster.start(Member::Master(leader)).map_err(text)
    }

    async fn reserve_once(&self, ids: &[String], number: usize) -> Result<Duration, String> {
        let begin = Instant::now();
        let id = &ids[number * 7919 % ids.len()];
        let body = json!({"operations": [load::reserve(id, &format!("storm-{number}"))]});
        load::transact(&self.client, &self.cluster.masters(), &body).await?;
        Ok(begin.elapsed())
    }

    async fn leader(&self) -> Result<usize, String> {
        let leader = observe::leader(&self.client, &self.cluster, DEADLINE).await;
        leader.map_err(|error| format!("{error:#}"))
    }

    /// Ids of the emulated agents.
    async fn agent_ids(&self, address: &str) -> Result<Vec<String>, String> {
        let agents = self.client.get(address, "/api/v1/agents").await?;
        let emulated = agents.as_array().into_iter().flatten().filter(|agent| {
            agent["hostname"].as_str().is_some_and(|name| name.starts_with("emulated-"))
                && agent["connected"] == true
        });
        Ok(emulated.filter_map(|agent| agent["id"].as_str().map(str::to_owned)).collect())
    }

    async fn nothing_pending(&self) -> Result<(), String> {
        let waited = wait::until("all agents have confirmed", DEADLINE, async || {
            let address = &self.cluster.masters()[self.leader().await?];
            let is_pending = |name: &str| name.starts_with("master_operations_pending");
            match self.metric(address, is_pending).await? {
                0 => Ok(()),
                pending => Err(format!("{pending} are pending")),
            }
        });
        waited.await.map_err(|error| format!("{error:#}"))
    }

    /// Sum of the metrics whose names are wanted.
    async fn metric(&self, address: &str, is_wanted: impl Fn(&str) -> bool) -> Result<u64, String> {
        let text = self.client.text(address, "/metrics").await?;
        let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let wanted = lines.filter(|(name, _)| is_wanted(name));
        Ok(wanted.filter_map(|(_, value)| value.parse::<u64>().ok()).sum())
    }

    /// What a master holds in memory, in KiB.
    fn resident(&self, master: usize) -> Result<u64, String> {
        let pid = self.cluster.pid(Member::Master(master));
        let path = format!("/proc/{pid}/status");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.ok_or_else(|| format!("{path} names no VmRSS"))
    }

    fn tell_memory(
        &self,
        leader: usize,
        before: &mut u64,
        count: usize,
        noun: &str,
    ) -> Result<(), String> {
        let now = self.resident(leader)?;
        let grown = now.saturating_sub(*before) * 1024;
        let each = grown / u64::try_from(count.max(1)).unwrap_or(u64::MAX);
        *before = now;
        say(&format!("leader: {now} KiB resident, {each} B more per {noun}"))
    }
}

/// The middle, the last of a hundred, and the worst.
fn spread(sorted: &[Duration]) -> String {
    let at = |share: usize| sorted.get(sorted.len() * share / 100).or(sorted.last());
    let text = |time: Option<&Duration>| match time {
        Some(time) => format!("{:.1} ms", time.as_secs_f64() * 1_000.0),
        None => "-".to_owned(),
    };
    format!("median {}, p99 {}, worst {}", text(at(50)), text(at(99)), text(sorted.last()))
}

fn say(line: &str) -> Result<(), String> {
    cli::print(&format!("{line}\n")).map_err(|failure| format!("{failure:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_name_what_is_there() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(spread(&times), "median 101.0 ms, p99 199.0 ms, worst 200.0 ms");
        assert_eq!(spread(&[]), "median -, p99 -, worst -");
    }
}
