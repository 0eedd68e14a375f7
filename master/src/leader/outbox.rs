//! The queues towards agents, one per open stream. Bounded: what runs over ends its stream, and
//! the agent comes back to what is outstanding. Must not know what is said. Next: `handle.rs`.

use std::collections::BTreeMap;

use resources::message::{Fence, MasterMessage};
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

use super::event::SessionId;

/// Messages that may wait for one agent. All orders of a full agent fit, and what is asked about
/// each of its tasks.
pub(crate) const OUTBOX_MESSAGES_MAX: usize = 8_192;

/// A message under the fence of its term.
pub(crate) type Fenced = (Fence, MasterMessage);

/// The sending ends of all open streams.
#[derive(Default)]
pub(super) struct Outboxes {
    by_session: BTreeMap<SessionId, Outbox>,
}

struct Outbox {
    sender: mpsc::Sender<Fenced>,
    /// Ends the reader of the stream when the outbox goes.
    _reader: DropGuard,
}

impl Outboxes {
    pub(super) fn open(&mut self, id: SessionId, sender: mpsc::Sender<Fenced>, reader: DropGuard) {
        self.by_session.insert(id, Outbox { sender, _reader: reader });
    }

    /// Ends a stream after what was sent.
    pub(super) fn close(&mut self, id: SessionId) {
        self.by_session.remove(&id);
    }

    /// Queues a message. False when the stream is gone or its queue ran over; it is then ended.
    pub(super) fn send(&mut self, id: SessionId, fence: &Fence, message: MasterMessage) -> bool {
        let Some(outbox) = self.by_session.get(&id) else { return false };
        let is_sent = outbox.sender.try_send((fence.clone(), message)).is_ok();
        if !is_sent {
            tracing::warn!(session = %id, "an agent does not read; its stream is ended");
            self.close(id);
        }
        is_sent
    }
}
