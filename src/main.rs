//! The one shipped binary: argv → subcommand, errors → exit code. No logic. A process
//! (`master`, `agent`, `dev`, `drill`, `bench`) takes its flags by [`flags`]; everything else is an
//! operator command and goes to [`cli`]. Next: `flags.rs`, `dev.rs`, `cli/mod.rs`.

use std::process::ExitCode;

use tokio::runtime::{Builder, Runtime};

use crate::exit::Failure;
use crate::flags::Origins;

mod bench;
mod cli;
mod dev;
mod drill;
mod exit;
mod flags;
mod telemetry;

/// Threads of an agent: one for the network, one while the other is busy with the disk.
const AGENT_THREADS: usize = 2;

/// What an agent starts beside each executor; not for users.
const SUPERVISE: &str = "supervise";

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == SUPERVISE) {
        return agent::supervise();
    }
    telemetry::abort_on_panic();
    exit::code(run())
}

fn run() -> Result<(), Failure> {
    let argv = arguments()?;
    let rest = argv.get(1..).unwrap_or_default();
    match argv.first().map(String::as_str) {
        Some("master") => master(rest),
        Some("agent") if !cli::is_agent_command(rest) => agent(rest),
        Some("dev") => {
            telemetry::start("warn")?;
            runtime(Builder::new_current_thread().enable_all())?.block_on(dev::run(rest))
        }
        Some("bench") => {
            // Each agent warns that it has lost its leader, and there are many.
            telemetry::start("error")?;
            runtime(&mut Builder::new_multi_thread())?.block_on(bench::run(rest))
        }
        Some("drill") => {
            telemetry::start("info")?;
            runtime(&mut Builder::new_multi_thread())?.block_on(drill::run(rest))
        }
        _ => {
            telemetry::start("warn")?;
            runtime(Builder::new_current_thread().enable_all())?.block_on(cli::run(&argv))
        }
    }
}

fn master(argv: &[String]) -> Result<(), Failure> {
    let about = "Runs one master of a cluster";
    let (flags, origins) = flags::parse::<master::config::Flags>("master", about, argv)?;
    let config = flags.into_config().map_err(|error| usage("master", &origins, error))?;
    telemetry::start(&telemetry::server_default())?;
    runtime(&mut Builder::new_multi_thread())?
        .block_on(master::run(config))
        .map_err(|error| Failure::Refused(format!("master: {}", exit::chain(error))))
}

fn agent(argv: &[String]) -> Result<(), Failure> {
    let about = "Runs the agent of one machine";
    let (flags, origins) = flags::parse::<agent::config::Flags>("agent", about, argv)?;
    let config = flags.into_config().map_err(|error| usage("agent", &origins, error))?;
    telemetry::start(&telemetry::server_default())?;
    runtime(Builder::new_multi_thread().worker_threads(AGENT_THREADS))?
        .block_on(agent::run(config))
        .map_err(|error| Failure::Refused(format!("agent: {}", exit::chain(error))))
}

fn usage(process: &str, origins: &Origins, error: impl std::error::Error) -> Failure {
    Failure::Usage(origins.explain(&format!("{process}: {}", exit::chain(error))))
}

fn runtime(builder: &mut Builder) -> Result<Runtime, Failure> {
    builder.enable_all().build().map_err(|error| Failure::Refused(format!("runtime: {error}")))
}

fn arguments() -> Result<Vec<String>, Failure> {
    std::env::args_os()
        .skip(1)
        .map(|argument| {
            argument.into_string().map_err(|bytes| {
                Failure::Usage(format!("argument {} is not UTF-8", bytes.display()))
            })
        })
        .collect()
}
