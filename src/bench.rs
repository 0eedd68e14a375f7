//! `holdfast bench NAME`: measures a local cluster and prints numbers. Judges none.
//! Next: `bench/agents.rs`.

use crate::exit::Failure;

mod agents;
mod load;
mod swarm;

const USAGE: &str = "\
Measures a local cluster and prints numbers

Usage: holdfast bench <BENCH> [FLAGS]

Benches:
  agents  Many emulated agents with reservations and tasks, and a change of leader under them
";

const NAMES: &str = "agents";

/// Runs the bench that `argv` names.
pub(crate) async fn run(argv: &[String]) -> Result<(), Failure> {
    match argv.first().map(String::as_str) {
        Some("agents") => agents::run(&argv[1..]).await,
        Some("--help" | "-h") => Err(Failure::Help(USAGE.to_owned())),
        Some(other) => {
            Err(Failure::Usage(format!("bench: there is no bench '{other}'; expected {NAMES}")))
        }
        None => Err(Failure::Usage(format!("bench: name one: {NAMES}"))),
    }
}
