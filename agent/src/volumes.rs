//! Volume directories on ROOT, PATH and MOUNT disks (spec §7.6). Every change is durable when
//! its function returns, and every function may run again after a crash at any point. Knows
//! directories, not orders or sessions. Next: `checkpoint.rs`.
//!
//! The disk's own root is trusted, as the operator named it; below it no symbolic link is ever
//! followed and no other file system entered. A DESTROY moves a directory to
//! `<root>/.trash/<checkpoint id>/<seq>-<n>`, and only when the directory is the very one that
//! the checkpoint says was made: same device, same inode. Agents that share the root of a PATH
//! disk empty only the trash of their own name.

pub(crate) mod directory;

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;
use thiserror::Error;
use tracing::{error, info, warn};

use resources::id::{CheckpointId, Seq};
use resources::resource::{DiskSourceKind, Resource};
use resources::volume_path::volume_path;

use self::directory::{
    Missing, empty, exists, holds_entries, kind_of, make_below, marker_of, open_below, open_parent,
    open_root, remove,
};
use crate::core::event::{Marker, VolumeRecord};
use crate::disks::root_of;
use crate::failpoint;

/// Folder at the root of a disk for directories that wait to be removed.
pub(crate) const TRASH: &str = ".trash";

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
    /// Name of the agent's own part of each trash.
    owner: CheckpointId,
    /// Roots of the disks, with what stands there.
    roots: BTreeMap<PathBuf, Root>,
}

