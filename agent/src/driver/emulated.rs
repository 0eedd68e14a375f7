//! An agent without a disk and without processes, for measurements with many of them: the same
//! core and the same session, and a desk that takes every checkpoint for stored, every volume for
//! made and every task for running. Next: `session.rs`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;
use tracing::warn;

use resources::id::{CheckpointId, TaskId};
use resources::message::{AgentInfo, MasterMessage};
use resources::opaque::Opaque;
use resources::task::{ExecutorName, StatusSource, TaskState, TaskStatus};
use resources::time::Timestamp;

use super::desk::described;
use super::handle::Input;
use super::{Handle, Signal, State, Stream, StreamId};
use crate::config::Config;
use crate::core::Core;
use crate::core::event::{Action, Event, Identity, Marker, Memory, VolumeStep};
use crate::core::tasks::event::{Clock, Run, Said, Start, TaskEvent, Word};
use crate::recovery;
use crate::session;

/// Inputs that may wait; there are many agents.
const INPUTS_MAX: usize = 64;

/// What an emulated agent tells of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// A leading master knows it.
    Registered,
    /// Its session ended.
    Lost,
}

/// Runs an emulated agent until `stop` turns true. `tell` is called with what happens to it.
///
/// # Errors
/// When a master sends it away for good; says why.
pub async fn emulate(
    config: Arc<Config>,
    tell: impl Fn(Told) + Send + 'static,
    stop: watch::Receiver<bool>,
) -> Result<(), String> {
    let (inputs, inbox) = mpsc::channel(INPUTS_MAX);
    let (state_tx, state) = watch::channel(State::Ready);
    let handle = Handle { inputs, state };
    let desk = Desk::new(&config, tell, state_tx);
    let attending = tokio::spawn(desk.run(inbox));
    let mut over = handle.state();
    let result = tokio::select! {
        result = session::run(&config, handle, stop) => result,
        reason = crate::exit_reason(&mut over) => Err(reason),
    };
    // The last way to the desk has ended with the session.
    attending.await.map_err(|error| error.to_string())?;
    result
}

struct Desk<T> {
    core: Core,
    stream: Option<Stream>,
    is_registered: bool,
    state: watch::Sender<State>,
    begun: Instant,
    /// What follows from what was just done.
    next: VecDeque<Event>,
    /// Number of the last word of each executor.
    words: BTreeMap<ExecutorName, u64>,
    tell: T,
}

impl<T: Fn(Told) + Send> Desk<T> {
    fn new(config: &Config, tell: T, state: watch::Sender<State>) -> Self {
        let info = AgentInfo {
            hostname: config.hostname.clone(),
            host: config.advertise.host.clone(),
            port: config.advertise.port,
            version: recovery::MESOS_VERSION.to_owned(),
            attributes: config.attributes.clone(),
            resources: config.resources.iter().cloned().collect(),
        };
        let checkpoint_id = CheckpointId::parse(recovery::random_hex());
        let checkpoint_id = checkpoint_id.expect("hexadecimal digits are an id");
        let identity = Identity { checkpoint_id, boot_counter: 1, info };
        let settings = recovery::settings(config);
        let total = config.resources.clone();
        Self {
            core: Core::new(identity, settings, Memory::default(), total, BTreeMap::new()),
            stream: None,
            is_registered: false,
            state,
            begun: Instant::now(),
            next: VecDeque::new(),
            words: BTreeMap::new(),
            tell,
        }
    }

    async fn run(mut self, mut inbox: mpsc::Receiver<Input>) {
        self.step(Event::Started);
        loop {
            let tick = self.core.next_tick().and_then(|at| self.begun.checked_add(at));
            // Both arms are cancel-safe: the channel loses nothing, and time none.
            let input = tokio::select! {
                input = inbox.recv() => input,
                () = sleep_until(tick.unwrap_or_else(Instant::now).into()), if tick.is_some() => {
                    Some(Input::Tick)
                }
            };
            match input {
                Some(input) => self.take(input),
                None => return,
            }
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Event(event) => self.step(event),
            Input::Tasks(event) => self.step(Event::Tasks(vec![event])),
            Input::Opened(stream) => {
                self.leave();
                self.stream = Some(stream);
                self.step(Event::Opened);
            }
            Input::Received(id, fence, message) if self.is_current(id) => {
                self.describe(&message);
                self.step(Event::Received(fence, message));
            }
            Input::Closed(id) if self.is_current(id) => {
                self.leave();
                self.step(Event::Closed);
            }
            Input::Tick => self.step(Event::Tasks(Vec::new())),
            // It has no HTTP server that would ask.
            Input::Received(..)
            | Input::Closed(_)
            | Input::Subscribe(..)
            | Input::Call(..)
            | Input::View(_)
            | Input::Stop => {}
        }
    }

