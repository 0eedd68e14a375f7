//! An executor as `/state` shows it (spec §6.2). Pure. Next: `framework.rs`.

use proto::mesos::v1;
use serde::Serialize;
use serde_json::Value;

use super::{Summary, given};
use crate::http::usage::Running;

/// An executor.
#[derive(Debug, Serialize)]
pub(crate) struct ExecutorShape<'a> {
    executor_id: &'a str,
    name: String,
    framework_id: &'a str,
    command: Value,
    resources: Summary<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<Vec<Value>>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    slave_id: &'a str,
}

impl<'a> ExecutorShape<'a> {
    pub(crate) fn of(running: &Running<'a>) -> Self {
        let Running { agent_id, name, executor } = *running;
        let info = given::executor(executor);
        let kind = info.r#type.and_then(|kind| v1::executor_info::Type::try_from(kind).ok());
        Self {
            executor_id: name.executor_id.as_str(),
            name: info.name.clone().unwrap_or_default(),
            framework_id: name.framework_id.as_str(),
            command: given::json(&info.command.clone().unwrap_or_default()),
            resources: Summary::of(&executor.info.resources),
            role: (!executor.info.resources.is_empty()).then(|| executor.role.as_str()),
            labels: info.labels.as_ref().map(given::labels),
            kind: kind.map(|kind| kind.as_str_name()),
            slave_id: agent_id.as_str(),
        }
    }
}
