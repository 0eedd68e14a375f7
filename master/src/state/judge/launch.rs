//! Tasks of an ACCEPT: each by itself, or a group as one. What they use leaves the offers and
//! the free part of the agent; a shared volume stays, for any number of them. Next:
//! `refuse.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use resources::collection::Resources;
use resources::id::{ExecutorId, TaskId};
use resources::operation::Operation;
use resources::resource::Resource;
use resources::task::{ExecutorInfo, ExecutorName, Launch, StatusReason, TaskInfo, TaskState};

use super::super::accept::{LaunchedTask, TaskRefusal};
use super::super::agents::Agent;
use super::super::command::{Change, Effect, Notice};
use super::super::rejection::{Rejection, list};
use super::super::tasks::{Executor, Task, said_by_master};
use super::Judge;

impl Judge<'_> {
    /// Launches one task, or tells its framework why not; only a fault ends the whole.
    pub(super) fn launch(&mut self, launched: &LaunchedTask) -> Result<(), Rejection> {
        let LaunchedTask { task, executor, refused } = launched;
        let tasks = std::slice::from_ref(task);
        if let Some(refusal) = refused {
            self.refuse_tasks(tasks, executor.as_ref(), refusal);
            return Ok(());
        }
        if self.is_repeat(task) {
            self.tell_current(task);
            return Ok(());
        }
        let launch = self.prepared(executor.clone(), tasks.to_vec(), false);
        self.run(launch, StatusReason::TaskInvalid)
    }

    /// Launches all tasks of a group, or none.
    pub(super) fn launch_group(
        &mut self,
        executor: &ExecutorInfo,
        tasks: &[TaskInfo],
        refused: Option<&TaskRefusal>,
    ) -> Result<(), Rejection> {
        if let Some(refusal) = refused {
            self.refuse_tasks(tasks, Some(executor), refusal);
            return Ok(());
        }
        if tasks.is_empty() {
            return Ok(());
        }
        if tasks.iter().all(|task| self.is_repeat(task)) {
            tasks.iter().for_each(|task| self.tell_current(task));
            return Ok(());
        }
        let launch = self.prepared(Some(executor.clone()), tasks.to_vec(), true);
        self.run(launch, StatusReason::TaskGroupInvalid)
    }

    /// The very task that is there already: its framework did not hear of the first one.
    fn is_repeat(&self, info: &TaskInfo) -> bool {
        self.framework.tasks.get(&info.task_id).is_some_and(|task| {
            let set = |list: &[Resource]| list.iter().collect::<Resources>();
            task.agent_id == self.agent.id
                && task.info == info.wire
                && set(&task.resources) == set(&info.resources)
        })
    }

    fn tell_current(&mut self, info: &TaskInfo) {
        if let Some(task) = self.framework.tasks.get(&info.task_id) {
            let notice = Notice::Task(task.current_status(self.now.wall));
            self.effects.push(Effect::Tell(self.framework.id.clone(), Box::new(notice)));
        }
    }

    fn prepared(
        &self,
        executor: Option<ExecutorInfo>,
        tasks: Vec<TaskInfo>,
        is_group: bool,
    ) -> Launch {
        let is_executor_new = executor.as_ref().is_some_and(|executor| {
            !self.agent.executors.contains_key(&self.name_of(&executor.executor_id))
        });
        Launch {
            framework_id: self.framework.id.clone(),
            framework: self.framework.info.named(&self.framework.id),
            role: self.accept.role.clone(),
            executor,
            is_executor_new,
            tasks,
            is_group,
        }
    }

    fn name_of(&self, executor_id: &ExecutorId) -> ExecutorName {
        let framework_id = self.framework.id.clone();
        ExecutorName { framework_id, executor_id: executor_id.clone() }
    }

    fn run(&mut self, launch: Launch, reason: StatusReason) -> Result<(), Rejection> {
        if let Err(message) = self.check(&launch) {
            let refusal = TaskRefusal { reason, message };
            self.refuse_tasks(&launch.tasks, launch.executor.as_ref(), &refusal);
            return Ok(());
        }
        if let Err(overloaded) = self.agent.has_room() {
            let (executor, message) = (launch.executor.as_ref(), overloaded.to_string());
            let state = self.framework.lost_as(TaskState::Dropped);
            for task in &launch.tasks {
                let why = (StatusReason::InvalidOffers, message.clone());
                self.tell_task(&task.task_id, executor, state, why);
            }
            return Ok(());
        }
        let operation = Operation::Launch(Box::new(launch.clone()));
        let needed = launch.needed();
        self.remaining.subtract_all(&needed.filter(|resource| !resource.shared));
        self.shared.add_all(&needed.filter(|resource| resource.shared));
        let name = self.next_name();
        let record = self.order(&name, None, operation)?;
        self.start(launch, record.seq);
        Ok(())
    }

    /// Whether the tasks can be launched on what is left of the offers.
    fn check(&self, launch: &Launch) -> Result<(), String> {
        let mut ids: BTreeSet<&TaskId> = BTreeSet::new();
        for task in &launch.tasks {
            if self.framework.tasks.contains_key(&task.task_id) || !ids.insert(&task.task_id) {
                return Err(format!("task has the duplicate ID '{}'", task.task_id));
            }
        }
        self.check_executor(launch)?;
        let needed = launch.needed();
        if self.remaining.contains(&needed) {
            return Ok(());
        }
        let wanted: Vec<Resource> = needed.iter().cloned().collect();
        let there: Vec<Resource> = self.remaining.iter().cloned().collect();
        let (wanted, there) = (list(&wanted), list(&there));
        Err(format!("task wants more resources ({wanted}) than available ({there})"))
    }

    /// One name is one executor: with an equal one the task joins it.
    fn check_executor(&self, launch: &Launch) -> Result<(), String> {
        let set = |list: &[Resource]| list.iter().collect::<Resources>();
        let Some(executor) = &launch.executor else {
            let own = launch.executor_id();
            return match self.agent.executors.get(&self.name_of(&own)) {
                None => Ok(()),
                Some(_) => Err(format!("an executor with the task's ID '{own}' runs there")),
            };
        };
        let id = &executor.executor_id;
        if let Some(known) = self.agent.executors.get(&self.name_of(id)) {
            let known = &known.info;
            let is_equal =
                known.wire == executor.wire && set(&known.resources) == set(&executor.resources);
            return match is_equal {
                true => Ok(()),
                false => Err(format!("another executor with the ID '{id}' runs there")),
            };
        }
        // A command's executor has the name of its task.
        let is_command = self.framework.tasks.values().any(|task| {
            task.executor_id.is_none()
                && task.agent_id == self.agent.id
                && task.task_id.as_str() == id.as_str()
        });
        match is_command {
            true => Err(format!("a task with the executor's ID '{id}' runs there")),
            false => Ok(()),
        }
    }

    /// Puts the tasks and their executor on record.
    fn start(&mut self, launch: Launch, seq: resources::id::Seq) {
        let Launch { role, executor, is_executor_new, tasks, .. } = launch;
        let agent: &mut Agent = Arc::make_mut(&mut self.agent);
        let framework = Arc::make_mut(&mut self.framework);
        let executor_id = executor.as_ref().map(|executor| executor.executor_id.clone());
        if let Some(info) = executor.filter(|_| is_executor_new) {
            let (framework_id, role) = (framework.id.clone(), role.clone());
            agent.add_executor(Arc::new(Executor { framework_id, info, role, launch: seq }));
            framework.arrive(&agent.id);
        }
        for info in tasks {
            let task = Arc::new(Task {
                framework_id: framework.id.clone(),
                task_id: info.task_id,
                agent_id: agent.id.clone(),
                executor_id: executor_id.clone(),
                role: role.clone(),
                name: info.name,
                resources: info.resources,
                state: TaskState::Staging,
                status: None,
                launch: seq,
                kill: None,
                info: info.wire,
                launched_at: self.now.wall,
            });
            let change = Change::TaskAdded(framework.id.clone(), task.task_id.clone());
            agent.add_task(&task);
            framework.add_task(task);
            self.effects.push(Effect::Change(change));
        }
    }

    fn refuse_tasks(
        &mut self,
        tasks: &[TaskInfo],
        executor: Option<&ExecutorInfo>,
        refusal: &TaskRefusal,
    ) {
        for task in tasks {
            let why = (refusal.reason, refusal.message.clone());
            self.tell_task(&task.task_id, executor, TaskState::Error, why);
        }
    }

    fn tell_task(
        &mut self,
        task_id: &TaskId,
        executor: Option<&ExecutorInfo>,
        state: TaskState,
        why: (StatusReason, String),
    ) {
        let mut status = said_by_master((task_id.clone(), state), why, self.now.wall);
        status.agent_id = Some(self.agent.id.clone());
        status.executor_id = executor.map(|executor| executor.executor_id.clone());
        let notice = Box::new(Notice::Task(status));
        self.effects.push(Effect::Tell(self.framework.id.clone(), notice));
    }
}
