//! Whom to ask for a session next, how soon, and how long to wait for the answer. Knows
//! addresses and how attempts ended; opens nothing itself. Next: `http.rs`.
//!
//! After a loss every master is asked once without a pause. Then one master after the other is
//! asked every 10 to 30 ms: an election by a reset takes about that long, and any follower of
//! the new leader names it. Masters that cannot be reached do not count: the next one is asked
//! at once, and each at most once a pause. After 2 s of it the pauses grow to 500 ms: no
//! election is near, and many agents ask. All pauses are random in part, so that agents which
//! lost one master do not come back as one.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::Rng as _;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::config::Address;

const PAUSE_FAST_MIN: Duration = Duration::from_millis(10);
const PAUSE_FAST_MAX: Duration = Duration::from_millis(30);
/// How long an election may take for the fast pauses.
const FAST_FOR: Duration = Duration::from_secs(2);
const PAUSE_SLOW_MIN: Duration = Duration::from_millis(60);
const PAUSE_SLOW_MAX: Duration = Duration::from_millis(500);
const PAUSE_REFUSED_MIN: Duration = Duration::from_millis(50);
const PAUSE_REFUSED_MAX: Duration = Duration::from_secs(60);
/// A master that could not be reached is not followed to for this long, whoever names it.
const HOLD_DOWN: Duration = Duration::from_millis(200);
/// Hints followed in a row without a pause: more would be masters that point at each other.
const HINTS_MAX: usize = 3;
/// Least and most time for a connection, and from it to the answer. It doubles with each round,
/// so that a host which swallows packets is soon left for the next one, and a slow network is
/// waited for in the end.
const CONNECT_MIN: Duration = Duration::from_millis(100);
const CONNECT_MAX: Duration = Duration::from_secs(1);
const ANSWER_MIN: Duration = Duration::from_millis(400);
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// This master does not lead; the one named does.
    NotLeading(Address),
    /// No connection to this master.
    Unreachable(String),
    /// No answer, a broken stream, or a lower fence.
    Lost(String),
    /// A rule refused the agent.
    Refused(String),
    /// The master has no room for it now: it is to come after this time.
    TurnedAway(String, Duration),
    /// The secret is wrong: no master will take it.
    WrongSecret(String),
}

/// How long an attempt may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Patience {
    /// Until the connection stands.
    pub(super) connect: Duration,
    /// From there until the master answers.
    pub(super) answer: Duration,
}

/// The search for the leader.
#[derive(Debug)]
pub(super) struct Seeker {
    masters: Vec<Address>,
    next: usize,
    hint: Option<Address>,
    hints_followed: usize,
    /// When the search began; none while there is a session.
    since: Option<Instant>,
    failures: u32,
    slow_pauses: u32,
    refusals: u32,
    unreachable: BTreeMap<Address, Instant>,
    /// Masters that could not be reached since the last pause or answer.
    refused_in_row: u32,
    /// The outage was told to the log.
    is_told: bool,
    is_first: bool,
}

impl Seeker {
    /// A search that begins with any of them.
    pub(super) fn new(masters: Vec<Address>) -> Self {
        let next = rand::rng().random_range(0..masters.len());
        Self {
            masters,
            next,
            hint: None,
            hints_followed: 0,
            since: None,
            failures: 0,
            slow_pauses: 0,
            refusals: 0,
            unreachable: BTreeMap::new(),
            refused_in_row: 0,
            is_told: false,
            is_first: true,
        }
    }

    /// The master to ask now.
    pub(super) fn target(&mut self) -> Address {
        self.hint.take().unwrap_or_else(|| {
            let target = self.masters[self.next % self.masters.len()].clone();
            self.next = (self.next + 1) % self.masters.len();
            target
        })
    }

    /// How long to wait for it.
    pub(super) fn patience(&self) -> Patience {
        let rounds = self.failures / self.round();
        let grown = |least: Duration, most| doubled(least, rounds, most);
        Patience { connect: grown(CONNECT_MIN, CONNECT_MAX), answer: grown(ANSWER_MIN, ANSWER_MAX) }
    }

    /// The search is over: this master leads.
    pub(super) fn registered(&mut self, target: &Address, agent_id: &str) {
        if self.is_first || self.is_told {
            let after = self.since.map(|since| since.elapsed()).unwrap_or_default();
            info!(agent_id, master = %target, ?after, "registered");
        }
        self.is_first = false;
        self.is_told = false;
        self.since = None;
        self.hints_followed = 0;
        self.failures = 0;
        self.slow_pauses = 0;
        self.refusals = 0;
        self.unreachable.clear();
        // The next search begins with the others: this one has just been lost.
        if let Some(position) = self.masters.iter().position(|master| master == target) {
            self.next = (position + 1) % self.masters.len();
        }
    }

