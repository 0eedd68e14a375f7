//! Every rule on an operation (spec §2.2) that needs no state of an agent, for operators and
//! for frameworks: what both must heed stands once. The errors are in `validate.rs`. Must not
//! know what any agent has.

use std::collections::BTreeSet;

use crate::capability::{AgentCapability, FrameworkCapability};
use crate::collection::Resources;
use crate::id::{ID_BYTES_MAX, Principal};
use crate::operation::Operation;
use crate::resource::{Disk, DiskSourceKind, Reservation, ReservationKind, Resource, VolumeMode};
use crate::validate::{FrameworkCaller, InvalidOperation, LABEL_BYTES_MAX, LABELS_MAX, ListField};
use crate::value::Scalar;

/// Who wants it.
#[derive(Clone, Copy)]
pub(crate) enum Caller<'a> {
    /// An operator, by its principal.
    Operator(Option<&'a Principal>),
    /// A framework.
    Framework(&'a FrameworkCaller<'a>),
}

impl Caller<'_> {
    fn principal(&self) -> Option<&Principal> {
        match self {
            Self::Operator(principal) => *principal,
            Self::Framework(framework) => framework.principal,
        }
    }
    /// What the resource says of its allocation.
    fn allocation(&self, resource: &Resource) -> Result<(), InvalidOperation> {
        let framework = match self {
            Self::Operator(_) if resource.allocation_role.is_none() => return Ok(()),
            Self::Operator(_) => return Err(InvalidOperation::Allocated(boxed(resource))),
            Self::Framework(framework) => framework,
        };
        let Some(role) = &resource.allocation_role else {
            return Err(InvalidOperation::NotAllocated(boxed(resource)));
        };
        if !framework.roles.contains(role) {
            let (resource, role) = (boxed(resource), role.clone());
            return Err(InvalidOperation::FrameworkRole { resource, role });
        }
        if role != framework.allocation_role {
            return Err(InvalidOperation::OtherAllocation {
                resource: boxed(resource),
                allocated: role.clone(),
                offered: framework.allocation_role.clone(),
            });
        }
        Ok(())
    }
}

/// Checks an operation by itself.
pub(crate) fn check(operation: &Operation, caller: Caller<'_>) -> Result<(), InvalidOperation> {
    match operation {
        Operation::Reserve { resources, source } => reserve(resources, source, caller),
        Operation::Unreserve { resources } => unreserve(resources, caller),
        Operation::Create { volumes } => create(volumes, caller),
        Operation::Destroy { volumes } => destroy(volumes, caller),
        Operation::Grow { volume, addition } => grow(volume, addition, caller),
        Operation::Shrink { volume, subtract } => shrink(volume, *subtract, caller),
        Operation::Launch(_) => match caller {
            Caller::Operator(_) => Err(InvalidOperation::LaunchByOperator),
            // Its tasks are checked one by one.
            Caller::Framework(_) => Ok(()),
        },
    }
}

/// Checks what the agent must be able to cope with.
pub(crate) fn agent_capabilities(
    operation: &Operation,
    has: &BTreeSet<AgentCapability>,
) -> Result<(), InvalidOperation> {
    let needs = |resource: &Resource, capability| match has.contains(&capability) {
        true => Ok(()),
        false => Err(InvalidOperation::AgentLacks { resource: boxed(resource), capability }),
    };
    let of_roles = |resource: &Resource| {
        if resource.reservations.iter().any(|level| level.role.is_hierarchical()) {
            needs(resource, AgentCapability::HierarchicalRole)?;
        }
        if resource.is_refined() {
            needs(resource, AgentCapability::ReservationRefinement)?;
        }
        Ok(())
    };
    match operation {
        Operation::Reserve { resources, .. } => each(ListField::Resources, resources, of_roles),
        Operation::Create { volumes } => each(ListField::Volumes, volumes, of_roles),
        Operation::Grow { volume, .. } | Operation::Shrink { volume, .. } => {
            needs(volume, AgentCapability::ResizeVolume)
        }
        Operation::Unreserve { .. } | Operation::Destroy { .. } | Operation::Launch(_) => Ok(()),
    }
}

/// Who reserved it, at the top of its stack.
pub(crate) fn reserver(resource: &Resource) -> Option<&Principal> {
    resource.reservations.last()?.principal.as_ref()
}

/// Who created the volume.
pub(crate) fn creator(volume: &Resource) -> Option<&Principal> {
    volume.disk.as_ref()?.persistence.as_ref()?.principal.as_ref()
}

fn reserve(
    resources: &[Resource],
    source: &[Resource],
    caller: Caller<'_>,
) -> Result<(), InvalidOperation> {
    if matches!(caller, Caller::Framework(_)) && !source.is_empty() {
        return Err(InvalidOperation::SourceUnsupported);
    }
    list(ListField::Resources, resources)?;
    each(ListField::Source, source, resource)?;
    if !source.is_empty() {
        re_reserve(resources, source)?;
    }
    single_provider(resources.iter().chain(source))?;
    each(ListField::Resources, resources, |resource| {
        if !resource.is_dynamically_reserved() {
            return Err(InvalidOperation::NotDynamicallyReserved(boxed(resource)));
        }
        if let Some(principal) = differs(caller.principal(), reserver(resource)) {
            let resource = boxed(resource);
            return Err(InvalidOperation::ReservationPrincipal { resource, principal });
        }
        caller.allocation(resource)?;
        if let Caller::Framework(framework) = caller
            && resource.reservation_role() != Some(framework.allocation_role)
        {
            let (resource, allocated) = (boxed(resource), framework.allocation_role.clone());
            return Err(InvalidOperation::ReservationRole { resource, allocated });
        }
        no_volume(resource)
    })?;
    each(ListField::Source, source, |resource| {
        caller.allocation(resource)?;
        no_volume(resource)
    })
}

