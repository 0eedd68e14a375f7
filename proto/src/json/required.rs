//! Finds required fields that are not set, at any depth. Works on wire bytes, because prost's
//! types cannot tell absent from zero. Next: `json/decode.rs`.

use prost::DecodeError;

use crate::json::tables::{Field, FieldKind, MessageIndex, Shape, Tables};
use crate::json::wire::{Fields, Raw};

/// More names than these help nobody; a hostile body could ask for millions.
const NAMES_MAX: usize = 16;

/// Paths of absent required fields, as protobuf prints them: `agent_id.value`,
/// `resources[1].name`.
///
/// # Errors
/// When the bytes are no message.
pub(super) fn missing(
    tables: &Tables,
    index: MessageIndex,
    wire: &[u8],
) -> Result<Vec<String>, DecodeError> {
    let mut check = Check { tables, missing: Vec::new() };
    check.message(index, wire, "")?;
    Ok(check.missing)
}

struct Check<'t> {
    tables: &'t Tables,
    missing: Vec<String>,
}

impl Check<'_> {
    fn message(&mut self, index: MessageIndex, wire: &[u8], path: &str) -> Result<(), DecodeError> {
        let fields = &self.tables.message(index).fields;
        let mut found: Vec<Vec<Raw<'_>>> = vec![Vec::new(); fields.len()];
        for field in Fields(wire) {
            let (number, raw) = field?;
            if let Some(at) = self.tables.message(index).by_number(number) {
                found[at].push(raw);
            }
        }
        for (field, values) in fields.iter().zip(&found) {
            if field.is_required && !values.iter().any(|raw| self.is_set(field, *raw)) {
                self.note(path, &field.name);
            }
        }
        for (field, values) in fields.iter().zip(&found) {
            if let FieldKind::Message(nested) = field.kind {
                self.nested(field, nested, values, path)?;
            }
        }
        Ok(())
    }

    /// Occurrences of a single message are parts of it, as the wire format has it. A map entry
    /// without a value holds an empty one: prost leaves values out that are all zero.
    fn nested(
        &mut self,
        field: &Field,
        index: MessageIndex,
        values: &[Raw<'_>],
        path: &str,
    ) -> Result<(), DecodeError> {
        let mut payloads = values.iter().filter_map(|raw| match raw {
            Raw::Delimited(payload) => Some(*payload),
            Raw::Varint(_) | Raw::Fixed64(_) | Raw::Skipped => None,
        });
        match (field.shape, values.len()) {
            (Shape::One, 0) => Ok(()),
            (Shape::One, 1) => payloads.try_for_each(|payload| {
                self.message(index, payload, &format!("{path}{}.", field.name))
            }),
            (Shape::One, _) => {
                let whole = payloads.collect::<Vec<_>>().concat();
                self.message(index, &whole, &format!("{path}{}.", field.name))
            }
            (Shape::List | Shape::Map, _) => payloads.enumerate().try_for_each(|(at, payload)| {
                self.message(index, payload, &format!("{path}{}[{at}].", field.name))
            }),
        }
    }

    /// A number that the enum does not have is unset, as for C++ peers.
    fn is_set(&self, field: &Field, raw: Raw<'_>) -> bool {
        match (field.kind, raw) {
            (FieldKind::Enum(index), Raw::Varint(bits)) => i32::try_from(bits.cast_signed())
                .is_ok_and(|number| self.tables.enumeration(index).name(number).is_some()),
            _ => true,
        }
    }

    fn note(&mut self, path: &str, name: &str) {
        match self.missing.len() {
            0..NAMES_MAX => self.missing.push(format!("{path}{name}")),
            NAMES_MAX => self.missing.push("...".to_owned()),
            _ => {}
        }
    }
}
