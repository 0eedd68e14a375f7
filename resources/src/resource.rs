//! One resource: a value with its reservation stack, disk and markers (spec §1.4, §1.6).
//! Illegal combinations are refused in `validate.rs`; sets of resources are in `collection.rs`,
//! their text in `display.rs`.

use serde::{Deserialize, Serialize};

use crate::id::{Principal, ProviderId, VolumeId};
use crate::role::Role;
use crate::value::Value;

/// A resource as every part of the product holds it (post-refinement form).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Resource {
    /// `cpus`, `mem` (MB), `disk` (MB), `gpus`, `ports`, or any other name.
    pub name: String,
    /// The amount.
    pub value: Value,
    /// Reservation stack, bottom first; empty means unreserved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<Reservation>,
    /// What kind of disk, and the volume on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// The role it is offered or used under; only while allocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation_role: Option<Role>,
    /// May be taken back at any time.
    #[serde(default)]
    pub revocable: bool,
    /// May be used several times at once (volumes only).
    #[serde(default)]
    pub shared: bool,
    /// The resource provider that holds it; none for the agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<ProviderId>,
}

impl Resource {
    /// An unreserved resource without any marker.
    #[must_use]
    pub fn plain(name: impl Into<String>, value: Value) -> Self {
        Self {
            name: name.into(),
            value,
            reservations: Vec::new(),
            disk: None,
            allocation_role: None,
            revocable: false,
            shared: false,
            provider_id: None,
        }
    }
    /// Whether any reservation lies on it.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        !self.reservations.is_empty()
    }
    /// Whether the top reservation was made by an operation.
    #[must_use]
    pub fn is_dynamically_reserved(&self) -> bool {
        self.reservations.last().is_some_and(|top| top.kind == ReservationKind::Dynamic)
    }
    /// Whether it is a persistent volume.
    #[must_use]
    pub fn is_persistent_volume(&self) -> bool {
        self.volume_id().is_some()
    }
    /// Whether two reservations or more lie on it.
    #[must_use]
    pub fn is_refined(&self) -> bool {
        self.reservations.len() >= 2
    }
    /// Role of the top reservation: the owner.
    #[must_use]
    pub fn reservation_role(&self) -> Option<&Role> {
        self.reservations.last().map(|top| &top.role)
    }
    /// The same with one more reservation on top.
    #[must_use]
    pub fn push_reservation(mut self, reservation: Reservation) -> Self {
        self.reservations.push(reservation);
        self
    }
    /// The same without the top reservation.
    #[must_use]
    pub fn pop_reservation(mut self) -> Self {
        self.reservations.pop();
        self
    }
    /// The same without any reservation; the disk stays.
    #[must_use]
    pub fn to_unreserved(&self) -> Self {
        Self { reservations: Vec::new(), ..self.clone() }
    }
    /// The disk under a volume: no persistence, no mount, not shared (spec §1.7). The whole
    /// disk goes when it has no source.
    #[must_use]
    pub fn to_plain_disk(&self) -> Self {
        let source = self.disk.as_ref().and_then(|disk| disk.source.clone());
        let disk = source.map(|source| Disk { source: Some(source), ..Disk::default() });
        Self { disk, shared: false, ..self.clone() }
    }
    /// Whether the agent must checkpoint it: it exists only because of operations.
    #[must_use]
    pub fn needs_checkpoint(&self) -> bool {
        self.provider_id.is_none()
            && (self.is_dynamically_reserved() || self.is_persistent_volume())
    }
    /// Id of the persistent volume, when it is one.
    #[must_use]
    pub fn volume_id(&self) -> Option<&VolumeId> {
        Some(&self.disk.as_ref()?.persistence.as_ref()?.id)
    }
    /// Physical origin; none also for the agent's work directory.
    #[must_use]
    pub fn disk_source(&self) -> Option<&DiskSource> {
        self.disk.as_ref()?.source.as_ref()
    }
    /// Whether it goes to others only as a whole: volumes, MOUNT, BLOCK, RAW with an id.
    #[must_use]
    pub fn is_indivisible(&self) -> bool {
        let source = self.disk_source().is_some_and(|source| match source.kind {
            DiskSourceKind::Mount | DiskSourceKind::Block => true,
            DiskSourceKind::Raw => source.id.is_some(),
            DiskSourceKind::Path => false,
        });
        source || self.is_persistent_volume()
    }
    /// Whether `role` may be offered it: it is unreserved, reserved for `role`, or for an
    /// ancestor of `role`.
    #[must_use]
    pub fn is_allocatable_to(&self, role: &Role) -> bool {
        self.reservation_role()
            .is_none_or(|owner| owner == role || role.is_strict_subrole_of(owner))
    }
    /// Whether it is allocated to `role` or to a descendant of it.
    #[must_use]
    pub fn is_allocated_below(&self, role: &Role) -> bool {
        let allocated = self.allocation_role.as_ref();
        allocated.is_some_and(|own| own == role || own.is_strict_subrole_of(role))
    }
}

/// The longest common bottom of two reservation stacks: re-reserving pops down to it.
#[must_use]
pub fn reservation_ancestor<'a>(
    left: &'a [Reservation],
    right: &[Reservation],
) -> &'a [Reservation] {
    let common = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    &left[..common]
}

/// One level of a reservation stack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reservation {
    /// From the command line, or by an operation.
    pub kind: ReservationKind,
    /// For whom.
    pub role: Role,
    /// Who reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
    /// Free marks; part of the identity.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// Where a reservation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ReservationKind {
    /// The agent's command line.
    Static,
    /// A RESERVE operation.
    Dynamic,
}

/// A multiset of labels, kept sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<Label>", into = "Vec<Label>")]
pub struct Labels(Vec<Label>);

/// One label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Label {
    /// Its key.
    pub key: String,
    /// Its value, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl Labels {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The labels in sorted order.
    #[must_use]
    pub fn as_slice(&self) -> &[Label] {
        &self.0
    }
}

impl From<Vec<Label>> for Labels {
    fn from(mut labels: Vec<Label>) -> Self {
        labels.sort();
        Self(labels)
    }
}

impl From<Labels> for Vec<Label> {
    fn from(labels: Labels) -> Self {
        labels.0
    }
}

/// What a `disk` resource is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Disk {
    /// Where it physically comes from; none means the agent's work directory (ROOT).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<DiskSource>,
    /// Presence makes it a persistent volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<Persistence>,
    /// How a task sees the volume; not part of the identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeMount>,
}

/// Physical origin of a disk resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DiskSource {
    /// PATH, MOUNT, BLOCK or RAW.
    pub kind: DiskSourceKind,
    /// `path.root` or `mount.root`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Storage plugin's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Storage plugin's metadata.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub metadata: Labels,
    /// Storage profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Storage vendor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
}

/// Kinds of disk source (spec §1.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DiskSourceKind {
    /// A directory, divisible.
    Path,
    /// A whole mount, all or nothing.
    Mount,
    /// A block device.
    Block,
    /// Input of storage plugins.
    Raw,
}

/// What makes a disk a persistent volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Persistence {
    /// Unique per reservation role on the agent.
    pub id: VolumeId,
    /// Who created it; not part of the identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
}

/// How a volume appears in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VolumeMount {
    /// Path in the sandbox.
    pub container_path: String,
    /// Read-write or read-only.
    pub mode: VolumeMode,
}

/// Access to a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum VolumeMode {
    /// Read and write.
    Rw,
    /// Read only.
    Ro,
}
