//! What schedulers ask of this leader: every call but SUBSCRIBE and ACCEPT, checked in the order
//! of spec §4.1. What has to outlive this leader is proposed, and answered when it is
//! applied. Next: `accepting.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use std::collections::BTreeSet;
use std::time::Duration;

use resources::id::{AgentId, FrameworkId, OperationId, Principal, TaskId, UpdateId};
use resources::message::Instruction;
use resources::role::Role;
use resources::task::ExecutorName;
use resources::time::Timestamp;

use super::core::Core;
use super::event::{Action, AskId, Origin, Proposal};
use super::frameworks::Later;
use super::request::ProposeFailure;
use super::scheduler::{Ask, SchedulerCall, SchedulerRefusal};
use crate::state::State;
use crate::state::command::{CommandKind, Response, SourceAddr};
use crate::state::frameworks::Framework;
use crate::state::tasks::KillRequest;

/// What a call comes to.
enum Follow {
    /// The log has to know of it: it is answered when that does.
    Log(CommandKind),
    /// Likewise, of roles that offers are wanted for or not.
    Suppress(CommandKind),
    /// This is done at once, and the call is answered.
    Done(Vec<Action>),
}

impl Follow {
    fn done(action: Option<Action>) -> Self {
        Self::Done(action.into_iter().collect())
    }
    fn suppress(kind: Option<CommandKind>) -> Self {
        kind.map_or_else(|| Self::Done(Vec::new()), Self::Suppress)
    }
}

/// Calls.
impl Core {
    pub(super) fn ask_arrived(
        &mut self,
        state: &State,
        (ask_id, call): (AskId, Box<SchedulerCall>),
        now: Timestamp,
    ) -> Vec<Action> {
        if self.term().is_none() {
            let refusal = SchedulerRefusal::Propose(ProposeFailure::NotLeader);
            return vec![Action::AnswerAsk(ask_id, Err(refusal))];
        }
        if state.framework(&call.framework_id).is_none() {
            // Another leader may have admitted it: only a read barrier shows that none did.
            return self.park_ask(ask_id, call);
        }
        self.ask_covered(state, (ask_id, call), now)
    }

    /// The same once the state is known to be no old one.
    pub(super) fn ask_covered(
        &mut self,
        state: &State,
        (ask_id, call): (AskId, Box<SchedulerCall>),
        now: Timestamp,
    ) -> Vec<Action> {
        let Some(framework) = state.framework(&call.framework_id) else {
            return vec![Action::AnswerAsk(ask_id, Err(SchedulerRefusal::UnknownFramework))];
        };
        if let Err(refusal) = self.check_call(framework, &call) {
            return vec![Action::AnswerAsk(ask_id, Err(refusal))];
        }
        self.counts.called(call.ask.name());
        if matches!(call.ask, Ask::Accept { .. }) {
            return self.accept(state, framework, (ask_id, call), now);
        }
        let SchedulerCall { principal, source, ask, .. } = *call;
        let (origin, kind) = match self.follow(state, framework, ask, now) {
            Follow::Log(kind) => (Origin::Ask(ask_id), kind),
            Follow::Suppress(kind) => (Origin::Suppress(ask_id, framework.id.clone()), kind),
            Follow::Done(mut actions) => {
                actions.push(Action::AnswerAsk(ask_id, Ok(())));
                return actions;
            }
        };
        let (source, kind) = (Some(source), Box::new(kind));
        vec![Action::Propose(origin, Proposal::Plain { principal, source, kind })]
    }

    /// What a call comes to, once nothing is against it.
    fn follow(&mut self, state: &State, framework: &Framework, ask: Ask, now: Timestamp) -> Follow {
        let framework_id = framework.id.clone();
        match ask {
            Ask::Accept { .. } | Ask::Nothing => Follow::Done(Vec::new()),
            Ask::AnswerInverse { offer_ids, is_accepted, refuse } => {
                self.answer_inverse(&framework_id, &offer_ids, (is_accepted, refuse), now);
                Follow::Done(Vec::new())
            }
            Ask::Teardown => {
                Follow::Log(CommandKind::RemoveFramework { framework_id, witness: None })
            }
            Ask::Update(subscription) => {
                Follow::Log(CommandKind::UpdateFramework { framework_id, subscription })
            }
            Ask::Decline { offer_ids, refuse } => {
                let declined = self.offers.decline(&framework_id, &offer_ids, refuse, now);
                self.count_declined(&framework_id, declined);
                Follow::Done(Vec::new())
            }
            Ask::Revive(roles) => Follow::suppress(self.revive(framework, &roles)),
            Ask::Suppress(roles) => Follow::suppress(self.suppress(framework, &roles)),
            Ask::Kill { task_id, agent_id, grace } => {
                self.kill(state, framework, (task_id, agent_id, grace), now)
            }
            Ask::Shutdown { agent_id, executor_id } => {
                let name = ExecutorName { framework_id, executor_id };
                let asked = Instruction::ShutDownExecutor(name);
                Follow::done(self.sessions.instruct(&agent_id, asked))
            }
            Ask::Message { agent_id, executor_id, data } => {
                let executor = ExecutorName { framework_id, executor_id };
                let asked = Instruction::ExecutorMessage { executor, data };
                Follow::done(self.sessions.instruct(&agent_id, asked))
            }
            Ask::Acknowledge { agent_id, task_id, uuid } => {
                self.acknowledge(framework, (agent_id, task_id, uuid))
            }
            Ask::AcknowledgeOperation { own_id, uuid } => {
                self.acknowledge_operation(state, framework, (own_id, uuid))
            }
            Ask::Reconcile(tasks) => Follow::Done(self.reconcile(state, framework, tasks, now)),
            Ask::ReconcileOperations(operations) => {
                Follow::Done(self.reconcile_operations(state, framework, operations, now))
            }
        }
    }

