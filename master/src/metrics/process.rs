//! This process and the machine it runs on. Next: `agents.rs`.

use std::fs;

use super::facts::Facts;
use super::{Sample, count, flag, number};

pub(super) fn samples(facts: &Facts) -> Vec<Sample> {
    let uptime = facts.uptime.as_secs_f64();
    let mut samples = vec![
        Sample::gauge("master_uptime_seconds", "Time since the start.", uptime)
            .mesos("master/uptime_secs"),
        Sample::gauge("master_elected", "Whether this master leads.", flag(facts.is_leader))
            .mesos("master/elected"),
        Sample::gauge("master_alarms", "Alarms on record.", number(facts.state.alarms)),
    ];
    samples.extend(machine());
    samples
}

/// What the kernel says of the machine; nothing where it says nothing.
fn machine() -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut put = |name: &'static str, value: f64| samples.push(Sample::only_mesos(name, value));
    if let Ok(cpus) = std::thread::available_parallelism() {
        put("system/cpus_total", number(cpus.get()));
    }
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let names = ["system/load_1min", "system/load_5min", "system/load_15min"];
    for (name, word) in names.into_iter().zip(load.split_whitespace()) {
        if let Ok(load) = word.parse() {
            put(name, load);
        }
    }
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    for (key, name) in
        [("MemTotal:", "system/mem_total_bytes"), ("MemFree:", "system/mem_free_bytes")]
    {
        if let Some(kibibytes) = kibibytes(&memory, key) {
            put(name, count(kibibytes.saturating_mul(1024)));
        }
    }
    samples
}

/// The number behind a key of `/proc/meminfo`.
fn kibibytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_kibibytes() {
        let text = "MemTotal:       16384 kB\nMemFree:  1 kB\nHugePages_Total: 0\n";
        assert_eq!(kibibytes(text, "MemTotal:"), Some(16384));
        assert_eq!(kibibytes(text, "MemFree:"), Some(1));
        assert_eq!(kibibytes(text, "MemAvailable:"), None);
    }
}
