//! A live agent with a master that the test plays: real supervisors, real files, no sockets.

use std::path::{Path, PathBuf};
use std::time::Duration;

use prost::Message as _;
use tokio::sync::mpsc;

use proto::mesos::v1;
use resources::id::{
    AgentId, ClusterId, ExecutorId, FrameworkId, Incarnation, OperationId, Seq, TaskId, Term,
};
use resources::message::{AgentMessage, ExecutorExit, Fence, Instruction, MasterMessage, Order};
use resources::opaque::Opaque;
use resources::operation::Operation;
use resources::parse;
use resources::resource::Resource;
use resources::role::Role;
use resources::task::{ExecutorInfo, ExecutorName, Launch, StatusUpdate, TaskInfo, TaskState};

use super::rig::{self, Rig};
use crate::driver::{Driver, Handle, State, Stream, StreamId};
use crate::recovery::recover;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// The agent, and what it said.
pub(crate) struct Pilot {
    driver: Driver,
    pub(crate) handle: Handle,
    outbox: mpsc::Receiver<AgentMessage>,
    stream: StreamId,
    pub(crate) statuses: Vec<StatusUpdate>,
    pub(crate) exits: Vec<ExecutorExit>,
    pub(crate) messages: Vec<AgentMessage>,
}

impl Pilot {
    /// Starts the agent, and registers it.
    pub(crate) async fn start(rig: &Rig, flags: &[&str]) -> Self {
        let driver = Driver::start(recover(&rig.config(flags)).unwrap(), rig::program()).unwrap();
        let handle = driver.handle();
        let stream = StreamId(1);
        let (outbox_tx, outbox) = mpsc::channel(1_000);
        // Signals of the core go nowhere.
        let (signals, _) = mpsc::unbounded_channel();
        handle.opened(Stream { id: stream, outbox: outbox_tx, signals }).await;
        let (statuses, exits, messages) = (Vec::new(), Vec::new(), Vec::new());
        let mut pilot = Self { driver, handle, outbox, stream, statuses, exits, messages };
        let is_register = |message: &AgentMessage| matches!(message, AgentMessage::Register(_));
        pilot.until(|pilot| pilot.messages.iter().any(is_register)).await;
        let welcome = MasterMessage::Welcome {
            agent_id: AgentId::parse("S0").unwrap(),
            ping_interval: Duration::from_secs(15),
            pings_missed_max: 5,
        };
        pilot.say(welcome).await;
        pilot
    }

    /// Ends the agent, and leaves its tasks running.
    pub(crate) async fn leave(self) {
        self.driver.stop().await;
    }

    /// Ends the agent with everything that runs for it.
    pub(crate) async fn stop(self) {
        let mut state = self.handle.state();
        self.handle.retire().await;
        // Those that do not listen are killed when their time is over.
        // The value is a lock, which the driver needs: it must not be kept.
        let retired = state.wait_for(|state| *state == State::Retired);
        let is_retired = tokio::time::timeout(PATIENCE, retired).await.is_ok();
        assert!(is_retired, "an executor is left");
        self.driver.stop().await;
    }

    pub(crate) async fn say(&self, message: MasterMessage) {
        let cluster_id = ClusterId::parse("c").unwrap();
        let fence = Fence { cluster_id, incarnation: Incarnation(0), term: Term(1) };
        self.handle.received(self.stream, fence, message).await;
    }

    pub(crate) async fn instruct(&self, instruction: Instruction) {
        self.say(MasterMessage::Instruct(instruction)).await;
    }

    pub(crate) async fn kill(&self, task: &str, grace: Option<Duration>) {
        let (framework_id, task_id) = (framework_id(), TaskId::parse(task).unwrap());
        self.instruct(Instruction::Kill { framework_id, task_id, grace }).await;
    }

