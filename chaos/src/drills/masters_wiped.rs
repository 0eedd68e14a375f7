//! Drill `masters-wiped`: the directories of all masters are emptied, or set back to an older
//! copy, round after round. Agents take no other cluster's orders and remove no data; with the
//! right directories back, everything is as it was. Next: `disk_full.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use serde_json::Value;

use super::ground::{DEADLINE, Ground, Options};
use super::outcome::{Report, Round};
use crate::cluster::Member;
use crate::disk;
use crate::observe;
use crate::process::Signal;
use crate::slots::verdict::Failures;
use crate::wait;

/// Slots on each agent.
const SLOTS: usize = 4;

/// Most steps in one row.
const STEPS_MAX: usize = 3;

/// Status of a process that was refused.
const REFUSED: i32 = 1;

/// Runs the drill, removes what it made, and reports. Violations are in the report.
///
/// # Errors
/// When there is no running cluster in the directory.
pub async fn run(options: Options) -> anyhow::Result<Report> {
    let mut ground = Ground::prepare(&options).await?;
    ground.add_slots_everywhere(SLOTS);
    Ok(ground.drill(options.rounds, (), wipe, async |_, ()| Ok(())).await)
}

/// What the masters begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// Nothing: they form another cluster.
    Wiped,
    /// A copy that does not know the last operations.
    Older,
}

async fn wipe(ground: &mut Ground, (): &mut (), round: usize) -> anyhow::Result<Round> {
    let loss = if round % 2 == 1 { Loss::Wiped } else { Loss::Older };
    let mut violations = Vec::new();
    if loss == Loss::Older {
        stop_masters(ground).await?;
        for dir in master_dirs(ground) {
            disk::copy(&dir, &beside(&dir, "old"))?;
        }
        start_masters(ground)?;
    }
    for agent in 0..ground.workload.agents.len() {
        ground.plan(agent, STEPS_MAX);
    }
    let settled = ground.do_all(Failures::Forbidden).await?;
    violations.extend(settled.violations);

    stop_masters(ground).await?;
    for dir in master_dirs(ground) {
        fs::rename(&dir, beside(&dir, "aside"))?;
        if loss == Loss::Older {
            fs::rename(beside(&dir, "old"), &dir)?;
        }
    }
    start_masters(ground)?;
    violations.extend(match loss {
        Loss::Wiped => exits(ground).await?,
        Loss::Older => waits(ground).await?,
    });
    for agent in 0..ground.workload.agents.len() {
        violations.extend(ground.lost_data(agent)?);
    }

    let begin = Instant::now();
    stop_masters(ground).await?;
    for dir in master_dirs(ground) {
        disk::remove(&dir)?;
        fs::rename(beside(&dir, "aside"), &dir)?;
    }
    ground.start_dead()?;
    let back = ground.settle(Failures::Forbidden).await?;
    violations.extend(back.violations);
    Ok(Round {
        round,
        on: "masters".to_owned(),
        what: format!("{loss:?}").to_lowercase(),
        healed_ms: begin.elapsed().as_millis(),
        volumes: back.volumes,
        violations,
        ..settled
    })
}

fn masters(ground: &Ground) -> Vec<Member> {
    ground.cluster.members().filter(|member| matches!(member, Member::Master(_))).collect()
}

fn master_dirs(ground: &Ground) -> Vec<PathBuf> {
    ground.cluster.layout().masters.iter().map(|master| PathBuf::from(&master.work_dir)).collect()
}

/// A directory of the same name with an ending.
fn beside(dir: &Path, ending: &str) -> PathBuf {
    dir.with_extension(ending)
}

async fn stop_masters(ground: &Ground) -> anyhow::Result<()> {
    let masters = masters(ground);
    for member in &masters {
        ground.cluster.signal(*member, Signal::KILL)?;
    }
    ground.cluster.ended(&masters, DEADLINE).await
}

fn start_masters(ground: &mut Ground) -> anyhow::Result<()> {
    masters(ground).into_iter().try_for_each(|member| ground.cluster.start(member))
}

/// Each agent ends with a reason, when it runs and when it is started again.
async fn exits(ground: &mut Ground) -> anyhow::Result<Vec<String>> {
    ground.leader().await?;
    let agents: Vec<Member> =
        ground.cluster.members().filter(|member| matches!(member, Member::Agent(_))).collect();
    ground.cluster.ended(&agents, DEADLINE).await.context("agents of another cluster")?;
    let mut seen = Vec::new();
    for member in &agents {
        seen.push(fs::metadata(ground.cluster.log(*member))?.len());
        ground.cluster.start(*member)?;
    }
    ground.cluster.ended(&agents, DEADLINE).await.context("agents started again")?;
    let mut violations = Vec::new();
    for (member, seen) in agents.iter().zip(seen) {
        let name = ground.cluster.name(*member);
        let code = ground.cluster.exit_code(*member);
        if code != Some(REFUSED) {
            violations.push(format!("{name} ended with {code:?} before another cluster"));
        }
        let log = fs::read(ground.cluster.log(*member))?;
        let since = log.get(usize::try_from(seen)?..).unwrap_or_default();
        if !String::from_utf8_lossy(since).contains("belongs to cluster") {
            violations.push(format!("{name} ended without its reason"));
        }
    }
    let address = ground.leader_address().await?;
    let agents = ground.workload.client.get(&address, "/api/v1/agents").await;
    let agents = agents.map_err(|error| anyhow::anyhow!("{error}"))?;
    if agents.as_array().is_none_or(|agents| !agents.is_empty()) {
        violations.push(format!("another cluster lists agents: {agents}"));
    }
    Ok(violations)
}

/// An agent that has carried out orders which the log does not know is not let in, and that is
/// an alarm; its process waits.
async fn waits(ground: &Ground) -> anyhow::Result<Vec<String>> {
    let address = ground.leader_address().await?;
    let client = &ground.workload.client;
    wait::until("an alarm about agents ahead of the log", DEADLINE, async || {
        let metrics = client.text(&address, "/metrics").await?;
        let alarms = metrics.lines().find_map(|line| line.strip_prefix("master_alarms "));
        match alarms.and_then(|count| count.trim().parse::<f64>().ok()) {
            Some(count) if count > 0.0 => Ok(()),
            found => Err(format!("alarms: {found:?}")),
        }
    })
    .await?;
    let mut violations = Vec::new();
    for (place, agent) in ground.cluster.layout().agents.iter().enumerate() {
        if !ground.cluster.is_alive(Member::Agent(place)) {
            violations.push(format!("{} ended, though its masters may come back", agent.name));
        }
        let known = ground.known_as(place, &address).await;
        if known.as_ref().is_ok_and(is_trusted) {
            let held = observe::agent(client, &agent.http, &ground.run).await?;
            let here = observe::master(client, &ground.cluster, &address, &ground.run).await?;
            if held != here[place] {
                violations.push(format!("{} was let in with more than the log knows", agent.name));
            }
        }
    }
    Ok(violations)
}

fn is_trusted(known: &Value) -> bool {
    known["connected"] == true && known["status"] == "REGISTERED"
}
