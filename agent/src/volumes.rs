//! Volume directories on ROOT, PATH and MOUNT disks (spec §7.6). Every change is durable when
//! its function returns, and every function may run again after a crash at any point. Knows
//! directories, not orders or sessions. Next: `checkpoint.rs`.
//!
//! The disk's own root is trusted, as the operator named it; below it no symbolic link is ever
//! followed. A DESTROY moves a directory to `<root>/.trash/<seq>-<n>`, and only when the
//! directory is the very one that the checkpoint says was made: same device, same inode.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use thiserror::Error;
use tracing::{error, info, warn};

use resources::id::Seq;
use resources::resource::{DiskSource, DiskSourceKind, Resource};
use resources::volume_path::volume_path;

use crate::core::event::{Marker, VolumeRecord};

const TRASH: &str = ".trash";
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(OFlags::RDONLY);

/// The disk failed, or a directory cannot be removed. The process aborts and tries again at its
/// next start.
#[derive(Debug, Error)]
#[error("{path}: cannot {act}: {source}")]
pub(crate) struct VolumeFailure {
    path: String,
    act: &'static str,
    source: io::Error,
}

/// The volume directories of one agent.
#[derive(Debug, Clone)]
pub(crate) struct Volumes {
    work_dir: PathBuf,
    /// Roots of the disks whose volumes are directories; each may hold a trash.
    roots: BTreeSet<PathBuf>,
}

/// Where a volume is.
#[derive(Debug)]
enum Place {
    /// A directory below the disk's root.
    Directory { root: PathBuf, below: PathBuf },
    /// The root of a mount.
    Mount(PathBuf),
}

impl Volumes {
    /// The volumes of an agent with these resources.
    pub(crate) fn new<'a>(
        work_dir: &Path,
        declared: impl IntoIterator<Item = &'a Resource>,
    ) -> Self {
        let mut roots = BTreeSet::from([work_dir.to_owned()]);
        for resource in declared {
            if let Some((DiskSourceKind::Path, root)) = disk_root(work_dir, resource) {
                roots.insert(root);
            }
        }
        Self { work_dir: work_dir.to_owned(), roots }
    }

    /// Makes the directories of all `volumes`, or of none. An existing directory keeps its
    /// content, as in Mesos. The error is the reason for the user.
    pub(crate) fn create(&self, volumes: &[Resource]) -> Result<Vec<Marker>, String> {
        let mut markers = Vec::new();
        let mut made = Vec::new();
        for volume in volumes {
            let marker = match self.place(volume)? {
                Place::Mount(root) => mark_mount(&root),
                Place::Directory { root, below } => make(&root, &below, &mut made),
            };
            match marker {
                Ok(marker) => markers.push(marker),
                Err(reason) => {
                    for (parent, name) in made.iter().rev() {
                        // Only an empty directory goes, and only one made just now.
                        if let Err(errno) = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
                            warn!(name, %errno, "a directory of a failed CREATE stays behind");
                        }
                    }
                    return Err(reason);
                }
            }
        }
        Ok(markers)
    }

    /// Takes the directories of a DESTROY out of the way.
    pub(crate) fn destroy(
        &self,
        seq: Seq,
        volumes: &[(Resource, Option<VolumeRecord>)],
    ) -> Result<(), VolumeFailure> {
        for (n, (volume, record)) in volumes.iter().enumerate() {
            let marker = record.map(|record| record.marker);
            match self.place(volume) {
                Ok(Place::Mount(root)) => clear_mount(&root, marker)?,
                Ok(Place::Directory { root, below }) => {
                    discard(&root, &below, &format!("{seq}-{n}"), marker)?;
                }
                Err(reason) => warn!(%volume, reason, "destroyed volume has no directory"),
            }
        }
        Ok(())
    }

    /// Whether the volume's directory is there and is the one that was made.
    pub(crate) fn is_available(&self, volume: &Resource, record: &VolumeRecord) -> bool {
        let found = match self.place(volume) {
            Ok(Place::Mount(root)) => open_root(&root).and_then(|fd| marker_of(&fd)).ok(),
            Ok(Place::Directory { root, below }) => find(&root, &below).ok().flatten(),
            Err(_) => None,
        };
        found == Some(record.marker)
    }

    /// Removes what orders up to `upto` moved to the trash. What cannot be removed is tried
    /// again at the next occasion.
    pub(crate) fn empty_trash(&self, upto: Seq) {
        for root in &self.roots {
            let trash = root.join(TRASH);
            let entries = match std::fs::read_dir(&trash) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    warn!(path = %trash.display(), %error, "cannot read the trash");
                    continue;
                }
            };
            for entry in entries.flatten() {
                if trash_seq(&entry.file_name()).is_some_and(|seq| seq <= upto) {
                    let path = entry.path();
                    if let Err(error) = std::fs::remove_dir_all(&path) {
                        warn!(path = %path.display(), %error, "cannot empty the trash yet");
                    }
                }
            }
        }
    }

    fn place(&self, volume: &Resource) -> Result<Place, String> {
        let none = || format!("volumes on this kind of disk are not supported: {volume}");
        let work_dir = self.work_dir.to_str().ok_or("the work directory is no UTF-8 path")?;
        let path = PathBuf::from(volume_path(work_dir, volume).ok_or_else(none)?);
        let root = match disk_root(&self.work_dir, volume) {
            None => self.work_dir.clone(),
            Some((DiskSourceKind::Path, root)) => root,
            Some((DiskSourceKind::Mount, root)) => return Ok(Place::Mount(root)),
            Some((DiskSourceKind::Block | DiskSourceKind::Raw, _)) => return Err(none()),
        };
        let below = path.strip_prefix(&root).map_err(|_| none())?.to_owned();
        Ok(Place::Directory { root, below })
    }
}

