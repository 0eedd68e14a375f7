//! Tasks, executors and frameworks as messages of the agent's API (spec §5.6). Pure. Next:
//! `http/frameworks.rs`.

use prost::Message as _;

use proto::convert::resource::list_to_wire;
use proto::convert::status;
use proto::mesos::v1;
use proto::mesos::v1::agent::response;
use resources::form::Format;
use resources::id::FrameworkId;
use resources::opaque::Opaque;
use resources::resource::Resource;

use crate::core::tasks::row::{ExecutorKind, FrameworkRow};
use crate::driver::{ExecutorView, TaskView, View};

/// A message that was stored as it came. One that cannot be read was refused before it came.
pub(super) fn stored<T: prost::Message + Default>(bytes: &Opaque) -> T {
    T::decode(bytes.as_bytes()).unwrap_or_default()
}

fn allocated(resources: &[Resource], role: &resources::role::Role) -> Vec<v1::Resource> {
    let allocated = resources
        .iter()
        .map(|resource| Resource { allocation_role: Some(role.clone()), ..resource.clone() });
    let allocated: Vec<Resource> = allocated.collect();
    list_to_wire(&allocated, Format::Post)
}

/// A task as everybody's readers know it.
pub(super) fn task(task: &TaskView, view: &View) -> v1::Task {
    let TaskView { name, row, status } = task;
    let wire: v1::TaskInfo = stored(&row.info.wire);
    let head = status.queue.front().or(status.last.as_ref());
    let has_executor = wire.executor.is_some() || wire.command.is_none() || row.is_group;
    v1::Task {
        name: row.info.name.clone(),
        task_id: v1::TaskId { value: name.task_id.to_string() },
        framework_id: v1::FrameworkId { value: name.framework_id.to_string() },
        executor_id: has_executor.then(|| v1::ExecutorId { value: row.executor_id.to_string() }),
        agent_id: v1::AgentId {
            value: view.agent_id.as_ref().map(ToString::to_string).unwrap_or_default(),
        },
        state: status.state.number(),
        resources: allocated(&row.info.resources, &row.role),
        statuses: status.last.iter().map(status::to_wire).collect(),
        status_update_state: head.map(|head| head.state.number()),
        status_update_uuid: head.and_then(|head| head.uuid).map(|uuid| uuid.0.to_vec().into()),
        labels: wire.labels,
        discovery: wire.discovery,
        container: wire.container,
        user: wire.command.and_then(|command| command.user),
        health_check: wire.health_check,
        kill_policy: wire.kill_policy,
        limits: wire.limits,
    }
}

/// `GET_TASKS`: by how far they are.
pub(super) fn tasks(view: &View) -> response::GetTasks {
    let mut tasks = response::GetTasks::default();
    for found in &view.tasks {
        let is_custom = view
            .executors
            .iter()
            .any(|executor| executor.row.kind == ExecutorKind::Custom && executor.is_of(found));
        let list = if found.status.state.is_terminal() {
            &mut tasks.terminated_tasks
        } else if is_custom && !found.status.is_delivered {
            &mut tasks.queued_tasks
        } else {
            &mut tasks.launched_tasks
        };
        list.push(task(found, view));
    }
    tasks.completed_tasks = view.completed_tasks.iter().map(|found| task(found, view)).collect();
    tasks
}

/// What a command's executor would say of itself.
pub(super) fn executor_info(executor: &ExecutorView) -> v1::ExecutorInfo {
    let ExecutorView { name, row, .. } = executor;
    let info = row.info.as_ref();
    let wire: v1::ExecutorInfo = info.map(|info| stored(&info.wire)).unwrap_or_default();
    let own = info.map(|info| allocated(&info.resources, &row.role));
    let is_command = row.kind == ExecutorKind::Command;
    v1::ExecutorInfo {
        executor_id: v1::ExecutorId { value: name.executor_id.to_string() },
        framework_id: Some(v1::FrameworkId { value: name.framework_id.to_string() }),
        resources: own.unwrap_or_default(),
        name: if is_command { Some("Command Executor".to_owned()) } else { wire.name.clone() },
        source: if is_command { Some(name.executor_id.to_string()) } else { wire.source.clone() },
        ..wire
    }
}

/// `GET_EXECUTORS`.
pub(super) fn executors(view: &View) -> response::GetExecutors {
    let executor = |executor: &ExecutorView| response::get_executors::Executor {
        executor_info: executor_info(executor),
    };
    response::GetExecutors {
        executors: view.executors.iter().map(executor).collect(),
        completed_executors: view.completed_executors.iter().map(executor).collect(),
    }
}

/// A framework's info with its id.
pub(super) fn framework_info(id: &FrameworkId, row: &FrameworkRow) -> v1::FrameworkInfo {
    let info: v1::FrameworkInfo = stored(&row.info);
    v1::FrameworkInfo { id: Some(v1::FrameworkId { value: id.to_string() }), ..info }
}

/// `GET_FRAMEWORKS`.
pub(super) fn frameworks(view: &View) -> response::GetFrameworks {
    let framework = |(id, row): (&FrameworkId, &FrameworkRow)| {
        response::get_frameworks::Framework { framework_info: framework_info(id, row) }
    };
    response::GetFrameworks {
        frameworks: view.frameworks.iter().map(framework).collect(),
        completed_frameworks: Vec::new(),
    }
}

/// `GET_CONTAINERS`: one for each executor.
pub(super) fn containers(view: &View) -> response::GetContainers {
    let container = |executor: &ExecutorView| {
        let of_task = view.tasks.iter().find(|task| executor.is_of(task));
        let last = of_task.and_then(|task| task.status.last.as_ref());
        let status = last.and_then(|status| {
            v1::TaskStatus::decode(status.wire.as_bytes()).ok()?.container_status
        });
        response::get_containers::Container {
            framework_id: Some(v1::FrameworkId { value: executor.name.framework_id.to_string() }),
            executor_id: Some(v1::ExecutorId { value: executor.name.executor_id.to_string() }),
            executor_name: executor_info(executor).name,
            container_id: v1::ContainerId { value: executor.row.container.clone(), parent: None },
            container_status: status,
        }
    };
    response::GetContainers { containers: view.executors.iter().map(container).collect() }
}
