//! One executor, from its start or from the restart of the agent to its end: starts its
//! supervisor, hands orders on, and passes its words to the core. Nothing is lost when this ends
//! with the agent: the words stand in a file. Next: `runner/tell.rs`.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tracing::{debug, error, info, warn};

use proto::mesos::v1;
use resources::id::TaskId;
use resources::opaque::Opaque;
use resources::task::{ExecutorName, StatusSource, TaskStatus};
use resources::time::Timestamp;

use super::Program;
use super::job::{self, Claim, Finding, Job, JobOrder, Record, SOCKET, framed, words_after};
use super::process;
use crate::core::tasks::event::{Found, Said, TaskEvent, Word};
use crate::core::tasks::row::ExecutorRow;
use crate::driver::Events;
use crate::failpoint;

/// Looks after one executor.
pub(super) struct Attendant {
    pub(super) name: ExecutorName,
    pub(super) row: ExecutorRow,
    /// Directory of the run.
    pub(super) run: PathBuf,
    pub(super) boot_id: String,
    pub(super) program: Program,
    /// `host:port` of the agent.
    pub(super) endpoint: String,
    /// Last word that the core has.
    pub(super) heard: u64,
    pub(super) orders: mpsc::UnboundedReceiver<JobOrder>,
    pub(super) events: Events,
}

impl Attendant {
    /// Starts the supervisor, and stays with it.
    pub(super) async fn launch(mut self, job: Job) {
        let (run, program) = (self.run.clone(), self.program.clone());
        let begun = spawn_blocking(move || begin(&run, &program, job)).await;
        let begun = begun.unwrap_or_else(|error| Err(io::Error::other(error)));
        match begun {
            Ok((child, stream)) => {
                debug!(executor = %self.name, container = self.row.container, "executor started");
                self.stay(stream, Some(child)).await;
            }
            Err(error) => {
                let reason = format!("cannot start the supervisor: {error}");
                warn!(executor = %self.name, reason, "launch failed");
                self.events.send(TaskEvent::LaunchFailed(self.name, reason)).await;
            }
        }
    }

