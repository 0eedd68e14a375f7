//! Volume directories on an agent's own disk, and the marker that a drill keeps in each. Knows
//! where they lie, not which should be there. Next: `namespace.rs`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::drills::workload::ROLE;

/// Name of the marker.
const MARKER: &str = "marker";

/// Lines of a marker: more than one block of any disk.
const MARKER_LINES: usize = 400;

/// What lies in a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// Nothing.
    Empty,
    /// The marker of this volume, whole.
    Marked,
    /// Anything else.
    Other(String),
}

/// Where the volumes of the drills' role lie below a work directory.
#[must_use]
pub fn folder(work_dir: &Path) -> PathBuf {
    work_dir.join("volumes/roles").join(ROLE)
}

/// The volume directories below `work_dir` whose names begin with `run`, with what lies in them.
///
/// # Errors
/// When the disk cannot be read.
pub fn volumes(work_dir: &Path, run: &str) -> io::Result<BTreeMap<String, Contents>> {
    let mut found = BTreeMap::new();
    for path in entries(&folder(work_dir))? {
        let Some(id) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if id.starts_with(run) {
            // One that is being removed under our eyes is gone.
            match contents(&path, id) {
                Ok(contents) => found.insert(id.to_owned(), contents),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => found.insert(id.to_owned(), Contents::Other(error.to_string())),
            };
        }
    }
    Ok(found)
}

/// Directories of destroyed volumes that are not removed yet.
///
/// # Errors
/// When the disk cannot be read.
pub fn trash(work_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut waiting = Vec::new();
    for owner in entries(&work_dir.join(".trash"))? {
        waiting.extend(entries(&owner)?);
    }
    Ok(waiting)
}

/// Puts the marker into a volume, durably.
///
/// # Errors
/// When it cannot be written.
pub fn mark(work_dir: &Path, id: &str) -> io::Result<()> {
    let mut file = File::create(folder(work_dir).join(id).join(MARKER))?;
    file.write_all(text(id).as_bytes())?;
    file.sync_all()
}

/// Copies a directory with all that lies below it.
///
/// # Errors
/// When anything cannot be read or written.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for path in entries(from)? {
        let Some(name) = path.file_name() else { continue };
        let target = to.join(name);
        let kind = fs::symlink_metadata(&path)?.file_type();
        if kind.is_dir() {
            copy(&path, &target)?;
        } else if kind.is_file() {
            fs::copy(&path, &target)?;
            File::open(&target)?.sync_all()?;
        }
    }
    Ok(())
}

/// Removes a directory with all that lies below it, if it is there.
///
/// # Errors
/// When anything cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn contents(path: &Path, id: &str) -> io::Result<Contents> {
    let found = entries(path)?;
    let [only] = found.as_slice() else {
        return Ok(match found.len() {
            0 => Contents::Empty,
            count => Contents::Other(format!("{count} files")),
        });
    };
    if !only.ends_with(MARKER) {
        return Ok(Contents::Other(format!("file {}", only.display())));
    }
    let read = fs::read_to_string(only)?;
    Ok(match read == text(id) {
        true => Contents::Marked,
        false => Contents::Other(format!("a marker of {} bytes that is not its own", read.len())),
    })
}

fn text(id: &str) -> String {
    (0..MARKER_LINES).map(|line| format!("{line} of {id}\n")).collect()
}

/// What lies in a directory; nothing when it is not there.
fn entries(path: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_told_from_anything_else() {
        let work_dir = tempfile::tempdir().unwrap();
        let work_dir = work_dir.path();
        for id in ["r-a", "r-b", "r-c", "r-d", "other"] {
            fs::create_dir_all(folder(work_dir).join(id)).unwrap();
        }
        mark(work_dir, "r-a").unwrap();
        mark(work_dir, "r-b").unwrap();
        fs::write(folder(work_dir).join("r-b/marker"), "cut").unwrap();
        fs::write(folder(work_dir).join("r-d/else"), "").unwrap();
        let found = volumes(work_dir, "r-").unwrap();
        assert_eq!(found.keys().map(String::as_str).collect::<String>(), "r-ar-br-cr-d");
        assert_eq!(found["r-a"], Contents::Marked);
        assert!(matches!(found["r-b"], Contents::Other(_)));
        assert_eq!(found["r-c"], Contents::Empty);
        assert!(matches!(found["r-d"], Contents::Other(_)));
        assert_eq!(volumes(&work_dir.join("none"), "").unwrap(), BTreeMap::new());
    }

    #[test]
    fn copies_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        fs::create_dir_all(from.join("x/y")).unwrap();
        fs::write(from.join("x/y/f"), "1").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("x/y/f")).unwrap(), "1");
        remove(&to).unwrap();
        remove(&to).unwrap();
        assert!(!to.exists());
    }
}
