//! What the edge counts as it happens: answers by class, refusals by reason, accepted
//! operations. Next: `../metrics.rs`.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use resources::operation::Operation;

use super::Sample;
use super::facts::{OPERATIONS, kind};

/// Classes of HTTP answers.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// Why calls are refused, by the status of the answer. The last one is every other status from
/// 400 on.
const REFUSALS: [(&str, u16); 11] = [
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
    responses: [AtomicU64; CLASSES.len()],
    refusals: [AtomicU64; REFUSALS.len()],
    accepted: [AtomicU64; OPERATIONS.len()],
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
        let kind = kind(operation);
        if let Some(at) = OPERATIONS.iter().position(|known| Some(*known) == kind) {
            self.accepted[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The numbers of this moment.
    pub(super) fn samples(&self) -> Vec<Sample> {
        let count = |family, help, (name, label), counter: &AtomicU64| {
            Sample::counter(family, help, counter.load(Ordering::Relaxed)).label(name, label)
        };
        let responses = CLASSES.into_iter().zip(&self.responses).map(|(class, counter)| {
            count("master_http_responses_total", "Answers of the API.", ("class", class), counter)
        });
        let refusals = REFUSALS.into_iter().zip(&self.refusals).map(|((reason, _), counter)| {
            count("master_http_refusals_total", "Refusals by reason.", ("reason", reason), counter)
        });
        let accepted = OPERATIONS.into_iter().zip(&self.accepted).map(|(kind, counter)| {
            let help = "Operations answered with 202.";
            count("master_operations_accepted_total", help, ("operation", kind), counter)
        });
        responses.chain(refusals).chain(accepted).collect()
    }
}
