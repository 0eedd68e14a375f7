//! The one loop that owns the core, the checkpoint and the volumes: takes inputs in order, steps
//! the core, does its actions in order. Holds no decision. Next: `session.rs`.
//!
//! It runs on a thread of its own, because a checkpoint waits for the disk. Volume directories
//! are changed on a second thread, which reports back as an input, so that pings are answered
//! while a large mount is emptied. The trash is emptied on a third.

use std::sync::mpsc as thread_channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tracing::{debug, error, info};

use resources::collection::Resources;
use resources::id::{AgentId, Seq};
use resources::message::{AgentMessage, Fence, MasterMessage, Order, Outcome, Settled};

use crate::checkpoint::Checkpoint;
use crate::core::Core;
use crate::core::event::{Action, Ended, Event, Identity, Pause, Unavailable, VolumeStep, Write};
use crate::metrics::Counters;
use crate::recovery::Recovered;
use crate::volumes::Volumes;

/// Inputs that may wait; a sender waits beyond it.
const INPUTS_MAX: usize = 1_024;

/// Orders of one stream that are taken in together.
const ORDERS_MAX: usize = 1_024;

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
    /// Volumes whose directory cannot be used.
    pub(crate) unavailable: Vec<Unavailable>,
    /// Orders whose outcome is not acknowledged.
    pub(crate) ended: Vec<Ended>,
    /// Orders taken in and not settled.
    pub(crate) pending: Vec<Order>,
    /// Whether a leading master knows the agent now.
    pub(crate) is_registered: bool,
    /// Since the start.
    pub(crate) counters: Counters,
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
        let mut desk = Desk {
            core,
            checkpoint,
            stream: None,
            is_registered: false,
            counters: Counters::default(),
            steps,
            trash,
            state: state_tx,
        };
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
    is_registered: bool,
    counters: Counters,
    steps: thread_channel::Sender<VolumeStep>,
    trash: thread_channel::Sender<Seq>,
    state: watch::Sender<State>,
}

impl Desk {
    fn run(&mut self, mut inbox: mpsc::Receiver<Input>) {
        self.step(Event::Started);
        let mut kept = None;
        while let Some(input) = kept.take().or_else(|| inbox.blocking_recv()) {
            match input {
                Input::Event(event) => self.step(event),
                Input::Opened(stream) => {
                    self.leave();
                    self.stream = Some(stream);
                    self.step(Event::Opened);
                }
                Input::Received(id, fence, mut message) => {
                    if self.is_current(id) {
                        if let MasterMessage::Orders(orders) = &mut message {
                            kept = more_orders(&mut inbox, id, &fence, orders);
                        }
                        self.step(Event::Received(fence, message));
                    }
                }
                Input::Closed(id) => {
                    if self.is_current(id) {
                        self.leave();
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

    fn leave(&mut self) {
        self.stream = None;
        self.is_registered = false;
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
                let begun = Instant::now();
                if let Err(failure) = self.checkpoint.commit(&writes) {
                    abort(&failure.to_string());
                }
                self.counters.checkpoints += 1;
                self.counters.checkpoint_time += begun.elapsed();
                writes.iter().for_each(|row| note(row, &mut self.counters));
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
                self.is_registered = true;
                self.counters.registrations += 1;
                self.signal(Signal::Registered { agent_id, ping_interval });
            }
            Action::Close { reason, pause } => {
                self.signal(Signal::Close { reason, pause });
                self.leave();
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
            self.leave();
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
            ended: self.core.ended().cloned().collect(),
            pending: self.core.pending().cloned().collect(),
            is_registered: self.is_registered,
            counters: self.counters,
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

/// Orders that wait behind these on the same stream go into the same checkpoint. Gives back the
/// first input that is none of them.
fn more_orders(
    inbox: &mut mpsc::Receiver<Input>,
    id: StreamId,
    fence: &Fence,
    orders: &mut Vec<Order>,
) -> Option<Input> {
    while orders.len() < ORDERS_MAX {
        match inbox.try_recv().ok()? {
            Input::Received(of, under, MasterMessage::Orders(more))
                if of == id && under == *fence && follow(orders, &more) =>
            {
                orders.extend(more);
            }
            other => return Some(other),
        }
    }
    None
}

/// Whether no number is missing between the two.
fn follow(orders: &[Order], more: &[Order]) -> bool {
    orders.last().zip(more.first()).is_some_and(|(last, first)| last.seq.next() == first.seq)
}

/// What a user may ask about later: volumes, and orders that failed.
fn note(write: &Write, counters: &mut Counters) {
    match write {
        Write::Settle(ended) => {
            let Settled { seq, operation_id, outcome } = &ended.settled;
            match outcome {
                Outcome::Failed { reason } => {
                    counters.orders_failed += 1;
                    info!(%operation_id, %seq, reason, "operation failed");
                }
                Outcome::Finished => {
                    counters.orders_finished += 1;
                    debug!(%operation_id, %seq, "operation finished");
                }
            }
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
