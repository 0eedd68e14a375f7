//! Laws of what makes two resources the same, of the order in which sets give them out (the
//! bytes of every snapshot hang on it), and of the names that users see.

use std::str::FromStr;

use proptest::collection::vec;
use proptest::prelude::*;
use resources::collection::Resources;
use resources::id::{AgentId, ProviderId, VolumeId};
use resources::operation::Operation;
use resources::resource::{DiskSource, Reservation, Resource};
use resources::role::Role;
use resources::stable::{ReservationId, VolumeKey, reservation_id};
use resources::value::{Value, ValueKind};

use crate::strategies::{config, operation, resource, set, stack};

/// Metadata equality as the spec lists it, in the order of a set.
type Identity<'a> = (
    Option<(Option<&'a Role>, &'a VolumeId)>,
    (&'a str, ValueKind, &'a [Reservation]),
    (bool, Option<&'a DiskSource>),
    (Option<&'a Role>, bool, bool, Option<&'a ProviderId>),
    Option<&'a Value>,
);

fn identity(resource: &Resource) -> Identity<'_> {
    let is_whole = resource.shared || resource.is_indivisible();
    (
        resource.volume_id().map(|id| (resource.reservation_role(), id)),
        (&resource.name, resource.value.kind(), &resource.reservations),
        (resource.disk.is_some(), resource.disk_source()),
        (
            resource.allocation_role.as_ref(),
            resource.revocable,
            resource.shared,
            resource.provider_id.as_ref(),
        ),
        is_whole.then_some(&resource.value),
    )
}

fn allocated() -> impl Strategy<Value = Resource> {
    let role = prop_oneof![Just(None), Just(Some("ads")), Just(Some("ads/eu"))];
    (resource(), role).prop_map(|(resource, role)| {
        let allocation_role = role.map(|role| Role::parse(role).expect("a valid role"));
        Resource { allocation_role, ..resource }
    })
}

fn reads_back<T: FromStr + ToString + PartialEq>(value: &T) -> bool {
    T::from_str(&value.to_string()).is_ok_and(|again| again == *value)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn sets_are_in_the_order_of_identities(list in vec(allocated(), 0..12)) {
        let set: Resources = list.iter().collect();
        let entries: Vec<&Resource> = set.entries().map(|(resource, _)| resource).collect();
        prop_assert!(entries.windows(2).all(|pair| identity(pair[0]) < identity(pair[1])));
    }

    #[test]
    fn two_resources_meet_when_their_identities_are_equal(
        left in allocated(),
        right in allocated(),
    ) {
        let set: Resources = [&left].into_iter().collect();
        let is_same = identity(&left) == identity(&right);
        prop_assert_eq!(set.counterpart(&right).is_some(), is_same);
    }

    #[test]
    fn what_happens_to_a_set_does_not_happen_to_its_clones(
        set in set(),
        operations in vec(operation(), 1..6),
    ) {
        let mut total = set.clone();
        let mut frozen: Vec<(Resources, Vec<u8>)> = Vec::new();
        let bytes = |set: &Resources| serde_json::to_vec(set).unwrap();
        for operation in &operations {
            frozen.push((total.clone(), bytes(&total)));
            operation.consumed().iter().for_each(|resource| total.add(resource));
            let _ = total.apply(operation);
            total.subtract_all(&set);
        }
        for (clone, before) in &frozen {
            prop_assert_eq!(&bytes(clone), before);
        }
    }

    #[test]
    fn parts_of_a_set_are_its_entries(set in set()) {
        let mut groups = Resources::new();
        for group in set.by_reservation().values() {
            groups.add_all(group);
        }
        groups.add_all(&set.unreserved());
        prop_assert_eq!(&groups, &set);
        let volumes: Resources = set.filter(Resource::is_persistent_volume);
        prop_assert_eq!(volumes.iter().count(), set.volumes().count());
        let mut rest = set.filter(|resource| !resource.is_persistent_volume());
        rest.add_all(&volumes);
        prop_assert_eq!(&rest, &set);
    }

    #[test]
    fn names_tell_reservations_apart(left in stack(), right in stack()) {
        let agent_id = AgentId::parse("c-S1").unwrap();
        let [left_id, right_id] = [&left, &right].map(|stack| reservation_id(&agent_id, stack));
        prop_assert!(reads_back::<ReservationId>(&left_id));
        prop_assert_eq!(left_id == right_id, left == right);
    }

    #[test]
    fn names_read_back(
        agent in "[a-z0-9 .-]{1,8}",
        path in "[a-z.]{1,3}(/[a-z]{1,3}){0,3}",
        id in "[a-zé ]{1,8}",
    ) {
        let parts = (AgentId::parse(agent), Role::parse(path), VolumeId::parse(id));
        let (Ok(agent_id), Ok(role), Ok(volume_id)) = parts else { return Ok(()) };
        prop_assert!(reads_back(&agent_id) && reads_back(&role) && reads_back(&volume_id));
        let key = VolumeKey { agent_id, role, volume_id };
        prop_assert!(reads_back(&key));
    }

    #[test]
    fn allocation_comes_and_goes(operation in operation()) {
        let role = Role::parse("ads/eu").unwrap();
        let allocated = operation.clone().allocated_to(&role);
        let all = |operation: &Operation| operation.consumed();
        prop_assert!(all(&allocated).iter().all(|r| r.allocation_role.as_ref() == Some(&role)));
        prop_assert_eq!(allocated.unallocated(), operation);
    }
}
