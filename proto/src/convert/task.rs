//! `TaskInfo` and `ExecutorInfo` as a framework asks for them, and as the domain's values: which
//! resources they use stands beside the message, which travels on as it was given. The rules are
//! in `task/rules.rs` and `task/checks.rs`. Next: `convert/offer.rs`.

mod checks;
mod rules;

use prost::Message as _;
use resources::id::{AgentId, ExecutorId, FrameworkId, TaskId};
use resources::resource::Resource;
use resources::role::Role;
use resources::task::{ExecutorInfo, TaskInfo};

use crate::convert::InvalidWire;
use crate::convert::resource::list_from_wire;
use crate::mesos::v1;

pub use rules::InvalidTask;

/// What tasks are launched under: who accepts, where, and in which role.
#[derive(Debug, Clone, Copy)]
pub struct Under<'a> {
    /// Who accepts.
    pub framework_id: &'a FrameworkId,
    /// The agent of the offers.
    pub agent_id: &'a AgentId,
    /// The role that they were made to.
    pub role: &'a Role,
}

/// A task before anybody has judged it.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedTask {
    /// Its name.
    pub task_id: TaskId,
    /// The message without resources and executor.
    pub message: v1::TaskInfo,
    /// What it uses, each allocated.
    pub resources: Vec<Resource>,
    /// Who shall run it.
    pub executor: Option<AskedExecutor>,
}

/// An executor before anybody has judged it.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedExecutor {
    /// The message without resources.
    pub message: v1::ExecutorInfo,
    /// What it uses itself, each allocated.
    pub resources: Vec<Resource>,
}

/// The name of a task.
///
/// # Errors
/// When it has not the form of an id. Nothing can then be said about the task by its name.
pub fn id_from_wire(wire: &v1::TaskInfo) -> Result<TaskId, InvalidWire> {
    let id = TaskId::parse(wire.task_id.value.as_str());
    id.map_err(|source| InvalidWire::Id { field: "task_id", source })
}

impl AskedTask {
    /// Takes a task in. Resources without an allocation are allocated to the role of the offers,
    /// and the executor belongs to the framework unless it says otherwise (spec §2.1).
    ///
    /// # Errors
    /// When its name is none, or a resource breaks a rule of spec §1.5.
    pub fn from_wire(mut wire: v1::TaskInfo, under: &Under<'_>) -> Result<Self, InvalidWire> {
        let resources = std::mem::take(&mut wire.resources);
        let executor = wire.executor.take();
        Ok(Self {
            task_id: id_from_wire(&wire)?,
            resources: allocated("resources", resources, under.role)?,
            executor: executor.map(|e| AskedExecutor::from_wire(e, under)).transpose()?,
            message: wire,
        })
    }

    /// Whom it runs as, where it says so itself.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        let executor = self.executor.as_ref();
        let own = self.message.command.as_ref().and_then(|command| command.user.as_deref());
        own.or_else(|| executor?.user())
    }

    /// The task of the domain and its executor, when that has a name that it can have.
    #[must_use]
    pub fn into_domain(self) -> (TaskInfo, Option<ExecutorInfo>) {
        let Self { task_id, mut message, resources, executor } = self;
        message.executor = executor.as_ref().map(|executor| executor.message.clone());
        let task = TaskInfo {
            task_id,
            name: message.name.clone(),
            resources: unallocated(resources),
            wire: message.encode_to_vec().into(),
        };
        (task, executor.and_then(AskedExecutor::into_domain))
    }
}

impl AskedExecutor {
    /// Takes an executor in.
    ///
    /// # Errors
    /// When a resource breaks a rule of spec §1.5.
    pub fn from_wire(mut wire: v1::ExecutorInfo, under: &Under<'_>) -> Result<Self, InvalidWire> {
        let resources = std::mem::take(&mut wire.resources);
        let own = v1::FrameworkId { value: under.framework_id.to_string() };
        wire.framework_id.get_or_insert(own);
        let resources = allocated("executor.resources", resources, under.role)?;
        Ok(Self { resources, message: wire })
    }

    /// Whom it runs as, where it says so itself.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.message.command.as_ref()?.user.as_deref()
    }

    /// The executor of the domain, when its name has the form of one.
    #[must_use]
    pub fn into_domain(self) -> Option<ExecutorInfo> {
        Some(ExecutorInfo {
            executor_id: ExecutorId::parse(self.message.executor_id.value.as_str()).ok()?,
            resources: unallocated(self.resources),
            wire: self.message.encode_to_vec().into(),
        })
    }
}

/// A task of which only the name can be told: whoever asked for it hears why it never runs.
///
/// # Errors
/// When even its name is none.
pub fn without_resources(mut wire: v1::TaskInfo) -> Result<TaskInfo, InvalidWire> {
    wire.resources.clear();
    if let Some(executor) = &mut wire.executor {
        executor.resources.clear();
    }
    Ok(TaskInfo {
        task_id: id_from_wire(&wire)?,
        name: wire.name.clone(),
        resources: Vec::new(),
        wire: wire.encode_to_vec().into(),
    })
}

/// The message of a task on record, for readers; its resources stand elsewhere.
#[must_use]
pub fn message(stored: &[u8]) -> v1::TaskInfo {
    v1::TaskInfo::decode(stored).unwrap_or_default()
}

/// The message of an executor on record, for readers; its resources stand elsewhere.
#[must_use]
pub fn executor_message(stored: &[u8]) -> v1::ExecutorInfo {
    v1::ExecutorInfo::decode(stored).unwrap_or_default()
}

fn allocated(
    field: &'static str,
    wire: Vec<v1::Resource>,
    role: &Role,
) -> Result<Vec<Resource>, InvalidWire> {
    let mut resources = list_from_wire(field, wire)?;
    for resource in &mut resources {
        resource.allocation_role.get_or_insert_with(|| role.clone());
    }
    Ok(resources)
}

fn unallocated(mut resources: Vec<Resource>) -> Vec<Resource> {
    for resource in &mut resources {
        resource.allocation_role = None;
    }
    resources
}

#[cfg(test)]
mod tests;
