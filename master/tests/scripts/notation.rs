//! Short texts for resources: `cpus:4`, `disk:64@ads~ops` (dynamically reserved for `ads` by
//! `ops`), `disk:64@=eng@eng/web` (static, then refined), `cpus:1@ads^x=1` (with a label),
//! `disk:64@ads#v1` (a volume, `#v1&` a shared one, `#v1:path` at another path),
//! `disk:64%mount:/m1` (a source). Several are separated by `;`.

use resources::id::{Principal, VolumeId};
use resources::resource::{
    Disk, DiskSource, DiskSourceKind, Label, Labels, Persistence, Reservation, ReservationKind,
    Resource, VolumeMode, VolumeMount,
};
use resources::role::Role;
use resources::value::{Range, Ranges, Scalar, Value};

pub(crate) fn list(text: &str) -> Vec<Resource> {
    text.split(';').filter(|part| !part.is_empty()).map(resource).collect()
}

fn resource(text: &str) -> Resource {
    let (text, volume) = cut(text, '#');
    let is_shared = volume.is_some_and(|volume| volume.ends_with('&'));
    let volume = volume.map(|volume| cut(volume.trim_end_matches('&'), ':'));
    let (text, source) = cut(text, '%');
    let mut levels = text.split('@');
    let (name, value) = levels.next().unwrap().split_once(':').unwrap();
    let source = source.map(disk_source);
    let disk = (source.is_some() || volume.is_some()).then(|| Disk {
        source,
        persistence: volume
            .map(|(id, _)| Persistence { id: VolumeId::parse(id).unwrap(), principal: None }),
        volume: volume.map(|(_, path)| VolumeMount {
            container_path: path.unwrap_or("data").to_owned(),
            mode: VolumeMode::Rw,
        }),
    });
    Resource {
        name: name.to_owned(),
        value: self::value(value),
        reservations: levels.map(reservation).collect(),
        disk,
        allocation_role: None,
        revocable: false,
        shared: is_shared,
        provider_id: None,
    }
}

fn cut(text: &str, sign: char) -> (&str, Option<&str>) {
    match text.split_once(sign) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn value(text: &str) -> Value {
    match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        None => Value::Scalar(amount(text)),
        Some(ranges) => {
            let ranges = ranges.split(',').map(|range| {
                let (begin, end) = range.split_once('-').unwrap();
                Range { begin: begin.parse().unwrap(), end: end.parse().unwrap() }
            });
            Value::Ranges(Ranges::from_unsorted(ranges.collect()))
        }
    }
}

/// A decimal number with up to three decimals.
pub(crate) fn amount(text: &str) -> Scalar {
    let (whole, decimals) = cut(text, '.');
    let decimals = format!("{:0<3}", decimals.unwrap_or_default());
    Scalar::from_milli(format!("{whole}{decimals}").parse().unwrap())
}

fn reservation(text: &str) -> Reservation {
    let (text, label) = cut(text, '^');
    let (text, principal) = cut(text, '~');
    let (kind, role) = match text.strip_prefix('=') {
        Some(role) => (ReservationKind::Static, role),
        None => (ReservationKind::Dynamic, text),
    };
    Reservation {
        kind,
        role: Role::parse(role).unwrap(),
        principal: principal.map(Principal::new),
        labels: label.map_or_else(Labels::default, |label| {
            let (key, value) = cut(label, '=');
            vec![Label { key: key.to_owned(), value: value.map(str::to_owned) }].into()
        }),
    }
}

fn disk_source(text: &str) -> DiskSource {
    let (kind, root) = text.split_once(':').unwrap();
    let kind = match kind {
        "mount" => DiskSourceKind::Mount,
        "path" => DiskSourceKind::Path,
        other => panic!("no such disk source: {other}"),
    };
    DiskSource {
        kind,
        root: Some(root.to_owned()),
        id: None,
        metadata: Labels::default(),
        profile: None,
        vendor: None,
    }
}
