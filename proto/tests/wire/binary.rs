//! Binary bodies: `required` at any depth, and bytes that are no message.

use std::fmt::Debug;

use bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost::{Message, Name};
use proto::json::{BinaryError, decode_binary};
use proto::mesos::v1::{
    AgentId, ContainerId, Resource, TimeInfo, Value, agent, executor, master, quota, scheduler,
    value,
};

/// Bytes of a field with a nested message or a text.
fn field(number: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_key(number, WireType::LengthDelimited, &mut out);
    encode_varint(u64::try_from(payload.len()).unwrap(), &mut out);
    out.extend_from_slice(payload);
    out
}

fn missing<M: Message + Name + Default + Debug>(wire: &[u8], expected: &[&str]) {
    match decode_binary::<M>(wire) {
        Err(BinaryError::Missing(names)) => assert_eq!(names, expected),
        other => panic!("{other:?} where {expected:?} are missing"),
    }
}

#[test]
fn required_fields() {
    missing::<AgentId>(b"", &["value"]);
    missing::<Resource>(b"", &["name", "type"]);
    missing::<scheduler::Call>(&field(6, b""), &["kill.task_id"]);
    missing::<master::Call>(
        &field(7, &[field(1, b""), field(2, &field(1, b"cpus"))].concat()),
        &["reserve_resources.agent_id.value", "reserve_resources.resources[0].type"],
    );
    assert!(decode_binary::<master::Call>(b"").is_ok(), "nothing is required at the top");
    assert!(decode_binary::<AgentId>(&field(1, b"")).is_ok(), "empty is not absent");
}

#[test]
fn required_enum_with_a_number_it_does_not_have() {
    missing::<Value>(&[0x08, 99], &["type"]);
    assert!(decode_binary::<Value>(&[0x08, 3]).is_ok());
    let call = decode_binary::<master::Call>(&[0x08, 0xe7, 0x07]).unwrap();
    assert!(master::call::Type::try_from(call.r#type.unwrap()).is_err());
}

#[test]
fn parts_of_one_message_count_together() {
    let halves = [field(2, &field(1, b"cpus")), field(2, &[0x10, 0])].concat();
    let whole = [field(2, &[field(1, b"cpus"), vec![0x10, 0]].concat()), Vec::new()].concat();
    let volume =
        |wire: &[u8]| [wire, &field(3, &[field(1, b"x"), vec![0x10, 0]].concat())].concat();
    let parsed = decode_binary::<master::call::GrowVolume>(&volume(&halves)).unwrap();
    assert_eq!(parsed, decode_binary(&volume(&whole)).unwrap());
}

#[test]
fn map_values_that_prost_leaves_out() {
    let limits = [("cpus".to_owned(), value::Scalar { value: 0.0 })].into();
    let config = quota::QuotaConfig { role: "r".into(), limits, ..Default::default() };
    assert_eq!(decode_binary::<quota::QuotaConfig>(&config.encode_to_vec()), Ok(config));
}

#[test]
fn unknown_fields_are_skipped() {
    let mut wire = field(1, b"S0");
    wire.extend(field(900, b"payload"));
    wire.extend([0xf8, 0x3f, 1]); // varint 1023
    wire.extend([0x4b, 0x08, 1, 0x4c]); // group 9
    wire.extend([0x55, 1, 2, 3, 4]); // 32 bits, 10
    assert_eq!(decode_binary::<AgentId>(&wire).unwrap().value, "S0");
}

#[test]
fn no_message() {
    let long = [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    for wire in [&b"\x0a\x05ab"[..], b"\x0a", b"\x08\x01", b"\xff", b"\x00", b"{\"value\"", &long] {
        let result = decode_binary::<AgentId>(wire);
        assert!(matches!(result, Err(BinaryError::Malformed(_))), "{wire:?}: {result:?}");
    }
    let result = decode_binary::<AgentId>(&field(1, b"\xff"));
    assert!(matches!(result, Err(BinaryError::Malformed(_))), "no UTF-8: {result:?}");
    let deep = (0..10_000).fold(Vec::new(), |inner: Vec<u8>, _| field(2, &inner));
    let result = decode_binary::<ContainerId>(&deep);
    assert!(matches!(result, Err(BinaryError::Malformed(_))), "too deep");
}

#[test]
fn any_bytes_are_answered() {
    use proptest::prelude::*;
    proptest!(|(bytes in proptest::collection::vec(any::<u8>(), 0..64))| {
        decode_binary::<master::Call>(&bytes).ok();
        decode_binary::<scheduler::Call>(&bytes).ok();
        decode_binary::<executor::Call>(&bytes).ok();
        decode_binary::<agent::Call>(&bytes).ok();
        proto::json::decode::<master::Call>(&bytes).ok();
    });
}

#[test]
fn whole_messages_come_back() {
    let call = master::Call {
        r#type: Some(master::call::Type::MarkAgentGone.into()),
        mark_agent_gone: Some(master::call::MarkAgentGone {
            agent_id: AgentId { value: "S0".into() },
        }),
        ..Default::default()
    };
    assert_eq!(decode_binary::<master::Call>(&call.encode_to_vec()), Ok(call));
    let uuid =
        scheduler::call::Acknowledge { uuid: Bytes::from_static(b"u"), ..Default::default() };
    assert_eq!(decode_binary(&uuid.encode_to_vec()), Ok(uuid));
    assert!(decode_binary::<TimeInfo>(&TimeInfo { nanoseconds: 0 }.encode_to_vec()).is_ok());
}
