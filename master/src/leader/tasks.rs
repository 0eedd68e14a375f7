//! What agents say of tasks and executors, on its way: into the log where it changes something,
//! straight to the framework where not. What a framework has not acknowledged is kept, and said
//! again when it is back. Soft: agents say it all again to the next leader. Must not know
//! sessions or streams. Next: `feedback.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use std::collections::{BTreeMap, VecDeque};

use resources::id::{AgentId, FrameworkId, TaskId, UpdateId};
use resources::message::{ExecutorExit, Instruction};
use resources::task::{StatusUpdate, TaskStatus};

use super::event::{Action, Origin};
use super::frameworks::propose;
use crate::state::State;
use crate::state::command::CommandKind;

/// Updates in one command, at most.
const UPDATES_PER_COMMAND_MAX: usize = 512;
/// Bytes of data in one command, about: a command takes up to 1 MiB.
const COMMAND_BYTES_MAX: usize = 256 << 10;

/// All that is on its way.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    reports: BTreeMap<AgentId, Report>,
    /// The last status of each task that its framework has not acknowledged.
    unacknowledged: BTreeMap<FrameworkId, BTreeMap<TaskId, TaskStatus>>,
}

/// What an agent said and the state does not hold yet. Kept until it does: a proposal may get
/// lost, and executors' ends are said once.
#[derive(Debug, Default)]
struct Report {
    updates: VecDeque<StatusUpdate>,
    exited: Vec<ExecutorExit>,
    /// So many of each are proposed and not decided.
    proposed: Option<(usize, usize)>,
    /// The last proposal was lost: the next comes after a tick.
    is_lost: bool,
}

/// Where a status goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Into the log: it changes where the task stands.
    Log,
    /// Straight to the framework, which is told by the log alone what changed.
    Forward,
    /// Nowhere; the agent is told what to do about it.
    Nowhere(Vec<Instruction>),
}

/// Where a status goes.
pub(super) fn way(state: &State, agent_id: &AgentId, update: &StatusUpdate) -> Way {
    let StatusUpdate { framework_id, status, latest } = update;
    let task = state.task(framework_id, &status.task_id).filter(|task| task.agent_id == *agent_id);
    let Some(task) = task else { return Way::Nowhere(about_stranger(state, update)) };
    let known = task.status.as_deref();
    let is_repeat = status.uuid.is_some() && known.is_some_and(|known| known.uuid == status.uuid);
    let is_same = known.is_some_and(|known| known.state == status.state);
    let changes = *latest != task.state || !(is_repeat || is_same && !status.state.is_terminal());
    if changes { Way::Log } else { Way::Forward }
}

/// A word on a task that is not on record: its end was acknowledged, or its framework is gone.
/// The agent may forget the word, and must end what still runs.
fn about_stranger(state: &State, update: &StatusUpdate) -> Vec<Instruction> {
    let (framework_id, task_id) = (update.framework_id.clone(), update.status.task_id.clone());
    if state.framework(&framework_id).is_none() {
        return vec![Instruction::ShutDownFramework(framework_id)];
    }
    let acknowledge = update.status.uuid.map(|uuid| Instruction::AcknowledgeStatus {
        framework_id: framework_id.clone(),
        task_id: task_id.clone(),
        uuid,
    });
    let kill = Instruction::Kill { framework_id, task_id, grace: None };
    let kill = (!update.latest.is_terminal()).then_some(kill);
    acknowledge.into_iter().chain(kill).collect()
}

