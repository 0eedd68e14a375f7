//! Parts of a scheduler's calls as plain values (spec §4.4, §4.5). The calls themselves are put
//! together where they are answered. Next: `convert/agent.rs`.

use std::collections::BTreeSet;
use std::time::Duration;

use resources::id::{AgentId, ExecutorId, FrameworkId, OfferId, OperationId, TaskId};
use resources::role::Role;

use crate::convert::InvalidWire;
use crate::mesos::v1;
use crate::mesos::v1::scheduler::Call;

/// How long resources are refused when nothing valid is said.
const REFUSE_DEFAULT: Duration = Duration::from_secs(5);
/// How long they are refused at most.
const REFUSE_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How long offered resources are not wanted again. Nothing, a negative time and what is no
/// number stand for the default.
#[must_use]
pub fn refuse(filters: Option<&v1::Filters>) -> Duration {
    let Some(seconds) = filters.and_then(|filters| filters.refuse_seconds) else {
        return REFUSE_DEFAULT;
    };
    if seconds.is_nan() || seconds < 0.0 {
        return REFUSE_DEFAULT;
    }
    Duration::try_from_secs_f64(seconds).map_or(REFUSE_MAX, |refuse| refuse.min(REFUSE_MAX))
}

/// How long a task may take to end by itself. A negative time is none at all.
#[must_use]
pub fn grace(policy: Option<&v1::KillPolicy>) -> Option<Duration> {
    let grace = policy?.grace_period.as_ref()?;
    Some(Duration::from_nanos(u64::try_from(grace.nanoseconds).unwrap_or_default()))
}

/// The roles of REVIVE or SUPPRESS; none when one of them is no role, which makes the whole
/// call one that is ignored.
#[must_use]
pub fn roles(texts: &[String]) -> Option<BTreeSet<Role>> {
    texts.iter().map(|text| Role::parse(text.as_str()).ok()).collect()
}

/// The offers of a call. A name that no offer can have is one that none has.
#[must_use]
pub fn offer_ids(wire: &[v1::OfferId]) -> Vec<OfferId> {
    let nobody = || OfferId::parse("no offer").expect("a constant of the form of an id");
    wire.iter().map(|id| OfferId::parse(id.value.as_str()).unwrap_or_else(|_| nobody())).collect()
}

/// The framework that a call says it is of; none when it says nothing or what no id can be.
#[must_use]
pub fn framework_id(call: &Call) -> Option<FrameworkId> {
    FrameworkId::parse(call.framework_id.as_ref()?.value.as_str()).ok()
}

/// An agent.
///
/// # Errors
/// When it has not the form of an id.
pub fn agent_id(wire: &v1::AgentId) -> Result<AgentId, InvalidWire> {
    AgentId::parse(wire.value.as_str()).map_err(InvalidWire::AgentId)
}

/// An agent that need not be named.
///
/// # Errors
/// As [`agent_id`].
pub fn optional_agent_id(wire: Option<&v1::AgentId>) -> Result<Option<AgentId>, InvalidWire> {
    wire.map(agent_id).transpose()
}

/// A task.
///
/// # Errors
/// When it has not the form of an id.
pub fn task_id(wire: &v1::TaskId) -> Result<TaskId, InvalidWire> {
    let id = TaskId::parse(wire.value.as_str());
    id.map_err(|source| InvalidWire::Id { field: "task_id", source })
}

/// An executor.
///
/// # Errors
/// When it has not the form of an id.
pub fn executor_id(wire: &v1::ExecutorId) -> Result<ExecutorId, InvalidWire> {
    let id = ExecutorId::parse(wire.value.as_str());
    id.map_err(|source| InvalidWire::Id { field: "executor_id", source })
}

/// A framework's own name for an operation.
///
/// # Errors
/// When it has not the form of an id.
pub fn operation_id(wire: &v1::OperationId) -> Result<OperationId, InvalidWire> {
    let id = OperationId::parse(wire.value.as_str());
    id.map_err(|source| InvalidWire::Id { field: "operation_id", source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals() {
        #[track_caller]
        fn check(seconds: Option<f64>, expected: Duration) {
            let filters = v1::Filters { refuse_seconds: seconds };
            assert_eq!(refuse(Some(&filters)), expected);
        }
        assert_eq!(refuse(None), REFUSE_DEFAULT);
        check(None, REFUSE_DEFAULT);
        check(Some(0.0), Duration::ZERO);
        check(Some(0.25), Duration::from_millis(250));
        for bad in [-1.0, f64::NAN, f64::NEG_INFINITY] {
            check(Some(bad), REFUSE_DEFAULT);
        }
        for long in [4e7, 1e300, f64::INFINITY] {
            check(Some(long), REFUSE_MAX);
        }
    }

    #[test]
    fn names_of_the_wrong_form() {
        let wire = |value: &str| v1::OfferId { value: value.to_owned() };
        let ids = offer_ids(&[wire("a/b"), wire("o1")]);
        assert_eq!(ids[1].as_str(), "o1");
        assert_ne!(ids[0], ids[1]);
        assert_eq!(roles(&["a".to_owned(), "/".to_owned()]), None);
        assert_eq!(roles(&[]), Some(BTreeSet::new()));
        let negative = v1::KillPolicy { grace_period: Some(v1::DurationInfo { nanoseconds: -5 }) };
        assert_eq!(grace(Some(&negative)), Some(Duration::ZERO));
        assert_eq!(grace(None), None);
    }
}
