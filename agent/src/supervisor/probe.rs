//! Checks of a task: when each is due, and what its findings mean. Probes of ports run in threads
//! of their own, and probes by command are processes as all others are.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::Input;
use super::process::{Exit, signal_group, start_probe};
use super::sandbox::User;
use crate::runner::job::{CheckPlan, Finding, Probe, TaskPlan};

/// Statuses of a page that are well when none are named.
const WELL: std::ops::Range<u32> = 200..400;

/// The checks of one task.
pub(super) struct Probes {
    checks: Vec<Check>,
}

struct Check {
    plan: CheckPlan,
    /// When it is looked at next, or when the look that is under way has failed.
    due: Option<Instant>,
    /// The command that is looking.
    pid: Option<u32>,
    is_looking: bool,
    since: Option<Instant>,
    failures: u32,
    last: Option<Finding>,
    is_healthy: Option<bool>,
}

/// What a finding means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A check found something else than before.
    Found(Finding),
    /// The health changed, or failed once more.
    Healthy(bool),
    /// It failed too often.
    Unfit,
}

impl Probes {
    pub(super) fn new(plans: &[CheckPlan]) -> Self {
        let check = |plan: &CheckPlan| Check {
            plan: plan.clone(),
            due: None,
            pid: None,
            is_looking: false,
            since: None,
            failures: 0,
            last: None,
            is_healthy: None,
        };
        Self { checks: plans.iter().map(check).collect() }
    }

    pub(super) fn start(&mut self, now: Instant) {
        for check in &mut self.checks {
            check.since = Some(now);
            check.due = now.checked_add(check.plan.delay);
        }
    }

    pub(super) fn stop(&mut self) {
        for check in &mut self.checks {
            check.due = None;
            if let Some(pid) = check.pid {
                signal_group(pid, Signal::KILL);
            }
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.checks.iter().filter_map(|check| check.due).min()
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.checks.iter().filter_map(|check| check.pid)
    }

    /// Whether the task is well, if anybody looks.
    pub(super) fn health(&self) -> Option<bool> {
        self.checks.iter().find_map(|check| check.is_healthy)
    }

    /// Begins every look that is due, and ends every one that takes too long.
    pub(super) fn look(
        &mut self,
        task: usize,
        plan: &TaskPlan,
        user: Option<User>,
        now: Instant,
        inputs: &Sender<Input>,
    ) {
        for (number, check) in self.checks.iter_mut().enumerate() {
            if check.due.is_none_or(|due| due > now) {
                continue;
            }
            if check.is_looking {
                // A command is killed, and its end is the finding; a thread ends by itself.
                check.due = None;
                if let Some(pid) = check.pid {
                    signal_group(pid, Signal::KILL);
                }
                continue;
            }
            check.is_looking = true;
            check.due = now.checked_add(check.plan.timeout);
            match &check.plan.probe {
                Probe::Command(program, environment) => {
                    let directory = &plan.process.directory;
                    let begun = start_probe(program, environment, directory, user, inputs);
                    check.pid = begun.ok();
                    if check.pid.is_none() {
                        found(inputs, task, number, Finding::Command(None));
                    }
                }
                Probe::Tcp(_) | Probe::Http { .. } => {
                    let (probe, timeout) = (check.plan.probe.clone(), check.plan.timeout);
                    let inputs = inputs.clone();
                    thread::spawn(move || {
                        found(&inputs, task, number, of_port(&probe, timeout));
                    });
                }
            }
        }
    }

    /// The command of a probe has ended.
    pub(super) fn exited(&mut self, exit: &Exit) -> Option<(usize, Finding)> {
        let number = self.checks.iter().position(|check| check.pid == Some(exit.pid))?;
        self.checks[number].pid = None;
        let code = (exit.status & 0x7f == 0).then_some((exit.status >> 8) & 0xff);
        Some((number, Finding::Command(code)))
    }

    /// What a finding means; nothing if it is as before.
    pub(super) fn judge(
        &mut self,
        number: usize,
        finding: Finding,
        now: Instant,
    ) -> Option<Verdict> {
        let check = &mut self.checks[number];
        check.is_looking = false;
        check.due = now.checked_add(check.plan.interval);
        let Some(health) = &check.plan.health else {
            let is_new = check.last.as_ref() != Some(&finding);
            check.last = Some(finding.clone());
            return is_new.then_some(Verdict::Found(finding));
        };
        if is_well(&check.plan.probe, &finding) {
            check.failures = 0;
            let was = check.is_healthy.replace(true);
            return (was != Some(true)).then_some(Verdict::Healthy(true));
        }
        let age = check.since.map(|since| now.saturating_duration_since(since));
        if check.is_healthy.is_none() && age.is_some_and(|age| age < health.grace) {
            return None;
        }
        check.failures += 1;
        check.is_healthy = Some(false);
        if health.failures_max > 0 && check.failures >= health.failures_max {
            return Some(Verdict::Unfit);
        }
        Some(Verdict::Healthy(false))
    }
}

fn found(inputs: &Sender<Input>, task: usize, check: usize, finding: Finding) {
    // An error means that the supervisor is at its end.
    let _ended = inputs.send(Input::Found { task, check, finding });
}

fn is_well(probe: &Probe, finding: &Finding) -> bool {
    match finding {
        Finding::Command(code) => *code == Some(0),
        Finding::Tcp(is_open) => *is_open,
        Finding::Http(None) => false,
        Finding::Http(Some(status)) => match probe {
            Probe::Http { statuses, .. } if !statuses.is_empty() => statuses.contains(status),
            _ => WELL.contains(status),
        },
    }
}

fn of_port(probe: &Probe, timeout: Duration) -> Finding {
    match probe {
        Probe::Command(..) => Finding::Command(None),
        Probe::Tcp(port) => Finding::Tcp(connect(*port, timeout).is_ok()),
        Probe::Http { port, path, .. } => Finding::Http(status_of(*port, path, timeout).ok()),
    }
}

fn connect(port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    // A time of zero is refused by the library.
    TcpStream::connect_timeout(&address, timeout.max(Duration::from_millis(1)))
}

/// Status of a page: the first line of the answer is all that counts.
fn status_of(port: u16, path: &str, timeout: Duration) -> io::Result<u32> {
    let mut stream = connect(port, timeout)?;
    stream.set_read_timeout(Some(timeout.max(Duration::from_millis(1))))?;
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let path = path.replace(['\r', '\n', ' '], "");
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
    status.ok_or_else(|| io::Error::other("no HTTP answer"))
}
