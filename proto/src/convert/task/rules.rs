//! The rules on tasks, executors and groups of tasks, in the order of spec §2.2, as far as they
//! need no state: whether a name is taken and whether the offer holds enough is not known here.
//! Next: `checks.rs`.

use std::collections::BTreeSet;

use resources::brief;
use resources::id::{AgentId, ExecutorId, FrameworkId, InvalidId, TaskId};
use resources::resource::Resource;
use resources::task_rules::{self, InvalidUse};
use resources::value::Scalar;
use thiserror::Error;

use super::{AskedExecutor, AskedTask, Under, checks};
use crate::mesos::v1;
use crate::mesos::v1::{container_info, executor_info};

/// Longest `data` of a task (published in the guide).
const DATA_BYTES_MAX: usize = 64 << 10;

/// Why a task never runs.
#[derive(Debug, Clone, PartialEq, Error)]
#[expect(missing_docs, reason = "the message of each variant says what it is")]
pub enum InvalidTask {
    #[error("Task is for agent '{}', and the offer is of agent '{offered}'", brief::text(given))]
    OtherAgent { given: String, offered: AgentId },
    #[error("Executor belongs to framework '{}', not to '{own}'", brief::text(given))]
    OtherFramework { given: String, own: FrameworkId },
    #[error("Executor has an invalid ID: {0}")]
    ExecutorId(#[source] InvalidId),
    #[error("Task '{0}' stands twice in its group")]
    TwiceInGroup(TaskId),
    #[error("Expecting '{0}' to be present")]
    Missing(&'static str),
    #[error("'{field}' must not be set {why}")]
    Forbidden { field: &'static str, why: &'static str },
    #[error("'{0}' must not be negative")]
    Negative(&'static str),
    #[error("'{}' is no valid '{field}'", brief::text(value))]
    Value { field: &'static str, value: String },
    #[error("Task should have either CommandInfo or ExecutorInfo, and not both")]
    CommandXorExecutor,
    #[error("Limits on '{}' are not supported", brief::text(.0))]
    LimitName(String),
    #[error(
        "The limit of {} on '{name}' is less than the {asked} that are asked for",
        brief::number(*limit)
    )]
    LimitTooSmall { name: String, limit: f64, asked: Scalar },
    #[error("'{field}' has {bytes} bytes, more than {DATA_BYTES_MAX}")]
    DataTooLong { field: &'static str, bytes: usize },
    #[error(transparent)]
    Use(#[from] InvalidUse),
}

impl AskedTask {
    /// Checks a task of a LAUNCH with its executor.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self, under: &Under<'_>) -> Result<(), InvalidTask> {
        self.check_alone(under)?;
        if self.executor.is_some() == self.message.command.is_some() {
            return Err(InvalidTask::CommandXorExecutor);
        }
        let Some(executor) = &self.executor else {
            return Ok(task_rules::together(&self.resources)?);
        };
        match executor.kind() {
            Some(executor_info::Type::Default) => {
                let why = "to DEFAULT for a LAUNCH";
                return Err(InvalidTask::Forbidden { field: "executor.type", why });
            }
            Some(executor_info::Type::Custom | executor_info::Type::Unknown) | None => {}
        }
        if executor.message.command.is_none() {
            return Err(InvalidTask::Missing("executor.command"));
        }
        executor.check_alone(under)?;
        Ok(task_rules::together(self.resources.iter().chain(&executor.resources))?)
    }

    /// What holds for every task.
    fn check_alone(&self, under: &Under<'_>) -> Result<(), InvalidTask> {
        let task = &self.message;
        if task.agent_id.value != under.agent_id.as_str() {
            let (given, offered) = (task.agent_id.value.clone(), under.agent_id.clone());
            return Err(InvalidTask::OtherAgent { given, offered });
        }
        let grace = task.kill_policy.as_ref().and_then(|policy| policy.grace_period.as_ref());
        not_negative("kill_policy.grace_period", grace)?;
        not_negative("max_completion_time", task.max_completion_time.as_ref())?;
        task.check.as_ref().map_or(Ok(()), checks::check)?;
        task.health_check.as_ref().map_or(Ok(()), checks::health_check)?;
        task_rules::task(&self.resources, under.role)?;
        task.command.as_ref().map_or(Ok(()), checks::command)?;
        task.container.as_ref().map_or(Ok(()), checks::container)?;
        limits(task, &self.resources)?;
        short_data("data", task.data.as_deref())
    }
}

impl AskedExecutor {
    fn kind(&self) -> Option<executor_info::Type> {
        executor_info::Type::try_from(self.message.r#type?).ok()
    }

    /// What holds for every executor.
    fn check_alone(&self, under: &Under<'_>) -> Result<(), InvalidTask> {
        let executor = &self.message;
        ExecutorId::parse(executor.executor_id.value.as_str()).map_err(InvalidTask::ExecutorId)?;
        let given = executor.framework_id.as_ref().map_or("", |id| id.value.as_str());
        if given != under.framework_id.as_str() {
            let (given, own) = (given.to_owned(), under.framework_id.clone());
            return Err(InvalidTask::OtherFramework { given, own });
        }
        not_negative("shutdown_grace_period", executor.shutdown_grace_period.as_ref())?;
        task_rules::executor(&self.resources, under.role)?;
        executor.command.as_ref().map_or(Ok(()), checks::command)?;
        executor.container.as_ref().map_or(Ok(()), checks::container)?;
        short_data("executor.data", executor.data.as_deref())
    }

    /// Checks the executor of a group with all its tasks.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check_group(&self, tasks: &[AskedTask], under: &Under<'_>) -> Result<(), InvalidTask> {
        match self.kind() {
            None => return Err(InvalidTask::Missing("executor.type")),
            Some(executor_info::Type::Unknown) => {
                let value = "UNKNOWN".to_owned();
                return Err(InvalidTask::Value { field: "executor.type", value });
            }
            Some(executor_info::Type::Default) if self.message.command.is_some() => {
                let why = "for a DEFAULT executor";
                return Err(InvalidTask::Forbidden { field: "executor.command", why });
            }
            Some(executor_info::Type::Custom) if self.message.command.is_none() => {
                return Err(InvalidTask::Missing("executor.command"));
            }
            Some(executor_info::Type::Default | executor_info::Type::Custom) => {}
        }
        self.check_alone(under)?;
        task_rules::group_executor(&self.resources)?;
        let mut names = BTreeSet::new();
        for task in tasks {
            if !names.insert(&task.task_id) {
                return Err(InvalidTask::TwiceInGroup(task.task_id.clone()));
            }
            task.check_alone(under)?;
            of_group(task)?;
        }
        let all = self.resources.iter().chain(tasks.iter().flat_map(|task| &task.resources));
        Ok(task_rules::together(all)?)
    }
}

/// What only holds for the tasks of a group.
fn of_group(task: &AskedTask) -> Result<(), InvalidTask> {
    let why = "on a task of a group";
    if task.executor.is_some() {
        return Err(InvalidTask::Forbidden { field: "executor", why });
    }
    let Some(container) = &task.message.container else { return Ok(()) };
    if !container.network_infos.is_empty() {
        return Err(InvalidTask::Forbidden { field: "container.network_infos", why });
    }
    if container.r#type == i32::from(container_info::Type::Docker) {
        return Err(InvalidTask::Forbidden {
            field: "container.type",
            why: "to DOCKER in a group",
        });
    }
    Ok(())
}

fn not_negative(
    field: &'static str,
    duration: Option<&v1::DurationInfo>,
) -> Result<(), InvalidTask> {
    match duration {
        Some(duration) if duration.nanoseconds < 0 => Err(InvalidTask::Negative(field)),
        Some(_) | None => Ok(()),
    }
}

fn short_data(field: &'static str, data: Option<&[u8]>) -> Result<(), InvalidTask> {
    match data.map_or(0, <[u8]>::len) {
        bytes if bytes > DATA_BYTES_MAX => Err(InvalidTask::DataTooLong { field, bytes }),
        _ => Ok(()),
    }
}

/// A limit lies above what is asked for; one that is infinite is none.
fn limits(task: &v1::TaskInfo, resources: &[Resource]) -> Result<(), InvalidTask> {
    for (name, limit) in &task.limits {
        if !matches!(name.as_str(), "cpus" | "mem") {
            return Err(InvalidTask::LimitName(name.clone()));
        }
        let amounts = resources.iter().filter(|resource| resource.name == *name);
        let asked = amounts.filter_map(|resource| resource.value.as_scalar());
        let asked = asked.reduce(Scalar::saturating_add).unwrap_or_default();
        let limit = limit.value;
        let is_enough = match Scalar::from_f64(limit) {
            Some(amount) => amount.is_positive() && amount >= asked,
            None => limit == f64::INFINITY,
        };
        if !is_enough {
            return Err(InvalidTask::LimitTooSmall { name: name.clone(), limit, asked });
        }
    }
    Ok(())
}
