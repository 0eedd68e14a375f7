//! The queues towards schedulers, one per open stream. Bounded: a scheduler that does not read
//! loses its stream and may subscribe again. Must not know what is said. Next: `waiting.rs`.

use std::collections::BTreeMap;

use resources::id::StreamId;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::scheduler::SchedulerEvent;

/// Events that may wait for one scheduler: many times what the core says between two ticks.
pub(super) const STREAM_EVENTS_MAX: usize = 16_384;

/// The sending ends of all open streams.
#[derive(Default)]
pub(super) struct Streams {
    by_id: BTreeMap<StreamId, Stream>,
}

struct Stream {
    sender: mpsc::Sender<SchedulerEvent>,
    /// Ends the watcher of the stream when the queue goes.
    _watcher: DropGuard,
}

impl Streams {
    /// Opens a queue. Gives its other end, and what ends when that is dropped.
    pub(super) fn open(
        &mut self,
        id: StreamId,
    ) -> (mpsc::Receiver<SchedulerEvent>, impl Future<Output = StreamId> + Send + use<>) {
        let (sender, receiver) = mpsc::channel(STREAM_EVENTS_MAX);
        let is_over = CancellationToken::new();
        let watched = sender.clone();
        let (guard, own_id) = (is_over.clone().drop_guard(), id.clone());
        let watcher = async move {
            // Either arm may be dropped: both only wait.
            tokio::select! {
                () = watched.closed() => {}
                () = is_over.cancelled() => {}
            }
            own_id
        };
        self.by_id.insert(id, Stream { sender, _watcher: guard });
        (receiver, watcher)
    }

    /// Ends a stream after what was said.
    pub(super) fn end(&mut self, id: &StreamId) {
        self.by_id.remove(id);
    }

    /// Queues an event. False when the stream is gone or its queue ran over; it is then ended.
    pub(super) fn say(&mut self, id: &StreamId, event: SchedulerEvent) -> bool {
        let Some(stream) = self.by_id.get(id) else { return false };
        let is_said = stream.sender.try_send(event);
        if let Err(error) = &is_said {
            if matches!(error, mpsc::error::TrySendError::Full(_)) {
                tracing::warn!(stream = %id, "a scheduler does not read; its stream is ended");
            }
            self.end(id);
        }
        is_said.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn slow_reader_loses_its_stream_and_nothing_that_was_queued() {
        let mut streams = Streams::default();
        let id = StreamId::parse("x").unwrap();
        let (mut slow, watcher) = streams.open(id.clone());
        let (quick, _watcher) = streams.open(StreamId::parse("y").unwrap());
        for _ in 0..STREAM_EVENTS_MAX {
            assert!(streams.say(&id, SchedulerEvent::Heartbeat));
        }
        assert!(!streams.say(&id, SchedulerEvent::Heartbeat));
        assert_eq!(watcher.await, id);
        let mut heard = 0;
        while slow.recv().await.is_some() {
            heard += 1;
        }
        assert_eq!(heard, STREAM_EVENTS_MAX);
        assert!(!quick.is_closed(), "nobody else is disturbed");
    }

    #[tokio::test]
    async fn reader_that_goes_is_noticed() {
        let mut streams = Streams::default();
        let id = StreamId::parse("x").unwrap();
        let (reader, watcher) = streams.open(id.clone());
        drop(reader);
        assert_eq!(watcher.await, id);
        assert!(!streams.say(&id, SchedulerEvent::Heartbeat));
    }
}