    /// The operators' way to end a framework. One that is unknown is gone already.
    pub(super) fn teardown_arrived(
        &mut self,
        ask_id: AskId,
        (principal, source): (Option<Principal>, SourceAddr),
        framework_id: FrameworkId,
    ) -> Vec<Action> {
        if self.term().is_none() {
            let refusal = SchedulerRefusal::Propose(ProposeFailure::NotLeader);
            return vec![Action::AnswerAsk(ask_id, Err(refusal))];
        }
        let kind = Box::new(CommandKind::RemoveFramework { framework_id, witness: None });
        let proposal = Proposal::Plain { principal, source: Some(source), kind };
        vec![Action::Propose(Origin::Ask(ask_id), proposal)]
    }

    /// Rows 11 to 13 of spec §4.1.
    fn check_call(
        &self,
        framework: &Framework,
        call: &SchedulerCall,
    ) -> Result<(), SchedulerRefusal> {
        if let Some(principal) = &call.principal
            && framework.info.principal.as_ref() != Some(principal)
        {
            let words = format!("framework {} is not of principal '{principal}'", framework.id);
            return Err(SchedulerRefusal::OtherPrincipal(words));
        }
        let stream = self.frameworks.stream(&framework.id);
        let stream = stream.ok_or(SchedulerRefusal::NotSubscribed)?;
        match &call.stream_id {
            Some(stream_id) if *stream_id == stream.stream_id => Ok(()),
            Some(stream_id) => Err(SchedulerRefusal::OtherStream(format!(
                "Mesos-Stream-Id '{stream_id}' is not that of the framework's subscription"
            ))),
            None => Err(SchedulerRefusal::OtherStream(
                "the header Mesos-Stream-Id is missing".to_owned(),
            )),
        }
    }

    fn revive(&mut self, framework: &Framework, roles: &BTreeSet<Role>) -> Option<CommandKind> {
        let roles = own_roles(framework, roles)?;
        self.offers.revive(&framework.id, &roles.iter().cloned().collect::<Vec<Role>>());
        let before = self.frameworks.stream(&framework.id)?.suppressed(framework);
        let suppressed = before.difference(&roles).cloned().collect();
        self.set_suppressed(framework, suppressed)
    }

    fn suppress(&mut self, framework: &Framework, roles: &BTreeSet<Role>) -> Option<CommandKind> {
        let roles = own_roles(framework, roles)?;
        self.offers.suppress(&framework.id, &roles.iter().cloned().collect::<Vec<Role>>());
        let before = self.frameworks.stream(&framework.id)?.suppressed(framework);
        let suppressed = before.union(&roles).cloned().collect();
        self.set_suppressed(framework, suppressed)
    }

    /// Nothing, when it changes nothing.
    fn set_suppressed(
        &mut self,
        framework: &Framework,
        suppressed: BTreeSet<Role>,
    ) -> Option<CommandKind> {
        let stream = self.frameworks.stream_mut(&framework.id)?;
        if *stream.suppressed(framework) == suppressed {
            return None;
        }
        stream.suppress(suppressed.clone());
        Some(CommandKind::SetSuppressed { framework_id: framework.id.clone(), suppressed })
    }

    fn kill(
        &mut self,
        state: &State,
        framework: &Framework,
        (task_id, agent_id, grace): (TaskId, Option<AgentId>, Option<Duration>),
        now: Timestamp,
    ) -> Follow {
        let framework_id = framework.id.clone();
        let Some(task) = framework.tasks.get(&task_id) else {
            return Follow::Done(self.reconcile(state, framework, vec![(task_id, agent_id)], now));
        };
        let is_elsewhere = agent_id.is_some_and(|agent_id| agent_id != task.agent_id);
        if is_elsewhere || task.is_ended() {
            return Follow::Done(Vec::new());
        }
        if task.kill == Some(KillRequest { grace }) {
            // It is on record; the agent is asked once more.
            let asked = Instruction::Kill { framework_id, task_id, grace };
            return Follow::done(self.sessions.instruct(&task.agent_id, asked));
        }
        Follow::Log(CommandKind::Kill { framework_id, task_id, grace })
    }

