//! An agent whose shell runs in the test: every action is done on a real file system, and the
//! process can be killed at any failpoint.

mod mounted;
mod orders;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use tempfile::TempDir;

use resources::collection::Resources;
use resources::id::{AgentId, ClusterId, Incarnation, Seq, Term};
use resources::message::{AgentMessage, Fence, MasterMessage, Order, Registration};
use resources::operation::Operation;

pub(crate) use self::mounted::{Mounted, mount_at, unmount};
use crate::RunError;
use crate::config::{Config, Flags};
use crate::core::event::{Action, Event, VolumeStep};
use crate::core::tasks::event::{Found, Run, Start, TaskEvent};
use crate::driver::lookout;
use crate::failpoint;
use crate::recovery::{Recovered, recover};
use crate::runner::Program;
use crate::runner::job::{Claim, Proof};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    flags: Flags,
}

/// File of the work directory with the names of tasks that were started.
pub(crate) const STARTED: &str = "started";

/// Settings of an agent on `work_dir`.
pub(crate) fn config(work_dir: &Path, more: &[&str]) -> Config {
    let work_dir = work_dir.to_str().unwrap();
    let base = ["agent", "--master", "127.0.0.1:1", "--work-dir", work_dir, "--listen"];
    let boot: &[&str] = if more.contains(&"--boot-id") { &[] } else { &["--boot-id", "b1"] };
    let base = base.into_iter().chain(["127.0.0.1:0"]).chain(boot.iter().copied());
    let cli = Cli::try_parse_from(base.chain(more.iter().copied())).unwrap();
    cli.flags.into_config().unwrap()
}

/// A supervisor out of this test's own program: see `tests/supervised.rs`.
pub(crate) fn program() -> Program {
    let path = std::env::current_exe().unwrap();
    let arguments = ["tests::supervised::supervisor_process", "--exact", "--nocapture"];
    let arguments = arguments.into_iter().chain(["--test-threads", "1"]).map(str::to_owned);
    Program { path, arguments: arguments.collect() }
}

/// A folder in memory where there is one: the tests are about order, and not about the disk.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// A kind of disk to put volumes on.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Root,
    Path(PathBuf),
    Mount(PathBuf),
}

/// A work directory with the flags that agents on it start with.
pub(crate) struct Rig {
    pub(crate) folder: TempDir,
    pub(crate) kind: Kind,
    pub(crate) flags: Vec<String>,
    next_seq: u64,
}

impl Rig {
    /// An agent with 1,000 MB of this disk; a MOUNT has 64 MB.
    pub(crate) fn new(kind: Kind) -> Self {
        let disk = |mb: u32, source: String| {
            format!(
                r#"[{{"name":"cpus","type":"SCALAR","scalar":{{"value":4}}}},
                {{"name":"mem","type":"SCALAR","scalar":{{"value":64}}}},
                {{"name":"disk","type":"SCALAR","scalar":{{"value":{mb}}}{source}}}]"#
            )
        };
        let resources = match &kind {
            Kind::Root => disk(1_000, String::new()),
            Kind::Path(root) => {
                let source = r#","disk":{"source":{"type":"PATH","path":{"root":"ROOT"}}}"#;
                disk(1_000, source.replace("ROOT", root.to_str().unwrap()))
            }
            Kind::Mount(root) => {
                let source = r#","disk":{"source":{"type":"MOUNT","mount":{"root":"ROOT"}}}"#;
                disk(64, source.replace("ROOT", root.to_str().unwrap()))
            }
        };
        let flags = vec!["--resources".to_owned(), resources];
        Self { folder: folder(), kind, flags, next_seq: 1 }
    }

    pub(crate) fn work_dir(&self) -> &Path {
        self.folder.path()
    }
    pub(crate) fn checkpoint(&self) -> PathBuf {
        self.work_dir().join("meta/agent.redb")
    }
    pub(crate) fn config(&self, more: &[&str]) -> Config {
        let flags = self.flags.iter().map(String::as_str).chain(more.iter().copied());
        config(self.work_dir(), &flags.collect::<Vec<_>>())
    }
    pub(crate) fn start(&self) -> Agent {
        Agent::try_start(&self.config(&[])).unwrap()
    }
    /// The one line of a start that is refused.
    pub(crate) fn refusal(&self, more: &[&str]) -> String {
        one_line(&Agent::try_start(&self.config(more)).expect_err("the start is refused"))
    }
    /// Where a volume is.
    pub(crate) fn directory(&self, id: &str) -> PathBuf {
        match &self.kind {
            Kind::Root => self.work_dir().join("volumes/roles/ads").join(id),
            Kind::Path(root) => root.join("volumes/roles/ads").join(id),
            Kind::Mount(root) => root.clone(),
        }
    }
    /// Entries of the trash of every agent at the disk's root.
    pub(crate) fn trash(&self) -> usize {
        let root = match &self.kind {
            Kind::Root => self.work_dir(),
            Kind::Path(root) | Kind::Mount(root) => root,
        };
        let entries = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
        entries(root.join(".trash")).map(|own| entries(own.path()).count()).sum()
    }

    /// Runs one life of the agent, which may be killed at its step number `fuel`: then none.
    pub(crate) fn live<T>(
        &self,
        fuel: usize,
        places: &mut BTreeSet<&'static str>,
        life: impl FnOnce(&mut Agent) -> T,
    ) -> Option<T> {
        let (file, image) = (self.checkpoint(), self.work_dir().join("killed"));
        let on_death = {
            let (file, image) = (file.clone(), image.clone());
            move || {
                if file.exists() {
                    std::fs::copy(&file, &image).unwrap();
                }
            }
        };
        let config = self.config(&[]);
        let end = failpoint::run(fuel, places, on_death, || {
            life(&mut Agent::try_start(&config).unwrap())
        });
        // The store closed its file in order as it was dropped, which no killed process does.
        if image.exists() {
            std::fs::rename(&image, &file).unwrap();
        }
        end
    }
}

