//! What `/proc` tells of other processes. Next: `runner/attend.rs`.

use std::fs;

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
    use super::*;

    #[test]
    fn processes_tell_of_themselves() {
        let own = std::process::id();
        assert!(started(own).is_some() && session(own).is_some() && parent(own).is_some());
        assert!(processes().contains(&own));
        assert_eq!(started(u32::MAX), None);
    }
}
