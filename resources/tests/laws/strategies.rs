//! What the laws are tried with: small sets of resources that often meet, and operations that
//! often, but not always, apply to them.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use resources::collection::Resources;
use resources::id::{Principal, VolumeId};
use resources::operation::Operation;
use resources::resource::{
    Disk, DiskSource, DiskSourceKind, Label, Labels, Persistence, Reservation, ReservationKind,
    Resource, VolumeMode, VolumeMount,
};
use resources::role::Role;
use resources::value::{ItemSet, Range, Ranges, Scalar, Value};

/// Failing seeds are kept beside this file, and committed.
pub(crate) fn config() -> ProptestConfig {
    let failure_persistence =
        Some(Box::new(FileFailurePersistence::WithSource("regressions")) as _);
    ProptestConfig { failure_persistence, ..ProptestConfig::default() }
}

pub(crate) fn scalar() -> impl Strategy<Value = Scalar> {
    (1_i64..50_000).prop_map(Scalar::from_milli)
}

pub(crate) fn ranges() -> impl Strategy<Value = Ranges> {
    let pair = (0_u64..60, 0_u64..8).prop_map(|(begin, more)| Range { begin, end: begin + more });
    vec(pair, 1..5).prop_map(Ranges::from_unsorted)
}

pub(crate) fn items() -> impl Strategy<Value = ItemSet> {
    btree_set("[a-e]", 1..4).prop_map(ItemSet)
}

pub(crate) fn labels() -> impl Strategy<Value = Labels> {
    let label = ("[xy]", proptest::option::of("[12]"));
    vec(label.prop_map(|(key, value)| Label { key, value }), 0..3).prop_map(Labels::from)
}

pub(crate) fn dynamic(role: &str, principal: Option<&str>, labels: Labels) -> Reservation {
    Reservation {
        kind: ReservationKind::Dynamic,
        role: Role::parse(role).expect("a valid role"),
        principal: principal.map(Principal::new),
        labels,
    }
}

pub(crate) fn stack() -> impl Strategy<Value = Vec<Reservation>> {
    let kind = prop_oneof![Just(ReservationKind::Static), Just(ReservationKind::Dynamic)];
    let principal = prop_oneof![Just(None), Just(Some("ops"))];
    (kind, 0_usize..3, prop_oneof![Just("ads"), Just("web")], principal, labels()).prop_map(
        |(kind, height, role, principal, labels)| {
            let bottom = Reservation { kind, ..dynamic(role, principal, labels) };
            let above = dynamic(&format!("{role}/eu"), principal, Labels::default());
            [bottom, above].into_iter().take(height).collect()
        },
    )
}

pub(crate) fn source() -> impl Strategy<Value = Option<DiskSource>> {
    let of = |kind, root: Option<&str>| {
        Some(DiskSource {
            kind,
            root: root.map(str::to_owned),
            id: None,
            metadata: Labels::default(),
            profile: None,
            vendor: None,
        })
    };
    prop_oneof![
        Just(None),
        Just(of(DiskSourceKind::Path, Some("/p"))),
        Just(of(DiskSourceKind::Mount, Some("/m"))),
        Just(of(DiskSourceKind::Raw, None)),
    ]
}

pub(crate) fn volume_disk(source: Option<DiskSource>, id: &str) -> Disk {
    let principal = Some(Principal::new("ops"));
    Disk {
        source,
        persistence: Some(Persistence { id: VolumeId::parse(id).expect("a valid id"), principal }),
        volume: Some(VolumeMount { container_path: "data".to_owned(), mode: VolumeMode::Rw }),
    }
}

pub(crate) fn disk() -> impl Strategy<Value = Resource> {
    let volume = proptest::option::of((prop_oneof![Just("v1"), Just("v2")], any::<bool>()));
    (scalar(), stack(), source(), volume).prop_map(|(size, reservations, source, volume)| {
        let mut disk = Resource::plain("disk", Value::Scalar(size));
        disk.disk = source.clone().map(|source| Disk { source: Some(source), ..Disk::default() });
        if let Some((id, shared)) = volume.filter(|_| !reservations.is_empty()) {
            disk.disk = Some(volume_disk(source, id));
            disk.shared = shared;
        }
        Resource { reservations, ..disk }
    })
}

pub(crate) fn resource() -> impl Strategy<Value = Resource> {
    let plain = prop_oneof![
        scalar().prop_map(|s| Resource::plain("cpus", Value::Scalar(s))),
        ranges().prop_map(|r| Resource::plain("ports", Value::Ranges(r))),
        items().prop_map(|i| Resource::plain("zones", Value::Set(i))),
    ];
    let plain = (plain, stack(), any::<bool>()).prop_map(|(resource, reservations, revocable)| {
        let revocable = revocable && reservations.is_empty();
        Resource { reservations, revocable, ..resource }
    });
    prop_oneof![plain, disk()]
}

pub(crate) fn set() -> impl Strategy<Value = Resources> {
    vec(resource(), 0..8).prop_map(|list| list.iter().collect())
}

/// Quantities whose addition can be undone: amounts of what is divisible, and whole things.
pub(crate) fn is_countable(resource: &Resource) -> bool {
    matches!(resource.value, Value::Scalar(_))
}

/// Operations that often, but not always, apply to a set of these resources.
pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let list = || vec(resource(), 1..3);
    let reserve = list().prop_map(|list| {
        let push = |r: Resource| match r.reservation_role().map(Role::to_string) {
            Some(role) => {
                r.push_reservation(dynamic(&format!("{role}/x"), None, Labels::default()))
            }
            None => r.push_reservation(dynamic("ads", Some("ops"), Labels::default())),
        };
        Operation::Reserve { resources: list.into_iter().map(push).collect(), source: Vec::new() }
    });
    let volumes = || {
        vec((disk(), "[v-w][1-2]"), 1..3).prop_map(|list| {
            let volume = |(disk, id): (Resource, String)| Resource {
                disk: Some(volume_disk(disk.disk_source().cloned(), &id)),
                ..disk
            };
            list.into_iter().map(volume).collect::<Vec<_>>()
        })
    };
    // What is static stays: no operation makes or lifts it.
    let is_static = |level: &&Reservation| level.kind == ReservationKind::Static;
    let re_reserve = (list(), stack()).prop_map(move |(source, stack)| Operation::Reserve {
        resources: source
            .iter()
            .map(|r| {
                let bottom = r.reservations.iter().filter(is_static);
                let above = stack.iter().filter(|level| !is_static(level));
                Resource { reservations: bottom.chain(above).cloned().collect(), ..r.clone() }
            })
            .collect(),
        source,
    });
    let resize = (volumes(), scalar(), any::<bool>()).prop_map(|(volumes, size, grow)| {
        let volume = volumes[0].clone();
        if grow {
            let addition = Resource { value: Value::Scalar(size), ..volume.to_plain_disk() };
            return Operation::Grow { volume, addition };
        }
        Operation::Shrink { volume, subtract: size }
    });
    prop_oneof![
        3 => reserve,
        1 => re_reserve,
        2 => list().prop_map(|resources| Operation::Unreserve { resources }),
        2 => volumes().prop_map(|volumes| Operation::Create { volumes }),
        2 => volumes().prop_map(|volumes| Operation::Destroy { volumes }),
        1 => resize,
    ]
}
