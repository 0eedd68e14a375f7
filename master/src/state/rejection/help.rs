//! What a refusal tells its reader, as short texts: what it is about, what was wanted and is
//! there, what stands in the way, and the next step. One line for each kind, so that no refusal
//! is without help. Must not decide anything. Next: `../agents.rs`.

use resources::id::{AgentId, OperationId};
use resources::resource::Resource;

use super::super::limits::{PENDING_ORDERS_MAX, TRANSACTION_OPERATIONS_MAX};
use super::{
    ActivationRefusal, FrameworkRefusal, MaintenanceRefusal, QuotaRefusal, RegistrationRefusal,
    Rejection, TaskName,
};

impl Rejection {
    /// The agent that it is about, if it is about one.
    #[must_use]
    pub fn agent_id(&self) -> Option<&AgentId> {
        match self.root() {
            Self::UnknownAgent { agent_id }
            | Self::Invalid { agent_id, .. }
            | Self::VolumeExists { agent_id, .. }
            | Self::VolumesNotFound { agent_id, .. }
            | Self::Insufficient { agent_id, .. }
            | Self::SharesRemain { agent_id, .. }
            | Self::VolumesInUse { agent_id, .. }
            | Self::Overloaded { agent_id, .. }
            | Self::Regressed { agent_id, .. }
            | Self::Diverged { agent_id }
            | Self::VersionMoved { agent_id, .. }
            | Self::Activation { agent_id, .. }
            | Self::Reconcile { agent_id, .. }
            | Self::NeverGiven { agent_id, .. } => Some(agent_id),
            Self::Framework { .. }
            | Self::Quota { .. }
            | Self::Maintenance { .. }
            | Self::DuplicateOperation { .. }
            | Self::KeyReused { .. }
            | Self::KeyTableFull { .. }
            | Self::TooLarge { .. }
            | Self::TransactionSize { .. }
            | Self::Member { .. }
            | Self::ClusterFormed { .. }
            | Self::Registration(_)
            | Self::Fault { .. } => None,
        }
    }

    /// What it is about: `agent c-S0`, `volume ads/v1 on agent c-S0`, `operation 2-1`.
    #[must_use]
    pub fn object(&self) -> String {
        match self.root() {
            Self::VolumeExists { agent_id, role, volume_id, .. } => {
                format!("volume {role}/{volume_id} on agent {agent_id}")
            }
            Self::VolumesNotFound { agent_id, volumes, .. }
            | Self::VolumesInUse { agent_id, volumes, .. } => {
                format!("{} on agent {agent_id}", names(volumes).join(", "))
            }
            Self::Framework { framework_id, .. } => format!("framework {framework_id}"),
            Self::Quota { role, .. } => format!("quota of role {role}"),
            Self::Maintenance { refusal } => refusal.object(),
            Self::SharesRemain { agent_id, volume, .. } => {
                format!("{} on agent {agent_id}", name(volume))
            }
            Self::DuplicateOperation { operation_id } => format!("operation {operation_id}"),
            Self::KeyReused { key, .. } => format!("key {key}"),
            Self::KeyTableFull { quota, .. } => quota.to_string(),
            Self::TooLarge { .. } => "command".to_owned(),
            Self::TransactionSize { .. } => "transaction".to_owned(),
            Self::ClusterFormed { cluster_id } => format!("cluster {cluster_id}"),
            Self::Registration(_) => "registration".to_owned(),
            Self::Fault { index, .. } => format!("log entry {index}"),
            Self::UnknownAgent { agent_id }
            | Self::Invalid { agent_id, .. }
            | Self::Insufficient { agent_id, .. }
            | Self::Overloaded { agent_id, .. }
            | Self::Regressed { agent_id, .. }
            | Self::Diverged { agent_id }
            | Self::VersionMoved { agent_id, .. }
            | Self::Activation { agent_id, .. }
            | Self::Reconcile { agent_id, .. }
            | Self::NeverGiven { agent_id, .. } => format!("agent {agent_id}"),
            Self::Member { position, .. } => format!("operation {position} of the transaction"),
        }
    }

