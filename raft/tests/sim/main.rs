//! Three nodes in a simulated world: the same code as in production, over simulated sockets and
//! disks that forget unsynced writes, with crashes, partitions, and lies about who is dead.
//! Everything follows from a seed. A failing seed is run again with
//! `HOLDFAST_SIM_SEED=<seed> cargo test -p holdfast-raft --test sim -- replay --nocapture`, and
//! with `HOLDFAST_SIM_LIES=1` if it is a seed of `failover.rs`.
//!
//! Reading order: `storm.rs`, `world.rs` (the machines and what happens to them), `machine.rs`,
//! `checks.rs` (what must hold), `client.rs`, `network.rs`, `failover.rs`, `wiped.rs`.
#![allow(clippy::unwrap_used, reason = "an assumption that fails ends the test")]

mod checks;
mod client;
mod failover;
mod machine;
mod network;
mod snapshots;
mod storm;
#[allow(dead_code, reason = "each test binary uses a part")]
#[path = "../support/mod.rs"]
mod support;
mod wiped;
mod world;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use storm::Storm;
use world::World;

/// Names the seed for the process that a test starts.
const SEED: &str = "HOLDFAST_SIM_SEED";
/// Makes its storm one of false verdicts.
const LIES: &str = "HOLDFAST_SIM_LIES";

macro_rules! seeds {
    ($($name:ident: $seed:expr;)*) => { $(
        #[test]
        fn $name() {
            World::new($seed).weather(&Storm::default()).unwrap();
        }
    )* };
}

seeds! {
    storm_seed_1: 1;
    storm_seed_2: 2;
    storm_seed_3: 3;
    storm_seed_4: 4;
    storm_seed_5: 5;
    storm_seed_6: 6;
    storm_seed_7: 7;
    storm_seed_8: 8;
}

/// Pre-votes keep a node that was cut off from disturbing the leader when it comes back.
#[test]
fn isolated_follower_does_not_depose_the_leader() {
    for seed in 100..102 {
        let mut world = World::new(seed);
        let (leader, term) = world.settle();
        let isolated = (1..=3).find(|id| *id != leader).unwrap();
        world.isolate(isolated);
        world.run(Duration::from_secs(10));
        world.heal(isolated);
        world.run(Duration::from_secs(5));
        assert_eq!(world.settle(), (leader, term), "seed {seed}");
    }
}

/// A leader that is cut off from the others loses its office, and the others elect.
#[test]
fn isolated_leader_is_replaced_and_comes_back_as_follower() {
    let mut world = World::new(200);
    let (leader, term) = world.settle();
    world.isolate(leader);
    let (next, next_term) = world.settle_without(leader);
    assert!(next != leader && next_term > term);
    world.heal(leader);
    assert_eq!(world.settle(), (next, next_term));
}

/// The simulator must see what it is there for: with disks that only pretend to sync, some of
/// these storms break a promise.
#[test]
fn disks_that_lie_are_noticed() {
    let storm = Storm { disks_lie: true, ..Storm::default() };
    let noticed = (1..=3).any(|seed| {
        let outcome = std::panic::catch_unwind(|| World::new(seed).weather(&storm));
        !matches!(outcome, Ok(Ok(_)))
    });
    assert!(noticed);
}

/// The same seed in two processes leaves the same trace: no clock, hash order, thread or
/// foreign random number decides anything.
#[test]
fn same_seed_same_trace() {
    let start = |seed: u64, lies: bool| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["replay", "--exact", "--nocapture", "--test-threads", "1"])
            .env(SEED, seed.to_string())
            .stdout(Stdio::piped());
        if lies {
            command.env(LIES, "1");
        }
        command.spawn().unwrap()
    };
    let trace = |process: Child| {
        let output = process.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        let lines: Vec<String> =
            text.lines().filter(|line| line.starts_with("trace ")).map(str::to_owned).collect();
        assert!(lines.len() > 100, "{text}");
        lines
    };
    for lies in [false, true] {
        let [first, second, other] = [start(11, lies), start(11, lies), start(12, lies)].map(trace);
        for (line, (one, two)) in first.iter().zip(&second).enumerate() {
            assert_eq!(one, two, "line {line}");
        }
        assert_eq!(first.len(), second.len());
        assert_ne!(first, other);
    }
}

/// Runs the seed that the environment names, seed 1 without one, and prints its trace.
#[test]
fn replay() {
    let seed = std::env::var(SEED).map_or(1, |seed| seed.parse().unwrap());
    let storm = if std::env::var(LIES).is_ok() { failover::lying() } else { Storm::default() };
    let trace = World::new(seed).weather(&storm);
    for line in trace.unwrap() {
        println!("trace {line}");
    }
}
