//! What agents say of tasks, what frameworks acknowledge, and whose end they ask for (spec
//! §4.5, §7.9). Next: `../judge.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use resources::id::{AgentId, FrameworkId, TaskId, UpdateId};
use resources::message::{ExecutorExit, Instruction};
use resources::operation::Operation;
use resources::task::StatusUpdate;

use super::super::State;
use super::super::agents::Agent;
use super::super::command::{Effect, Notice, Response};
use super::super::frameworks::Framework;
use super::super::rejection::Rejection;
use super::{KillRequest, TaskName};

impl State {
    pub(in crate::state) fn update_tasks(
        &mut self,
        agent_id: &AgentId,
        updates: &[StatusUpdate],
        exited: &[ExecutorExit],
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        if !self.known_agent(agent_id)?.is_counted() {
            // It says all of it again when it is back.
            return Err(Rejection::UnknownAgent { agent_id: agent_id.clone() });
        }
        let mut effects = Vec::new();
        for update in updates {
            effects.extend(self.update_task(agent_id, update));
        }
        for exit in exited {
            if self.remove_executor(agent_id, &exit.executor) {
                let notice =
                    Notice::ExecutorExited { agent_id: agent_id.clone(), exit: exit.clone() };
                let framework_id = exit.executor.framework_id.clone();
                effects.push(Effect::Tell(framework_id, Box::new(notice)));
                effects.push(Effect::CapacityChanged(agent_id.clone()));
            }
        }
        Ok((Response::Done, once_per_agent(effects)))
    }

    fn update_task(&mut self, agent_id: &AgentId, update: &StatusUpdate) -> Vec<Effect> {
        let framework_id = &update.framework_id;
        let task_id = &update.status.task_id;
        match self.task(framework_id, task_id) {
            // An id may be used again elsewhere, once its task is forgotten.
            Some(task) if task.agent_id == *agent_id => {}
            Some(_) | None => return self.update_stranger(agent_id, update),
        }
        let name = TaskName { framework_id: framework_id.clone(), task_id: task_id.clone() };
        let mut status = update.status.clone();
        status.agent_id.get_or_insert_with(|| agent_id.clone());
        let last = Arc::new(status.clone());
        let changed = self.change_task(&name, |task| {
            // Nothing follows the end: words that were on their way before it change no state.
            if !task.is_ended() || update.latest.is_terminal() {
                task.state = update.latest;
            }
            task.status = Some(last);
        });
        let mut effects = changed.unwrap_or_default();
        // Without a name it will not be acknowledged.
        if status.uuid.is_none() && status.state.is_terminal() {
            self.forget_task(&name);
        }
        effects.push(Effect::Tell(framework_id.clone(), Box::new(Notice::Task(status))));
        effects
    }

    /// A word on a task that is not on record: its agent may forget the word, and must end the
    /// task if it still runs.
    fn update_stranger(&self, agent_id: &AgentId, update: &StatusUpdate) -> Vec<Effect> {
        let (framework_id, task_id) = (&update.framework_id, &update.status.task_id);
        let acknowledge = update.status.uuid.map(|uuid| Instruction::AcknowledgeStatus {
            framework_id: framework_id.clone(),
            task_id: task_id.clone(),
            uuid,
        });
        let end = if self.removed_framework(framework_id) {
            Some(Instruction::ShutDownFramework(framework_id.clone()))
        } else if update.latest.is_terminal() {
            None
        } else {
            let (framework_id, task_id) = (framework_id.clone(), task_id.clone());
            Some(Instruction::Kill { framework_id, task_id, grace: None })
        };
        let instructions = acknowledge.into_iter().chain(end);
        instructions.map(|asked| Effect::Instruct(agent_id.clone(), Box::new(asked))).collect()
    }

    /// The framework has a status of a task. When it is the last there is, the task is forgotten.
    pub(in crate::state) fn acknowledge_task(
        &mut self,
        framework_id: &FrameworkId,
        task_id: &TaskId,
        uuid: UpdateId,
    ) -> (Response, Vec<Effect>) {
        let Some(task) = self.task(framework_id, task_id) else {
            return (Response::Done, Vec::new());
        };
        let Some(status) = task.status.as_ref().filter(|status| status.uuid == Some(uuid)) else {
            return (Response::Done, Vec::new());
        };
        let (agent_id, is_last) = (task.agent_id.clone(), status.state.is_terminal());
        if is_last {
            let name = TaskName { framework_id: framework_id.clone(), task_id: task_id.clone() };
            self.forget_task(&name);
        }
        let (framework_id, task_id) = (framework_id.clone(), task_id.clone());
        let asked = Instruction::AcknowledgeStatus { framework_id, task_id, uuid };
        (Response::Done, vec![Effect::Instruct(agent_id, Box::new(asked))])
    }

