//! An ACCEPT of which nothing can be done: what its framework hears of each part. What is on
//! record under the same name is answered as it stands, so that a repeat does no harm. A pure
//! query: the leader asks it for offers that it does not know. Next: `../tasks.rs`.

use resources::id::{AgentId, FrameworkId, OperationId};
use resources::task::{StatusReason, TaskInfo, TaskState};
use resources::time::Timestamp;

use super::super::State;
use super::super::accept::{Accept, Step};
use super::super::command::{Effect, FeedbackState, Notice, OperationStatus};
use super::super::frameworks::Framework;
use super::super::tasks::said_by_master;

/// Why nothing of an ACCEPT can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VoidAccept {
    pub(super) reason: StatusReason,
    /// For partition-aware frameworks; TASK_LOST for others.
    pub(super) state: TaskState,
    /// Of operations with a name.
    pub(super) feedback: FeedbackState,
    pub(super) message: &'static str,
}

impl State {
    pub(super) fn refuse_accept(
        &self,
        wall: Timestamp,
        accept: &Accept,
        void: VoidAccept,
    ) -> Vec<Effect> {
        let (id, agent_id) = (&accept.framework_id, Some(&accept.agent_id));
        let notices = self.refused_accept(wall, (id, agent_id), &accept.steps, void);
        notices.into_iter().map(|notice| Effect::Tell(id.clone(), Box::new(notice))).collect()
    }

    /// What a framework hears of an ACCEPT when nothing of it can be done.
    #[must_use]
    pub fn refused_accept(
        &self,
        wall: Timestamp,
        (framework_id, agent_id): (&FrameworkId, Option<&AgentId>),
        steps: &[Step],
        void: VoidAccept,
    ) -> Vec<Notice> {
        let Some(framework) = self.framework(framework_id) else { return Vec::new() };
        let refused = Refused { state: self, framework, agent_id, wall, void };
        let mut notices = Vec::new();
        for step in steps {
            match step {
                Step::Operate { own_id: None, operation: _ } => {}
                Step::Operate { own_id: Some(own_id), operation: _ } => {
                    notices.push(refused.operation(own_id));
                }
                Step::Launch { tasks } => {
                    notices.extend(tasks.iter().map(|launched| refused.task(&launched.task)));
                }
                Step::LaunchGroup { executor: _, tasks, refused: _ } => {
                    notices.extend(tasks.iter().map(|task| refused.task(task)));
                }
            }
        }
        notices
    }
}

struct Refused<'a> {
    state: &'a State,
    framework: &'a Framework,
    agent_id: Option<&'a AgentId>,
    wall: Timestamp,
    void: VoidAccept,
}

impl Refused<'_> {
    fn operation(&self, own_id: &OperationId) -> Notice {
        let known = self.state.operation_of(&self.framework.id, own_id);
        let status = known.and_then(|record| record.status()).unwrap_or_else(|| OperationStatus {
            own_id: own_id.clone(),
            state: self.void.feedback,
            message: Some(self.void.message.to_owned()),
            converted: Vec::new(),
            agent_id: self.agent_id.cloned(),
            uuid: None,
        });
        Notice::Operation(status)
    }

    fn task(&self, info: &TaskInfo) -> Notice {
        if let Some(known) = self.framework.tasks.get(&info.task_id) {
            return Notice::Task(known.current_status(self.wall));
        }
        let mut status = said_by_master(
            (info.task_id.clone(), self.framework.lost_as(self.void.state)),
            (self.void.reason, self.void.message.to_owned()),
            self.wall,
        );
        status.agent_id = self.agent_id.cloned();
        Notice::Task(status)
    }
}
