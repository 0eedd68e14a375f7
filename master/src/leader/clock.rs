//! Cluster time, for the proposer that stamps it and for readers that show what is left of some:
//! what stood at the election, and what passed since. Must not know what happens when. Next:
//! `propose.rs`.

use std::sync::Arc;

use parking_lot::Mutex;
use resources::time::Timestamp;
use tokio::time::Instant;

/// The time of one master's terms. It stands still while the master does not lead.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock(Arc<Mutex<Option<(Timestamp, Instant)>>>);

impl Clock {
    /// A term begins at this cluster time.
    pub(super) fn begin(&self, at: Timestamp) {
        *self.0.lock() = Some((at, Instant::now()));
    }

    /// The term is over.
    pub(super) fn end(&self) {
        *self.0.lock() = None;
    }

    /// Now, while this master leads.
    pub(super) fn now(&self) -> Option<Timestamp> {
        self.0.lock().map(|(at, elected)| at + elected.elapsed())
    }
}
