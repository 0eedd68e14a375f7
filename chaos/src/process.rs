//! What the kernel knows of a process: whether it lives, since when, with which arguments.
//! Starts and ends processes. Must not know what they are. Next: `cluster.rs`.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, kill_process};

pub use rustix::process::Signal;

/// Prefix of the environment variables that stand for flags. A started process gets none of
/// them: its stored arguments alone say how it runs, today and when it is started again.
const FLAG_ENVIRONMENT: &str = "HOLDFAST_";

/// The one variable of that prefix that is passed on: the log filter.
const LOG_ENVIRONMENT: &str = "HOLDFAST_LOG";

/// Clock ticks between the kernel's start and the start of process `pid`; none when there is no
/// such process, or only its remains. A zombie whose other threads are still ending is no remains:
/// its sockets and files are open until the last of them is gone.
#[must_use]
pub fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything, so fields count from the last one.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    // Of the fields of proc(5), state is number 3, the count of threads 20, the start time 22.
    let is_zombie = matches!(*fields.first()?, "Z" | "X" | "x");
    let threads: u64 = fields.get(17)?.parse().ok()?;
    if is_zombie && threads <= 1 {
        return None;
    }
    fields.get(19)?.parse().ok()
}

/// The arguments process `pid` was started with; empty when unknown, as of one that is ending.
#[must_use]
pub fn arguments(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut parts: Vec<String> =
        bytes.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into()).collect();
    parts.pop();
    parts
}

/// Processes that work in `folder` or below it, whoever started them.
#[must_use]
pub fn working_in(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_there = |pid: &u32| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
    };
    pids.filter(is_there).collect()
}

/// Starts `argv` in a process group of its own, so that a signal to the terminal's group does not
/// reach it, with both outputs appended to `log`.
///
/// # Errors
/// When the log cannot be opened or the program cannot be started.
pub fn spawn(argv: &[String], log: &Path) -> io::Result<Child> {
    let (program, arguments) = argv
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no program to start"))?;
    let output = OpenOptions::new().create(true).append(true).open(log)?;
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let is_flag = name.to_str().is_some_and(|name| name.starts_with(FLAG_ENVIRONMENT));
        if is_flag && name != LOG_ENVIRONMENT {
            command.env_remove(name);
        }
    }
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .spawn()
}

/// Sends `signal` to process `pid`. A process that has ended meanwhile is no error.
///
/// # Errors
/// When the signal may not be sent.
pub fn signal(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no process id"))?;
    match kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_itself_and_forgets_the_dead() {
        let own = std::process::id();
        assert!(started(own).is_some());
        assert!(!arguments(own).is_empty());

        let folder = tempfile::tempdir().unwrap();
        let argv = ["sleep", "60"].map(str::to_owned);
        let mut child = spawn(&argv, &folder.path().join("log")).unwrap();
        assert!(started(child.id()).is_some());
        signal(child.id(), Signal::KILL).unwrap();
        child.wait().unwrap();
        assert_eq!(started(child.id()), None);
        signal(child.id(), Signal::KILL).unwrap();
    }
}
