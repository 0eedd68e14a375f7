//! What a drill asked for and how each call ended, and from that what must be found again. Knows
//! nothing of HTTP. Next: `observe.rs`.

use std::collections::BTreeMap;

use crate::client::Outcome;

/// One thing that a drill makes and removes. Each has a name of its own, so that whatever is
/// found can be told apart from everything else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// A reservation of [`MARK`] under its own label.
    Mark {
        /// The label.
        label: String,
    },
    /// Reserved disk of [`POOL_MILLI`] under its own label; volumes are cut from it.
    Pool {
        /// The label.
        label: String,
    },
    /// A volume cut from a pool.
    Volume {
        /// Label of the pool.
        pool: String,
        /// `persistence.id`.
        id: String,
        /// Size in thousandths of a MB.
        milli: i64,
    },
}

/// What one mark reserves, in thousandths: two resources, so that half of a call would be seen.
pub const MARK: [(&str, i64); 2] = [("disk", 1), ("mem", 1)];

/// Size of a pool in thousandths of a MB.
pub const POOL_MILLI: i64 = 16_000;

/// What must be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// Nothing of it.
    Absent,
    /// All of it, once.
    Present,
    /// All of it once, or nothing: the outcome of a call on it is unknown.
    Either,
}

/// Whether a call makes its object or removes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// RESERVE or CREATE.
    Make,
    /// DESTROY or UNRESERVE.
    Remove,
}

/// An object on the agent at that place of the cluster's list.
pub type Subject = (usize, Object);

/// Everything asked for so far.
#[derive(Debug, Clone, Default)]
pub struct History {
    expectations: BTreeMap<Subject, Expectation>,
    /// Calls answered with 202.
    pub acknowledged: usize,
    /// Calls whose outcome is unknown.
    pub unknown: usize,
    /// Calls refused though nothing should refuse them, with the answer.
    pub refused: Vec<String>,
}

impl History {
    /// Adds one ended call.
    pub fn record(&mut self, subject: &Subject, change: Change, outcome: &Outcome) {
        let expectation = match (outcome, change) {
            (Outcome::Accepted, Change::Make) => {
                self.acknowledged += 1;
                Expectation::Present
            }
            (Outcome::Accepted, Change::Remove) => {
                self.acknowledged += 1;
                Expectation::Absent
            }
            (Outcome::Unknown { reason }, _) => {
                tracing::debug!("outcome of {change:?} {:?} is unknown: {reason}", subject.1);
                self.unknown += 1;
                Expectation::Either
            }
            (Outcome::Refused { status, text }, _) => {
                self.refused.push(format!("{change:?} {:?}: {status} {text}", subject.1));
                return;
            }
            (Outcome::NotExecuted { .. }, _) => return,
        };
        self.expectations.insert(subject.clone(), expectation);
    }

    /// What is expected of `subject`.
    #[must_use]
    pub fn expectation(&self, subject: &Subject) -> Expectation {
        self.expectations.get(subject).copied().unwrap_or(Expectation::Absent)
    }

    /// Every object a call was made for, with what is expected of it.
    pub fn iter(&self) -> impl Iterator<Item = (&Subject, Expectation)> {
        self.expectations.iter().map(|(subject, expectation)| (subject, *expectation))
    }

    /// Replaces what is expected of objects whose outcome was unknown by what was found.
    pub fn settle(&mut self, settled: Vec<(Subject, Expectation)>) {
        self.expectations.extend(settled);
    }

    /// How many objects are asked about.
    #[must_use]
    pub fn len(&self) -> usize {
        self.expectations.len()
    }

    /// Whether nothing was asked for yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.expectations.is_empty()
    }
}
