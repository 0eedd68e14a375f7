//! The disks of `--resources`: which roots are mounted, and which lie in each other's way.
//! Looks and refuses; makes only the roots of PATH disks. What lies on a disk is for
//! `volumes.rs`. Next: `recovery.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use thiserror::Error;
use tracing::warn;

use resources::resource::{DiskSource, DiskSourceKind, Resource};

use crate::RunError;
use crate::volumes::TRASH;

/// Folders below a root that belong to the agent.
const OWN: [&str; 2] = ["volumes", TRASH];

/// Why disks cannot be used together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Conflict {
    /// A DESTROY on the mount would remove the other.
    #[error(
        "MOUNT disk {} holds {what} {}, which a DESTROY of its volume would remove",
        mount.display(), other.display()
    )]
    Swallowed {
        /// Root of the MOUNT disk.
        mount: PathBuf,
        /// What the other is.
        what: &'static str,
        /// What lies in it.
        other: PathBuf,
    },
    /// The root is a folder of volumes, or in one.
    #[error(
        "disk {} lies inside the volumes of {}: it would come and go with them",
        root.display(), owner.display()
    )]
    InsideVolumes {
        /// Root of the disk.
        root: PathBuf,
        /// Root of the disk whose volumes are there.
        owner: PathBuf,
    },
}

/// Kind and root of the disk that a resource lies on; none for the work directory itself.
pub(crate) fn root_of(work_dir: &Path, resource: &Resource) -> Option<(DiskSourceKind, PathBuf)> {
    let DiskSource { kind, root, .. } = resource.disk.as_ref()?.source.as_ref()?;
    // `join` keeps an absolute root as it is.
    Some((*kind, work_dir.join(root.as_deref().unwrap_or_default())))
}

/// Checks the disks without changing anything. Gives the roots of MOUNT disks that are not
/// mounted now but stood in `known`: their volumes are unavailable, everything else goes on.
pub(crate) fn check(
    work_dir: &Path,
    declared: &[Resource],
    known: &[Resource],
) -> Result<BTreeSet<PathBuf>, RunError> {
    let roots = |kind: DiskSourceKind, resources: &[Resource]| -> Vec<PathBuf> {
        let all = resources.iter().filter_map(|resource| root_of(work_dir, resource));
        all.filter(|(found, _)| *found == kind).map(|(_, root)| root).collect()
    };
    let mounts = roots(DiskSourceKind::Mount, declared);
    find_conflict(work_dir, &roots(DiskSourceKind::Path, declared), &mounts)
        .map_or(Ok(()), |conflict| Err(RunError::Disks(conflict)))?;
    if mounts.is_empty() {
        return Ok(BTreeSet::new());
    }
    let known = roots(DiskSourceKind::Mount, known);
    let points = mount_points()?;
    let mut unmounted = BTreeSet::new();
    for root in mounts {
        let is_mounted = fs::canonicalize(&root).is_ok_and(|real| points.contains(&real));
        if is_mounted {
            continue;
        }
        if !known.contains(&root) {
            return Err(RunError::NotMounted { root });
        }
        warn!(root = %root.display(), "MOUNT disk is not mounted: its volumes are unavailable");
        unmounted.insert(root);
    }
    Ok(unmounted)
}

/// Makes the roots of PATH disks.
pub(crate) fn make_roots(work_dir: &Path, declared: &[Resource]) -> Result<(), RunError> {
    for resource in declared {
        if let Some((DiskSourceKind::Path, root)) = root_of(work_dir, resource) {
            fs::create_dir_all(&root).map_err(|source| RunError::io(&root, source))?;
        }
    }
    Ok(())
}

