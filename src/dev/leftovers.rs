//! What still runs for an agent that is no more: its supervisors outlive it, and only an agent can
//! end them in order. It is started once more for just that. Next: `layout.rs`.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use chaos::cluster::{Cluster, Member};
use tokio::process::Command;
use tokio::time::timeout;

use crate::exit::Failure;

/// Makes an agent end what runs for it, and then itself.
const CLEANUP: &str = "--recover=cleanup";
/// How long that may take: tasks get their time to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends what runs for agents that do not run themselves.
pub(super) async fn end(cluster: &Cluster) -> Result<(), Failure> {
    for (number, agent) in cluster.layout().agents.iter().enumerate() {
        let member = Member::Agent(number);
        if cluster.is_alive(member) || !has_supervisor(Path::new(&agent.work_dir)) {
            continue;
        }
        clean_up(&agent.argv, Path::new(&agent.log)).await.map_err(|reason| {
            Failure::Refused(format!(
                "dev: tasks of {} are left: {reason}; see {}",
                cluster.name(member),
                agent.log
            ))
        })?;
    }
    Ok(())
}

/// Whether a supervisor of this agent is there: each works in the directory of its run.
fn has_supervisor(work_dir: &Path) -> bool {
    let Ok(runs) = work_dir.join("meta/runs").canonicalize() else { return false };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let directories =
        processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok());
    directories.into_iter().any(|directory| directory.starts_with(&runs))
}

async fn clean_up(argv: &[String], log: &Path) -> Result<(), String> {
    let [program, arguments @ ..] = argv else { return Err("it has no program".to_owned()) };
    let open = || File::options().append(true).create(true).open(log).map(Stdio::from);
    let (out, err) = (open().map_err(text)?, open().map_err(text)?);
    let arguments = arguments.iter().filter(|argument| !argument.starts_with("--recover"));
    let mut command = Command::new(program);
    command.args(arguments).arg(CLEANUP).stdin(Stdio::null()).stdout(out).stderr(err);
    let mut child = command.kill_on_drop(true).spawn().map_err(text)?;
    match timeout(PATIENCE, child.wait()).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("the agent that should end them ended with {status}")),
        Ok(Err(error)) => Err(text(error)),
        Err(_) => Err(format!("not ended within {PATIENCE:?}")),
    }
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}
