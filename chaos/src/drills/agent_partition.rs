//! Drill `agent-partition`: an agent stands still, or its line to the masters is cut, cut one way
//! or slow, for less and for more than the masters wait, round after round. Calls on it are
//! answered as documented meanwhile; afterwards it is there again with the same id and the same
//! data, and nothing was done twice. Next: `stale_checkpoint.rs`.
//!
//! The line is cut between a network namespace for each agent and the one of the masters.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rand::Rng as _;
use serde_json::Value;

use super::ground::{DEADLINE, Ground, Options};
use super::outcome::{Report, Round};
use crate::client::Outcome;
use crate::cluster::Member;
use crate::namespace::Namespace;
use crate::observe;
use crate::process::Signal;
use crate::proxy::{Door, Line, Links};
use crate::slots::verdict::{self, Failures};
use crate::slots::{Holding, Slot};
use crate::wait;

/// Slots on each agent.
const SLOTS: usize = 4;

/// Most steps in one row.
const STEPS_MAX: usize = 3;

/// Longest time between the first call and the cut, in milliseconds.
const CUT_AFTER_MAX_MS: u64 = 30;

/// Delay of a slow line.
const SLOW: Duration = Duration::from_millis(30);

/// Longest time that masters may wait for an agent in a drill.
const PATIENCE_MAX: Duration = Duration::from_secs(10);

/// Answer to calls on an agent that is unreachable.
const NO_AGENT: (u16, &str) = (400, "No agent found with specified ID");

/// What is done to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    /// Its process stands still.
    Stopped,
    /// Its line does this.
    On(Line),
}

/// In this order: five of them, so that each is short and long in turn.
const HARMS: [Harm; 5] = [
    Harm::Stopped,
    Harm::On(Line::Cut),
    Harm::On(Line::CalledOnly),
    Harm::On(Line::CallerOnly),
    Harm::On(Line::Slow(SLOW)),
];

/// The agents' networks; none where this machine gives none.
struct Lines {
    of: Vec<(Namespace, Links)>,
    /// How long masters wait for an agent.
    patience: Duration,
}

/// Runs the drill, removes what it made, and reports. Violations are in the report.
///
/// # Errors
/// When there is no running cluster in the directory, or its masters wait too long for agents.
pub async fn run(options: Options) -> anyhow::Result<Report> {
    let mut ground = Ground::prepare(&options).await?;
    let patience = patience(ground.cluster.argv(Member::Master(0)))?;
    if patience > PATIENCE_MAX {
        bail!(
            "the masters wait {} s for an agent; start the cluster with: holdfast dev \
             --master-flag agent-ping-timeout=1secs --master-flag max-agent-ping-timeouts=2",
            patience.as_secs()
        );
    }
    ground.add_slots_everywhere(SLOTS);
    let mut lines = Lines { of: Vec::new(), patience };
    if let Err(reason) = lines.lay(&mut ground).await {
        ground.skipped.push(format!("lines that are cut or slow: {reason:#}"));
        lines.take_up(&mut ground).await?;
    }
    Ok(ground
        .drill(options.rounds, lines, part, async |ground, lines| lines.take_up(ground).await)
        .await)
}

async fn part(ground: &mut Ground, lines: &mut Lines, round: usize) -> anyhow::Result<Round> {
    let agent = ground.agent_of(round / 2);
    let harm = match lines.of.is_empty() {
        true => Harm::Stopped,
        false => HARMS[(round - 1) % HARMS.len()],
    };
    let is_long = round.is_multiple_of(2);
    let pause = Duration::from_millis(ground.rng.random_range(0..CUT_AFTER_MAX_MS));
    ground.plan(agent, STEPS_MAX);
    let burst = ground.send().await?;
    wait::some(pause).await;
    lines.harm(ground, agent, harm)?;
    ground.take(burst).await?;
    let mut violations = Vec::new();
    let mut what = format!("{harm:?}").to_lowercase();
    match (harm, is_long) {
        (Harm::Stopped | Harm::On(Line::Cut | Line::CalledOnly), true) => {
            violations.extend(unreachable(ground, agent, lines.patience).await?);
            what += ", unreachable";
        }
        // The agent is heard now and then, so that nothing certain can be asked.
        (Harm::On(Line::CallerOnly), true) => wait::some(lines.patience * 3 / 2).await,
        (_, _) => {
            wait::some(lines.patience.mul_f64(ground.rng.random_range(0.0..0.4))).await;
            destroy_one(ground, agent).await?;
        }
    }
    lines.heal(ground, agent, harm)?;
    let healed_at = Instant::now();
    let settled = ground.settle(Failures::Forbidden).await?;
    violations.extend(settled.violations);
    Ok(Round {
        round,
        on: ground.cluster.name(Member::Agent(agent)),
        what,
        healed_ms: healed_at.elapsed().as_millis(),
        violations,
        ..settled
    })
}

/// Time without a sign after which masters give an agent up, by the flags of one of them.
fn patience(argv: &[String]) -> anyhow::Result<Duration> {
    let flag = |name: &str| {
        let prefix = format!("--{name}=");
        argv.iter().rev().find_map(|argument| argument.strip_prefix(&prefix))
    };
    let timeout = flag("agent-ping-timeout").unwrap_or("15secs");
    let misses: u32 = flag("max-agent-ping-timeouts").unwrap_or("5").parse()?;
    let digits = timeout.trim_end_matches(char::is_alphabetic);
    let number: f64 = digits.parse().with_context(|| format!("--agent-ping-timeout {timeout}"))?;
    let unit = match &timeout[digits.len()..] {
        "ms" => 0.001,
        "secs" | "sec" | "s" => 1.0,
        "mins" | "min" => 60.0,
        unit => bail!("--agent-ping-timeout {timeout}: the drill does not know the unit '{unit}'"),
    };
    Ok(Duration::from_secs_f64(number * unit) * misses)
}

