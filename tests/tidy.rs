//! The walls of the house as a test: who may import whom, what a file looks like, and what must
//! not stand anywhere. Reads the sources; knows nothing of what they do. Each check names every
//! place at once.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Longest file, in lines.
const FILE_LINES_MAX: usize = 600;
/// Longest line, in columns.
const LINE_COLUMNS_MAX: usize = 100;

/// Modules without clock, randomness, hash map, float arithmetic, lock, thread, `async` or I/O:
/// the file that carries the deny block, and what besides `std` they may import.
const PURE: [(&str, &[&str]); 5] = [
    ("resources/src/lib.rs", &["rpds", "serde", "thiserror", "crate", "super", "self"]),
    (
        "master/src/state/mod.rs",
        &["resources", "serde", "thiserror", "rmp_serde", "sha2", "crate::state", "super", "self"],
    ),
    ("master/src/allocator/mod.rs", &["regex", "resources", "crate::state", "super", "self"]),
    ("master/src/leader/core.rs", &["resources", "crate::state", "crate::leader", "super", "self"]),
    ("agent/src/core.rs", &["resources", "serde", "thiserror", "crate::core", "super", "self"]),
];

/// The lints that each pure module denies in its first lines.
const DENIED: [&str; 5] = [
    "clippy::disallowed_types",
    "clippy::disallowed_methods",
    "clippy::float_arithmetic",
    "clippy::wildcard_enum_match_arm",
    "clippy::match_wildcard_for_single_variants",
];

/// What a pure module must not even name.
const IMPURE: [&str; 9] = [
    "async fn",
    ".await",
    "tokio",
    "std::fs",
    "std::net",
    "std::env",
    "std::thread",
    "SystemTime",
    "Instant",
];

/// Our crates, and which of ours each may depend on (architecture, layers L0 to L3).
const ARROWS: [(&str, &[&str]); 6] = [
    ("resources", &[]),
    ("proto", &["resources"]),
    ("raft", &["resources", "proto"]),
    ("master", &["resources", "proto", "raft"]),
    ("agent", &["resources", "proto"]),
    ("chaos", &[]),
];

/// Words of the domain that consensus must not know.
const DOMAIN_WORDS: [&str; 8] = [
    "agent_id",
    "framework",
    "reservation",
    "volume",
    "mesos",
    "principal",
    "resource::",
    "operation::",
];

/// The parts of the vocabulary that belong to consensus too: its numbers, and time.
const CONSENSUS_VOCABULARY: [&str; 2] = ["resources::id", "resources::time"];

struct Source {
    /// Path below the root of the workspace.
    path: String,
    text: String,
}

impl Source {
    /// Lines of code with their numbers: no comments, and nothing behind `#[cfg(test)]`.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(number, line)| (number + 1, line));
        let before_tests = lines.take_while(|(_, line)| line.trim() != "#[cfg(test)]");
        before_tests.map(|(number, line)| (number, line.split("//").next().unwrap_or_default()))
    }

    /// Whether it is compiled for tests only: it then may read files and sleep no more than any.
    fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap();
        self.path.starts_with("tests/")
            || self.path.contains("/tests/")
            || ["script.rs", "tests.rs"].contains(&name)
            || name.ends_with("_tests.rs")
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn collect(folder: &Path, sources: &mut Vec<Source>) {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let entries: BTreeSet<PathBuf> = entries.collect();
    for path in entries {
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let path = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            sources.push(Source { path, text });
        }
    }
}

/// Every Rust file of the workspace.
fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for crate_name in ["", "resources", "proto", "raft", "master", "agent", "chaos"] {
        for part in ["src", "tests", "benches"] {
            let folder = root().join(crate_name).join(part);
            if folder.is_dir() {
                collect(&folder, &mut sources);
            }
        }
        let build = root().join(crate_name).join("build.rs");
        if let Ok(text) = fs::read_to_string(&build) {
            let path = build.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            sources.push(Source { path, text });
        }
    }
    assert!(sources.len() > 60, "the sources are not where this test looks");
    sources
}

fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

#[test]
fn files_open_with_their_purpose_and_fit_a_reader() {
    let mut found = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        if !source.text.starts_with("//! ") {
            found.push(format!("{}: does not open with //!", source.path));
        }
        if lines > FILE_LINES_MAX {
            found.push(format!("{}: {lines} lines", source.path));
        }
        for (number, line) in source.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > LINE_COLUMNS_MAX {
                found.push(format!("{}:{}: {columns} columns", source.path, number + 1));
            }
        }
    }
    assert_none("files", &found);
}

