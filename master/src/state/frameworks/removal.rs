//! The removal of a framework: its tasks and executors end, what they used is free, what it
//! reserved and created stays (spec §4.2), and its id never comes back. Next: `../tasks.rs`.

use std::sync::Arc;

use resources::id::FrameworkId;
use resources::message::Instruction;
use resources::persistent::PersistentMap;
use resources::task::{ExecutorName, StatusReason, TaskState};

use super::super::agents::Agent;
use super::super::command::{Absence, Change, Effect, Response};
use super::super::tasks::{once_per_agent, said_by_master};
use super::super::{Moment, State, limits};
use super::{Connection, Framework};

impl State {
    /// Removes a framework, if its absence is still the one that is meant.
    pub(in crate::state) fn remove_framework(
        &mut self,
        now: Moment,
        id: &FrameworkId,
        witness: Option<Absence>,
    ) -> (Response, Vec<Effect>) {
        let Some(framework) = self.framework(id) else { return (Response::Done, Vec::new()) };
        let is_meant =
            witness.is_none_or(|absence| framework.connection == Connection::Absent(absence));
        if !is_meant {
            return (Response::Done, Vec::new());
        }
        (Response::Done, once_per_agent(self.discard_framework(now, id)))
    }

    pub(super) fn discard_framework(&mut self, now: Moment, id: &FrameworkId) -> Vec<Effect> {
        let Some(framework) = self.frameworks.get(id).cloned() else { return Vec::new() };
        self.frameworks.remove_mut(id);
        let mut effects = Vec::new();
        for agent_id in framework.agents.keys() {
            if let Some(agent) = self.agent_mut(agent_id) {
                agent.vacate_all_of(id);
            }
            let instruction = Box::new(Instruction::ShutDownFramework(id.clone()));
            effects.push(Effect::Instruct(agent_id.clone(), instruction));
            effects.push(Effect::CapacityChanged(agent_id.clone()));
        }
        for own_id in framework.operations.keys() {
            self.orphan_operation(&framework, own_id);
        }
        let mut framework = Arc::unwrap_or_clone(framework);
        effects.extend(framework.end_tasks(now));
        framework.removed_at = Some(now.wall);
        effects.push(Effect::Change(Change::FrameworkRemoved(id.clone())));
        let number = self.tombstones.size() as u64;
        self.tombstones.insert_mut(id.clone(), number);
        self.completed_frameworks.insert_mut(number, Arc::new(framework));
        while self.completed_frameworks.size() > limits::COMPLETED_FRAMEWORKS_MAX {
            let Some((oldest, _)) = self.completed_frameworks.first() else { break };
            let oldest = *oldest;
            self.completed_frameworks.remove_mut(&oldest);
        }
        effects
    }
}

impl Framework {
    /// Its tasks are over: those which had not ended are killed.
    fn end_tasks(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        for task in std::mem::take(&mut self.tasks).values() {
            let mut task = Arc::clone(task);
            if !task.is_ended() {
                let ended = Arc::make_mut(&mut task);
                ended.state = TaskState::Killed;
                let mut status = said_by_master(
                    (ended.task_id.clone(), ended.state),
                    (StatusReason::FrameworkRemoved, "its framework was removed".to_owned()),
                    now.wall,
                );
                status.agent_id = Some(ended.agent_id.clone());
                ended.status = Some(Arc::new(status));
                let (id, task_id) = (self.id.clone(), ended.task_id.clone());
                effects.push(Effect::Change(Change::TaskMoved(id, task_id, ended.state)));
            }
            self.complete(task);
        }
        self.agents = PersistentMap::default();
        self.operations = PersistentMap::default();
        effects
    }
}

impl Agent {
    /// Frees whatever a framework uses here.
    fn vacate_all_of(&mut self, id: &FrameworkId) {
        let shares = self.used_by.iter().filter(|((framework_id, _), _)| framework_id == id);
        let shares: Vec<_> = shares.map(|(key, used)| (key.clone(), used.clone())).collect();
        for (key, used) in shares {
            self.used.subtract_all(&used);
            self.used_by.remove_mut(&key);
        }
        let tasks = self.tasks.keys().filter(|name| name.framework_id == *id);
        for name in tasks.cloned().collect::<Vec<_>>() {
            self.tasks.remove_mut(&name);
        }
        let executors = self.executors.keys().filter(|name| name.framework_id == *id);
        for name in executors.cloned().collect::<Vec<ExecutorName>>() {
            self.executors.remove_mut(&name);
        }
    }
}