    /// What was wanted, each with its number.
    #[must_use]
    pub fn wanted(&self) -> Vec<String> {
        match self.root() {
            Self::UnknownAgent { agent_id } => vec![format!("agent {agent_id}")],
            Self::Invalid { operation, .. } => vec![format!("a valid {operation}")],
            Self::VolumeExists { volume_id, .. } => vec![format!("1 new volume {volume_id}")],
            Self::VolumesNotFound { volumes, .. } => texts(volumes),
            Self::Insufficient { wanted, .. } => texts(wanted),
            Self::SharesRemain { .. } => vec!["0 further shares".to_owned()],
            Self::VolumesInUse { .. } => vec!["0 tasks that use it".to_owned()],
            Self::Framework { refusal, .. } => vec![refusal.wanted().to_owned()],
            Self::Quota { refusal, .. } => vec![refusal.wanted()],
            Self::Activation { refusal, .. } => vec![refusal.wanted().to_owned()],
            Self::Reconcile { .. } => vec!["one choice for each object that differs".to_owned()],
            Self::Maintenance { refusal } => vec![refusal.wanted()],
            Self::Overloaded { pending, .. } => {
                vec![format!("{} unconfirmed orders", pending.saturating_add(1))]
            }
            Self::Regressed { confirmed_seq, .. } => vec![format!("order {confirmed_seq}")],
            Self::Diverged { .. } => vec!["the resources of the log".to_owned()],
            Self::VersionMoved { wanted, .. } => vec![format!("version {wanted}")],
            Self::DuplicateOperation { operation_id } => {
                vec![format!("1 new operation {operation_id}")]
            }
            Self::KeyReused { key, .. } => vec![format!("the first command of key {key}")],
            Self::KeyTableFull { keys, .. } => vec![format!("{} keys", keys.saturating_add(1))],
            Self::TooLarge { bytes, .. } => vec![format!("{bytes} bytes")],
            Self::TransactionSize { operations } => vec![format!("{operations} operations")],
            Self::ClusterFormed { .. } => vec!["a cluster without an id".to_owned()],
            Self::NeverGiven { upto, .. } => vec![format!("order {upto}")],
            Self::Registration(refusal) => refusal.wanted().into_iter().collect(),
            Self::Fault { .. } | Self::Member { .. } => Vec::new(),
        }
    }

    /// What is there instead, each with its number. Empty means nothing.
    #[must_use]
    pub fn available(&self) -> Vec<String> {
        match self.root() {
            Self::VolumeExists { existing, .. } => vec![existing.to_string()],
            Self::VolumesNotFound { available, .. } | Self::Insufficient { available, .. } => {
                texts(available)
            }
            Self::SharesRemain { shares, .. } => vec![format!("{shares} further shares")],
            Self::VolumesInUse { tasks, .. } => {
                vec![format!("{} tasks that use it", tasks.len().max(1))]
            }
            Self::Overloaded { .. } => vec![format!("{PENDING_ORDERS_MAX} unconfirmed orders")],
            Self::Regressed { applied_seq, .. } => vec![format!("order {applied_seq}")],
            Self::VersionMoved { found, .. } => vec![format!("version {found}")],
            Self::KeyReused { index, .. } => vec![format!("the command at index {index}")],
            Self::KeyTableFull { keys_max, bytes_max, .. } => {
                vec![format!("{keys_max} keys"), format!("{bytes_max} bytes")]
            }
            Self::TooLarge { bytes_max, .. } => vec![format!("{bytes_max} bytes")],
            Self::TransactionSize { .. } => {
                vec![format!("{TRANSACTION_OPERATIONS_MAX} operations")]
            }
            Self::ClusterFormed { cluster_id } => vec![format!("cluster {cluster_id}")],
            Self::NeverGiven { given, .. } => vec![format!("order {given}")],
            Self::Registration(refusal) => refusal.available().into_iter().collect(),
            Self::Quota { refusal, .. } => refusal.available().into_iter().collect(),
            Self::Activation { refusal, .. } => vec![format!("an agent that {refusal}")],
            Self::Reconcile { refusal, .. } => vec![refusal.to_string()],
            Self::UnknownAgent { .. }
            | Self::Framework { .. }
            | Self::Maintenance { .. }
            | Self::Invalid { .. }
            | Self::Diverged { .. }
            | Self::DuplicateOperation { .. }
            | Self::Member { .. }
            | Self::Fault { .. } => Vec::new(),
        }
    }

