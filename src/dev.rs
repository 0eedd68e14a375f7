//! `holdfast dev`: a local cluster of real processes of this very program, described in
//! `cluster.json`. Lays it out, starts what does not run, waits until it serves, and stops it.
//! What a process does is not its business. Next: `dev/layout.rs`, `dev/ready.rs`,
//! `dev/leftovers.rs`.

use std::fs::{self, File, TryLockError};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chaos::cluster::{Cluster, Member};
use chaos::process::Signal;
use chaos::wait::until;
use clap::Args;

use crate::cli;
use crate::exit::Failure;
use crate::flags;

mod layout;
mod leftovers;
mod ready;

const DIR_DEFAULT: &str = "./holdfast-dev";

/// Held while a cluster is being started, so that two starts on one directory do not mix.
const LOCK_FILE: &str = "dev.lock";

/// How long the ports of a stopped cluster may take to become free again.
const PORT_PATIENCE: Duration = Duration::from_secs(5);

/// Flags of `holdfast dev`.
#[derive(Debug, Args)]
struct Flags {
    /// Number of masters [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=9))]
    masters: Option<u16>,
    /// Number of agents [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=500))]
    agents: Option<u16>,
    /// Directory of the cluster: its data, its logs and cluster.json
    #[arg(long, value_name = "DIR", default_value = DIR_DEFAULT)]
    dir: PathBuf,
    /// First port [default: 5050]: masters from PORT, their peers from PORT+1000, agents from
    /// PORT+11
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=63000))]
    port: Option<u16>,
    /// Resources of each agent
    #[arg(long, value_name = "TEXT", default_value = layout::RESOURCES_DEFAULT)]
    agent_resources: String,
    /// A further flag for each master; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    master_flag: Vec<String>,
    /// A further flag for each agent; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    agent_flag: Vec<String>,
    /// Return as soon as the cluster serves; `holdfast dev stop` ends it
    #[arg(long, num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true")]
    detach: bool,
}

/// Flags of `holdfast dev stop`.
#[derive(Debug, Args)]
struct StopFlags {
    /// Directory of the cluster
    #[arg(long, value_name = "DIR", default_value = DIR_DEFAULT)]
    dir: PathBuf,
    /// Leave the agents' tasks running
    #[arg(long, num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true")]
    keep_tasks: bool,
}

/// Runs `holdfast dev` or `holdfast dev stop`.
pub(crate) async fn run(argv: &[String]) -> Result<(), Failure> {
    if argv.first().is_some_and(|first| first == "stop") {
        let about = "Stops the cluster of a directory; its data stays";
        let (flags, _) = flags::parse::<StopFlags>("dev stop", about, &argv[1..])?;
        return stop(&flags).await;
    }
    let about =
        "Runs a local cluster of separate processes; `holdfast dev stop` ends a detached one";
    let (flags, _) = flags::parse::<Flags>("dev", about, argv)?;
    let dir = std::path::absolute(&flags.dir).map_err(|error| refused(&error))?;
    // Asked for before anything runs: a signal that comes early must not leave processes behind.
    let mut interrupts = Interrupts::new()?;
    let start = start(&dir, &flags);
    let cluster = tokio::select! {
        cluster = start => cluster?,
        () = interrupts.next() => {
            stop_all(&dir, false).await?;
            return Err(Failure::Refused("dev: interrupted".to_owned()));
        }
    };
    if flags.detach {
        return Ok(());
    }
    cli::print("Ctrl-C stops the cluster.\n")?;
    interrupts.next().await;
    // A drill may have started processes anew: the file knows their pids, this value does not.
    drop(cluster);
    stop_all(&dir, false).await
}

