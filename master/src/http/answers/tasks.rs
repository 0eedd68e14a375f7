//! GET_TASKS (spec §5.3): tasks that are not forgotten, those whose agent is away, and those
//! that ended. Pure. Next: `operations.rs`.

use proto::convert;
use proto::mesos::v1;
use proto::mesos::v1::master::response::GetTasks;
use resources::form::Format;
use resources::task::TaskState;

use super::{agent_id, framework_id};
use crate::http::picture::{Picture, Reach};
use crate::http::shapes::{self, given};
use crate::state::tasks::Task;

pub(super) fn get(picture: &Picture<'_>) -> GetTasks {
    let mut tasks = GetTasks::default();
    for framework in picture.frameworks() {
        let of = |reach| picture.tasks(framework, reach).map(task);
        tasks.tasks.extend(of(Reach::Reachable));
        tasks.unreachable_tasks.extend(of(Reach::Unreachable));
        tasks.completed_tasks.extend(picture.completed_tasks(framework).map(task));
    }
    for framework in picture.completed_frameworks() {
        let known = picture.known_tasks(framework);
        tasks.completed_tasks.extend(known.chain(picture.completed_tasks(framework)).map(task));
    }
    tasks
}

/// A task with the last thing that was said of it.
pub(crate) fn task(task: &Task) -> v1::Task {
    let info = given::task(task);
    let user = given::user(&info);
    let resources: Vec<_> =
        task.resources.iter().map(|resource| shapes::allocated(resource, &task.role)).collect();
    let status = task.status.as_deref();
    v1::Task {
        name: task.name.clone(),
        task_id: v1::TaskId { value: task.task_id.to_string() },
        framework_id: framework_id(&task.framework_id),
        executor_id: task.executor_id.as_ref().map(|id| v1::ExecutorId { value: id.to_string() }),
        agent_id: agent_id(&task.agent_id),
        state: task.state.number(),
        resources: convert::resource::list_to_wire(resources.iter(), Format::Post),
        statuses: status.map(convert::status::to_wire).into_iter().collect(),
        status_update_state: status.map(|status| TaskState::number(status.state)),
        status_update_uuid: status
            .and_then(|status| status.uuid)
            .map(|uuid| uuid.0.to_vec().into()),
        labels: info.labels,
        discovery: info.discovery,
        container: info.container,
        user,
        health_check: info.health_check,
        kill_policy: info.kill_policy,
        limits: info.limits,
    }
}
