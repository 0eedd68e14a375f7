//! Reads and writes the fields of one message in wire form. Must not know what they mean.
//! Next: `json/encode.rs`.

use bytes::Buf;
use prost::DecodeError;
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};

/// The payload of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raw<'a> {
    /// Integers, booleans, enums.
    Varint(u64),
    /// Doubles.
    Fixed64(u64),
    /// Texts, bytes, messages, packed lists.
    Delimited(&'a [u8]),
    /// Wire types that no field in scope has; their content was skipped.
    Skipped,
}

/// The fields of a message, in the order of its bytes.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u32, Raw<'a>), DecodeError> {
        let (number, wire_type) = decode_key(&mut self.0)?;
        let raw = match wire_type {
            WireType::Varint => Raw::Varint(decode_varint(&mut self.0)?),
            WireType::SixtyFourBit => {
                let bits = self.0.try_get_u64_le().map_err(|_| truncated())?;
                Raw::Fixed64(bits)
            }
            WireType::LengthDelimited => {
                let length =
                    usize::try_from(decode_varint(&mut self.0)?).map_err(|_| truncated())?;
                let (payload, rest) = self.0.split_at_checked(length).ok_or_else(truncated)?;
                self.0 = rest;
                Raw::Delimited(payload)
            }
            WireType::StartGroup | WireType::EndGroup | WireType::ThirtyTwoBit => {
                skip_field(wire_type, number, &mut self.0, DecodeContext::default())?;
                Raw::Skipped
            }
        };
        Ok((number, raw))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Raw<'a>), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| self.field())
    }
}

/// prost keeps the constructor of its error to itself; its own reader makes the right one.
fn truncated() -> DecodeError {
    decode_varint(&mut [].as_slice()).expect_err("no bytes are no number")
}

pub(super) fn put_varint(number: u32, value: u64, out: &mut Vec<u8>) {
    encode_key(number, WireType::Varint, out);
    encode_varint(value, out);
}

pub(super) fn put_fixed64(number: u32, bits: u64, out: &mut Vec<u8>) {
    encode_key(number, WireType::SixtyFourBit, out);
    out.extend_from_slice(&bits.to_le_bytes());
}

pub(super) fn put_delimited(number: u32, payload: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(u64::try_from(payload.len()).expect("a length fits 64 bits"), out);
    out.extend_from_slice(payload);
}
