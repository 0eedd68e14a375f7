//! Looks at the machine: what `--resources` does not name, and the boot. All of it happens once,
//! at the start. Decides nothing else. Next: `disks.rs`.

use std::fs;
use std::io;
use std::path::Path;

use tracing::{info, warn};

use resources::collection::Resources;
use resources::parse;
use resources::resource::Resource;

use crate::RunError;
use crate::config::{Config, ReconfigurationPolicy};

/// Ports of an agent whose flag names none.
const PORTS: &str = "[31000-32000]";
const MB: u64 = 1 << 20;
const GB_IN_MB: u64 = 1_024;

/// Detected amounts may differ by this part and count as unchanged: a new kernel leaves a little
/// more or less memory, and file systems differ in what they keep for themselves.
const DRIFT_PARTS: i64 = 20;

/// The resources of the flag, and what the machine has under the names that it leaves out. Those
/// of the last start are remembered over a small drift.
pub(crate) fn resources(config: &Config, last: &[Resource]) -> Result<Vec<Resource>, RunError> {
    let mut resources: Vec<Resource> = config.resources.iter().cloned().collect();
    let is_absent = |name: &str| !config.resource_names.contains(name);
    let mut found = Vec::new();
    if is_absent("cpus") {
        found.push(format!("cpus:{}", std::thread::available_parallelism().map_or(1, usize::from)));
    }
    if is_absent("mem") {
        found.push(format!("mem:{}", usable_mb(memory_mb(), GB_IN_MB, 2 * GB_IN_MB)));
    }
    if is_absent("disk") {
        let total = file_system_mb(&config.work_dir)
            .map_err(|source| RunError::io(&config.work_dir, source))?;
        found.push(format!("disk:{}", usable_mb(total, 5 * GB_IN_MB, 10 * GB_IN_MB)));
    }
    if is_absent("ports") {
        found.push(format!("ports:{PORTS}"));
    }
    let found = parse::resources_text(&found.join(";"), &config.default_role)
        .map_err(|error| RunError::Detection(error.to_string()))?;
    let found = found.iter().cloned().collect();
    resources.extend(remembered(found, last, config.reconfiguration_policy));
    Ok(resources)
}

fn remembered(
    mut found: Vec<Resource>,
    last: &[Resource],
    policy: ReconfigurationPolicy,
) -> Vec<Resource> {
    let last: Resources = last.iter().collect();
    for resource in found.iter_mut().filter(|r| matches!(r.name.as_str(), "mem" | "disk")) {
        let Some(before) = last.counterpart(resource) else { continue };
        let amounts = before.value.as_scalar().zip(resource.value.as_scalar());
        let Some((old, new)) = amounts.map(|(old, new)| (old.milli(), new.milli())) else {
            continue;
        };
        let is_drift = old != new && (old - new).abs() <= old / DRIFT_PARTS;
        if is_drift && (new < old || policy == ReconfigurationPolicy::Equal) {
            info!(detected = %resource, counts_as = %before, "small drift of a detected amount");
            resource.value = before.value.clone();
        }
    }
    found
}

/// Leaves `reserve` to the system when there is `plenty`, else half (spec §1.8).
fn usable_mb(total: u64, reserve: u64, plenty: u64) -> u64 {
    if total >= plenty { total - reserve } else { total / 2 }
}

fn memory_mb() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram.saturating_mul(info.mem_unit.into()) / MB
}

fn file_system_mb(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_blocks.saturating_mul(stat.f_frsize) / MB)
}

/// Name of this boot of the host.
pub(crate) fn boot_id(config: &Config) -> String {
    if let Some(boot_id) = &config.boot_id {
        return boot_id.clone();
    }
    match fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        Ok(text) => text.trim().to_owned(),
        Err(error) => {
            warn!(%error, "the kernel does not tell its boot id: every start counts as a reboot");
            crate::recovery::random_hex()
        }
    }
}

#[cfg(test)]
mod tests {
    use resources::role::Role;

    use super::*;

    #[test]
    fn part_left_to_the_system() {
        assert_eq!(usable_mb(16_384, 1_024, 2_048), 15_360);
        assert_eq!(usable_mb(1_000, 1_024, 2_048), 500);
    }

    #[test]
    fn a09_small_drift_keeps_what_was_detected_first() {
        let set = |text: &str| -> Vec<Resource> {
            parse::resources_text(text, &Role::star()).unwrap().iter().cloned().collect()
        };
        let last = set("cpus:4;mem:10000;disk:1000000;ports:[1-9]");
        for (policy, found, expected) in [
            (ReconfigurationPolicy::Equal, "mem:9990;disk:1000100", "mem:10000;disk:1000000"),
            (ReconfigurationPolicy::Equal, "mem:9400;disk:1060000", "mem:9400;disk:1060000"),
            (ReconfigurationPolicy::Additive, "mem:9990;disk:1050000", "mem:10000;disk:1050000"),
            (ReconfigurationPolicy::Equal, "cpus:5;ports:[1-8]", "cpus:5;ports:[1-8]"),
        ] {
            assert_eq!(remembered(set(found), &last, policy), set(expected), "{found}");
        }
    }
}
