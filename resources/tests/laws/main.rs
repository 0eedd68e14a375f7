//! Laws that hold for every set of resources and every operation, found by random search:
//! subtraction undoes addition, conversions neither make nor lose anything, an operation
//! applies wholly or not at all, a confirmed prefix folds to the same total, texts and
//! serialized forms read back. Next: `identity.rs` (order and names), `strategies.rs`.

mod identity;
mod strategies;

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use resources::collection::Resources;
use resources::conversion::{Fold, apply_checkpointed, fold};
use resources::earlier::Earlier;
use resources::form::{Format, ResourceForm};
use resources::id::VolumeId;
use resources::operation::Operation;
use resources::parse::{self, ParsedValue};
use resources::resource::Resource;
use resources::resource::{DiskSource, ReservationKind};
use resources::role::Role;
use resources::value::{Ranges, Scalar};

use crate::strategies::{config, is_countable, items, operation, ranges, resource, set};

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
        let all = fold(confirmed.clone(), operations.iter());
        let prefix = fold(confirmed, operations[..cut].iter());
        let rest = fold(prefix.total, operations[cut..].iter());
        let failed_rest = rest.failed.iter().map(|position| position + cut);
        let failed_apart: Vec<usize> = prefix.failed.into_iter().chain(failed_rest).collect();
        prop_assert_eq!(all.total.digest(), rest.total.digest());
        prop_assert_eq!((all.total, all.failed), (rest.total, failed_apart));
    }

    #[test]
    fn what_was_confirmed_stays_beside_the_total_and_follows_it(
        set in set(),
        operations in vec(operation(), 1..6),
    ) {
        let mut apart = rich(&set, &operations);
        let Fold { total, mut confirmed, failed } = fold(apart.clone(), operations.iter());
        let is_alike = |confirmed: &Earlier, apart: &Resources| {
            let entries: Vec<_> = apart.entries().collect();
            confirmed.of(&total).digest() == apart.digest()
                && confirmed.entries(&total).collect::<Vec<_>>() == entries
                && confirmed.part(&total, apart.iter()) == *apart
        };
        prop_assert!(is_alike(&confirmed, &apart));
        for (position, operation) in operations.iter().enumerate() {
            if !failed.contains(&position) {
                prop_assert_eq!(confirmed.follow(&total, operation), apart.apply(operation));
                prop_assert!(is_alike(&confirmed, &apart));
            }
        }
        // No difference is left, and none on record.
        prop_assert_eq!((confirmed, apart), (Earlier::default(), total));
    }

    #[test]
    fn what_is_checkpointed_lies_on_what_was_declared(
        set in set(),
        operations in vec(operation(), 1..6),
    ) {
        // Only static reservations and no volumes: what a command line can declare.
        let declared = set.filter(|r| !r.needs_checkpoint() && r.reservations.len() < 2);
        let total = fold(declared.clone(), operations.iter()).total;
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
