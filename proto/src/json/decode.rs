//! Writes JSON as the wire form of a message, by the rules of spec §1.10 (which are those of
//! stout's `protobuf.hpp`). Whether required fields are there is checked on the result, in
//! `json/required.rs`.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Number, Value};

use crate::json::tables::{Field, FieldKind, MessageIndex, Shape, Tables};
use crate::json::wire::{put_delimited, put_fixed64, put_varint};
use crate::json::{DEPTH_MAX, JsonError};

/// Padding may be absent, as in Mesos.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The wire form of the JSON object in `json`.
///
/// # Errors
/// When it is no JSON object, or a member breaks a rule.
pub(super) fn to_wire(
    tables: &Tables,
    index: MessageIndex,
    json: &[u8],
) -> Result<Vec<u8>, JsonError> {
    let value =
        serde_json::from_slice(json).map_err(|error| JsonError::Syntax(error.to_string()))?;
    let Value::Object(members) = value else {
        return Err(JsonError::NotObject);
    };
    let mut out = Vec::with_capacity(json.len() / 2);
    Decoder { tables, depth: 0 }.message(index, &members, &mut out)?;
    Ok(out)
}

#[derive(Clone, Copy)]
struct Decoder<'t> {
    tables: &'t Tables,
    depth: usize,
}

