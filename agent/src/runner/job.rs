//! What an agent and the supervisor of an executor tell each other, and the files of one run of
//! an executor. Both ends may be of different versions of this program: fields are only added,
//! each with a default. Must not know cores or processes. Next: `runner/plan.rs`.
//!
//! Files in `<work dir>/meta/runs/<container>/`:
//!
//! | file | what |
//! |---|---|
//! | `proof` | who the supervisor is, before anything starts; or `void`, by an agent |
//! | `words` | what the supervisor says, from number 1: length (4 bytes, big end first), record |
//! | `s` | socket: the agent sends orders, the supervisor one byte per new words |
//!
//! `proof` is made once and under its name only when it is durable: whoever comes second, the
//! supervisor or the agent, sees that the other was first. Records and orders are MessagePack
//! with field names.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use resources::task::{StatusReason, TaskState};

/// Names of the files of a run.
pub(crate) const PROOF: &str = "proof";
pub(crate) const WORDS: &str = "words";
pub(crate) const SOCKET: &str = "s";
/// What stands in a proof that no supervisor wrote.
const VOID: &str = "void";
/// Longest frame, both ways: the plans of one group of tasks.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// From the agent to the supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum JobOrder {
    /// The first one.
    Begin(Box<Job>),
    /// One more group of tasks.
    Add(Vec<TaskPlan>),
    /// End a task, within the time given or that of its plan.
    Kill {
        /// Which.
        task_id: String,
        /// Until it is killed.
        grace: Option<Duration>,
    },
    /// End all tasks, each within its time, then itself.
    ShutDown,
    /// End everything at once, without a word on any task.
    Destroy,
}

/// What a supervisor is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Directory of the files above.
    pub(crate) run: PathBuf,
    /// Link that is to lead to the sandbox.
    pub(crate) latest: PathBuf,
    /// The executor's sandbox.
    pub(crate) sandbox: PathBuf,
    /// Boot of the machine.
    pub(crate) boot_id: String,
    /// A program that runs the tasks itself; none when the supervisor does.
    pub(crate) executor: Option<ProcessPlan>,
    /// The tasks to begin with.
    pub(crate) tasks: Vec<TaskPlan>,
}

/// A process to be run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProcessPlan {
    /// What is run.
    pub(crate) program: Program,
    /// Added to what the agent's own environment has.
    pub(crate) environment: BTreeMap<String, String>,
    /// Where it runs, and where `stdout` and `stderr` are.
    pub(crate) directory: PathBuf,
    /// Whom it runs as, where the supervisor may choose.
    pub(crate) user: Option<String>,
    /// What it finds below its directory.
    pub(crate) volumes: Vec<VolumePlan>,
    /// Files that it is given.
    pub(crate) files: Vec<FilePlan>,
}

/// The two forms of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Program {
    /// A line for the shell.
    Shell(String),
    /// A program with all of its arguments, the name that it is called by first.
    Exec(String, Vec<String>),
}

/// A directory at a place in the sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct VolumePlan {
    /// What is to be found there.
    pub(crate) source: PathBuf,
    /// Below the directory of the process.
    pub(crate) target: PathBuf,
    /// Whether it may only be read.
    pub(crate) is_read_only: bool,
    /// Whether the directory goes to the user of the process.
    pub(crate) changes_owner: bool,
}

/// A file that is copied into the sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FilePlan {
    /// From where.
    pub(crate) source: PathBuf,
    /// Its name there.
    pub(crate) name: String,
    /// Whether it is a program.
    pub(crate) is_executable: bool,
    /// Whether it is taken apart when it is an archive.
    pub(crate) is_extracted: bool,
}

/// A task that the supervisor runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskPlan {
    /// Its id.
    pub(crate) task_id: String,
    /// Its process.
    pub(crate) process: ProcessPlan,
    /// From the order to end until it is killed.
    pub(crate) kill_grace: Duration,
    /// Longest time that it may run.
    pub(crate) time_max: Option<Duration>,
    /// Whether its framework knows `TASK_KILLING`.
    pub(crate) says_killing: bool,
    /// Checks of it.
    #[serde(default)]
    pub(crate) checks: Vec<CheckPlan>,
}

/// Something that is looked at again and again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CheckPlan {
    /// How.
    pub(crate) probe: Probe,
    /// Until the first time.
    pub(crate) delay: Duration,
    /// From one time to the next.
    pub(crate) interval: Duration,
    /// Until it counts as failed.
    pub(crate) timeout: Duration,
    /// What its failure means; none for a check that is only reported.
    pub(crate) health: Option<HealthPlan>,
}

/// What a health check does to its task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HealthPlan {
    /// Failures in a row that end the task.
    pub(crate) failures_max: u32,
    /// Time from the start during which failures do not count.
    pub(crate) grace: Duration,
}

/// How a task is looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Probe {
    /// A command that ends with 0.
    Command(Program, BTreeMap<String, String>),
    /// A port that takes connections.
    Tcp(u16),
    /// A page that answers.
    Http {
        /// Where.
        port: u16,
        /// Its path.
        path: String,
        /// Statuses that are well; 200 to 399 when none are named.
        statuses: Vec<u32>,
    },
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Finding {
    /// Exit status of a command.
    Command(Option<i32>),
    /// Whether the port answered.
    Tcp(bool),
    /// Status of a page.
    Http(Option<u32>),
}

