//! What becomes of the processes of a supervisor: started, ended when asked or when their time is
//! over, and each end put into words. Gives words back and says nothing itself. Next:
//! `supervisor/probe.rs`.

use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use resources::task::{StatusReason, TaskState};
use rustix::process::Signal;

use super::Input;
use super::probe::{Probes, Verdict};
use super::process::{Exit, clear_all, clear_group, signal_group, start};
use super::sandbox::{User, Workshop};
use super::text::text_of;
use super::voice::Voice;
use crate::runner::job::{Finding, Job, JobOrder, ProcessPlan, Said, TaskPlan};

/// From the order to end a custom executor until it is killed.
const EXECUTOR_GRACE: Duration = Duration::from_secs(5);

/// Everything that one supervisor runs.
pub(super) struct Troop {
    inputs: Sender<Input>,
    workshop: Workshop,
    sandbox: PathBuf,
    latest: PathBuf,
    tasks: Vec<Task>,
    groups: usize,
    executor: Option<Executor>,
    /// The last word of all.
    end: Option<Said>,
}

struct Task {
    plan: TaskPlan,
    /// Those of one group live and die together.
    group: usize,
    process: Option<Running>,
    probes: Probes,
    has_ended: bool,
}

struct Running {
    pid: u32,
    user: Option<User>,
    /// When it has run for too long.
    late_at: Option<Instant>,
    /// When it is killed.
    kill_at: Option<Instant>,
    /// Why it is to end.
    cause: Option<Cause>,
}

struct Executor {
    pid: u32,
    kill_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Asked,
    TooLong,
    Unhealthy,
    /// Another task of its group has ended badly.
    Group,
}

impl Troop {
    pub(super) fn new(job: &Job, may_mount: bool, inputs: Sender<Input>) -> Self {
        Self {
            inputs,
            workshop: Workshop::new(may_mount),
            sandbox: job.sandbox.clone(),
            latest: job.latest.clone(),
            tasks: Vec::new(),
            groups: 0,
            executor: None,
            end: None,
        }
    }

    /// Takes a group of tasks on.
    pub(super) fn accept(&mut self, plans: &[TaskPlan]) -> Vec<Said> {
        if plans.is_empty() {
            return Vec::new();
        }
        let ids = plans.iter().map(|plan| plan.task_id.clone()).collect();
        let starting = plans.iter().map(|plan| status(plan, TaskState::Starting));
        let words = [Said::Accepted(ids)].into_iter().chain(starting).collect();
        for plan in plans {
            let task = Task {
                plan: plan.clone(),
                group: self.groups,
                process: None,
                probes: Probes::new(&plan.checks),
                has_ended: false,
            };
            self.tasks.push(task);
        }
        self.groups += 1;
        words
    }

    /// Starts what the job says; its tasks are accepted.
    pub(super) fn begin(&mut self, job: Job) -> Vec<Said> {
        if let Err(error) = Workshop::make_sandbox(&self.sandbox, &self.latest) {
            let text = format!("cannot make the sandbox {}: {error}", self.sandbox.display());
            self.end = Some(Said::Failed(text));
            return Vec::new();
        }
        if let Some(plan) = job.executor {
            match self.start(&plan) {
                Ok((pid, _)) => self.executor = Some(Executor { pid, kill_at: None }),
                Err(reason) => self.end = Some(Said::Failed(reason)),
            }
        }
        self.start_group(0)
    }

    fn start(&mut self, plan: &ProcessPlan) -> Result<(u32, Option<User>), String> {
        let user = self.workshop.prepare(plan)?;
        let started = start(plan, user, &self.inputs);
        started.map(|pid| (pid, user)).map_err(|error| format!("cannot start the command: {error}"))
    }