/// Starts what does not run, waits until all serve, prints what runs where.
async fn start(dir: &Path, flags: &Flags) -> Result<Cluster, Failure> {
    fs::create_dir_all(dir)
        .map_err(|error| Failure::Refused(format!("dev: {}: {error}", dir.display())))?;
    let _lock = lock(dir)?;
    let is_resumed = Cluster::exists(dir);
    let mut cluster = match is_resumed {
        true => resume(dir, flags)?,
        false => Cluster::new(dir.to_owned(), layout::layout(dir, flags)?),
    };
    let dead: Vec<Member> = cluster.members().filter(|member| !cluster.is_alive(*member)).collect();
    // A process that was killed a moment ago may still be giving its ports back.
    let patience = if is_resumed { PORT_PATIENCE } else { Duration::ZERO };
    for member in &dead {
        for address in cluster.listens(*member) {
            let bind = async || TcpListener::bind(address).map(drop).map_err(|e| e.to_string());
            let is_free = until(address, patience, bind).await.is_ok();
            if !is_free {
                let name = cluster.name(*member);
                let text = format!("dev: {address}, wanted for {name}, is already in use");
                return Err(Failure::Refused(text));
            }
        }
    }
    let started = async {
        for member in &dead {
            cluster.start(*member).map_err(|error| refused(&error))?;
        }
        ready::wait(&cluster, &dead).await
    };
    match started.await {
        Ok(ready) => {
            cli::print(&ready::describe(&cluster, &ready))?;
            Ok(cluster)
        }
        Err(failure) => {
            // What ran before this call keeps running; what it started does not stay half up.
            cluster.stop_members(&dead).await.map_err(|error| refused(&error))?;
            Err(failure)
        }
    }
}

/// The cluster that `dir` already holds. Its own layout counts, whatever the flags say now.
fn resume(dir: &Path, flags: &Flags) -> Result<Cluster, Failure> {
    let mut cluster = Cluster::open(dir).map_err(|error| refused(&error))?;
    let layout = cluster.layout();
    let first = layout.masters.first().map(|master| master.http.clone()).unwrap_or_default();
    let differs = flags.masters.is_some_and(|n| usize::from(n) != layout.masters.len())
        || flags.agents.is_some_and(|n| usize::from(n) != layout.agents.len())
        || flags.port.is_some_and(|port| !first.ends_with(&format!(":{port}")));
    if differs {
        return Err(Failure::Usage(format!(
            "dev: {} holds a cluster of {} masters and {} agents with its first master on \
             {first}; resume it with these numbers (or none), or choose another --dir",
            dir.display(),
            layout.masters.len(),
            layout.agents.len()
        )));
    }
    let program = layout::program()?;
    for member in cluster.members() {
        if !cluster.is_alive(member) {
            cluster.set_program(member, &program);
        }
    }
    Ok(cluster)
}

async fn stop(flags: &StopFlags) -> Result<(), Failure> {
    let dir = std::path::absolute(&flags.dir).map_err(|error| refused(&error))?;
    stop_all(&dir, flags.keep_tasks).await
}

/// Ends everything of the cluster. An agent that is asked to end in order ends its tasks; one
/// that is only ended leaves them running for its return.
async fn stop_all(dir: &Path, keep_tasks: bool) -> Result<(), Failure> {
    let cluster = Cluster::open(dir).map_err(|error| refused(&error))?;
    let (agents, masters): (Vec<Member>, Vec<Member>) =
        cluster.members().partition(|member| matches!(member, Member::Agent(_)));
    let first = if keep_tasks { Signal::TERM } else { Signal::USR1 };
    for (members, signals) in [
        (agents, [first, Signal::TERM, Signal::KILL].as_slice()),
        (masters, &[Signal::TERM, Signal::KILL]),
    ] {
        let is_agents = members.iter().any(|member| matches!(member, Member::Agent(_)));
        cluster.end(&members, signals).await.map_err(|error| refused(&error))?;
        if is_agents && !keep_tasks {
            leftovers::end(&cluster).await?;
        }
    }
    Ok(())
}

fn lock(dir: &Path) -> Result<File, Failure> {
    let path = dir.join(LOCK_FILE);
    let file = File::create(&path)
        .map_err(|error| Failure::Refused(format!("dev: {}: {error}", path.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Failure::Refused(format!(
            "dev: another `holdfast dev` is starting the cluster of {}",
            dir.display()
        ))),
        Err(TryLockError::Error(error)) => {
            Err(Failure::Refused(format!("dev: {}: {error}", path.display())))
        }
    }
}

fn refused(error: &dyn std::fmt::Display) -> Failure {
    Failure::Refused(format!("dev: {error:#}"))
}

/// The signals that end a cluster in the foreground.
struct Interrupts([tokio::signal::unix::Signal; 3]);

impl Interrupts {
    fn new() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).map_err(|error| refused(&error));
        Ok(Self([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
