//! The streams of custom executors: what the core tells them, as events of the executor API
//! (spec §5.7). Holds no decision. Next: `http/executor.rs`.

use prost::Message as _;
use tokio::sync::mpsc;
use tracing::warn;

use proto::convert::resource::list_to_wire;
use proto::mesos::v1;
use proto::mesos::v1::executor::{Event, event};
use resources::form::Format;
use resources::opaque::Opaque;
use resources::resource::Resource;
use resources::task::TaskInfo;

use super::plan::{Site, decode};
use crate::core::tasks::event::Tell;
use crate::core::tasks::row::ExecutorRow;

/// Events that an executor may leave unread.
const EVENTS_MAX: usize = 1_024;

/// The way to one executor.
#[derive(Debug)]
pub(crate) struct Stream {
    events: mpsc::Sender<Event>,
    agent: v1::AgentInfo,
    executor: String,
    framework: String,
}

impl Stream {
    /// A stream, and where its events come out.
    pub(crate) fn new(
        executor: &resources::task::ExecutorName,
        agent: v1::AgentInfo,
    ) -> (Self, mpsc::Receiver<Event>) {
        let (events, out) = mpsc::channel(EVENTS_MAX);
        let (framework, executor) =
            (executor.framework_id.to_string(), executor.executor_id.to_string());
        (Self { events, agent, executor, framework }, out)
    }

    /// Whether somebody is at the other end.
    pub(crate) fn is_open(&self) -> bool {
        !self.events.is_closed()
    }

    /// Sends it. An executor that does not read loses its stream, and has to subscribe again.
    pub(super) fn tell(&self, tell: Tell, site: &Site) {
        match self.event(tell, site) {
            Ok(event) => {
                if self.events.try_send(event).is_err() {
                    warn!(executor = self.executor, "an executor does not read its events");
                }
            }
            Err(reason) => warn!(executor = self.executor, reason, "an event cannot be told"),
        }
    }

    fn event(&self, tell: Tell, site: &Site) -> Result<Event, String> {
        let of = |kind: event::Type| Event { r#type: Some(kind.into()), ..Event::default() };
        let task_id = |id: resources::id::TaskId| v1::TaskId { value: id.to_string() };
        Ok(match tell {
            Tell::Subscribed(row, framework) => Event {
                subscribed: Some(event::Subscribed {
                    executor_info: self.executor_info(&row)?,
                    framework_info: self.framework_info(&framework)?,
                    agent_info: self.agent.clone(),
                    container_id: Some(v1::ContainerId {
                        value: row.container.clone(),
                        parent: None,
                    }),
                }),
                ..of(event::Type::Subscribed)
            },
            Tell::Launch(task) => Event {
                launch: Some(event::Launch { task: task_info(&task, site)? }),
                ..of(event::Type::Launch)
            },
            Tell::LaunchGroup(tasks) => {
                let tasks = tasks.iter().map(|task| task_info(task, site));
                let tasks = tasks.collect::<Result<_, _>>()?;
                let task_group = v1::TaskGroupInfo { tasks };
                Event {
                    launch_group: Some(event::LaunchGroup { task_group }),
                    ..of(event::Type::LaunchGroup)
                }
            }
            Tell::Kill(id, grace) => {
                let nanoseconds = |grace: std::time::Duration| {
                    i64::try_from(grace.as_nanos()).unwrap_or(i64::MAX)
                };
                let kill_policy = grace.map(|grace| v1::KillPolicy {
                    grace_period: Some(v1::DurationInfo { nanoseconds: nanoseconds(grace) }),
                });
                Event {
                    kill: Some(event::Kill { task_id: task_id(id), kill_policy }),
                    ..of(event::Type::Kill)
                }
            }
            Tell::Acknowledged(id, uuid) => Event {
                acknowledged: Some(event::Acknowledged {
                    task_id: task_id(id),
                    uuid: uuid.0.to_vec().into(),
                }),
                ..of(event::Type::Acknowledged)
            },
            Tell::Message(data) => Event {
                message: Some(event::Message { data: data.as_bytes().to_vec().into() }),
                ..of(event::Type::Message)
            },
            Tell::ShutDown => of(event::Type::Shutdown),
        })
    }

    fn executor_info(&self, row: &ExecutorRow) -> Result<v1::ExecutorInfo, String> {
        let info = row.info.as_ref().ok_or("a command has no stream")?;
        Ok(v1::ExecutorInfo {
            executor_id: v1::ExecutorId { value: self.executor.clone() },
            framework_id: Some(v1::FrameworkId { value: self.framework.clone() }),
            resources: wire_of(&info.resources),
            ..decode(&info.wire)?
        })
    }

    fn framework_info(&self, framework: &Opaque) -> Result<v1::FrameworkInfo, String> {
        let id = Some(v1::FrameworkId { value: self.framework.clone() });
        Ok(v1::FrameworkInfo { id, ..decode(framework)? })
    }
}

fn wire_of(resources: &[Resource]) -> Vec<v1::Resource> {
    list_to_wire(resources, Format::Post)
}

/// A task as its executor gets it.
pub(crate) fn task_info(task: &TaskInfo, site: &Site) -> Result<v1::TaskInfo, String> {
    let wire = v1::TaskInfo::decode(task.wire.as_bytes());
    let wire = wire.map_err(|error| format!("task {}: {error}", task.task_id))?;
    Ok(v1::TaskInfo {
        name: task.name.clone(),
        task_id: v1::TaskId { value: task.task_id.to_string() },
        agent_id: v1::AgentId { value: site.agent_id.clone() },
        resources: wire_of(&task.resources),
        ..wire
    })
}
