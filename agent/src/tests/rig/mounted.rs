//! File systems of their own for tests, where the process may mount. Next: `../crash.rs`.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::folder;

/// A file system of its own on a folder, for as long as the value lives.
pub(crate) struct Mounted(pub(crate) TempDir);

impl Mounted {
    /// None where this process may not mount.
    pub(crate) fn try_new(options: &str) -> Option<Self> {
        let mounted = Self(folder());
        mounted.mount(options).then_some(mounted)
    }
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
    pub(crate) fn mount(&self, options: &str) -> bool {
        mount_at(self.path(), options)
    }
    pub(crate) fn unmount(&self) {
        unmount(self.path());
    }
}

/// False where this process may not mount.
pub(crate) fn mount_at(path: &Path, options: &str) -> bool {
    let mount = ["-t", "tmpfs", "-o", options, "none"].map(OsStr::new);
    let output = Command::new("mount").args(mount).arg(path).output();
    let is_mounted = output.is_ok_and(|output| output.status.success());
    if !is_mounted {
        eprintln!("skipped: this process may not mount");
    }
    is_mounted
}

pub(crate) fn unmount(path: &Path) {
    let unmounted = Command::new("umount").arg(path).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Unmounted already, or never mounted: then the command fails, which is right.
        let _ended = Command::new("umount").arg(self.path()).output();
    }
}
