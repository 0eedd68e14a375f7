//! Who leads, as far as this node may claim to know. Must not know what leaders do.
//! Next: `status.rs`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openraft::alias::WatchReceiverOf;
use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftServerMetrics;
use openraft::vote::RaftLeaderId;
use parking_lot::Mutex;
use resources::id::{MasterId, Term};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::machine::Machine;
use crate::types::{Types, Vote};

/// Who leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leadership {
    /// This node leads.
    Leading {
        /// Its term.
        term: Term,
    },
    /// Another node leads, and was heard of within the longest election timeout.
    Following {
        /// The leader.
        leader: MasterId,
        /// Its term.
        term: Term,
    },
    /// No leader is known, or the last one has been silent for too long.
    Unknown {
        /// The newest term that this node knows.
        term: Term,
    },
}

impl Leadership {
    /// The newest term that this node knows.
    #[must_use]
    pub fn term(&self) -> Term {
        match self {
            Self::Leading { term } | Self::Following { term, .. } | Self::Unknown { term } => *term,
        }
    }
}

impl fmt::Display for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leading { term } => write!(f, "leading term {term}"),
            Self::Following { leader, term } => write!(f, "following {leader} in term {term}"),
            Self::Unknown { term } => write!(f, "no leader known in term {term}"),
        }
    }
}

/// When a leader's message last came in.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    last: Mutex<Option<Sign>>,
    awaited: AtomicBool,
    came: Notify,
}

#[derive(Debug, Clone, Copy)]
struct Sign {
    term: u64,
    leader: u64,
    at: Instant,
}

impl Heard {
    /// Notes a message of the leader whose vote this is.
    pub(crate) fn note(&self, vote: &Vote) {
        if !vote.is_committed() {
            return;
        }
        let (term, leader) = (vote.leader_id().term(), *vote.leader_id().node_id());
        {
            let mut last = self.last.lock();
            if last.is_some_and(|last| last.term > term) {
                return;
            }
            *last = Some(Sign { term, leader, at: Instant::now() });
        }
        // Thousands of messages a second: wake the watcher only when it waits for one.
        if self.awaited.swap(false, Ordering::AcqRel) {
            self.came.notify_one();
        }
    }

    fn deadline(&self, term: u64, leader: u64, timeout: Duration) -> Option<Instant> {
        let sign = (*self.last.lock())?;
        (sign.term == term && sign.leader == leader).then(|| sign.at + timeout)
    }
}

/// Keeps what is announced true until the node closes.
pub(crate) struct Watcher {
    pub(crate) heard: Arc<Heard>,
    /// The longest election timeout.
    pub(crate) timeout: Duration,
    pub(crate) announced: watch::Sender<Leadership>,
    pub(crate) closing: CancellationToken,
}

impl Watcher {
    pub(crate) async fn run<M: Machine>(
        self,
        mut metrics: WatchReceiverOf<Types<M>, RaftServerMetrics<Types<M>>>,
    ) {
        let heard = &self.heard;
        loop {
            heard.awaited.store(true, Ordering::Release);
            let (now, deadline) = judge(&metrics.borrow_and_update(), heard, self.timeout);
            self.announce(now);
            let expired = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => heard.came.notified().await,
                }
            };
            tokio::select! {
                biased;
                () = self.closing.cancelled() => break,
                changed = metrics.changed() => if changed.is_err() { break },
                () = expired => {}
            }
        }
        let term = self.announced.borrow().term();
        self.announce(Leadership::Unknown { term });
    }

    fn announce(&self, now: Leadership) {
        self.announced.send_if_modified(|known| {
            let is_news = *known != now;
            if is_news {
                tracing::info!(term = now.term().0, "{now}");
                *known = now;
            }
            is_news
        });
    }
}

/// The verdict, and when it ends by itself.
fn judge<M: Machine>(
    metrics: &RaftServerMetrics<Types<M>>,
    heard: &Heard,
    timeout: Duration,
) -> (Leadership, Option<Instant>) {
    let term = metrics.vote.leader_id().term();
    if metrics.state.is_leader() {
        return (Leadership::Leading { term: Term(term) }, None);
    }
    let leader = metrics.current_leader.filter(|leader| *leader != metrics.id);
    let deadline = leader.and_then(|leader| heard.deadline(term, leader, timeout));
    match (leader, deadline) {
        (Some(leader), Some(deadline)) if deadline > Instant::now() => {
            let following = Leadership::Following { leader: MasterId(leader), term: Term(term) };
            (following, Some(deadline))
        }
        _ => (Leadership::Unknown { term: Term(term) }, None),
    }
}