/// Asks for the end of one volume of an agent that is away for a moment: it is accepted, and done
/// when the agent is back.
async fn destroy_one(ground: &mut Ground, agent: usize) -> anyhow::Result<()> {
    let mut slots = ground.slots.iter_mut().filter(|slot| slot.agent == agent);
    if let Some(slot) = slots.find(|slot| matches!(slot.ahead(), Holding::Volume { .. })) {
        slot.plan_destroy();
    }
    let burst = ground.send().await?;
    ground.take(burst).await
}

/// Waits until the masters have given the agent up, and only it; then looks what they say.
async fn unreachable(
    ground: &mut Ground,
    agent: usize,
    patience: Duration,
) -> anyhow::Result<Vec<String>> {
    let http = ground.cluster.layout().agents[agent].http.clone();
    let client = ground.workload.client.clone();
    let entry: Value =
        wait::until("the agent is unreachable", patience * 3 + DEADLINE, async || {
            let address = ground.leader_address().await.map_err(|error| format!("{error:#}"))?;
            let slaves = client.get(&address, "/slaves").await?;
            if observe::slave(&slaves, &http).is_some() {
                return Err("it is among the others".to_owned());
            }
            observe::unreachable(&slaves, &http).cloned().ok_or_else(|| "it is nowhere".to_owned())
        })
        .await?;
    let mut violations = Vec::new();
    if entry["id"] != ground.workload.agents[agent].as_str() {
        violations.push(format!("it is called {} now", entry["id"]));
    }
    // What was settled before is on record still; what is on its way is judged later.
    let groups = observe::groups(&entry["reserved_resources_full"], &ground.run)?;
    let quiet: Vec<Slot> = ground
        .slots
        .iter()
        .filter(|slot| slot.agent == agent && slot.asked.is_empty())
        .cloned()
        .collect();
    let known = groups.into_iter().filter(|(label, _)| quiet.iter().any(|s| s.label == *label));
    violations.extend(verdict::held("an unreachable agent", &quiet, agent, &known.collect()));

    let mut target = ground.leader_address().await?;
    let volumes = ground.slots.iter().filter(|slot| slot.agent == agent && slot.volume().is_some());
    for slot in volumes.cloned().collect::<Vec<Slot>>() {
        let mut probe = slot.clone();
        probe.asked.clear();
        probe.plan_destroy();
        let call = ground.call(&probe, &probe.asked[0]);
        let answer = ground.workload.attempt(&mut target, &call).await?;
        match &answer.outcome {
            Outcome::Refused { status, text }
                if *status == NO_AGENT.0 && text.contains(NO_AGENT.1) => {}
            other => violations.push(format!("DESTROY of {}: {other:?}", slot.label)),
        }
    }
    Ok(violations)
}

impl Lines {
    /// Starts every agent anew in a network of its own.
    async fn lay(&mut self, ground: &mut Ground) -> anyhow::Result<()> {
        let masters = ground.cluster.masters();
        for agent in 0..ground.workload.agents.len() {
            let namespace = Namespace::with_own_network()?;
            let door = Door::into(&namespace)?;
            let member = Member::Agent(agent);
            let http = ground.cluster.layout().agents[agent].http.clone();
            ground.cluster.signal(member, Signal::KILL)?;
            ground.cluster.ended(&[member], DEADLINE).await?;
            let links = Links::lay(&door, &masters, &http).await?;
            ground.wrappers.insert(member, namespace.wrapper());
            self.of.push((namespace, links));
            ground.start(member)?;
        }
        ground.settle(Failures::Forbidden).await.map(drop)
    }

    /// Starts every agent anew where it was.
    async fn take_up(&mut self, ground: &mut Ground) -> anyhow::Result<()> {
        for (agent, (_, links)) in self.of.drain(..).enumerate() {
            let member = Member::Agent(agent);
            ground.cluster.signal(member, Signal::CONT)?;
            ground.cluster.signal(member, Signal::KILL)?;
            ground.cluster.ended(&[member], DEADLINE).await?;
            links.end().await;
            ground.wrappers.remove(&member);
        }
        ground.start_dead()?;
        ground.settle(Failures::Forbidden).await.map(drop)
    }

    fn harm(&self, ground: &Ground, agent: usize, harm: Harm) -> anyhow::Result<()> {
        match harm {
            Harm::Stopped => ground.cluster.signal(Member::Agent(agent), Signal::STOP),
            Harm::On(line) => {
                self.of[agent].1.set(line);
                Ok(())
            }
        }
    }

    fn heal(&self, ground: &Ground, agent: usize, harm: Harm) -> anyhow::Result<()> {
        match harm {
            Harm::Stopped => ground.cluster.signal(Member::Agent(agent), Signal::CONT),
            Harm::On(_) => {
                self.of[agent].1.set(Line::Open);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_in_the_flags() {
        for (flags, expected) in [
            (&["--agent-ping-timeout=1secs", "--max-agent-ping-timeouts=2"][..], 2.0),
            (&["--agent-ping-timeout=1500ms", "--max-agent-ping-timeouts=1"], 1.5),
            (&["--listen=a:1"], 75.0),
        ] {
            let argv: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            assert_eq!(patience(&argv).unwrap(), Duration::from_secs_f64(expected));
        }
    }
}
