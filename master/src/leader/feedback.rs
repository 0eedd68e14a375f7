//! Final statuses of operations that wait for their framework's acknowledgement: said again
//! after ten seconds, and each time after twice as long, up to ten minutes (spec §4.6). What is
//! said stands in the state; here is only when. Next: `answers.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use resources::id::{FrameworkId, OperationId};
use resources::time::Timestamp;

/// Wait before the first repeat.
const FIRST: Duration = Duration::from_secs(10);
/// Longest wait.
const LONGEST: Duration = Duration::from_secs(600);

/// When what is said again. Only of frameworks that are there.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    waits: BTreeMap<FrameworkId, BTreeMap<OperationId, Wait>>,
    due: BTreeSet<(Timestamp, FrameworkId, OperationId)>,
}

#[derive(Debug, Clone, Copy)]
struct Wait {
    until: Timestamp,
    lasts: Duration,
}

impl Repeats {
    /// It was said just now.
    pub(super) fn said(
        &mut self,
        framework_id: &FrameworkId,
        own_id: &OperationId,
        now: Timestamp,
    ) {
        let own = self.waits.entry(framework_id.clone()).or_default();
        let before = own.get(own_id).copied();
        let lasts = before.map_or(FIRST, |wait| (wait.lasts * 2).min(LONGEST));
        let wait = Wait { until: now + lasts, lasts };
        own.insert(own_id.clone(), wait);
        if let Some(before) = before {
            self.due.remove(&(before.until, framework_id.clone(), own_id.clone()));
        }
        self.due.insert((wait.until, framework_id.clone(), own_id.clone()));
    }
    /// What is to be said again now.
    pub(super) fn due(&self, now: Timestamp) -> Vec<(FrameworkId, OperationId)> {
        let due = self.due.iter().take_while(|(until, ..)| *until <= now);
        due.map(|(_, framework_id, own_id)| (framework_id.clone(), own_id.clone())).collect()
    }
    /// It is about to be said again: it is due no longer, and how long it waited is kept.
    pub(super) fn taken(&mut self, framework_id: &FrameworkId, own_id: &OperationId) {
        let own = self.waits.get(framework_id).and_then(|own| own.get(own_id));
        if let Some(wait) = own {
            self.due.remove(&(wait.until, framework_id.clone(), own_id.clone()));
        }
    }
    /// It needs no repeat any more.
    pub(super) fn over(&mut self, framework_id: &FrameworkId, own_id: &OperationId) {
        let Some(own) = self.waits.get_mut(framework_id) else { return };
        if let Some(wait) = own.remove(own_id) {
            self.due.remove(&(wait.until, framework_id.clone(), own_id.clone()));
        }
        if own.is_empty() {
            self.waits.remove(framework_id);
        }
    }
    /// The framework is there no more, or anew: its waits begin again.
    pub(super) fn forget(&mut self, framework_id: &FrameworkId) {
        for (own_id, wait) in self.waits.remove(framework_id).unwrap_or_default() {
            self.due.remove(&(wait.until, framework_id.clone(), own_id));
        }
    }
}