/// Kind and root of the disk that a resource lies on; none for the work directory itself.
pub(crate) fn disk_root(work_dir: &Path, resource: &Resource) -> Option<(DiskSourceKind, PathBuf)> {
    let DiskSource { kind, root, .. } = resource.disk.as_ref()?.source.as_ref()?;
    // `join` keeps an absolute root as it is.
    Some((*kind, work_dir.join(root.as_deref().unwrap_or_default())))
}

fn trash_seq(name: &OsStr) -> Option<Seq> {
    name.to_str()?.split_once('-')?.0.parse().ok().map(Seq)
}

fn open_root(root: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(root, DIRECTORY, Mode::empty())
}

fn open_below(parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(parent, name, DIRECTORY.union(OFlags::NOFOLLOW), Mode::empty())
}

#[expect(clippy::useless_conversion, reason = "the width of st_dev differs between platforms")]
fn marker_of(directory: &OwnedFd) -> rustix::io::Result<Marker> {
    let stat = rustix::fs::fstat(directory)?;
    Ok(Marker { device: u64::from(stat.st_dev), inode: u64::from(stat.st_ino) })
}

/// Opens the parent of `below`, step by step without following links.
fn open_parent(root: &Path, below: &Path, missing: Missing) -> rustix::io::Result<OwnedFd> {
    let mut directory = open_root(root)?;
    let parents = below.parent().unwrap_or(Path::new("")).components();
    for component in parents {
        let Component::Normal(name) = component else { return Err(Errno::INVAL) };
        directory = match open_below(&directory, name) {
            Err(Errno::NOENT) if missing == Missing::Make => {
                make_below(&directory, name)?;
                open_below(&directory, name)?
            }
            opened => opened?,
        };
    }
    Ok(directory)
}

/// What to do about a directory that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Report,
}

/// Makes a directory durably; tells whether it was not there before.
fn make_below(parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<bool> {
    let is_new = match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno),
    };
    rustix::fs::fsync(parent)?;
    Ok(is_new)
}

fn make(root: &Path, below: &Path, made: &mut Vec<(OwnedFd, String)>) -> Result<Marker, String> {
    let say = |errno: Errno| {
        let path = root.join(below);
        format!("cannot make {}: {}", path.display(), io::Error::from(errno))
    };
    let name = below.file_name().ok_or("a volume needs a name")?;
    let parent = open_parent(root, below, Missing::Make).map_err(say)?;
    let is_new = make_below(&parent, name).map_err(say)?;
    if is_new {
        let parent = parent.try_clone().map_err(|error| error.to_string())?;
        made.push((parent, name.to_string_lossy().into_owned()));
    }
    let directory = open_below(&parent, name).map_err(say)?;
    if !is_new && holds_entries(&directory).map_err(say)? {
        info!(path = %root.join(below).display(), "new volume keeps the content found there");
    }
    rustix::fs::fsync(&directory).map_err(say)?;
    marker_of(&directory).map_err(say)
}

fn mark_mount(root: &Path) -> Result<Marker, String> {
    let say = |errno: Errno| format!("cannot use {}: {}", root.display(), io::Error::from(errno));
    let directory = open_root(root).map_err(say)?;
    if holds_entries(&directory).map_err(say)? {
        info!(path = %root.display(), "new volume keeps the content found there");
    }
    marker_of(&directory).map_err(say)
}

