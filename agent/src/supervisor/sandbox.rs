//! What is done before a process starts: its directory, its volumes, its files, its owner. Next:
//! `supervisor/process.rs`.
//!
//! A volume is a link to its directory. One that may only be read is mounted read-only over
//! itself first, in a mount namespace of this supervisor, where the system allows that: the link
//! then leads to the mount for the processes here, and to the directory for all others.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Gid, Uid};
use rustix::mount::{MountFlags, MountPropagationFlags, mount_bind, mount_change, mount_remount};
use rustix::thread::UnshareFlags;

use crate::runner::job::{FilePlan, Job, ProcessPlan, VolumePlan};

/// A user that processes run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// Gives this process a mount namespace of its own if it may need one and can have it.
pub(super) fn separate(job: &Job) -> bool {
    let processes = job.executor.iter().chain(job.tasks.iter().map(|task| &task.process));
    let is_needed = processes.flat_map(|process| &process.volumes).any(|v| v.is_read_only);
    // More groups of tasks may come to an executor that runs them itself.
    let may_grow = job.executor.is_none() && job.tasks.iter().any(is_of_group);
    if !(is_needed || may_grow) || !rustix::process::geteuid().is_root() {
        return false;
    }
    #[expect(deprecated, reason = "it is unsafe for file descriptors only, which stay shared")]
    let separated = rustix::thread::unshare(UnshareFlags::NEWNS);
    // What the machine mounts later is seen here; what is mounted here is seen nowhere else.
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    separated.and_then(|()| mount_change("/", flags)).is_ok()
}

/// Tasks of groups have directories of their own.
fn is_of_group(task: &crate::runner::job::TaskPlan) -> bool {
    task.process.environment.get("MESOS_EXECUTOR_ID") != Some(&task.task_id)
}

/// What this supervisor may do for its processes.
#[derive(Debug)]
pub(super) struct Workshop {
    may_mount: bool,
    /// Volumes that are read-only here.
    read_only: BTreeSet<PathBuf>,
    /// Volumes that somebody here writes to.
    written: BTreeSet<PathBuf>,
}

impl Workshop {
    pub(super) fn new(may_mount: bool) -> Self {
        Self { may_mount, read_only: BTreeSet::new(), written: BTreeSet::new() }
    }

    /// Makes the executor's own directory, and the link that shows the newest one.
    pub(super) fn make_sandbox(sandbox: &Path, latest: &Path) -> io::Result<()> {
        fs::create_dir_all(sandbox)?;
        let draft = latest.with_extension("new");
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        symlink(sandbox, &draft)?;
        fs::rename(&draft, latest)
    }

    /// Makes everything that a process finds. The error is for the framework.
    pub(super) fn prepare(&mut self, plan: &ProcessPlan) -> Result<Option<User>, String> {
        let say = |act: &str, path: &Path| {
            let text = format!("cannot {act} {}", path.display());
            move |error: io::Error| format!("{text}: {error}")
        };
        let directory = &plan.directory;
        fs::create_dir_all(directory).map_err(say("make", directory))?;
        for name in ["stdout", "stderr"] {
            let path = directory.join(name);
            File::options().create(true).append(true).open(&path).map_err(say("make", &path))?;
        }
        let user = plan.user.as_deref().and_then(switch_to);
        for volume in &plan.volumes {
            self.place(volume, user, directory)?;
        }
        for file in &plan.files {
            fetch(file, directory)?;
        }
        if let Some(user) = user {
            chown_all(directory, user).map_err(say("change the owner of", directory))?;
        }
        Ok(user)
    }

    fn place(
        &mut self,
        plan: &VolumePlan,
        user: Option<User>,
        directory: &Path,
    ) -> Result<(), String> {
        let VolumePlan { source, target, is_read_only, changes_owner } = plan;
        let say = |act: &str, error: io::Error| {
            format!("volume {}: cannot {act}: {error}", source.display())
        };
        fs::metadata(source).map_err(|error| say("find it", error))?;
        if let Some(user) = user.filter(|_| *changes_owner) {
            chown(source, user).map_err(|error| say("change its owner", error))?;
        }
        symlink(source, target).map_err(|error| say("link it", error))?;
        if !is_read_only {
            self.written.insert(source.clone());
            return Ok(());
        }
        if !self.make_read_only(source) {
            let name = target.file_name().unwrap_or_default().display().to_string();
            // The task runs all the same: only where the system can is this kept.
            let note = format!("holdfast: nothing keeps this task from writing to {name}\n");
            let stderr = File::options().append(true).open(directory.join("stderr"));
            let _told = stderr.and_then(|mut file| file.write_all(note.as_bytes()));
        }
        Ok(())
    }

    fn make_read_only(&mut self, source: &Path) -> bool {
        if self.read_only.contains(source) {
            return true;
        }
        if !self.may_mount || self.written.contains(source) {
            return false;
        }
        let flags = MountFlags::BIND | MountFlags::RDONLY;
        let mounted = mount_bind(source, source).and_then(|()| mount_remount(source, flags, ""));
        if mounted.is_ok() {
            self.read_only.insert(source.to_owned());
        }
        mounted.is_ok()
    }
}

/// The user of this name, when this process may become another one and there is such a user.
fn switch_to(name: &str) -> Option<User> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let user = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next()? == name;
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        is_it.then_some(User { uid, gid })
    })?;
    (user.uid != 0).then_some(user)
}

fn chown(path: &Path, user: User) -> io::Result<()> {
    let found = fs::metadata(path)?;
    if (found.uid(), found.gid()) == (user.uid, user.gid) {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    Ok(rustix::fs::chown(path, Some(uid), Some(gid))?)
}

/// The directory and what was just made in it. Links are not followed.
fn chown_all(directory: &Path, user: User) -> io::Result<()> {
    chown(directory, user)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            chown_all(&entry.path(), user)?;
        } else if kind.is_file() {
            chown(&entry.path(), user)?;
        }
    }
    Ok(())
}

/// Copies a file into the sandbox, and takes it apart if it is an archive.
fn fetch(plan: &FilePlan, directory: &Path) -> Result<(), String> {
    let target = directory.join(&plan.name);
    let say =
        |error: &dyn std::fmt::Display| format!("cannot fetch {}: {error}", plan.source.display());
    fs::copy(&plan.source, &target).map_err(|error| say(&error))?;
    if plan.is_executable {
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&target, mode).map_err(|error| say(&error))?;
    }
    let ends = |ending: &str| plan.name.ends_with(ending);
    let archive = [".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz"];
    let mut command = if plan.is_extracted && archive.iter().any(|ending| ends(ending)) {
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(directory).arg("-xf").arg(&target);
        tar
    } else if plan.is_extracted && ends(".zip") {
        let mut unzip = Command::new("unzip");
        unzip.arg("-o").arg("-q").arg(&target).arg("-d").arg(directory);
        unzip
    } else {
        return Ok(());
    };
    let output = command.output().map_err(|error| say(&error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(say(&String::from_utf8_lossy(&output.stderr).trim()))
}
