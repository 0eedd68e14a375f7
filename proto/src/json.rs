//! JSON ⇄ protobuf with the rules of Mesos (spec §1.10), and binary decoding that keeps proto2's
//! `required`. Driven by descriptors: no message is named here but the few whose empty arrays
//! are printed. Must not know domain values. Next: `json/tables.rs`, `json/decode.rs`.
//!
//! Both directions go over the wire form: prost's types are written to bytes, which are printed
//! as JSON, and JSON is written to bytes, which prost reads. Doubles print shortest, always as
//! `1.0` or `1e+30`; all other rules are those of the spec.

mod decode;
mod encode;
mod error;
mod required;
mod tables;
mod wire;

use bytes::Bytes;
use prost::{Message, Name};

pub use crate::json::error::{BinaryError, JsonError};

use crate::json::encode::{EmptyArrays, Encoder};
use crate::json::tables::TABLES;

/// How deep messages may be nested in a JSON body.
pub const DEPTH_MAX: usize = 64;

/// Prints a message of a Mesos package as compact JSON.
///
/// # Panics
/// For messages of other packages.
#[must_use]
pub fn encode<M: Message + Name>(message: &M) -> Vec<u8> {
    print(message, EmptyArrays::Omit)
}

/// Prints the answer to a GET call of master or agent: as [`encode`], but the arrays at the top
/// of its parts stand there even when empty (`"agents":[]`), in GET_STATE one level deeper too.
///
/// # Panics
/// For messages of other packages.
#[must_use]
pub fn encode_response<M: Message + Name>(response: &M) -> Vec<u8> {
    print(response, EmptyArrays::PrintMarked)
}

fn print<M: Message + Name>(message: &M, arrays: EmptyArrays) -> Vec<u8> {
    let wire = message.encode_to_vec();
    let mut out = Vec::with_capacity(wire.len() * 4);
    let encoder = Encoder { tables: &TABLES, arrays };
    encoder.message(TABLES.index_of::<M>(), &wire, &mut out);
    out
}

/// Reads a JSON object as a message of a Mesos package.
///
/// # Errors
/// When it is no JSON, breaks a rule of spec §1.10, or lacks a required field at any depth.
///
/// # Panics
/// For messages of other packages.
pub fn decode<M: Message + Name + Default>(json: &[u8]) -> Result<M, JsonError> {
    let index = TABLES.index_of::<M>();
    let wire = decode::to_wire(&TABLES, index, json)?;
    let missing = required::missing(&TABLES, index, &wire).expect("this codec wrote the bytes");
    if !missing.is_empty() {
        return Err(JsonError::Missing(missing));
    }
    Ok(M::decode(Bytes::from(wire)).expect("this codec wrote the bytes"))
}

/// Reads the binary form of a message of a Mesos package. prost alone would take absent required
/// fields for zero.
///
/// # Errors
/// When the bytes are no such message, or it lacks a required field at any depth.
///
/// # Panics
/// For messages of other packages.
pub fn decode_binary<M: Message + Name + Default>(wire: &[u8]) -> Result<M, BinaryError> {
    let message = M::decode(Bytes::copy_from_slice(wire))?;
    let missing = required::missing(&TABLES, TABLES.index_of::<M>(), wire)?;
    if !missing.is_empty() {
        return Err(BinaryError::Missing(missing));
    }
    Ok(message)
}
