//! Snapshots whose sender or receiver dies on the way. Nothing is replaced before the whole is
//! there and checked, and the next attempt begins anew.

use std::time::Duration;

use resources::id::LogIndex;

use crate::world::{SIZE, World};

/// A follower that lacks what the leader's log no longer holds.
fn behind(seed: u64) -> (World, u64, u64) {
    let mut world = World::new(seed);
    let (leader, _) = world.settle();
    let follower = (1..=SIZE).find(|id| *id != leader).unwrap();
    world.write(leader, 0..10);
    world.isolate(follower);
    world.write(leader, 10..200);
    let had = world.status(follower).unwrap().last_log;
    // Not before the leader has noticed that the follower does not listen.
    while world.status(leader).unwrap().purged <= had {
        world.run(Duration::from_millis(10));
    }
    (world, leader, follower)
}

/// Also the log is purged while the stream to the follower, which hangs, still wants its entries:
/// without a check it would get what is left of them, as if nothing was missing.
///
/// The power of the receiver fails at one write or sync of the installation after the other.
#[test]
fn receiver_dies_at_any_step() {
    let mut died = 0;
    for step in (0..14).step_by(2) {
        let (mut world, _, follower) = behind(600 + step);
        world.disk(follower).trip_in(step);
        world.heal(follower);
        world.run(Duration::from_secs(2));
        if world.disk(follower).is_off() {
            died += 1;
            world.crash(follower);
            world.restart(follower);
        }
        world.disk(follower).mend();
        world.settle_whole();
        let installed = world.status(follower).unwrap().snapshot;
        assert!(installed > Some(LogIndex(50)), "step {step}: {installed:?}");
    }
    assert!(died > 5, "{died} deaths");
}

/// The sender dies while the snapshot is on its way, or just after.
#[test]
fn sender_dies_on_the_way() {
    for pause in 0..4 {
        let (mut world, leader, follower) = behind(620 + pause);
        world.heal(follower);
        world.run(Duration::from_millis(100 + 50 * pause));
        world.kill(leader);
        world.settle_without(leader);
        world.restart(leader);
        world.settle_whole();
    }
}
