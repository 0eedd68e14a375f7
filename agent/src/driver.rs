//! The one loop that owns the core, the checkpoint and the volumes: takes inputs in order, steps
//! the core, does its actions in order. Holds no decision. Next: `driver/desk.rs` and
//! `driver/handle.rs`, then `runner.rs` and `session.rs`.
//!
//! It runs on a thread of its own, because a checkpoint waits for the disk. Volume directories
//! are changed on a second thread, which reports back as an input, so that pings are answered
//! while a large mount is emptied. The trash is emptied on a third; a fourth one wakes the loop
//! when something is late.

mod desk;
pub(crate) mod emulated;
mod handle;
mod notes;
mod view;

use std::collections::BTreeSet;
use std::sync::mpsc as thread_channel;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use tokio::sync::{mpsc, watch};
use tracing::error;

use self::desk::Desk;
use self::handle::Input;
pub(crate) use self::handle::{
    Events, ExecutorRefusal, Handle, Signal, State, Stream, StreamId, Subscription,
};
pub(crate) use self::view::{ExecutorView, TaskView, View};
use crate::core::event::{Event, VolumeStep};
use crate::metrics::Counters;
use crate::recovery::Recovered;
use crate::runner::{Program, Runner, disk, gc};
use crate::volumes::Volumes;

/// Inputs that may wait; a sender waits beyond it.
const INPUTS_MAX: usize = 1_024;

/// The driver's thread.
#[derive(Debug)]
pub(crate) struct Driver {
    thread: JoinHandle<()>,
    handle: Handle,
}

impl Driver {
    /// Starts with what the checkpoint held. Executors are run by `program`. Must be called
    /// within a runtime.
    pub(crate) fn start(recovered: Recovered, program: Program) -> std::io::Result<Self> {
        let (inputs, inbox) = mpsc::channel(INPUTS_MAX);
        let (state_tx, state) = watch::channel(State::Recovering);
        let handle = Handle { inputs: inputs.clone(), state };
        let Recovered { core, checkpoint, volumes, site, gc_delay } = recovered;
        let runtime = tokio::runtime::Handle::current();
        let events = Events(inputs.clone());
        let (timer, deadlines) = thread_channel::channel();
        let alarm = {
            let inputs = inputs.clone();
            spawn("agent-timer", move || wake(&deadlines, &inputs))?
        };
        let (measured, usage) = disk::start(volumes.clone())?;
        let sweep = gc::start(&site.work_dir, gc_delay)?;
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
            runner: Runner::new(runtime, events, program, site),
            begun: Instant::now(),
            timer,
            alarm_at: None,
            measured,
            usage,
            sweep,
            ended: BTreeSet::new(),
        };
        if let Some(agent_id) = desk.core.agent_id() {
            desk.runner.set_agent_id(agent_id.as_str());
        }
        desk.look_around();
        let thread = spawn("agent-core", move || {
            desk.run(inbox);
            drop(desk);
            for thread in [worker, sweeper, alarm] {
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

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(run)
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

/// Wakes the loop at the last deadline that it named.
fn wake(deadlines: &thread_channel::Receiver<Option<Instant>>, inputs: &mpsc::Sender<Input>) {
    let mut deadline: Option<Instant> = None;
    loop {
        let next = match deadline {
            None => deadlines.recv().map_err(|_| thread_channel::RecvTimeoutError::Disconnected),
            Some(at) => deadlines.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        match next {
            Ok(next) => deadline = next,
            Err(thread_channel::RecvTimeoutError::Timeout) => {
                deadline = None;
                if inputs.blocking_send(Input::Tick).is_err() {
                    return;
                }
            }
            Err(thread_channel::RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Ends the process at once: after a failed write nothing may be told to anybody, and the next
/// start begins at what is durable.
fn abort(reason: &str) -> ! {
    error!(reason, "storage failed: the agent aborts");
    std::process::abort()
}
