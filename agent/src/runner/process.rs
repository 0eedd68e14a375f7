//! What `/proc` tells of other processes. Next: `runner/attend.rs`.

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};

/// Pauses between two looks for processes that are to be gone: a process that waits for its disk
/// ends only when that answers.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// When a process was started, in ticks since the boot; none when there is no such process.
pub(crate) fn started(pid: u32) -> Option<u64> {
    stat(pid)?.get(19)?.parse().ok()
}

/// Session of a process.
pub(crate) fn session(pid: u32) -> Option<u32> {
    stat(pid)?.get(3)?.parse().ok()
}

/// Parent of a process.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.get(1)?.parse().ok()
}

/// Group of a process.
pub(crate) fn group(pid: u32) -> Option<u32> {
    stat(pid)?.get(2)?.parse().ok()
}

/// Whether a process can still do something: one that has ended and waits for its parent cannot.
pub(crate) fn is_alive(pid: u32) -> bool {
    let state = stat(pid).and_then(|fields| fields.first().cloned());
    state.is_some_and(|state| !matches!(state.as_str(), "Z" | "X"))
}

/// Kills what `find` finds until it finds nothing that is alive, however long that takes: as
/// long as it is there, it may write to what is given to somebody else. `between` runs after
/// each round.
pub(crate) fn kill_until_gone(find: impl Fn() -> Vec<u32>, between: impl Fn()) {
    let mut pause = PAUSE_MIN;
    loop {
        let mut rest = find();
        rest.retain(|pid| is_alive(*pid));
        if rest.is_empty() {
            return;
        }
        for pid in rest {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // An error means that it is gone.
                let _gone = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        between();
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// The fields of `/proc/PID/stat` behind the name, which may hold anything.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = &text[text.rfind(')')? + 1..];
    Some(rest.split_ascii_whitespace().map(str::to_owned).collect())
}

/// Every process of the machine.
pub(crate) fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// One that has ended and was not waited for has a number, and nothing to be killed.
    #[test]
    fn killed_until_gone_and_no_longer() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id();
        kill_until_gone(|| vec![pid], || ());
        assert!(!is_alive(pid) && started(pid).is_some());
        kill_until_gone(|| vec![pid], || panic!("nothing is left"));
        child.wait().unwrap();
    }

    #[test]
    fn processes_tell_of_themselves() {
        let own = std::process::id();
        assert!(started(own).is_some() && session(own).is_some() && parent(own).is_some());
        assert!(processes().contains(&own));
        assert!(group(own).is_some() && is_alive(own));
        assert_eq!(started(u32::MAX), None);
        assert!(!is_alive(u32::MAX));
    }
}