    /// Finds out what became of an executor of an earlier run of the agent.
    pub(super) async fn find(mut self) {
        let (run, boot_id) = (self.run.clone(), self.boot_id.clone());
        let claim = spawn_blocking(move || {
            let claim = Claim::settle(&run)?;
            Ok::<_, io::Error>(match claim {
                Claim::Supervisor(proof) if proof.boot_id == boot_id => {
                    (claim_stands(&proof).then(|| open(&run)).transpose()?, Some(proof))
                }
                Claim::Supervisor(_) => (None, Some(proof_of_another_boot())),
                Claim::Void => (None, None),
            })
        });
        let found = match claim.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok((_, None)) => {
                self.events.send(TaskEvent::Found(self.name, Found::NeverStarted)).await;
                return;
            }
            Ok((stream, Some(proof))) => {
                let stream = stream.flatten().and_then(|stream| {
                    stream.set_nonblocking(true).ok()?;
                    UnixStream::from_std(stream).ok()
                });
                (stream, proof)
            }
            Err(error) => {
                error!(executor = %self.name, %error, "the run of an executor cannot be read");
                self.events.send(TaskEvent::Found(self.name, Found::Vanished)).await;
                return;
            }
        };
        match found {
            (Some(stream), _) => {
                self.pass_on().await;
                self.events.send(TaskEvent::Found(self.name.clone(), Found::Alive)).await;
                info!(executor = %self.name, "executor found again");
                self.stay(stream, None).await;
            }
            (None, proof) => {
                if !self.pass_on().await {
                    let is_here = proof.boot_id == self.boot_id;
                    let cleared = apart(move || {
                        if is_here {
                            end_session(proof.pid, Some(proof.started));
                        }
                    });
                    if !cleared.await {
                        warn!(executor = %self.name, "what is left of it was not looked for");
                    }
                    self.events.send(TaskEvent::Found(self.name, Found::Vanished)).await;
                }
            }
        }
    }

    /// Hands orders to the supervisor and its words to the core until it ends. Cancel-safe: a
    /// byte that is read says only that there are words, and an order is written as a whole.
    async fn stay(&mut self, stream: UnixStream, child: Option<Child>) {
        let session = child.as_ref().and_then(Child::id);
        let (mut reader, mut writer) = stream.into_split();
        let mut bytes = [0; 64];
        let mut has_ended = false;
        while !has_ended {
            tokio::select! {
                read = reader.read(&mut bytes) => {
                    has_ended = self.pass_on().await;
                    if !matches!(read, Ok(1..)) {
                        break;
                    }
                }
                order = self.orders.recv() => {
                    let Some(order) = order else { break };
                    let Ok(frame) = framed(&order) else { continue };
                    if writer.write_all(&frame).await.is_err() {
                        debug!(executor = %self.name, "the supervisor takes no orders any more");
                    }
                }
            }
        }
        drop((reader, writer));
        if let Some(mut child) = child
            && let Err(error) = child.wait().await
        {
            debug!(%error, "the supervisor was not waited for");
        }
        // A word may have come between the last look and the end.
        if !has_ended && !self.pass_on().await {
            let run = self.run.clone();
            let cleared = apart(move || match (session, Claim::settle(&run)) {
                (_, Ok(Claim::Supervisor(proof))) => end_session(proof.pid, Some(proof.started)),
                (Some(session), _) => end_session(session, None),
                (None, _) => {}
            });
            if !cleared.await {
                warn!(executor = %self.name, "what is left of it was not looked for");
            }
            self.events.send(TaskEvent::Vanished(self.name.clone())).await;
        }
    }

    /// Passes on the words that the core does not have; true after the last one of all.
    async fn pass_on(&mut self) -> bool {
        let (run, heard) = (self.run.clone(), self.heard);
        let records = match words_after(&run, heard) {
            Ok(records) => records,
            Err(error) => {
                error!(executor = %self.name, %error, "the words of a supervisor are unreadable");
                return false;
            }
        };
        let Some(last) = records.last() else { return false };
        self.heard = last.number;
        let (mut words, mut failure, mut is_last) = (Vec::new(), None, false);
        for Record { number, at, said } in records {
            let said = match said {
                job::Said::Failed(reason) => {
                    failure = Some(reason);
                    continue;
                }
                job::Said::Ended(status) => {
                    is_last = true;
                    Said::Ended(status)
                }
                job::Said::Accepted(tasks) => {
                    let ids = tasks.into_iter().filter_map(|id| TaskId::parse(id).ok());
                    Said::Accepted(ids.collect())
                }
                said @ job::Said::Status { .. } => match self.status(at, said) {
                    Some(status) => Said::Status(Box::new(status)),
                    None => continue,
                },
            };
            words.push(Word { number, said });
        }
        failpoint::pass("words are read");
        if !words.is_empty() {
            self.events.send(TaskEvent::Heard(self.name.clone(), words)).await;
        }
        let is_over = is_last || failure.is_some();
        if let Some(reason) = failure {
            self.events.send(TaskEvent::LaunchFailed(self.name.clone(), reason)).await;
        }
        is_over
    }

    fn status(&self, at: u64, said: job::Said) -> Option<TaskStatus> {
        let job::Said::Status { task_id, state, reason, message, pid, healthy, finding } = said
        else {
            return None;
        };
        let wire = v1::TaskStatus {
            container_status: Some(container_status(&self.row.container, &self.endpoint, pid)),
            check_status: finding.map(|finding| check_status(&finding)),
            ..Default::default()
        };
        Some(TaskStatus {
            task_id: TaskId::parse(task_id).ok()?,
            state,
            agent_id: None,
            executor_id: None,
            source: StatusSource::Executor,
            reason,
            message,
            uuid: None,
            at: Timestamp::from_nanos(at),
            unreachable_at: None,
            healthy,
            data: Opaque::default(),
            wire: Opaque::from(wire.encode_to_vec()),
        })
    }
}

