//! Taking and losing office: from the node's leadership to the core's term, and on to what the
//! edges may act on. A term is assumed completely or not at all. Next: `propose.rs`.

use std::time::Duration;

use raft::{Leadership as NodeLeadership, ProposeError};
use resources::id::Term;

use super::event::Event;
use super::propose::wall_time;
use super::{Assumed, Job, Leader, Leadership};
use crate::machine::Replica;

/// How long batches in flight are waited for when the loop ends.
const LANDING: Duration = Duration::from_secs(1);

impl Leader {
    pub(super) fn leadership_changed(&mut self, events: &mut Vec<Event>) {
        let now = *self.raft.borrow_and_update();
        let is_over = |term| now != NodeLeadership::Leading { term };
        if self.core.term().is_some_and(is_over) {
            // Any change of term ends the old one completely.
            self.sink = None;
            events.push(Event::OfficeLost);
            events.extend(self.proposer.lose_office());
        }
        self.assume();
    }

    /// Begins to assume the node's term, unless that is under way or done.
    pub(super) fn assume(&mut self) {
        let NodeLeadership::Leading { term } = *self.raft.borrow() else { return };
        if self.assuming.is_some() || self.core.term() == Some(term) {
            return;
        }
        self.assuming = Some(term);
        let node = self.node.clone();
        self.jobs.spawn(async move {
            let assumed = node.assume(term, |_, replica| replica.state().clock()).await;
            Job::Assumed(term, assumed)
        });
    }

    pub(super) fn assumed(
        &mut self,
        term: Term,
        assumed: Result<Assumed, ProposeError>,
        events: &mut Vec<Event>,
    ) {
        self.assuming = None;
        let is_leading = *self.raft.borrow() == NodeLeadership::Leading { term };
        match assumed {
            Ok((clock, sink)) if is_leading => {
                tracing::info!(%term, "leads");
                self.sink = Some(sink);
                // A new leader was just acknowledged by a quorum.
                self.has_quorum = true;
                self.proposer.take_office(term, clock);
                events.push(Event::OfficeTaken { term, wall: wall_time() });
            }
            Ok(_) => self.assume(),
            Err(error) => {
                tracing::debug!(%term, %error, "the term was not assumed");
                if !is_leading {
                    // A later term may be waiting; the same one is tried again at the next tick.
                    self.assume();
                }
            }
        }
    }

    /// Tells the edges who leads.
    pub(super) fn publish(&self) {
        let now = match *self.raft.borrow() {
            NodeLeadership::Leading { term } if self.core.term() == Some(term) => {
                if self.has_quorum { Leadership::Leading { term } } else { Leadership::Unknown }
            }
            NodeLeadership::Leading { .. } | NodeLeadership::Unknown { .. } => Leadership::Unknown,
            NodeLeadership::Following { leader, .. } => {
                if matches!(&*self.leadership.borrow(),
                    Leadership::Following { master_id, .. } if *master_id == leader)
                {
                    return;
                }
                let met = self.node.peer_advertise(leader);
                let advertise = met.or_else(|| {
                    let known =
                        |replica: &Replica| replica.state().advertised(leader).map(str::to_owned);
                    self.node.read(known)
                });
                match advertise {
                    Some(advertise) => Leadership::Following { master_id: leader, advertise },
                    None => Leadership::Unknown,
                }
            }
        };
        self.leadership.send_if_modified(|known| {
            let is_news = *known != now;
            if is_news {
                *known = now;
            }
            is_news
        });
    }
}

/// The end.
impl Leader {
    /// Ends every stream after what was sent, and answers everybody.
    pub(super) async fn end(mut self) {
        self.sink = None;
        let mut events = vec![Event::OfficeLost];
        events.extend(self.proposer.lose_office());
        self.leadership.send_replace(Leadership::Unknown);
        self.inbox.close();
        while let Ok(message) = self.inbox.try_recv() {
            self.take_in(message, &mut events);
        }
        self.act(events);
        let landing = async {
            while let Some(job) = self.jobs.join_next().await {
                let mut events = Vec::new();
                self.finished(job, &mut events);
                self.act(events);
            }
        };
        if tokio::time::timeout(LANDING, landing).await.is_err() {
            tracing::warn!("batches were still in flight at the end");
        }
        self.waiting.end();
        self.readers.shutdown().await;
        self.watchers.shutdown().await;
    }
}
