//! `Resource` ⇄ `ResourceForm` ⇄ the domain's resource, in the three formats of reservations
//! (spec §1.4). Next: `convert/operation.rs`.

use resources::form::{
    AllocationForm, DiskForm, Format, IdForm, LabelForm, LabelsForm, PersistenceForm, Presence,
    RangeForm, RangesForm, Refined, ReservationForm, ResourceForm, RootForm, ScalarForm, SetForm,
    SourceForm, VolumeForm,
};
use resources::resource::Resource;
use resources::validate::InvalidResource;

use crate::convert::InvalidWire;
use crate::mesos::v1;
use crate::mesos::v1::resource::disk_info::{Persistence, Source, source};
use crate::mesos::v1::resource::{
    AllocationInfo, DiskInfo, ReservationInfo, RevocableInfo, SharedInfo, reservation_info,
};
use crate::mesos::v1::value::{self, Scalar, Set};
use crate::mesos::v1::volume;

/// A resource in any of the three formats.
///
/// # Errors
/// When it breaks a rule of spec §1.5.
pub fn from_wire(wire: v1::Resource) -> Result<Resource, InvalidResource> {
    Resource::try_from(to_form(wire))
}

/// Resources in any of the three formats. `field` is where they stand, for the error.
///
/// # Errors
/// Names the first one that breaks a rule of spec §1.5.
pub fn list_from_wire(
    field: &'static str,
    wire: Vec<v1::Resource>,
) -> Result<Vec<Resource>, InvalidWire> {
    let convert = |(index, resource)| {
        from_wire(resource).map_err(|source| InvalidWire::Element { field, index, source })
    };
    wire.into_iter().enumerate().map(convert).collect()
}

/// The resource in the given format. A refined stack has no pre-refinement format: it comes out
/// as POST, and whoever serves clients without RESERVATION_REFINEMENT leaves such resources out
/// (see [`try_to_wire`]).
///
/// # Panics
/// Never: POST has room for every stack.
#[must_use]
pub fn to_wire(resource: &Resource, format: Format) -> v1::Resource {
    try_to_wire(resource, format)
        .or_else(|_| try_to_wire(resource, Format::Post))
        .expect("POST has room for every stack")
}

/// The resource in the given format.
///
/// # Errors
/// When `format` is PRE and the reservation is refined.
pub fn try_to_wire(resource: &Resource, format: Format) -> Result<v1::Resource, Refined> {
    resource.to_form(format).map(from_form)
}

/// The resources in the given format, each as [`to_wire`] makes it.
pub fn list_to_wire<'r>(
    resources: impl IntoIterator<Item = &'r Resource>,
    format: Format,
) -> Vec<v1::Resource> {
    resources.into_iter().map(|resource| to_wire(resource, format)).collect()
}

