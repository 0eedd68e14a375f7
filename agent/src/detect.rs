//! Looks at the machine: what `--resources` does not name, disks, mounts, the boot. All of it
//! happens once, at the start. Decides nothing else. Next: `recovery.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tracing::warn;

use resources::parse;
use resources::resource::{DiskSourceKind, Resource};

use crate::RunError;
use crate::config::Config;
use crate::volumes::disk_root;

/// Ports of an agent whose flag names none.
const PORTS: &str = "[31000-32000]";
const MB: u64 = 1 << 20;
const GB_IN_MB: u64 = 1_024;

/// The resources of the flag, and what the machine has under the names that it leaves out.
pub(crate) fn resources(config: &Config) -> Result<Vec<Resource>, RunError> {
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
    resources.extend(found.iter().cloned());
    Ok(resources)
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

/// Makes the roots of PATH disks; a root of a MOUNT disk must be a mount point.
pub(crate) fn prepare_disks(work_dir: &Path, declared: &[Resource]) -> Result<(), RunError> {
    let mut mounts = None;
    for resource in declared {
        match disk_root(work_dir, resource) {
            Some((DiskSourceKind::Path, root)) => {
                fs::create_dir_all(&root).map_err(|source| RunError::io(&root, source))?;
            }
            Some((DiskSourceKind::Mount, root)) => {
                let real = fs::canonicalize(&root).map_err(|source| RunError::io(&root, source))?;
                let mounts = match &mounts {
                    Some(mounts) => mounts,
                    None => mounts.insert(mount_points()?),
                };
                if !mounts.contains(&real) {
                    return Err(RunError::NotMounted { root });
                }
            }
            Some((DiskSourceKind::Block | DiskSourceKind::Raw, _)) | None => {}
        }
    }
    Ok(())
}

fn mount_points() -> Result<BTreeSet<PathBuf>, RunError> {
    let path = Path::new("/proc/self/mountinfo");
    let text = fs::read(path).map_err(|source| RunError::io(path, source))?;
    Ok(parse_mount_points(&text))
}

/// Fifth field of each line, in which blanks and backslashes stand as octal numbers.
fn parse_mount_points(text: &[u8]) -> BTreeSet<PathBuf> {
    let field = |line: &[u8]| line.split(|byte| *byte == b' ').nth(4).map(unescape);
    text.split(|byte| *byte == b'\n')
        .filter_map(field)
        .map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(&path)))
        .collect()
}

fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match escaped {
            Some(escaped) if byte == b'\\' => {
                bytes.push(escaped);
                rest = &tail[3..];
            }
            Some(_) | None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    bytes
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
    use super::*;

    #[test]
    fn part_left_to_the_system() {
        assert_eq!(usable_mb(16_384, 1_024, 2_048), 15_360);
        assert_eq!(usable_mb(1_000, 1_024, 2_048), 500);
    }

    #[test]
    fn mount_points_of_a_table() {
        let table =
            b"36 35 98:0 / /mnt/a\\040b rw - ext4 /dev/x rw\n22 1 0:1 / / rw - tmpfs t rw\n";
        let points = parse_mount_points(table);
        assert_eq!(points, BTreeSet::from([PathBuf::from("/mnt/a b"), PathBuf::from("/")]));
    }
}