    /// Takes in what the agent says, and acknowledges its statuses, until this holds.
    pub(crate) async fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !holds(self) {
            let message = tokio::time::timeout_at(deadline, self.outbox.recv()).await;
            let message =
                message.unwrap_or_else(|_| panic!("{:?} {:?}", self.statuses, self.exits));
            match message.expect("the agent runs") {
                AgentMessage::Statuses(updates) => {
                    for StatusUpdate { framework_id, status, .. } in &updates {
                        self.instruct(Instruction::AcknowledgeStatus {
                            framework_id: framework_id.clone(),
                            task_id: status.task_id.clone(),
                            uuid: status.uuid.unwrap(),
                        })
                        .await;
                    }
                    self.statuses.extend(updates);
                }
                AgentMessage::Exited(exits) => self.exits.extend(exits),
                message => self.messages.push(message),
            }
        }
    }

    /// Waits until nothing is left to be acknowledged.
    pub(crate) async fn until_no_task(&self) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !self.handle.view().await.unwrap().tasks.is_empty() {
            assert!(tokio::time::Instant::now() < deadline, "a task is left");
            tokio::task::yield_now().await;
        }
    }

    /// The states of a task in their order.
    pub(crate) fn states(&self, task: &str) -> Vec<TaskState> {
        let its = self.statuses.iter().filter(|update| update.status.task_id.as_str() == task);
        its.map(|update| update.status.state).collect()
    }

    pub(crate) async fn until_state(&mut self, task: &str, state: TaskState) {
        self.until(|pilot| pilot.states(task).contains(&state)).await;
    }

    /// What the last status of a task says.
    pub(crate) fn message_of(&self, task: &str) -> String {
        let its = self.statuses.iter().rev();
        let last = its.into_iter().find(|update| update.status.task_id.as_str() == task);
        last.unwrap().status.message.clone().unwrap_or_default()
    }
}

pub(crate) fn framework_id() -> FrameworkId {
    FrameworkId::parse("f").unwrap()
}

pub(crate) fn executor_name(id: &str) -> ExecutorName {
    ExecutorName { framework_id: framework_id(), executor_id: ExecutorId::parse(id).unwrap() }
}

/// The sandbox of the newest run of an executor.
pub(crate) fn sandbox(rig: &Rig, executor: &str) -> PathBuf {
    let runs = rig.work_dir().join("slaves/S0/frameworks/f/executors").join(executor).join("runs");
    std::fs::read_link(runs.join("latest")).unwrap()
}

pub(crate) async fn wait_for(path: &Path) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !path.exists() {
        assert!(tokio::time::Instant::now() < deadline, "{} is missing", path.display());
        tokio::task::yield_now().await;
    }
}

/// What a test launches.
pub(crate) struct Task {
    pub(crate) info: v1::TaskInfo,
    pub(crate) resources: Vec<Resource>,
}

impl Task {
    pub(crate) fn shell(id: &str, line: &str) -> Self {
        let command =
            v1::CommandInfo { value: Some(line.to_owned()), ..v1::CommandInfo::default() };
        let info = v1::TaskInfo {
            name: id.to_owned(),
            task_id: v1::TaskId { value: id.to_owned() },
            agent_id: v1::AgentId { value: "S0".to_owned() },
            command: Some(command),
            ..v1::TaskInfo::default()
        };
        Self { info, resources: cpus() }
    }
    pub(crate) fn with(mut self, resource: Resource) -> Self {
        self.resources.push(resource);
        self
    }
    pub(crate) fn change(mut self, change: impl FnOnce(&mut v1::TaskInfo)) -> Self {
        change(&mut self.info);
        self
    }
    fn info(&self) -> TaskInfo {
        TaskInfo {
            task_id: TaskId::parse(self.info.task_id.value.as_str()).unwrap(),
            name: self.info.name.clone(),
            resources: self.resources.clone(),
            wire: Opaque::from(self.info.encode_to_vec()),
        }
    }
}

fn cpus() -> Vec<Resource> {
    parse::resources_text("cpus:0.1", &Role::star()).unwrap().iter().cloned().collect()
}

/// A launch under this number. Commands have no executor.
pub(crate) fn launch(
    seq: u64,
    tasks: &[Task],
    executor: Option<(v1::ExecutorInfo, bool)>,
    checkpoint: bool,
) -> Order {
    let framework = v1::FrameworkInfo {
        name: "tests".to_owned(),
        checkpoint: Some(checkpoint),
        ..v1::FrameworkInfo::default()
    };
    let is_group = executor
        .as_ref()
        .is_some_and(|(info, _)| info.r#type() == v1::executor_info::Type::Default);
    let launch = Launch {
        framework_id: framework_id(),
        framework: Opaque::from(framework.encode_to_vec()),
        role: Role::parse("ads").unwrap(),
        is_executor_new: executor.as_ref().is_some_and(|(_, is_new)| *is_new),
        executor: executor.map(|(info, _)| ExecutorInfo {
            executor_id: ExecutorId::parse(info.executor_id.value.as_str()).unwrap(),
            resources: cpus(),
            wire: Opaque::from(info.encode_to_vec()),
        }),
        tasks: tasks.iter().map(Task::info).collect(),
        is_group,
    };
    let operation = Operation::Launch(Box::new(launch));
    Order { seq: Seq(seq), operation_id: OperationId::parse(format!("o{seq}")).unwrap(), operation }
}
