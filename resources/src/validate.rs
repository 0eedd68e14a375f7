//! What is wrong with a resource or an operation in itself: the errors, and the two ways in, for
//! operators and for frameworks. The rules (spec §2.2) are in `rules.rs`; what needs the state
//! of an agent is in `conflict.rs` (volumes) and `conversion.rs` (sets and quantities).

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::brief;
use crate::capability::{AgentCapability, FrameworkCapability};
use crate::form::ResourceForm;
use crate::id::{InvalidId, Principal, VolumeId};
use crate::operation::Operation;
use crate::resource::{DiskSourceKind, Resource};
use crate::role::{InvalidRole, Role};
use crate::rules;
use crate::value::{Range, Scalar};

/// Labels of one reservation at most (decisions, part E).
pub const LABELS_MAX: usize = 64;
/// Bytes of one label, key and value together, at most (decisions, part E).
pub const LABEL_BYTES_MAX: usize = 4096;

/// Why a resource of the wire is none, in the order of the checks of spec §1.5.
#[derive(Debug, Clone, PartialEq, Error)]
#[expect(missing_docs, reason = "the message of each variant says what it is")]
pub enum InvalidResource {
    #[error("missing required field '{field}'")]
    MissingField { field: &'static str },
    #[error("'{}' is no value of the required field '{field}'", brief::text(name))]
    UnknownEnumerator { field: &'static str, name: String },
    #[error("resource has an empty name")]
    EmptyName,
    #[error("resource type {kind} is not supported")]
    UnsupportedType { kind: String },
    #[error("a SCALAR resource needs 'scalar', and no 'ranges' or 'set'")]
    ScalarFields,
    #[error("scalar {} is no amount up to {}", brief::number(*value), Scalar::MAX)]
    ScalarRange { value: f64 },
    #[error("scalar {} is negative, or rounds to nothing", brief::number(*value))]
    ScalarNotPositive { value: f64 },
    #[error("a RANGES resource needs 'ranges' with begin and end, and no 'scalar' or 'set'")]
    RangesFields,
    #[error("range {begin}-{end} ends before it begins")]
    RangesInverted { begin: u64, end: u64 },
    #[error("ranges {}-{} and {}-{} overlap", first.begin, first.end, second.begin, second.end)]
    RangesOverlap { first: Range, second: Range },
    #[error("a SET resource needs 'set', and no 'scalar' or 'ranges'")]
    SetFields,
    #[error("set holds '{}' twice", brief::text(item))]
    SetDuplicate { item: String },
    #[error("'disk' is set for the resource '{}', which is no disk", brief::text(name))]
    DiskInfoNotDisk { name: String },
    #[error("disk source type {kind} is not supported")]
    DiskSourceType { kind: String },
    #[error("'path' is set for a {kind} disk")]
    DiskSourcePathForbidden { kind: DiskSourceKind },
    #[error("'mount' is set for a {kind} disk")]
    DiskSourceMountForbidden { kind: DiskSourceKind },
    #[error("invalid persistence id: {0}")]
    VolumeId(#[source] InvalidId),
    #[error("'host_path' is set to '{}' in a volume", brief::text(path))]
    VolumeHostPath { path: String },
    #[error("invalid role: {0}")]
    Role(#[source] InvalidRole),
    #[error("'type' of 'reservation' is set, which belongs into 'reservations'")]
    LegacyReservationType,
    #[error("'role' of 'reservation' is set, which belongs into 'reservations'")]
    LegacyReservationRole,
    #[error("role \"*\" cannot be reserved")]
    StarCannotBeReserved,
    #[error("reservation without 'type'")]
    ReservationTypeMissing,
    #[error("reservation without 'role'")]
    ReservationRoleMissing,
    #[error("refined reservation for '{}' is STATIC", brief::text(role.as_str()))]
    RefinementStatic { role: Role },
    #[error(
        "role '{}' of a refined reservation is not below '{}'",
        brief::text(above.as_str()), brief::text(below.as_str())
    )]
    RefinementNotSubrole { below: Role, above: Role },
    #[error(
        "'role' is '{}', but 'reservations' says '{}'",
        brief::text(role), brief::text(reserved.as_str())
    )]
    EndpointRoleMismatch { role: String, reserved: Role },
    #[error("'reservation' is set for a STATIC reservation")]
    EndpointStaticWithReservation,
    #[error("'role' and 'reservation' of a DYNAMIC reservation must both be set, or neither")]
    EndpointRoleReservationPair,
    #[error("principals in 'reservation' and 'reservations' differ")]
    EndpointPrincipalMismatch,
    #[error("labels in 'reservation' and 'reservations' differ")]
    EndpointLabelsMismatch,
    #[error("'role' is set beside refined reservations")]
    EndpointRoleWithRefinement,
    #[error("'reservation' is set beside refined reservations")]
    EndpointReservationWithRefinement,
    #[error("resource '{}' is no persistent volume, so it cannot be shared", brief::text(name))]
    NotShareable { name: String },
    #[error("invalid provider id: {0}")]
    ProviderId(#[source] InvalidId),
}

/// An object of a list that is no resource.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{list}[{index}]: {reason}")]
pub struct InvalidElement {
    /// Which list.
    pub list: ListField,
    /// Its position there, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub reason: InvalidResource,
}

/// Takes a list of the wire.
///
/// # Errors
/// The first object that is no resource, with its position.
pub fn resources(
    list: ListField,
    forms: impl IntoIterator<Item = ResourceForm>,
) -> Result<Vec<Resource>, InvalidElement> {
    let read = |(index, form)| {
        Resource::try_from(form).map_err(|reason| InvalidElement { list, index, reason })
    };
    forms.into_iter().enumerate().map(read).collect()
}

/// The lists of resources that operations carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ListField {
    /// Of RESERVE and UNRESERVE.
    Resources,
    /// Of RESERVE.
    Source,
    /// Of CREATE and DESTROY.
    Volumes,
}

