//! Golden scripts of the pure parts: one scenario a file in `testscripts/`, prose on top,
//! commands, `---`, then everything that comes out. `HOLDFAST_RECORD=1 cargo test -p
//! holdfast-master --test scripts` writes what comes out; re-record only what you can explain.
//! Reading order: `notation.rs`, `lines.rs`, `agents.rs`, `schedulers.rs`, `state.rs`,
//! `allocator.rs`, `allocator_laws.rs`, `leader.rs`, `model.rs`, `machine.rs`, `reports.rs`,
//! `compat.rs`.
#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod agents;
mod allocator;
mod allocator_laws;
mod compat;
mod leader;
mod lines;
mod machine;
mod model;
mod notation;
mod reports;
mod schedulers;
mod state;

use std::fs;
use std::path::{Path, PathBuf};

/// Runs every script of `folder` with a fresh `play` each: one line of a script in, what comes
/// out.
fn run_all<P: FnMut(&str) -> Vec<String>>(folder: &str, fresh: impl Fn() -> P) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts").join(folder);
    let mut scripts: Vec<PathBuf> =
        fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.sort();
    assert!(!scripts.is_empty(), "no script in {}", root.display());
    let is_recording = std::env::var_os("HOLDFAST_RECORD").is_some();
    let mut wrong = Vec::new();
    for path in scripts {
        let script = fs::read_to_string(&path).unwrap();
        let played = play_script(&script, fresh());
        if played == script {
            continue;
        }
        if is_recording {
            fs::write(&path, played).unwrap();
        } else {
            wrong.push(format!("{}: {}", path.display(), first_difference(&script, &played)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The script as it would be recorded: prose and commands as they stand, output as it comes.
fn play_script(script: &str, mut play: impl FnMut(&str) -> Vec<String>) -> String {
    let mut played = Vec::new();
    for block in script.trim_end().split("\n\n") {
        let (asked, _) = block.split_once("\n---").unwrap_or((block, ""));
        let mut lines: Vec<String> = asked.lines().map(str::to_owned).collect();
        let commands = asked.lines().filter(|line| !line.starts_with('#'));
        let output: Vec<String> = commands.flat_map(&mut play).collect();
        if !output.is_empty() {
            lines.push("---".to_owned());
            lines.extend(output);
        }
        played.push(lines.join("\n"));
    }
    played.join("\n\n") + "\n"
}

fn first_difference(wanted: &str, found: &str) -> String {
    let mut pairs = wanted.lines().zip(found.lines()).enumerate();
    match pairs.find(|(_, (wanted, found))| wanted != found) {
        Some((at, (wanted, found))) => {
            format!("line {}\n  wanted {wanted}\n  found  {found}", at + 1)
        }
        None => format!("{} lines wanted, {} found", wanted.lines().count(), found.lines().count()),
    }
}
