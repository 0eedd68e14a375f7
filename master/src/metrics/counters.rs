//! What is counted as it happens: answers by class, refusals by reason, accepted operations.
//! Must not know the names under which it is published. Next: `../metrics.rs`.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use resources::operation::Operation;

use super::facts::{OPERATIONS, kind};

/// Classes of HTTP answers.
pub(super) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// Why calls are refused, by the status of the answer. The last one is every other status from
/// 400 on.
pub(super) const REFUSALS: [(&str, u16); 11] = [
    ("bad_request", 400),
    ("unauthenticated", 401),
    ("forbidden", 403),
    ("not_found", 404),
    ("conflict", 409),
    ("precondition_failed", 412),
    ("key_reused", 422),
    ("too_many_keys", 429),
    ("unavailable", 503),
    ("outcome_unknown", 504),
    ("other", 0),
];

/// Counts since the start of the process.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(super) responses: [AtomicU64; CLASSES.len()],
    pub(super) refusals: [AtomicU64; REFUSALS.len()],
    pub(super) accepted: [AtomicU64; OPERATIONS.len()],
}

impl Counters {
    /// Takes note of an answer.
    pub(crate) fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(counter) = self.responses.get(class) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if status.as_u16() >= 400 {
            let reason = REFUSALS.iter().position(|(_, code)| *code == status.as_u16());
            let reason = reason.unwrap_or(REFUSALS.len() - 1);
            self.refusals[reason].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes note of an operation that was answered with 202; a repeat under a key counts again.
    pub(crate) fn accepted(&self, operation: &Operation) {
        if let Some(at) = OPERATIONS.iter().position(|known| *known == kind(operation)) {
            self.accepted[at].fetch_add(1, Ordering::Relaxed);
        }
    }
}
