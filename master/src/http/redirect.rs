//! What a master that does not lead says: 307 with the leader's address, or 503 while nobody is
//! known to lead; and the short hold of mutating calls during a change of leader. Must not know
//! what a call asks. Next: `server.rs`.

use std::time::Duration;

use http::Uri;
use resources::id::Term;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::error::Failure;
use crate::leader::Leadership;

/// How long a mutating call waits for a leader.
pub(crate) const HOLD_MAX: Duration = Duration::from_secs(1);
/// How many of them may wait at a time.
const HELD_MAX: usize = 1024;

/// Where a request belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Here: this master leads.
    Here(Term),
    /// At the master with this address.
    Elsewhere(String),
    /// Nobody is known to lead.
    Nowhere,
}

/// Watches who leads.
pub(crate) struct Gate {
    leadership: watch::Receiver<Leadership>,
    held: Semaphore,
}

impl Gate {
    pub(crate) fn new(leadership: watch::Receiver<Leadership>) -> Self {
        Self { leadership, held: Semaphore::new(HELD_MAX) }
    }

    /// Where a request belongs at this moment.
    pub(crate) fn standing(&self) -> Standing {
        standing(&self.leadership.borrow())
    }

    /// The leader's address as a `Location` for `/redirect`, this master's own when it leads.
    pub(crate) fn leader(&self, own: &str) -> Result<String, Failure> {
        match self.standing() {
            Standing::Here(_) => Ok(own.to_owned()),
            Standing::Elsewhere(advertise) => Ok(advertise),
            Standing::Nowhere => Err(Failure::NoLeader),
        }
    }

    /// Waits until somebody leads who is not this master in `failed`, at most until `deadline`.
    ///
    /// # Errors
    /// When too many calls wait already.
    pub(crate) async fn hold(
        &self,
        failed: Option<Term>,
        deadline: Instant,
    ) -> Result<Standing, Failure> {
        let Ok(_permit) = self.held.try_acquire() else {
            return Err(Failure::Overloaded {
                what: "too many calls wait for a leader",
                retry_after: HOLD_MAX,
            });
        };
        let mut leadership = self.leadership.clone();
        let settled = leadership.wait_for(|now| match standing(now) {
            Standing::Here(term) => failed != Some(term),
            Standing::Elsewhere(_) => true,
            Standing::Nowhere => false,
        });
        Ok(match tokio::time::timeout_at(deadline, settled).await {
            Ok(Ok(now)) => standing(&now),
            // Over time, or this master is shutting down.
            Err(_) | Ok(Err(_)) => Standing::Nowhere,
        })
    }
}

fn standing(leadership: &Leadership) -> Standing {
    match leadership {
        Leadership::Leading { term } => Standing::Here(*term),
        Leadership::Following { advertise, .. } => Standing::Elsewhere(advertise.clone()),
        Leadership::Unknown => Standing::Nowhere,
    }
}

/// The address of the same request at the leader, without a scheme: the client keeps its own.
/// The path always names the process, as Mesos' does.
pub(crate) fn location(advertise: &str, uri: &Uri) -> String {
    let path = uri.path();
    let rest = path
        .strip_prefix("/master")
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
        .unwrap_or(path);
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("//{advertise}/master{rest}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations() {
        for (asked, expected) in [
            ("/api/v1", "//h:5051/master/api/v1"),
            ("/master/api/v1", "//h:5051/master/api/v1"),
            ("/api/v1/scheduler?x=1", "//h:5051/master/api/v1/scheduler?x=1"),
            ("/master/slaves/?slave_id=a%20b", "//h:5051/master/slaves/?slave_id=a%20b"),
            ("/masterful", "//h:5051/master/masterful"),
            ("/state?", "//h:5051/master/state?"),
        ] {
            assert_eq!(location("h:5051", &asked.parse().unwrap()), expected, "{asked}");
        }
    }

    #[tokio::test]
    async fn calls_are_held_until_somebody_leads() {
        let (tx, rx) = watch::channel(Leadership::Unknown);
        let gate = Gate::new(rx);
        assert_eq!(gate.standing(), Standing::Nowhere);
        let deadline = Instant::now() + Duration::from_millis(20);
        assert_eq!(gate.hold(None, deadline).await, Ok(Standing::Nowhere));
        assert!(Instant::now() >= deadline);

        tx.send_replace(Leadership::Leading { term: Term(4) });
        let deadline = Instant::now() + HOLD_MAX;
        assert_eq!(gate.hold(None, deadline).await, Ok(Standing::Here(Term(4))));
        let (held, ()) = tokio::join!(gate.hold(Some(Term(4)), deadline), async {
            tx.send_replace(Leadership::Unknown);
            tx.send_replace(Leadership::Leading { term: Term(5) });
        });
        assert_eq!(held, Ok(Standing::Here(Term(5))));
    }

    #[tokio::test]
    async fn not_more_than_the_limit_is_held() {
        let (_tx, rx) = watch::channel(Leadership::Unknown);
        let gate = Gate::new(rx);
        let deadline = Instant::now() + Duration::from_millis(20);
        let calls = (0..=HELD_MAX).map(|_| gate.hold(None, deadline));
        let results = futures::future::join_all(calls).await;
        assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
        assert_eq!(gate.held.available_permits(), HELD_MAX);
    }
}
