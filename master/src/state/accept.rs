//! ACCEPT as one command (spec §2.3): the resources that were offered, and what becomes of them,
//! in order. `apply` is the only judge. Next: `frameworks.rs`.

use std::fmt;

use resources::id::{AgentId, FrameworkId, OperationId};
use resources::operation::Operation;
use resources::resource::Resource;
use resources::role::Role;
use resources::task::{ExecutorInfo, StatusReason, TaskInfo};
use serde::{Deserialize, Serialize};

/// An ACCEPT whose offers were taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    /// Who accepts.
    pub framework_id: FrameworkId,
    /// The agent of all the offers.
    pub agent_id: AgentId,
    /// The role that they were made to.
    pub role: Role,
    /// What they held, in unallocated form.
    pub offered: Vec<Resource>,
    /// What is to be done, in order. Orders are named after the command: `<name>.<n>`, from 1,
    /// for each order that it comes to.
    pub steps: Vec<Step>,
}

/// One operation of an ACCEPT.
#[expect(clippy::large_enum_variant, reason = "nearly every step is of the large kind")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// A change of resources.
    Operate {
        /// The framework's own name for it: it wants to hear what became of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        own_id: Option<OperationId>,
        /// What, or why the edge refuses it.
        operation: Result<Operation, String>,
    },
    /// LAUNCH: each task by itself.
    Launch {
        /// The tasks, each with its executor as Mesos has it.
        tasks: Vec<LaunchedTask>,
    },
    /// LAUNCH_GROUP: all or none.
    LaunchGroup {
        /// Who runs them.
        executor: ExecutorInfo,
        /// The tasks.
        tasks: Vec<TaskInfo>,
        /// Why the edge refuses all of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<TaskRefusal>,
    },
}

/// One task of a LAUNCH.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchedTask {
    /// The task.
    pub task: TaskInfo,
    /// Who runs it, when it is no command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<ExecutorInfo>,
    /// Why the edge refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<TaskRefusal>,
}

/// Why a task never runs: its framework hears TASK_ERROR.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRefusal {
    /// REASON_TASK_INVALID, REASON_TASK_UNAUTHORIZED, or those of groups.
    pub reason: StatusReason,
    /// In words.
    pub message: String,
}

impl fmt::Display for Accept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use super::operations::describe;
        write!(f, "accept {} {} as {}", self.framework_id, self.agent_id, self.role)?;
        for step in &self.steps {
            match step {
                Step::Operate { own_id, operation } => {
                    let own = own_id.as_ref().map_or("", |id| id.as_str());
                    match operation {
                        Ok(operation) => write!(f, " [{own} {}]", describe(operation))?,
                        Err(reason) => write!(f, " [{own} refused: {reason}]")?,
                    }
                }
                Step::Launch { tasks } => {
                    write!(f, " [LAUNCH")?;
                    tasks
                        .iter()
                        .try_for_each(|launched| write!(f, " {}", launched.task.task_id))?;
                    write!(f, "]")?;
                }
                Step::LaunchGroup { tasks, .. } => {
                    write!(f, " [LAUNCH_GROUP")?;
                    tasks.iter().try_for_each(|task| write!(f, " {}", task.task_id))?;
                    write!(f, "]")?;
                }
            }
        }
        Ok(())
    }
}
