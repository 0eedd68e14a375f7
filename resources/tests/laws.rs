//! Laws that hold for every set of resources and every operation, found by random search:
//! subtraction undoes addition, conversions neither make nor lose anything, an operation
//! applies wholly or not at all, a confirmed prefix folds to the same total, texts and
//! serialized forms read back.

use std::collections::BTreeMap;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use resources::collection::Resources;
use resources::conversion::{apply_checkpointed, fold};
use resources::form::{Format, ResourceForm};
use resources::id::{Principal, VolumeId};
use resources::operation::Operation;
use resources::parse::{self, ParsedValue};
use resources::resource::{
    Disk, DiskSource, DiskSourceKind, Label, Labels, Persistence, Reservation, ReservationKind,
    Resource, VolumeMode, VolumeMount,
};
use resources::role::Role;
use resources::value::{ItemSet, Range, Ranges, Scalar, Value};

fn scalar() -> impl Strategy<Value = Scalar> {
    (1_i64..50_000).prop_map(Scalar::from_milli)
}

fn ranges() -> impl Strategy<Value = Ranges> {
    let pair = (0_u64..60, 0_u64..8).prop_map(|(begin, more)| Range { begin, end: begin + more });
    vec(pair, 1..5).prop_map(Ranges::from_unsorted)
}

fn items() -> impl Strategy<Value = ItemSet> {
    btree_set("[a-e]", 1..4).prop_map(ItemSet)
}

fn labels() -> impl Strategy<Value = Labels> {
    let label = ("[xy]", proptest::option::of("[12]"));
    vec(label.prop_map(|(key, value)| Label { key, value }), 0..3).prop_map(Labels::from)
}

fn dynamic(role: &str, principal: Option<&str>, labels: Labels) -> Reservation {
    Reservation {
        kind: ReservationKind::Dynamic,
        role: Role::parse(role).expect("a valid role"),
        principal: principal.map(Principal::new),
        labels,
    }
}

