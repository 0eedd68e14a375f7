//! Drill `agent-kill-mid-operation`: an agent is killed while orders are on their way to it, round
//! after round. Each operation is done with all its effect, or has failed with none, and no
//! volume loses its data. Next: `agent_reboot.rs`.

use std::time::{Duration, Instant};

use rand::Rng as _;

use super::ground::{DEADLINE, Ground, Options};
use super::outcome::{Report, Round};
use crate::cluster::Member;
use crate::process::Signal;
use crate::slots::verdict::Failures;
use crate::wait;

/// Slots on each agent: rows of calls in flight at once.
const SLOTS: usize = 6;

/// Most steps in one row.
const STEPS_MAX: usize = 4;

/// Longest time between the first call and the agent's death, in microseconds.
const KILL_AFTER_MAX_US: u64 = 30_000;

/// Runs the drill, removes what it made, and reports. Violations are in the report.
///
/// # Errors
/// When there is no running cluster in the directory.
pub async fn run(options: Options) -> anyhow::Result<Report> {
    let mut ground = Ground::prepare(&options).await?;
    ground.add_slots_everywhere(SLOTS);
    Ok(ground.drill(options.rounds, (), kill, async |_, ()| Ok(())).await)
}

async fn kill(ground: &mut Ground, (): &mut (), round: usize) -> anyhow::Result<Round> {
    let agent = ground.agent_of(round);
    let member = Member::Agent(agent);
    let pause = Duration::from_micros(ground.rng.random_range(0..KILL_AFTER_MAX_US));
    ground.plan(agent, STEPS_MAX);
    let burst = ground.send().await?;
    wait::some(pause).await;
    ground.cluster.signal(member, Signal::KILL)?;
    let killed_at = Instant::now();
    ground.cluster.ended(&[member], DEADLINE).await?;
    ground.cluster.start(member)?;
    ground.take(burst).await?;
    let settled = ground.settle(Failures::Allowed).await?;
    Ok(Round {
        round,
        on: ground.cluster.name(member),
        what: format!("killed after {:.1} ms", pause.as_secs_f64() * 1_000.0),
        healed_ms: killed_at.elapsed().as_millis(),
        ..settled
    })
}
