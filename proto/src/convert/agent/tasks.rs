//! The part of `holdfast/agent.proto` that is about tasks: launches, statuses, and what a leader
//! asks beside its orders.

use std::time::Duration;

use resources::form::Format;
use resources::id::{ExecutorId, FrameworkId, TaskId};
use resources::message::{ExecutorExit, Instruction};
use resources::opaque::Opaque;
use resources::operation::Operation;
use resources::role::Role;
use resources::task::{ExecutorInfo, ExecutorName, Launch, StatusUpdate, TaskInfo, TaskReport};

use super::{FromMaster, id, wire};
use crate::convert::resource::{list_from_wire, list_to_wire};
use crate::convert::{InvalidWire, status};
use crate::mesos::v1::offer;
use crate::mesos::v1::offer::operation::Type;

impl From<&Launch> for wire::Launch {
    fn from(launch: &Launch) -> Self {
        Self {
            framework_id: launch.framework_id.to_string(),
            framework: bytes(&launch.framework),
            role: launch.role.to_string(),
            executor: launch.executor.as_ref().map(|executor| wire::LaunchedExecutor {
                executor_id: executor.executor_id.to_string(),
                resources: list_to_wire(&executor.resources, Format::Post),
                info: bytes(&executor.wire),
            }),
            is_executor_new: launch.is_executor_new,
            tasks: launch.tasks.iter().map(Into::into).collect(),
        }
    }
}

impl From<&TaskInfo> for wire::LaunchedTask {
    fn from(task: &TaskInfo) -> Self {
        Self {
            task_id: task.task_id.to_string(),
            name: task.name.clone(),
            resources: list_to_wire(&task.resources, Format::Post),
            info: bytes(&task.wire),
        }
    }
}

/// The launch of an order; whether it is a group stands in `operation`.
pub(super) fn launch_from_wire(
    launch: wire::Launch,
    operation: &offer::Operation,
) -> Result<Operation, InvalidWire> {
    let executor = launch.executor.map(|executor| {
        Ok(ExecutorInfo {
            executor_id: id("executor_id", ExecutorId::parse(executor.executor_id))?,
            resources: list_from_wire("executor.resources", executor.resources)?,
            wire: opaque(&executor.info),
        })
    });
    let tasks = launch.tasks.into_iter().map(|task| {
        Ok(TaskInfo {
            task_id: id("task_id", TaskId::parse(task.task_id))?,
            name: task.name,
            resources: list_from_wire("tasks.resources", task.resources)?,
            wire: opaque(&task.info),
        })
    });
    let tasks: Vec<TaskInfo> = tasks.collect::<Result<_, InvalidWire>>()?;
    if tasks.is_empty() {
        return Err(InvalidWire::Absent("tasks"));
    }
    let role =
        Role::parse(launch.role).map_err(|source| InvalidWire::Role { field: "role", source })?;
    Ok(Operation::Launch(Box::new(Launch {
        framework_id: id("framework_id", FrameworkId::parse(launch.framework_id))?,
        framework: opaque(&launch.framework),
        role,
        executor: executor.transpose()?,
        is_executor_new: launch.is_executor_new,
        tasks,
        is_group: operation.r#type == Some(Type::LaunchGroup.into()),
    })))
}

impl From<&StatusUpdate> for wire::StatusUpdate {
    fn from(update: &StatusUpdate) -> Self {
        Self {
            framework_id: update.framework_id.to_string(),
            status: Some(status::to_wire(&update.status)),
            latest: update.latest.number(),
        }
    }
}

impl TryFrom<wire::StatusUpdate> for StatusUpdate {
    type Error = InvalidWire;

    fn try_from(update: wire::StatusUpdate) -> Result<Self, InvalidWire> {
        Ok(Self {
            framework_id: id("framework_id", FrameworkId::parse(update.framework_id))?,
            status: status::from_wire(update.status.ok_or(InvalidWire::Absent("status"))?)?,
            latest: status::state_from_wire("latest", update.latest)?,
        })
    }
}

impl From<&TaskReport> for wire::TaskReport {
    fn from(report: &TaskReport) -> Self {
        Self {
            framework_id: report.framework_id.to_string(),
            task_id: report.task_id.to_string(),
            state: report.state.number(),
        }
    }
}

impl TryFrom<wire::TaskReport> for TaskReport {
    type Error = InvalidWire;

    fn try_from(report: wire::TaskReport) -> Result<Self, InvalidWire> {
        Ok(Self {
            framework_id: id("framework_id", FrameworkId::parse(report.framework_id))?,
            task_id: id("task_id", TaskId::parse(report.task_id))?,
            state: status::state_from_wire("state", report.state)?,
        })
    }
}

impl From<&ExecutorName> for wire::ExecutorName {
    fn from(name: &ExecutorName) -> Self {
        Self {
            framework_id: name.framework_id.to_string(),
            executor_id: name.executor_id.to_string(),
        }
    }
}

