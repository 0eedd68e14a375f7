//! What is to be said on a stream and is many: a queue takes only so much, and a scheduler that
//! asks for ten thousand statuses is no slow reader. Said in slices, one per tick, each word as
//! it stands by then. Next: `../scheduling.rs`.

use std::collections::VecDeque;

use resources::id::{AgentId, OperationId, TaskId};

/// Words that may be said between two ticks, far fewer than a stream's queue holds.
const SLICE: usize = 1_024;
/// Words that may wait: more are asked for again by whoever asked.
const WAITING_MAX: usize = 131_072;

/// A word that is made when its turn comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::leader) enum Later {
    /// Where a task stands, and where it is believed to be.
    Task(TaskId, Option<AgentId>),
    /// Where an operation stands, and where it is believed to be.
    Operation(OperationId, Option<AgentId>),
    /// A task's status that was not acknowledged.
    Status(TaskId),
    /// The final status of an operation that was not acknowledged.
    Feedback(OperationId),
}

/// The words that wait.
#[derive(Debug)]
pub(in crate::leader) struct Backlog {
    waiting: VecDeque<Later>,
    /// How many more may be said before the next tick.
    credit: usize,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), credit: SLICE }
    }
}

impl Backlog {
    pub(in crate::leader) fn extend(&mut self, words: impl IntoIterator<Item = Later>) {
        let room = WAITING_MAX.saturating_sub(self.waiting.len());
        self.waiting.extend(words.into_iter().take(room));
    }
    /// Time has passed.
    pub(in crate::leader) fn refill(&mut self) {
        self.credit = SLICE;
    }
    /// The next words, as many as may be said now.
    pub(in crate::leader) fn take(&mut self) -> Vec<Later> {
        let count = self.credit.min(self.waiting.len());
        self.credit -= count;
        self.waiting.drain(..count).collect()
    }
}
