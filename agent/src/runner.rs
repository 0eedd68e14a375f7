//! The shell's part of running tasks: starts supervisors, listens to them, and speaks to custom
//! executors. Decides nothing: the core says what to do, and hears what came of it. Next:
//! `runner/job.rs` (what supervisors are told), `runner/plan.rs` (from a framework's messages),
//! `runner/attend.rs` (one task of the runtime per executor), `runner/gc.rs` (old sandboxes).

mod attend;
mod check;
pub(crate) mod disk;
pub(crate) mod gc;
pub(crate) mod job;
pub(crate) mod plan;
pub(crate) mod process;
pub(crate) mod tell;

use std::collections::BTreeMap;
use std::path::PathBuf;

use tokio::runtime::Handle as Runtime;
use tokio::sync::mpsc;
use tracing::{debug, warn};

use resources::task::ExecutorName;

use self::attend::Attendant;
use self::job::JobOrder;
use self::plan::Site;
use crate::core::tasks::event::{Run, Start, TaskEvent};
use crate::core::tasks::row::{ExecutorKind, ExecutorRow};
use crate::driver::Events;

/// What a supervisor is started with.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// The file.
    pub(crate) path: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
}

impl Program {
    /// This program itself, also when its file was replaced since.
    pub(crate) fn own() -> Self {
        Self { path: PathBuf::from("/proc/self/exe"), arguments: vec!["supervise".to_owned()] }
    }
}

/// Everything that runs for the agent.
#[derive(Debug)]
pub(crate) struct Runner {
    runtime: Runtime,
    events: Events,
    program: Program,
    site: Site,
    executors: BTreeMap<ExecutorName, mpsc::UnboundedSender<JobOrder>>,
    streams: BTreeMap<ExecutorName, tell::Stream>,
}

impl Runner {
    pub(crate) fn new(runtime: Runtime, events: Events, program: Program, site: Site) -> Self {
        let (executors, streams) = (BTreeMap::new(), BTreeMap::new());
        Self { runtime, events, program, site, executors, streams }
    }

    /// Tasks are launched under the agent's name.
    pub(crate) fn set_agent_id(&mut self, agent_id: &str) {
        agent_id.clone_into(&mut self.site.agent_id);
    }

    /// Does what the core says. `find` gives what the core knows of an executor.
    pub(crate) fn run(&mut self, run: Run, find: impl Fn(&ExecutorName) -> Option<ExecutorRow>) {
        match run {
            Run::Launch(start) => self.launch(*start),
            Run::Find(name, row, heard) => {
                let attendant = self.attendant(name, *row, heard);
                self.runtime.spawn(attendant.find());
            }
            Run::Add { executor, tasks, framework, unshared } => {
                let Some(row) = find(&executor) else { return };
                let start = Start { name: executor, row, framework, tasks, unshared };
                match plan::more_tasks(&self.site, &start) {
                    Ok(plans) => self.order(&start.name, JobOrder::Add(plans)),
                    // The whole group must not hang: nobody else would say that it never ran.
                    Err(reason) => {
                        warn!(executor = %start.name, reason, "a group cannot be launched");
                        self.order(&start.name, JobOrder::ShutDown);
                    }
                }
            }
            Run::Kill(name, task_id, grace) => {
                self.order(&name, JobOrder::Kill { task_id: task_id.to_string(), grace });
            }
            Run::ShutDown(name) => self.order(&name, JobOrder::ShutDown),
            Run::Destroy(name) => self.order(&name, JobOrder::Destroy),
            Run::Tell(name, tell) => {
                if let Some(stream) = self.streams.get(&name) {
                    stream.tell(tell, &self.site);
                }
            }
            // The driver's own.
            Run::Retired => {}
        }
    }

    fn launch(&mut self, start: Start) {
        self.executors.retain(|_, orders| !orders.is_closed());
        match plan::job(&self.site, &start) {
            Ok(job) => {
                let attendant = self.attendant(start.name, start.row, 0);
                self.runtime.spawn(attendant.launch(job));
            }
            Err(reason) => {
                let (events, name) = (self.events.clone(), start.name);
                self.runtime.spawn(async move {
                    events.send(TaskEvent::LaunchFailed(name, reason)).await;
                });
            }
        }
    }

    fn attendant(&mut self, name: ExecutorName, row: ExecutorRow, heard: u64) -> Attendant {
        let (orders_tx, orders) = mpsc::unbounded_channel();
        self.executors.insert(name.clone(), orders_tx);
        Attendant {
            run: plan::run_directory(&self.site.work_dir, &row.container),
            boot_id: self.site.boot_id.clone(),
            program: self.program.clone(),
            endpoint: self.site.endpoint.clone(),
            events: self.events.clone(),
            name,
            row,
            heard,
            orders,
        }
    }

    fn order(&self, name: &ExecutorName, order: JobOrder) {
        match self.executors.get(name) {
            Some(orders) if orders.send(order).is_ok() => {}
            _ => debug!(executor = %name, "the executor has ended already"),
        }
    }

    /// A custom executor opened a stream, which takes the place of an earlier one.
    pub(crate) fn open_stream(&mut self, name: ExecutorName, stream: tell::Stream) {
        self.streams.insert(name, stream);
    }

    /// Whether a custom executor has a stream.
    pub(crate) fn has_stream(&self, name: &ExecutorName) -> bool {
        self.streams.get(name).is_some_and(tell::Stream::is_open)
    }

    /// Streams of executors that are no more are ended.
    pub(crate) fn keep_streams(&mut self, is_there: impl Fn(&ExecutorName) -> bool) {
        self.streams.retain(|name, _| is_there(name));
    }

    /// The folder of the files of this executor's runs.
    pub(crate) fn sandbox(&self, name: &ExecutorName, row: &ExecutorRow) -> PathBuf {
        let (framework, executor) = (name.framework_id.as_str(), name.executor_id.as_str());
        let site = &self.site;
        plan::runs_directory(&site.work_dir, &site.agent_id, framework, executor)
            .join(&row.container)
    }
}

/// Whether an executor speaks for itself.
pub(crate) fn is_custom(row: &ExecutorRow) -> bool {
    row.kind == ExecutorKind::Custom
}
