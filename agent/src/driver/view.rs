//! A picture of the agent, for its HTTP server. Pure data.

use std::collections::BTreeMap;
use std::path::PathBuf;

use resources::collection::Resources;
use resources::id::{AgentId, FrameworkId, Seq};
use resources::message::Order;
use resources::task::ExecutorName;

use crate::core::event::{Ended, Identity, Unavailable};
use crate::core::tasks::CompletedTask;
use crate::core::tasks::row::{ExecutorRow, FrameworkRow, StatusRow, TaskName, TaskRow};
use crate::metrics::Counters;
use crate::runner::disk::Usage;

/// The agent at one moment.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// Who it is.
    pub(crate) identity: Identity,
    /// Its name, once it has one.
    pub(crate) agent_id: Option<AgentId>,
    /// Everything it has.
    pub(crate) total: Resources,
    /// Last order carried out.
    pub(crate) applied_seq: Seq,
    /// Volumes whose directory cannot be used.
    pub(crate) unavailable: Vec<Unavailable>,
    /// Orders whose outcome is not acknowledged.
    pub(crate) ended: Vec<Ended>,
    /// Orders taken in and not settled.
    pub(crate) pending: Vec<Order>,
    /// Whether a leading master knows the agent now.
    pub(crate) is_registered: bool,
    /// Since the start.
    pub(crate) counters: Counters,
    /// Frameworks with something here.
    pub(crate) frameworks: BTreeMap<FrameworkId, FrameworkRow>,
    /// Executors that run, or are about to.
    pub(crate) executors: Vec<ExecutorView>,
    /// The last ones that ended, newest last.
    pub(crate) completed_executors: Vec<ExecutorView>,
    /// Tasks that run, or ended and are not acknowledged.
    pub(crate) tasks: Vec<TaskView>,
    /// The last ones that are over, newest last.
    pub(crate) completed_tasks: Vec<TaskView>,
    /// What volumes hold, as far as it was measured.
    pub(crate) disk: Usage,
}

/// An executor.
#[derive(Debug, Clone)]
pub(crate) struct ExecutorView {
    /// Its name.
    pub(crate) name: ExecutorName,
    /// What is known of it.
    pub(crate) row: ExecutorRow,
    /// Its sandbox.
    pub(crate) directory: PathBuf,
}

/// A task.
#[derive(Debug, Clone)]
pub(crate) struct TaskView {
    /// Its name.
    pub(crate) name: TaskName,
    /// As it was launched.
    pub(crate) row: TaskRow,
    /// Where it stands.
    pub(crate) status: StatusRow,
}

impl From<&CompletedTask> for TaskView {
    fn from(task: &CompletedTask) -> Self {
        let CompletedTask { name, row, status } = task.clone();
        Self { name, row, status }
    }
}

impl ExecutorView {
    /// Whether it runs this task, or ran it.
    pub(crate) fn is_of(&self, task: &TaskView) -> bool {
        self.name.framework_id == task.name.framework_id
            && self.name.executor_id == task.row.executor_id
    }
}

impl View {
    /// What tasks and executors use; a shared volume once.
    pub(crate) fn used(&self) -> Resources {
        let tasks = self.tasks.iter().filter(|task| !task.status.state.is_terminal());
        let tasks = tasks.flat_map(|task| &task.row.info.resources);
        let executors = self.executors.iter().filter_map(|executor| executor.row.info.as_ref());
        let mut used = Resources::new();
        for resource in tasks.chain(executors.flat_map(|info| &info.resources)) {
            if !(resource.shared && used.contains_one(resource)) {
                used.add(resource);
            }
        }
        used
    }
}
