//! The desk at which everything about the agent comes in, in one order: the loop of the driver's
//! thread. Next: `driver/notes.rs`.

use std::collections::BTreeSet;
use std::sync::mpsc as thread_channel;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, watch};
use tracing::{debug, error};

use proto::mesos::v1::executor::Event as ExecutorEvent;
use resources::id::Seq;
use resources::message::{AgentMessage, Fence, Instruction, MasterMessage, Order};
use resources::operation::Operation;
use resources::task::ExecutorName;
use resources::time::Timestamp;

use super::abort;
use super::handle::{ExecutorRefusal, Input, Signal, State, Stream, StreamId, Subscription};
use super::notes::{changes_surroundings, ends_executor, note};
use super::view::{ExecutorView, TaskView, View};
use crate::checkpoint::Checkpoint;
use crate::core::Core;
use crate::core::event::{Action, Event, Pause, VolumeStep};
use crate::core::tasks::event::{Clock, Run, TaskEvent};
use crate::core::tasks::row::{ExecutorRow, TaskName};
use crate::metrics::Counters;
use crate::runner::disk::{Measured, Usage};
use crate::runner::gc::Sweep;
use crate::runner::{Runner, is_custom, plan, tell};

/// Orders of one stream that are taken in together.
const ORDERS_MAX: usize = 1_024;
/// Events of executors that are stored together.
const EVENTS_MAX: usize = 256;

/// What the driver's thread works with.
pub(super) struct Desk {
    pub(super) core: Core,
    pub(super) checkpoint: Checkpoint,
    pub(super) stream: Option<Stream>,
    pub(super) is_registered: bool,
    pub(super) counters: Counters,
    pub(super) steps: thread_channel::Sender<VolumeStep>,
    pub(super) trash: thread_channel::Sender<Seq>,
    pub(super) state: watch::Sender<State>,
    pub(super) runner: Runner,
    /// When the core's time began.
    pub(super) begun: Instant,
    pub(super) timer: thread_channel::Sender<Option<Instant>>,
    /// What the timer was told.
    pub(super) alarm_at: Option<Instant>,
    pub(super) measured: Measured,
    pub(super) usage: watch::Receiver<Usage>,
    pub(super) sweep: Sweep,
    /// Tasks whose end was told to the log.
    pub(super) ended: BTreeSet<TaskName>,
}

