//! What is wrong with a resource or an operation: the errors, and every rule of the operator
//! path (spec §1.5, §2.2) that needs no state of an agent. Sets and quantities are judged in
//! `conversion.rs`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::collection::Resources;
use crate::id::{InvalidId, Principal, VolumeId};
use crate::operation::Operation;
use crate::resource::{Disk, DiskSourceKind, Reservation, Resource, VolumeMode};
use crate::role::{InvalidRole, Role};
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
    #[error("'{name}' is no value of the required field '{field}'")]
    UnknownEnumerator { field: &'static str, name: String },
    #[error("resource has an empty name")]
    EmptyName,
    #[error("resource type {kind} is not supported")]
    UnsupportedType { kind: String },
    #[error("a SCALAR resource needs 'scalar', and no 'ranges' or 'set'")]
    ScalarFields,
    #[error("scalar {value} does not fit into 64 bits of thousandths")]
    ScalarRange { value: f64 },
    #[error("scalar {value} is negative, or rounds to nothing")]
    ScalarNotPositive { value: f64 },
    #[error("a RANGES resource needs 'ranges' with begin and end, and no 'scalar' or 'set'")]
    RangesFields,
    #[error("range {begin}-{end} ends before it begins")]
    RangesInverted { begin: u64, end: u64 },
    #[error("ranges {}-{} and {}-{} overlap", first.begin, first.end, second.begin, second.end)]
    RangesOverlap { first: Range, second: Range },
    #[error("a SET resource needs 'set', and no 'scalar' or 'ranges'")]
    SetFields,
    #[error("set holds '{item}' twice")]
    SetDuplicate { item: String },
    #[error("'disk' is set for the resource '{name}', which is no disk")]
    DiskInfoNotDisk { name: String },
    #[error("disk source type {kind} is not supported")]
    DiskSourceType { kind: String },
    #[error("'path' is set for a {kind} disk")]
    DiskSourcePathForbidden { kind: DiskSourceKind },
    #[error("'mount' is set for a {kind} disk")]
    DiskSourceMountForbidden { kind: DiskSourceKind },
    #[error("invalid persistence id: {0}")]
    VolumeId(#[source] InvalidId),
    #[error("'host_path' is set to '{path}' in a volume")]
    VolumeHostPath { path: String },
    #[error("invalid role: {0}")]
    Role(#[source] InvalidRole),
    #[error("'type' of 'reservation' is set, which belongs into 'reservations'")]
    LegacyReservationType,
    #[error("'role' of 'reservation' is set, which belongs into 'reservations'")]
    LegacyReservationRole,
    #[error("role '*' cannot be reserved")]
    StarCannotBeReserved,
    #[error("reservation without 'type'")]
    ReservationTypeMissing,
    #[error("reservation without 'role'")]
    ReservationRoleMissing,
    #[error("refined reservation for '{role}' is STATIC")]
    RefinementStatic { role: Role },
    #[error("role '{above}' of a refined reservation is not below '{below}'")]
    RefinementNotSubrole { below: Role, above: Role },
    #[error("'role' is '{role}', but 'reservations' says '{reserved}'")]
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
    #[error("resource '{name}' is no persistent volume, so it cannot be shared")]
    NotShareable { name: String },
    #[error("invalid provider id: {0}")]
    ProviderId(#[source] InvalidId),
}

/// Why an operation is malformed, whatever the agent has.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the message of each variant says what it is")]
pub enum InvalidOperation {
    #[error("no resources are given")]
    Empty,
    #[error("the size of {0} must be more than nothing")]
    NoSize(Box<Resource>),
    #[error("the 'gpus' resource must be a whole number, not {0}")]
    FractionalGpus(Scalar),
    #[error("persistent volume {0} cannot be created from revocable resources")]
    RevocableVolume(Box<Resource>),
    #[error("persistent volume {0} cannot be created from unreserved resources")]
    UnreservedVolume(Box<Resource>),
    #[error("expecting 'volume' to be set for persistent volume {0}")]
    VolumeMissing(Box<Resource>),
    #[error("non-persistent volume is not supported: {0}")]
    VolumeWithoutPersistence(Box<Resource>),
    #[error("'disk' is set but empty in {0}")]
    EmptyDisk(Box<Resource>),
    #[error("dynamically reserved resource {0} cannot be revocable")]
    RevocableReservation(Box<Resource>),
    #[error("{labels} labels on a reservation for '{role}', more than {LABELS_MAX}")]
    TooManyLabels { role: Role, labels: usize },
    #[error("label with {bytes} bytes on a reservation for '{role}', more than {LABEL_BYTES_MAX}")]
    LabelTooLong { role: Role, bytes: usize },
    #[error("'allocation_info' is set in {0}, which an operator cannot")]
    Allocated(Box<Resource>),
    #[error("the resources belong to several resource providers")]
    SeveralProviders,
    #[error("resource {0} is not dynamically reserved")]
    NotDynamicallyReserved(Box<Resource>),
    #[error("reservation of {resource} must have the principal '{principal}' of the caller")]
    ReservationPrincipal { resource: Box<Resource>, principal: Principal },
    #[error("persistent volume {0} cannot be reserved or unreserved; destroy it first")]
    PersistentVolume(Box<Resource>),
    #[error("the resources carry different reservations")]
    DifferentReservations,
    #[error("'source' and 'resources' differ in more than their reservations")]
    DifferentSource,
    #[error("resource {0} is not a persistent volume")]
    NotPersistentVolume(Box<Resource>),
    #[error("persistent volume {0} is read-only: the mode must be RW")]
    ReadOnlyVolume(Box<Resource>),
    #[error("volume {resource} must have the principal '{principal}' of the caller")]
    VolumePrincipal { resource: Box<Resource>, principal: Principal },
    #[error("container path '{path}' is no single relative name")]
    ContainerPath { path: String },
    #[error("persistence id '{id}' is used twice for the role '{role}'")]
    DuplicateVolume { role: Role, id: VolumeId },
    #[error("volume {0} belongs to a resource provider, which cannot resize it")]
    ProviderVolume(Box<Resource>),
    #[error("shared volume {0} cannot be resized")]
    SharedResize(Box<Resource>),
    #[error("the addition {addition} cannot be merged into the volume {volume}")]
    NotAddable { volume: Box<Resource>, addition: Box<Resource> },
    #[error("MOUNT volume {0} cannot be shrunk")]
    MountShrink(Box<Resource>),
    #[error("cannot shrink {volume} by {subtract}: more than 0 and less than its size")]
    ShrinkSize { volume: Box<Resource>, subtract: Scalar },
}

/// Checks an operator's operation by itself. `caller` is the authenticated principal.
///
/// # Errors
/// The first rule that is broken.
pub fn operation(
    operation: &Operation,
    caller: Option<&Principal>,
) -> Result<(), InvalidOperation> {
    match operation {
        Operation::Reserve { resources, source } => reserve(resources, source, caller),
        Operation::Unreserve { resources } => unreserve(resources),
        Operation::Create { volumes } => create(volumes, caller),
        Operation::Destroy { volumes } => destroy(volumes),
        Operation::Grow { volume, addition } => grow(volume, addition),
        Operation::Shrink { volume, subtract } => shrink(volume, *subtract),
    }
}

fn reserve(
    resources: &[Resource],
    source: &[Resource],
    caller: Option<&Principal>,
) -> Result<(), InvalidOperation> {
    list(resources)?;
    source.iter().try_for_each(resource)?;
    if !source.is_empty() {
        re_reserve(resources, source)?;
    }
    single_provider(resources.iter().chain(source))?;
    for resource in resources {
        if !resource.is_dynamically_reserved() {
            return Err(InvalidOperation::NotDynamicallyReserved(boxed(resource)));
        }
        let top = resource.reservations.last();
        if let Some(principal) = differs(caller, top.and_then(|top| top.principal.as_ref())) {
            let resource = boxed(resource);
            return Err(InvalidOperation::ReservationPrincipal { resource, principal });
        }
    }
    // Its directory depends on the top role: the data would be lost (decisions A10).
    resources.iter().chain(source).try_for_each(|resource| {
        let volume = resource.is_persistent_volume();
        if volume { Err(InvalidOperation::PersistentVolume(boxed(resource))) } else { Ok(()) }
    })
}

fn re_reserve(resources: &[Resource], source: &[Resource]) -> Result<(), InvalidOperation> {
    let same_stack =
        |list: &[Resource]| list.windows(2).all(|p| p[0].reservations == p[1].reservations);
    if !same_stack(source) || !same_stack(resources) {
        return Err(InvalidOperation::DifferentReservations);
    }
    let unreserved =
        |list: &[Resource]| list.iter().map(Resource::to_unreserved).collect::<Resources>();
    if unreserved(source) != unreserved(resources) {
        return Err(InvalidOperation::DifferentSource);
    }
    Ok(())
}

fn unreserve(resources: &[Resource]) -> Result<(), InvalidOperation> {
    list(resources)?;
    single_provider(resources)?;
    for resource in resources {
        if !resource.is_dynamically_reserved() {
            return Err(InvalidOperation::NotDynamicallyReserved(boxed(resource)));
        }
        if resource.is_persistent_volume() {
            return Err(InvalidOperation::PersistentVolume(boxed(resource)));
        }
    }
    Ok(())
}

fn create(volumes: &[Resource], caller: Option<&Principal>) -> Result<(), InvalidOperation> {
    list(volumes)?;
    single_provider(volumes)?;
    let mut names = BTreeSet::new();
    for volume in volumes {
        writable_volume(volume)?;
        if let Some((role, id)) = volume.reservation_role().zip(volume.volume_id())
            && !names.insert((role, id))
        {
            return Err(InvalidOperation::DuplicateVolume { role: role.clone(), id: id.clone() });
        }
        let disk = volume.disk.as_ref();
        let creator = disk.and_then(|disk| disk.persistence.as_ref()?.principal.as_ref());
        if let Some(principal) = differs(caller, creator) {
            let resource = boxed(volume);
            return Err(InvalidOperation::VolumePrincipal { resource, principal });
        }
        // A task sees the volume under one name in its sandbox (decisions A6).
        let path = disk.and_then(|disk| Some(disk.volume.as_ref()?.container_path.as_str()));
        let path = path.unwrap_or_default();
        if path.contains('/') || matches!(path, "" | "." | "..") {
            return Err(InvalidOperation::ContainerPath { path: path.to_owned() });
        }
    }
    Ok(())
}

fn destroy(volumes: &[Resource]) -> Result<(), InvalidOperation> {
    list(volumes)?;
    single_provider(volumes)?;
    volumes.iter().try_for_each(writable_volume)
}

fn grow(volume: &Resource, addition: &Resource) -> Result<(), InvalidOperation> {
    resizable(volume)?;
    resource(addition)?;
    has_size(addition)?;
    let plain = volume.to_plain_disk();
    let merged: Resources = [&plain, addition].into_iter().collect();
    if merged.len() != 1 {
        let [volume, addition] = [volume, addition].map(boxed);
        return Err(InvalidOperation::NotAddable { volume, addition });
    }
    Ok(())
}

fn shrink(volume: &Resource, subtract: Scalar) -> Result<(), InvalidOperation> {
    resizable(volume)?;
    if volume.disk_source().is_some_and(|source| source.kind == DiskSourceKind::Mount) {
        return Err(InvalidOperation::MountShrink(boxed(volume)));
    }
    let size = volume.value.as_scalar().unwrap_or_default();
    if !subtract.is_positive() || subtract >= size {
        return Err(InvalidOperation::ShrinkSize { volume: boxed(volume), subtract });
    }
    Ok(())
}

fn resizable(volume: &Resource) -> Result<(), InvalidOperation> {
    resource(volume)?;
    if volume.provider_id.is_some() {
        return Err(InvalidOperation::ProviderVolume(boxed(volume)));
    }
    writable_volume(volume)?;
    if volume.shared {
        return Err(InvalidOperation::SharedResize(boxed(volume)));
    }
    Ok(())
}

fn list(resources: &[Resource]) -> Result<(), InvalidOperation> {
    if resources.is_empty() {
        return Err(InvalidOperation::Empty);
    }
    resources.iter().try_for_each(resource)
}

/// The operation-level check of one resource (spec §1.5, end).
fn resource(resource: &Resource) -> Result<(), InvalidOperation> {
    if let Some(gpus) =
        resource.value.as_scalar().filter(|s| resource.name == "gpus" && !s.is_whole())
    {
        return Err(InvalidOperation::FractionalGpus(gpus));
    }
    if let Some(held) = &resource.disk {
        disk(resource, held)?;
    }
    if resource.revocable && resource.is_dynamically_reserved() {
        return Err(InvalidOperation::RevocableReservation(boxed(resource)));
    }
    if resource.allocation_role.is_some() {
        return Err(InvalidOperation::Allocated(boxed(resource)));
    }
    resource.reservations.iter().try_for_each(labels)
}

fn disk(resource: &Resource, disk: &Disk) -> Result<(), InvalidOperation> {
    match (&disk.persistence, &disk.volume, &disk.source) {
        (Some(_), _, _) if resource.revocable => {
            Err(InvalidOperation::RevocableVolume(boxed(resource)))
        }
        (Some(_), _, _) if !resource.is_reserved() => {
            Err(InvalidOperation::UnreservedVolume(boxed(resource)))
        }
        (Some(_), None, _) => Err(InvalidOperation::VolumeMissing(boxed(resource))),
        (None, Some(_), _) => Err(InvalidOperation::VolumeWithoutPersistence(boxed(resource))),
        (None, None, None) => Err(InvalidOperation::EmptyDisk(boxed(resource))),
        (Some(_), Some(_), _) | (None, None, Some(_)) => Ok(()),
    }
}

fn labels(reservation: &Reservation) -> Result<(), InvalidOperation> {
    let list = reservation.labels.as_slice();
    let role = || reservation.role.clone();
    if list.len() > LABELS_MAX {
        return Err(InvalidOperation::TooManyLabels { role: role(), labels: list.len() });
    }
    let bytes = |value: &Option<String>| value.as_ref().map_or(0, String::len);
    let longest = list.iter().map(|label| label.key.len() + bytes(&label.value)).max();
    match longest {
        Some(bytes) if bytes > LABEL_BYTES_MAX => {
            Err(InvalidOperation::LabelTooLong { role: role(), bytes })
        }
        Some(_) | None => Ok(()),
    }
}

/// A volume that may be made, removed or resized. One without a size would be no entry of any
/// set, and yet name a directory.
fn writable_volume(volume: &Resource) -> Result<(), InvalidOperation> {
    has_size(volume)?;
    let mount = volume.disk.as_ref().and_then(|disk| disk.volume.as_ref());
    match mount {
        Some(mount) if volume.is_persistent_volume() => match mount.mode {
            VolumeMode::Rw => Ok(()),
            VolumeMode::Ro => Err(InvalidOperation::ReadOnlyVolume(boxed(volume))),
        },
        Some(_) | None => Err(InvalidOperation::NotPersistentVolume(boxed(volume))),
    }
}

fn has_size(resource: &Resource) -> Result<(), InvalidOperation> {
    if resource.value.is_empty() {
        return Err(InvalidOperation::NoSize(boxed(resource)));
    }
    Ok(())
}

fn single_provider<'a>(
    resources: impl IntoIterator<Item = &'a Resource>,
) -> Result<(), InvalidOperation> {
    let providers: BTreeSet<_> = resources.into_iter().map(|r| &r.provider_id).collect();
    if providers.len() > 1 { Err(InvalidOperation::SeveralProviders) } else { Ok(()) }
}

/// The caller's principal, when there is one and the resource has another or none.
fn differs(caller: Option<&Principal>, named: Option<&Principal>) -> Option<Principal> {
    caller.filter(|caller| named != Some(caller)).cloned()
}

fn boxed(resource: &Resource) -> Box<Resource> {
    Box::new(resource.clone())
}
