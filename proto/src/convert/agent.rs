//! `holdfast/agent.proto` ⇄ `resources::message`: what agents and the leading master tell each
//! other. Resources go in post-refinement form. Next: `convert/agent/tasks.rs`.

mod tasks;

use std::collections::BTreeMap;
use std::time::Duration;

use resources::form::Format;
use resources::id::{AgentId, CheckpointId, ClusterId, Incarnation, InvalidId, OperationId};
use resources::id::{Seq, Term};
use resources::message::{
    AgentInfo, AgentMessage, Fence, MasterMessage, Order, Outcome, Registration, Retry, Settled,
};
use resources::operation::Operation;

use crate::convert::resource::{list_from_wire, list_to_wire};
use crate::convert::{InvalidWire, attribute, operation};
use crate::holdfast::agent as wire;
use crate::holdfast::agent::agent_envelope::Message as FromAgent;
use crate::holdfast::agent::master_envelope::Message as FromMaster;
use crate::holdfast::agent::refused;

/// Version of `agent.proto` that this side speaks, in the first message of each direction.
pub const PROTOCOL_VERSION: u32 = 1;

impl From<&AgentMessage> for wire::AgentEnvelope {
    fn from(message: &AgentMessage) -> Self {
        let message = match message {
            AgentMessage::Register(registration) => {
                FromAgent::Register(registration.as_ref().into())
            }
            AgentMessage::Report { upto, exceptions } => FromAgent::Report(wire::Report {
                upto: upto.0,
                failures: exceptions.iter().map(|(seq, why)| (seq.0, why.clone())).collect(),
            }),
            AgentMessage::Resend { from } => FromAgent::Resend(wire::Resend { from: from.0 }),
            AgentMessage::Total { applied_seq, resources } => FromAgent::Total(wire::Total {
                applied_seq: applied_seq.0,
                resources: list_to_wire(resources, Format::Post),
            }),
            AgentMessage::Pong => FromAgent::Pong(wire::Pong {}),
            AgentMessage::Statuses(updates) => FromAgent::Statuses(wire::Statuses {
                updates: updates.iter().map(Into::into).collect(),
            }),
            AgentMessage::Exited(executors) => FromAgent::Exited(wire::Exited {
                executors: executors.iter().map(Into::into).collect(),
            }),
            AgentMessage::FrameworkMessage { executor, data } => {
                FromAgent::FrameworkMessage(tasks::message_to_wire(executor, data))
            }
            AgentMessage::Unregister => FromAgent::Unregister(wire::Unregister {}),
        };
        Self { message: Some(message) }
    }
}

impl TryFrom<wire::AgentEnvelope> for AgentMessage {
    type Error = InvalidWire;

    fn try_from(envelope: wire::AgentEnvelope) -> Result<Self, InvalidWire> {
        Ok(match envelope.message.ok_or(InvalidWire::Absent("message"))? {
            FromAgent::Register(register) => Self::Register(Box::new(register.try_into()?)),
            FromAgent::Report(wire::Report { upto, failures }) => {
                let exceptions: BTreeMap<_, _> =
                    failures.into_iter().map(|(seq, why)| (Seq(seq), why)).collect();
                Self::Report { upto: Seq(upto), exceptions }
            }
            FromAgent::Resend(wire::Resend { from }) => Self::Resend { from: Seq(from) },
            FromAgent::Total(wire::Total { applied_seq, resources }) => Self::Total {
                applied_seq: Seq(applied_seq),
                resources: list_from_wire("resources", resources)?,
            },
            FromAgent::Pong(wire::Pong {}) => Self::Pong,
            FromAgent::Statuses(wire::Statuses { updates }) => {
                let updates = updates.into_iter().map(TryInto::try_into);
                Self::Statuses(updates.collect::<Result<_, _>>()?)
            }
            FromAgent::Exited(wire::Exited { executors }) => {
                let executors = executors.into_iter().map(TryInto::try_into);
                Self::Exited(executors.collect::<Result<_, _>>()?)
            }
            FromAgent::FrameworkMessage(message) => {
                let (executor, data) = tasks::message_from_wire(message)?;
                Self::FrameworkMessage { executor, data }
            }
            FromAgent::Unregister(wire::Unregister {}) => Self::Unregister,
        })
    }
}