    fn start_group(&mut self, group: usize) -> Vec<Said> {
        let mut words = Vec::new();
        let mut has_failed = false;
        for index in 0..self.tasks.len() {
            if self.tasks[index].group != group || self.tasks[index].has_ended {
                continue;
            }
            if has_failed {
                let message = Some("another task of the group could not be started".to_owned());
                words.push(self.tasks[index].status(TaskState::Killed, None, message));
                self.tasks[index].has_ended = true;
                continue;
            }
            let plan = self.tasks[index].plan.process.clone();
            match self.start(&plan) {
                Ok((pid, user)) => {
                    let task = &mut self.tasks[index];
                    let now = Instant::now();
                    let late_at = task.plan.time_max.and_then(|max| now.checked_add(max));
                    task.process = Some(Running { pid, user, late_at, kill_at: None, cause: None });
                    task.probes.start(now);
                    words.push(task.status(TaskState::Running, None, None));
                }
                Err(reason) => {
                    let state = TaskState::Failed;
                    let why = Some(StatusReason::ContainerLaunchFailed);
                    words.push(self.tasks[index].status(state, why, Some(reason)));
                    self.tasks[index].has_ended = true;
                    has_failed = true;
                    words.extend(self.end_group(group));
                }
            }
        }
        self.end_if_done();
        words
    }

    pub(super) fn obey(&mut self, order: JobOrder) -> Vec<Said> {
        match order {
            JobOrder::Begin(_) => Vec::new(),
            JobOrder::Add(plans) => {
                if self.end.is_some() {
                    return Vec::new();
                }
                let mut words = self.accept(&plans);
                words.extend(self.start_group(self.groups - 1));
                words
            }
            JobOrder::Kill { task_id, grace } => {
                let position = self.tasks.iter().position(|task| task.plan.task_id == task_id);
                let Some(index) = position else { return Vec::new() };
                self.stop(index, grace, Cause::Asked)
            }
            JobOrder::ShutDown => {
                if let Some(Executor { pid, kill_at }) = &mut self.executor {
                    kill_at.get_or_insert(Instant::now() + EXECUTOR_GRACE);
                    signal_group(*pid, Signal::TERM);
                }
                let all = 0..self.tasks.len();
                all.flat_map(|index| self.stop(index, None, Cause::Asked)).collect()
            }
            JobOrder::Destroy => {
                clear_all();
                self.end = Some(Said::Ended(Signal::KILL.as_raw()));
                Vec::new()
            }
        }
    }

    /// Asks a task to end, and sets the time when it is killed.
    fn stop(&mut self, index: usize, grace: Option<Duration>, cause: Cause) -> Vec<Said> {
        let task = &mut self.tasks[index];
        let grace = grace.unwrap_or(task.plan.kill_grace);
        let Some(running) = &mut task.process else { return Vec::new() };
        let kill_at = Instant::now().checked_add(grace);
        if running.cause.is_some() {
            // Asked again, it may be in more of a hurry.
            running.kill_at = running.kill_at.into_iter().chain(kill_at).min();
            return Vec::new();
        }
        running.cause = Some(cause);
        running.kill_at = kill_at;
        task.probes.stop();
        signal_group(running.pid, Signal::TERM);
        if !task.plan.says_killing {
            return Vec::new();
        }
        vec![task.status(TaskState::Killing, None, None)]
    }

    /// What the end of one task means for the others of its group.
    fn end_group(&mut self, group: usize) -> Vec<Said> {
        let all = 0..self.tasks.len();
        let words = all.flat_map(|index| {
            if self.tasks[index].group == group {
                self.stop(index, None, Cause::Group)
            } else {
                Vec::new()
            }
        });
        words.collect()
    }

    pub(super) fn exited(&mut self, exit: &Exit) -> Vec<Said> {
        if self.executor.as_ref().is_some_and(|executor| executor.pid == exit.pid) {
            clear_all();
            self.end = Some(Said::Ended(exit.status));
            return Vec::new();
        }
        let is_it = |task: &Task| task.process.as_ref().is_some_and(|p| p.pid == exit.pid);
        let Some(index) = self.tasks.iter().position(is_it) else {
            let found = self.tasks.iter_mut().enumerate().find_map(|(index, task)| {
                task.probes.exited(exit).map(|(check, finding)| (index, check, finding))
            });
            return found.map_or_else(Vec::new, |(i, check, found)| self.checked(i, check, found));
        };
        clear_group(exit.pid);
        let mut words = Vec::new();
        let task = &mut self.tasks[index];
        let cause = task.process.take().and_then(|running| running.cause);
        task.has_ended = true;
        task.probes.stop();
        let (state, reason) = match cause {
            None if exit.status == 0 => (TaskState::Finished, None),
            None => (TaskState::Failed, None),
            Some(Cause::TooLong) => {
                (TaskState::Failed, Some(StatusReason::MaxCompletionTimeReached))
            }
            Some(Cause::Asked | Cause::Group | Cause::Unhealthy) => (TaskState::Killed, None),
        };
        let is_alone = self.tasks.iter().all(|task| task.has_ended);
        if is_alone {
            // Also what left the group: the volumes are free when the end is told.
            clear_all();
        }
        let task = &self.tasks[index];
        words.push(task.status(state, reason, Some(text_of(exit.status))));
        if state != TaskState::Finished {
            words.extend(self.end_group(self.tasks[index].group));
        }
        self.end_if_done();
        words
    }

