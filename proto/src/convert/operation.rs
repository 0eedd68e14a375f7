//! Operations ⇄ `Offer.Operation`, and the operator's calls of the master as operations.
//! Next: `convert/agent.rs`.

use resources::form::Format;
use resources::id::{AgentId, OperationId};
use resources::operation::Operation;
use resources::resource::Resource;
use resources::value::Scalar;

use crate::convert::InvalidWire;
use crate::convert::resource::{from_wire as resource_from_wire, list_from_wire, list_to_wire};
use crate::mesos::v1;
use crate::mesos::v1::master::{Call, call};
use crate::mesos::v1::offer;
use crate::mesos::v1::offer::operation::{
    Create, Destroy, GrowVolume, Reserve, ShrinkVolume, Type, Unreserve,
};
use crate::mesos::v1::value;

/// An operation on resources. Its id is left to [`id_from_wire`].
///
/// # Errors
/// When it has no type, is a launch or belongs to resource providers, lacks the field of its
/// type, or a resource breaks a rule of spec §1.5.
pub fn from_wire(wire: offer::Operation) -> Result<Operation, InvalidWire> {
    let kind = wire.r#type.and_then(|kind| Type::try_from(kind).ok());
    match kind {
        None | Some(Type::Unknown) => Err(InvalidWire::Absent("type")),
        Some(Type::Reserve) => {
            let Reserve { resources, source } = present("reserve", wire.reserve)?;
            reserve(resources, source)
        }
        Some(Type::Unreserve) => unreserve(present("unreserve", wire.unreserve)?.resources),
        Some(Type::Create) => create(present("create", wire.create)?.volumes),
        Some(Type::Destroy) => destroy(present("destroy", wire.destroy)?.volumes),
        Some(Type::GrowVolume) => {
            let GrowVolume { volume, addition } = present("grow_volume", wire.grow_volume)?;
            grow(volume, addition)
        }
        Some(Type::ShrinkVolume) => {
            let ShrinkVolume { volume, subtract } = present("shrink_volume", wire.shrink_volume)?;
            shrink(volume, subtract)
        }
        Some(kind @ (Type::Launch | Type::LaunchGroup | Type::CreateDisk | Type::DestroyDisk)) => {
            Err(InvalidWire::OperationType { kind: kind.as_str_name() })
        }
    }
}

/// The id that a framework gave the operation, if any.
///
/// # Errors
/// When it has not the form of an id.
pub fn id_from_wire(wire: &offer::Operation) -> Result<Option<OperationId>, InvalidWire> {
    let id = wire.id.as_ref().map(|id| OperationId::parse(id.value.as_str()));
    id.transpose().map_err(|source| InvalidWire::Id { field: "id", source })
}

/// The operation as the wire carries it. `id` is what a framework gave it, or that of an order
/// to an agent.
#[must_use]
pub fn to_wire(
    operation: &Operation,
    id: Option<&OperationId>,
    format: Format,
) -> offer::Operation {
    let list = |resources: &[Resource]| list_to_wire(resources, format);
    let one = |resource: &Resource| crate::convert::resource::to_wire(resource, format);
    let mut wire = offer::Operation {
        id: id.map(|id| v1::OperationId { value: id.to_string() }),
        ..Default::default()
    };
    let kind = match operation {
        Operation::Reserve { resources, source } => {
            wire.reserve = Some(Reserve { resources: list(resources), source: list(source) });
            Type::Reserve
        }
        Operation::Unreserve { resources } => {
            wire.unreserve = Some(Unreserve { resources: list(resources) });
            Type::Unreserve
        }
        Operation::Create { volumes } => {
            wire.create = Some(Create { volumes: list(volumes) });
            Type::Create
        }
        Operation::Destroy { volumes } => {
            wire.destroy = Some(Destroy { volumes: list(volumes) });
            Type::Destroy
        }
        Operation::Grow { volume, addition } => {
            wire.grow_volume = Some(GrowVolume { volume: one(volume), addition: one(addition) });
            Type::GrowVolume
        }
        Operation::Shrink { volume, subtract } => {
            let subtract = value::Scalar { value: subtract.to_f64() };
            wire.shrink_volume = Some(ShrinkVolume { volume: one(volume), subtract });
            Type::ShrinkVolume
        }
        // Tasks travel beside it, as their framework gave them.
        Operation::Launch(launch) if launch.is_group => Type::LaunchGroup,
        Operation::Launch(_) => Type::Launch,
    };
    wire.r#type = Some(kind.into());
    wire
}