impl TryFrom<wire::ExecutorName> for ExecutorName {
    type Error = InvalidWire;

    fn try_from(name: wire::ExecutorName) -> Result<Self, InvalidWire> {
        Ok(Self {
            framework_id: id("framework_id", FrameworkId::parse(name.framework_id))?,
            executor_id: id("executor_id", ExecutorId::parse(name.executor_id))?,
        })
    }
}

impl From<&ExecutorExit> for wire::ExecutorExit {
    fn from(exit: &ExecutorExit) -> Self {
        Self { executor: Some((&exit.executor).into()), status: exit.status }
    }
}

impl TryFrom<wire::ExecutorExit> for ExecutorExit {
    type Error = InvalidWire;

    fn try_from(exit: wire::ExecutorExit) -> Result<Self, InvalidWire> {
        let executor = exit.executor.ok_or(InvalidWire::Absent("executor"))?.try_into()?;
        Ok(Self { executor, status: exit.status })
    }
}

pub(super) fn message_to_wire(executor: &ExecutorName, data: &Opaque) -> wire::ExecutorMessage {
    wire::ExecutorMessage { executor: Some(executor.into()), data: bytes(data) }
}

pub(super) fn message_from_wire(
    message: wire::ExecutorMessage,
) -> Result<(ExecutorName, Opaque), InvalidWire> {
    let executor = message.executor.ok_or(InvalidWire::Absent("executor"))?.try_into()?;
    Ok((executor, opaque(&message.data)))
}

pub(super) fn instruction_to_wire(instruction: &Instruction) -> FromMaster {
    match instruction {
        Instruction::Kill { framework_id, task_id, grace } => FromMaster::Kill(wire::Kill {
            framework_id: framework_id.to_string(),
            task_id: task_id.to_string(),
            grace_ns: grace.map(|grace| u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX)),
        }),
        Instruction::ShutDownExecutor(name) => FromMaster::ShutDownExecutor(name.into()),
        Instruction::ShutDownFramework(id) => {
            FromMaster::ShutDownFramework(wire::ShutDownFramework { framework_id: id.to_string() })
        }
        Instruction::UpdateFramework { framework_id, info } => {
            FromMaster::UpdateFramework(wire::UpdateFramework {
                framework_id: framework_id.to_string(),
                info: bytes(info),
            })
        }
        Instruction::AcknowledgeStatus { framework_id, task_id, uuid } => {
            FromMaster::AcknowledgeStatus(wire::AcknowledgeStatus {
                framework_id: framework_id.to_string(),
                task_id: task_id.to_string(),
                uuid: uuid.0.to_vec().into(),
            })
        }
        Instruction::ExecutorMessage { executor, data } => {
            FromMaster::ExecutorMessage(message_to_wire(executor, data))
        }
    }
}

/// Envelopes that are no instruction are for the caller.
pub(super) fn instruction_from_wire(message: FromMaster) -> Result<Instruction, InvalidWire> {
    let framework = |text: String| id("framework_id", FrameworkId::parse(text));
    let task = |text: String| id("task_id", TaskId::parse(text));
    Ok(match message {
        FromMaster::Kill(kill) => Instruction::Kill {
            framework_id: framework(kill.framework_id)?,
            task_id: task(kill.task_id)?,
            grace: kill.grace_ns.map(Duration::from_nanos),
        },
        FromMaster::ShutDownExecutor(name) => Instruction::ShutDownExecutor(name.try_into()?),
        FromMaster::ShutDownFramework(wire::ShutDownFramework { framework_id }) => {
            Instruction::ShutDownFramework(framework(framework_id)?)
        }
        FromMaster::UpdateFramework(update) => Instruction::UpdateFramework {
            framework_id: framework(update.framework_id)?,
            info: opaque(&update.info),
        },
        FromMaster::AcknowledgeStatus(acknowledged) => Instruction::AcknowledgeStatus {
            framework_id: framework(acknowledged.framework_id)?,
            task_id: task(acknowledged.task_id)?,
            uuid: status::uuid_from_wire(&acknowledged.uuid)?,
        },
        FromMaster::ExecutorMessage(message) => {
            let (executor, data) = message_from_wire(message)?;
            Instruction::ExecutorMessage { executor, data }
        }
        FromMaster::Welcome(_)
        | FromMaster::Refused(_)
        | FromMaster::Orders(_)
        | FromMaster::Acknowledge(_)
        | FromMaster::SendTotal(_)
        | FromMaster::Ping(_)
        | FromMaster::Unregistered(_)
        | FromMaster::Adopt(_) => return Err(InvalidWire::Absent("message")),
    })
}

fn bytes(opaque: &Opaque) -> prost::bytes::Bytes {
    opaque.as_bytes().to_vec().into()
}

fn opaque(bytes: &[u8]) -> Opaque {
    bytes.to_vec().into()
}