/// A message of the master under the fence of its term.
#[must_use]
pub fn master_to_wire(fence: &Fence, message: &MasterMessage) -> wire::MasterEnvelope {
    let message = match message {
        MasterMessage::Welcome { agent_id, ping_interval, pings_missed_max } => {
            FromMaster::Welcome(wire::Welcome {
                protocol_version: PROTOCOL_VERSION,
                agent_id: agent_id.to_string(),
                ping_interval_ms: milliseconds(*ping_interval),
                pings_missed_max: *pings_missed_max,
            })
        }
        MasterMessage::Refused { reason, retry, end_tasks, retry_after } => {
            FromMaster::Refused(wire::Refused {
                reason: reason.clone(),
                retry: match retry {
                    Retry::Later => refused::Retry::Later.into(),
                    Retry::Never => refused::Retry::Never.into(),
                },
                end_tasks: *end_tasks,
                retry_after_ms: retry_after.map(milliseconds),
            })
        }
        MasterMessage::Orders(orders) => {
            FromMaster::Orders(wire::Orders { orders: orders.iter().map(Into::into).collect() })
        }
        MasterMessage::Acknowledge { upto } => {
            FromMaster::Acknowledge(wire::Acknowledge { upto: upto.0 })
        }
        MasterMessage::SendTotal => FromMaster::SendTotal(wire::SendTotal {}),
        MasterMessage::Ping => FromMaster::Ping(wire::Ping {}),
        MasterMessage::Instruct(instruction) => tasks::instruction_to_wire(instruction),
        MasterMessage::Unregistered => FromMaster::Unregistered(wire::Unregistered {}),
        MasterMessage::Adopt { applied_seq, digest } => FromMaster::Adopt(wire::Adopt {
            applied_seq: applied_seq.0,
            resources_digest: digest.to_be_bytes().to_vec().into(),
        }),
    };
    wire::MasterEnvelope { fence: Some(fence.into()), message: Some(message) }
}

/// The fence and the message in an envelope of the master.
///
/// # Errors
/// When one of them is missing, or a part of the message has no meaning.
pub fn master_from_wire(
    envelope: wire::MasterEnvelope,
) -> Result<(Fence, MasterMessage), InvalidWire> {
    let fence = envelope.fence.ok_or(InvalidWire::Absent("fence"))?.try_into()?;
    let message = match envelope.message.ok_or(InvalidWire::Absent("message"))? {
        message @ (FromMaster::Kill(_)
        | FromMaster::ShutDownExecutor(_)
        | FromMaster::ShutDownFramework(_)
        | FromMaster::UpdateFramework(_)
        | FromMaster::AcknowledgeStatus(_)
        | FromMaster::ExecutorMessage(_)) => {
            MasterMessage::Instruct(tasks::instruction_from_wire(message)?)
        }
        FromMaster::Welcome(welcome) => {
            check_version(welcome.protocol_version)?;
            MasterMessage::Welcome {
                agent_id: id("agent_id", AgentId::parse(welcome.agent_id))?,
                ping_interval: Duration::from_millis(welcome.ping_interval_ms),
                pings_missed_max: welcome.pings_missed_max,
            }
        }
        FromMaster::Refused(refused) => {
            let retry = match refused.retry() {
                refused::Retry::Never => Retry::Never,
                refused::Retry::Later | refused::Retry::Unspecified => Retry::Later,
            };
            MasterMessage::Refused {
                reason: refused.reason,
                retry,
                end_tasks: refused.end_tasks,
                retry_after: refused.retry_after_ms.map(Duration::from_millis),
            }
        }
        FromMaster::Orders(wire::Orders { orders }) => {
            let orders = orders.into_iter().map(Order::try_from).collect::<Result<_, _>>()?;
            MasterMessage::Orders(orders)
        }
        FromMaster::Acknowledge(wire::Acknowledge { upto }) => {
            MasterMessage::Acknowledge { upto: Seq(upto) }
        }
        FromMaster::SendTotal(wire::SendTotal {}) => MasterMessage::SendTotal,
        FromMaster::Ping(wire::Ping {}) => MasterMessage::Ping,
        FromMaster::Unregistered(wire::Unregistered {}) => MasterMessage::Unregistered,
        FromMaster::Adopt(wire::Adopt { applied_seq, resources_digest }) => MasterMessage::Adopt {
            applied_seq: Seq(applied_seq),
            digest: digest(&resources_digest)?,
        },
    };
    Ok((fence, message))
}

impl From<&Fence> for wire::Fence {
    fn from(fence: &Fence) -> Self {
        Self {
            cluster_id: fence.cluster_id.to_string(),
            incarnation: fence.incarnation.0,
            term: fence.term.0,
        }
    }
}

impl TryFrom<wire::Fence> for Fence {
    type Error = InvalidWire;

    fn try_from(fence: wire::Fence) -> Result<Self, InvalidWire> {
        Ok(Self {
            cluster_id: id("cluster_id", ClusterId::parse(fence.cluster_id))?,
            incarnation: Incarnation(fence.incarnation),
            term: Term(fence.term),
        })
    }
}

