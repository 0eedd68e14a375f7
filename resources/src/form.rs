//! Resources in the shape of the wire (spec §1.4, §1.9 `Resource`): every field optional,
//! nothing checked, all three formats of reservations. The way in is `upgrade.rs`, the way
//! out `downgrade.rs`. Enumerators are their names as text: an unknown one of an optional
//! field counts as unset, as Mesos reads it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::lenient::{double, nullable, unsigned};
use crate::resource::Resource;

pub use crate::lenient::Presence;

/// Which fields tell of reservations (spec §1.4, *Three wire formats*).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The full stack; `role` and `reservation` unset.
    Post,
    /// `role` and `reservation` only; impossible for refined reservations.
    Pre,
    /// The stack, and `role` and `reservation` where they can say it.
    Endpoint,
}

/// A refined reservation has no pre-refinement format.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot downgrade {resource}, it has refined reservations")]
pub struct Refined {
    /// The resource.
    pub resource: Box<Resource>,
}

/// `Resource`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceForm {
    /// `name`, required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `type`, required: SCALAR, RANGES, SET or TEXT.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `scalar`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scalar: Option<ScalarForm>,
    /// `ranges`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranges: Option<RangesForm>,
    /// `set`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<SetForm>,
    /// `role`, pre-refinement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// `disk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskForm>,
    /// `reservation`, pre-refinement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<ReservationForm>,
    /// `revocable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocable: Option<Presence>,
    /// `shared`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<Presence>,
    /// `allocation_info`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_info: Option<AllocationForm>,
    /// `provider_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<IdForm>,
    /// `reservations`.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<ReservationForm>,
}

/// `Value.Scalar`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScalarForm {
    /// `value`, required.
    #[serde(deserialize_with = "double", skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
}

/// `Value.Ranges`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RangesForm {
    /// `range`.
    #[serde(deserialize_with = "nullable")]
    pub range: Vec<RangeForm>,
}

/// `Value.Range`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RangeForm {
    /// `begin`, required.
    #[serde(deserialize_with = "unsigned", skip_serializing_if = "Option::is_none")]
    pub begin: Option<u64>,
    /// `end`, required.
    #[serde(deserialize_with = "unsigned", skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
}

/// `Value.Set`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SetForm {
    /// `item`.
    #[serde(deserialize_with = "nullable")]
    pub item: Vec<String>,
}

/// `Resource.AllocationInfo`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllocationForm {
    /// `role`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// `ResourceProviderID`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdForm {
    /// `value`, required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// `Resource.ReservationInfo`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReservationForm {
    /// `type`: STATIC or DYNAMIC.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `role`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// `principal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// `labels`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<LabelsForm>,
}

/// `Labels`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LabelsForm {
    /// `labels`.
    #[serde(deserialize_with = "nullable")]
    pub labels: Vec<LabelForm>,
}

/// `Label`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LabelForm {
    /// `key`, required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// `Resource.DiskInfo`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskForm {
    /// `persistence`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistence: Option<PersistenceForm>,
    /// `volume`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeForm>,
    /// `source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceForm>,
}

/// `Resource.DiskInfo.Persistence`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PersistenceForm {
    /// `id`, required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `principal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

/// `Volume`; of its sources only the host path, which must be unset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeForm {
    /// `container_path`, required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_path: Option<String>,
    /// `host_path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_path: Option<String>,
    /// `mode`, required: RW or RO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// `Resource.DiskInfo.Source`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceForm {
    /// `type`, required: PATH, MOUNT, BLOCK or RAW.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<RootForm>,
    /// `mount`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount: Option<RootForm>,
    /// `id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `metadata`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<LabelsForm>,
    /// `profile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// `vendor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
}

/// `Resource.DiskInfo.Source.Path` and `.Mount`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RootForm {
    /// `root`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
}
