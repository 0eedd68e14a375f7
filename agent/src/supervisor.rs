//! The supervisor of one executor: a small process of its own session, which outlives the agent.
//! It runs commands for the agent or watches over a custom executor, and writes down what comes
//! of them before it tells anybody. Knows no framework and no master. Next: `supervisor/voice.rs`
//! (words), `supervisor/sandbox.rs` (before a process), `supervisor/process.rs` (processes),
//! `supervisor/tasks.rs` (what becomes of tasks), `supervisor/probe.rs` (checks).
//!
//! The agent starts it with a socket as its standard input, on which the job comes; a restarted
//! agent finds it by the socket in the directory of the run. When the last process has ended it
//! writes its last word and ends.

mod probe;
mod process;
mod sandbox;
mod tasks;
mod text;
mod voice;

use std::io::{self, BufReader};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use self::process::{Exit, reap_orphans};
use self::tasks::Troop;
use self::voice::Voice;
use crate::runner::job::{Claim, Finding, Job, JobOrder, Proof, SOCKET, Said, read_frame};

/// Version of the form of a proof.
const PROOF_VERSION: u32 = 1;
/// How often processes that lost their parent are looked after.
const ORPHANS_INTERVAL: Duration = Duration::from_secs(30);
/// How long a supervisor that was given nothing to do waits for it.
const JOB_TIMEOUT: Duration = Duration::from_secs(60);

/// What happens to a supervisor.
enum Input {
    /// The agent wants something.
    Order(JobOrder),
    /// An agent is there.
    Connected(UnixStream),
    /// A process ended.
    Exited(Exit),
    /// A check of a task found something.
    Found { task: usize, check: usize, finding: Finding },
}

/// Runs a supervisor: the whole of the hidden subcommand `supervise`.
#[must_use]
pub fn supervise() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads what a supervisor prints: the agent sees that it is gone.
        Err(_) => ExitCode::FAILURE,
    }
}

fn run() -> io::Result<()> {
    let agent = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // It fails for the leader of a group only, which the agent does not make of it.
    let _session = rustix::process::setsid();
    agent.set_read_timeout(Some(JOB_TIMEOUT))?;
    let mut orders = BufReader::new(agent.try_clone()?);
    let Some(JobOrder::Begin(job)) = read_frame(&mut orders)? else {
        return Err(io::Error::other("no job came"));
    };
    agent.set_read_timeout(None)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    std::env::set_current_dir(&job.run)?;
    // Before any thread: the namespace is that of the thread which makes it.
    let may_mount = sandbox::separate(&job);
    let listener = UnixListener::bind(SOCKET)?;

    let (inputs, inbox) = mpsc::channel();
    let mut voice = Voice::open(Path::new("."))?;
    voice.listen(agent.try_clone()?);
    spawn(read_orders(orders, inputs.clone()))?;
    let more = inputs.clone();
    spawn(move || {
        for stream in listener.incoming().flatten() {
            if more.send(Input::Connected(stream)).is_err() {
                return;
            }
        }
    })?;
    attend(*job, may_mount, &mut voice, &inputs, &inbox)
}

fn spawn(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().spawn(run).map(|_| ())
}

fn read_orders(mut orders: BufReader<UnixStream>, inputs: Sender<Input>) -> impl FnOnce() + Send {
    move || {
        while let Ok(Some(order)) = read_frame(&mut orders) {
            if inputs.send(Input::Order(order)).is_err() {
                return;
            }
        }
    }
}

/// Starts what the job says, and stays with it to its end.
fn attend(
    job: Job,
    may_mount: bool,
    voice: &mut Voice,
    inputs: &Sender<Input>,
    inbox: &Receiver<Input>,
) -> io::Result<()> {
    let pid = std::process::id();
    let proof = Proof {
        version: PROOF_VERSION,
        pid,
        started: crate::runner::process::started(pid).unwrap_or_default(),
        boot_id: job.boot_id.clone(),
    };
    let run = std::env::current_dir()?;
    let mut troop = Troop::new(&job, may_mount, inputs.clone());
    voice.say(troop.accept(&job.tasks));
    if !Claim::stake(&run, &proof)? {
        return Ok(());
    }
    let words = troop.begin(job);
    troop.speak(voice, words);
    let mut orphans_at = Instant::now() + ORPHANS_INTERVAL;
    while !troop.is_over() {
        let deadline = troop.deadline().into_iter().chain(voice.retry_at()).chain([orphans_at]);
        let wait = deadline
            .min()
            .map_or(ORPHANS_INTERVAL, |at| at.saturating_duration_since(Instant::now()));
        match inbox.recv_timeout(wait) {
            Ok(Input::Order(order)) => {
                let words = troop.obey(order);
                troop.speak(voice, words);
            }
            Ok(Input::Connected(stream)) => {
                let orders = BufReader::new(stream.try_clone()?);
                voice.listen(stream);
                spawn(read_orders(orders, inputs.clone()))?;
            }
            Ok(Input::Exited(exit)) => {
                let words = troop.exited(&exit);
                troop.speak(voice, words);
            }
            Ok(Input::Found { task, check, finding }) => {
                let words = troop.checked(task, check, finding);
                troop.speak(voice, words);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if troop.is_over() {
            break;
        }
        let words = troop.tick(Instant::now());
        troop.speak(voice, words);
        voice.retry();
        if Instant::now() >= orphans_at {
            reap_orphans(&troop.pids());
            orphans_at = Instant::now() + ORPHANS_INTERVAL;
        }
    }
    voice.finish();
    Ok(())
}

/// Whether nothing follows a word: it must be on the disk before anybody hears it.
fn is_final(said: &Said) -> bool {
    match said {
        Said::Status { state, .. } => state.is_terminal(),
        Said::Failed(_) | Said::Ended(_) => true,
        Said::Accepted(_) => false,
    }
}
