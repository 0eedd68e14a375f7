//! What a read shows: the state of one moment, the offers that are out, and the rights of who
//! reads. Pure. Must not know in which form an answer goes out. Next: `shapes.rs`.

use super::offers::Offers;
use super::shapes::given;
use super::usage::{Running, Usage};
use crate::auth::Viewer;
use crate::leader::View;
use crate::state::agents::Agent;
use crate::state::frameworks::Framework;
use crate::state::tasks::Task;

/// Everything that an answer is read off.
#[derive(Clone, Copy)]
pub(crate) struct Picture<'a> {
    pub(crate) view: &'a View,
    pub(crate) offers: &'a Offers,
    pub(crate) viewer: Viewer<'a>,
}

impl<'a> Picture<'a> {
    /// Whether an agent is connected and to be used.
    pub(crate) fn is_active(&self, agent: &Agent) -> bool {
        self.view.is_connected(&agent.id) && agent.activation.is_active()
    }

    /// Frameworks that are not removed, as far as the reader may see them.
    pub(crate) fn frameworks(&self) -> impl Iterator<Item = &'a Framework> + use<'a> {
        let viewer = self.viewer;
        self.view.state.frameworks().filter(move |framework| viewer.sees_framework(&framework.info))
    }

    /// The last removed frameworks, as far as the reader may see them.
    pub(crate) fn completed_frameworks(&self) -> impl Iterator<Item = &'a Framework> + use<'a> {
        let viewer = self.viewer;
        let completed = self.view.state.completed_frameworks();
        completed.filter(move |framework| viewer.sees_framework(&framework.info))
    }

    /// Tasks of a framework that are not forgotten, of agents that are there or of
    /// those that are not, as far as the reader may see them.
    pub(crate) fn tasks(
        &self,
        framework: &'a Framework,
        reach: Reach,
    ) -> impl Iterator<Item = &'a Task> + use<'a> {
        let picture = *self;
        let tasks = framework.tasks.values().map(AsRef::as_ref);
        tasks
            .filter(move |task: &&Task| Reach::of(task) == reach)
            .filter(move |task| picture.sees_task(framework, task))
    }

    /// The same, whether reachable or not.
    pub(crate) fn known_tasks(
        &self,
        framework: &'a Framework,
    ) -> impl Iterator<Item = &'a Task> + use<'a> {
        let (there, away) = (Reach::Reachable, Reach::Unreachable);
        self.tasks(framework, there).chain(self.tasks(framework, away))
    }

    /// Tasks of a framework that ended and were acknowledged, newest last.
    pub(crate) fn completed_tasks(
        &self,
        framework: &'a Framework,
    ) -> impl Iterator<Item = &'a Task> + use<'a> {
        let picture = *self;
        let tasks = framework.completed_tasks.values().map(AsRef::as_ref);
        tasks.filter(move |task: &&Task| picture.sees_task(framework, task))
    }

    /// Executors of a framework, as far as the reader may see them.
    pub(crate) fn executors<'u>(
        &self,
        framework: &'u Framework,
        usage: &'u Usage<'a>,
    ) -> impl Iterator<Item = &'u Running<'a>> + use<'u, 'a> {
        let viewer = self.viewer;
        usage.executors(&framework.id).iter().filter(move |running| {
            viewer.sees_every_executor() || {
                let user = given::executor(running.executor).command.and_then(|given| given.user);
                viewer.sees_executor(&framework.info, user.as_deref())
            }
        })
    }

    fn sees_task(&self, framework: &Framework, task: &Task) -> bool {
        self.viewer.sees_every_task() || {
            let user = given::user(&given::task(task));
            self.viewer.sees_task(&framework.info, user.as_deref())
        }
    }
}

/// Whether the agent of a task is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Reachable,
    Unreachable,
}

impl Reach {
    /// Where a task belongs.
    pub(crate) fn of(task: &Task) -> Self {
        use resources::task::TaskState;
        match task.state {
            TaskState::Unreachable => Self::Unreachable,
            _ => Self::Reachable,
        }
    }
}