impl Decoder<'_> {
    fn message(
        self,
        index: MessageIndex,
        members: &Map<String, Value>,
        out: &mut Vec<u8>,
    ) -> Result<(), JsonError> {
        let table = self.tables.message(index);
        for (name, value) in members {
            match table.by_name(name) {
                Some(field) if !value.is_null() => self.field(field, value, out)?,
                Some(_) | None => {} // null is unset; unknown members are nobody's business
            }
        }
        Ok(())
    }

    /// A single value where a list is expected is a list of one.
    fn field(self, field: &Field, value: &Value, out: &mut Vec<u8>) -> Result<(), JsonError> {
        match (field.shape, value) {
            (Shape::One, value) => self.value(field, value, out),
            (Shape::List | Shape::Map, Value::Array(items)) => items
                .iter()
                .filter(|item| !item.is_null())
                .try_for_each(|item| self.item(field, item, out)),
            (Shape::List | Shape::Map, value) => self.item(field, value, out),
        }
    }

    /// One of the values of a list, or some of the entries of a map.
    fn item(self, field: &Field, value: &Value, out: &mut Vec<u8>) -> Result<(), JsonError> {
        match (field.shape, field.kind, value) {
            (Shape::Map, FieldKind::Message(index), Value::Object(entries)) => entries
                .iter()
                .try_for_each(|(key, value)| self.entry(field, index, key, value, out)),
            _ => self.value(field, value, out),
        }
    }

    /// A map with a null in it is refused: taken for unset, `{"cpus":null}` would be a limit of
    /// nothing, or none at all.
    fn entry(
        self,
        field: &Field,
        index: MessageIndex,
        key: &str,
        value: &Value,
        out: &mut Vec<u8>,
    ) -> Result<(), JsonError> {
        if value.is_null() {
            return Err(wrong_type(field, value));
        }
        let [key_field, value_field] = self.tables.message(index).fields.as_slice() else {
            unreachable!("an entry has a key and a value");
        };
        let mut entry = Vec::new();
        self.value(key_field, &Value::String(key.to_owned()), &mut entry)?;
        self.value(value_field, value, &mut entry)?;
        put_delimited(field.number, &entry, out);
        Ok(())
    }

    fn value(self, field: &Field, value: &Value, out: &mut Vec<u8>) -> Result<(), JsonError> {
        let number = field.number;
        match (field.kind, value) {
            (FieldKind::String, Value::String(text)) => {
                put_delimited(number, text.as_bytes(), out);
            }
            (FieldKind::Bytes, Value::String(text)) => {
                let bytes = BASE64.decode(text).map_err(|error| JsonError::Base64 {
                    field: field.name.clone(),
                    reason: error.to_string(),
                })?;
                put_delimited(number, &bytes, out);
            }
            (FieldKind::Enum(index), Value::String(name)) => {
                match self.tables.enumeration(index).number(name) {
                    Some(value) => put_varint(number, i64::from(value).cast_unsigned(), out),
                    None if field.is_required => return Err(unknown_enum(field, name)),
                    None => {} // a name of a newer version: as if unset
                }
            }
            (FieldKind::Message(index), Value::Object(members)) => {
                let mut nested = Vec::new();
                self.deeper(field)?.message(index, members, &mut nested)?;
                put_delimited(number, &nested, out);
            }
            (FieldKind::Bool, value) => put_varint(number, u64::from(boolean(field, value)?), out),
            (FieldKind::Double, value) => {
                put_fixed64(number, double(field, value)?.to_bits(), out);
            }
            (FieldKind::Int32, value) => {
                let value = signed(field, value)?;
                let value = i32::try_from(value).map_err(|_| out_of_range(field, &value))?;
                put_varint(number, i64::from(value).cast_unsigned(), out);
            }
            (FieldKind::Int64, value) => {
                put_varint(number, signed(field, value)?.cast_unsigned(), out);
            }
            (FieldKind::Uint32, value) => {
                let value = unsigned(field, value)?;
                let value = u32::try_from(value).map_err(|_| out_of_range(field, &value))?;
                put_varint(number, value.into(), out);
            }
            (FieldKind::Uint64, value) => put_varint(number, unsigned(field, value)?, out),
            (
                FieldKind::String | FieldKind::Bytes | FieldKind::Enum(_) | FieldKind::Message(_),
                value,
            ) => return Err(wrong_type(field, value)),
        }
        Ok(())
    }

    fn deeper(self, field: &Field) -> Result<Self, JsonError> {
        if self.depth == DEPTH_MAX {
            return Err(JsonError::TooDeep { field: field.name.clone() });
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

fn boolean(field: &Field, value: &Value) -> Result<bool, JsonError> {
    match value {
        Value::Bool(value) => Ok(*value),
        Value::String(text) => text.trim().parse().map_err(|_| not_parsed(field, text, "boolean")),
        other => Err(wrong_type(field, other)),
    }
}

fn double(field: &Field, value: &Value) -> Result<f64, JsonError> {
    match value.as_str().map(str::trim) {
        Some("Infinity") => return Ok(f64::INFINITY),
        Some("-Infinity") => return Ok(f64::NEG_INFINITY),
        Some(_) | None => {}
    }
    let number = number(field, value)?;
    number.as_f64().ok_or_else(|| out_of_range(field, &number))
}

fn signed(field: &Field, value: &Value) -> Result<i64, JsonError> {
    let number = number(field, value)?;
    match number.as_i64() {
        Some(integer) => Ok(integer),
        None => whole(&number)
            .and_then(|integer| i64::try_from(integer).ok())
            .ok_or_else(|| out_of_range(field, &number)),
    }
}

fn unsigned(field: &Field, value: &Value) -> Result<u64, JsonError> {
    let number = number(field, value)?;
    match number.as_u64() {
        Some(integer) => Ok(integer),
        None => whole(&number)
            .and_then(|integer| u64::try_from(integer).ok())
            .ok_or_else(|| out_of_range(field, &number)),
    }
}

/// `5051.0` is an integer; `5051.5`, which Mesos cuts, is none.
#[expect(clippy::cast_possible_truncation, reason = "only whole doubles below 2^64 are cast")]
fn whole(number: &Number) -> Option<i128> {
    const TWO_TO_THE_64TH: f64 = 18_446_744_073_709_551_616.0;
    let double = number.as_f64()?;
    (double.fract() == 0.0 && double.abs() < TWO_TO_THE_64TH).then_some(double as i128)
}

/// The number itself, or the one that a text holds.
fn number(field: &Field, value: &Value) -> Result<Number, JsonError> {
    match value {
        Value::Number(number) => Ok(number.clone()),
        Value::String(text) => {
            serde_json::from_str(text).map_err(|_| not_parsed(field, text, "number"))
        }
        other => Err(wrong_type(field, other)),
    }
}

fn wrong_type(field: &Field, value: &Value) -> JsonError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    JsonError::WrongType { found, field: field.name.clone() }
}

fn not_parsed(field: &Field, text: &str, expected: &'static str) -> JsonError {
    JsonError::NotParsed { text: text.to_owned(), expected, field: field.name.clone() }
}

fn out_of_range(field: &Field, number: &impl ToString) -> JsonError {
    JsonError::OutOfRange { number: number.to_string(), field: field.name.clone() }
}

fn unknown_enum(field: &Field, name: &str) -> JsonError {
    JsonError::UnknownEnum { name: name.to_owned(), field: field.name.clone() }
}
