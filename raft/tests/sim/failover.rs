//! Deaths of leaders, true and untrue. Time is simulated here, so what depends on it is exact.

use std::time::Duration;

use raft::NodeConfig;
use resources::id::Term;

use crate::storm::Storm;
use crate::world::World;

/// The next leader is there long before the lease of the dead one ends.
#[test]
fn death_of_a_leader_is_answered_at_once() {
    for seed in 300..310 {
        let mut world = World::new(seed);
        let (leader, term) = world.settle();
        let died = world.elapsed();
        world.kill(leader);
        let (next, next_term) = world.settle_without(leader);
        let gap = world.elapsed() - died;
        assert_eq!(next_term, Term(term.0 + 1), "seed {seed}");
        assert!(gap < NodeConfig::ELECTION_TIMEOUT / 2, "seed {seed}: {gap:?}");
        let counts = world.failover(next);
        assert_eq!((counts.found_dead, counts.fast_elections), (1, 1), "seed {seed}: {counts:?}");
        world.restart(leader);
        assert_eq!(world.settle(), (next, next_term), "seed {seed}");
    }
}

/// A whole machine that is gone proves nothing: connections to it hang.
#[test]
fn silent_leader_is_left_to_the_election_timeout() {
    let mut world = World::new(310);
    let (leader, term) = world.settle();
    world.isolate(leader);
    let (next, next_term) = world.settle_without(leader);
    assert!(next_term > term);
    world.run(Duration::from_secs(5));
    let counts = world.failover(next);
    assert_eq!((counts.found_dead, counts.fast_elections), (0, 0), "{counts:?}");
}

/// One follower believes in a death that nobody else can see.
#[test]
fn fooled_follower_changes_nothing() {
    for seed in 320..324 {
        let mut world = World::new(seed);
        let (leader, term) = world.settle();
        let fooled = (1..=3).find(|id| *id != leader).unwrap();
        world.faults(fooled).refuse_knocks();
        for _ in 0..20 {
            world.faults(fooled).cut();
            world.run(Duration::from_millis(400));
            assert_eq!(world.settle(), (leader, term), "seed {seed}");
        }
        let counts = world.failover(fooled);
        assert!(counts.fast_elections >= 10, "seed {seed}: {counts:?}");
    }
}

macro_rules! seeds {
    ($($name:ident: $seed:expr;)*) => { $(
        #[test]
        fn $name() {
            World::new($seed).weather(&lying()).unwrap();
        }
    )* };
}

// Connections are cut all the time, and most probes lie, late or at once, to some or to all.
// Leaders come and go; every promise is kept.
seeds! {
    lying_storm_seed_1: 401;
    lying_storm_seed_3: 403;
    lying_storm_seed_4: 408;
    lying_storm_seed_5: 405;
    lying_storm_seed_6: 409;
}

/// A storm of false verdicts.
pub(crate) fn lying() -> Storm {
    let (lasts, every) = (Duration::from_secs(12), Duration::from_millis(500));
    Storm { lasts, every, knocks_lie: true, ..Storm::default() }
}

/// The storms are what they say: lies depose living leaders. The first leader needs no reason
/// and each real fault explains at most one more; what goes beyond that, the lies did. The same
/// storms without lies stay well below: they have more faults than leaders.
#[test]
fn lying_storm_seed_2() {
    let trace = World::new(402).weather(&lying()).unwrap();
    let leaders = trace.iter().find(|line| line.starts_with("leaders ")).unwrap();
    let terms = leaders.matches(':').count();
    let is_real = |line: &&String| line.contains(" crash ") || line.contains(" isolate ");
    let reasons = trace.iter().filter(is_real).count();
    assert!(terms > reasons + 1, "{terms} leaders, {reasons} reasons");
}
