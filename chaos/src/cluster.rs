//! A local cluster on disk: `cluster.json`, the processes it names, their end and their new start.
//! A pid counts only if its start time and arguments match, so that nobody else's process is ever
//! signalled. Must not know what a reservation is. Next: `client.rs`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use crate::process::{self, Signal};
use crate::wait;

/// File that names the processes. Its layout is part of the contract.
const CLUSTER_FILE: &str = "cluster.json";

/// File beside it: start time by pid, in the kernel's clock ticks.
const STARTED_FILE: &str = "started.json";

/// Time a process gets to end after each signal; an agent ends its tasks in it.
const END_DEADLINE: Duration = Duration::from_secs(15);

/// `cluster.json`: the processes of a local cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The masters, by rising id.
    pub masters: Vec<MasterEntry>,
    /// The agents.
    pub agents: Vec<AgentEntry>,
}

/// One master process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MasterEntry {
    /// Its number.
    pub id: u64,
    /// Public address, `host:port`.
    pub http: String,
    /// Address of its Raft listener.
    pub peer: String,
    /// Last known process id; 0 before the first start.
    pub pid: u32,
    /// Data directory.
    pub work_dir: String,
    /// Log file.
    pub log: String,
    /// Program and arguments.
    pub argv: Vec<String>,
}

/// One agent process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentEntry {
    /// Its name in this file only.
    pub name: String,
    /// Public address, `host:port`.
    pub http: String,
    /// Last known process id; 0 before the first start.
    pub pid: u32,
    /// Work directory.
    pub work_dir: String,
    /// Log file.
    pub log: String,
    /// Program and arguments.
    pub argv: Vec<String>,
}

/// Names one process of a cluster by its place in the [`Layout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    /// The n-th master of the list.
    Master(usize),
    /// The n-th agent of the list.
    Agent(usize),
}

/// A local cluster. Processes started through it outlive it.
#[derive(Debug)]
pub struct Cluster {
    dir: PathBuf,
    layout: Layout,
    started: BTreeMap<u32, u64>,
    children: Vec<Child>,
}

impl Cluster {
    /// A new cluster in `dir`, nothing of it started.
    #[must_use]
    pub fn new(dir: PathBuf, layout: Layout) -> Self {
        Self { dir, layout, started: BTreeMap::new(), children: Vec::new() }
    }

    /// Whether `dir` holds a cluster.
    #[must_use]
    pub fn exists(dir: &Path) -> bool {
        dir.join(CLUSTER_FILE).exists()
    }

