//! The one loop that owns the core, the checkpoint and the volumes: takes inputs in order, steps
//! the core, does its actions in order. Holds no decision. Next: `session.rs`.
//!
//! It runs on a thread of its own, because a checkpoint waits for the disk. Volume directories
//! are changed on a second thread, which reports back as an input, so that pings are answered
//! while a large mount is emptied. The trash is emptied on a third.

use std::sync::mpsc as thread_channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tracing::{debug, error, info};

use resources::collection::Resources;
use resources::id::{AgentId, Seq};
use resources::message::{AgentMessage, Fence, MasterMessage, Outcome, Settled};
use resources::resource::Resource;

use crate::checkpoint::Checkpoint;
use crate::core::Core;
use crate::core::event::{Action, Event, Identity, Pause, VolumeStep, Write};
use crate::recovery::Recovered;
use crate::volumes::Volumes;

/// Inputs that may wait; a sender waits beyond it.
const INPUTS_MAX: usize = 1_024;

/// Tells one stream from the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamId(pub(crate) u64);

/// The way out of one open stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Its name.
    pub(crate) id: StreamId,
    /// Messages to the master. Full means that the master does not read: the stream is closed.
    pub(crate) outbox: mpsc::Sender<AgentMessage>,
    /// What the core says about the stream.
    pub(crate) signals: mpsc::UnboundedSender<Signal>,
}

/// What the core says about a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The master knows the agent.
    Registered {
        /// Its id.
        agent_id: AgentId,
        /// How often pings come.
        ping_interval: Duration,
    },
    /// Give it up.
    Close {
        /// Why.
        reason: String,
        /// How long to stay away.
        pause: Pause,
    },
}

/// A picture of the agent, for its HTTP server.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// Who it is.
    pub(crate) identity: Identity,
    /// Its name, once it has one.
    pub(crate) agent_id: Option<AgentId>,
    /// Everything it has.
    pub(crate) total: Resources,
    /// Last order carried out.
    pub(crate) applied_seq: Seq,
    /// Volumes without their directory.
    pub(crate) unavailable: Vec<Resource>,
    /// Outcomes not acknowledged.
    pub(crate) settled: Vec<Settled>,
}

enum Input {
    Event(Event),
    Opened(Stream),
    Received(StreamId, Fence, MasterMessage),
    Closed(StreamId),
    View(oneshot::Sender<View>),
    Stop,
}

/// Speaks to the driver. Clones speak to the same one.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    inputs: mpsc::Sender<Input>,
    state: watch::Receiver<State>,
}

/// How far the driver is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Finishes what an earlier run began.
    Recovering,
    /// Sessions may be opened.
    Ready,
    /// The agent must end, for this reason.
    Exit(String),
}

/// The driver's thread.
#[derive(Debug)]
pub(crate) struct Driver {
    thread: JoinHandle<()>,
    handle: Handle,
}

impl Driver {
    /// Starts with what the checkpoint held.
    pub(crate) fn start(recovered: Recovered) -> std::io::Result<Self> {
        let (inputs, inbox) = mpsc::channel(INPUTS_MAX);
        let (state_tx, state) = watch::channel(State::Recovering);
        let handle = Handle { inputs: inputs.clone(), state };
        let Recovered { core, checkpoint, volumes } = recovered;
        let (steps, steps_rx) = thread_channel::channel();
        let (trash, trash_rx) = thread_channel::channel();
        let worker = {
            let volumes = volumes.clone();
            spawn("agent-volumes", move || change_volumes(&volumes, &steps_rx, &inputs))?
        };
        let sweeper = spawn("agent-trash", move || {
            while let Ok(upto) = trash_rx.recv() {
                volumes.empty_trash(upto);
            }
        })?;
        let mut desk = Desk { core, checkpoint, stream: None, steps, trash, state: state_tx };
        let thread = spawn("agent-core", move || {
            desk.run(inbox);
            drop(desk);
            for thread in [worker, sweeper] {
                if thread.join().is_err() {
                    error!("a thread of the agent panicked");
                }
            }
        })?;
        Ok(Self { thread, handle })
    }

    /// A way to speak to the driver.
    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Ends the threads: what is in work is finished first.
    pub(crate) async fn stop(self) {
        // An error means that the thread has ended already.
        let _ended = self.handle.inputs.send(Input::Stop).await;
        let joined = tokio::task::spawn_blocking(move || self.thread.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            error!("the agent's core panicked");
        }
    }
}