/// The root of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    /// Its volumes are directories, and it may hold a trash.
    Directories,
    /// It is a volume as a whole, on this device; none when it was not mounted at the start.
    Mount(Option<u64>),
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
    /// The volumes of an agent with these resources. Volumes on mounts that are `unmounted`
    /// cannot be used.
    pub(crate) fn new<'a>(
        work_dir: &Path,
        owner: &CheckpointId,
        declared: impl IntoIterator<Item = &'a Resource>,
        is_unmounted: impl Fn(&Path) -> bool,
    ) -> Self {
        let mut roots = BTreeMap::from([(work_dir.to_owned(), Root::Directories)]);
        for resource in declared {
            match root_of(work_dir, resource) {
                Some((DiskSourceKind::Path, root)) => {
                    roots.insert(root, Root::Directories);
                }
                Some((DiskSourceKind::Mount, root)) => {
                    let found = open_root(&root).and_then(|root| marker_of(&root)).ok();
                    let device = found.filter(|_| !is_unmounted(&root)).map(|found| found.device);
                    roots.insert(root, Root::Mount(device));
                }
                Some((DiskSourceKind::Block | DiskSourceKind::Raw, _)) | None => {}
            }
        }
        Self { work_dir: work_dir.to_owned(), owner: owner.clone(), roots }
    }

    /// Makes the directories of all `volumes`, or of none. An empty directory may be there
    /// already; one with content is another's data, which is neither handed over nor removed.
    /// What lies on a mount stays, as in Mesos. The error is the reason for the user.
    pub(crate) fn create(&self, volumes: &[Resource]) -> Result<Vec<Marker>, String> {
        let mut markers = Vec::new();
        let mut made = Vec::new();
        for volume in volumes {
            let marker = match self.place(volume)? {
                Place::Mount(root) => self.mark_mount(&root),
                Place::Directory { root, below } => make(&root, &below, &mut made),
            };
            match marker {
                Ok(marker) => markers.push(marker),
                Err(reason) => {
                    for (parent, name) in made.iter().rev() {
                        // Only an empty directory goes, and only one made just now.
                        if let Err(errno) = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
                            warn!(?name, %errno, "a directory of a failed CREATE stays behind");
                        }
                    }
                    return Err(reason);
                }
            }
        }
        Ok(markers)
    }

    /// Where a volume's files are.
    pub(crate) fn path_of(&self, volume: &Resource) -> Result<PathBuf, String> {
        self.place(volume).map(|place| match place {
            Place::Mount(root) => root,
            Place::Directory { root, below } => root.join(below),
        })
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
                    self.discard(&root, &below, &format!("{seq}-{n}"), marker)?;
                }
                Err(reason) => warn!(%volume, reason, "destroyed volume has no directory"),
            }
        }
        Ok(())
    }

    /// Whether the volume's directory is there and is the one that was made; if not, what is
    /// wrong.
    pub(crate) fn look(&self, volume: &Resource, record: &VolumeRecord) -> Result<(), String> {
        let (path, found) = match self.place(volume)? {
            Place::Mount(root) => {
                let found = open_root(&root).and_then(|root| marker_of(&root));
                (root, found)
            }
            Place::Directory { root, below } => {
                let found = open_parent(&root, &below, Missing::Report).and_then(|parent| {
                    let name = below.file_name().ok_or(Errno::INVAL)?;
                    match kind_of(&parent, name)? {
                        FileType::Directory => marker_of(&open_below(&parent, name)?),
                        FileType::Symlink => Err(Errno::LOOP),
                        _ => Err(Errno::NOTDIR),
                    }
                });
                (root.join(below), found)
            }
        };
        let wrong = match found {
            Ok(marker) if marker == record.marker => return Ok(()),
            Ok(marker) if marker.device != record.marker.device => {
                "another file system is mounted there, or none".to_owned()
            }
            Ok(_) => "another directory than the one made".to_owned(),
            Err(Errno::NOENT) => "missing".to_owned(),
            Err(Errno::LOOP) => "replaced by a symbolic link".to_owned(),
            Err(Errno::NOTDIR) => "replaced by something that is no directory".to_owned(),
            Err(Errno::XDEV) => "another file system is mounted there".to_owned(),
            Err(errno) => io::Error::from(errno).to_string(),
        };
        Err(format!("{}: {wrong}", path.display()))
    }

    /// Removes what orders up to `upto` moved to the trash. What cannot be removed is tried
    /// again at the next occasion.
    pub(crate) fn empty_trash(&self, upto: Seq) {
        let roots = self.roots.iter().filter(|(_, kind)| **kind == Root::Directories);
        for (root, _) in roots {
            if let Err(error) = self.empty_trash_of(root, upto) {
                let path = root.join(TRASH).join(self.owner.as_str());
                warn!(path = %path.display(), %error, "cannot empty the trash yet");
            }
        }
    }

    fn empty_trash_of(&self, root: &Path, upto: Seq) -> io::Result<()> {
        let open = || open_below(&open_below(&open_root(root)?, OsStr::new(TRASH))?, self.own());
        let trash = match open() {
            Err(Errno::NOENT) => return Ok(()),
            trash => trash?,
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&trash)? {
            let name = entry?.file_name().to_owned();
            if trash_seq(&name).is_some_and(|seq| seq <= upto) {
                names.push(name);
            }
        }
        let mut end = Ok(());
        for name in &names {
            end = end.and(remove(&trash, name));
            failpoint::pass("an entry of the trash is removed");
        }
        end
    }

    fn own(&self) -> &OsStr {
        OsStr::new(self.owner.as_str())
    }

    fn place(&self, volume: &Resource) -> Result<Place, String> {
        let none = || format!("volumes on this kind of disk are not supported: {volume}");
        let work_dir = self.work_dir.to_str().ok_or("the work directory is no UTF-8 path")?;
        let path = PathBuf::from(volume_path(work_dir, volume).ok_or_else(none)?);
        let root = match root_of(&self.work_dir, volume) {
            None => self.work_dir.clone(),
            Some((DiskSourceKind::Path, root)) => root,
            Some((DiskSourceKind::Mount, root)) => return Ok(Place::Mount(root)),
            Some((DiskSourceKind::Block | DiskSourceKind::Raw, _)) => return Err(none()),
        };
        let below = path.strip_prefix(&root).map_err(|_| none())?.to_owned();
        Ok(Place::Directory { root, below })
    }

    fn mark_mount(&self, root: &Path) -> Result<Marker, String> {
        let say =
            |errno: Errno| format!("cannot use {}: {}", root.display(), io::Error::from(errno));
        let directory = open_root(root).map_err(say)?;
        let marker = marker_of(&directory).map_err(say)?;
        if self.roots.get(root) != Some(&Root::Mount(Some(marker.device))) {
            return Err(format!(
                "cannot use {}: not the file system that was mounted there at the agent's start",
                root.display()
            ));
        }
        if holds_entries(&directory).map_err(say)? {
            info!(path = %root.display(), "new volume keeps the content found there");
        }
        Ok(marker)
    }

    /// Moves a volume's directory to the trash and makes that durable.
    fn discard(
        &self,
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
        let trash = self.make_trash(root).map_err(fail("make the trash"))?;
        let found = find(root, below).map_err(fail("look at the volume"))?;
        if found.is_some() && found == marker {
            let parent =
                open_parent(root, below, Missing::Report).map_err(fail("open the parent"))?;
            let name = below.file_name().unwrap_or_default();
            let entry = free_name(&trash, entry).map_err(fail("look into the trash"))?;
            rustix::fs::renameat(&parent, name, &trash, &entry)
                .map_err(fail("move to the trash"))?;
            failpoint::pass("a volume is moved to the trash");
            rustix::fs::fsync(&trash).map_err(fail("sync the trash"))?;
            failpoint::pass("the trash is synced");
            rustix::fs::fsync(&parent).map_err(fail("sync the parent"))?;
            failpoint::pass("the volume's parent is synced");
            return Ok(());
        }
        let was_moved = exists(&trash, OsStr::new(entry)).map_err(fail("look into the trash"))?;
        match found {
            // An earlier attempt moved it; only its durability is unknown.
            _ if was_moved => {
                rustix::fs::fsync(&trash).map_err(fail("sync the trash"))?;
                if let Ok(parent) = open_parent(root, below, Missing::Report) {
                    rustix::fs::fsync(&parent).map_err(fail("sync the parent"))?;
                }
                failpoint::pass("an earlier move is synced");
            }
            None => warn!(path = %path.display(), "the directory of a destroyed volume is missing"),
            Some(_) => {
                error!(
                    path = %path.display(), "left alone: not the directory of the destroyed volume"
                );
            }
        }
        Ok(())
    }

    /// The agent's own part of the trash at this root.
    fn make_trash(&self, root: &Path) -> rustix::io::Result<OwnedFd> {
        let mut directory = open_root(root)?;
        for name in [OsStr::new(TRASH), self.own()] {
            make_below(&directory, name)?;
            directory = open_below(&directory, name)?;
        }
        Ok(directory)
    }
}

