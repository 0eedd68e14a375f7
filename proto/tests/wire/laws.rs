//! What holds for every message: JSON → wire → JSON is the identity, and so is wire → JSON → wire.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use prost::Message;
use proto::json::{decode, decode_binary, encode};
use proto::mesos::v1::resource::disk_info::{Persistence, Source, source};
use proto::mesos::v1::resource::{
    AllocationInfo, DiskInfo, ReservationInfo, RevocableInfo, SharedInfo, reservation_info,
};
use proto::mesos::v1::{Label, Labels, Resource, Secret, secret, value};

fn labels() -> impl Strategy<Value = Labels> {
    let label = (any::<String>(), option::of(any::<String>()));
    vec(label.prop_map(|(key, value)| Label { key, value }), 0..3)
        .prop_map(|labels| Labels { labels })
}

fn reservation() -> impl Strategy<Value = ReservationInfo> {
    let kind = option::of(0..3);
    (option::of(any::<String>()), option::of(labels()), option::of(any::<String>()), kind)
        .prop_map(|(principal, labels, role, r#type)| ReservationInfo {
            principal,
            labels,
            role,
            r#type,
        })
        .prop_filter("known kinds", |r| {
            r.r#type.is_none_or(|kind| reservation_info::Type::try_from(kind).is_ok())
        })
}

fn disk() -> impl Strategy<Value = DiskInfo> {
    let persistence = (any::<String>(), option::of(any::<String>()))
        .prop_map(|(id, principal)| Persistence { id, principal });
    let source = (0..=4, option::of(option::of(any::<String>())), option::of(labels())).prop_map(
        |(r#type, path, metadata)| Source {
            r#type,
            path: path.map(|root| source::Path { root }),
            metadata,
            ..Default::default()
        },
    );
    (option::of(persistence), option::of(source)).prop_map(|(persistence, source)| DiskInfo {
        persistence,
        source,
        ..Default::default()
    })
}

fn number() -> impl Strategy<Value = f64> {
    use proptest::num::f64::{INFINITE, NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    NORMAL | SUBNORMAL | ZERO | INFINITE | POSITIVE | NEGATIVE
}

prop_compose! {
    fn resource()(
        name in any::<String>(),
        r#type in 0..=3,
        scalar in option::of(number()),
        ranges in option::of(vec(any::<(u64, u64)>(), 0..3)),
        set in option::of(vec(any::<String>(), 0..3)),
        role in option::of(any::<String>()),
        reservations in vec(reservation(), 0..3),
        disk in option::of(disk()),
        allocation in option::of(option::of(any::<String>())),
        (revocable, shared) in any::<(bool, bool)>(),
    ) -> Resource {
        let range = |(begin, end)| value::Range { begin, end };
        Resource {
            name,
            r#type,
            scalar: scalar.map(|value| value::Scalar { value }),
            ranges: ranges.map(|r| value::Ranges { range: r.into_iter().map(range).collect() }),
            set: set.map(|item| value::Set { item }),
            role,
            reservation: reservations.first().cloned(),
            reservations,
            disk,
            allocation_info: allocation.map(|role| AllocationInfo { role }),
            revocable: revocable.then_some(RevocableInfo {}),
            shared: shared.then_some(SharedInfo {}),
            ..Default::default()
        }
    }
}

proptest! {
    #[test]
    fn printed_resources_read_as_the_same(resource in resource()) {
        let json = encode(&resource);
        let read: Resource = decode(&json).unwrap();
        prop_assert_eq!(encode(&read), json);
        prop_assert_eq!(&read, &resource);
        prop_assert_eq!(decode_binary::<Resource>(&resource.encode_to_vec()).unwrap(), resource);
    }

    #[test]
    fn printed_bytes_read_as_the_same(data in vec(any::<u8>(), 0..64)) {
        let value = Some(secret::Value { data: Bytes::from(data) });
        let secret = Secret { value, ..Default::default() };
        prop_assert_eq!(decode::<Secret>(&encode(&secret)).unwrap(), secret);
    }
}