fn stack() -> impl Strategy<Value = Vec<Reservation>> {
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

fn source() -> impl Strategy<Value = Option<DiskSource>> {
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

fn volume_disk(source: Option<DiskSource>, id: &str) -> Disk {
    let principal = Some(Principal::new("ops"));
    Disk {
        source,
        persistence: Some(Persistence { id: VolumeId::parse(id).expect("a valid id"), principal }),
        volume: Some(VolumeMount { container_path: "data".to_owned(), mode: VolumeMode::Rw }),
    }
}

fn disk() -> impl Strategy<Value = Resource> {
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

fn resource() -> impl Strategy<Value = Resource> {
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

fn set() -> impl Strategy<Value = Resources> {
    vec(resource(), 0..8).prop_map(|list| list.iter().collect())
}

/// Quantities whose addition can be undone: amounts of what is divisible, and whole things.
fn is_countable(resource: &Resource) -> bool {
    matches!(resource.value, Value::Scalar(_))
}

/// Operations that often, but not always, apply to a set of these resources.
fn operation() -> impl Strategy<Value = Operation> {
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
    let re_reserve = (list(), stack()).prop_map(|(source, reservations)| Operation::Reserve {
        resources: source
            .iter()
            .map(|r| Resource { reservations: reservations.clone(), ..r.clone() })
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

/// Amounts per name and physical origin.
fn quantities(set: &Resources) -> BTreeMap<(String, Option<DiskSource>), Scalar> {
    let mut sums = BTreeMap::new();
    for resource in set.iter() {
        let key = (resource.name.clone(), resource.disk_source().cloned());
        let sum: &mut Scalar = sums.entry(key).or_default();
        *sum = sum.saturating_add(resource.value.quantity());
    }
    sums
}

/// A set that has what the operations want, so that they apply more often.
fn rich(set: &Resources, operations: &[Operation]) -> Resources {
    let mut rich = set.clone();
    for operation in operations.iter().step_by(2) {
        operation.consumed().iter().for_each(|resource| rich.add(resource));
    }
    rich
}

/// Failing seeds are kept beside this file, and committed.
fn config() -> ProptestConfig {
    let failure_persistence =
        Some(Box::new(FileFailurePersistence::WithSource("regressions")) as _);
    ProptestConfig { failure_persistence, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn subtraction_undoes_addition(left in set(), right in set()) {
        let left = left.filter(is_countable);
        let right = right.filter(is_countable);
        let mut sum = left.clone();
        sum.add_all(&right);
        prop_assert!(sum.contains(&left) && sum.contains(&right));
        sum.subtract_all(&right);
        prop_assert_eq!(&sum, &left);
    }

    #[test]
    fn addition_has_no_order(mut list in vec(resource(), 0..8), swap in 0_usize..8) {
        let forward: Resources = list.iter().collect();
        list.reverse();
        if !list.is_empty() {
            let swap = swap % list.len();
            list.swap(0, swap);
        }
        let backward: Resources = list.iter().collect();
        prop_assert_eq!(&forward, &backward);
        prop_assert_eq!(forward.digest(), backward.digest());
        let bytes = |set: &Resources| serde_json::to_vec(set).unwrap();
        prop_assert_eq!(bytes(&forward), bytes(&backward));
    }

    #[test]
    fn a_set_contains_its_parts_only(left in set(), right in set()) {
        let mut rest = left.clone();
        rest.subtract_all(&right);
        prop_assert!(left.contains(&rest));
        let mut sum = rest.clone();
        sum.add_all(&right);
        prop_assert!(!left.contains(&right) || sum == left);
    }

    #[test]
    fn conversions_conserve(set in set(), operations in vec(operation(), 1..6)) {
        let mut total = rich(&set, &operations);
        let quantities_before = quantities(&total);
        for operation in &operations {
            let before = total.clone();
            let checked = total.check(operation);
            let applied = total.apply(operation);
            prop_assert_eq!(&checked, &applied);
            match applied {
                Ok(()) => prop_assert_eq!(&quantities(&total), &quantities_before),
                Err(_) => prop_assert_eq!(&total, &before),
            }
        }
    }

    #[test]
    fn a_confirmed_prefix_folds_to_the_same(
        set in set(),
        operations in vec(operation(), 1..6),
        cut in 0_usize..6,
    ) {
        let confirmed = rich(&set, &operations);
        let cut = cut.min(operations.len());
        let (total, failed) = fold(&confirmed, operations.iter());
        let (prefix, mut failed_apart) = fold(&confirmed, operations[..cut].iter());
        let (rest, failed_rest) = fold(&prefix, operations[cut..].iter());
        failed_apart.extend(failed_rest.iter().map(|position| position + cut));
        prop_assert_eq!(total.digest(), rest.digest());
        prop_assert_eq!((total, failed), (rest, failed_apart));
    }

    #[test]
    fn what_is_checkpointed_lies_on_what_was_declared(
        set in set(),
        operations in vec(operation(), 1..6),
    ) {
        // Only static reservations and no volumes: what a command line can declare.
        let declared = set.filter(|r| !r.needs_checkpoint() && r.reservations.len() < 2);
        let (total, _) = fold(&declared, operations.iter());
        let again = apply_checkpointed(&declared, &total.checkpointed());
        prop_assert_eq!(again, Ok(total));
    }

    #[test]
    fn volumes_are_found_by_name(set in set()) {
        for volume in set.volumes() {
            let (role, id) = volume.reservation_role().zip(volume.volume_id()).unwrap();
            let found = set.find_volume(role, id).unwrap();
            prop_assert_eq!(found.volume_id(), Some(id));
            prop_assert_eq!(found.reservation_role(), Some(role));
        }
        let role = Role::parse("nobody").unwrap();
        prop_assert_eq!(set.find_volume(&role, &VolumeId::parse("v1").unwrap()), None);
    }

    #[test]
    fn serialized_sets_read_back(set in set()) {
        let bytes = serde_json::to_vec(&set).unwrap();
        let again: Resources = serde_json::from_slice(&bytes).unwrap();
        prop_assert_eq!(serde_json::to_vec(&again).unwrap(), bytes);
        prop_assert_eq!(again, set);
    }

    #[test]
    fn wire_forms_read_back(resource in resource()) {
        // Beside a static reservation the pre-refinement format has no place for these two.
        let says_all = resource.reservations.iter().all(|entry| {
            let bare = entry.principal.is_none() && entry.labels.is_empty();
            entry.kind == ReservationKind::Dynamic || bare
        });
        for format in [Format::Post, Format::Endpoint, Format::Pre] {
            if format == Format::Pre && !says_all {
                continue;
            }
            let Ok(form) = resource.to_form(format) else {
                prop_assert!(format == Format::Pre && resource.is_refined());
                continue;
            };
            let text = serde_json::to_string(&form).unwrap();
            let form: ResourceForm = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(Resource::try_from(form), Ok(resource.clone()));
        }
    }

    #[test]
    fn values_read_back(scalar in any::<i32>(), ranges in ranges(), items in items()) {
        let scalar = Scalar::from_milli(i64::from(scalar).abs());
        prop_assert_eq!(Scalar::from_f64(scalar.to_f64()), Some(scalar));
        match parse::value(&scalar.to_string()) {
            Ok(ParsedValue::Scalar(number)) => {
                prop_assert_eq!(Scalar::from_f64(number), Some(scalar));
            }
            other => prop_assert!(false, "{other:?}"),
        }
        let text = ranges.to_string();
        prop_assert_eq!(parse::value(&text), Ok(ParsedValue::Ranges(ranges)));
        let text = items.to_string();
        prop_assert_eq!(parse::value(&text), Ok(ParsedValue::Set(items.0.into_iter().collect())));
    }

    #[test]
    fn ranges_are_sets_of_numbers(left in ranges(), right in ranges()) {
        let numbers = |r: &Ranges| -> Vec<u64> {
            r.as_slice().iter().flat_map(|range| range.begin..=range.end).collect()
        };
        let (some, cut) = (numbers(&left), numbers(&right));
        let rest: Vec<u64> = some.iter().copied().filter(|n| !cut.contains(n)).collect();
        prop_assert_eq!(numbers(&left.difference(&right)), rest);
        prop_assert_eq!(left.contains(&right), cut.iter().all(|n| some.contains(n)));
        prop_assert_eq!(left.count(), some.len() as u64);
    }

    #[test]
    fn texts_never_panic(text in "\\PC{0,24}") {
        let _ = parse::value(&text);
        let _ = parse::resources_text(&text, &Role::star());
        let _ = parse::attributes(&text);
        let _ = parse::duration(&text);
    }
}
