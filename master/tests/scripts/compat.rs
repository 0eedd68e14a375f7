//! Log entries and snapshots are read for ever: bytes that an older program wrote decode to the
//! same values. A new variant adds a line here; an old line never changes.
//! `HOLDFAST_RECORD=1` writes missing files only.

use std::fs;
use std::path::{Path, PathBuf};

use master::state::codec;
use master::state::command::{Command, SourceAddr};
use master::state::{Moment, State};
use resources::id::LogIndex;
use resources::time::Timestamp;

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
    Command { source: SourceAddr("127.0.0.1:40000".to_owned()), ..super::lines::command(text) }
}

fn golden(name: &str, written: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts/compat").join(name);
    if !path.exists() && std::env::var_os("HOLDFAST_RECORD").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, written()).unwrap();
    }
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What came later: keys, conditions, transactions. Numbered on from the first ones.
const LATER: [&str; 5] = [
    "grow c-S0 3-1 disk:10@=eng@eng/web~ops#v1 by=disk:1@=eng@eng/web~ops",
    "shrink c-S0 3-2 disk:11@=eng@eng/web~ops#v1 by=0.5",
    "reserve c-S1 3-3 cpus:1@ads~ops^x=1 as=ops key=k1 if=c-S0:7,c-S1:10",
    "transact 3-4 c-S1 reserve cpus:0.5@ads | c-S1 unreserve cpus:0.5@ads key=k2",
    "unreserve c-S1 3-5 cpus:7@web as=ops key=k3",
];

/// Frameworks and tasks.
const FRAMEWORKS: [&str; 13] = [
    "subscribe f1 roles=ads,web suppressed=web user=alice principal=ops timeout=60 \
     caps=PARTITION_AWARE,SHARED_RESOURCES checkpoint=yes says=wire",
    "subscribe f2 id=c-0007",
    "update c-0000 f1 roles=ads user=alice principal=ops checkpoint=yes",
    "suppress c-0000 roles=ads",
    "disconnect c-0000@1 c-0007@2 grace=600",
    "remove c-0000 epoch=1 deadline=700",
    "accept 4-1 c-0000 c-S1 ads cpus:4;disk:50 | reserve disk:50@ads id=r1 | refuse no id=r2 \
     | launch t1 cpus:1 | launch t2 cpus:1 by=e1/cpus:0.5 refused=not_as_root \
     | group e2/cpus:0.5 t3 cpus:0.5 t4 cpus:0.5",
    "kill c-0000 t1 grace=5",
    "status c-S1 c-0000 t1 TASK_RUNNING uuid=1f latest=TASK_FINISHED",
    "exited c-S1 c-0000 e2 256",
    "acknowledge c-0000 t1 uuid=1f",
    "settle c-0000 r1 uuid=1f",
    "register w1 declares=cpus:4 applied=2 tasks=c-0000/t1:TASK_RUNNING executors=c-0000/e2",
];

/// The life of agents.
const AGENTS: [&str; 9] = [
    "depart c-S0@80 c-S1@90",
    "return c-S0 epoch=3",
    "mark-unreachable c-S1 epoch=1 since=5 deadline=90",
    "unregister c-S0",
    "mark-gone c-S0 as=ops",
    "deactivate c-S0",
    "reactivate c-S0",
    "drain c-S0 grace=30 then=gone as=ops",
    "complete-drain c-S0",
];

#[test]
fn commands_of_version_1() {
    let all = COMMANDS.iter().chain(&LATER).chain(&FRAMEWORKS).chain(&AGENTS);
    check_commands("command-1", all);
}

fn check_commands<'a>(series: &str, commands: impl Iterator<Item = &'a &'a str>) {
    for (at, text) in commands.enumerate() {
        let command = command(text);
        let name = format!("{series}-{at}.msgpack");
        let bytes = golden(&name, || rmp_serde::to_vec_named(&command).unwrap());
        let decoded: Command = rmp_serde::from_slice(&bytes).unwrap();
        assert_eq!(decoded, command, "{name}");
        assert_eq!(rmp_serde::to_vec_named(&command).unwrap(), bytes, "{name}");
    }
}

/// Rules for the whole cluster.
const RULES: [&str; 7] = [
    "quota ads guarantee=cpus:1.5;mem:512 limit=cpus:2;mem:0 | web as=ops key=k4",
    "quota ads guarantee=cpus:1 limit=cpus:1 force=yes prior=without",
    "quota ads prior=with",
    "weigh ads:2.5 *:0.0000015 as=ops",
    "maintain h1 10.0.0.1 from=1000 for=500 | h2 from=2000 key=k5",
    "down h1 10.0.0.1",
    "up h1",
];

#[test]
fn rules_of_version_1() {
    check_commands("rule-1", RULES.iter());
}

/// What operators choose for agents that differ, and masters that were restored.
const RECONCILED: [&str; 3] = [
    "diverge c-S0 foreign=cpus:1@web missing=disk:10@ads#v2 applied=7 holds=cpus:4",
    "reconcile c-S0 applied=7 holds=cpus:4 adopt=cpus:1@web forget=disk:10@ads \
     recreate=disk:10@ads#v2 as=ops",
    "incarnation 2",
];

#[test]
fn reconciling_commands_of_version_1() {
    check_commands("reconciled-1", RECONCILED.iter());
}