    /// What stands in the way: ids of operations, names of volumes and of tasks.
    #[must_use]
    pub fn blocked_by(&self) -> Vec<String> {
        match self.root() {
            Self::VolumeExists { existing, .. } => vec![name(existing)],
            Self::Insufficient { blocked_by, volumes, tasks, .. } => {
                let objects = blocked_by.iter().map(operation).chain(names(volumes));
                objects.chain(tasks.iter().map(task)).collect()
            }
            Self::VolumesInUse { tasks, .. } => tasks.iter().map(task).collect(),
            Self::Framework { framework_id, .. } => vec![format!("framework {framework_id}")],
            Self::Quota { role, .. } => vec![format!("role {role}")],
            Self::Maintenance { refusal } => vec![refusal.object()],
            Self::SharesRemain { volume, .. } => vec![name(volume)],
            Self::DuplicateOperation { operation_id } => vec![format!("operation {operation_id}")],
            Self::KeyReused { index, .. } => vec![format!("log entry {index}")],
            Self::Overloaded { agent_id, .. }
            | Self::Regressed { agent_id, .. }
            | Self::Diverged { agent_id }
            | Self::Activation { agent_id, .. }
            | Self::Reconcile { agent_id, .. }
            | Self::VersionMoved { agent_id, .. } => vec![format!("agent {agent_id}")],
            Self::UnknownAgent { .. }
            | Self::Invalid { .. }
            | Self::VolumesNotFound { .. }
            | Self::KeyTableFull { .. }
            | Self::TooLarge { .. }
            | Self::TransactionSize { .. }
            | Self::Member { .. }
            | Self::ClusterFormed { .. }
            | Self::NeverGiven { .. }
            | Self::Registration(_)
            | Self::Fault { .. } => Vec::new(),
        }
    }

    /// The next step, in one sentence.
    #[must_use]
    pub fn hint(&self) -> String {
        let text = match self.root() {
            Self::UnknownAgent { .. } => "List the agents and use the id of one that is registered",
            Self::Invalid { .. } => "Correct the request; nothing was done",
            Self::VolumeExists { .. } => {
                "Use the volume that is there, destroy it first, or choose another id"
            }
            Self::VolumesNotFound { available, .. } if !available.is_empty() => {
                "Name the volume as it is listed, with its size and its reservations"
            }
            Self::VolumesNotFound { .. } => "List the volumes of the agent; it may be gone already",
            Self::Insufficient { volumes, .. } if !volumes.is_empty() => {
                "Destroy the volumes that lie on the disk first"
            }
            Self::Insufficient { wanted, available, .. }
                if wanted.iter().any(Resource::is_indivisible) && !available.is_empty() =>
            {
                "Name it as it is listed, as a whole: it cannot be divided"
            }
            Self::Insufficient { tasks, .. } if !tasks.is_empty() => {
                "Wait until the tasks in the way have ended, or end them"
            }
            Self::VolumesInUse { .. } => "End the tasks that use the volume first",
            Self::Framework { refusal, .. } => refusal.hint(),
            Self::Quota { refusal, .. } => refusal.hint(),
            Self::Activation { refusal, .. } => refusal.hint(),
            Self::Reconcile { refusal, .. } => refusal.hint(),
            Self::Maintenance { refusal } => refusal.hint(),
            Self::Insufficient { blocked_by, .. } if !blocked_by.is_empty() => {
                "Ask for less, or wait for the operations in the way and try again if one fails"
            }
            Self::Insufficient { available, .. } if available.is_empty() => {
                "Check role, principal and labels of the reservation: nothing there matches them"
            }
            Self::Insufficient { .. } => "Ask for no more than what is available",
            Self::SharesRemain { .. } => "Wait until the other shares are given back",
            Self::Overloaded { .. } => "Try again when the agent has confirmed some of its orders",
            Self::Regressed { .. } | Self::Diverged { .. } => {
                "Look at the agent, then settle it with `holdfast agent reconcile`"
            }
            Self::VersionMoved { .. } => {
                "Read the agent again and repeat the call with its present version"
            }
            Self::DuplicateOperation { .. } => "Ask for the operation that bears this id",
            Self::KeyReused { .. } => "Use a new key for a new command",
            Self::KeyTableFull { .. } => {
                "Try again later: keys are given free one hour after their use"
            }
            Self::TooLarge { .. } => "Split the request",
            Self::TransactionSize { .. } => "Split the transaction",
            Self::ClusterFormed { .. } => "Nothing is to be done",
            Self::NeverGiven { .. } => "Look at the alarms: the masters may have lost data",
            Self::Registration(refusal) => refusal.hint(),
            Self::Fault { .. } => "Look at the alarms and report this as a defect",
            Self::Member { .. } => "Correct the operation that is named",
        };
        text.to_owned()
    }
}

