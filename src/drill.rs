//! `holdfast drill NAME`: parses the flags, runs the black box of crate `chaos`, prints its table.

use std::fmt::Display;
use std::path::PathBuf;

use crate::cli;
use crate::exit::Failure;
use crate::flags;

use self::agents::OnAgents;

mod agents;

/// Flags of `holdfast drill leader-kill`.
#[derive(Debug, clap::Args)]
struct LeaderKill {
    /// Directory of a running `holdfast dev` cluster
    #[arg(long, value_name = "DIR", default_value = "./holdfast-dev")]
    dir: PathBuf,
    /// How many leaders to kill
    #[arg(long, value_name = "N", default_value = "5")]
    rounds: u32,
    /// Seed of the drill's choices [default: drawn]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

/// Flags of `holdfast drill framework-failover`.
#[derive(Debug, clap::Args)]
struct FrameworkFailover {
    /// Directory of a running `holdfast dev` cluster
    #[arg(long, value_name = "DIR", default_value = "./holdfast-dev")]
    dir: PathBuf,
    /// How many leaders to kill
    #[arg(long, value_name = "N", default_value = "5")]
    rounds: u32,
    /// How many tasks run in the end, at least one a round
    #[arg(long, value_name = "N", default_value = "50")]
    tasks: u32,
    /// Seed of the drill's choices [default: drawn]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

const USAGE: &str = "\
Breaks a local cluster on purpose and checks that nothing acknowledged is lost

Usage: holdfast drill <DRILL> [FLAGS]

Drills:
  leader-kill               Kills the leader with calls in flight, round after round
  framework-failover        Kills the leader under a framework with tasks on volumes
  agent-kill-mid-operation  Kills an agent while orders are on their way to it
  agent-reboot              Kills an agent with its tasks and starts it in another boot
  agent-partition           Stops an agent or cuts it off, for a short time or a long one
  stale-checkpoint          Puts an older checkpoint under an agent with newer volumes
  masters-wiped             Empties or sets back the directories of all masters
  disk-full                 Fills the disk of an agent, of the leader, of a follower
";

const NAMES: &str = "leader-kill, framework-failover, agent-kill-mid-operation, agent-reboot, \
                     agent-partition, stale-checkpoint, masters-wiped, disk-full";

/// Runs the drill that `argv` names.
pub(crate) async fn run(argv: &[String]) -> Result<(), Failure> {
    match argv.first().map(String::as_str) {
        Some("leader-kill") => leader_kill(&argv[1..]).await,
        Some("framework-failover") => framework_failover(&argv[1..]).await,
        Some("--help" | "-h") => Err(Failure::Help(USAGE.to_owned())),
        Some(other) => match OnAgents::parse(other) {
            Some(drill) => drill.run(&argv[1..]).await,
            None => {
                Err(Failure::Usage(format!("drill: there is no drill '{other}'; expected {NAMES}")))
            }
        },
        None => Err(Failure::Usage(format!("drill: name one: {NAMES}"))),
    }
}

async fn leader_kill(argv: &[String]) -> Result<(), Failure> {
    let about = "Kills the leader with calls in flight and checks that nothing is lost";
    let (flags, _) = flags::parse::<LeaderKill>("drill leader-kill", about, argv)?;
    let options = chaos::drills::leader_kill::Options {
        dir: flags.dir,
        rounds: usize::try_from(flags.rounds).expect("a 32-bit number fits in usize"),
        seed: flags.seed,
    };
    let report = chaos::drills::leader_kill::run(options)
        .await
        .map_err(|error| Failure::Refused(format!("drill leader-kill: {error:#}")))?;
    end("leader-kill", &report, report.violations().count())
}

async fn framework_failover(argv: &[String]) -> Result<(), Failure> {
    let about = "Kills the leader under a framework with tasks on volumes, and checks that none is \
                 lost or started twice";
    let (flags, _) = flags::parse::<FrameworkFailover>("drill framework-failover", about, argv)?;
    let number = |count: u32| usize::try_from(count).expect("a 32-bit number fits in usize");
    let options = chaos::drills::framework_failover::Options {
        dir: flags.dir,
        rounds: number(flags.rounds),
        tasks: number(flags.tasks),
        seed: flags.seed,
    };
    let report = chaos::drills::framework_failover::run(options)
        .await
        .map_err(|error| Failure::Refused(format!("drill framework-failover: {error:#}")))?;
    end("framework-failover", &report, report.violations().count())
}

/// Prints the table; a violation is a failure.
fn end(name: &str, report: &dyn Display, violations: usize) -> Result<(), Failure> {
    cli::print(&format!("{report}\n"))?;
    match violations {
        0 => Ok(()),
        count => Err(Failure::Refused(format!("drill {name}: {count} violations"))),
    }
}