impl From<&Registration> for wire::Register {
    fn from(registration: &Registration) -> Self {
        Self {
            protocol_version: PROTOCOL_VERSION,
            checkpoint_id: registration.checkpoint_id.to_string(),
            boot_counter: registration.boot_counter,
            agent_id: registration.agent_id.as_ref().map(ToString::to_string),
            fence: registration.fence.as_ref().map(Into::into),
            info: Some((&registration.info).into()),
            applied_seq: registration.applied_seq.0,
            resources_digest: registration.resources_digest.to_be_bytes().to_vec().into(),
            settled: registration.settled.iter().map(Into::into).collect(),
            unavailable: list_to_wire(&registration.unavailable, Format::Post),
            tasks: registration.tasks.iter().map(Into::into).collect(),
            executors: registration.executors.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<wire::Register> for Registration {
    type Error = InvalidWire;

    fn try_from(register: wire::Register) -> Result<Self, InvalidWire> {
        check_version(register.protocol_version)?;
        Ok(Self {
            checkpoint_id: id("checkpoint_id", CheckpointId::parse(register.checkpoint_id))?,
            boot_counter: register.boot_counter,
            agent_id: id("agent_id", register.agent_id.map(AgentId::parse).transpose())?,
            fence: register.fence.map(Fence::try_from).transpose()?,
            info: register.info.ok_or(InvalidWire::Absent("info"))?.try_into()?,
            applied_seq: Seq(register.applied_seq),
            resources_digest: digest(&register.resources_digest)?,
            settled: register
                .settled
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            unavailable: list_from_wire("unavailable", register.unavailable)?,
            tasks: register.tasks.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
            executors: register
                .executors
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl From<&AgentInfo> for wire::AgentInfo {
    fn from(info: &AgentInfo) -> Self {
        Self {
            hostname: info.hostname.clone(),
            host: info.host.clone(),
            port: info.port.into(),
            version: info.version.clone(),
            attributes: info.attributes.iter().map(attribute::to_wire).collect(),
            resources: list_to_wire(&info.resources, Format::Post),
        }
    }
}

impl TryFrom<wire::AgentInfo> for AgentInfo {
    type Error = InvalidWire;

    fn try_from(info: wire::AgentInfo) -> Result<Self, InvalidWire> {
        Ok(Self {
            hostname: info.hostname,
            host: info.host,
            port: u16::try_from(info.port).map_err(|_| InvalidWire::Port { found: info.port })?,
            version: info.version,
            attributes: attribute::list_from_wire(info.attributes)?,
            resources: list_from_wire("resources", info.resources)?,
        })
    }
}

impl From<&Settled> for wire::Settled {
    fn from(settled: &Settled) -> Self {
        Self {
            seq: settled.seq.0,
            operation_id: settled.operation_id.to_string(),
            failure: match &settled.outcome {
                Outcome::Finished => None,
                Outcome::Failed { reason } => Some(reason.clone()),
            },
        }
    }
}

impl TryFrom<wire::Settled> for Settled {
    type Error = InvalidWire;

    fn try_from(settled: wire::Settled) -> Result<Self, InvalidWire> {
        Ok(Self {
            seq: Seq(settled.seq),
            operation_id: id("operation_id", OperationId::parse(settled.operation_id))?,
            outcome: match settled.failure {
                None => Outcome::Finished,
                Some(reason) => Outcome::Failed { reason },
            },
        })
    }
}

impl From<&Order> for wire::Order {
    fn from(order: &Order) -> Self {
        let id = Some(&order.operation_id);
        let operation = operation::to_wire(&order.operation, id, Format::Post);
        let launch = match &order.operation {
            Operation::Launch(launch) => Some(launch.as_ref().into()),
            Operation::Reserve { .. }
            | Operation::Unreserve { .. }
            | Operation::Create { .. }
            | Operation::Destroy { .. }
            | Operation::Grow { .. }
            | Operation::Shrink { .. } => None,
        };
        Self { seq: order.seq.0, operation: Some(operation), launch }
    }
}

impl TryFrom<wire::Order> for Order {
    type Error = InvalidWire;

    fn try_from(order: wire::Order) -> Result<Self, InvalidWire> {
        let operation = order.operation.ok_or(InvalidWire::Absent("operation"))?;
        Ok(Self {
            seq: Seq(order.seq),
            operation_id: operation::id_from_wire(&operation)?.ok_or(InvalidWire::Absent("id"))?,
            operation: match order.launch {
                Some(launch) => tasks::launch_from_wire(launch, &operation)?,
                None => operation::from_wire(operation)?,
            },
        })
    }
}

fn check_version(found: u32) -> Result<(), InvalidWire> {
    if found == PROTOCOL_VERSION { Ok(()) } else { Err(InvalidWire::ProtocolVersion { found }) }
}

fn digest(bytes: &[u8]) -> Result<u128, InvalidWire> {
    let digest = <[u8; 16]>::try_from(bytes);
    digest.map(u128::from_be_bytes).map_err(|_| InvalidWire::Digest { bytes: bytes.len() })
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn id<T>(field: &'static str, parsed: Result<T, InvalidId>) -> Result<T, InvalidWire> {
    parsed.map_err(|source| InvalidWire::Id { field, source })
}
