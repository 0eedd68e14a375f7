//! Namespaces of the kernel for what only some processes shall meet: a small disk, a network of
//! their own. A process of ours holds each and dies with this one; others enter by `nsenter`.
//! Needs root, or a kernel that gives users namespaces. Next: `proxy.rs`.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};

/// Word that a holder says when all is made.
const READY: &str = "ready";

/// Mounts a small disk on the directory `$1`, `$2` kilobytes of it.
const SMALL_DISK: &str =
    "mount -t tmpfs -o size=$2k,nr_inodes=1024,mode=0755 none \"$1\" && echo ready && exec cat";

/// Makes the loopback of a new network usable.
const NETWORK: &str = "ip link set lo up && echo ready && exec cat";

/// Bytes written at once while a disk is filled.
const FILL_BYTES: usize = 64 << 10;

/// A namespace, for as long as this value lives or a process runs in it.
#[derive(Debug)]
pub struct Namespace {
    holder: Child,
    kind: &'static str,
    is_user: bool,
}

impl Namespace {
    /// One in which `dir` is an empty disk of so many kilobytes.
    ///
    /// # Errors
    /// When the kernel or the tools of this machine do not give one; says what is missing.
    pub fn with_small_disk(dir: &Path, kilobytes: u64) -> anyhow::Result<Self> {
        let dir = dir.to_str().context("a directory whose name is no UTF-8")?;
        Self::hold("--mount", SMALL_DISK, &[dir, &kilobytes.to_string()])
    }

    /// One with a network of its own, that has a loopback and nothing else.
    ///
    /// # Errors
    /// As [`Namespace::with_small_disk`].
    pub fn with_own_network() -> anyhow::Result<Self> {
        Self::hold("--net", NETWORK, &[])
    }

    fn hold(kind: &'static str, script: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let is_user = !rustix::process::geteuid().is_root();
        let mut command = Command::new("unshare");
        if is_user {
            command.args(["--user", "--map-root-user"]);
        }
        command.args([kind, "--", "sh", "-c", script, "sh"]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder = command.spawn().context("unshare cannot be started")?;
        let mut said = String::new();
        if let Some(stdout) = holder.stdout.take() {
            BufReader::new(stdout).read_line(&mut said)?;
        }
        if said.trim() != READY {
            let mut reason = String::new();
            if let Some(mut stderr) = holder.stderr.take() {
                stderr.read_to_string(&mut reason)?;
            }
            holder.wait()?;
            bail!("no namespace: {}", reason.trim());
        }
        Ok(Self { holder, kind, is_user })
    }

    /// Process id of the holder.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// Words before a command that let it run inside.
    #[must_use]
    pub fn wrapper(&self) -> Vec<String> {
        let mut words = vec!["nsenter".to_owned(), format!("--target={}", self.pid())];
        if self.is_user {
            words.extend(["--user", "--preserve-credentials"].map(str::to_owned));
        }
        words.extend([self.kind.to_owned(), "--".to_owned()]);
        words
    }

    /// How a path inside is called outside.
    #[must_use]
    pub fn path(&self, inside: &Path) -> PathBuf {
        let below = inside.strip_prefix("/").unwrap_or(inside);
        PathBuf::from(format!("/proc/{}/root", self.pid())).join(below)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It may have ended by itself, which is as good.
        let _ended = self.holder.kill();
        let _reaped = self.holder.wait();
    }
}

/// What a full disk has none of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// Room for data.
    Bytes,
    /// Room for one more file or directory.
    Entries,
}

/// Fills the disk of the directory `ballast`, which is made, to the last byte or entry.
///
/// # Errors
/// When the disk fails otherwise.
pub fn fill(ballast: &Path, space: Space) -> anyhow::Result<()> {
    fs::create_dir(ballast).context("a directory that fills a disk")?;
    match space {
        Space::Bytes => fill_bytes(&ballast.join("bytes")),
        Space::Entries => fill_entries(ballast),
    }
}

fn fill_entries(ballast: &Path) -> anyhow::Result<()> {
    for number in 0.. {
        match File::create(ballast.join(number.to_string())) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
            Err(error) => return Err(error).context("a file that fills a disk"),
        }
    }
    Ok(())
}

fn fill_bytes(path: &Path) -> anyhow::Result<()> {
    let mut file = File::create(path)?;
    let block = vec![0xA5; FILL_BYTES];
    let mut size = block.len();
    while size > 0 {
        match file.write(&block[..size]) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => size /= 2,
            Err(error) => return Err(error).context("a file that fills a disk"),
        }
    }
    Ok(())
}

/// Gives the space back.
///
/// # Errors
/// When the directory cannot be removed.
pub fn free(ballast: &Path) -> anyhow::Result<()> {
    fs::remove_dir_all(ballast).with_context(|| format!("{} stays", ballast.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_disk_is_full_inside_only() {
        let folder = tempfile::tempdir().unwrap();
        let namespace = match Namespace::with_small_disk(folder.path(), 256) {
            Ok(namespace) => namespace,
            // Not every machine gives namespaces; the drill says so too.
            Err(_) => return,
        };
        let ballast = namespace.path(folder.path()).join("ballast");
        fill(&ballast, Space::Entries).unwrap();
        assert!(fs::write(namespace.path(folder.path()).join("more"), "").is_err());
        free(&ballast).unwrap();
        fill(&ballast, Space::Bytes).unwrap();
        assert!(!folder.path().join("ballast").exists());
        assert!(fs::write(namespace.path(folder.path()).join("more"), [1; 8192]).is_err());
        let wrapper = namespace.wrapper();
        let inside = Command::new(&wrapper[0])
            .args(&wrapper[1..])
            .arg("ls")
            .arg(folder.path())
            .output()
            .unwrap();
        assert!(String::from_utf8_lossy(&inside.stdout).contains("ballast"));
        free(&ballast).unwrap();
        fs::write(namespace.path(folder.path()).join("more"), [1; 8192]).unwrap();
    }
}