#[test]
fn nothing_is_left_for_later() {
    // Put together here, so that this file does not hold what it looks for.
    let banned = [
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("dbg", "!("),
        concat!("#[", "ignore"),
        concat!("FIX", "ME"),
    ];
    let mut found = Vec::new();
    for source in sources() {
        for (number, line) in source.text.lines().enumerate() {
            for word in banned.iter().filter(|word| line.contains(**word)) {
                found.push(format!("{}:{}: {word}", source.path, number + 1));
            }
        }
    }
    assert_none("left for later", &found);
}

#[test]
fn tests_wait_for_states_and_never_sleep() {
    let sleep = "::sleep(";
    // The one form that is no sleep: a helper that looks again after a named pause.
    let poll = "::sleep(PAUSE)";
    let mut found = Vec::new();
    // In the simulator time is data, and a faulty network is slow on purpose: neither waits for
    // anybody.
    let is_simulated = |source: &Source| {
        source.path.contains("tests/sim") || source.path.ends_with("tests/support/faulty.rs")
    };
    for source in sources().iter().filter(|source| !is_simulated(source)) {
        let first = if source.is_test() {
            0
        } else {
            let begin = source.text.lines().position(|line| line.trim() == "#[cfg(test)]");
            begin.unwrap_or(usize::MAX)
        };
        for (number, line) in source.text.lines().enumerate().skip(first) {
            let is_comment = line.trim_start().starts_with("//");
            let is_text = line.contains('"');
            if line.contains(sleep) && !line.contains(poll) && !is_comment && !is_text {
                found.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    assert_none("sleeps in tests", &found);
}

/// The files of a pure module: the one with the deny block, and those in its folder.
fn is_part_of(path: &str, head: &str) -> bool {
    let folder = head.strip_suffix("/mod.rs").or(head.strip_suffix("/lib.rs"));
    let folder = folder.unwrap_or(head.strip_suffix(".rs").unwrap());
    path == head || path.starts_with(&format!("{folder}/"))
}

#[test]
fn pure_modules_are_pure() {
    let sources = sources();
    let mut found = Vec::new();
    for (head, allowed) in PURE {
        let first = sources.iter().find(|source| source.path == head);
        let first = first.unwrap_or_else(|| panic!("{head} is missing"));
        let block: String = first
            .text
            .lines()
            .skip_while(|line| line.starts_with("//!"))
            .take_while(|line| !line.is_empty())
            .collect();
        for lint in DENIED {
            if !(block.starts_with("#![deny(") && block.contains(lint)) {
                found.push(format!("{head}: does not open with a deny of {lint}"));
            }
        }
        for source in sources.iter().filter(|s| is_part_of(&s.path, head) && !s.is_test()) {
            for (number, line) in source.code() {
                let place = format!("{}:{number}", source.path);
                for word in IMPURE.iter().filter(|word| line.contains(**word)) {
                    found.push(format!("{place}: names {word}"));
                }
                if let Some(import) = import(line)
                    && !["std", "core"].contains(&import.split("::").next().unwrap())
                    && !allowed.iter().any(|allowed| is_below(import, allowed))
                {
                    found.push(format!("{place}: imports {import}"));
                }
            }
        }
    }
    assert_none("pure modules", &found);
}

/// The path of a `use` line at the left margin.
fn import(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ").unwrap_or(line);
    let rest = rest.strip_prefix("pub(crate) ").unwrap_or(rest);
    let path = rest.strip_prefix("use ")?;
    Some(path.trim_end_matches(';').trim())
}

fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[test]
fn storage_and_consensus_libraries_stay_behind_their_walls() {
    let mut found = Vec::new();
    for source in sources() {
        let is_raft = source.path.starts_with("raft/");
        let is_checkpoint = source.path.starts_with("agent/src/checkpoint");
        for (number, line) in source.code() {
            for library in ["openraft", "redb"] {
                let is_allowed = is_raft || (library == "redb" && is_checkpoint);
                let is_named = line.contains(&format!("{library}::"));
                if is_named && !is_allowed {
                    found.push(format!("{}:{number}: names {library}", source.path));
                }
            }
        }
    }
    assert_none("libraries", &found);
}

#[test]
fn consensus_knows_no_domain_word() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| source.path.starts_with("raft/")) {
        for (number, line) in source.code() {
            let line = line.to_lowercase();
            let rest = CONSENSUS_VOCABULARY.iter().fold(line.clone(), |l, w| l.replace(w, ""));
            if rest.contains("resources::") {
                found.push(format!("{}:{number}: imports {}", source.path, line.trim()));
            }
            for word in DOMAIN_WORDS.iter().filter(|word| line.contains(**word)) {
                found.push(format!("{}:{number}: says {word}", source.path));
            }
        }
    }
    assert_none("domain words in raft", &found);
}

#[test]
fn one_place_turns_wire_into_domain() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        let is_convert = source.path.starts_with("proto/src/convert");
        let is_inside = PURE.iter().any(|(head, _)| is_part_of(&source.path, head));
        for (number, line) in source.code() {
            let defines = line.contains("fn from_wire") || line.contains("fn from_call");
            // Consensus has wire messages of its own, in which no domain word stands.
            if defines && !is_convert && !source.path.starts_with("raft/") {
                found.push(format!("{}:{number}: parses the wire", source.path));
            }
            if is_inside && (line.contains("mesos::v1") || line.contains("proto::")) {
                found.push(format!("{}:{number}: names a wire type", source.path));
            }
        }
    }
    assert_none("wire to domain", &found);
}