/// Where a task runs, for service discovery.
pub(super) fn container_status(
    container: &str,
    endpoint: &str,
    pid: Option<u32>,
) -> v1::ContainerStatus {
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    let address =
        v1::network_info::IpAddress { ip_address: Some(host.to_owned()), ..Default::default() };
    v1::ContainerStatus {
        network_infos: vec![v1::NetworkInfo { ip_addresses: vec![address], ..Default::default() }],
        executor_pid: pid,
        container_id: Some(v1::ContainerId { value: container.to_owned(), parent: None }),
    }
}

fn check_status(finding: &Finding) -> v1::CheckStatusInfo {
    use v1::check_status_info::{Command, Http, Tcp};
    let of = |kind: v1::check_info::Type| v1::CheckStatusInfo {
        r#type: Some(kind.into()),
        ..Default::default()
    };
    match finding {
        Finding::Command(exit_code) => v1::CheckStatusInfo {
            command: Some(Command { exit_code: *exit_code }),
            ..of(v1::check_info::Type::Command)
        },
        Finding::Tcp(is_open) => v1::CheckStatusInfo {
            tcp: Some(Tcp { succeeded: Some(*is_open) }),
            ..of(v1::check_info::Type::Tcp)
        },
        Finding::Http(status_code) => v1::CheckStatusInfo {
            http: Some(Http { status_code: *status_code }),
            ..of(v1::check_info::Type::Http)
        },
    }
}

/// Makes the directory of the run and starts its supervisor, with the job on its way.
fn begin(run: &Path, program: &Program, job: Job) -> io::Result<(Child, UnixStream)> {
    use std::io::Write as _;
    use std::os::unix::fs::DirBuilderExt as _;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(run)?;
    failpoint::pass("the directory of a run is made");
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    let mut command = Command::new(&program.path);
    command.arg0("holdfast").args(&program.arguments).stdin(Stdio::from(OwnedFd::from(theirs)));
    command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(false);
    // Whatever the agent was started with is not for what outlives it. Its own files are marked
    // so already; the standard streams of the supervisor are made after that.
    close_fds::set_fds_cloexec_threadsafe(3, &[]);
    let child = command.spawn()?;
    failpoint::pass("a supervisor is started");
    ours.write_all(&framed(&JobOrder::Begin(Box::new(job)))?)?;
    ours.set_nonblocking(true)?;
    Ok((child, UnixStream::from_std(ours)?))
}

/// Whether the process that wrote the proof is still that process.
fn claim_stands(proof: &job::Proof) -> bool {
    process::started(proof.pid) == Some(proof.started)
}

/// A proof that names nobody here.
fn proof_of_another_boot() -> job::Proof {
    job::Proof { version: 0, pid: 0, started: 0, boot_id: String::new() }
}

/// The socket of a supervisor; none when it has just ended. The path may be longer than a
/// socket's address: it is reached through the descriptor of its directory.
fn open(run: &Path) -> io::Result<Option<std::os::unix::net::UnixStream>> {
    let directory = std::fs::File::open(run)?;
    let path = format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd());
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => {
            debug!(%error, run = %run.display(), "no supervisor answers");
            Ok(None)
        }
    }
}

/// Kills a supervisor that does not answer, and what one started that is no more. Its number
/// may be another process' by now, which then leads a session of its own.
fn end_session(supervisor: u32, started: Option<u64>) {
    let found = process::started(supervisor);
    if found.is_some() && found != started {
        return;
    }
    let members = || {
        let mut all = process::processes();
        all.retain(|pid| process::session(*pid) == Some(supervisor));
        all
    };
    process::kill_until_gone(members, || ());
}

/// Does something that may wait for long on a thread of its own, which the end of the runtime
/// does not wait for. False when it panicked.
async fn apart(work: impl FnOnce() + Send + 'static) -> bool {
    let (done_tx, done) = oneshot::channel();
    let spawned = std::thread::Builder::new().spawn(move || {
        work();
        // An error means that the agent ends.
        let _unheard = done_tx.send(());
    });
    spawned.is_ok() && done.await.is_ok()
}
