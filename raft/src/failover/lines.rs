//! Accepted connections, by the process at their other end, and the moment in which the last
//! one of a process ends. Must not know who leads. Next: `probe.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// One life of a peer's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Incarnation {
    pub(crate) node: u64,
    /// Drawn anew by each start.
    pub(crate) boot: u64,
}

/// All accepted connections of this node.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// Open connections of each process that has any.
    open: Mutex<BTreeMap<Incarnation, usize>>,
    lost: Notify,
    ended: Notify,
}

impl Lines {
    /// A connection that was just accepted; nobody has said who is at its other end.
    pub(crate) fn accept(self: &Arc<Self>) -> Line {
        Line(Arc::new(End { lines: self.clone(), state: Mutex::new(State::Unclaimed) }))
    }

    /// Whether the process has a connection.
    pub(crate) fn has(&self, process: Incarnation) -> bool {
        self.open.lock().contains_key(&process)
    }

    /// Waits until the last connection of some process has ended since the last call. For one
    /// waiter; an end that nobody waited for is kept.
    pub(crate) async fn lost(&self) {
        self.lost.notified().await;
    }

    /// Waits until the process has no connection, at most `patience`.
    pub(crate) async fn wait_for_end(&self, process: Incarnation, patience: Duration) {
        let waiting = async {
            loop {
                // Before the look, so that an end between the two is not missed.
                let ended = self.ended.notified();
                if !self.has(process) {
                    return;
                }
                ended.await;
            }
        };
        // Whoever waited looks for itself.
        let _ = tokio::time::timeout(patience, waiting).await;
    }

    fn add(&self, process: Incarnation) {
        *self.open.lock().entry(process).or_default() += 1;
    }

    fn remove(&self, process: Incarnation) {
        {
            let mut open = self.open.lock();
            let count = open.get_mut(&process).expect("each end was added once");
            *count -= 1;
            if *count > 0 {
                return;
            }
            open.remove(&process);
        }
        self.lost.notify_one();
        self.ended.notify_waiters();
    }
}

/// One accepted connection. Clones are handles on the same one.
#[derive(Debug, Clone)]
pub(crate) struct Line(Arc<End>);

#[derive(Debug)]
struct End {
    lines: Arc<Lines>,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unclaimed,
    Claimed(Incarnation),
    Closed,
}

impl Line {
    /// A call on this connection told whose it is. Later claims change nothing.
    pub(crate) fn claim(&self, process: Incarnation) {
        let mut state = self.0.state.lock();
        if *state == State::Unclaimed {
            *state = State::Claimed(process);
            self.0.lines.add(process);
        }
    }

    /// Its end was seen.
    pub(crate) fn close(&self) {
        let before = std::mem::replace(&mut *self.0.state.lock(), State::Closed);
        if let State::Claimed(process) = before {
            self.0.lines.remove(process);
        }
    }

    /// Whether its end was not seen yet. What was sent before the end may be read after it.
    pub(crate) fn is_open(&self) -> bool {
        *self.0.state.lock() != State::Closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Incarnation = Incarnation { node: 1, boot: 10 };

    fn is_lost(lines: &Lines) -> bool {
        futures::FutureExt::now_or_never(lines.lost()).is_some()
    }

    #[test]
    fn last_end_of_a_process_is_told() {
        let lines = Arc::new(Lines::default());
        let (first, second) = (lines.accept(), lines.accept());
        first.claim(ONE);
        first.claim(ONE);
        second.claim(ONE);
        first.close();
        assert!(lines.has(ONE) && !is_lost(&lines));
        second.close();
        second.close();
        assert!(!lines.has(ONE) && is_lost(&lines));
        assert!(!is_lost(&lines), "told once");
    }

    #[test]
    fn unclaimed_connections_are_nobodys() {
        let lines = Arc::new(Lines::default());
        let line = lines.accept();
        line.close();
        assert!(!is_lost(&lines) && !line.is_open());
        line.claim(ONE);
        assert!(!lines.has(ONE), "an end is final");
    }

    #[test]
    fn lives_of_one_node_are_told_apart() {
        let lines = Arc::new(Lines::default());
        let (old, new) = (lines.accept(), lines.accept());
        old.claim(ONE);
        new.claim(Incarnation { boot: 11, ..ONE });
        old.close();
        assert!(!lines.has(ONE) && is_lost(&lines));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_an_end_has_an_end() {
        let lines = Arc::new(Lines::default());
        let line = lines.accept();
        line.claim(ONE);
        let patience = Duration::from_secs(5);
        lines.wait_for_end(ONE, patience).await;
        assert!(lines.has(ONE));
        let closing = async { line.close() };
        tokio::join!(lines.wait_for_end(ONE, patience), closing);
        assert!(!lines.has(ONE));
    }
}
