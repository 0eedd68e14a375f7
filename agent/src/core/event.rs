//! What goes into and comes out of the agent's core: events report what happened, actions tell
//! the shell what to do, in this order. Must not know how any of it is done. Each has a
//! one-line `Display`, which logs and golden scripts share. Next: `carry.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::shown::Shown;
use super::tasks::TaskMemory;
use super::tasks::event::{Run, TaskEvent, TaskWrite};
use resources::id::{AgentId, OperationId, Seq, VolumeId};
use resources::message::{
    AgentInfo, AgentMessage, Fence, MasterMessage, Order, Outcome, Retry, Settled,
};
use resources::operation::Operation;
use resources::resource::Resource;
use resources::role::Role;

/// Something that happened to the agent.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// The checkpoint is read: finish what it says was begun.
    Started,
    /// A stream to a master is open.
    Opened,
    /// A message came in on the open stream.
    Received(Fence, MasterMessage),
    /// The stream ended.
    Closed,
    /// The directories of a CREATE were made, one marker a volume, or none of them was.
    VolumesMade(Seq, Result<Vec<Marker>, String>),
    /// The directories of a DESTROY are durably out of the way.
    VolumesRemoved(Seq),
    /// What there is of volumes by now.
    Looked(Vec<Look>),
    /// The agent leaves: it waits no longer for acknowledgements of what its tasks came to.
    Leave,
    /// What happened to executors and tasks, in this order.
    Tasks(Vec<TaskEvent>),
}

/// Something the shell has to do. The actions of one step are done in their order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Make all of these durable in one transaction before the next action.
    Checkpoint(Vec<Write>),
    /// Change volume directories, then report back with an event.
    Volumes(VolumeStep),
    /// Send on the open stream.
    Send(AgentMessage),
    /// Everything begun before the start is finished: sessions may be opened.
    Recovered,
    /// The master knows this agent.
    Registered {
        /// Its id.
        agent_id: AgentId,
        /// How often pings come.
        ping_interval: Duration,
        /// How many of them may be missing.
        pings_missed_max: u32,
    },
    /// Give the stream up and look for a master that fits.
    Close {
        /// For the log.
        reason: String,
        /// How soon.
        pause: Pause,
    },
    /// Remove what orders up to this one put into the trash, in the background.
    EmptyTrash(Seq),
    /// An operator must look: the cluster and this agent remember one number differently.
    Discrepancy {
        /// The number.
        seq: Seq,
        /// What this agent carried out under it.
        here: OperationId,
        /// What the master says it is.
        there: OperationId,
    },
    /// Something about executors.
    Run(Run),
    /// The agent was given up, for this reason: it ends when its tasks have.
    Doomed(String),
    /// The cluster knows that the agent leaves: the process may end.
    Left,
    /// End the process with this reason.
    Exit(String),
}

/// How long to stay away after a closed stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Another master may serve at once.
    Short,
    /// A rule refused the agent: only an operator changes that.
    Long,
    /// As long as the master said, at least.
    Told(Duration),
}

/// One row of the checkpoint to be written or removed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Write {
    /// The highest fence seen.
    Fence(Fence),
    /// The agent's name.
    AgentId(AgentId),
    /// Orders that are begun but not settled; replaces the ones before.
    Intents(Vec<Order>),
    /// What a batch changed in the total, entry by entry: however many reservations there are,
    /// only those that its orders touched.
    Entries {
        /// Entries that are no more.
        removed: Vec<Resource>,
        /// Entries as they are now, with their shares or copies.
        put: Vec<(Resource, u64)>,
    },
    /// How an order ended.
    Settle(Box<Ended>),
    /// Outcomes up to here are replicated.
    Forget(Seq),
    /// The last order carried out, and the last CREATE that failed.
    Applied {
        /// Last order carried out or failed.
        seq: Seq,
        /// Last CREATE that failed.
        failed: Seq,
    },
    /// A volume directory that this agent made.
    Volume(VolumeKey, VolumeRecord),
    /// The volume is gone.
    RemoveVolume(VolumeKey),
    /// Something about executors and tasks.
    Tasks(TaskWrite),
}