impl FrameworkRefusal {
    const fn wanted(self) -> &'static str {
        match self {
            Self::Unknown => "1 subscribed framework",
            Self::Removed => "a framework that was never removed",
            Self::PrincipalChanged => "the principal it subscribed with",
            Self::UserChanged => "the user it subscribed with",
            Self::CheckpointChanged => "the value of checkpoint it subscribed with",
        }
    }

    const fn hint(self) -> &'static str {
        match self {
            Self::Unknown => "Subscribe the framework first",
            Self::Removed => "Subscribe without an id: a removed framework never comes back",
            Self::PrincipalChanged | Self::UserChanged | Self::CheckpointChanged => {
                "Leave it as it is, or subscribe as a new framework"
            }
        }
    }
}

impl QuotaRefusal {
    fn wanted(&self) -> String {
        match self {
            Self::Invalid { reason } => format!("a valid quota: {reason}"),
            Self::Exists => "1 role without quota".to_owned(),
            Self::Absent => "1 role with quota".to_owned(),
            Self::Consumed { name, limit, .. } => format!("limit {name}:{limit}"),
            Self::Overcommitted { name, wanted, .. } => format!("guarantees {name}:{wanted}"),
        }
    }

    fn available(&self) -> Option<String> {
        match self {
            Self::Consumed { name, consumed, .. } => Some(format!("consumed {name}:{consumed}")),
            Self::Overcommitted { name, capacity, .. } => Some(format!("{name}:{capacity}")),
            Self::Invalid { .. } | Self::Exists | Self::Absent => None,
        }
    }

    const fn hint(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "Correct the quota; nothing was done",
            Self::Exists => "Change it with UPDATE_QUOTA, or remove it first",
            Self::Absent => "List the quotas: this role has none",
            Self::Consumed { .. } => {
                "Ask for a higher limit, free resources of the role first, or use force"
            }
            Self::Overcommitted { .. } => {
                "Guarantee less, lower another role's guarantee, add agents, or use force"
            }
        }
    }
}

impl ActivationRefusal {
    const fn wanted(self) -> &'static str {
        match self {
            Self::Active | Self::Draining => "a deactivated or drained agent",
            Self::Scheduled => "an agent outside of the maintenance schedule",
        }
    }

    const fn hint(self) -> &'static str {
        match self {
            Self::Active => "Nothing is to be done: the agent is offered",
            Self::Draining => "Wait until the agent is drained, then reactivate it",
            Self::Scheduled => "Take the machine out of the maintenance schedule first",
        }
    }
}

