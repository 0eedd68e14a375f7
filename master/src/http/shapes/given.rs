//! What frameworks said of themselves, their tasks and executors, read back from the messages
//! as they came: nobody else looks at it. Pure. Must not know an answer's form. Next: `task.rs`.

use prost::{Message, Name};
use proto::mesos::v1;
use serde_json::Value;

use super::Amount;
use crate::state::frameworks::Framework;
use crate::state::tasks::{Executor, Task};

/// The message of a task. One that cannot be read is empty: it was checked when it came.
pub(crate) fn task(task: &Task) -> v1::TaskInfo {
    v1::TaskInfo::decode(task.info.as_bytes()).unwrap_or_default()
}

/// The message of an executor.
pub(crate) fn executor(executor: &Executor) -> v1::ExecutorInfo {
    v1::ExecutorInfo::decode(executor.info.wire.as_bytes()).unwrap_or_default()
}

/// The message of a framework.
pub(crate) fn framework(framework: &Framework) -> v1::FrameworkInfo {
    v1::FrameworkInfo::decode(framework.info.wire.as_bytes()).unwrap_or_default()
}

/// A framework's constraints on agents, if it gave any.
pub(crate) fn constraints(framework: &Framework) -> Option<v1::scheduler::OfferConstraints> {
    let given = framework.constraints.as_bytes();
    (!given.is_empty()).then(|| v1::scheduler::OfferConstraints::decode(given).ok())?
}

/// Whom a task says that it runs as; its framework's user when nobody.
pub(crate) fn user(task: &v1::TaskInfo) -> Option<String> {
    let own = task.command.as_ref().and_then(|command| command.user.clone());
    let executor = || task.executor.as_ref()?.command.as_ref()?.user.clone();
    own.or_else(executor)
}

/// A message as a JSON value with Mesos' rules.
pub(super) fn json<M: Message + Name>(message: &M) -> Value {
    serde_json::from_slice(&proto::json::encode(message)).unwrap_or_default()
}

/// Labels as the list that the unversioned endpoints print.
pub(super) fn labels(labels: &v1::Labels) -> Vec<Value> {
    labels.labels.iter().map(json).collect()
}

/// A limit of a task; infinite ones have no JSON number.
pub(super) fn limit(limit: &v1::value::Scalar) -> Amount {
    match limit.value.is_finite() {
        true => Amount::Number(limit.value),
        false => Amount::Text("Infinity".to_owned()),
    }
}