impl Handle {
    /// A stream is open: the core registers on it. Ends every earlier one.
    pub(crate) async fn opened(&self, stream: Stream) {
        self.send(Input::Opened(stream)).await;
    }
    /// A message came in.
    pub(crate) async fn received(&self, id: StreamId, fence: Fence, message: MasterMessage) {
        self.send(Input::Received(id, fence, message)).await;
    }
    /// The stream ended.
    pub(crate) async fn closed(&self, id: StreamId) {
        self.send(Input::Closed(id)).await;
    }
    /// The agent as it is now; none when it is ending.
    pub(crate) async fn view(&self) -> Option<View> {
        let (answer, view) = oneshot::channel();
        self.send(Input::View(answer)).await;
        view.await.ok()
    }
    /// How far the driver is.
    pub(crate) fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    async fn send(&self, input: Input) {
        if self.inputs.send(input).await.is_err() {
            debug!("the agent's core has ended");
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(run)
}

/// What the driver's thread works with.
struct Desk {
    core: Core,
    checkpoint: Checkpoint,
    stream: Option<Stream>,
    steps: thread_channel::Sender<VolumeStep>,
    trash: thread_channel::Sender<Seq>,
    state: watch::Sender<State>,
}

impl Desk {
    fn run(&mut self, mut inbox: mpsc::Receiver<Input>) {
        self.step(Event::Started);
        while let Some(input) = inbox.blocking_recv() {
            match input {
                Input::Event(event) => self.step(event),
                Input::Opened(stream) => {
                    self.stream = Some(stream);
                    self.step(Event::Opened);
                }
                Input::Received(id, fence, message) => {
                    if self.is_current(id) {
                        self.step(Event::Received(fence, message));
                    }
                }
                Input::Closed(id) => {
                    if self.is_current(id) {
                        self.stream = None;
                        self.step(Event::Closed);
                    }
                }
                Input::View(answer) => {
                    // An error means that nobody waits any more.
                    let _unread = answer.send(self.view());
                }
                Input::Stop => return,
            }
        }
    }

    fn is_current(&self, id: StreamId) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.id == id)
    }

    fn step(&mut self, event: Event) {
        for action in self.core.step(event) {
            debug!(%action, "agent");
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Checkpoint(writes) => {
                if let Err(failure) = self.checkpoint.commit(&writes) {
                    abort(&failure.to_string());
                }
                writes.iter().for_each(note);
            }
            Action::Volumes(step) => {
                if self.steps.send(step).is_err() {
                    abort("the thread that changes volumes has ended");
                }
            }
            Action::Send(message) => self.send(message),
            Action::Recovered => {
                self.state.send_replace(State::Ready);
            }
            Action::Registered { agent_id, ping_interval, .. } => {
                self.signal(Signal::Registered { agent_id, ping_interval });
            }
            Action::Close { reason, pause } => {
                self.signal(Signal::Close { reason, pause });
                self.stream = None;
            }
            Action::EmptyTrash(upto) => {
                if self.trash.send(upto).is_err() {
                    abort("the thread that empties the trash has ended");
                }
            }
            Action::Discrepancy { seq, here, there } => {
                error!(%seq, operation_id = %here, %there, "one order, two operations");
            }
            Action::Exit(reason) => {
                self.state.send_replace(State::Exit(reason));
            }
        }
    }

    fn send(&mut self, message: AgentMessage) {
        let Some(stream) = &self.stream else { return };
        if let Err(mpsc::error::TrySendError::Full(_)) = stream.outbox.try_send(message) {
            let reason = "the master does not read its messages".to_owned();
            self.signal(Signal::Close { reason, pause: Pause::Short });
            self.stream = None;
            self.step(Event::Closed);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(stream) = &self.stream {
            // An error means that the stream ended meanwhile, which is an input of its own.
            let _ended = stream.signals.send(signal);
        }
    }

    fn view(&self) -> View {
        View {
            identity: self.core.identity().clone(),
            agent_id: self.core.agent_id().cloned(),
            total: self.core.total().clone(),
            applied_seq: self.core.applied_seq(),
            unavailable: self.core.unavailable().cloned().collect(),
            settled: self.core.settled().cloned().collect(),
        }
    }
}

fn change_volumes(
    volumes: &Volumes,
    steps: &thread_channel::Receiver<VolumeStep>,
    inputs: &mpsc::Sender<Input>,
) {
    while let Ok(step) = steps.recv() {
        let event = match step {
            VolumeStep::Create { seq, volumes: wanted } => {
                Event::VolumesMade(seq, volumes.create(&wanted))
            }
            VolumeStep::Destroy { seq, volumes: unwanted } => {
                if let Err(failure) = volumes.destroy(seq, &unwanted) {
                    abort(&failure.to_string());
                }
                Event::VolumesRemoved(seq)
            }
        };
        if inputs.blocking_send(Input::Event(event)).is_err() {
            return;
        }
    }
}

/// What a user may ask about later: volumes, and orders that failed.
fn note(write: &Write) {
    match write {
        Write::Settle(Settled { seq, operation_id, outcome: Outcome::Failed { reason } }) => {
            info!(%operation_id, %seq, reason, "operation failed");
        }
        Write::Settle(Settled { seq, operation_id, outcome: Outcome::Finished }) => {
            debug!(%operation_id, %seq, "operation finished");
        }
        Write::Volume(volume, _) => info!(%volume, "volume created"),
        Write::RemoveVolume(volume) => info!(%volume, "volume destroyed"),
        _ => {}
    }
}

/// Ends the process at once: after a failed write nothing may be told to anybody, and the next
/// start begins at what is durable.
fn abort(reason: &str) -> ! {
    error!(reason, "storage failed: the agent aborts");
    std::process::abort()
}