/// An order that is carried out, or failed, and whose outcome the master has not acknowledged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ended {
    /// How.
    pub(crate) settled: Settled,
    /// What it was; none where an older version of this program wrote the row.
    pub(crate) operation: Option<Operation>,
}

/// A volume whose directory cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unavailable {
    /// The volume.
    pub(crate) volume: Resource,
    /// What is wrong, for the operator.
    pub(crate) reason: String,
}

/// What there is of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// Which.
    pub(crate) key: VolumeKey,
    /// What it is known by.
    pub(crate) record: VolumeRecord,
    /// What is wrong with it.
    pub(crate) wrong: Option<String>,
}

/// What names a volume on one agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VolumeKey {
    /// Reservation role.
    pub(crate) role: Role,
    /// Persistence id.
    pub(crate) id: VolumeId,
}

impl VolumeKey {
    /// The key of a volume; none when the resource is no reserved volume.
    pub(crate) fn of(volume: &Resource) -> Option<Self> {
        let persistence = volume.disk.as_ref()?.persistence.as_ref()?;
        let role = &volume.reservations.last()?.role;
        Some(Self { role: role.clone(), id: persistence.id.clone() })
    }
}

/// Which directory on the file system a volume is. Stands in the checkpoint, never inside the
/// volume: users see an empty directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marker {
    /// Device number of the file system.
    pub(crate) device: u64,
    /// Inode number of the directory.
    pub(crate) inode: u64,
}

/// What the checkpoint says about one volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VolumeRecord {
    /// The order that created it.
    pub(crate) create_seq: Seq,
    /// Its directory.
    pub(crate) marker: Marker,
}

/// A change of volume directories, which belongs to one order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VolumeStep {
    /// Make the directories, all or none; existing content stays.
    Create {
        /// The order.
        seq: Seq,
        /// Its volumes.
        volumes: Vec<Resource>,
    },
    /// Move the directories out of the way; each only if it is the one that was made.
    Destroy {
        /// The order.
        seq: Seq,
        /// Its volumes, each with what the checkpoint knows of it.
        volumes: Vec<(Resource, Option<VolumeRecord>)>,
    },
}

/// What the checkpoint holds: all that the core needs to go on after a restart.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// Name given by the cluster.
    pub(crate) agent_id: Option<AgentId>,
    /// Highest fence seen.
    pub(crate) fence: Option<Fence>,
    /// Last order carried out or failed.
    pub(crate) applied_seq: Seq,
    /// Last CREATE that failed.
    pub(crate) failed_seq: Seq,
    /// Outcomes not acknowledged.
    pub(crate) settled: BTreeMap<Seq, Ended>,
    /// Orders begun but not settled.
    pub(crate) intents: Vec<Order>,
    /// Volumes made.
    pub(crate) volumes: BTreeMap<VolumeKey, VolumeRecord>,
    /// Executors and tasks.
    pub(crate) tasks: TaskMemory,
}

/// The directories of an order; none for orders that touch no directory.
pub(crate) fn touches_directories(operation: &Operation) -> bool {
    match operation {
        Operation::Create { .. } | Operation::Destroy { .. } => true,
        Operation::Reserve { .. }
        | Operation::Unreserve { .. }
        | Operation::Grow { .. }
        | Operation::Shrink { .. }
        | Operation::Launch(_) => false,
    }
}

/// Word for the kind of an operation, as in Mesos.
pub(crate) fn operation_name(operation: &Operation) -> &'static str {
    match operation {
        Operation::Reserve { .. } => "RESERVE",
        Operation::Unreserve { .. } => "UNRESERVE",
        Operation::Create { .. } => "CREATE",
        Operation::Destroy { .. } => "DESTROY",
        Operation::Grow { .. } => "GROW_VOLUME",
        Operation::Shrink { .. } => "SHRINK_VOLUME",
        Operation::Launch(launch) if launch.is_group => "LAUNCH_GROUP",
        Operation::Launch(_) => "LAUNCH",
    }
}

