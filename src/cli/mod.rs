//! The operator commands, over the public HTTP API only; `snapshot` also reads and writes what no
//! master has open. This file knows the words of the command
//! line and sends each to the file of its noun. A command that is listed here exists.
//!
//! Reading order: [`call`], [`client`] (finds the leader, retries what is safe), [`refusal`],
//! [`output`], [`table`], [`mutation`] (what all mutating commands share), [`resource`]
//! (resources as operators write and read them), then one file per noun.

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::exit::Failure;
use crate::flags;

pub(crate) mod table;

mod agent;
mod apply;
mod auth;
mod call;
mod client;
mod framework;
mod maintenance;
mod mutation;
mod operation;
mod output;
mod quota;
mod refusal;
mod reservation;
mod resource;
mod role;
mod server;
mod snapshot;
mod status;
mod task;
mod volume;
mod weight;

pub(crate) use output::print;

use client::{Client, Credential};
use output::Output;

/// Raft-replicated cluster master for dynamic reservations and persistent volumes
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: Command,
}

/// Which cluster is asked, by whom, and how the answer is shown.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// Public addresses of the masters, separated by commas
    #[arg(long, global = true, value_name = "H:P,…", env = "HOLDFAST_MASTER")]
    #[arg(default_value = "127.0.0.1:5050", value_delimiter = ',')]
    master: Vec<String>,
    /// Who asks; also the principal of what is reserved and created
    #[arg(long, global = true, value_name = "NAME", env = "HOLDFAST_PRINCIPAL")]
    principal: Option<String>,
    /// Secret of the principal
    #[arg(long, global = true, value_name = "TEXT", env = "HOLDFAST_SECRET")]
    #[arg(hide_env_values = true, requires = "principal")]
    secret: Option<String>,
    /// Form of the answer
    #[arg(short, long, global = true, value_enum, default_value = "table")]
    output: Output,
}

/// The commands. The first four are processes: their flags are parsed elsewhere, and they stand
/// here for the list that `--help` prints.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run one master of a cluster (see: holdfast master --help)
    #[command(disable_help_flag = true)]
    Master,
    /// Run the agent of one machine (see: holdfast agent --help), or see to agents: list, inspect,
    /// drain, deactivate, reactivate, gone, reconcile
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Agent {
        #[command(subcommand)]
        command: agent::Command,
    },
    /// Run a local cluster of separate processes (see: holdfast dev --help)
    #[command(disable_help_flag = true)]
    Dev,
    /// Break a local cluster on purpose and check it (see: holdfast drill --help)
    #[command(disable_help_flag = true)]
    Drill,
    /// Measure a local cluster (see: holdfast bench --help)
    #[command(disable_help_flag = true)]
    Bench,
    /// Show masters, their agreement, and a summary of the agents
    Status,
    /// Reserve resources of an agent for a role
    Reservation {
        #[command(subcommand)]
        command: reservation::Command,
    },
    /// Persistent volumes
    Volume {
        #[command(subcommand)]
        command: volume::Command,
    },
    /// Do several operations, on one or many agents: all of them, or none
    Apply(apply::Apply),
    /// Operations on agents' resources and how they ended
    Operation {
        #[command(subcommand)]
        command: operation::Command,
    },
    /// Frameworks: who uses the cluster
    Framework {
        #[command(subcommand)]
        command: framework::Command,
    },
    /// Tasks of all frameworks
    Task {
        #[command(subcommand)]
        command: task::Command,
    },
    /// Roles and what is held for each
    Role {
        #[command(subcommand)]
        command: role::Command,
    },
    /// The masters: who takes part in the cluster, and how one comes and goes
    Server {
        #[command(subcommand)]
        command: server::Command,
    },
    /// Backups of the masters' state: save one, look into it, and begin again from it
    Snapshot {
        #[command(subcommand)]
        command: snapshot::Command,
    },
    /// Quota of roles: what is kept for each, and what it never exceeds
    Quota {
        #[command(subcommand)]
        command: quota::Command,
    },
    /// Weights of roles
    Weight {
        #[command(subcommand)]
        command: weight::Command,
    },
    /// Maintenance of machines: when they are out of service, and that they go down and up
    Maintenance {
        #[command(subcommand)]
        command: maintenance::Command,
    },
    /// What the caller may do
    Auth {
        #[command(subcommand)]
        command: auth::Command,
    },
}

/// Whether `holdfast agent …` asks for agents rather than runs one.
pub(crate) fn is_agent_command(argv: &[String]) -> bool {
    argv.iter().any(|argument| agent::WORDS.contains(&argument.as_str()))
}

/// Runs the operator command of `argv`.
pub(crate) async fn run(argv: &[String]) -> Result<(), Failure> {
    let command = Cli::command().no_binary_name(true);
    let matches = command.try_get_matches_from(argv);
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = cli.map_err(|error| flags::failure(&error, ""))?;
    let output = cli.target.output;
    if output == Output::Yaml {
        return Err(Failure::Usage("-o yaml is not built in; use -o json".to_owned()));
    }
    let credential = match (&cli.target.principal, &cli.target.secret) {
        (Some(principal), Some(secret)) => {
            Some(Credential { principal: principal.clone(), secret: secret.clone() })
        }
        _ => None,
    };
    let mut client = Client::new(cli.target.master.clone(), credential)?;
    let principal = cli.target.principal.as_deref();
    match cli.command {
        Command::Master | Command::Dev | Command::Drill | Command::Bench => {
            let text = "master, dev, drill and bench take flags of their own: put the word first";
            Err(Failure::Usage(text.to_owned()))
        }
        Command::Agent { command } => agent::run(&mut client, output, command).await,
        Command::Status => status::run(&mut client, output).await,
        Command::Reservation { command } => {
            reservation::run(&mut client, output, principal, command).await
        }
        Command::Volume { command } => volume::run(&mut client, output, principal, command).await,
        Command::Apply(apply) => apply::run(&mut client, output, apply).await,
        Command::Operation { command } => operation::run(&mut client, output, command).await,
        Command::Framework { command } => framework::run(&mut client, output, command).await,
        Command::Task { command } => task::run(&mut client, output, command).await,
        Command::Role { command } => role::run(&mut client, output, command).await,
        Command::Server { command } => server::run(&mut client, output, command).await,
        Command::Snapshot { command } => snapshot::run(&mut client, output, command).await,
        Command::Quota { command } => quota::run(&mut client, output, command).await,
        Command::Weight { command } => weight::run(&mut client, output, command).await,
        Command::Maintenance { command } => maintenance::run(&mut client, output, command).await,
        Command::Auth { command } => auth::run(&mut client, output, principal, command).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_process_and_a_noun_share_the_word_agent() {
        let is_command =
            |argv: &[&str]| is_agent_command(&argv.iter().map(|a| (*a).into()).collect::<Vec<_>>());
        assert!(is_command(&["list"]));
        assert!(is_command(&["-o", "json", "inspect", "S0"]));
        assert!(!is_command(&["--master", "a:1", "--work-dir", "d"]));
        assert!(!is_command(&["--help"]));
    }
}
