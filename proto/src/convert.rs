//! Wire ⇄ domain: the only code that makes domain values of wire messages. Form is checked
//! here, once; whether an operation makes sense is for `resources::validate` and the state.
//!
//! Next: `convert/resource.rs`, `convert/operation.rs`, `convert/attribute.rs`,
//! `convert/status.rs`, `convert/framework.rs`, `convert/task.rs`, `convert/offer.rs`,
//! `convert/scheduler.rs`, `convert/quota.rs`,
//! `convert/maintenance.rs`, `convert/agent.rs`.

pub mod agent;
pub mod attribute;
pub mod framework;
pub mod maintenance;
pub mod offer;
pub mod operation;
pub mod quota;
pub mod resource;
pub mod scheduler;
pub mod status;
pub mod task;

use thiserror::Error;

use resources::brief;
use resources::id::InvalidId;
use resources::validate::InvalidResource;
use resources::weight::InvalidWeight;

use crate::convert::attribute::InvalidAttribute;

/// Why a message has no meaning. Never worth a retry. The texts that Mesos has too are its own.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum InvalidWire {
    /// A field that this message cannot do without.
    #[error("Expecting '{0}' to be present")]
    Absent(&'static str),
    /// An agent id that no agent can have.
    #[error("No agent found with specified ID")]
    AgentId(#[source] InvalidId),
    /// An id of the wrong form.
    #[error("invalid '{field}': {source}")]
    Id {
        /// Where.
        field: &'static str,
        /// What is wrong with it.
        source: InvalidId,
    },
    /// A resource of a list.
    #[error("invalid '{field}[{index}]': {source}")]
    Element {
        /// The list.
        field: &'static str,
        /// Its position there.
        index: usize,
        /// What is wrong with it.
        source: InvalidResource,
    },
    /// A resource that stands alone.
    #[error("invalid '{field}': {source}")]
    Resource {
        /// Where.
        field: &'static str,
        /// What is wrong with it.
        source: InvalidResource,
    },
    /// An attribute.
    #[error("invalid 'attributes[{index}]': {source}")]
    Attribute {
        /// Its position.
        index: usize,
        /// What is wrong with it.
        source: InvalidAttribute,
    },
    /// An amount that is none, or beyond `Scalar::MAX`.
    #[error("'{field}' is {}, which is no amount", brief::number(*value))]
    Amount {
        /// Where.
        field: &'static str,
        /// What was found.
        value: f64,
    },
    /// The same, of one kind of several.
    #[error(
        "'{field}' of '{}' is {}, which is no amount",
        brief::text(name),
        brief::number(*value)
    )]
    AmountOf {
        /// Where.
        field: &'static str,
        /// Of which kind.
        name: String,
        /// What was found.
        value: f64,
    },
    /// A resource that cannot be a guarantee.
    #[error("invalid 'guarantee[{index}]': {reason}")]
    Guarantee {
        /// Its position.
        index: usize,
        /// Why not.
        reason: &'static str,
    },
    /// A number that is no weight.
    #[error("{0}")]
    Weight(#[source] InvalidWeight),
    /// An operation that has no place here.
    #[error("operation type {kind} is not supported")]
    OperationType {
        /// Its name.
        kind: &'static str,
    },
    /// A peer of another protocol version.
    #[error("protocol version {found}, this side speaks {}", agent::PROTOCOL_VERSION)]
    ProtocolVersion {
        /// What the peer speaks.
        found: u32,
    },
    /// A number that names none of an enumeration.
    #[error("'{field}' is {found}, which is no value of it")]
    Enumerator {
        /// Where.
        field: &'static str,
        /// What was found.
        found: i32,
    },
    /// A name of an update that is no UUID.
    #[error("'uuid' has {bytes} bytes, not 16")]
    Uuid {
        /// Its length.
        bytes: usize,
    },
    /// Bytes that hold no message.
    #[error("'{field}' holds no message: {reason}")]
    Undecodable {
        /// Where.
        field: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A role that is none.
    #[error("invalid '{field}': {source}")]
    Role {
        /// Where.
        field: &'static str,
        /// What is wrong with it.
        source: resources::role::InvalidRole,
    },
    /// A digest of the wrong length.
    #[error("'resources_digest' has {bytes} bytes, not 16")]
    Digest {
        /// Its length.
        bytes: usize,
    },
    /// A port beyond 65535.
    #[error("'port' is {found}, more than 65535")]
    Port {
        /// What was found.
        found: u32,
    },
}