impl Tasks {
    /// A status that the log must have. What waits already is not taken twice.
    pub(super) fn report(&mut self, agent_id: &AgentId, update: StatusUpdate) {
        let report = self.reports.entry(agent_id.clone()).or_default();
        if !report.updates.contains(&update) {
            report.updates.push_back(update);
        }
    }
    /// Executors that ended.
    pub(super) fn exited(&mut self, agent_id: &AgentId, exited: Vec<ExecutorExit>) {
        self.reports.entry(agent_id.clone()).or_default().exited.extend(exited);
    }
    /// Whether something that an agent said is not in the log yet.
    pub(super) fn is_reporting(&self, agent_id: &AgentId) -> bool {
        self.reports.contains_key(agent_id)
    }
    /// One command for each agent of which something waits.
    pub(super) fn flush(&mut self) -> Vec<Action> {
        let waiting = self.reports.iter_mut().filter(|(_, report)| report.may_go());
        waiting.map(|(agent_id, report)| report.propose(agent_id)).collect()
    }
    /// What was proposed of an agent is in the state, or never will be.
    pub(super) fn decided(&mut self, agent_id: &AgentId) {
        let Some(report) = self.reports.get_mut(agent_id) else { return };
        let Some((updates, exited)) = report.proposed.take() else { return };
        report.updates.drain(..updates.min(report.updates.len()));
        report.exited.drain(..exited.min(report.exited.len()));
        if report.updates.is_empty() && report.exited.is_empty() {
            self.reports.remove(agent_id);
        }
    }
    /// The proposal was lost. Nobody else knows of it.
    pub(super) fn undecided(&mut self, agent_id: &AgentId) {
        if let Some(report) = self.reports.get_mut(agent_id) {
            report.proposed = None;
            report.is_lost = true;
        }
    }
    /// Time has passed: what was lost is proposed again.
    pub(super) fn retry(&mut self) {
        self.reports.values_mut().for_each(|report| report.is_lost = false);
    }

    /// A status that its framework has to acknowledge.
    pub(super) fn remember(&mut self, framework_id: &FrameworkId, status: &TaskStatus) {
        if status.uuid.is_some() {
            let own = self.unacknowledged.entry(framework_id.clone()).or_default();
            own.insert(status.task_id.clone(), status.clone());
        }
    }
    /// And has.
    pub(super) fn acknowledged(
        &mut self,
        framework_id: &FrameworkId,
        task_id: &TaskId,
        uuid: UpdateId,
    ) {
        let Some(own) = self.unacknowledged.get_mut(framework_id) else { return };
        if own.get(task_id).is_some_and(|status| status.uuid == Some(uuid)) {
            own.remove(task_id);
        }
        if own.is_empty() {
            self.unacknowledged.remove(framework_id);
        }
    }
    /// The status of a task that was not acknowledged.
    pub(super) fn unacknowledged(
        &self,
        framework_id: &FrameworkId,
        task_id: &TaskId,
    ) -> Option<&TaskStatus> {
        self.unacknowledged.get(framework_id)?.get(task_id)
    }
    /// The tasks of a framework that it has not acknowledged a status of.
    pub(super) fn unheard(&self, framework_id: &FrameworkId) -> impl Iterator<Item = &TaskId> {
        self.unacknowledged.get(framework_id).into_iter().flat_map(BTreeMap::keys)
    }
    /// A framework is no more.
    pub(super) fn framework_removed(&mut self, framework_id: &FrameworkId) {
        self.unacknowledged.remove(framework_id);
    }
}

impl Report {
    fn may_go(&self) -> bool {
        let is_empty = self.updates.is_empty() && self.exited.is_empty();
        self.proposed.is_none() && !self.is_lost && !is_empty
    }
    fn propose(&mut self, agent_id: &AgentId) -> Action {
        let mut bytes = 0;
        let fits = |update: &&StatusUpdate| {
            bytes += update.status.data.as_bytes().len() + update.status.wire.as_bytes().len();
            bytes <= COMMAND_BYTES_MAX
        };
        let updates = self.updates.iter().take(UPDATES_PER_COMMAND_MAX).take_while(fits);
        let mut updates: Vec<StatusUpdate> = updates.cloned().collect();
        if updates.is_empty() {
            updates.extend(self.updates.front().cloned());
        }
        // An executor's end comes after the last words on its tasks.
        let is_all = updates.len() == self.updates.len();
        let exited = if is_all { self.exited.clone() } else { Vec::new() };
        self.proposed = Some((updates.len(), exited.len()));
        let kind = CommandKind::UpdateTasks { agent_id: agent_id.clone(), updates, exited };
        propose(Origin::Tasks(agent_id.clone()), kind)
    }
}
