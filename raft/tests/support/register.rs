//! A map of numbers as the replicated machine.

use std::collections::BTreeMap;

use raft::{Batch, Chunk, CorruptSnapshot, Machine};
use resources::id::LogIndex;
use resources::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Keys and values, and where each key was written.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Register(BTreeMap<u64, (u64, LogIndex)>);

impl Register {
    /// The value and the position of its entry.
    pub(crate) fn get(&self, key: u64) -> Option<(u64, LogIndex)> {
        self.0.get(&key).copied()
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Writes `value` under `key`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Put {
    /// The key.
    pub(crate) key: u64,
    /// The value.
    pub(crate) value: u64,
    /// Makes the entry as large as a test wants.
    #[serde(default)]
    pub(crate) padding: String,
}

/// The value before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replaced(pub(crate) Option<u64>);

impl Machine for Register {
    type Command = Put;
    type Response = Replaced;
    /// The key that changed.
    type Effect = u64;
    type Frozen = Register;

    fn apply(&mut self, index: LogIndex, batch: &Batch<Put>) -> Vec<(Replaced, Vec<u64>)> {
        let put = |put: &Put| {
            let before = self.0.insert(put.key, (put.value, index));
            (Replaced(before.map(|(value, _)| value)), vec![put.key])
        };
        batch.commands.iter().map(put).collect()
    }
    fn freeze(&self) -> Register {
        self.clone()
    }
    fn chunks(frozen: &Register) -> impl Iterator<Item = Chunk> {
        let rows: Vec<_> = frozen.0.iter().collect();
        let chunks: Vec<Chunk> = rows
            .chunks(16)
            .map(|rows| {
                let line = |(key, (value, index)): &(&u64, &(u64, LogIndex))| {
                    format!("{key} {value} {index}\n")
                };
                Chunk(rows.iter().map(line).collect::<String>().into_bytes())
            })
            .collect();
        chunks.into_iter()
    }
    fn thaw(chunks: impl Iterator<Item = Chunk>) -> Result<Self, CorruptSnapshot> {
        let mut register = Self::default();
        for Chunk(bytes) in chunks {
            let text = String::from_utf8(bytes).map_err(CorruptSnapshot::new)?;
            for line in text.lines() {
                let numbers: Vec<u64> = line
                    .split(' ')
                    .map(|number| number.parse().map_err(CorruptSnapshot::new))
                    .collect::<Result<_, _>>()?;
                let [key, value, index] = numbers[..] else {
                    return Err(CorruptSnapshot::new(line));
                };
                register.0.insert(key, (value, LogIndex(index)));
            }
        }
        Ok(register)
    }
}

/// A batch with one write.
pub(crate) fn put(key: u64, value: u64) -> Batch<Put> {
    padded(key, value, 0)
}

/// A batch with one write of about this many bytes.
pub(crate) fn padded(key: u64, value: u64, bytes: usize) -> Batch<Put> {
    let at = Timestamp::from_nanos(key);
    Batch { at, wall: at, commands: vec![Put { key, value, padding: "x".repeat(bytes) }] }
}
