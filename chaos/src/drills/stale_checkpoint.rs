//! Drill `stale-checkpoint`: the checkpoint of an agent is put back to an older copy while its
//! volumes stay, round after round. The cluster sees it, removes no data, and goes on after
//! either remedy: the right checkpoint, or an operator's choices. Next: `masters_wiped.rs`.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::ground::{DEADLINE, Ground, Options};
use super::outcome::{Report, Round};
use crate::client::Outcome;
use crate::cluster::Member;
use crate::disk;
use crate::process::Signal;
use crate::slots::verdict::Failures;
use crate::slots::{Holding, Slot};

/// Slots on each agent.
const SLOTS: usize = 4;

/// Most steps in one row.
const STEPS_MAX: usize = 3;

/// Runs the drill, removes what it made, and reports. Violations are in the report.
///
/// # Errors
/// When there is no running cluster in the directory.
pub async fn run(options: Options) -> anyhow::Result<Report> {
    let mut ground = Ground::prepare(&options).await?;
    ground.add_slots_everywhere(SLOTS);
    Ok(ground.drill(options.rounds, (), set_back, remove_orphans).await)
}

/// How an agent comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remedy {
    /// Its newest checkpoint is found again.
    Newest,
    /// An operator takes what it holds, and forgets what it does not.
    Accept,
}

async fn set_back(ground: &mut Ground, (): &mut (), round: usize) -> anyhow::Result<Round> {
    let agent = ground.agent_of(round);
    let member = Member::Agent(agent);
    // In pairs, so that each of two agents meets both.
    let remedy = if round.div_ceil(2) % 2 == 1 { Remedy::Newest } else { Remedy::Accept };
    ground.plan(agent, STEPS_MAX);
    let before = ground.do_all(Failures::Forbidden).await?;

    let work_dir = ground.work_dir(agent);
    let meta = work_dir.join("meta");
    let (old, new) = (work_dir.join("meta.old"), work_dir.join("meta.new"));
    let held: Vec<Holding> = ground.slots.iter().map(|slot| slot.holding.clone()).collect();
    copy_of_live(ground, member, || disk::copy(&meta, &old))?;
    // At least one order behind the copy, so that it is older in any case.
    ground.plan(agent, STEPS_MAX);
    let since = ground.do_all(Failures::Forbidden).await?;

    ground.cluster.signal(member, Signal::KILL)?;
    ground.cluster.ended(&[member], DEADLINE).await?;
    fs::rename(&meta, &new)?;
    fs::rename(&old, &meta)?;
    ground.cluster.start(member)?;
    let known = ground.until_known(agent, "the older checkpoint is seen", DEADLINE, is_seen).await;
    let known = known?;
    let mut violations = ground.lost_data(agent)?;
    violations.extend(refuses(ground, agent).await?);
    if known["id"] != ground.workload.agents[agent].as_str() {
        violations.push(format!("it is called {} now", known["id"]));
    }

    let begin = Instant::now();
    match remedy {
        Remedy::Newest => put_back(ground, member, &new, &meta).await?,
        Remedy::Accept => {
            if let Err(error) = accept(ground, agent).await {
                put_back(ground, member, &new, &meta).await?;
                return Err(error);
            }
            disk::remove(&new)?;
            let is_trusted =
                |known: &Value| known["connected"] == true && known["status"] == "REGISTERED";
            ground.until_known(agent, "the agent is trusted again", DEADLINE, is_trusted).await?;
            give_up(ground, agent, &held).await?;
        }
    }
    let settled = ground.settle(Failures::Forbidden).await?;
    Ok(Round {
        round,
        on: ground.cluster.name(member),
        what: format!("{} orders back, {remedy:?}", since.finished).to_lowercase(),
        accepted: before.accepted + since.accepted,
        finished: before.finished + since.finished,
        failed: before.failed + since.failed,
        healed_ms: begin.elapsed().as_millis(),
        violations: [before.violations, since.violations, violations, settled.violations].concat(),
        ..settled
    })
}

