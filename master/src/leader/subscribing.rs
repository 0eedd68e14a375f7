//! SUBSCRIBE (spec §4.2): decided by the log, then a stream, and on it whatever the framework
//! missed while it was away. Next: `scheduling.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use std::collections::BTreeSet;

use resources::id::{FrameworkId, StreamId, TaskId};
use resources::time::Timestamp;

use super::answers;
use super::core::{Core, RETRY_AFTER};
use super::event::{Action, AskId, Origin, Proposal};
use super::frameworks::Later;
use super::request::ProposeFailure;
use super::scheduler::{SchedulerEvent, SchedulerRefusal, Subscribing};
use crate::state::State;
use crate::state::command::{CommandKind, Notice, Response};
use crate::state::frameworks::Framework;

impl Core {
    pub(super) fn subscribe_arrived(
        &mut self,
        ask_id: AskId,
        subscribing: Box<Subscribing>,
    ) -> Vec<Action> {
        if self.term().is_none() {
            let refusal = SchedulerRefusal::Propose(ProposeFailure::NotLeader);
            return vec![
                Action::AnswerAsk(ask_id, Err(refusal)),
                Action::EndStream(subscribing.stream_id),
            ];
        }
        // Whatever is against it is for the log to say: this master may have been deposed.
        let proposal = Proposal::Plain {
            principal: subscribing.principal.clone(),
            source: Some(subscribing.source.clone()),
            kind: Box::new(CommandKind::Subscribe {
                framework_id: subscribing.framework_id.clone(),
                subscription: Box::new(subscribing.subscription.clone()),
            }),
        };
        self.frameworks.subscribing(ask_id, subscribing);
        vec![Action::Propose(Origin::Subscribe(ask_id), proposal)]
    }

    pub(super) fn subscribe_decided(
        &mut self,
        state: &State,
        (ask_id, response): (AskId, Response),
        now: Timestamp,
    ) -> Vec<Action> {
        let Some((subscribing, is_there)) = self.frameworks.subscribe_ended(ask_id) else {
            let refusal = SchedulerRefusal::Propose(ProposeFailure::NotLeader);
            return vec![Action::AnswerAsk(ask_id, Err(refusal))];
        };
        let stream_id = subscribing.stream_id;
        match response {
            Response::Subscribed { framework_id, epoch: _ } if is_there => {
                let mut actions = vec![Action::AnswerAsk(ask_id, Ok(()))];
                let Some(framework) = state.framework(&framework_id) else {
                    actions.push(Action::EndStream(stream_id));
                    return actions;
                };
                self.counts.frameworks_subscribed += 1;
                // Nobody hears of these: the new stream never knew them, the old one ends.
                self.offers.framework_lost(&framework_id);
                actions.extend(self.frameworks.opened(framework, stream_id, now));
                self.offers.framework_came(framework);
                actions.extend(self.catch_up(state, framework, now));
                actions
            }
            // Whoever asked has gone: the framework is told to the log as away.
            Response::Subscribed { .. } => {
                vec![Action::AnswerAsk(ask_id, Ok(())), Action::EndStream(stream_id)]
            }
            Response::Rejected(rejection) if !rejection.is_retryable() => {
                let notice = Box::new(Notice::Error(rejection.to_string()));
                let event = SchedulerEvent::Notice(notice);
                vec![
                    Action::AnswerAsk(ask_id, Ok(())),
                    Action::Say(stream_id.clone(), Box::new(event)),
                    Action::EndStream(stream_id),
                ]
            }
            Response::Rejected(_)
            | Response::Done
            | Response::Ruled
            | Response::Registered { .. }
            | Response::Accepted { .. }
            | Response::Transacted { .. }
            | Response::Judged { .. } => {
                let failure = ProposeFailure::Overloaded { retry_after: RETRY_AFTER };
                let refusal = SchedulerRefusal::Propose(failure);
                vec![Action::AnswerAsk(ask_id, Err(refusal)), Action::EndStream(stream_id)]
            }
        }
    }

    pub(super) fn subscribe_undecided(
        &mut self,
        ask_id: AskId,
        failure: ProposeFailure,
    ) -> Vec<Action> {
        let refusal = SchedulerRefusal::Propose(failure);
        let mut actions = vec![Action::AnswerAsk(ask_id, Err(refusal))];
        if let Some((subscribing, _)) = self.frameworks.subscribe_ended(ask_id) {
            actions.push(Action::EndStream(subscribing.stream_id));
        }
        actions
    }

    /// What a framework missed while it was away, or may have missed.
    fn catch_up(&mut self, state: &State, framework: &Framework, now: Timestamp) -> Vec<Action> {
        self.repeats.forget(&framework.id);
        let unheard: BTreeSet<TaskId> = self.tasks.unheard(&framework.id).cloned().collect();
        let ended = framework.tasks.values().filter(|task| task.is_ended());
        let ended = ended.map(|task| task.task_id.clone());
        let statuses: BTreeSet<TaskId> = unheard.into_iter().chain(ended).collect();
        let feedback = state.feedback(&framework.id);
        let feedback = feedback.map(|status| Later::Feedback(status.own_id));
        let Some(stream) = self.frameworks.stream_mut(&framework.id) else { return Vec::new() };
        stream.backlog.extend(statuses.into_iter().map(Later::Status).chain(feedback));
        self.say_backlog(state, &framework.id, now)
    }

    /// A stream ended by itself: its framework is away, and nothing is offered to it.
    pub(super) fn stream_ended(&mut self, stream_id: &StreamId) -> Vec<Action> {
        if let Some(framework_id) = self.frameworks.ended(stream_id) {
            self.offers.framework_went(&framework_id);
            self.repeats.forget(&framework_id);
        }
        Vec::new()
    }

    /// Says what waits to be said to a framework, as much as may be said now.
    pub(super) fn say_backlog(
        &mut self,
        state: &State,
        framework_id: &FrameworkId,
        now: Timestamp,
    ) -> Vec<Action> {
        let wall = self.wall(now);
        let Some(framework) = state.framework(framework_id) else { return Vec::new() };
        let Some(stream) = self.frameworks.stream_mut(framework_id) else { return Vec::new() };
        let mut actions = Vec::new();
        for word in stream.backlog.take() {
            let notice = match word {
                Later::Task(task_id, agent_id) => {
                    let asked = (&task_id, agent_id.as_ref());
                    Some(Notice::Task(answers::task(state, framework, asked, wall)))
                }
                Later::Operation(own_id, agent_id) => {
                    let asked = (&own_id, agent_id.as_ref());
                    Some(Notice::Operation(answers::operation(state, framework, asked)))
                }
                Later::Status(task_id) => {
                    let kept = self.tasks.unacknowledged(framework_id, &task_id).cloned();
                    let task = framework.tasks.get(&task_id).filter(|task| task.is_ended());
                    let known = || task.and_then(|task| task.status.as_deref().cloned());
                    kept.or_else(known).filter(|status| status.uuid.is_some()).map(Notice::Task)
                }
                Later::Feedback(own_id) => {
                    let record = state.operation_of(framework_id, &own_id);
                    let open = record.filter(|record| !record.is_acknowledged);
                    let status = open.and_then(|record| record.status());
                    match &status {
                        Some(_) => self.repeats.said(framework_id, &own_id, now),
                        None => self.repeats.over(framework_id, &own_id),
                    }
                    status.map(Notice::Operation)
                }
            };
            actions.extend(notice.map(|notice| stream.notice(notice)));
        }
        actions
    }
}