/// One record of the file `words`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Its number.
    pub(crate) number: u64,
    /// Wall time, nanoseconds since 1970.
    pub(crate) at: u64,
    /// What is said.
    pub(crate) said: Said,
}

/// What supervisors say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Said {
    /// These tasks have reached it.
    Accepted(Vec<String>),
    /// Where a task stands.
    Status {
        /// Which.
        task_id: String,
        /// Where.
        state: TaskState,
        /// Why.
        reason: Option<StatusReason>,
        /// The same in words.
        message: Option<String>,
        /// Its process, while it has one.
        pid: Option<u32>,
        /// Whether its health check passes.
        healthy: Option<bool>,
        /// What its check found.
        finding: Option<Finding>,
    },
    /// Nothing could be started, for this reason. The last word.
    Failed(String),
    /// It ended, with a status as `wait(2)` gives it. The last word.
    Ended(i32),
}

/// Who wrote a proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Proof {
    /// Version of this form.
    pub(crate) version: u32,
    /// The supervisor, and the session of all that it starts.
    pub(crate) pid: u32,
    /// When it was started, in ticks since the boot.
    pub(crate) started: u64,
    /// Boot of the machine.
    pub(crate) boot_id: String,
}

/// What a `proof` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A supervisor was first.
    Supervisor(Proof),
    /// An agent was first: nothing was started.
    Void,
}

impl Claim {
    /// Claims the run for this supervisor, durably; false when an agent has given it up.
    pub(crate) fn stake(run: &Path, proof: &Proof) -> io::Result<bool> {
        let text = serde_json::to_string(proof).map_err(io::Error::other)?;
        place(run, &text)
    }

    /// The claim on a run; gives the run up when there is none.
    pub(crate) fn settle(run: &Path) -> io::Result<Self> {
        fs::create_dir_all(run)?;
        match fs::read_to_string(run.join(PROOF)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if place(run, VOID)? {
                    return Ok(Self::Void);
                }
                Self::parse(&fs::read_to_string(run.join(PROOF))?)
            }
            text => Self::parse(&text?),
        }
    }

    fn parse(text: &str) -> io::Result<Self> {
        if text == VOID {
            return Ok(Self::Void);
        }
        serde_json::from_str(text).map(Self::Supervisor).map_err(io::Error::other)
    }
}

/// Writes the proof under another name, and links it: false when there is one.
fn place(run: &Path, text: &str) -> io::Result<bool> {
    let draft = run.join(format!("{PROOF}.{}", std::process::id()));
    let mut file = File::create(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, run.join(PROOF));
    fs::remove_file(&draft)?;
    match linked {
        Ok(()) => {
            File::open(run)?.sync_all()?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// A value with its length before it.
pub(crate) fn framed<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let body = rmp_serde::to_vec_named(value).map_err(io::Error::other)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// The next value of a stream; none at its end.
pub(crate) fn read_frame<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::other(format!("a frame of {length} bytes")));
    }
    let mut body = vec![0; length];
    match stream.read_exact(&mut body) {
        // A record that is being written.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    rmp_serde::from_slice(&body).map(Some).map_err(io::Error::other)
}

/// Records of a run beyond a number, as far as they are whole.
pub(crate) fn words_after(run: &Path, heard: u64) -> io::Result<Vec<Record>> {
    let mut file = match File::open(run.join(WORDS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => io::BufReader::new(file?),
    };
    let mut records = Vec::new();
    while let Some(record) = read_frame::<Record>(&mut file)? {
        if record.number > heard {
            records.push(record);
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_claim_counts() {
        let proof = Proof { version: 1, pid: 7, started: 8, boot_id: "b".to_owned() };
        let run = tempfile::tempdir().unwrap();
        assert!(Claim::stake(run.path(), &proof).unwrap());
        assert_eq!(Claim::settle(run.path()).unwrap(), Claim::Supervisor(proof.clone()));
        let run = tempfile::tempdir().unwrap();
        assert_eq!(Claim::settle(run.path()).unwrap(), Claim::Void);
        assert!(!Claim::stake(run.path(), &proof).unwrap());
        assert_eq!(Claim::settle(run.path()).unwrap(), Claim::Void);
        assert_eq!(fs::read_dir(run.path()).unwrap().count(), 1, "no draft stays");
    }

    #[test]
    fn half_a_record_is_none_yet() {
        let run = tempfile::tempdir().unwrap();
        let record = |number| Record { number, at: 5, said: Said::Ended(256) };
        let mut bytes = framed(&record(1)).unwrap();
        bytes.extend(framed(&record(2)).unwrap());
        for length in 0..=bytes.len() {
            fs::write(run.path().join(WORDS), &bytes[..length]).unwrap();
            let whole = words_after(run.path(), 0).unwrap();
            assert_eq!(whole.len(), 2 * length / bytes.len(), "{length}");
        }
        assert_eq!(words_after(run.path(), 1).unwrap(), [record(2)]);
    }
}