    fn leave(&mut self) {
        if self.stream.take().is_some() && std::mem::take(&mut self.is_registered) {
            (self.tell)(Told::Lost);
        }
    }

    fn is_current(&self, id: StreamId) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.id == id)
    }

    fn describe(&mut self, message: &MasterMessage) {
        let events = described(message);
        if !events.is_empty() {
            self.step(Event::Tasks(events));
        }
    }

    fn step(&mut self, event: Event) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let clock = Clock { elapsed: self.begun.elapsed(), wall: Timestamp::default() + wall };
        self.next.push_back(Event::Tasks(vec![TaskEvent::Tick(clock)]));
        self.next.push_back(event);
        while let Some(event) = self.next.pop_front() {
            for action in self.core.step(event) {
                self.act(action);
            }
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Volumes(VolumeStep::Create { seq, volumes }) => {
                let marker = Marker { device: 0, inode: 0 };
                let made = volumes.iter().map(|_| marker).collect();
                self.next.push_back(Event::VolumesMade(seq, Ok(made)));
            }
            Action::Volumes(VolumeStep::Destroy { seq, .. }) => {
                self.next.push_back(Event::VolumesRemoved(seq));
            }
            Action::Send(message) => {
                let Some(stream) = &self.stream else { return };
                if stream.outbox.try_send(message).is_err() {
                    warn!("an emulated agent is not listened to");
                    self.leave();
                    self.next.push_back(Event::Closed);
                }
            }
            Action::Registered { agent_id, ping_interval, .. } => {
                self.is_registered = true;
                self.signal(Signal::Registered { agent_id, ping_interval });
                (self.tell)(Told::Registered);
            }
            Action::Close { reason, pause } => {
                self.signal(Signal::Close { reason, pause });
                self.leave();
            }
            Action::Exit(reason) => {
                self.state.send_replace(State::Exit(reason));
            }
            Action::Run(run) => self.pretend(run),
            Action::Checkpoint(_)
            | Action::Recovered
            | Action::EmptyTrash(_)
            | Action::Discrepancy { .. } => {}
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(stream) = &self.stream {
            // An error means that the stream ended meanwhile, which is an input of its own.
            let _ended = stream.signals.send(signal);
        }
    }

    /// What supervisors would say if everything went well.
    fn pretend(&mut self, run: Run) {
        match run {
            Run::Launch(start) => {
                let Start { name, tasks, .. } = *start;
                self.accept(&name, tasks.into_iter().map(|task| task.task_id).collect());
            }
            Run::Add { executor, tasks, .. } => {
                self.accept(&executor, tasks.into_iter().map(|task| task.task_id).collect());
            }
            Run::Kill(name, task_id, _) => {
                self.say(&name, Said::Status(Box::new(status(task_id, TaskState::Killed))));
                self.say(&name, Said::Ended(0));
            }
            Run::ShutDown(name) | Run::Destroy(name) => self.say(&name, Said::Ended(0)),
            // No custom executors, and nothing survives the process.
            Run::Tell(..) | Run::Find(..) | Run::Retired => {}
        }
    }

    fn accept(&mut self, name: &ExecutorName, task_ids: Vec<TaskId>) {
        self.say(name, Said::Accepted(task_ids.clone()));
        for task_id in task_ids {
            self.say(name, Said::Status(Box::new(status(task_id, TaskState::Running))));
        }
    }

    fn say(&mut self, name: &ExecutorName, said: Said) {
        let number = self.words.entry(name.clone()).or_default();
        *number += 1;
        let word = Word { number: *number, said };
        if matches!(word.said, Said::Ended(_)) {
            self.words.remove(name);
        }
        self.next.push_back(Event::Tasks(vec![TaskEvent::Heard(name.clone(), vec![word])]));
    }
}

fn status(task_id: TaskId, state: TaskState) -> TaskStatus {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TaskStatus {
        task_id,
        state,
        agent_id: None,
        executor_id: None,
        source: StatusSource::Executor,
        reason: None,
        message: None,
        uuid: None,
        at: Timestamp::default() + wall,
        unreachable_at: None,
        healthy: None,
        data: Opaque::default(),
        wire: Opaque::default(),
    }
}
