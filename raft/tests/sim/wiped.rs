//! Machines that lose their disk at the worst moment.

use std::time::Duration;

use crate::world::{SIZE, World};

/// The leader dies while a follower comes back without its disk. The vote of that one could
/// elect a node that lacks what the leader acknowledged.
#[test]
fn wiped_disk_elects_nobody() {
    for seed in 500..505 {
        let mut world = World::new(seed);
        let (leader, _) = world.settle();
        let wiped = (1..=SIZE).find(|id| *id != leader).unwrap();
        world.wipe(wiped);
        world.kill(leader);
        world.restart(wiped);
        world.run(Duration::from_secs(10));
        assert_eq!(world.leader(), None, "seed {seed}");
        assert!(!world.has_promised(wiped), "seed {seed}");
        let said = world.fatal(wiped);
        assert!(said.iter().any(|line| line.contains("another data directory")), "{said:?}");

        world.kill(wiped);
        world.restart(leader);
        let (next, term) = world.settle_without(wiped);
        world.run(Duration::from_secs(2));
        assert_eq!(world.leader(), Some((next, term)), "seed {seed}");
    }
}

/// Two of three lose their disks while the third is away. They cannot tell, and wait; when it
/// returns, they learn.
#[test]
fn wiped_majority_forms_no_cluster() {
    let mut world = World::new(510);
    let (leader, _) = world.settle();
    let wiped: Vec<u64> = (1..=SIZE).filter(|id| *id != leader).collect();
    world.kill(leader);
    for id in &wiped {
        world.wipe(*id);
        world.restart(*id);
    }
    world.run(Duration::from_secs(20));
    assert!(wiped.iter().all(|id| !world.has_promised(*id)));
    world.restart(leader);
    world.run(Duration::from_secs(5));
    for id in &wiped {
        assert!(!world.has_promised(*id) && world.fatal(*id).len() == 1);
    }
}