/// Its directory depends on the top role: the data would be lost (decisions A10).
fn no_volume(resource: &Resource) -> Result<(), InvalidOperation> {
    if resource.is_persistent_volume() {
        return Err(InvalidOperation::PersistentVolume(boxed(resource)));
    }
    Ok(())
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
    // An agent that restarts must find what its command line declares under every reservation.
    let declared = |list: &[Resource]| list.first().and_then(static_bottom).cloned();
    if declared(source) != declared(resources) {
        return Err(InvalidOperation::StaticReservation);
    }
    Ok(())
}

fn static_bottom(resource: &Resource) -> Option<&Reservation> {
    resource.reservations.first().filter(|bottom| bottom.kind == ReservationKind::Static)
}

fn unreserve(resources: &[Resource], caller: Caller<'_>) -> Result<(), InvalidOperation> {
    list(ListField::Resources, resources)?;
    single_provider(resources)?;
    each(ListField::Resources, resources, |resource| {
        if !resource.is_dynamically_reserved() {
            return Err(InvalidOperation::NotDynamicallyReserved(boxed(resource)));
        }
        no_volume(resource)?;
        caller.allocation(resource)
    })
}

fn create(volumes: &[Resource], caller: Caller<'_>) -> Result<(), InvalidOperation> {
    list(ListField::Volumes, volumes)?;
    single_provider(volumes)?;
    let mut names = BTreeSet::new();
    each(ListField::Volumes, volumes, |volume| {
        writable_volume(volume)?;
        if let Some((role, id)) = volume.reservation_role().zip(volume.volume_id())
            && !names.insert((role, id))
        {
            return Err(InvalidOperation::DuplicateVolume { role: role.clone(), id: id.clone() });
        }
        if let Caller::Framework(framework) = caller
            && volume.shared
            && !framework.capabilities.contains(&FrameworkCapability::SharedResources)
        {
            return Err(InvalidOperation::SharedUnsupported(boxed(volume)));
        }
        if let Some(principal) = differs(caller.principal(), creator(volume)) {
            let resource = boxed(volume);
            return Err(InvalidOperation::VolumePrincipal { resource, principal });
        }
        caller.allocation(volume)?;
        container_path(volume)
    })
}

/// A task sees the volume under one name in its sandbox (decisions A6).
pub(crate) fn container_path(volume: &Resource) -> Result<(), InvalidOperation> {
    let mount = volume.disk.as_ref().and_then(|disk| disk.volume.as_ref());
    let path = mount.map(|mount| mount.container_path.as_str()).unwrap_or_default();
    let is_name = !matches!(path, "" | "." | "..")
        && path.len() <= ID_BYTES_MAX
        && !path.contains(|c: char| c == '/' || c.is_control());
    if is_name { Ok(()) } else { Err(InvalidOperation::ContainerPath { path: path.to_owned() }) }
}

fn destroy(volumes: &[Resource], caller: Caller<'_>) -> Result<(), InvalidOperation> {
    list(ListField::Volumes, volumes)?;
    single_provider(volumes)?;
    each(ListField::Volumes, volumes, |volume| {
        writable_volume(volume)?;
        caller.allocation(volume)
    })
}

fn grow(
    volume: &Resource,
    addition: &Resource,
    caller: Caller<'_>,
) -> Result<(), InvalidOperation> {
    resizable(volume)?;
    resource(addition)?;
    has_size(addition)?;
    let plain = volume.to_plain_disk();
    let merged: Resources = [&plain, addition].into_iter().collect();
    if merged.len() != 1 {
        let [volume, addition] = [volume, addition].map(boxed);
        return Err(InvalidOperation::NotAddable { volume, addition });
    }
    [volume, addition].into_iter().try_for_each(|resource| caller.allocation(resource))
}

fn shrink(volume: &Resource, subtract: Scalar, caller: Caller<'_>) -> Result<(), InvalidOperation> {
    resizable(volume)?;
    if volume.disk_source().is_some_and(|source| source.kind == DiskSourceKind::Mount) {
        return Err(InvalidOperation::MountShrink(boxed(volume)));
    }
    let size = volume.value.as_scalar().unwrap_or_default();
    if !subtract.is_positive() || subtract >= size {
        return Err(InvalidOperation::ShrinkSize { volume: boxed(volume), subtract });
    }
    caller.allocation(volume)
}

fn resizable(volume: &Resource) -> Result<(), InvalidOperation> {
    if volume.provider_id.is_some() {
        return Err(InvalidOperation::ProviderVolume(boxed(volume)));
    }
    writable_volume(volume)?;
    if volume.shared {
        return Err(InvalidOperation::SharedResize(boxed(volume)));
    }
    resource(volume)
}

/// A list that is not empty, of resources that are sound.
fn list(name: ListField, resources: &[Resource]) -> Result<(), InvalidOperation> {
    if resources.is_empty() {
        return Err(InvalidOperation::Empty);
    }
    each(name, resources, resource)
}

/// Checks one after the other, and says which one is wrong.
fn each<'a>(
    list: ListField,
    resources: &'a [Resource],
    mut check: impl FnMut(&'a Resource) -> Result<(), InvalidOperation>,
) -> Result<(), InvalidOperation> {
    resources.iter().enumerate().try_for_each(|(index, resource)| {
        let wrong = |reason| InvalidOperation::Element { list, index, reason: Box::new(reason) };
        check(resource).map_err(wrong)
    })
}

/// The operation-level check of one resource (spec §1.5, end).
pub(crate) fn resource(resource: &Resource) -> Result<(), InvalidOperation> {
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