impl fmt::Display for ListField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resources => "resources",
            Self::Source => "source",
            Self::Volumes => "volumes",
        })
    }
}

/// Why an operation is malformed, whatever the agent has.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the message of each variant says what it is")]
pub enum InvalidOperation {
    #[error("no resources are given")]
    Empty,
    #[error("only frameworks launch tasks")]
    LaunchByOperator,
    #[error("{list}[{index}]: {reason}")]
    Element { list: ListField, index: usize, reason: Box<InvalidOperation> },
    #[error("the size of {} must be more than nothing", brief::resource(.0))]
    NoSize(Box<Resource>),
    #[error("the 'gpus' resource must be a whole number, not {0}")]
    FractionalGpus(Scalar),
    #[error(
        "persistent volumes cannot be created from revocable resources: {}",
        brief::resource(.0)
    )]
    RevocableVolume(Box<Resource>),
    #[error(
        "persistent volumes cannot be created from unreserved resources: {}",
        brief::resource(.0)
    )]
    UnreservedVolume(Box<Resource>),
    #[error("expecting 'volume' to be set for persistent volume {}", brief::resource(.0))]
    VolumeMissing(Box<Resource>),
    #[error("non-persistent volume not supported: {}", brief::resource(.0))]
    VolumeWithoutPersistence(Box<Resource>),
    #[error("'disk' is set but empty in {}", brief::resource(.0))]
    EmptyDisk(Box<Resource>),
    #[error("dynamically reserved resource {} cannot be revocable", brief::resource(.0))]
    RevocableReservation(Box<Resource>),
    #[error(
        "{labels} labels on a reservation for '{}', more than {LABELS_MAX}",
        brief::text(role.as_str())
    )]
    TooManyLabels { role: Role, labels: usize },
    #[error(
        "label with {bytes} bytes on a reservation for '{}', more than {LABEL_BYTES_MAX}",
        brief::text(role.as_str())
    )]
    LabelTooLong { role: Role, bytes: usize },
    #[error("'allocation_info' is set in {}, which an operator cannot", brief::resource(.0))]
    Allocated(Box<Resource>),
    #[error("the resources belong to several resource providers")]
    SeveralProviders,
    #[error("resource {} is not dynamically reserved", brief::resource(.0))]
    NotDynamicallyReserved(Box<Resource>),
    #[error(
        "reservation of {} names {}, not the principal '{principal}' of the caller",
        brief::resource(resource),
        named(rules::reserver(resource))
    )]
    ReservationPrincipal { resource: Box<Resource>, principal: Principal },
    #[error(
        "persistent volume {} cannot be reserved or unreserved; destroy it first",
        brief::resource(.0)
    )]
    PersistentVolume(Box<Resource>),
    #[error("the resources carry different reservations")]
    DifferentReservations,
    #[error("'source' and 'resources' differ in more than their reservations")]
    DifferentSource,
    #[error("a STATIC reservation can only be made or lifted by the agent's command line")]
    StaticReservation,
    #[error("resource {} is not a persistent volume", brief::resource(.0))]
    NotPersistentVolume(Box<Resource>),
    #[error(
        "read-only persistent volume not supported: the mode of {} must be RW",
        brief::resource(.0)
    )]
    ReadOnlyVolume(Box<Resource>),
    #[error(
        "persistent volume {} names {}, not the principal '{principal}' of the caller",
        brief::resource(resource),
        named(rules::creator(resource))
    )]
    VolumePrincipal { resource: Box<Resource>, principal: Principal },
    #[error("container path '{}' is no single relative name", brief::text(path))]
    ContainerPath { path: String },
    #[error(
        "persistence ID '{}' is not unique: it is used twice for the role '{}'",
        brief::text(id.as_str()), brief::text(role.as_str())
    )]
    DuplicateVolume { role: Role, id: VolumeId },
    #[error(
        "volume {} belongs to a resource provider, which cannot resize it",
        brief::resource(.0)
    )]
    ProviderVolume(Box<Resource>),
    #[error("shared volume {} cannot be resized", brief::resource(.0))]
    SharedResize(Box<Resource>),
    #[error(
        "the addition {} cannot be merged into the volume {}",
        brief::resource(addition),
        brief::resource(volume)
    )]
    NotAddable { volume: Box<Resource>, addition: Box<Resource> },
    #[error("MOUNT volume {} cannot be shrunk", brief::resource(.0))]
    MountShrink(Box<Resource>),
    #[error(
        "cannot shrink {} by {subtract}: more than 0 and less than its size",
        brief::resource(volume)
    )]
    ShrinkSize { volume: Box<Resource>, subtract: Scalar },
    #[error("'source' of RESERVE is not implemented for frameworks")]
    SourceUnsupported,
    #[error("resource {} is not allocated to a role of the framework", brief::resource(.0))]
    NotAllocated(Box<Resource>),
    #[error(
        "resource {} is allocated to the role '{role}', which the framework does not have",
        brief::resource(resource)
    )]
    FrameworkRole { resource: Box<Resource>, role: Role },
    #[error(
        "resource {} is allocated to the role '{allocated}', not to '{offered}' of the offer",
        brief::resource(resource)
    )]
    OtherAllocation { resource: Box<Resource>, allocated: Role, offered: Role },
    #[error(
        "resource {} is allocated to the role '{allocated}' but reserved for another",
        brief::resource(resource)
    )]
    ReservationRole { resource: Box<Resource>, allocated: Role },
    #[error(
        "shared volume {} needs the framework capability SHARED_RESOURCES",
        brief::resource(.0)
    )]
    SharedUnsupported(Box<Resource>),
    #[error(
        "{} needs the capability {capability}, which the agent lacks",
        brief::resource(resource)
    )]
    AgentLacks { resource: Box<Resource>, capability: AgentCapability },
}

