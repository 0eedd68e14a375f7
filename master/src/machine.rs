//! The replicated state as a machine for `raft`: one batch is one entry. Holds no decision.
//! Next: `leader/mod.rs`.

use raft::{Batch, Chunk, CorruptSnapshot, Machine};
use resources::id::LogIndex;

use crate::state::command::{Command, Effect, Response};
use crate::state::{Frozen, Moment, State, codec};

/// This master's copy of the state.
#[derive(Debug, Default)]
pub struct Replica {
    state: State,
}

impl Replica {
    /// The state as of the last applied entry.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The same state for a cluster that was restored from a backup.
    #[must_use]
    pub fn into_restored(self) -> State {
        let mut state = self.state;
        state.mark_restored();
        state
    }
}

impl Machine for Replica {
    type Command = Command;
    type Response = Response;
    type Effect = Effect;
    type Frozen = Frozen;

    fn apply(&mut self, index: LogIndex, batch: &Batch<Command>) -> Vec<(Response, Vec<Effect>)> {
        let now = Moment { index, clock: batch.at, wall: batch.wall };
        batch.commands.iter().map(|command| self.state.apply(now, command)).collect()
    }

    fn freeze(&self) -> Frozen {
        self.state.freeze()
    }

    fn chunks(frozen: &Frozen) -> impl Iterator<Item = Chunk> {
        codec::chunks(frozen).map(Chunk)
    }

    fn thaw(chunks: impl Iterator<Item = Chunk>) -> Result<Self, CorruptSnapshot> {
        let state = codec::thaw(chunks.map(|chunk| chunk.0)).map_err(CorruptSnapshot::new)?;
        Ok(Self { state })
    }
}