/// The unchecked shape of the resource. Enumerators become their names; numbers without a name
/// count as unset.
#[must_use]
pub fn to_form(wire: v1::Resource) -> ResourceForm {
    ResourceForm {
        name: Some(wire.name),
        kind: value::Type::try_from(wire.r#type).ok().map(|kind| kind.as_str_name().to_owned()),
        scalar: wire.scalar.map(|scalar| ScalarForm { value: Some(scalar.value) }),
        ranges: wire.ranges.map(|ranges| RangesForm {
            range: ranges
                .range
                .into_iter()
                .map(|range| RangeForm { begin: Some(range.begin), end: Some(range.end) })
                .collect(),
        }),
        set: wire.set.map(|set| SetForm { item: set.item }),
        role: wire.role,
        disk: wire.disk.map(disk_to_form),
        reservation: wire.reservation.map(reservation_to_form),
        revocable: wire.revocable.map(|RevocableInfo {}| Presence {}),
        shared: wire.shared.map(|SharedInfo {}| Presence {}),
        allocation_info: wire.allocation_info.map(|info| AllocationForm { role: info.role }),
        provider_id: wire.provider_id.map(|id| IdForm { value: Some(id.value) }),
        reservations: wire.reservations.into_iter().map(reservation_to_form).collect(),
    }
}

fn reservation_to_form(info: ReservationInfo) -> ReservationForm {
    ReservationForm {
        kind: info
            .r#type
            .and_then(|kind| reservation_info::Type::try_from(kind).ok())
            .map(|kind| kind.as_str_name().to_owned()),
        role: info.role,
        principal: info.principal,
        labels: info.labels.map(labels_to_form),
    }
}

fn labels_to_form(labels: v1::Labels) -> LabelsForm {
    let label = |label: v1::Label| LabelForm { key: Some(label.key), value: label.value };
    LabelsForm { labels: labels.labels.into_iter().map(label).collect() }
}

fn disk_to_form(disk: DiskInfo) -> DiskForm {
    DiskForm {
        persistence: disk.persistence.map(|persistence| PersistenceForm {
            id: Some(persistence.id),
            principal: persistence.principal,
        }),
        volume: disk.volume.map(|volume| VolumeForm {
            container_path: Some(volume.container_path),
            host_path: volume.host_path,
            mode: volume::Mode::try_from(volume.mode).ok().map(|m| m.as_str_name().to_owned()),
        }),
        source: disk.source.map(|source| SourceForm {
            kind: source::Type::try_from(source.r#type).ok().map(|k| k.as_str_name().to_owned()),
            path: source.path.map(|path| RootForm { root: path.root }),
            mount: source.mount.map(|mount| RootForm { root: mount.root }),
            id: source.id,
            metadata: source.metadata.map(labels_to_form),
            profile: source.profile,
            vendor: source.vendor,
        }),
    }
}

/// Forms that come from domain resources have every required field, and only known names.
fn from_form(form: ResourceForm) -> v1::Resource {
    v1::Resource {
        name: form.name.unwrap_or_default(),
        r#type: number(form.kind.as_deref(), value::Type::from_str_name).unwrap_or_default(),
        scalar: form.scalar.map(|scalar| Scalar { value: scalar.value.unwrap_or_default() }),
        ranges: form.ranges.map(|ranges| value::Ranges {
            range: ranges
                .range
                .into_iter()
                .map(|range| value::Range {
                    begin: range.begin.unwrap_or_default(),
                    end: range.end.unwrap_or_default(),
                })
                .collect(),
        }),
        set: form.set.map(|set| Set { item: set.item }),
        role: form.role,
        disk: form.disk.map(disk_from_form),
        reservation: form.reservation.map(reservation_from_form),
        revocable: form.revocable.map(|Presence {}| RevocableInfo {}),
        shared: form.shared.map(|Presence {}| SharedInfo {}),
        allocation_info: form.allocation_info.map(|info| AllocationInfo { role: info.role }),
        provider_id: form
            .provider_id
            .map(|id| v1::ResourceProviderId { value: id.value.unwrap_or_default() }),
        reservations: form.reservations.into_iter().map(reservation_from_form).collect(),
    }
}

fn reservation_from_form(form: ReservationForm) -> ReservationInfo {
    ReservationInfo {
        principal: form.principal,
        labels: form.labels.map(labels_from_form),
        role: form.role,
        r#type: number(form.kind.as_deref(), reservation_info::Type::from_str_name),
    }
}

fn labels_from_form(form: LabelsForm) -> v1::Labels {
    let label =
        |form: LabelForm| v1::Label { key: form.key.unwrap_or_default(), value: form.value };
    v1::Labels { labels: form.labels.into_iter().map(label).collect() }
}

fn disk_from_form(form: DiskForm) -> DiskInfo {
    DiskInfo {
        persistence: form.persistence.map(|persistence| Persistence {
            id: persistence.id.unwrap_or_default(),
            principal: persistence.principal,
        }),
        volume: form.volume.map(|volume| v1::Volume {
            container_path: volume.container_path.unwrap_or_default(),
            host_path: volume.host_path,
            mode: number(volume.mode.as_deref(), volume::Mode::from_str_name).unwrap_or_default(),
            source: None,
        }),
        source: form.source.map(|source| Source {
            r#type: number(source.kind.as_deref(), source::Type::from_str_name).unwrap_or_default(),
            path: source.path.map(|form| source::Path { root: form.root }),
            mount: source.mount.map(|form| source::Mount { root: form.root }),
            id: source.id,
            metadata: source.metadata.map(labels_from_form),
            profile: source.profile,
            vendor: source.vendor,
        }),
    }
}

fn number<E: Into<i32>>(name: Option<&str>, parse: impl Fn(&str) -> Option<E>) -> Option<i32> {
    name.and_then(parse).map(Into::into)
}
