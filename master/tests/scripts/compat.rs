//! Log entries and snapshots are read for ever: bytes that an older program wrote decode to the
//! same values. A new variant adds a line here; an old line never changes.
//! `HOLDFAST_RECORD=1` writes missing files only.

use std::fs;
use std::path::{Path, PathBuf};

use master::state::codec;
use master::state::command::{Command, SourceAddr};
use master::state::{Moment, State};
use resources::id::{LogIndex, Principal};
use resources::time::Timestamp;

use super::state::{Line, kind};

/// One command of each kind, as the state scripts write them.
const COMMANDS: [&str; 10] = [
    "form c",
    "office 1 127.0.0.1:5050 2",
    "register w1 declares=cpus:4;ports:[1-9,20-30];disk:100%mount:/m1;disk:50@=eng",
    "reserve c-S0 2-1 cpus:2@ads~ops;disk:10@=eng@eng/web~ops as=ops",
    "create c-S0 2-2 disk:10@=eng@eng/web~ops#v1",
    "destroy c-S0 2-3 disk:10@=eng@eng/web~ops#v1",
    "unreserve c-S0 2-4 cpus:1@ads~ops",
    "confirm c-S0 3 2!mkdir:_No_space_left",
    "diverge c-S0 foreign=cpus:1@web missing=disk:10@ads#v2",
    "register w2 declares=cpus:1 fence=c/1/2 id=c-S7 applied=3 settled=2:2-1,3:2-2!no boot=4",
];

fn command(text: &str) -> Command {
    let line = Line::new(text);
    Command {
        principal: line.named.get("as").map(|name| Principal::new(*name)),
        source: SourceAddr("127.0.0.1:40000".to_owned()),
        key: None,
        kind: kind(&line),
    }
}

fn golden(name: &str, written: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts/compat").join(name);
    if !path.exists() && std::env::var_os("HOLDFAST_RECORD").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, written()).unwrap();
    }
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn commands_of_version_1() {
    for (at, text) in COMMANDS.iter().enumerate() {
        let command = command(text);
        let name = format!("command-1-{at}.msgpack");
        let bytes = golden(&name, || rmp_serde::to_vec_named(&command).unwrap());
        let decoded: Command = rmp_serde::from_slice(&bytes).unwrap();
        assert_eq!(decoded, command, "{name}");
    }
}

#[test]
fn snapshot_of_version_1() {
    let mut state = State::default();
    for (text, index) in COMMANDS.iter().zip(1..) {
        let at = Timestamp::from_nanos(index * 1_000_000_000);
        let now = Moment { index: LogIndex(index), clock: at, wall: at };
        state.apply(now, &command(text));
    }
    let written = || codec::chunks(&state.freeze()).flatten().collect();
    let bytes = golden("snapshot-1.msgpack", written);
    assert_eq!(codec::thaw(std::iter::once(bytes.clone())).unwrap(), state);
    // The same state gives the same bytes: replicas compare them.
    assert_eq!(written(), bytes);
}