fn find_conflict(work_dir: &Path, paths: &[PathBuf], mounts: &[PathBuf]) -> Option<Conflict> {
    let work_dir = real(work_dir);
    let paths: Vec<PathBuf> = paths.iter().map(|root| real(root)).collect();
    let mounts: Vec<PathBuf> = mounts.iter().map(|root| real(root)).collect();
    for (n, mount) in mounts.iter().enumerate() {
        if mounts[..n].contains(mount) {
            // Mesos takes it; each of the two may hold a volume, in one and the same directory.
            warn!(root = %mount.display(), "a MOUNT disk is declared twice");
            continue;
        }
        let swallowed = |what, other: &PathBuf| {
            let conflict = Conflict::Swallowed { mount: mount.clone(), what, other: other.clone() };
            other.starts_with(mount).then_some(conflict)
        };
        let others = mounts.iter().filter(|other| *other != mount);
        let conflict = swallowed("the work directory", &work_dir)
            .or_else(|| paths.iter().find_map(|other| swallowed("PATH disk", other)))
            .or_else(|| others.into_iter().find_map(|other| swallowed("MOUNT disk", other)));
        if conflict.is_some() {
            return conflict;
        }
    }
    for root in paths.iter().chain(&mounts) {
        let mut owners = paths.iter().chain([&work_dir]);
        let owner = owners.find(|owner| is_inside_volumes(root, owner)).cloned();
        if let Some(owner) = owner.or_else(|| owner_by_name(root)) {
            return Some(Conflict::InsideVolumes { root: root.clone(), owner });
        }
    }
    None
}

fn is_inside_volumes(root: &Path, owner: &Path) -> bool {
    OWN.iter().any(|own| root.starts_with(owner.join(own)))
}

/// The disk of some other agent, by the names that the folders of volumes have.
fn owner_by_name(root: &Path) -> Option<PathBuf> {
    let components: Vec<Component<'_>> = root.components().collect();
    let is_volume = |window: &[Component<'_>]| {
        window[0].as_os_str() == "volumes" && window[1].as_os_str() == "roles"
    };
    let at = components.windows(4).position(is_volume)?;
    Some(components[..at].iter().collect())
}

/// The path without links, as far as it is there.
fn real(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut there = path;
    loop {
        if let Ok(found) = fs::canonicalize(there) {
            return missing.iter().rev().fold(found, |path, name| path.join(name));
        }
        match (there.parent(), there.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name);
                there = parent;
            }
            _ => return path.to_owned(),
        }
    }
}

fn mount_points() -> Result<BTreeSet<PathBuf>, RunError> {
    let path = Path::new("/proc/self/mountinfo");
    let text = fs::read(path).map_err(|source: io::Error| RunError::io(path, source))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_of_a_table() {
        let table =
            b"36 35 98:0 / /mnt/a\\040b rw - ext4 /dev/x rw\n22 1 0:1 / / rw - tmpfs t rw\n";
        let points = parse_mount_points(table);
        assert_eq!(points, BTreeSet::from([PathBuf::from("/mnt/a b"), PathBuf::from("/")]));
    }

    #[test]
    fn disks_in_each_others_way() {
        let paths = |roots: &[&str]| -> Vec<PathBuf> { roots.iter().map(PathBuf::from).collect() };
        for (path_roots, mount_roots, expected) in [
            (&["/d1", "/d1", "/d1/sub"][..], &["/m1", "/m2"][..], None),
            (&["/w"], &[], None),
            (&[], &["/"], Some("MOUNT disk / holds the work directory /w, ")),
            (&["/m1/d"], &["/m1"], Some("MOUNT disk /m1 holds PATH disk /m1/d, ")),
            (&["/m1"], &["/m1"], Some("MOUNT disk /m1 holds PATH disk /m1, ")),
            (&[], &["/m1", "/m1/m2"], Some("MOUNT disk /m1 holds MOUNT disk /m1/m2, ")),
            (&[], &["/m1", "/m1"], None),
            (&["/w/volumes"], &[], Some("disk /w/volumes lies inside the volumes of /w")),
            (&["/w/volumes/roles/ads/v1/d"], &[], Some("inside the volumes of /w")),
            (&["/d1", "/d1/.trash/x"], &[], Some("inside the volumes of /d1")),
            (&["/other/volumes/roles/ads/v1"], &[], Some("inside the volumes of /other")),
            (&[], &["/other/volumes/roles/ads/v1"], Some("inside the volumes of /other")),
        ] {
            let found = find_conflict(Path::new("/w"), &paths(path_roots), &paths(mount_roots));
            let found = found.map(|conflict| conflict.to_string());
            let is_right = match (&found, expected) {
                (None, None) => true,
                (Some(found), Some(expected)) => found.contains(expected),
                _ => false,
            };
            assert!(is_right, "{path_roots:?} {mount_roots:?}: {found:?}");
        }
    }
}
