//! From the wire into the domain: any of the three formats, checked in the order of spec §1.5.
//! What an operation demands on top is in `validate.rs`.

use std::collections::BTreeSet;

use crate::form::{DiskForm, LabelsForm, ReservationForm, ResourceForm, SourceForm, VolumeForm};
use crate::id::{Principal, ProviderId, VolumeId};
use crate::resource::{
    Disk, DiskSource, DiskSourceKind, Label, Labels, Persistence, Reservation, ReservationKind,
    Resource, VolumeMode, VolumeMount,
};
use crate::role::Role;
use crate::validate::InvalidResource;
use crate::value::{ItemSet, Range, Ranges, Scalar, Value};

impl TryFrom<ResourceForm> for Resource {
    type Error = InvalidResource;

    fn try_from(form: ResourceForm) -> Result<Self, InvalidResource> {
        let name = required("name", &form.name)?;
        if name.is_empty() {
            return Err(InvalidResource::EmptyName);
        }
        let value = value(&form)?;
        if form.disk.is_some() && name != "disk" {
            return Err(InvalidResource::DiskInfoNotDisk { name });
        }
        let disk = form.disk.as_ref().map(disk).transpose()?;
        let reservations = reservations(&form)?;
        let shared = form.shared.is_some();
        if shared && disk.as_ref().is_none_or(|disk| disk.persistence.is_none()) {
            return Err(InvalidResource::NotShareable { name });
        }
        let allocation_role = match form.allocation_info {
            None => None,
            Some(info) => Some(role(&required("allocation_info.role", &info.role)?)?),
        };
        let provider_id = match &form.provider_id {
            None => None,
            Some(id) => Some(required("provider_id.value", &id.value)?),
        };
        Ok(Self {
            name,
            value,
            reservations,
            disk,
            allocation_role,
            revocable: form.revocable.is_some(),
            shared,
            provider_id: provider_id
                .map(ProviderId::parse)
                .transpose()
                .map_err(InvalidResource::ProviderId)?,
        })
    }
}

fn required<T: Clone>(field: &'static str, value: &Option<T>) -> Result<T, InvalidResource> {
    value.clone().ok_or(InvalidResource::MissingField { field })
}

fn value(form: &ResourceForm) -> Result<Value, InvalidResource> {
    let fields = (&form.scalar, &form.ranges, &form.set);
    let kind = required("type", &form.kind)?;
    match kind.as_str() {
        "SCALAR" => match fields {
            (Some(scalar), None, None) => {
                scalar_value(required("scalar.value", &scalar.value)?).map(Value::Scalar)
            }
            _ => Err(InvalidResource::ScalarFields),
        },
        "RANGES" => match fields {
            (None, Some(ranges), None) => {
                let pairs = ranges.range.iter().map(|range| {
                    let begin = required("ranges.range.begin", &range.begin)?;
                    Ok((begin, required("ranges.range.end", &range.end)?))
                });
                ranges_value(&pairs.collect::<Result<Vec<_>, _>>()?).map(Value::Ranges)
            }
            _ => Err(InvalidResource::RangesFields),
        },
        "SET" => match fields {
            (None, None, Some(set)) => set_value(&set.item).map(Value::Set),
            _ => Err(InvalidResource::SetFields),
        },
        "TEXT" => Err(InvalidResource::UnsupportedType { kind }),
        _ => Err(InvalidResource::UnknownEnumerator { field: "type", name: kind }),
    }
}

fn scalar_value(value: f64) -> Result<Scalar, InvalidResource> {
    let scalar = Scalar::from_f64(value).ok_or(InvalidResource::ScalarRange { value })?;
    // Exactly nothing is legal, what only rounds to nothing is not.
    if value == 0.0 || scalar.is_positive() {
        return Ok(scalar);
    }
    Err(InvalidResource::ScalarNotPositive { value })
}