    /// A check found something: the framework hears of changes.
    pub(super) fn checked(&mut self, index: usize, check: usize, finding: Finding) -> Vec<Said> {
        let task = &mut self.tasks[index];
        let Some(running) = task.process.as_ref().filter(|running| running.cause.is_none()) else {
            return Vec::new();
        };
        let Some(verdict) = task.probes.judge(check, finding, Instant::now()) else {
            return Vec::new();
        };
        let pid = Some(running.pid);
        let (reason, healthy, finding) = match &verdict {
            Verdict::Found(finding) => {
                (StatusReason::TaskCheckStatusUpdated, None, Some(finding.clone()))
            }
            Verdict::Healthy(is_healthy) => {
                (StatusReason::TaskHealthCheckStatusUpdated, Some(*is_healthy), None)
            }
            Verdict::Unfit => (StatusReason::TaskHealthCheckStatusUpdated, Some(false), None),
        };
        let mut words = vec![Said::Status {
            task_id: task.plan.task_id.clone(),
            state: TaskState::Running,
            reason: Some(reason),
            message: None,
            pid,
            healthy,
            finding,
        }];
        if verdict == Verdict::Unfit {
            words.extend(self.stop(index, None, Cause::Unhealthy));
        }
        words
    }

    /// Ends what is late, and looks at what is due.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<Said> {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if let Some(Executor { pid, kill_at }) = &mut self.executor
            && is_due(*kill_at)
        {
            *kill_at = None;
            signal_group(*pid, Signal::KILL);
        }
        let mut words = Vec::new();
        for index in 0..self.tasks.len() {
            let task = &mut self.tasks[index];
            let Some(running) = &mut task.process else { continue };
            if is_due(running.kill_at) {
                running.kill_at = None;
                signal_group(running.pid, Signal::KILL);
            }
            let is_late = is_due(running.late_at) && running.cause.is_none();
            let user = running.user;
            task.probes.look(index, &task.plan, user, now, &self.inputs);
            if is_late {
                words.extend(self.stop(index, None, Cause::TooLong));
            }
        }
        words
    }

    /// When [`Self::tick`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let tasks = self.tasks.iter().filter_map(|task| {
            let running = task.process.as_ref()?;
            let late_at = running.late_at.filter(|_| running.cause.is_none());
            [late_at, running.kill_at, task.probes.due()].into_iter().flatten().min()
        });
        let executor = self.executor.as_ref().and_then(|executor| executor.kill_at);
        tasks.chain(executor).min()
    }

    /// Processes that are waited for by their own threads.
    pub(super) fn pids(&self) -> Vec<u32> {
        let tasks = self.tasks.iter().flat_map(|task| {
            task.process.iter().map(|running| running.pid).chain(task.probes.pids())
        });
        self.executor.iter().map(|executor| executor.pid).chain(tasks).collect()
    }

    fn end_if_done(&mut self) {
        if self.executor.is_none() && self.tasks.iter().all(|task| task.has_ended) {
            self.end.get_or_insert(Said::Ended(0));
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Says it, with the last word of all behind it if there is one: in one piece.
    pub(super) fn speak(&self, voice: &mut Voice, mut words: Vec<Said>) {
        words.extend(self.end.clone());
        voice.say(words);
    }
}

impl Task {
    fn status(
        &self,
        state: TaskState,
        reason: Option<StatusReason>,
        message: Option<String>,
    ) -> Said {
        Said::Status {
            task_id: self.plan.task_id.clone(),
            state,
            reason,
            message,
            pid: self.process.as_ref().map(|running| running.pid),
            healthy: self.probes.health(),
            finding: None,
        }
    }
}

fn status(plan: &TaskPlan, state: TaskState) -> Said {
    Said::Status {
        task_id: plan.task_id.clone(),
        state,
        reason: None,
        message: None,
        pid: None,
        healthy: None,
        finding: None,
    }
}
