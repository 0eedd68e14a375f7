//! Drill `disk-full`: the disk of an agent, of a follower and of the leader runs full with
//! operations on their way, round after round. Nothing is acknowledged that was not stored; with
//! space again, every operation ends and nothing is lost.
//!
//! All run on small disks of their own for the time of the drill: the masters on copies of their
//! directories, which are put back in the end, and one agent more, which goes again. A drill that
//! is broken off leaves the masters as they were before it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use serde_json::json;

use super::ground::{DEADLINE, Ground, Options};
use super::outcome::{Report, Round};
use crate::cluster::{AgentEntry, Member};
use crate::disk;
use crate::namespace::{Namespace, Space, fill, free};
use crate::process::Signal;
use crate::slots::verdict::Failures;
use crate::wait;

/// Slots on the agent.
const SLOTS: usize = 6;

/// Most steps in one row.
const STEPS_MAX: usize = 4;

/// Bursts that a full disk gets before it counts as one that bears them.
const BURSTS_MAX: usize = 4;

/// Space of the agent, and of each master beside what it has, in kilobytes.
const DISK_KILOBYTES: u64 = 8 << 10;

/// Directory of what fills a disk.
const BALLAST: &str = "ballast";

/// The small disks.
#[derive(Default)]
struct Disks {
    /// By process: its namespace, and its work directory as called inside.
    of: Vec<(Member, Namespace, PathBuf)>,
    /// Place of the agent in the cluster's list.
    agent: usize,
}

/// Runs the drill, removes what it made, and reports. Violations are in the report.
///
/// # Errors
/// When there is no running cluster in the directory.
pub async fn run(options: Options) -> anyhow::Result<Report> {
    let mut ground = Ground::prepare(&options).await?;
    if let Err(reason) = Namespace::with_small_disk(ground.cluster.dir(), DISK_KILOBYTES) {
        ground.skipped.push(format!("all rounds: {reason:#}"));
        let nothing = async |_: &mut Ground, (): &mut (), _| Ok(Round::default());
        return Ok(ground.drill(0, (), nothing, async |_, ()| Ok(())).await);
    }
    let mut disks = Disks::default();
    if let Err(error) = disks.make(&mut ground).await {
        disks.unmake(&mut ground).await?;
        return Err(error);
    }
    ground.add_slots(disks.agent, SLOTS);
    let end = async |ground: &mut Ground, disks: &mut Disks| {
        disks.give_up_agent(ground).await?;
        disks.unmake(ground).await
    };
    Ok(ground.drill(options.rounds, disks, run_full, end).await)
}

async fn run_full(ground: &mut Ground, disks: &mut Disks, round: usize) -> anyhow::Result<Round> {
    let leader = ground.leader().await?;
    let masters = ground.cluster.layout().masters.len();
    let (member, role, space) = match round % 4 {
        1 => (Member::Agent(disks.agent), "agent", Space::Bytes),
        2 if masters > 1 => (Member::Master((leader + 1) % masters), "follower", Space::Bytes),
        3 => (Member::Agent(disks.agent), "agent without entries", Space::Entries),
        _ => (Member::Master(leader), "leader", Space::Bytes),
    };
    let ballast = disks.path(member)?.join(BALLAST);
    fill(&ballast, space)?;
    let mut round = Round { round, on: ground.cluster.name(member), ..Round::default() };
    let mut bursts = 0;
    while bursts < BURSTS_MAX && ground.cluster.is_alive(member) {
        bursts += 1;
        ground.plan(disks.agent, STEPS_MAX);
        let burst = ground.send().await?;
        ground.take(burst).await?;
        wait_for_end(ground, disks.agent, member).await?;
        if ground.cluster.is_alive(member) {
            // It bears it; what came of these is found out before more is asked.
            let borne = ground.settle_unmarked(Failures::Allowed).await?;
            round.add(borne);
        }
    }
    let has_ended = !ground.cluster.is_alive(member);
    free(&ballast)?;
    let freed_at = Instant::now();
    if has_ended {
        ground.start(member)?;
    }
    let settled = ground.settle(Failures::Allowed).await?;
    round.volumes = settled.volumes;
    round.add(settled);
    round.healed_ms = freed_at.elapsed().as_millis();
    let end = if has_ended { "ended" } else { "bore it" };
    round.what = format!("{role}, {end} in burst {bursts}");
    Ok(round)
}

/// Until the process has ended, or the agent has nothing left to do.
async fn wait_for_end(ground: &Ground, agent: usize, member: Member) -> anyhow::Result<()> {
    wait::until("an end, or nothing pending", DEADLINE, async || {
        if !ground.cluster.is_alive(member) {
            return Ok(());
        }
        let address = ground.leader_address().await.map_err(|error| format!("{error:#}"))?;
        let known = ground.known_as(agent, &address).await?;
        match known["pending"].as_u64() {
            Some(0) => Ok(()),
            pending => Err(format!("{pending:?} are pending")),
        }
    })
    .await
}

