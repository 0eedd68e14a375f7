//! Directories by their descriptors: steps below a trusted root that follow no symbolic link and
//! leave no file system, and are durable when they return. Knows no volumes. Next:
//! `checkpoint.rs`.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::core::event::Marker;
use crate::failpoint;

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(OFlags::RDONLY);
/// Below the root: no link, and no file system mounted on the way, also none bound from here.
const BELOW: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);
/// Entries listed at once while a directory is emptied.
const LISTED_MAX: usize = 1_024;

/// What to do about a directory that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Make,
    Report,
}

pub(crate) fn open_root(root: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(root, DIRECTORY, Mode::empty())
}

pub(super) fn open_below(parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    match rustix::fs::openat2(parent, name, DIRECTORY, Mode::empty(), BELOW) {
        // Kernels before 5.6, and sandboxes that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {
            let flags = DIRECTORY.union(OFlags::NOFOLLOW);
            let directory = rustix::fs::openat(parent, name, flags, Mode::empty())?;
            let is_same_device = marker_of(parent)?.device == marker_of(&directory)?.device;
            if is_same_device { Ok(directory) } else { Err(Errno::XDEV) }
        }
        opened => opened,
    }
}

#[expect(clippy::useless_conversion, reason = "the width of st_dev differs between platforms")]
pub(super) fn marker_of(directory: &OwnedFd) -> rustix::io::Result<Marker> {
    let stat = rustix::fs::fstat(directory)?;
    Ok(Marker { device: u64::from(stat.st_dev), inode: u64::from(stat.st_ino) })
}

/// Opens the parent of `below`, step by step.
pub(super) fn open_parent(
    root: &Path,
    below: &Path,
    missing: Missing,
) -> rustix::io::Result<OwnedFd> {
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

/// Makes a directory durably; tells whether it was not there before.
pub(super) fn make_below(parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<bool> {
    let is_new = match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno),
    };
    failpoint::pass("a directory is made");
    rustix::fs::fsync(parent)?;
    failpoint::pass("its parent is synced");
    Ok(is_new)
}

/// Whether something stands under this name, whatever it is.
pub(super) fn exists(directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<bool> {
    match kind_of(directory, name) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// What kind of thing stands under this name.
pub(super) fn kind_of(
    directory: &OwnedFd,
    name: impl rustix::path::Arg,
) -> rustix::io::Result<FileType> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

pub(super) fn holds_entries(directory: &OwnedFd) -> rustix::io::Result<bool> {
    Ok(!some_entries(directory, 1)?.is_empty())
}

fn some_entries(directory: &OwnedFd, most: usize) -> rustix::io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
            if names.len() == most {
                break;
            }
        }
    }
    Ok(names)
}

/// Removes everything in a directory, which stays.
pub(super) fn empty(directory: &OwnedFd) -> io::Result<()> {
    loop {
        let names = some_entries(directory, LISTED_MAX)?;
        if names.is_empty() {
            return Ok(());
        }
        for name in &names {
            remove(directory, name).map_err(|error| named(name, &error))?;
            failpoint::pass("an entry is removed");
        }
    }
}

/// Removes what stands under this name with all that is in it. Stops at a mounted file system,
/// and removes links but never what they lead to.
pub(crate) fn remove(parent: &OwnedFd, name: &CStr) -> io::Result<()> {
    if kind_of(parent, name)? != FileType::Directory {
        return Ok(allowed(parent, || rustix::fs::unlinkat(parent, name, AtFlags::empty()))?);
    }
    let name_text = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name.to_bytes());
    let directory = match open_below(parent, name_text) {
        // A directory may be closed to its own owner; it is one, as was seen above.
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
            open_below(parent, name_text)?
        }
        Err(Errno::XDEV) => return Err(io::Error::other("a file system is mounted there")),
        opened => opened?,
    };
    empty(&directory)?;
    drop(directory);
    Ok(allowed(parent, || rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR))?)
}

/// Once more with write permission when the directory denies it to its owner.
fn allowed(
    directory: &OwnedFd,
    act: impl Fn() -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    match act() {
        Err(Errno::ACCESS) => {
            rustix::fs::fchmod(directory, Mode::RWXU)?;
            act()
        }
        end => end,
    }
}

fn named(name: &CStr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", name.to_string_lossy()))
}
