//! Why a body is no message. The texts are those of Mesos, on which clients match, so they do
//! not follow our own style of messages. Next: `json/decode.rs`.

use prost::DecodeError;
use thiserror::Error;

use crate::json::DEPTH_MAX;

/// Why a JSON body is no message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JsonError {
    /// No JSON at all.
    #[error("Failed to parse body into JSON: {0}")]
    Syntax(String),
    /// JSON, but no object.
    #[error("Expecting a JSON object")]
    NotObject,
    /// A value of the wrong type.
    #[error("Not expecting a JSON {found} for field '{field}'")]
    WrongType {
        /// The JSON type found.
        found: &'static str,
        /// Where.
        field: String,
    },
    /// A text that holds no number or boolean.
    #[error("Failed to parse '{text}' as a JSON {expected} for field '{field}'")]
    NotParsed {
        /// What was found.
        text: String,
        /// `number` or `boolean`.
        expected: &'static str,
        /// Where.
        field: String,
    },
    /// A number that the field cannot hold. Mesos truncates it instead.
    #[error("Number {number} is out of range for field '{field}'")]
    OutOfRange {
        /// What was found.
        number: String,
        /// Where.
        field: String,
    },
    /// A text that is no base64.
    #[error("Failed to base64 decode bytes field '{field}': {reason}")]
    Base64 {
        /// Where.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An unknown name in a required enum field.
    #[error("Failed to find enum for '{name}' of field '{field}'")]
    UnknownEnum {
        /// What was found.
        name: String,
        /// Where.
        field: String,
    },
    /// Messages within messages beyond [`DEPTH_MAX`].
    #[error("Messages are nested deeper than {DEPTH_MAX} levels at field '{field}'")]
    TooDeep {
        /// Where.
        field: String,
    },
    /// Required fields that are not set.
    #[error("Missing required fields: {}", .0.join(", "))]
    Missing(Vec<String>),
}

/// Why a binary body is no message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BinaryError {
    /// Not the wire form of the message.
    #[error("Failed to parse body into a protobuf object: {0}")]
    Malformed(#[from] DecodeError),
    /// Required fields that are not set.
    #[error(
        "Failed to parse body into a protobuf object: Missing required fields: {}",
        .0.join(", ")
    )]
    Missing(Vec<String>),
}