    /// How long to wait before the next attempt; the error ends the agent.
    pub(super) fn next(
        &mut self,
        target: &Address,
        end: End,
        now: Instant,
    ) -> Result<Duration, String> {
        debug!(master = %target, ?end, "session ended");
        if !matches!(end, End::Unreachable(_)) {
            self.refused_in_row = 0;
        }
        match end {
            End::NotLeading(leader) => {
                if self.may_follow(&leader, target, now) {
                    self.since.get_or_insert(now);
                    self.hints_followed += 1;
                    self.hint = Some(leader);
                    return Ok(Duration::ZERO);
                }
                Ok(self.search(target, "does not lead", now))
            }
            End::Unreachable(reason) => {
                self.unreachable.insert(target.clone(), now);
                self.refused_in_row += 1;
                let pause = self.search(target, &reason, now);
                if self.refused_in_row < self.round() {
                    return Ok(Duration::ZERO);
                }
                self.refused_in_row = 0;
                Ok(pause)
            }
            End::Lost(reason) => Ok(self.search(target, &reason, now)),
            End::Refused(reason) => {
                self.tell(target, &reason);
                self.refusals += 1;
                Ok(jitter(doubled(PAUSE_REFUSED_MIN, self.refusals - 1, PAUSE_REFUSED_MAX)))
            }
            End::TurnedAway(reason, wait) => {
                self.tell(target, &reason);
                // The same master again: it knows when it was promised.
                self.hint = Some(target.clone());
                Ok(wait.mul_f64(rand::rng().random_range(1.0..=1.5)))
            }
            End::WrongSecret(reason) => {
                Err(format!("master {target} refused the credential: {reason}"))
            }
        }
    }

    /// A hint is worth following at once, unless it leads back, or to a master that could not
    /// be reached a moment ago: followers name a dead leader until they know.
    fn may_follow(&self, leader: &Address, target: &Address, now: Instant) -> bool {
        let failed = self.unreachable.get(leader);
        let is_held_down = failed.is_some_and(|at| now.duration_since(*at) < HOLD_DOWN);
        leader != target && self.hints_followed < HINTS_MAX && !is_held_down
    }

    fn search(&mut self, target: &Address, reason: &str, now: Instant) -> Duration {
        let since = *self.since.get_or_insert(now);
        self.failures = self.failures.saturating_add(1);
        let was_registered = self.failures == 1 && !self.is_first;
        if was_registered || self.failures >= self.round() {
            self.tell(target, reason);
        }
        if self.failures < self.round() {
            return Duration::ZERO;
        }
        self.hints_followed = 0;
        if now.duration_since(since) < FAST_FOR {
            return rand::rng().random_range(PAUSE_FAST_MIN..=PAUSE_FAST_MAX);
        }
        self.slow_pauses = self.slow_pauses.saturating_add(1);
        jitter(doubled(PAUSE_SLOW_MIN, self.slow_pauses - 1, PAUSE_SLOW_MAX))
    }

    fn round(&self) -> u32 {
        u32::try_from(self.masters.len()).unwrap_or(u32::MAX)
    }

    fn tell(&mut self, target: &Address, reason: &str) {
        if !self.is_told {
            self.is_told = true;
            warn!(master = %target, reason, "no session with a leading master");
        }
    }
}

fn doubled(least: Duration, times: u32, most: Duration) -> Duration {
    least.saturating_mul(2_u32.saturating_pow(times.min(16))).min(most)
}

