//! The beginning and the end of tasks and executors, in the books of their framework and of
//! their agent at once: both always list the same. Next: `updates.rs`.

use std::sync::Arc;

use resources::id::AgentId;
use resources::task::{ExecutorName, StatusReason, TaskState};
use resources::time::Timestamp;

use super::super::State;
use super::super::agents::Agent;
use super::super::command::{Change, Effect, Notice};
use super::super::frameworks::Framework;
use super::{Executor, Task, TaskName, said_by_master};

impl Framework {
    /// Takes a new task into its books.
    pub(in crate::state) fn add_task(&mut self, task: Arc<Task>) {
        self.arrive(&task.agent_id);
        self.tasks.insert_mut(task.task_id.clone(), task);
    }
    /// One more task or executor of it is on this agent.
    pub(in crate::state) fn arrive(&mut self, agent_id: &AgentId) {
        let count = self.agents.get(agent_id).copied().unwrap_or_default();
        self.agents.insert_mut(agent_id.clone(), count + 1);
    }
    fn leave(&mut self, agent_id: &AgentId) {
        match self.agents.get_mut(agent_id) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => {
                self.agents.remove_mut(agent_id);
            }
        }
    }
}

impl Agent {
    /// Takes a new task into its books; one that has ended uses nothing.
    pub(in crate::state) fn add_task(&mut self, task: &Task) {
        self.tasks.insert_mut(task.full_name(), task.launch);
        if !task.is_ended() {
            self.occupy((&task.framework_id, &task.role), &task.resources);
        }
    }
    /// Takes a new executor into its books.
    pub(in crate::state) fn add_executor(&mut self, executor: Arc<Executor>) {
        self.occupy((&executor.framework_id, &executor.role), &executor.info.resources);
        self.executors.insert_mut(executor.name(), executor);
    }
}

impl State {
    /// Changes a task. Once it has ended its resources are free, whoever knows of it already.
    /// Gives the change to tell of, and whether its agent has more that is free.
    pub(in crate::state) fn change_task(
        &mut self,
        name: &TaskName,
        change: impl FnOnce(&mut Task),
    ) -> Option<Vec<Effect>> {
        let framework = Arc::make_mut(self.frameworks.get_mut(&name.framework_id)?);
        let slot = framework.tasks.get_mut(&name.task_id)?;
        let task = Arc::make_mut(slot);
        let before = task.state;
        change(task);
        let (task, mut effects) = (Arc::clone(slot), Vec::new());
        if task.state != before {
            let (framework_id, task_id) = (name.framework_id.clone(), name.task_id.clone());
            let change = Change::TaskMoved(framework_id, task_id, task.state);
            effects.push(Effect::Change(change));
        }
        if task.is_ended() && !before.is_terminal() {
            if let Some(agent) = self.agent_mut(&task.agent_id) {
                agent.vacate((&task.framework_id, &task.role), &task.resources);
            }
            effects.push(Effect::CapacityChanged(task.agent_id.clone()));
        }
        Some(effects)
    }

    /// The end of a task, by the masters' own judgement: its framework is told once, and the
    /// task is forgotten, because nobody will acknowledge it.
    pub(in crate::state) fn end_task(
        &mut self,
        name: &TaskName,
        state: TaskState,
        (reason, message): (StatusReason, String),
        wall: Timestamp,
    ) -> Vec<Effect> {
        let Some(framework) = self.framework(&name.framework_id) else { return Vec::new() };
        let Some(task) = framework.tasks.get(&name.task_id) else { return Vec::new() };
        let mut status = if task.is_ended() {
            // Its agent has said how it ended and knows no more of it.
            task.current_status(wall)
        } else {
            let state = framework.lost_as(state);
            said_by_master((name.task_id.clone(), state), (reason, message), wall)
        };
        status.agent_id = Some(task.agent_id.clone());
        status.executor_id.clone_from(&task.executor_id);
        let last = Arc::new(status.clone());
        let changed = self.change_task(name, |task| {
            if !task.is_ended() {
                task.state = last.state;
            }
            task.status = Some(last);
        });
        let mut effects = changed.unwrap_or_default();
        effects.push(Effect::Tell(name.framework_id.clone(), Box::new(Notice::Task(status))));
        self.forget_task(name);
        effects
    }

    /// A task that has ended goes to its framework's completed ones.
    pub(in crate::state) fn forget_task(&mut self, name: &TaskName) {
        let Some(framework) = self.frameworks.get_mut(&name.framework_id).map(Arc::make_mut) else {
            return;
        };
        let Some(task) = framework.tasks.get(&name.task_id).cloned() else { return };
        framework.tasks.remove_mut(&name.task_id);
        framework.leave(&task.agent_id);
        framework.complete(Arc::clone(&task));
        if let Some(agent) = self.agent_mut(&task.agent_id) {
            agent.tasks.remove_mut(name);
        }
    }

    /// An executor has ended: what it used itself is free. Says whether it was known.
    pub(in crate::state) fn remove_executor(
        &mut self,
        agent_id: &AgentId,
        name: &ExecutorName,
    ) -> bool {
        let Some(agent) = self.agent_mut(agent_id) else { return false };
        let Some(executor) = agent.executors.get(name).cloned() else { return false };
        agent.executors.remove_mut(name);
        agent.vacate((&executor.framework_id, &executor.role), &executor.info.resources);
        if let Some(framework) = self.frameworks.get_mut(&name.framework_id) {
            Arc::make_mut(framework).leave(agent_id);
        }
        true
    }

    /// An agent goes on under another id, and with it what runs there.
    pub(in crate::state) fn move_tasks(&mut self, agent: &Agent, old: &AgentId, new: &AgentId) {
        let move_one = |framework: &mut Framework| {
            framework.leave(old);
            framework.arrive(new);
        };
        for name in agent.tasks.keys() {
            let Some(framework) = self.frameworks.get_mut(&name.framework_id) else { continue };
            let framework = Arc::make_mut(framework);
            move_one(framework);
            if let Some(task) = framework.tasks.get_mut(&name.task_id) {
                Arc::make_mut(task).agent_id = new.clone();
            }
        }
        for name in agent.executors.keys() {
            if let Some(framework) = self.frameworks.get_mut(&name.framework_id) {
                move_one(Arc::make_mut(framework));
            }
        }
    }
}
