//! How others speak to the driver: sessions, the HTTP server, and what runs for the agent. Next:
//! `driver/view.rs`.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tracing::debug;

use proto::mesos::v1::executor::Event as ExecutorEvent;
use resources::id::{AgentId, TaskId};
use resources::message::{AgentMessage, Fence, MasterMessage};
use resources::task::{ExecutorName, TaskStatus};

use super::View;
use crate::core::event::{Event, Pause};
use crate::core::tasks::event::TaskEvent;

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

/// How far the driver is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Finishes what an earlier run began.
    Recovering,
    /// Sessions may be opened.
    Ready,
    /// No executor is left, as was asked: the agent may end.
    Retired,
    /// The cluster knows that the agent leaves.
    Left,
    /// The agent was given up, for this reason: it ends when its tasks have.
    Doomed(String),
    /// The agent must end, for this reason.
    Exit(String),
}

/// Why an executor's call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExecutorRefusal {
    /// No such framework here.
    Framework,
    /// No such executor here, or none that speaks for itself.
    Executor,
    /// It has no stream.
    NotSubscribed,
    /// The agent is about to end.
    Ending,
}

/// An executor that opens its stream.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// Which.
    pub(crate) executor: ExecutorName,
    /// Tasks that it knows.
    pub(crate) tasks: Vec<TaskId>,
    /// What it said and was not acknowledged.
    pub(crate) updates: Vec<TaskStatus>,
}

type Answer<T> = oneshot::Sender<Result<T, ExecutorRefusal>>;

pub(super) enum Input {
    Event(Event),
    Tasks(TaskEvent),
    Opened(Stream),
    Received(StreamId, Fence, MasterMessage),
    Closed(StreamId),
    Subscribe(Box<Subscription>, Answer<mpsc::Receiver<ExecutorEvent>>),
    Call(ExecutorName, TaskEvent, Answer<()>),
    View(oneshot::Sender<View>),
    Tick,
    Stop,
}

/// Speaks to the driver. Clones speak to the same one.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) state: watch::Receiver<State>,
}

/// The way for what happens to executors.
#[derive(Debug, Clone)]
pub(crate) struct Events(pub(super) mpsc::Sender<Input>);

impl Events {
    /// Tells the core.
    pub(crate) async fn send(&self, event: TaskEvent) {
        if self.0.send(Input::Tasks(event)).await.is_err() {
            debug!("the agent's core has ended");
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
    /// Ends every executor; the state turns to `Retired` when none is left.
    pub(crate) async fn retire(&self) {
        self.send(Input::Tasks(TaskEvent::Retire)).await;
    }
    /// Says that the agent leaves, whatever was not acknowledged; the state turns to `Left` when
    /// the cluster knows.
    pub(crate) async fn part(&self) {
        self.send(Input::Event(Event::Leave)).await;
    }
    /// Opens the stream of a custom executor.
    pub(crate) async fn subscribe(
        &self,
        subscription: Subscription,
    ) -> Result<mpsc::Receiver<ExecutorEvent>, ExecutorRefusal> {
        let (answer, stream) = oneshot::channel();
        self.send(Input::Subscribe(Box::new(subscription), answer)).await;
        stream.await.unwrap_or(Err(ExecutorRefusal::Ending))
    }
    /// Passes on what a subscribed executor says.
    pub(crate) async fn call(
        &self,
        executor: ExecutorName,
        event: TaskEvent,
    ) -> Result<(), ExecutorRefusal> {
        let (answer, done) = oneshot::channel();
        self.send(Input::Call(executor, event, answer)).await;
        done.await.unwrap_or(Err(ExecutorRefusal::Ending))
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