/// Between half of it and all of it.
fn jitter(pause: Duration) -> Duration {
    pause.mul_f64(rand::rng().random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    fn seeker(masters: &[&str]) -> Seeker {
        Seeker::new(masters.iter().map(|text| address(text)).collect())
    }

    fn lost() -> End {
        End::Lost("no leader elected".to_owned())
    }

    #[test]
    fn all_masters_at_once_then_fast_then_slow() {
        let mut seeker = seeker(&["a:1", "b:1", "c:1"]);
        let begin = Instant::now();
        let mut asked = Vec::new();
        for _ in 0..3 {
            let target = seeker.target();
            let pause = seeker.next(&target, lost(), begin).unwrap();
            asked.push(target.to_string());
            assert_eq!(pause.is_zero(), asked.len() < 3);
        }
        asked.sort();
        assert_eq!(asked, ["a:1", "b:1", "c:1"]);
        let mut pause_at = |after: Duration| {
            let target = seeker.target();
            seeker.next(&target, lost(), begin + after).unwrap()
        };
        for _ in 0..50 {
            let pause = pause_at(Duration::from_millis(1_999));
            assert!((PAUSE_FAST_MIN..=PAUSE_FAST_MAX).contains(&pause), "{pause:?}");
        }
        let slow: Vec<Duration> = (0..50).map(|_| pause_at(FAST_FOR)).collect();
        assert!((PAUSE_SLOW_MIN / 2..=PAUSE_SLOW_MIN).contains(&slow[0]), "{slow:?}");
        let settled = PAUSE_SLOW_MAX / 2..=PAUSE_SLOW_MAX;
        assert!(slow[10..].iter().all(|pause| settled.contains(pause)), "{slow:?}");
        seeker.registered(&address("a:1"), "S0");
        assert_eq!(seeker.target(), address("b:1"), "the lost one comes last");
        assert!(seeker.next(&address("b:1"), lost(), begin).unwrap().is_zero(), "anew");
    }

    #[test]
    fn hints_are_followed_at_once() {
        let mut seeker = seeker(&["a:1", "b:1", "c:1"]);
        let now = Instant::now();
        let (first, leader) = (address("a:1"), address("elsewhere:9"));
        assert!(seeker.next(&first, End::NotLeading(leader.clone()), now).unwrap().is_zero());
        assert_eq!(seeker.target(), leader);

        // Dead: nobody's word counts for a moment, then it does again.
        seeker.next(&leader, End::Unreachable("refused".to_owned()), now).unwrap();
        for _ in 0..5 {
            seeker.next(&first, End::NotLeading(leader.clone()), now).unwrap();
            assert_ne!(seeker.target(), leader);
        }
        seeker.next(&first, End::NotLeading(leader.clone()), now + HOLD_DOWN).unwrap();
        assert_eq!(seeker.target(), leader);
    }

    /// One of three is dead: it costs no pause, and with all of them dead each round has one.
    #[test]
    fn unreachable_masters_cost_no_pause() {
        let mut seeker = seeker(&["a:1", "b:1", "c:1"]);
        let now = Instant::now();
        let refused = || End::Unreachable("refused".to_owned());
        let mut pauses = 0;
        for _ in 0..30 {
            let target = seeker.target();
            pauses += u32::from(!seeker.next(&target, refused(), now).unwrap().is_zero());
        }
        assert_eq!(pauses, 10, "one a round");
        for _ in 0..30 {
            let target = seeker.target();
            let is_dead = target == address("b:1");
            let end = if is_dead { refused() } else { lost() };
            let pause = seeker.next(&target, end, now).unwrap();
            assert_eq!(pause.is_zero(), is_dead, "{target}");
        }
    }

    #[test]
    fn masters_that_point_at_each_other_are_not_followed_without_pause() {
        let mut seeker = seeker(&["a:1", "b:1"]);
        let now = Instant::now();
        let (a, b) = (address("a:1"), address("b:1"));
        let mut hops = 0;
        while seeker.next(&a, End::NotLeading(b.clone()), now).unwrap().is_zero() {
            hops += 1;
        }
        assert!(hops <= HINTS_MAX + 2, "{hops}");
        assert!(seeker.next(&a, End::NotLeading(b.clone()), now).unwrap().is_zero(), "anew");
        assert!(seeker.next(&a, End::NotLeading(a.clone()), now).is_ok_and(|p| !p.is_zero()));
    }

    #[test]
    fn patience_grows_with_the_rounds() {
        let mut seeker = seeker(&["a:1", "b:1"]);
        let now = Instant::now();
        assert_eq!(seeker.patience(), Patience { connect: CONNECT_MIN, answer: ANSWER_MIN });
        for _ in 0..20 {
            let target = seeker.target();
            seeker.next(&target, lost(), now).unwrap();
        }
        assert_eq!(seeker.patience(), Patience { connect: CONNECT_MAX, answer: ANSWER_MAX });
    }

    #[test]
    fn who_is_turned_away_comes_when_it_was_told() {
        let mut seeker = seeker(&["a:1", "b:1"]);
        let (told, now) = (Duration::from_secs(3), Instant::now());
        for _ in 0..20 {
            let end = End::TurnedAway("many register".to_owned(), told);
            let pause = seeker.next(&address("a:1"), end, now).unwrap();
            assert!((told..=told.mul_f64(1.5)).contains(&pause), "{pause:?}");
            assert_eq!(seeker.target(), address("a:1"));
        }
    }

    #[test]
    fn refusals_back_off_to_a_minute() {
        let mut seeker = seeker(&["a:1"]);
        let refused = || End::Refused("not authorized".to_owned());
        let now = Instant::now();
        let mut pause = || seeker.next(&address("a:1"), refused(), now).unwrap();
        assert!(pause() <= PAUSE_REFUSED_MIN);
        let last = (0..20).map(|_| pause()).max().unwrap();
        assert!((PAUSE_REFUSED_MAX / 2..=PAUSE_REFUSED_MAX).contains(&last), "{last:?}");
    }
}