impl Disks {
    async fn make(&mut self, ground: &mut Ground) -> anyhow::Result<()> {
        for place in 0..ground.cluster.layout().masters.len() {
            let member = Member::Master(place);
            let dir = PathBuf::from(&ground.cluster.layout().masters[place].work_dir);
            ground.cluster.signal(member, Signal::KILL)?;
            ground.cluster.ended(&[member], DEADLINE).await?;
            let kilobytes = 2 * size(&dir)? / 1024 + DISK_KILOBYTES;
            let namespace = Namespace::with_small_disk(&dir, kilobytes)?;
            disk::copy(&dir, &namespace.path(&dir))?;
            ground.wrappers.insert(member, namespace.wrapper());
            self.of.push((member, namespace, dir));
            ground.start(member)?;
            // One after the other: the cluster never loses its majority.
            ground.all_masters_agree().await?;
        }
        self.agent = add_agent(ground)?;
        let member = Member::Agent(self.agent);
        let (agent, dir) = (self.agent, ground.work_dir(self.agent));
        let namespace = Namespace::with_small_disk(&dir, DISK_KILOBYTES)?;
        ground.wrappers.insert(member, namespace.wrapper());
        ground.roots.insert(agent, namespace.path(&dir));
        self.of.push((member, namespace, dir));
        ground.start(member)?;
        let known = ground
            .until_known(agent, "the agent is registered", DEADLINE, |known| {
                known["connected"] == true
            })
            .await?;
        ground.add_agent_id(known["id"].as_str().context("an agent without id")?);
        Ok(())
    }

    /// The work directory of a process, as called outside.
    fn path(&self, member: Member) -> anyhow::Result<PathBuf> {
        let found = self.of.iter().find(|(of, _, _)| *of == member);
        let (_, namespace, dir) = found.context("a process without a small disk")?;
        Ok(namespace.path(dir))
    }

    /// Lets the masters forget the agent.
    async fn give_up_agent(&self, ground: &Ground) -> anyhow::Result<()> {
        let gone = json!({"type": "MARK_AGENT_GONE", "mark_agent_gone":
            {"agent_id": {"value": ground.workload.agents[self.agent]}}});
        let mut target = ground.leader_address().await?;
        let answer = ground.workload.attempt(&mut target, &gone).await?;
        tracing::debug!(?answer, "the agent of the drill goes");
        Ok(())
    }

    /// Puts the masters' directories back, and takes the agent away.
    async fn unmake(&mut self, ground: &mut Ground) -> anyhow::Result<()> {
        for (member, namespace, dir) in self.of.drain(..) {
            ground.cluster.signal(member, Signal::KILL)?;
            ground.cluster.ended(&[member], DEADLINE).await?;
            ground.wrappers.remove(&member);
            match member {
                Member::Master(_) => {
                    // In this order: without its directory, the small disk is gone.
                    let back = dir.with_extension("back");
                    disk::copy(&namespace.path(&dir), &back)?;
                    disk::remove(&dir)?;
                    fs::rename(&back, &dir)?;
                    ground.start(member)?;
                    ground.all_masters_agree().await?;
                }
                Member::Agent(agent) => {
                    ground.roots.remove(&agent);
                    disk::remove(&dir)?;
                    ground.cluster.remove_last_agent()?;
                }
            }
        }
        Ok(())
    }
}

/// An agent like the first one, beside the others.
fn add_agent(ground: &mut Ground) -> anyhow::Result<usize> {
    let dir = ground.cluster.dir().to_owned();
    let own = |name: &str| {
        let path = dir.join(name).into_os_string().into_string();
        path.map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
    };
    let http = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let first = ground.cluster.layout().agents.first().context("an agent")?.clone();
    let work_dir = own("drill-agent")?;
    disk::remove(Path::new(&work_dir))?;
    fs::create_dir_all(&work_dir)?;
    let entry = AgentEntry {
        name: "drill-agent".to_owned(),
        http: http.clone(),
        pid: 0,
        work_dir: work_dir.clone(),
        log: own("drill-agent.log")?,
        argv: first.argv,
    };
    let place = ground.cluster.add_agent(entry)?;
    ground.cluster.set_flag(Member::Agent(place), "listen", &http);
    ground.cluster.set_flag(Member::Agent(place), "work-dir", &work_dir);
    Ok(place)
}

/// Bytes of all files in a directory.
fn size(dir: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        sum += entry?.metadata()?.len();
    }
    Ok(sum)
}