fn holds_entries(directory: &OwnedFd) -> rustix::io::Result<bool> {
    for entry in Dir::read_from(directory)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The marker of the directory at this place, if one is there.
fn find(root: &Path, below: &Path) -> rustix::io::Result<Option<Marker>> {
    let name = below.file_name().ok_or(Errno::INVAL)?;
    match open_parent(root, below, Missing::Report).and_then(|parent| open_below(&parent, name)) {
        Ok(directory) => marker_of(&directory).map(Some),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Moves a volume's directory to the trash and makes that durable.
fn discard(
    root: &Path,
    below: &Path,
    entry: &str,
    marker: Option<Marker>,
) -> Result<(), VolumeFailure> {
    let path = root.join(below);
    let fail = |act| {
        let path = path.display().to_string();
        move |errno: Errno| VolumeFailure { path, act, source: errno.into() }
    };
    let root_fd = open_root(root).map_err(fail("open the disk"))?;
    make_below(&root_fd, OsStr::new(TRASH)).map_err(fail("make the trash"))?;
    let trash = open_below(&root_fd, OsStr::new(TRASH)).map_err(fail("open the trash"))?;
    let found = find(root, below).map_err(fail("look at the volume"))?;
    if found.is_some() && found == marker {
        let parent = open_parent(root, below, Missing::Report).map_err(fail("open the parent"))?;
        let name = below.file_name().unwrap_or_default();
        let entry = free_name(&trash, entry).map_err(fail("look into the trash"))?;
        rustix::fs::renameat(&parent, name, &trash, &entry).map_err(fail("move to the trash"))?;
        rustix::fs::fsync(&trash).map_err(fail("sync the trash"))?;
        return rustix::fs::fsync(&parent).map_err(fail("sync the parent"));
    }
    let was_moved = exists(&trash, entry).map_err(fail("look into the trash"))?;
    match found {
        // An earlier attempt moved it; only its durability is unknown.
        _ if was_moved => {
            rustix::fs::fsync(&trash).map_err(fail("sync the trash"))?;
            if let Ok(parent) = open_parent(root, below, Missing::Report) {
                rustix::fs::fsync(&parent).map_err(fail("sync the parent"))?;
            }
        }
        None => warn!(path = %path.display(), "the directory of a destroyed volume is missing"),
        Some(_) => {
            error!(path = %path.display(), "left alone: not the directory of the destroyed volume");
        }
    }
    Ok(())
}

fn exists(directory: &OwnedFd, name: &str) -> rustix::io::Result<bool> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// `name`, or `name.<n>` when it is taken.
fn free_name(directory: &OwnedFd, name: &str) -> rustix::io::Result<String> {
    let mut candidate = name.to_owned();
    let mut n = 0_u32;
    while exists(directory, &candidate)? {
        n += 1;
        candidate = format!("{name}.{n}");
    }
    Ok(candidate)
}

/// Removes everything inside a mount's root, durably; the root stays.
fn clear_mount(root: &Path, marker: Option<Marker>) -> Result<(), VolumeFailure> {
    let fail = |act| {
        let path = root.display().to_string();
        move |source: io::Error| VolumeFailure { path, act, source }
    };
    let directory = match open_root(root) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => {
            warn!(path = %root.display(), "the mount of a destroyed volume is missing");
            return Ok(());
        }
        Err(errno) => return Err(fail("open the mount")(errno.into())),
    };
    if Some(marker_of(&directory).map_err(|e| fail("look at the mount")(e.into()))?) != marker {
        error!(path = %root.display(), "left alone: not the mount of the destroyed volume");
        return Ok(());
    }
    let entries = Dir::read_from(&directory).map_err(|e| fail("list the mount")(e.into()))?;
    for entry in entries {
        let entry = entry.map_err(|e| fail("list the mount")(e.into()))?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|e| fail("look into the mount")(e.into()))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let name = OsStr::from_bytes(name.to_bytes());
            std::fs::remove_dir_all(root.join(name)).map_err(fail("empty the mount"))?;
        } else {
            rustix::fs::unlinkat(&directory, name, AtFlags::empty())
                .map_err(|e| fail("empty the mount")(e.into()))?;
        }
    }
    rustix::fs::fsync(&directory).map_err(|e| fail("sync the mount")(e.into()))
}

#[cfg(test)]
mod tests;
