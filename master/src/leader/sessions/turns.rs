//! When an agent that may not register now shall come again: never, as it sees fit, or at its
//! turn, when so many register that the log cannot take them all at once. Next:
//! `../messages.rs`.

use std::time::Duration;

use resources::message::{MasterMessage, Retry};
use resources::time::Timestamp;

use crate::state::rejection::RegistrationRefusal;

/// Registrations that may be proposed and not decided.
pub(super) const ADMISSIONS_IN_FLIGHT_MAX: usize = 2_000;
/// Agents that are asked to come again within each second.
const TURNS_PER_SECOND: u32 = 2_000;
/// The longest that an agent is asked to wait: it may have to wait again.
const TURN_MAX: Duration = Duration::from_secs(30);

/// What a refused agent does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    retry: Retry,
    end_tasks: bool,
    after: Option<Duration>,
}

impl Turn {
    pub(super) const LATER: Self = Self { retry: Retry::Later, end_tasks: false, after: None };
    pub(super) const NEVER: Self = Self { retry: Retry::Never, end_tasks: false, after: None };

    pub(super) const fn refused(self, reason: String) -> MasterMessage {
        let Self { retry, end_tasks, after } = self;
        MasterMessage::Refused { reason, retry, end_tasks, retry_after: after }
    }
}

impl From<&RegistrationRefusal> for Turn {
    fn from(refusal: &RegistrationRefusal) -> Self {
        Self { retry: refusal.retry(), end_tasks: refusal.ends_tasks(), after: None }
    }
}

/// Agents that were turned away, each with its place in the time to come.
#[derive(Debug)]
pub(super) struct TurnedAway {
    /// The first moment that nobody was given.
    free_at: Timestamp,
}

impl TurnedAway {
    pub(super) const fn new() -> Self {
        Self { free_at: Timestamp::from_nanos(0) }
    }

    /// The turn of the next one.
    pub(super) fn next(&mut self, now: Timestamp) -> Turn {
        let soonest = now + Duration::from_secs(1);
        let latest = now + TURN_MAX;
        let at = self.free_at.max(soonest).min(latest);
        self.free_at = at + Duration::from_secs(1) / TURNS_PER_SECOND;
        Turn { after: Some(at.since(now)), ..Turn::LATER }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_one_after_the_other() {
        let at = |seconds| Timestamp::default() + Duration::from_secs(seconds);
        let mut turned_away = TurnedAway::new();
        let mut next = |seconds| turned_away.next(at(seconds)).after.unwrap();
        assert_eq!(next(100), Duration::from_secs(1));
        for _ in 0..1_999 {
            next(100);
        }
        assert_eq!(next(100), Duration::from_secs(2));
        // Nobody is asked to wait for longer than is reasonable, and nobody waits for the past.
        for _ in 0..100_000 {
            next(100);
        }
        assert_eq!(next(100), TURN_MAX);
        assert_eq!(next(500), Duration::from_secs(1));
    }
}