/// A refusal is one line, and its cause is not hidden.
pub(crate) fn one_line(error: &RunError) -> String {
    let text = error.to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

/// A live agent.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) recovered: Recovered,
    pub(crate) sent: Vec<AgentMessage>,
    /// Why it ended.
    pub(crate) exit: Option<String>,
    /// It dies before it would start anything.
    starts_nothing: bool,
}

impl Agent {
    pub(crate) fn try_start(config: &Config) -> Result<Self, RunError> {
        let mut agent = Self {
            recovered: recover(config)?,
            sent: Vec::new(),
            exit: None,
            starts_nothing: false,
        };
        agent.step(Event::Started);
        Ok(agent)
    }

    pub(crate) fn step(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.recovered.core.step(event) {
                failpoint::pass("the next action");
                match action {
                    Action::Checkpoint(writes) => {
                        self.recovered.checkpoint.commit(&writes).unwrap();
                    }
                    Action::Volumes(VolumeStep::Create { seq, volumes }) => {
                        let made = self.recovered.volumes.create(&volumes);
                        failpoint::pass("the volumes are made");
                        events.push(Event::VolumesMade(seq, made));
                    }
                    Action::Volumes(VolumeStep::Destroy { seq, volumes }) => {
                        self.recovered.volumes.destroy(seq, &volumes).unwrap();
                        failpoint::pass("the volumes are out of the way");
                        events.push(Event::VolumesRemoved(seq));
                    }
                    Action::EmptyTrash(upto) => self.recovered.volumes.empty_trash(upto),
                    Action::Send(message) => self.sent.push(message),
                    Action::Exit(reason) => self.exit = Some(reason),
                    Action::Run(Run::Launch(start)) => self.pretend_to_start(&start),
                    Action::Run(Run::Find(name, row, _)) => {
                        let work_dir = &self.recovered.site.work_dir;
                        let run = crate::runner::plan::run_directory(work_dir, &row.container);
                        let found = match Claim::settle(&run).unwrap() {
                            Claim::Supervisor(_) => Found::Alive,
                            Claim::Void => Found::NeverStarted,
                        };
                        failpoint::pass("an executor is looked for");
                        events.push(Event::Tasks(vec![TaskEvent::Found(name, found)]));
                    }
                    _ => {}
                }
            }
        }
    }

    /// What a supervisor does before its task begins. The tasks themselves are names in a file.
    fn pretend_to_start(&mut self, start: &Start) {
        if self.starts_nothing {
            return;
        }
        let work_dir = &self.recovered.site.work_dir;
        let run = crate::runner::plan::run_directory(work_dir, &start.row.container);
        std::fs::create_dir_all(&run).unwrap();
        failpoint::pass("the directory of a run is made");
        let proof = Proof { version: 1, pid: 1, started: 1, boot_id: "b1".to_owned() };
        if !Claim::stake(&run, &proof).unwrap() {
            return;
        }
        failpoint::pass("the proof is there");
        let mut started = std::fs::File::options()
            .create(true)
            .append(true)
            .open(work_dir.join(STARTED))
            .unwrap();
        for task in &start.tasks {
            std::io::Write::write_all(&mut started, format!("{}\n", task.task_id).as_bytes())
                .unwrap();
        }
    }

    /// A launch whose supervisor is never started.
    pub(crate) fn launch_without_runner(&mut self, order: Order) {
        self.register();
        self.describe(std::slice::from_ref(&order));
        self.starts_nothing = true;
        self.receive(MasterMessage::Orders(vec![order]));
    }

    fn describe(&mut self, orders: &[Order]) {
        for order in orders {
            if let Operation::Launch(launch) = &order.operation {
                let facts = crate::runner::plan::facts(launch);
                self.step(Event::Tasks(vec![TaskEvent::LaunchDescribed(order.seq, facts)]));
            }
        }
    }

    pub(crate) fn receive_from(&mut self, cluster: &str, message: MasterMessage) {
        let cluster_id = ClusterId::parse(cluster).unwrap();
        let fence = Fence { cluster_id, incarnation: Incarnation(0), term: Term(1) };
        self.step(Event::Received(fence, message));
    }
    pub(crate) fn receive(&mut self, message: MasterMessage) {
        self.receive_from("c", message);
    }
    pub(crate) fn register(&mut self) {
        self.step(Event::Opened);
        self.receive(MasterMessage::Welcome {
            agent_id: AgentId::parse("S0").unwrap(),
            ping_interval: Duration::from_secs(15),
            pings_missed_max: 5,
        });
    }
    /// Registers, and gets in batches every order that it does not have.
    pub(crate) fn serve(&mut self, batches: &[Vec<Order>]) {
        self.register();
        for batch in batches {
            let applied = self.applied();
            let missing: Vec<Order> = batch.iter().filter(|o| o.seq > applied).cloned().collect();
            if !missing.is_empty() {
                self.describe(&missing);
                self.receive(MasterMessage::Orders(missing));
            }
        }
        assert_eq!(self.exit, None);
    }

    /// Looks again whether the volumes are where they were made.
    pub(crate) fn look_again(&mut self) {
        let volumes = self.recovered.volumes.clone();
        let made = self.recovered.core.made_volumes();
        let looks = made.iter().filter_map(|made| lookout::look(&volumes, made)).collect();
        self.step(Event::Looked(looks));
    }
    pub(crate) fn total(&self) -> &Resources {
        self.recovered.core.total()
    }
    pub(crate) fn applied(&self) -> Seq {
        self.recovered.core.applied_seq()
    }
    /// Reasons of volumes that cannot be used.
    pub(crate) fn unavailable(&self) -> Vec<String> {
        self.recovered.core.unavailable().map(|found| found.reason.clone()).collect()
    }
    /// Failures that no master has acknowledged.
    pub(crate) fn failures(&self) -> Vec<String> {
        let ended = self.recovered.core.ended();
        let failed = ended.filter_map(|ended| match &ended.settled.outcome {
            resources::message::Outcome::Finished => None,
            resources::message::Outcome::Failed { reason } => Some(reason.clone()),
        });
        failed.collect()
    }
    /// What it said of itself at the last registration.
    pub(crate) fn registration(&self) -> &Registration {
        let registrations = self.sent.iter().rev().filter_map(|message| match message {
            AgentMessage::Register(registration) => Some(registration),
            _ => None,
        });
        registrations.into_iter().next().expect("the agent has registered")
    }
}

/// Every file below a folder with its bytes, and every directory.
pub(crate) fn image(folder: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut image = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                folders.push(path.clone());
                image.push((path, None));
            } else {
                let bytes = std::fs::read(&path).unwrap_or_default();
                image.push((path, Some(bytes)));
            }
        }
    }
    image.sort();
    image
}
