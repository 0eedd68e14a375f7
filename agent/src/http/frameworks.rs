//! The part of the agent's `/state` that is about frameworks, executors and tasks (spec §6.3),
//! and what volumes hold. Pure. Next: `http/state.rs`.

use prost::{Message, Name};
use serde_json::{Value, json};

use proto::json as wire_json;
use resources::collection::Resources;
use resources::id::FrameworkId;

use super::shapes::{executor_info, framework_info, stored, task};
use super::state::summary;
use crate::core::tasks::row::{ExecutorKind, FrameworkRow};
use crate::driver::{ExecutorView, TaskView, View};

/// A message as everybody's readers see it.
fn shown<M: Message + Name>(message: &M) -> Value {
    serde_json::from_slice(&wire_json::encode(message)).unwrap_or_default()
}

/// Frameworks with something here.
pub(super) fn frameworks(view: &View) -> Value {
    view.frameworks.iter().map(|(id, row)| framework(view, id, row)).collect()
}

/// Frameworks of which only ended tasks are remembered.
pub(super) fn completed_frameworks(view: &View) -> Value {
    let ended = view.completed_executors.iter().map(|executor| &executor.name.framework_id);
    let mut ids: Vec<&FrameworkId> = ended.filter(|id| !view.frameworks.contains_key(id)).collect();
    ids.sort();
    ids.dedup();
    let framework = |id: &FrameworkId| {
        json!({
            "id": id.to_string(),
            "executors": [],
            "completed_executors": executors(view, id, &view.completed_executors),
        })
    };
    ids.into_iter().map(framework).collect()
}

fn framework(view: &View, id: &FrameworkId, row: &FrameworkRow) -> Value {
    let info = framework_info(id, row);
    let mut shown = json!({
        "id": id.to_string(),
        "name": info.name,
        "user": info.user,
        "failover_timeout": info.failover_timeout(),
        "checkpoint": info.checkpoint(),
        "hostname": info.hostname(),
        "roles": if info.roles.is_empty() { vec![info.role().to_owned()] } else {
            info.roles.clone()
        },
        "executors": executors(view, id, &view.executors),
        "completed_executors": executors(view, id, &view.completed_executors),
    });
    if let (Some(principal), Value::Object(shown)) = (&info.principal, &mut shown) {
        shown.insert("principal".to_owned(), json!(principal));
    }
    shown
}

fn executors(view: &View, id: &FrameworkId, list: &[ExecutorView]) -> Value {
    let own = list.iter().filter(|executor| executor.name.framework_id == *id);
    own.map(|found| executor(view, found)).collect()
}

fn executor(view: &View, executor: &ExecutorView) -> Value {
    let info = executor_info(executor);
    let own = |list: &[TaskView], wanted: &dyn Fn(&TaskView) -> bool| -> Value {
        let its = list.iter().filter(|task| executor.is_of(task) && wanted(task));
        its.map(|found| task_value(view, found)).collect()
    };
    let is_custom = executor.row.kind == ExecutorKind::Custom;
    let is_queued = |task: &TaskView| {
        is_custom && !task.status.is_delivered && !task.status.state.is_terminal()
    };
    let resources: Resources = executor.row.info.iter().flat_map(|info| &info.resources).collect();
    let mut shown = json!({
        "id": executor.name.executor_id.to_string(),
        "name": info.name(),
        "source": info.source.clone().unwrap_or_default(),
        "container": executor.row.container,
        "directory": executor.directory.display().to_string(),
        "resources": summary(&resources),
        "role": executor.row.role.to_string(),
        "tasks": own(&view.tasks, &|task| !is_queued(task)),
        "queued_tasks": own(&view.tasks, &is_queued),
        "completed_tasks": own(&view.completed_tasks, &|_| true),
    });
    if let Value::Object(shown) = &mut shown {
        if let Some(labels) = &info.labels {
            shown.insert("labels".to_owned(), self::shown(labels)["labels"].clone());
        }
        if let Some(kind) = info.r#type {
            let name = proto::mesos::v1::executor_info::Type::try_from(kind);
            shown.insert("type".to_owned(), json!(name.unwrap_or_default().as_str_name()));
        }
    }
    shown
}

fn task_value(view: &View, found: &TaskView) -> Value {
    let wire = task(found, view);
    let resources: Resources = found.row.info.resources.iter().collect();
    let statuses = wire.statuses.iter().map(|status| {
        let mut shown = json!({
            "state": found.status.state.as_str(),
            "timestamp": status.timestamp(),
        });
        if let Value::Object(shown) = &mut shown {
            if let Some(healthy) = status.healthy {
                shown.insert("healthy".to_owned(), json!(healthy));
            }
            if let Some(container) = &status.container_status {
                shown.insert("container_status".to_owned(), self::shown(container));
            }
        }
        shown
    });
    let executor_id = wire.executor_id.as_ref().map(|id| id.value.clone()).unwrap_or_default();
    let mut shown = json!({
        "id": found.name.task_id.to_string(),
        "name": wire.name,
        "framework_id": found.name.framework_id.to_string(),
        "executor_id": executor_id,
        "slave_id": wire.agent_id.value,
        "state": found.status.state.as_str(),
        "resources": summary(&resources),
        "role": found.row.role.to_string(),
        "statuses": statuses.collect::<Value>(),
    });
    let info: proto::mesos::v1::TaskInfo = stored(&found.row.info.wire);
    if let Value::Object(shown) = &mut shown {
        if let Some(labels) = &info.labels {
            shown.insert("labels".to_owned(), self::shown(labels)["labels"].clone());
        }
        if let Some(discovery) = &info.discovery {
            shown.insert("discovery".to_owned(), self::shown(discovery));
        }
        if let Some(container) = &info.container {
            shown.insert("container".to_owned(), self::shown(container));
        }
    }
    shown
}

/// What each volume holds, as far as it was measured.
pub(super) fn volumes(view: &View) -> Value {
    let volumes = view.disk.iter().map(|(key, used)| {
        json!({
            "role": key.role.to_string(),
            "id": key.id.to_string(),
            "limit_bytes": used.limit_bytes,
            "used_bytes": used.bytes,
            "is_partial": used.is_partial,
            "is_over_limit": used.is_over(),
        })
    });
    volumes.collect()
}
