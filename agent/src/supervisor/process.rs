//! Processes: started in groups of their own, waited for, and ended with all that came of them.
//! Next: `supervisor/tasks.rs`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};

use super::Input;
use super::sandbox::User;
use crate::runner::job::{ProcessPlan, Program};
use crate::runner::process;

/// Variables of the agent's own that are none of its tasks' business.
const PRIVATE: [&str; 4] = ["HOLDFAST_", "MESOS_", "LIBPROCESS_", "RUST_LOG"];

/// A process that ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exit {
    pub(super) pid: u32,
    /// As `wait(2)` gives it.
    pub(super) status: i32,
}

/// Starts the process of a plan, whose sandbox is prepared.
pub(super) fn start(
    plan: &ProcessPlan,
    user: Option<User>,
    inputs: &Sender<Input>,
) -> io::Result<u32> {
    let open = |name: &str| {
        File::options().create(true).append(true).open(plan.directory.join(name)).map(Stdio::from)
    };
    let mut command = command(&plan.program, &plan.environment, &plan.directory, user);
    command.stdout(open("stdout")?).stderr(open("stderr")?);
    watch(command.spawn()?, inputs)
}

/// Starts a command that looks at a task; nothing of it is kept.
pub(super) fn start_probe(
    program: &Program,
    environment: &BTreeMap<String, String>,
    directory: &Path,
    user: Option<User>,
    inputs: &Sender<Input>,
) -> io::Result<u32> {
    let mut command = command(program, environment, directory, user);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    watch(command.spawn()?, inputs)
}

fn command(
    program: &Program,
    environment: &BTreeMap<String, String>,
    directory: &Path,
    user: Option<User>,
) -> Command {
    let mut command = match program {
        Program::Shell(line) => {
            let mut command = Command::new("/bin/sh");
            command.arg0("sh").arg("-c").arg(line);
            command
        }
        Program::Exec(path, arguments) => {
            let mut command = Command::new(path);
            if let Some((name, rest)) = arguments.split_first() {
                command.arg0(name).args(rest);
            }
            command
        }
    };
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_none_or(|name| PRIVATE.iter().any(|own| name.starts_with(own))) {
            command.env_remove(name);
        }
    }
    command.envs(environment).current_dir(directory).stdin(Stdio::null()).process_group(0);
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
    command
}

/// A thread waits for each process: only what the system library itself waits for is reaped.
fn watch(mut child: Child, inputs: &Sender<Input>) -> io::Result<u32> {
    let (pid, inputs) = (child.id(), inputs.clone());
    thread::Builder::new().stack_size(64 << 10).spawn(move || {
        let status = child.wait().map_or(-1, ExitStatusExt::into_raw);
        // An error means that the supervisor is at its end.
        let _ended = inputs.send(Input::Exited(Exit { pid, status }));
    })?;
    Ok(pid)
}

fn pid_of(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// Sends a signal to a group; one that is gone needs none.
pub(super) fn signal_group(group: u32, signal: Signal) {
    if let Some(group) = pid_of(group) {
        let _gone = rustix::process::kill_process_group(group, signal);
    }
}

/// Kills what is left of a group whose leader has ended, and waits until it is gone.
pub(super) fn clear_group(group: u32) {
    let Some(pid) = pid_of(group) else { return };
    // At once, and in most cases all: the look at every process is left out.
    if rustix::process::kill_process_group(pid, Signal::KILL).is_err() {
        return;
    }
    reap_group(group);
    let members = || {
        let mut all = process::processes();
        all.retain(|pid| process::group(*pid) == Some(group));
        all
    };
    process::kill_until_gone(members, || reap_group(group));
}

/// Kills everything that ever came of this supervisor, and waits until it is gone.
pub(super) fn clear_all() {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    if rustix::process::waitid(WaitId::All, options).is_err() {
        // No child is left; and whoever lost its parent is a child.
        return;
    }
    process::kill_until_gone(descendants, || reap_orphans(&[]));
    reap_orphans(&[]);
}

/// All that have this process among their parents.
fn descendants() -> Vec<u32> {
    let own = std::process::id();
    let parents: BTreeMap<u32, u32> = process::processes()
        .into_iter()
        .filter_map(|pid| Some((pid, process::parent(pid)?)))
        .collect();
    let is_ours = |pid: &u32| {
        let mut at = *pid;
        for _ in 0..parents.len() {
            match parents.get(&at) {
                Some(parent) if *parent == own => return true,
                Some(parent) => at = *parent,
                None => return false,
            }
        }
        false
    };
    parents.keys().copied().filter(is_ours).collect()
}

/// Takes the remains of processes that lost their parent; `kept` are waited for elsewhere.
pub(super) fn reap_orphans(kept: &[u32]) {
    let own = std::process::id();
    for pid in process::processes() {
        if process::parent(pid) == Some(own) && !kept.contains(&pid) {
            reap(pid);
        }
    }
}

fn reap_group(group: u32) {
    if let Some(group) = pid_of(group) {
        while let Ok(Some(_)) = rustix::process::waitpgid(group, WaitOptions::NOHANG) {}
    }
}

fn reap(pid: u32) {
    if let Some(pid) = pid_of(pid) {
        let _waited = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
    }
}