type Manifest = BTreeMap<String, toml::Value>;

fn manifest(crate_name: &str) -> Manifest {
    let path = root().join(crate_name).join("Cargo.toml");
    toml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn keys(manifest: &Manifest, table: &str) -> BTreeSet<String> {
    let table = manifest.get(table).and_then(toml::Value::as_table);
    table.into_iter().flat_map(|table| table.keys().cloned()).collect()
}

#[test]
fn crates_depend_downwards_only() {
    let ours: BTreeSet<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    let mut found = Vec::new();
    for (name, allowed) in ARROWS {
        let manifest = manifest(name);
        for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for dependency in keys(&manifest, table) {
                let dependency = dependency.as_str();
                if ours.contains(dependency) && !allowed.contains(&dependency) {
                    found.push(format!("{name} depends on {dependency}"));
                }
                if ["openraft", "redb"].contains(&dependency)
                    && name != "raft"
                    && (name, dependency) != ("agent", "redb")
                {
                    found.push(format!("{name} depends on {dependency}"));
                }
            }
        }
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        if lints.and_then(toml::Value::as_bool) != Some(true) {
            found.push(format!("{name} does not take the workspace's lints"));
        }
    }
    let vocabulary = keys(&manifest("resources"), "dependencies");
    if !vocabulary.iter().all(|name| ["rpds", "serde", "thiserror"].contains(&name.as_str())) {
        found.push(format!("resources depends on {vocabulary:?}"));
    }
    assert_none("crates", &found);
}

#[test]
fn top_level_folders_are_those_of_the_house() {
    let known: BTreeSet<&str> = [
        "agent",
        "benches",
        "chaos",
        "docs",
        "master",
        "proto",
        "raft",
        "resources",
        "src",
        "target",
        "tests",
    ]
    .into();
    let entries = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.path().is_dir());
    let names = folders.map(|entry| entry.file_name().into_string().unwrap());
    let strange: Vec<String> = names
        .filter(|name| !name.starts_with('.') && !known.contains(name.as_str()))
        .filter(|name| name != "holdfast-dev")
        .collect();
    assert_none("folders", &strange);
}

#[test]
fn conformance_cases_and_runner_are_the_shared_ones() {
    let shared = root().join("../shared/conformance");
    // Copies by folder, with the folder of their originals. What is ours stands there only here.
    let folders =
        [("tests/data/conformance", ""), ("tests/conformance", ""), ("tests/conformance/hf", "hf")];
    let ours = ["check.py", "waits.txt", "main.rs", "README.md"];
    let mut found = Vec::new();
    for (copies, originals) in folders {
        for entry in fs::read_dir(root().join(copies)).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_str().unwrap();
            if entry.is_dir() || (copies == "tests/conformance" && ours.contains(&name)) {
                continue;
            }
            // A checkout without its neighbour has nothing to compare with.
            let Ok(original) = fs::read(shared.join(originals).join(name)) else { continue };
            if fs::read(&entry).unwrap() != original {
                found.push(format!("{} differs from its original", entry.display()));
            }
        }
    }
    assert_none("conformance", &found);
}