/// How a message says whose a reservation or volume is.
fn named(principal: Option<&Principal>) -> String {
    match principal {
        Some(principal) => format!("the principal '{}'", brief::text(principal.as_str())),
        None => "no principal".to_owned(),
    }
}

impl InvalidOperation {
    /// Where in the request, when what is wrong lies in one element of a list.
    #[must_use]
    pub fn place(&self) -> Option<(ListField, usize)> {
        if let Self::Element { list, index, .. } = self {
            return Some((*list, *index));
        }
        None
    }
    /// What is wrong, without where.
    #[must_use]
    pub fn reason(&self) -> &Self {
        if let Self::Element { reason, .. } = self { reason.reason() } else { self }
    }
}

/// Who sends an ACCEPT, and what its offers are allocated to.
#[derive(Debug, Clone, Copy)]
pub struct FrameworkCaller<'a> {
    /// `FrameworkInfo.principal`, set or filled in at SUBSCRIBE, with or without authentication.
    pub principal: Option<&'a Principal>,
    /// The roles that it is subscribed with.
    pub roles: &'a BTreeSet<Role>,
    /// The role that all accepted offers are allocated to.
    pub allocation_role: &'a Role,
    /// What it can cope with.
    pub capabilities: &'a BTreeSet<FrameworkCapability>,
}

/// Checks an operator's operation by itself. `caller` is the authenticated principal.
///
/// # Errors
/// The first rule that is broken, with its place when it lies in a list.
pub fn operation(
    operation: &Operation,
    caller: Option<&Principal>,
) -> Result<(), InvalidOperation> {
    rules::check(operation, rules::Caller::Operator(caller))
}

/// Checks an operation of an ACCEPT by itself. `allocation_info` must be filled in where the
/// framework left it out: `Operation::allocated_to`.
///
/// # Errors
/// The first rule that is broken, with its place when it lies in a list.
pub fn framework_operation(
    operation: &Operation,
    caller: &FrameworkCaller<'_>,
) -> Result<(), InvalidOperation> {
    rules::check(operation, rules::Caller::Framework(caller))
}

/// Checks that the agent can cope with the operation.
///
/// # Errors
/// The first capability that it lacks.
pub fn agent_capabilities(
    operation: &Operation,
    has: &BTreeSet<AgentCapability>,
) -> Result<(), InvalidOperation> {
    rules::agent_capabilities(operation, has)
}