impl MaintenanceRefusal {
    fn object(&self) -> String {
        match self {
            Self::Invalid { .. } => "maintenance schedule".to_owned(),
            Self::Dropped { machine }
            | Self::NotDraining { machine }
            | Self::NotDown { machine } => format!("machine {machine}"),
        }
    }

    fn wanted(&self) -> String {
        match self {
            Self::Invalid { reason } => format!("a valid list of machines: {reason}"),
            Self::Dropped { .. } => "a schedule with every machine that is down".to_owned(),
            Self::NotDraining { .. } => "1 machine of the schedule that is up".to_owned(),
            Self::NotDown { .. } => "1 machine that is down".to_owned(),
        }
    }

    const fn hint(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "Correct the request; nothing was done",
            Self::Dropped { .. } => "Bring the machine up first, or leave it in the schedule",
            Self::NotDraining { .. } => "Schedule the machine first, by the same name and address",
            Self::NotDown { .. } => "List the machines that are down",
        }
    }
}

impl RegistrationRefusal {
    fn wanted(&self) -> Option<String> {
        match self {
            Self::NoCluster => Some("a formed cluster".to_owned()),
            Self::OtherCluster { theirs, .. } => Some(format!("cluster {theirs}")),
            Self::NewerIncarnation { theirs, .. } => Some(format!("incarnation {theirs}")),
            Self::AheadOfLog { applied_seq, .. } => Some(format!("order {applied_seq}")),
            Self::NotDeclarable { resource } => Some(resource.clone()),
            Self::OtherDigest => Some("the digest of the declared resources".to_owned()),
            Self::MachineDown { machine } => Some(format!("machine {machine} up")),
            Self::Incompatible { reason } => Some(reason.clone()),
            Self::Gone { agent_id } => Some(format!("agent {agent_id}")),
        }
    }

    fn available(&self) -> Option<String> {
        match self {
            Self::OtherCluster { ours, .. } => Some(format!("cluster {ours}")),
            Self::NewerIncarnation { ours, .. } => Some(format!("incarnation {ours}")),
            Self::AheadOfLog { given, .. } => Some(format!("order {given}")),
            Self::NoCluster
            | Self::NotDeclarable { .. }
            | Self::MachineDown { .. }
            | Self::OtherDigest
            | Self::Incompatible { .. }
            | Self::Gone { .. } => None,
        }
    }

    const fn hint(&self) -> &'static str {
        match self {
            Self::NoCluster => "Wait until the cluster has its first leader",
            Self::OtherCluster { .. } => {
                "Point the agent at its own cluster, or give it a new work directory"
            }
            Self::NewerIncarnation { .. } | Self::AheadOfLog { .. } => {
                "Look at the alarms: the masters are older than the agent"
            }
            Self::NotDeclarable { .. } => {
                "Declare only unreserved and statically reserved resources"
            }
            Self::OtherDigest => "Look at the agent's work directory",
            Self::MachineDown { .. } => "Wait until an operator brings the machine up",
            Self::Incompatible { .. } => {
                "Declare at least what the reservations and volumes are made of"
            }
            Self::Gone { .. } => {
                "Start the agent with a new work directory; what is in the old one stays there"
            }
        }
    }
}

/// `operation 2-1`; an earlier operation of the same request has no id, but a place there.
fn operation(id: &OperationId) -> String {
    let is_place = id.as_str().contains('[');
    if is_place { id.to_string() } else { format!("operation {id}") }
}

fn task(name: &TaskName) -> String {
    format!("task {name}")
}

/// `volume ads/v1`, or the resource as it is when it is no volume.
fn name(resource: &Resource) -> String {
    match resource.reservation_role().zip(resource.volume_id()) {
        Some((role, id)) => format!("volume {role}/{id}"),
        None => resource.to_string(),
    }
}

fn names(resources: &[Resource]) -> Vec<String> {
    resources.iter().map(name).collect()
}

fn texts(resources: &[Resource]) -> Vec<String> {
    resources.iter().map(ToString::to_string).collect()
}