    /// Reads the cluster of `dir`.
    ///
    /// # Errors
    /// When there is none, or its file cannot be read.
    pub fn open(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join(CLUSTER_FILE);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("no cluster in {}", dir.display()))?;
        let layout = serde_json::from_str(&text)
            .with_context(|| format!("{} is not readable", path.display()))?;
        // A missing or torn file of start times only makes the check by arguments stand alone.
        let started = fs::read_to_string(dir.join(STARTED_FILE))
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        Ok(Self { dir: dir.to_owned(), layout, started, children: Vec::new() })
    }

    /// Directory of the cluster.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The processes as `cluster.json` names them.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Every process, masters first.
    pub fn members(&self) -> impl Iterator<Item = Member> + use<> {
        let (masters, agents) = (self.layout.masters.len(), self.layout.agents.len());
        (0..masters).map(Member::Master).chain((0..agents).map(Member::Agent))
    }

    /// Public addresses of all masters.
    #[must_use]
    pub fn masters(&self) -> Vec<String> {
        self.layout.masters.iter().map(|master| master.http.clone()).collect()
    }

    /// How the process is called in messages: `master 1`, `agent1`.
    #[must_use]
    pub fn name(&self, member: Member) -> String {
        match member {
            Member::Master(place) => format!("master {}", self.layout.masters[place].id),
            Member::Agent(place) => self.layout.agents[place].name.clone(),
        }
    }

    /// Last known process id.
    #[must_use]
    pub fn pid(&self, member: Member) -> u32 {
        match member {
            Member::Master(place) => self.layout.masters[place].pid,
            Member::Agent(place) => self.layout.agents[place].pid,
        }
    }

    /// Program and arguments.
    #[must_use]
    pub fn argv(&self, member: Member) -> &[String] {
        match member {
            Member::Master(place) => &self.layout.masters[place].argv,
            Member::Agent(place) => &self.layout.agents[place].argv,
        }
    }

    /// Log file.
    #[must_use]
    pub fn log(&self, member: Member) -> &Path {
        match member {
            Member::Master(place) => Path::new(&self.layout.masters[place].log),
            Member::Agent(place) => Path::new(&self.layout.agents[place].log),
        }
    }

    /// Addresses the process listens on.
    #[must_use]
    pub fn listens(&self, member: Member) -> Vec<&str> {
        match member {
            Member::Master(place) => {
                let master = &self.layout.masters[place];
                vec![&master.http, &master.peer]
            }
            Member::Agent(place) => vec![&self.layout.agents[place].http],
        }
    }

    /// Makes `program` the one that later starts run, arguments unchanged.
    pub fn set_program(&mut self, member: Member, program: &str) {
        let argv = match member {
            Member::Master(place) => &mut self.layout.masters[place].argv,
            Member::Agent(place) => &mut self.layout.agents[place].argv,
        };
        if let Some(first) = argv.first_mut() {
            program.clone_into(first);
        }
    }

    /// Makes `--name=value` a flag of later starts, in place of the one of that name.
    pub fn set_flag(&mut self, member: Member, name: &str, value: &str) {
        let argv = match member {
            Member::Master(place) => &mut self.layout.masters[place].argv,
            Member::Agent(place) => &mut self.layout.agents[place].argv,
        };
        let prefix = format!("--{name}=");
        argv.retain(|argument| !argument.starts_with(&prefix));
        argv.push(format!("{prefix}{value}"));
    }

    /// Adds an agent to the list, and gives its place.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add_agent(&mut self, agent: AgentEntry) -> anyhow::Result<usize> {
        self.layout.agents.push(agent);
        self.save()?;
        Ok(self.layout.agents.len() - 1)
    }

    /// Takes the last agent off the list again.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn remove_last_agent(&mut self) -> anyhow::Result<()> {
        self.layout.agents.pop();
        self.save()
    }

    /// Status with which the process ended; none while it runs, or when another process than
    /// this one started it.
    pub fn exit_code(&mut self, member: Member) -> Option<i32> {
        let pid = self.pid(member);
        let child = self.children.iter_mut().find(|child| child.id() == pid)?;
        child.try_wait().ok().flatten()?.code()
    }

    /// Whether the process that `cluster.json` names still runs. A pid that the kernel has given
    /// to another process does not count.
    #[must_use]
    pub fn is_alive(&self, member: Member) -> bool {
        let pid = self.pid(member);
        let Some(started) = process::started(pid) else { return false };
        let known = self.started.get(&pid);
        let arguments = process::arguments(pid);
        // Somebody who starts a process by hand writes its pid only: then the arguments decide.
        // One that is ending has lost its arguments already: then the start time does.
        let is_ending = arguments.is_empty() && known.is_some();
        known.is_none_or(|known| *known == started) && (is_ending || arguments == self.argv(member))
    }

    /// Starts the process with its stored arguments and writes its pid back.
    ///
    /// # Errors
    /// When it cannot be started, or the file cannot be written.
    pub fn start(&mut self, member: Member) -> anyhow::Result<()> {
        self.start_under(member, &[])
    }

    /// The same by a program that turns into the process with these arguments, such as `nsenter`.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_under(&mut self, member: Member, wrapper: &[String]) -> anyhow::Result<()> {
        let name = self.name(member);
        let argv = [wrapper, self.argv(member)].concat();
        let child = process::spawn(&argv, self.log(member))
            .with_context(|| format!("{name} cannot be started"))?;
        let pid = child.id();
        self.children.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        self.children.push(child);
        match member {
            Member::Master(place) => self.layout.masters[place].pid = pid,
            Member::Agent(place) => self.layout.agents[place].pid = pid,
        }
        if let Some(started) = process::started(pid) {
            self.started.insert(pid, started);
        }
        self.save()
    }

    /// Sends `signal` if the process still runs.
    ///
    /// # Errors
    /// When the signal may not be sent.
    pub fn signal(&self, member: Member, signal: Signal) -> anyhow::Result<()> {
        if self.is_alive(member) {
            process::signal(self.pid(member), signal)
                .with_context(|| format!("{} cannot be signalled", self.name(member)))?;
        }
        Ok(())
    }

    /// Waits until none of `members` runs.
    ///
    /// # Errors
    /// When one still runs after the deadline.
    pub async fn ended(&self, members: &[Member], deadline: Duration) -> anyhow::Result<()> {
        wait::until("processes end", deadline, async || {
            match members.iter().find(|member| self.is_alive(**member)) {
                Some(member) => Err(format!("{} runs", self.name(*member))),
                None => Ok(()),
            }
        })
        .await
    }

    /// Ends `members`: SIGTERM, and SIGKILL for those that do not obey.
    ///
    /// # Errors
    /// When one cannot be signalled, or survives both.
    pub async fn stop_members(&self, members: &[Member]) -> anyhow::Result<()> {
        self.end(members, &[Signal::TERM, Signal::KILL]).await
    }

    /// Ends `members` by one signal after the other, for as long as any of them runs.
    ///
    /// # Errors
    /// When one cannot be signalled, or survives all.
    pub async fn end(&self, members: &[Member], signals: &[Signal]) -> anyhow::Result<()> {
        for signal in signals.iter().copied() {
            for member in members {
                self.signal(*member, signal)?;
            }
            if self.ended(members, END_DEADLINE).await.is_ok() {
                return Ok(());
            }
        }
        bail!("a process of {} cannot be ended", self.dir.display())
    }

    /// Writes both files, each in one step: a reader never sees half of one.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn save(&mut self) -> anyhow::Result<()> {
        let pids: Vec<u32> = self.members().map(|member| self.pid(member)).collect();
        self.started.retain(|pid, _| pids.contains(pid));
        replace(&self.dir.join(STARTED_FILE), &serde_json::to_vec_pretty(&self.started)?)?;
        replace(&self.dir.join(CLUSTER_FILE), &serde_json::to_vec_pretty(&self.layout)?)
    }
}