pub(super) fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join("; ") }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Finished => "FINISHED".to_owned(),
        Outcome::Failed { reason } => format!("FAILED({reason})"),
    }
}

pub(super) fn settled(settled: &Settled) -> String {
    format!("{}={}={}", settled.seq, settled.operation_id, outcome(&settled.outcome))
}

fn order(order: &Order) -> String {
    format!("{}={}={}", order.seq, order.operation_id, operation_name(&order.operation))
}

impl fmt::Display for VolumeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.role, self.id)
    }
}

impl fmt::Display for VolumeRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Marker { device, inode } = self.marker;
        write!(f, "made by {} as {device}:{inode}", self.create_seq)
    }
}

impl fmt::Display for VolumeStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { seq, volumes } => write!(f, "make {seq} [{}]", list(volumes)),
            Self::Destroy { seq, volumes } => {
                let volumes = volumes.iter().map(|(volume, record)| match record {
                    Some(record) => format!("{volume} {record}"),
                    None => format!("{volume} without a record"),
                });
                write!(f, "remove {seq} [{}]", list(volumes))
            }
        }
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fence(fence) => write!(f, "fence {fence}"),
            Self::AgentId(agent_id) => write!(f, "agent_id {agent_id}"),
            Self::Intents(orders) => write!(f, "intents {}", list(orders.iter().map(order))),
            Self::Entries { removed, put } => {
                let put = put.iter().map(|(resource, count)| match count {
                    1 => resource.to_string(),
                    count => format!("{resource}<{count}>"),
                });
                write!(f, "entries less ({}) plus ({})", list(removed), list(put))
            }
            Self::Settle(end) => write!(f, "settled {}", settled(&end.settled)),
            Self::Forget(upto) => write!(f, "forget up to {upto}"),
            Self::Applied { seq, failed } => write!(f, "applied {seq}, last failed {failed}"),
            Self::Volume(key, record) => write!(f, "volume {key} {record}"),
            Self::RemoveVolume(key) => write!(f, "volume {key} removed"),
            Self::Tasks(row) => row.fmt(f),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checkpoint(writes) => write!(f, "checkpoint [{}]", list(writes)),
            Self::Volumes(step) => write!(f, "volumes: {step}"),
            Self::Send(message) => write!(f, "send {}", Shown(message)),
            Self::Recovered => f.write_str("recovered"),
            Self::Registered { agent_id, ping_interval, pings_missed_max } => {
                write!(f, "registered as {agent_id}, ping every {ping_interval:?}, ")?;
                write!(f, "{pings_missed_max} may be missed")
            }
            Self::Close { reason, pause } => write!(f, "close, {pause:?} pause: {reason}"),
            Self::EmptyTrash(upto) => write!(f, "empty the trash up to {upto}"),
            Self::Discrepancy { seq, here, there } => {
                write!(f, "discrepancy: order {seq} is {here} here and {there} there")
            }
            Self::Run(run) => run.fmt(f),
            Self::Doomed(reason) => write!(f, "doomed: {reason}"),
            Self::Left => f.write_str("left"),
            Self::Exit(reason) => write!(f, "exit: {reason}"),
        }
    }
}

/// Who the agent is; fixed from start to end of the process.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// Random name of the work directory.
    pub(crate) checkpoint_id: resources::id::CheckpointId,
    /// Raised at each start.
    pub(crate) boot_counter: u64,
    /// What the agent says of itself.
    pub(crate) info: AgentInfo,
}

/// The pause that a master's word asks for; none when the agent shall not come back.
pub(crate) fn pause(retry: Retry, retry_after: Option<Duration>) -> Option<Pause> {
    match retry {
        Retry::Later => Some(retry_after.map_or(Pause::Long, Pause::Told)),
        Retry::Never => None,
    }
}
