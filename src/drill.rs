//! `holdfast drill NAME`: parses the flags, runs the black box of crate `chaos`, prints its table.

use std::path::PathBuf;

use crate::cli;
use crate::exit::Failure;
use crate::flags;

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

const USAGE: &str = "\
Breaks a local cluster on purpose and checks that nothing acknowledged is lost

Usage: holdfast drill <DRILL> [FLAGS]

Drills:
  leader-kill  Kills the leader with calls in flight, round after round
";

/// Runs the drill that `argv` names.
pub(crate) async fn run(argv: &[String]) -> Result<(), Failure> {
    match argv.first().map(String::as_str) {
        Some("leader-kill") => leader_kill(&argv[1..]).await,
        Some("--help" | "-h") => Err(Failure::Help(USAGE.to_owned())),
        Some(other) => {
            Err(Failure::Usage(format!("drill: there is no drill '{other}'; expected leader-kill")))
        }
        None => Err(Failure::Usage("drill: name one: leader-kill".to_owned())),
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
    cli::print(&format!("{report}\n"))?;
    match report.violations().count() {
        0 => Ok(()),
        count => Err(Failure::Refused(format!("drill leader-kill: {count} violations"))),
    }
}
