//! Prints the wire form of a message as JSON. Next: `json/decode.rs`.

use base64::prelude::{BASE64_STANDARD, Engine};

use crate::json::tables::{Field, FieldKind, MessageIndex, Shape, Tables};
use crate::json::wire::{Fields, Raw};

const WRITTEN_BY_PROST: &str = "prost wrote the bytes";

/// What becomes of empty arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EmptyArrays {
    /// None is printed.
    Omit,
    /// Those that answers of Mesos always have are printed.
    PrintMarked,
}

pub(super) struct Encoder<'t> {
    pub(super) tables: &'t Tables,
    pub(super) arrays: EmptyArrays,
}

impl Encoder<'_> {
    /// Prints the message in `wire`, which prost wrote.
    pub(super) fn message(&self, index: MessageIndex, wire: &[u8], out: &mut Vec<u8>) {
        let table = self.tables.message(index);
        let mut values: Vec<(usize, Raw<'_>)> = Vec::with_capacity(table.fields.len());
        for field in Fields(wire) {
            let (number, raw) = field.expect(WRITTEN_BY_PROST);
            values.extend(table.by_number(number).map(|at| (at, raw)));
        }
        values.sort_by_key(|(at, _)| *at); // stable: lists keep their order
        let mut rest = values.as_slice();
        let mut object = Joined::open(b"{", out);
        for (at, field) in table.fields.iter().enumerate() {
            let count = rest.partition_point(|(other, _)| *other == at);
            let (of_field, after) = rest.split_at(count);
            rest = after;
            self.field(field, of_field, &mut object);
        }
        object.close(b"}");
    }

    fn field(&self, field: &Field, values: &[(usize, Raw<'_>)], object: &mut Joined<'_>) {
        match (field.shape, values) {
            (Shape::One, [.., (_, raw)]) if self.is_printable(field, *raw) => {
                let out = object.next(&field.key);
                self.value(field.kind, *raw, out);
            }
            (Shape::One, _) => self.absent(field, object),
            (Shape::List, []) => {
                if field.is_printed_empty && self.arrays == EmptyArrays::PrintMarked {
                    object.next(&field.key).extend_from_slice(b"[]");
                }
            }
            (Shape::List, values) => {
                let mut list = Joined::open(b"[", object.next(&field.key));
                for (_, raw) in values.iter().filter(|(_, raw)| self.is_printable(field, *raw)) {
                    self.value(field.kind, *raw, list.next(""));
                }
                list.close(b"]");
            }
            (Shape::Map, []) => {}
            (Shape::Map, entries) => {
                let mut map = Joined::open(b"{", object.next(&field.key));
                for (_, entry) in entries {
                    self.entry(field.kind, *entry, &mut map);
                }
                map.close(b"}");
            }
        }
    }

    /// An unset field: its default is printed when explicit. Required ones are unset only in map
    /// values that prost left out for being all zero, so their zero is printed.
    fn absent(&self, field: &Field, object: &mut Joined<'_>) {
        if let Some(default) = &field.default {
            object.next(&field.key).extend_from_slice(default.as_bytes());
        } else if field.is_required {
            self.value(field.kind, zero(field.kind), object.next(&field.key));
        }
    }

    /// Map keys are texts in all messages in scope.
    fn entry(&self, kind: FieldKind, entry: Raw<'_>, map: &mut Joined<'_>) {
        let (FieldKind::Message(index), Raw::Delimited(wire)) = (kind, entry) else {
            unreachable!("{WRITTEN_BY_PROST}");
        };
        let [_, value_field] = self.tables.message(index).fields.as_slice() else {
            unreachable!("an entry has a key and a value");
        };
        let mut key = Raw::Delimited(b"");
        let mut value = zero(value_field.kind);
        for field in Fields(wire) {
            match field.expect(WRITTEN_BY_PROST) {
                (1, raw) => key = raw,
                (_, raw) => value = raw,
            }
        }
        let out = map.next("");
        self.value(FieldKind::String, key, out);
        out.push(b':');
        self.value(value_field.kind, value, out);
    }

    /// Enum numbers without a name are taken for unset, as C++ clients take them.
    fn is_printable(&self, field: &Field, raw: Raw<'_>) -> bool {
        match (field.kind, raw) {
            (FieldKind::Enum(index), Raw::Varint(bits)) => {
                self.tables.enumeration(index).name(to_i32(bits)).is_some()
            }
            _ => true,
        }
    }

    fn value(&self, kind: FieldKind, raw: Raw<'_>, out: &mut Vec<u8>) {
        match (kind, raw) {
            (FieldKind::Double, Raw::Fixed64(bits)) => double(f64::from_bits(bits), out),
            (FieldKind::Int32, Raw::Varint(bits)) => json(&to_i32(bits), out),
            (FieldKind::Int64, Raw::Varint(bits)) => json(&bits.cast_signed(), out),
            (FieldKind::Uint32 | FieldKind::Uint64, Raw::Varint(number)) => json(&number, out),
            (FieldKind::Bool, Raw::Varint(bit)) => json(&(bit != 0), out),
            (FieldKind::String, Raw::Delimited(text)) => {
                json(std::str::from_utf8(text).expect(WRITTEN_BY_PROST), out);
            }
            (FieldKind::Bytes, Raw::Delimited(bytes)) => json(&BASE64_STANDARD.encode(bytes), out),
            (FieldKind::Enum(index), Raw::Varint(bits)) => {
                json(&self.tables.enumeration(index).name(to_i32(bits)), out);
            }
            (FieldKind::Message(index), Raw::Delimited(wire)) => self.message(index, wire, out),
            (kind, raw) => unreachable!("{WRITTEN_BY_PROST}: {kind:?} {raw:?}"),
        }
    }
}

/// An array or object under way: puts the commas.
struct Joined<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> Joined<'o> {
    fn open(bracket: &[u8], out: &'o mut Vec<u8>) -> Self {
        out.extend_from_slice(bracket);
        Self { out, is_empty: true }
    }

    /// Where the next member goes, after its key.
    fn next(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out.extend_from_slice(key.as_bytes());
        self.out
    }

    fn close(self, bracket: &[u8]) {
        self.out.extend_from_slice(bracket);
    }
}

fn zero(kind: FieldKind) -> Raw<'static> {
    match kind {
        FieldKind::Double => Raw::Fixed64(0),
        FieldKind::String | FieldKind::Bytes | FieldKind::Message(_) => Raw::Delimited(b""),
        FieldKind::Int32
        | FieldKind::Int64
        | FieldKind::Uint32
        | FieldKind::Uint64
        | FieldKind::Bool
        | FieldKind::Enum(_) => Raw::Varint(0),
    }
}

/// Negative numbers take all 64 bits on the wire, so the low 32 are the number.
#[expect(clippy::cast_possible_truncation, reason = "the rule of the wire format")]
fn to_i32(bits: u64) -> i32 {
    bits.cast_signed() as i32
}

/// JSON has no infinities: Mesos reads these words, and no number at all for NaN.
fn double(number: f64, out: &mut Vec<u8>) {
    if number.is_finite() {
        json(&number, out);
    } else if number.is_nan() {
        out.extend_from_slice(b"null");
    } else if number.is_sign_negative() {
        out.extend_from_slice(b"\"-Infinity\"");
    } else {
        out.extend_from_slice(b"\"Infinity\"");
    }
}

fn json<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("plain values print into memory");
}