/// An agent whose disk was restored, with what differs on record, and one that has not heard yet
/// of a choice.
#[test]
fn snapshot_with_differences() {
    let commands = [
        "form c",
        "register w1 declares=cpus:4",
        "reserve c-S0 1-1 cpus:1@ads",
        "confirm c-S0 1",
        "register w1 declares=cpus:4 boot=2 id=c-S0",
        "diverge c-S0 foreign=cpus:1 missing=cpus:1@ads holds=cpus:4",
        "register w2 declares=cpus:4",
        "reserve c-S1 1-2 cpus:1@ads",
        "confirm c-S1 1",
        "register w2 declares=cpus:4 boot=2 id=c-S1",
        "diverge c-S1 foreign=cpus:1 missing=cpus:1@ads holds=cpus:4",
        "reconcile c-S1 holds=cpus:4 adopt=cpus:1 forget=cpus:1@ads",
    ];
    check_snapshot("snapshot-1-differences.msgpack", &commands);
}

/// Applies the commands from the beginning; the snapshot of that is the golden one.
fn check_snapshot(name: &str, commands: &[&str]) {
    let mut state = State::default();
    for (text, index) in commands.iter().zip(1..) {
        let at = Timestamp::from_nanos(index * 1_000_000_000);
        let now = Moment { index: LogIndex(index), clock: at, wall: at };
        state.apply(now, &command(text));
    }
    let written = || codec::chunks(&state.freeze()).flatten().collect();
    let bytes = golden(name, written);
    assert_eq!(codec::thaw(std::iter::once(bytes.clone())).unwrap(), state);
    // The same state gives the same bytes: replicas compare them.
    assert_eq!(written(), bytes);
}

#[test]
fn snapshot_of_version_1() {
    check_snapshot("snapshot-1.msgpack", &COMMANDS);
}

/// A transaction on its way, and keys of accepted, refused and unknown kind.
#[test]
fn snapshot_with_transactions_and_keys() {
    let commands = [
        "form c",
        "register w1 declares=cpus:4;disk:100",
        "transact 1-1 c-S0 reserve disk:80@ads | c-S0 create disk:64@ads#v1 key=k1",
        "reserve c-S0 1-2 cpus:2@ads~ops as=ops key=k1",
        "reserve c-S0 1-3 cpus:3@ads~ops as=ops key=k2",
        "transact 1-4 c-S0 reserve cpus:1@web | c-S0 unreserve cpus:9@web key=k3",
        "confirm c-S0 2 2!mkdir:_No_space_left",
    ];
    check_snapshot("snapshot-1-keys.msgpack", &commands);
}

/// Live and removed frameworks, tasks in each of their states, executors, and operations whose
/// end is and is not acknowledged.
#[test]
fn snapshot_with_frameworks() {
    let commands = [
        "form c",
        "register w1 declares=cpus:8;disk:100",
        "subscribe f1 roles=ads timeout=60 caps=PARTITION_AWARE says=wire",
        "subscribe f2 roles=ads",
        "subscribe f3 id=their-0001 roles=web suppressed=web",
        "accept 1-1 c-0000 c-S0 ads cpus:8;disk:100 | reserve disk:50@ads id=r | create \
         disk:20@ads#v1 id=v | create disk:20@ads#v2 id=w | launch t1 cpus:1;disk:20@ads#v1 \
         | launch t2 cpus:1 by=e1/cpus:0.5 | launch t3 cpus:1 | launch t4 cpus:1",
        "accept 1-2 c-0001 c-S0 ads cpus:2 | reserve cpus:1@ads id=r | launch t1 cpus:1",
        "confirm c-S0 3 3!mkdir:_No_space_left",
        "status c-S0 c-0000 t1 TASK_RUNNING uuid=1 latest=TASK_FINISHED",
        "status c-S0 c-0000 t3 TASK_FAILED uuid=2",
        "acknowledge c-0000 t3 uuid=2",
        "kill c-0000 t2 grace=5",
        "settle c-0000 r uuid=0388c9575a938d55a8650972e4cc6719",
        "disconnect c-0000@1",
        "remove c-0001",
    ];
    check_snapshot("snapshot-1-frameworks.msgpack", &commands);
}

/// Quota and weights.
#[test]
fn snapshot_with_rules() {
    let commands = [
        "form c",
        "register w1 declares=cpus:8;disk:100",
        "quota ads guarantee=cpus:1.5 limit=cpus:2;mem:0 | web guarantee=cpus:1 key=k1",
        "weigh ads:2.5 *:0.0000015",
    ];
    check_snapshot("snapshot-1-rules.msgpack", &commands);
}

/// Agents in each presence and activation, and a gone one with what it held.
#[test]
fn snapshot_with_the_life_of_agents() {
    let commands = [
        "form c",
        "register w1 declares=cpus:8;disk:100",
        "register w2 declares=cpus:1",
        "register w3 declares=cpus:1",
        "register w4 declares=cpus:1",
        "register w5 declares=cpus:1;disk:10",
        "subscribe f1 roles=ads timeout=60",
        "accept 1-1 c-0000 c-S0 ads cpus:8;disk:100 | reserve disk:50@ads id=r | launch t1 cpus:1",
        "reserve c-S4 1-2 disk:5@ads",
        "create c-S4 1-3 disk:5@ads#v1",
        "depart c-S0@80 c-S1@90",
        "return c-S1 epoch=1",
        "depart c-S1@95",
        "mark-unreachable c-S0 epoch=1 since=11 deadline=80",
        "unregister c-S2",
        "drain c-S0 grace=30 then=gone",
        "deactivate c-S1",
        "drain c-S3",
        "complete-drain c-S3",
        "mark-gone c-S4",
    ];
    check_snapshot("snapshot-1-agents.msgpack", &commands);
}

/// Machines that drain and one that is down.
#[test]
fn snapshot_with_maintenance() {
    let commands = ["form c", "maintain h1 h2 from=1000 for=500 | h3 from=2000", "down h1"];
    check_snapshot("snapshot-1-maintenance.msgpack", &commands);
}