fn replace(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().with_context(|| format!("{} cannot be written", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_replace_their_like() {
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = cluster(folder.path());
        for boot in ["a", "b"] {
            cluster.set_flag(Member::Agent(0), "boot-id", boot);
        }
        assert_eq!(cluster.argv(Member::Agent(0)), ["sleep", "60", "--boot-id=b"]);
    }

    fn cluster(dir: &Path) -> Cluster {
        let argv = ["sleep", "60"].map(str::to_owned).to_vec();
        let agent = AgentEntry {
            name: "agent1".into(),
            http: "127.0.0.1:1".into(),
            pid: 0,
            work_dir: dir.join("agent1").display().to_string(),
            log: dir.join("agent1.log").display().to_string(),
            argv,
        };
        Cluster::new(dir.to_owned(), Layout { masters: Vec::new(), agents: vec![agent] })
    }

    #[tokio::test]
    async fn starts_finds_again_and_stops() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = cluster(folder.path());
        assert!(!first.is_alive(Member::Agent(0)));
        first.start(Member::Agent(0)).unwrap();

        let again = Cluster::open(folder.path()).unwrap();
        assert_eq!(again.layout(), first.layout());
        wait::until("runs", END_DEADLINE, async || {
            again.is_alive(Member::Agent(0)).then_some(()).ok_or_else(|| "exec".to_owned())
        })
        .await
        .unwrap();
        again.stop_members(&[Member::Agent(0)]).await.unwrap();
        assert!(!again.is_alive(Member::Agent(0)));
    }

    #[test]
    fn another_process_under_the_same_pid_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = cluster(folder.path());
        cluster.layout.agents[0].pid = std::process::id();
        assert!(!cluster.is_alive(Member::Agent(0)), "other arguments");
        cluster.layout.agents[0].argv = process::arguments(std::process::id());
        assert!(cluster.is_alive(Member::Agent(0)), "the same arguments, start time not recorded");
        cluster.started.insert(std::process::id(), 1);
        assert!(!cluster.is_alive(Member::Agent(0)), "started at another time");
    }

    #[test]
    fn layout_is_the_contract() {
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = cluster(folder.path());
        cluster.layout.masters.push(MasterEntry {
            id: 1,
            http: "127.0.0.1:5050".into(),
            peer: "127.0.0.1:6050".into(),
            pid: 7,
            work_dir: "w".into(),
            log: "l".into(),
            argv: vec!["a".into()],
        });
        let value = serde_json::to_value(&cluster.layout.masters[0]).unwrap();
        assert_eq!(
            value,
            serde_json::json!({"id": 1, "http": "127.0.0.1:5050", "peer": "127.0.0.1:6050",
                "pid": 7, "work_dir": "w", "log": "l", "argv": ["a"]})
        );
    }
}
