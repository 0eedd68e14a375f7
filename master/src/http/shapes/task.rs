//! A task as `/tasks` and `/state` show it (spec §6.2). Pure. Next: `executor.rs`.

use std::collections::BTreeMap;

use proto::convert;
use resources::task::{TaskState, TaskStatus};
use serde::Serialize;
use serde_json::Value;

use super::{Amount, Summary, given, seconds};
use crate::state::tasks::Task;

/// A task.
#[derive(Debug, Serialize)]
pub(crate) struct TaskShape<'a> {
    id: &'a str,
    name: &'a str,
    framework_id: &'a str,
    /// Empty for a command.
    executor_id: &'a str,
    slave_id: &'a str,
    state: &'static str,
    resources: Summary<'a>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    limits: BTreeMap<String, Amount>,
    role: &'a str,
    /// The last one alone: the ones before are not kept.
    statuses: Vec<StatusShape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    discovery: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health_check: Option<Value>,
}

/// What was said of a task.
#[derive(Debug, Serialize)]
struct StatusShape {
    state: &'static str,
    timestamp: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_status: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    healthy: Option<bool>,
}

impl<'a> TaskShape<'a> {
    pub(crate) fn of(task: &'a Task) -> Self {
        let info = given::task(task);
        let limits = info.limits.iter();
        Self {
            id: task.task_id.as_str(),
            name: &task.name,
            framework_id: task.framework_id.as_str(),
            executor_id: task.executor_id.as_ref().map_or("", |id| id.as_str()),
            slave_id: task.agent_id.as_str(),
            state: task.state.as_str(),
            resources: Summary::of(&task.resources),
            limits: limits.map(|(name, limit)| (name.clone(), given::limit(limit))).collect(),
            role: task.role.as_str(),
            statuses: task.status.as_deref().map(StatusShape::of).into_iter().collect(),
            user: given::user(&info),
            labels: info.labels.as_ref().map(given::labels),
            discovery: info.discovery.as_ref().map(given::json),
            container: info.container.as_ref().map(given::json),
            health_check: info.health_check.as_ref().map(given::json),
        }
    }
}

impl StatusShape {
    fn of(status: &TaskStatus) -> Self {
        let wire = convert::status::to_wire(status);
        Self {
            state: status.state.as_str(),
            timestamp: seconds(status.at),
            labels: wire.labels.as_ref().map(given::labels),
            container_status: wire.container_status.as_ref().map(given::json),
            healthy: status.healthy,
        }
    }
}

/// States that `/state-summary` counts, in Mesos' order.
pub(crate) const COUNTED: [TaskState; 10] = [
    TaskState::Staging,
    TaskState::Starting,
    TaskState::Running,
    TaskState::Killing,
    TaskState::Finished,
    TaskState::Killed,
    TaskState::Failed,
    TaskState::Lost,
    TaskState::Error,
    TaskState::Unreachable,
];

/// How many tasks stand in each of these states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts([u64; COUNTED.len()]);

impl Counts {
    /// Counts a task, if its state is among these.
    pub(crate) fn count(&mut self, task: &Task) {
        if let Some(at) = COUNTED.iter().position(|state| *state == task.state) {
            self.0[at] += 1;
        }
    }

    /// Each state with its count.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        COUNTED.iter().map(|state| state.as_str()).zip(self.0)
    }
}

impl Serialize for Counts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}