impl Desk {
    pub(super) fn run(&mut self, mut inbox: mpsc::Receiver<Input>) {
        self.step(Event::Started);
        let mut kept = None;
        while let Some(input) = kept.take().or_else(|| inbox.blocking_recv()) {
            match input {
                Input::Event(event) => self.step(event),
                Input::Tasks(event) => {
                    let mut events = vec![event];
                    kept = more_events(&mut inbox, &mut events);
                    self.step(Event::Tasks(events));
                }
                Input::Subscribe(subscription, answer) => {
                    // An error means that the executor is gone again.
                    let _gone = answer.send(self.subscribe(*subscription));
                }
                Input::Call(name, event, answer) => {
                    let found = self.find_executor(&name).and_then(|()| {
                        let is_open = self.runner.has_stream(&name);
                        if is_open { Ok(()) } else { Err(ExecutorRefusal::NotSubscribed) }
                    });
                    if found.is_ok() {
                        self.step(Event::Tasks(vec![event]));
                    }
                    let _gone = answer.send(found);
                }
                Input::Tick => {
                    self.alarm_at = None;
                    self.step(Event::Tasks(Vec::new()));
                }
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
                        self.describe(&message);
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
                Input::Stop => {
                    self.step(Event::Tasks(vec![TaskEvent::Rest]));
                    return;
                }
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

    pub(super) fn step(&mut self, event: Event) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let clock = Clock { elapsed: self.begun.elapsed(), wall: Timestamp::default() + wall };
        self.carry_out(Event::Tasks(vec![TaskEvent::Tick(clock)]));
        self.carry_out(event);
        let alarm_at = self.core.next_tick().and_then(|at| self.begun.checked_add(at));
        if alarm_at != self.alarm_at {
            self.alarm_at = alarm_at;
            if self.timer.send(alarm_at).is_err() {
                abort("the thread of the timer has ended");
            }
        }
    }

    fn carry_out(&mut self, event: Event) {
        for action in self.core.step(event) {
            debug!(%action, "agent");
            self.act(action);
        }
    }

    /// Reads what the core decides by in messages whose form it does not know.
    fn describe(&mut self, message: &MasterMessage) {
        let events = described(message);
        if !events.is_empty() {
            self.carry_out(Event::Tasks(events));
        }
    }

    fn find_executor(&self, name: &ExecutorName) -> Result<(), ExecutorRefusal> {
        if !self.core.frameworks().contains_key(&name.framework_id) {
            return Err(ExecutorRefusal::Framework);
        }
        let is_it = |(of, row): (&ExecutorName, &ExecutorRow)| of == name && is_custom(row);
        let is_there = self.core.executors().any(is_it);
        if is_there { Ok(()) } else { Err(ExecutorRefusal::Executor) }
    }

    fn subscribe(
        &mut self,
        subscription: Subscription,
    ) -> Result<mpsc::Receiver<ExecutorEvent>, ExecutorRefusal> {
        let Subscription { executor, tasks, updates } = subscription;
        self.find_executor(&executor)?;
        let agent = crate::http::agent_info(self.core.identity(), self.core.agent_id());
        let (stream, events) = tell::Stream::new(&executor, agent);
        self.runner.open_stream(executor.clone(), stream);
        self.step(Event::Tasks(vec![TaskEvent::Subscribed { executor, tasks, updates }]));
        Ok(events)
    }

    /// Tells the threads in the background what there is to look at.
    pub(super) fn look_around(&mut self) {
        self.measured.set(self.core.total().volumes().cloned().collect());
        let live = self.core.executors().map(|(_, row)| row.container.clone());
        self.sweep.set(live.collect::<BTreeSet<String>>());
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
                writes.iter().for_each(|row| self.note_end(row));
                if writes.iter().any(changes_surroundings) {
                    self.look_around();
                }
                if writes.iter().any(ends_executor) {
                    let core = &self.core;
                    self.runner.keep_streams(|name| core.executors().any(|(of, _)| of == name));
                }
            }
            Action::Volumes(step) => {
                if self.steps.send(step).is_err() {
                    abort("the thread that changes volumes has ended");
                }
            }
            Action::Send(message) => self.send(message),
            Action::Recovered => {
                self.state.send_if_modified(|state| {
                    let is_first = *state == State::Recovering;
                    if is_first {
                        *state = State::Ready;
                    }
                    is_first
                });
            }
            Action::Registered { agent_id, ping_interval, .. } => {
                self.is_registered = true;
                self.counters.registrations += 1;
                self.runner.set_agent_id(agent_id.as_str());
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
            Action::Run(Run::Retired) => {
                self.state.send_replace(State::Retired);
            }
            Action::Run(run) => {
                let core = &self.core;
                self.runner.run(run, |name| {
                    let found = core.executors().find(|(of, _)| *of == name);
                    found.map(|(_, row)| row.clone())
                });
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
            frameworks: self.core.frameworks().clone(),
            executors: self.core.executors().map(|(name, row)| self.executor(name, row)).collect(),
            completed_executors: self
                .core
                .completed_executors()
                .map(|(name, row)| self.executor(name, row))
                .collect(),
            tasks: self
                .core
                .tasks()
                .map(|(name, row, status)| TaskView {
                    name: name.clone(),
                    row: row.clone(),
                    status: status.clone(),
                })
                .collect(),
            completed_tasks: self.core.completed_tasks().map(TaskView::from).collect(),
            disk: self.usage.borrow().clone(),
        }
    }

    fn executor(&self, name: &ExecutorName, row: &ExecutorRow) -> ExecutorView {
        let directory = self.runner.sandbox(name, row);
        ExecutorView { name: name.clone(), row: row.clone(), directory }
    }
}

/// What the core decides by in messages whose form it does not know.
pub(super) fn described(message: &MasterMessage) -> Vec<TaskEvent> {
    match message {
        MasterMessage::Orders(orders) => {
            let launches = orders.iter().filter_map(|order| match &order.operation {
                Operation::Launch(launch) => {
                    Some(TaskEvent::LaunchDescribed(order.seq, plan::facts(launch)))
                }
                _ => None,
            });
            launches.collect()
        }
        MasterMessage::Instruct(Instruction::UpdateFramework { framework_id, info }) => {
            vec![TaskEvent::FrameworkDescribed(framework_id.clone(), plan::traits(info))]
        }
        _ => Vec::new(),
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

/// Events of executors that wait behind these go into the same checkpoint. Gives back the first
/// input that is none of them.
fn more_events(inbox: &mut mpsc::Receiver<Input>, events: &mut Vec<TaskEvent>) -> Option<Input> {
    while events.len() < EVENTS_MAX {
        match inbox.try_recv().ok()? {
            Input::Tasks(event) => events.push(event),
            other => return Some(other),
        }
    }
    None
}

/// Whether no number is missing between the two.
fn follow(orders: &[Order], more: &[Order]) -> bool {
    orders.last().zip(more.first()).is_some_and(|(last, first)| last.seq.next() == first.seq)
}
