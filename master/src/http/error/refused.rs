//! What the state refuses, as an answer: status and text, in Mesos' words where Mesos has them.
//! Must not decide anything. Next: `text.rs`.

use http::StatusCode;
use resources::resource::Resource;

use crate::auth::Viewer;
use crate::state::TaskName;
use crate::state::rejection::{QuotaRefusal, Rejection, list};

/// A rejection with what the edge knows of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refused {
    pub(crate) rejection: Rejection,
    /// The place of the wrong element in the list of the request.
    pub(crate) index: Option<usize>,
    /// Whether the asker may not see what is there: only what was asked for is repeated.
    pub(crate) is_veiled: bool,
}

impl Refused {
    /// A rejection as this reader may see it.
    pub(crate) fn new(rejection: Rejection, viewer: &Viewer<'_>) -> Self {
        let root = rejection.root();
        let hides_tasks = !tasks(root).is_empty() && !viewer.sees_every_task();
        let is_veiled = hides_tasks || !known_resources(root).into_iter().all(|r| viewer.sees(r));
        Self { rejection, index: None, is_veiled }
    }

    pub(super) fn status(&self) -> StatusCode {
        match self.rejection.root() {
            Rejection::UnknownAgent { .. }
            | Rejection::Invalid { .. }
            | Rejection::VolumeExists { .. }
            | Rejection::VolumesNotFound { .. }
            | Rejection::VolumesInUse { .. }
            | Rejection::Framework { .. }
            | Rejection::Activation { .. }
            | Rejection::Maintenance { .. }
            | Rejection::TransactionSize { .. } => StatusCode::BAD_REQUEST,
            Rejection::Quota { refusal, .. } => match refusal {
                QuotaRefusal::Overcommitted { by_old_call: true, .. } => StatusCode::CONFLICT,
                QuotaRefusal::Invalid { .. }
                | QuotaRefusal::Exists
                | QuotaRefusal::Absent
                | QuotaRefusal::Consumed { .. }
                | QuotaRefusal::Overcommitted { .. } => StatusCode::BAD_REQUEST,
            },
            Rejection::Insufficient { .. }
            | Rejection::SharesRemain { .. }
            | Rejection::Regressed { .. }
            | Rejection::Diverged { .. }
            | Rejection::Reconcile { .. }
            | Rejection::DuplicateOperation { .. }
            | Rejection::ClusterFormed { .. }
            | Rejection::NeverGiven { .. }
            | Rejection::Registration(_) => StatusCode::CONFLICT,
            Rejection::VersionMoved { .. } => StatusCode::PRECONDITION_FAILED,
            Rejection::KeyReused { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Rejection::KeyTableFull { .. } => StatusCode::TOO_MANY_REQUESTS,
            Rejection::Overloaded { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Rejection::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Rejection::Fault { .. } | Rejection::Member { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Whether the answer says when to come again.
    pub(super) fn asks_to_come_again(&self) -> bool {
        matches!(self.status(), StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS)
    }

    /// The place in the request: that of the transaction's operation, else of the element.
    pub(super) fn place(&self) -> Option<u64> {
        match &self.rejection {
            Rejection::Member { position, .. } => Some(*position),
            Rejection::Invalid { reason, .. } => {
                self.index.map(|index| index as u64).or_else(|| place_in(reason))
            }
            _ => self.index.map(|index| index as u64),
        }
    }

    pub(super) fn text(&self) -> String {
        let text = self.root_text();
        match &self.rejection {
            Rejection::Member { position, .. } => {
                format!("Operation {position} of the transaction: {text}")
            }
            _ => text,
        }
    }

    fn root_text(&self) -> String {
        match self.rejection.root() {
            Rejection::UnknownAgent { .. } => "No agent found with specified ID".to_owned(),
            Rejection::Invalid { agent_id, operation, reason } => {
                format!("Invalid {operation} operation on agent {agent_id}: {reason}")
            }
            Rejection::VolumeExists { agent_id, volume_id, existing, .. } => {
                let text = format!(
                    "Invalid CREATE operation on agent {agent_id}: Persistence ID '{volume_id}' \
                     is not unique"
                );
                if self.is_veiled { text } else { format!("{text}: there is {existing}") }
            }
            Rejection::VolumesNotFound { agent_id, volumes, available } => {
                let there = match available.as_slice() {
                    [] => String::new(),
                    _ if self.is_veiled => String::new(),
                    available => format!("; there is {}", list(available)),
                };
                let volumes = list(volumes);
                format!(
                    "Invalid DESTROY operation: Persistent volumes not found on agent {agent_id}: \
                     {volumes}{there}"
                )
            }
            Rejection::Insufficient { wanted, .. } if self.is_veiled => {
                format!("Not enough is available for {}", list(wanted))
            }
            insufficient @ Rejection::Insufficient { .. } => shortage(insufficient),
            Rejection::VolumesInUse { agent_id, volumes, tasks } => {
                let users = if self.is_veiled { String::new() } else { used_by(tasks) };
                format!(
                    "Invalid DESTROY operation on agent {agent_id}: Persistent volumes in use: \
                     {}{users}",
                    list(volumes)
                )
            }
            Rejection::Framework { refusal, .. } => refusal.to_string(),
            other @ (Rejection::SharesRemain { .. }
            | Rejection::Quota { .. }
            | Rejection::Activation { .. }
            | Rejection::Reconcile { .. }
            | Rejection::Maintenance { .. }
            | Rejection::Overloaded { .. }
            | Rejection::Regressed { .. }
            | Rejection::Diverged { .. }
            | Rejection::VersionMoved { .. }
            | Rejection::DuplicateOperation { .. }
            | Rejection::KeyReused { .. }
            | Rejection::KeyTableFull { .. }
            | Rejection::TooLarge { .. }
            | Rejection::TransactionSize { .. }
            | Rejection::Member { .. }
            | Rejection::ClusterFormed { .. }
            | Rejection::NeverGiven { .. }
            | Rejection::Registration(_)
            | Rejection::Fault { .. }) => super::text::sentence(&other.to_string()),
        }
    }
}

/// What is wanted and what is there, and what stands in the way.
fn shortage(rejection: &Rejection) -> String {
    let Rejection::Insufficient { agent_id, wanted, available, blocked_by, volumes, tasks } =
        rejection
    else {
        return String::new();
    };
    let mut text = match available.as_slice() {
        [] => format!("Agent {agent_id} has no such resources; wanted"),
        available => format!("{} does not contain", list(available)),
    };
    text.push(' ');
    text.push_str(&list(wanted));
    if !blocked_by.is_empty() {
        let ids: Vec<&str> = blocked_by.iter().map(|id| id.as_str()).collect();
        text.push_str("; held by unconfirmed operations ");
        text.push_str(&ids.join(", "));
    }
    if !volumes.is_empty() {
        text.push_str("; under volumes ");
        text.push_str(&list(volumes));
    }
    text.push_str(&used_by(tasks));
    text
}

fn used_by(tasks: &[TaskName]) -> String {
    if tasks.is_empty() {
        return String::new();
    }
    let names: Vec<String> = tasks.iter().map(ToString::to_string).collect();
    format!("; used by tasks {}", names.join(", "))
}

/// Tasks in the way.
fn tasks(rejection: &Rejection) -> &[TaskName] {
    match rejection {
        Rejection::Insufficient { tasks, .. } | Rejection::VolumesInUse { tasks, .. } => tasks,
        _ => &[],
    }
}

/// The place that a reason of form begins with: `resources[1]: …`. The replicated rejection
/// holds it as text alone.
fn place_in(reason: &str) -> Option<u64> {
    let (list, rest) = reason.split_once('[')?;
    let (index, _) = rest.split_once("]: ")?;
    ["resources", "source", "volumes"].contains(&list).then(|| index.parse().ok())?
}

/// Resources of the state that a rejection tells about.
fn known_resources(rejection: &Rejection) -> Vec<&Resource> {
    match rejection {
        Rejection::VolumeExists { existing, .. } => vec![existing],
        Rejection::VolumesNotFound { volumes, available, .. } => {
            volumes.iter().chain(available).collect()
        }
        Rejection::Insufficient { wanted, available, volumes, .. } => {
            wanted.iter().chain(available).chain(volumes).collect()
        }
        Rejection::SharesRemain { volume, .. } => vec![volume],
        Rejection::VolumesInUse { volumes, .. } => volumes.iter().collect(),
        Rejection::UnknownAgent { .. }
        | Rejection::Framework { .. }
        | Rejection::Quota { .. }
        | Rejection::Activation { .. }
        | Rejection::Reconcile { .. }
        | Rejection::Maintenance { .. }
        | Rejection::Invalid { .. }
        | Rejection::Overloaded { .. }
        | Rejection::Regressed { .. }
        | Rejection::Diverged { .. }
        | Rejection::VersionMoved { .. }
        | Rejection::DuplicateOperation { .. }
        | Rejection::KeyReused { .. }
        | Rejection::KeyTableFull { .. }
        | Rejection::TooLarge { .. }
        | Rejection::TransactionSize { .. }
        | Rejection::Member { .. }
        | Rejection::ClusterFormed { .. }
        | Rejection::NeverGiven { .. }
        | Rejection::Registration(_)
        | Rejection::Fault { .. } => Vec::new(),
    }
}