fn ranges_value(pairs: &[(u64, u64)]) -> Result<Ranges, InvalidResource> {
    let mut ranges = Vec::with_capacity(pairs.len());
    for &(begin, end) in pairs {
        if begin > end {
            return Err(InvalidResource::RangesInverted { begin, end });
        }
        ranges.push(Range { begin, end });
    }
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        if pair[1].begin <= pair[0].end {
            return Err(InvalidResource::RangesOverlap { first: pair[0], second: pair[1] });
        }
    }
    Ok(Ranges::from_unsorted(ranges))
}

fn set_value(items: &[String]) -> Result<ItemSet, InvalidResource> {
    let mut set = BTreeSet::new();
    for item in items {
        if !set.insert(item.clone()) {
            return Err(InvalidResource::SetDuplicate { item: item.clone() });
        }
    }
    Ok(ItemSet(set))
}

fn disk(form: &DiskForm) -> Result<Disk, InvalidResource> {
    let source = form.source.as_ref().map(disk_source).transpose()?;
    let volume = form.volume.as_ref().map(volume_mount).transpose()?;
    let persistence = match &form.persistence {
        None => None,
        Some(form) => Some(Persistence {
            id: VolumeId::parse(required("disk.persistence.id", &form.id)?)
                .map_err(InvalidResource::VolumeId)?,
            principal: form.principal.clone().map(Principal::new),
        }),
    };
    Ok(Disk { source, persistence, volume })
}

fn disk_source(form: &SourceForm) -> Result<DiskSource, InvalidResource> {
    let (kind, root) = match required("disk.source.type", &form.kind)?.as_str() {
        "PATH" => (DiskSourceKind::Path, &form.path),
        "MOUNT" => (DiskSourceKind::Mount, &form.mount),
        "BLOCK" => (DiskSourceKind::Block, &None),
        "RAW" => (DiskSourceKind::Raw, &None),
        "UNKNOWN" => return Err(InvalidResource::DiskSourceType { kind: "UNKNOWN".to_owned() }),
        name => {
            let (field, name) = ("disk.source.type", name.to_owned());
            return Err(InvalidResource::UnknownEnumerator { field, name });
        }
    };
    if matches!(kind, DiskSourceKind::Block | DiskSourceKind::Raw) {
        if form.path.is_some() {
            return Err(InvalidResource::DiskSourcePathForbidden { kind });
        }
        if form.mount.is_some() {
            return Err(InvalidResource::DiskSourceMountForbidden { kind });
        }
    }
    Ok(DiskSource {
        kind,
        root: root.as_ref().and_then(|root| root.root.clone()),
        id: form.id.clone(),
        metadata: labels(form.metadata.as_ref())?,
        profile: form.profile.clone(),
        vendor: form.vendor.clone(),
    })
}

fn volume_mount(form: &VolumeForm) -> Result<VolumeMount, InvalidResource> {
    if let Some(path) = &form.host_path {
        return Err(InvalidResource::VolumeHostPath { path: path.clone() });
    }
    let mode = match required("disk.volume.mode", &form.mode)?.as_str() {
        "RW" => VolumeMode::Rw,
        "RO" => VolumeMode::Ro,
        name => {
            let (field, name) = ("disk.volume.mode", name.to_owned());
            return Err(InvalidResource::UnknownEnumerator { field, name });
        }
    };
    let container_path = required("disk.volume.container_path", &form.container_path)?;
    Ok(VolumeMount { container_path, mode })
}

fn labels(form: Option<&LabelsForm>) -> Result<Labels, InvalidResource> {
    let labels = form.iter().flat_map(|form| &form.labels).map(|label| {
        let key = required("labels.key", &label.key)?;
        Ok(Label { key, value: label.value.clone() })
    });
    labels.collect::<Result<Vec<_>, _>>().map(Labels::from)
}

fn role(text: &str) -> Result<Role, InvalidResource> {
    Role::parse(text).map_err(InvalidResource::Role)
}

