//! From the domain to the wire, in any of the three formats (spec §1.4). The way back is
//! `upgrade.rs`.

use crate::form::{
    AllocationForm, DiskForm, Format, IdForm, LabelForm, LabelsForm, PersistenceForm, Presence,
    RangeForm, RangesForm, Refined, ReservationForm, ResourceForm, RootForm, ScalarForm, SetForm,
    SourceForm, VolumeForm,
};
use crate::resource::{
    Disk, DiskSource, DiskSourceKind, Labels, Reservation, ReservationKind, Resource, VolumeMode,
};
use crate::value::Value;

impl Resource {
    /// The resource as the wire carries it.
    ///
    /// # Errors
    /// Refined reservations have no pre-refinement format; the others never fail.
    pub fn to_form(&self, format: Format) -> Result<ResourceForm, Refined> {
        let mut form = ResourceForm {
            name: Some(self.name.clone()),
            kind: Some(self.value.kind().to_string()),
            disk: self.disk.as_ref().map(disk),
            revocable: self.revocable.then_some(Presence {}),
            shared: self.shared.then_some(Presence {}),
            allocation_info: self
                .allocation_role
                .as_ref()
                .map(|role| AllocationForm { role: Some(role.to_string()) }),
            provider_id: self.provider_id.as_ref().map(|id| IdForm { value: Some(id.to_string()) }),
            ..ResourceForm::default()
        };
        set_value(&mut form, &self.value);
        if format != Format::Pre {
            form.reservations = self.reservations.iter().map(entry).collect();
        }
        if format != Format::Post {
            match &self.reservations[..] {
                [] => form.role = Some("*".to_owned()),
                [only] => {
                    form.role = Some(only.role.to_string());
                    form.reservation = legacy(only);
                }
                _ if format == Format::Pre => {
                    return Err(Refined { resource: Box::new(self.clone()) });
                }
                _ => {}
            }
        }
        Ok(form)
    }
}

fn set_value(form: &mut ResourceForm, value: &Value) {
    match value {
        Value::Scalar(scalar) => form.scalar = Some(ScalarForm { value: Some(scalar.to_f64()) }),
        Value::Ranges(ranges) => {
            let pairs = ranges.as_slice().iter();
            let range = pairs.map(|r| RangeForm { begin: Some(r.begin), end: Some(r.end) });
            form.ranges = Some(RangesForm { range: range.collect() });
        }
        Value::Set(set) => form.set = Some(SetForm { item: set.0.iter().cloned().collect() }),
    }
}

fn entry(reservation: &Reservation) -> ReservationForm {
    ReservationForm {
        kind: Some(reservation.kind.to_string()),
        role: Some(reservation.role.to_string()),
        principal: reservation.principal.as_ref().map(ToString::to_string),
        labels: labels(&reservation.labels),
    }
}

fn legacy(reservation: &Reservation) -> Option<ReservationForm> {
    match reservation.kind {
        ReservationKind::Static => None,
        ReservationKind::Dynamic => {
            Some(ReservationForm { kind: None, role: None, ..entry(reservation) })
        }
    }
}

fn labels(labels: &Labels) -> Option<LabelsForm> {
    let list = labels.as_slice().iter();
    let list = list.map(|l| LabelForm { key: Some(l.key.clone()), value: l.value.clone() });
    (!labels.is_empty()).then(|| LabelsForm { labels: list.collect() })
}

fn disk(disk: &Disk) -> DiskForm {
    DiskForm {
        persistence: disk.persistence.as_ref().map(|persistence| PersistenceForm {
            id: Some(persistence.id.to_string()),
            principal: persistence.principal.as_ref().map(ToString::to_string),
        }),
        volume: disk.volume.as_ref().map(|mount| VolumeForm {
            container_path: Some(mount.container_path.clone()),
            host_path: None,
            mode: Some(
                match mount.mode {
                    VolumeMode::Rw => "RW",
                    VolumeMode::Ro => "RO",
                }
                .to_owned(),
            ),
        }),
        source: disk.source.as_ref().map(disk_source),
    }
}

fn disk_source(source: &DiskSource) -> SourceForm {
    let root = source.root.as_ref().map(|root| RootForm { root: Some(root.clone()) });
    let (path, mount) = match source.kind {
        DiskSourceKind::Path => (root, None),
        DiskSourceKind::Mount => (None, root),
        DiskSourceKind::Block | DiskSourceKind::Raw => (None, None),
    };
    SourceForm {
        kind: Some(source.kind.to_string()),
        path,
        mount,
        id: source.id.clone(),
        metadata: labels(&source.metadata),
        profile: source.profile.clone(),
        vendor: source.vendor.clone(),
    }
}