/// Starts the agent on the checkpoint `new`, in place of the one at `meta`.
async fn put_back(
    ground: &mut Ground,
    member: Member,
    new: &Path,
    meta: &Path,
) -> anyhow::Result<()> {
    ground.cluster.signal(member, Signal::KILL)?;
    ground.cluster.ended(&[member], DEADLINE).await?;
    disk::remove(meta)?;
    fs::rename(new, meta)?;
    ground.cluster.start(member)
}

/// Copies while the process stands still: what it has written so far, as after a power cut.
fn copy_of_live(
    ground: &Ground,
    member: Member,
    copy: impl FnOnce() -> std::io::Result<()>,
) -> anyhow::Result<()> {
    ground.cluster.signal(member, Signal::STOP)?;
    let copied = copy();
    ground.cluster.signal(member, Signal::CONT)?;
    copied.context("a copy of the work directory")
}

fn is_seen(known: &Value) -> bool {
    known["connected"] == true
        && known["status"].as_str().is_some_and(|status| status.starts_with("REGRESSED"))
}

/// Operations are refused while the difference stands.
async fn refuses(ground: &Ground, agent: usize) -> anyhow::Result<Option<String>> {
    let mut probe = Slot::new(agent, format!("{}probe", ground.run));
    probe.plan_volume();
    let call = ground.call(&probe, &probe.asked[0]);
    let mut target = ground.leader_address().await?;
    let answer = ground.workload.attempt(&mut target, &call).await?;
    Ok(match answer.outcome {
        Outcome::Refused { status: 409, .. } => None,
        other => Some(format!("RESERVE on an agent that is set back: {other:?}")),
    })
}

/// The operator's word: what the agent holds counts, what it does not is forgotten. The call
/// names what was seen, so that nothing else is accepted.
async fn accept(ground: &Ground, agent: usize) -> anyhow::Result<()> {
    let known = ground
        .until_known(agent, "the agent tells what it holds", DEADLINE, |known| {
            known["discrepancy"]["digest"].is_string()
        })
        .await?;
    let path = format!("/api/v1/agents/{}/reconcile", ground.workload.agents[agent]);
    let address = ground.leader_address().await?;
    let body = json!({"accept": true, "digest": known["discrepancy"]["digest"]});
    match ground.workload.client.send(&address, &path, &body).await {
        Outcome::Accepted => Ok(()),
        other => bail!("{path}: {other:?}"),
    }
}

/// The slots of the agent hold again what they held at the time of the copy. Volumes made since
/// are data without a record; those destroyed since are records without data, which an operator
/// gives up.
async fn give_up(ground: &mut Ground, agent: usize, held: &[Holding]) -> anyhow::Result<()> {
    let found = disk::volumes(&ground.work_dir(agent), &ground.run)?;
    let address = ground.leader_address().await?;
    for (place, old) in held.iter().enumerate() {
        if ground.slots[place].agent != agent {
            continue;
        }
        if let Some(id) = ground.slots[place].volume().filter(|id| !is_volume(old, id)) {
            ground.orphans.insert(id.to_owned());
        }
        ground.slots[place].holding = old.clone();
        let mut empty = ground.slots[place].clone();
        if empty.volume().is_none_or(|id| found.contains_key(id)) {
            continue;
        }
        empty.plan_destroy();
        let call = ground.call(&empty, &empty.asked[0]);
        match ground.workload.client.call_with(&address, "?force=true", &call).await {
            Outcome::Accepted => ground.slots[place].holding = Holding::Pool,
            other => bail!("DESTROY of a volume without data: {other:?}"),
        }
    }
    Ok(())
}

/// What an operator does in the end about data without a record.
async fn remove_orphans(ground: &mut Ground, (): &mut ()) -> anyhow::Result<()> {
    for agent in 0..ground.workload.agents.len() {
        let folder = disk::folder(&ground.work_dir(agent));
        for id in &ground.orphans {
            disk::remove(&folder.join(id))?;
        }
    }
    Ok(())
}

fn is_volume(holding: &Holding, wanted: &str) -> bool {
    matches!(holding, Holding::Volume { id, .. } if id == wanted)
}