fn reservations(form: &ResourceForm) -> Result<Vec<Reservation>, InvalidResource> {
    if form.reservations.is_empty() {
        return legacy_reservation(form);
    }
    let stack: Vec<Reservation> = form.reservations.iter().map(entry).collect::<Result<_, _>>()?;
    for pair in stack.windows(2) {
        if pair[1].kind == ReservationKind::Static {
            return Err(InvalidResource::RefinementStatic { role: pair[1].role.clone() });
        }
        if !pair[1].role.is_strict_subrole_of(&pair[0].role) {
            let [below, above] = [&pair[0], &pair[1]].map(|entry| entry.role.clone());
            return Err(InvalidResource::RefinementNotSubrole { below, above });
        }
    }
    match &stack[..] {
        [only] => consistent(form, only)?,
        _ if form.role.is_some() => return Err(InvalidResource::EndpointRoleWithRefinement),
        _ if form.reservation.is_some() => {
            return Err(InvalidResource::EndpointReservationWithRefinement);
        }
        _ => {}
    }
    Ok(stack)
}

fn entry(form: &ReservationForm) -> Result<Reservation, InvalidResource> {
    let kind = match form.kind.as_deref() {
        Some("STATIC") => ReservationKind::Static,
        Some("DYNAMIC") => ReservationKind::Dynamic,
        _ => return Err(InvalidResource::ReservationTypeMissing),
    };
    let role = role(form.role.as_deref().ok_or(InvalidResource::ReservationRoleMissing)?)?;
    if role.is_star() {
        return Err(InvalidResource::StarCannotBeReserved);
    }
    let principal = form.principal.clone().map(Principal::new);
    Ok(Reservation { kind, role, principal, labels: labels(form.labels.as_ref())? })
}

/// The pre-refinement fields: none or one reservation.
fn legacy_reservation(form: &ResourceForm) -> Result<Vec<Reservation>, InvalidResource> {
    let role = form.role.as_deref().map_or_else(|| Ok(Role::star()), role)?;
    let Some(reservation) = &form.reservation else {
        let (kind, principal, labels) = (ReservationKind::Static, None, Labels::default());
        let reserved = !role.is_star();
        return Ok(reserved
            .then_some(Reservation { kind, role, principal, labels })
            .into_iter()
            .collect());
    };
    if reservation.kind.is_some() {
        return Err(InvalidResource::LegacyReservationType);
    }
    if reservation.role.is_some() {
        return Err(InvalidResource::LegacyReservationRole);
    }
    if role.is_star() {
        return Err(InvalidResource::StarCannotBeReserved);
    }
    Ok(vec![Reservation {
        kind: ReservationKind::Dynamic,
        role,
        principal: reservation.principal.clone().map(Principal::new),
        labels: labels(reservation.labels.as_ref())?,
    }])
}

/// Beside a stack of one entry the pre-refinement fields may only say the same.
fn consistent(form: &ResourceForm, only: &Reservation) -> Result<(), InvalidResource> {
    if let Some(role) = form.role.as_deref().filter(|role| *role != only.role.as_str()) {
        let (role, reserved) = (role.to_owned(), only.role.clone());
        return Err(InvalidResource::EndpointRoleMismatch { role, reserved });
    }
    match (only.kind, &form.reservation) {
        (ReservationKind::Static, Some(_)) => Err(InvalidResource::EndpointStaticWithReservation),
        (ReservationKind::Static, None) => Ok(()),
        (ReservationKind::Dynamic, reservation) => {
            if form.role.is_some() != reservation.is_some() {
                return Err(InvalidResource::EndpointRoleReservationPair);
            }
            let Some(reservation) = reservation else { return Ok(()) };
            if reservation.principal.as_deref() != only.principal.as_ref().map(Principal::as_str) {
                return Err(InvalidResource::EndpointPrincipalMismatch);
            }
            if labels(reservation.labels.as_ref())? != only.labels {
                return Err(InvalidResource::EndpointLabelsMismatch);
            }
            Ok(())
        }
    }
}
