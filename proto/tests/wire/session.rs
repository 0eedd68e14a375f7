//! `holdfast/agent.proto`: messages of agents and masters come back as they were, and their
//! bytes are those of version 1.

use std::fmt::Write;
use std::time::Duration;

use prost::Message;

use proto::convert::InvalidWire;
use proto::convert::agent::{master_from_wire, master_to_wire};
use proto::holdfast::agent as wire;
use proto::holdfast::agent::master_envelope::Message as FromMaster;
use resources::id::{AgentId, OperationId, Seq};
use resources::message::{AgentMessage, MasterMessage, Order, Registration, Retry};

use crate::samples::{fence, operations, registration, samples};

/// One message a line: its bytes in hexadecimal. Never changed: agents and masters of different
/// ages talk to each other.
const VERSION_1: &str = include_str!("../data/agent-session-v1.hex");

fn agent_messages() -> Vec<AgentMessage> {
    let fresh = Registration { agent_id: None, fence: None, ..registration() };
    vec![
        AgentMessage::Register(Box::new(registration())),
        AgentMessage::Register(Box::new(fresh)),
        AgentMessage::Report { upto: Seq(9), exceptions: [(Seq(8), "full".into())].into() },
        AgentMessage::Resend { from: Seq(3) },
        AgentMessage::Total { applied_seq: Seq(9), resources: samples() },
        AgentMessage::Pong,
        AgentMessage::Unregister,
    ]
}

fn master_messages() -> Vec<MasterMessage> {
    let orders = operations().into_iter().zip(1..).map(|(operation, seq)| Order {
        seq: Seq(seq),
        operation_id: OperationId::parse(format!("7-{seq}")).unwrap(),
        operation,
    });
    vec![
        MasterMessage::Welcome {
            agent_id: AgentId::parse("c-S0").unwrap(),
            ping_interval: Duration::from_millis(15_001),
            pings_missed_max: 5,
        },
        refused("cloned disk", Retry::Never),
        refused("machine is down", Retry::Later),
        MasterMessage::Orders(orders.collect()),
        MasterMessage::Acknowledge { upto: Seq(4) },
        MasterMessage::SendTotal,
        MasterMessage::Ping,
        MasterMessage::Refused {
            reason: "marked gone".into(),
            retry: Retry::Never,
            end_tasks: true,
            retry_after: None,
        },
        MasterMessage::Refused {
            reason: "too many at once".into(),
            retry: Retry::Later,
            end_tasks: false,
            retry_after: Some(Duration::from_millis(2_500)),
        },
        MasterMessage::Unregistered,
        MasterMessage::Adopt { applied_seq: Seq(7), digest: u128::MAX - 1 },
    ]
}

fn refused(reason: &str, retry: Retry) -> MasterMessage {
    MasterMessage::Refused { reason: reason.into(), retry, end_tasks: false, retry_after: None }
}

#[test]
fn messages_of_agents_come_back() {
    for message in agent_messages() {
        let bytes = wire::AgentEnvelope::from(&message).encode_to_vec();
        let envelope = wire::AgentEnvelope::decode(&bytes[..]).unwrap();
        assert_eq!(AgentMessage::try_from(envelope), Ok(message));
    }
}

#[test]
fn messages_of_masters_come_back() {
    for message in master_messages() {
        let bytes = master_to_wire(&fence(), &message).encode_to_vec();
        let envelope = wire::MasterEnvelope::decode(&bytes[..]).unwrap();
        assert_eq!(master_from_wire(envelope), Ok((fence(), message)));
    }
}

#[test]
fn bytes_are_those_of_version_1() {
    let agent = agent_messages();
    let agent = agent.iter().map(|m| wire::AgentEnvelope::from(m).encode_to_vec());
    let master = master_messages();
    let master = master.iter().map(|m| master_to_wire(&fence(), m).encode_to_vec());
    let mut lines = String::new();
    for bytes in agent.chain(master) {
        bytes.iter().for_each(|byte| write!(lines, "{byte:02x}").unwrap());
        lines.push('\n');
    }
    assert!(lines == VERSION_1, "these bytes are new:\n{lines}");
}

#[test]
fn envelopes_refused() {
    let refused = |break_it: &dyn Fn(&mut wire::Register)| {
        let mut register = wire::Register::from(&registration());
        break_it(&mut register);
        Registration::try_from(register).unwrap_err()
    };
    assert_eq!(
        refused(&|register| register.protocol_version = 2),
        InvalidWire::ProtocolVersion { found: 2 },
    );
    assert_eq!(refused(&|register| register.info = None), InvalidWire::Absent("info"));
    assert_eq!(
        refused(&|register| register.resources_digest = vec![1, 2].into()),
        InvalidWire::Digest { bytes: 2 },
    );
    assert_eq!(
        refused(&|register| register.checkpoint_id.clear()).to_string(),
        "invalid 'checkpoint_id': id is empty",
    );
    assert_eq!(
        refused(&|register| register.info.as_mut().unwrap().port = 65_536),
        InvalidWire::Port { found: 65_536 },
    );
    assert_eq!(
        refused(&|register| register.info.as_mut().unwrap().attributes[1].r#type = 2).to_string(),
        "invalid 'attributes[1]': type of attribute 'a' is not supported",
    );
    assert_eq!(
        AgentMessage::try_from(wire::AgentEnvelope { message: None }),
        Err(InvalidWire::Absent("message")),
    );
    let adopt = MasterMessage::Adopt { applied_seq: Seq(7), digest: 1 };
    let mut envelope = master_to_wire(&fence(), &adopt);
    let Some(FromMaster::Adopt(adopt)) = &mut envelope.message else { panic!("{envelope:?}") };
    adopt.resources_digest.clear();
    assert_eq!(master_from_wire(envelope), Err(InvalidWire::Digest { bytes: 0 }));
    let mut envelope = master_to_wire(&fence(), &MasterMessage::Ping);
    envelope.fence = None;
    assert_eq!(master_from_wire(envelope), Err(InvalidWire::Absent("fence")));
}