    /// The end of a task is over when its framework has heard of it, and the log must know. Of
    /// other statuses only the agent is told.
    fn acknowledge(
        &mut self,
        framework: &Framework,
        (agent_id, task_id, uuid): (AgentId, TaskId, UpdateId),
    ) -> Follow {
        let framework_id = framework.id.clone();
        self.tasks.acknowledged(&framework_id, &task_id, uuid);
        let task = framework.tasks.get(&task_id);
        let status = task.and_then(|task| task.status.as_deref());
        let is_end =
            status.is_some_and(|known| known.uuid == Some(uuid) && known.state.is_terminal());
        if is_end {
            return Follow::Log(CommandKind::AcknowledgeTask { framework_id, task_id, uuid });
        }
        let asked = Instruction::AcknowledgeStatus { framework_id, task_id, uuid };
        Follow::done(self.sessions.instruct(&agent_id, asked))
    }

    fn acknowledge_operation(
        &mut self,
        state: &State,
        framework: &Framework,
        (own_id, uuid): (OperationId, UpdateId),
    ) -> Follow {
        let record = state.operation_of(&framework.id, &own_id);
        let status = record.and_then(|record| record.status());
        if status.is_none_or(|status| status.uuid != Some(uuid)) {
            return Follow::Done(Vec::new());
        }
        self.repeats.over(&framework.id, &own_id);
        let framework_id = framework.id.clone();
        Follow::Log(CommandKind::AcknowledgeOperation { framework_id, own_id, uuid })
    }

    fn reconcile(
        &mut self,
        state: &State,
        framework: &Framework,
        tasks: Vec<(TaskId, Option<AgentId>)>,
        now: Timestamp,
    ) -> Vec<Action> {
        let Some(stream) = self.frameworks.stream_mut(&framework.id) else { return Vec::new() };
        if tasks.is_empty() {
            let all = framework.tasks.keys();
            stream.backlog.extend(all.map(|task_id| Later::Task(task_id.clone(), None)));
        } else {
            stream.backlog.extend(tasks.into_iter().map(|(id, at)| Later::Task(id, at)));
        }
        self.say_backlog(state, &framework.id, now)
    }

    fn reconcile_operations(
        &mut self,
        state: &State,
        framework: &Framework,
        operations: Vec<(OperationId, Option<AgentId>)>,
        now: Timestamp,
    ) -> Vec<Action> {
        let Some(stream) = self.frameworks.stream_mut(&framework.id) else { return Vec::new() };
        if operations.is_empty() {
            let all = framework.operations.keys();
            stream.backlog.extend(all.map(|own_id| Later::Operation(own_id.clone(), None)));
        } else {
            let asked = operations.into_iter();
            stream.backlog.extend(asked.map(|(id, at)| Later::Operation(id, at)));
        }
        self.say_backlog(state, &framework.id, now)
    }
}

/// Calls whose command came to its end.
impl Core {
    pub(super) fn suppress_ended(&mut self, state: &State, framework_id: &FrameworkId) {
        if let Some(stream) = self.frameworks.stream_mut(framework_id) {
            stream.suppression_ended();
        }
        self.tell_of_framework(state, framework_id);
    }

    /// Tells the allocator what a framework wants, with what it was told to suppress meanwhile.
    pub(super) fn tell_of_framework(&mut self, state: &State, framework_id: &FrameworkId) {
        let Some(framework) = state.framework(framework_id) else { return };
        let stream = self.frameworks.stream(framework_id);
        let suppressed = stream.map_or(&framework.suppressed, |s| s.suppressed(framework));
        self.offers.framework_changed(framework, suppressed);
    }
}

/// The answer to a call whose command was decided.
pub(super) fn answer(ask_id: AskId, response: &Response) -> Action {
    let answer = match response {
        Response::Rejected(rejection) => Err(SchedulerRefusal::Invalid(rejection.to_string())),
        Response::Done
        | Response::Ruled
        | Response::Registered { .. }
        | Response::Accepted { .. }
        | Response::Transacted { .. }
        | Response::Subscribed { .. }
        | Response::Judged { .. } => Ok(()),
    };
    Action::AnswerAsk(ask_id, answer)
}

/// These roles, or all when there are none. None when the framework lacks one of them: all of
/// the call is void.
fn own_roles(framework: &Framework, roles: &BTreeSet<Role>) -> Option<BTreeSet<Role>> {
    if roles.is_empty() {
        return Some(framework.info.roles.clone());
    }
    roles.is_subset(&framework.info.roles).then(|| roles.clone())
}