/// What an operator's call does to which agent; none for calls that are no operation.
///
/// # Errors
/// When the field of the call's type or the agent is missing, or a resource breaks a rule of
/// spec §1.5.
pub fn from_call(call: Call) -> Result<Option<(AgentId, Operation)>, InvalidWire> {
    let kind = call.r#type.and_then(|kind| call::Type::try_from(kind).ok());
    let converted = match kind {
        Some(call::Type::ReserveResources) => {
            from_reserve(present("reserve_resources", call.reserve_resources)?)?
        }
        Some(call::Type::UnreserveResources) => {
            from_unreserve(present("unreserve_resources", call.unreserve_resources)?)?
        }
        Some(call::Type::CreateVolumes) => {
            from_create(present("create_volumes", call.create_volumes)?)?
        }
        Some(call::Type::DestroyVolumes) => {
            from_destroy(present("destroy_volumes", call.destroy_volumes)?)?
        }
        Some(call::Type::GrowVolume) => from_grow(present("grow_volume", call.grow_volume)?)?,
        Some(call::Type::ShrinkVolume) => {
            from_shrink(present("shrink_volume", call.shrink_volume)?)?
        }
        _ => return Ok(None),
    };
    Ok(Some(converted))
}

/// RESERVE_RESOURCES.
///
/// # Errors
/// As [`from_call`]; so for the five below.
pub fn from_reserve(call: call::ReserveResources) -> Result<(AgentId, Operation), InvalidWire> {
    Ok((agent_id(&call.agent_id)?, reserve(call.resources, call.source)?))
}

/// UNRESERVE_RESOURCES.
///
/// # Errors
/// As [`from_call`].
pub fn from_unreserve(call: call::UnreserveResources) -> Result<(AgentId, Operation), InvalidWire> {
    Ok((agent_id(&call.agent_id)?, unreserve(call.resources)?))
}

/// CREATE_VOLUMES.
///
/// # Errors
/// As [`from_call`].
pub fn from_create(call: call::CreateVolumes) -> Result<(AgentId, Operation), InvalidWire> {
    Ok((agent_id(&call.agent_id)?, create(call.volumes)?))
}

/// DESTROY_VOLUMES.
///
/// # Errors
/// As [`from_call`].
pub fn from_destroy(call: call::DestroyVolumes) -> Result<(AgentId, Operation), InvalidWire> {
    Ok((agent_id(&call.agent_id)?, destroy(call.volumes)?))
}

/// GROW_VOLUME.
///
/// # Errors
/// As [`from_call`].
pub fn from_grow(call: call::GrowVolume) -> Result<(AgentId, Operation), InvalidWire> {
    let agent_id = agent_id(&present("agent_id", call.agent_id)?)?;
    Ok((agent_id, grow(call.volume, call.addition)?))
}

/// SHRINK_VOLUME.
///
/// # Errors
/// As [`from_call`].
pub fn from_shrink(call: call::ShrinkVolume) -> Result<(AgentId, Operation), InvalidWire> {
    let agent_id = agent_id(&present("agent_id", call.agent_id)?)?;
    Ok((agent_id, shrink(call.volume, call.subtract)?))
}

fn present<T>(field: &'static str, value: Option<T>) -> Result<T, InvalidWire> {
    value.ok_or(InvalidWire::Absent(field))
}

fn agent_id(wire: &v1::AgentId) -> Result<AgentId, InvalidWire> {
    AgentId::parse(wire.value.as_str()).map_err(InvalidWire::AgentId)
}

fn reserve(
    resources: Vec<v1::Resource>,
    source: Vec<v1::Resource>,
) -> Result<Operation, InvalidWire> {
    let resources = list_from_wire("resources", resources)?;
    Ok(Operation::Reserve { resources, source: list_from_wire("source", source)? })
}

fn unreserve(resources: Vec<v1::Resource>) -> Result<Operation, InvalidWire> {
    Ok(Operation::Unreserve { resources: list_from_wire("resources", resources)? })
}

fn create(volumes: Vec<v1::Resource>) -> Result<Operation, InvalidWire> {
    Ok(Operation::Create { volumes: list_from_wire("volumes", volumes)? })
}

fn destroy(volumes: Vec<v1::Resource>) -> Result<Operation, InvalidWire> {
    Ok(Operation::Destroy { volumes: list_from_wire("volumes", volumes)? })
}

fn grow(volume: v1::Resource, addition: v1::Resource) -> Result<Operation, InvalidWire> {
    Ok(Operation::Grow { volume: one("volume", volume)?, addition: one("addition", addition)? })
}

fn shrink(volume: v1::Resource, subtract: value::Scalar) -> Result<Operation, InvalidWire> {
    let value = subtract.value;
    let subtract =
        Scalar::from_f64(value).ok_or(InvalidWire::Amount { field: "subtract", value })?;
    Ok(Operation::Shrink { volume: one("volume", volume)?, subtract })
}

fn one(field: &'static str, wire: v1::Resource) -> Result<Resource, InvalidWire> {
    resource_from_wire(wire).map_err(|source| InvalidWire::Resource { field, source })
}