fn trash_seq(name: &CString) -> Option<Seq> {
    name.to_str().ok()?.split_once('-')?.0.parse().ok().map(Seq)
}

fn make(root: &Path, below: &Path, made: &mut Vec<(OwnedFd, OsString)>) -> Result<Marker, String> {
    let path = root.join(below);
    let say = |errno: Errno| format!("cannot make {}: {}", path.display(), io::Error::from(errno));
    let name = below.file_name().ok_or("a volume needs a name")?;
    let parent = open_parent(root, below, Missing::Make).map_err(say)?;
    let is_new = make_below(&parent, name).map_err(say)?;
    let directory = open_below(&parent, name);
    if is_new {
        made.push((parent, name.to_owned()));
    }
    let directory = directory.map_err(say)?;
    if !is_new && holds_entries(&directory).map_err(say)? {
        // CREATE never wipes (spec 7.4, 7.6): what an operator put here becomes the volume's.
        warn!(path = %path.display(), "a new volume takes over a directory that holds data");
    }
    rustix::fs::fsync(&directory).map_err(say)?;
    failpoint::pass("a volume's directory is synced");
    marker_of(&directory).map_err(say)
}

/// The marker of the directory at this place, if one is there.
fn find(root: &Path, below: &Path) -> rustix::io::Result<Option<Marker>> {
    let name = below.file_name().ok_or(Errno::INVAL)?;
    match open_parent(root, below, Missing::Report).and_then(|parent| open_below(&parent, name)) {
        Ok(directory) => marker_of(&directory).map(Some),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// `name`, or `name.<n>` when it is taken.
fn free_name(directory: &OwnedFd, name: &str) -> rustix::io::Result<String> {
    let mut candidate = name.to_owned();
    let mut n = 0_u32;
    while exists(directory, OsStr::new(&candidate))? {
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
    empty(&directory).map_err(fail("empty the mount"))?;
    rustix::fs::fsync(&directory).map_err(|e| fail("sync the mount")(e.into()))?;
    failpoint::pass("an emptied mount is synced");
    Ok(())
}

#[cfg(test)]
mod tests;
