//! Who leads, as far as this node may claim to know. Must not know what leaders do.
//! Next: `status.rs`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// Another node leads, was heard of within the longest election timeout, and has not been
    /// found dead since.
    Following {
        /// The leader.
        leader: MasterId,
        /// Its term.
        term: Term,
    },
    /// No leader is known, or the last one was found dead or has been silent for too long.
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

/// When a leader's message last came in, from which process, and whether that process was found
/// dead after it.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    last: Mutex<Option<Sign>>,
    awaited: AtomicBool,
    came: Notify,
    given_up: Notify,
    /// The last own leadership that was given up before its term ended.
    resigned: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct Sign {
    term: u64,
    leader: u64,
    boot: u64,
    at: Instant,
    is_given_up: bool,
}

impl Sign {
    fn is_of(&self, vote: &Vote) -> bool {
        self.term == vote.leader_id().term() && self.leader == *vote.leader_id().node_id()
    }
}

impl Heard {
    /// Notes a message of the leader whose vote this is, sent by its process `boot`.
    pub(crate) fn note(&self, vote: &Vote, boot: u64) {
        if !vote.is_committed() {
            return;
        }
        let (term, leader) = (vote.leader_id().term(), *vote.leader_id().node_id());
        {
            let mut last = self.last.lock();
            if last.is_some_and(|last| last.term > term) {
                return;
            }
            let at = Instant::now();
            *last = Some(Sign { term, leader, boot, at, is_given_up: false });
        }
        // Thousands of messages a second: wake the watcher only when it waits for one.
        if self.awaited.swap(false, Ordering::AcqRel) {
            self.came.notify_one();
        }
    }

    /// The process that was last heard under this vote.
    pub(crate) fn boot_of(&self, vote: &Vote) -> Option<u64> {
        (*self.last.lock()).filter(|sign| sign.is_of(vote)).map(|sign| sign.boot)
    }

    /// Notes that the process behind this vote was found dead; its next message says otherwise.
    /// Returns whether that is news.
    pub(crate) fn give_up(&self, vote: &Vote) -> bool {
        let mut last = self.last.lock();
        let Some(sign) = last.as_mut().filter(|sign| sign.is_of(vote)) else { return false };
        let is_news = !std::mem::replace(&mut sign.is_given_up, true);
        self.given_up.notify_one();
        is_news
    }

    /// Whether the process behind this vote was found dead and has not been heard since.
    pub(crate) fn is_given_up(&self, vote: &Vote) -> bool {
        self.last.lock().is_some_and(|sign| sign.is_of(vote) && sign.is_given_up)
    }

    /// Notes that this node leads in `term` no more, whatever its consensus core says.
    pub(crate) fn resign(&self, term: u64) {
        self.resigned.fetch_max(term, Ordering::AcqRel);
        self.given_up.notify_one();
    }

    fn has_resigned(&self, term: u64) -> bool {
        self.resigned.load(Ordering::Acquire) == term
    }

    fn deadline(&self, vote: &Vote, timeout: Duration) -> Option<Instant> {
        let sign = (*self.last.lock())?;
        (sign.is_of(vote) && !sign.is_given_up).then(|| sign.at + timeout)
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
                () = heard.given_up.notified() => {}
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
    if metrics.state.is_leader() && heard.has_resigned(term) {
        return (Leadership::Unknown { term: Term(term) }, None);
    }
    if metrics.state.is_leader() {
        return (Leadership::Leading { term: Term(term) }, None);
    }
    let leader = metrics.current_leader.filter(|leader| *leader != metrics.id);
    let deadline = leader.and_then(|_| heard.deadline(&metrics.vote, timeout));
    match (leader, deadline) {
        (Some(leader), Some(deadline)) if deadline > Instant::now() => {
            let following = Leadership::Following { leader: MasterId(leader), term: Term(term) };
            (following, Some(deadline))
        }
        _ => (Leadership::Unknown { term: Term(term) }, None),
    }
}