    /// Asks for the end of a task; a task that has ended or is unknown needs none.
    pub(in crate::state) fn kill(
        &mut self,
        framework_id: &FrameworkId,
        task_id: &TaskId,
        grace: Option<Duration>,
    ) -> (Response, Vec<Effect>) {
        let Some(task) = self.task(framework_id, task_id).filter(|task| !task.is_ended()) else {
            return (Response::Done, Vec::new());
        };
        let agent_id = task.agent_id.clone();
        let name = TaskName { framework_id: framework_id.clone(), task_id: task_id.clone() };
        self.change_task(&name, |task| task.kill = Some(KillRequest { grace }));
        let (framework_id, task_id) = (framework_id.clone(), task_id.clone());
        let asked = Instruction::Kill { framework_id, task_id, grace };
        (Response::Done, vec![Effect::Instruct(agent_id, Box::new(asked))])
    }

    /// Tasks that ended before their order reached their agent: it left, and is back.
    fn forgotten_launches(&self, agent: &Agent) -> impl Iterator<Item = Instruction> {
        let launches = agent.pending.values().filter_map(|record| match &record.operation {
            Operation::Launch(launch) if !record.is_settled() => Some((record.seq, launch)),
            Operation::Launch(_)
            | Operation::Reserve { .. }
            | Operation::Unreserve { .. }
            | Operation::Create { .. }
            | Operation::Destroy { .. }
            | Operation::Grow { .. }
            | Operation::Shrink { .. } => None,
        });
        launches.flat_map(move |(seq, launch)| {
            let framework = self.framework(&launch.framework_id);
            let is_forgotten = move |framework: &&Framework, task_id: &TaskId| {
                framework.tasks.get(task_id).is_none_or(|task| task.launch != seq)
            };
            launch.tasks.iter().filter_map(move |task| {
                let framework = framework.filter(|it| is_forgotten(it, &task.task_id))?;
                let (framework_id, task_id) = (framework.id.clone(), task.task_id.clone());
                Some(Instruction::Kill { framework_id, task_id, grace: None })
            })
        })
    }

    /// What is asked of an agent beside its orders, as far as the log knows of it.
    pub(in crate::state) fn asked_of(&self, agent: &Agent) -> Vec<Instruction> {
        let tasks = agent.tasks.keys().filter_map(|name| {
            let task = self.task(&name.framework_id, &name.task_id)?;
            let KillRequest { grace } = task.kill.filter(|_| !task.is_ended())?;
            let (framework_id, task_id) = (name.framework_id.clone(), name.task_id.clone());
            Some(Instruction::Kill { framework_id, task_id, grace })
        });
        let orphaned = agent.pending.values().filter_map(|record| match &record.operation {
            Operation::Launch(launch) if self.framework(&launch.framework_id).is_none() => {
                Some(Instruction::ShutDownFramework(launch.framework_id.clone()))
            }
            Operation::Launch(_)
            | Operation::Reserve { .. }
            | Operation::Unreserve { .. }
            | Operation::Create { .. }
            | Operation::Destroy { .. }
            | Operation::Grow { .. }
            | Operation::Shrink { .. } => None,
        });
        let mut asked: Vec<Instruction> = tasks.collect();
        asked.extend(self.forgotten_launches(agent));
        for one in orphaned {
            if !asked.contains(&one) {
                asked.push(one);
            }
        }
        asked
    }
}

/// What is free on an agent is said to have changed once, after everything else.
pub(in crate::state) fn once_per_agent(effects: Vec<Effect>) -> Vec<Effect> {
    let (mut kept, mut changed) = (Vec::with_capacity(effects.len()), BTreeSet::new());
    for effect in effects {
        if let Effect::CapacityChanged(agent_id) = effect {
            changed.insert(agent_id);
        } else {
            kept.push(effect);
        }
    }
    kept.extend(changed.into_iter().map(Effect::CapacityChanged));
    kept
}
