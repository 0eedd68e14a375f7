//! Bytes that compare as the values do: one `memcmp` instead of a walk over both values. A text
//! ends with 0, so that a shorter one comes first; its own bytes 0 and 1 become 1,1 and 1,2.
//! An absent value is 0, a present one 1 and the value; a list is 1 before each element and
//! 0 at its end. Stable ids are hashes of these bytes: the layout never changes.

use crate::resource::{DiskSource, DiskSourceKind, Labels, Reservation, ReservationKind};
use crate::value::{Value, ValueKind};

/// Room for the identity of a reserved resource with a label, without a second allocation.
const TYPICAL_BYTES: usize = 96;

/// Collects the bytes.
pub(crate) struct Encoder(Vec<u8>);

impl Encoder {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(TYPICAL_BYTES))
    }
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }
    pub(crate) fn flag(&mut self, flag: bool) {
        self.byte(u8::from(flag));
    }
    pub(crate) fn text(&mut self, text: &str) {
        if text.bytes().all(|byte| byte > 1) {
            self.0.extend_from_slice(text.as_bytes());
        } else {
            for byte in text.bytes() {
                match byte {
                    0 | 1 => self.0.extend([1, byte + 1]),
                    _ => self.byte(byte),
                }
            }
        }
        self.byte(0);
    }
    pub(crate) fn optional<T>(&mut self, value: Option<T>, encode: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            encode(self, value);
        }
    }
    pub(crate) fn optional_text(&mut self, text: Option<&str>) {
        self.optional(text, Self::text);
    }
    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, encode: impl Fn(&mut Self, T)) {
        for item in items {
            self.byte(1);
            encode(self, item);
        }
        self.byte(0);
    }
    pub(crate) fn kind(&mut self, kind: ValueKind) {
        self.byte(match kind {
            ValueKind::Scalar => 0,
            ValueKind::Ranges => 1,
            ValueKind::Set => 2,
        });
    }
    /// The stack, bottom first.
    pub(crate) fn reservations(&mut self, stack: &[Reservation]) {
        self.list(stack, |encoder, reservation| {
            encoder.byte(match reservation.kind {
                ReservationKind::Static => 0,
                ReservationKind::Dynamic => 1,
            });
            encoder.text(reservation.role.as_str());
            encoder.optional_text(reservation.principal.as_ref().map(|p| p.as_str()));
            encoder.labels(&reservation.labels);
        });
    }
    fn labels(&mut self, labels: &Labels) {
        self.list(labels.as_slice(), |encoder, label| {
            encoder.text(&label.key);
            encoder.optional_text(label.value.as_deref());
        });
    }
    pub(crate) fn disk_source(&mut self, source: &DiskSource) {
        self.byte(match source.kind {
            DiskSourceKind::Path => 0,
            DiskSourceKind::Mount => 1,
            DiskSourceKind::Block => 2,
            DiskSourceKind::Raw => 3,
        });
        self.optional_text(source.root.as_deref());
        self.optional_text(source.id.as_deref());
        self.labels(&source.metadata);
        self.optional_text(source.profile.as_deref());
        self.optional_text(source.vendor.as_deref());
    }
    pub(crate) fn value(&mut self, value: &Value) {
        self.kind(value.kind());
        match value {
            // The sign bit turned, so that negative numbers come before positive ones.
            Value::Scalar(scalar) => {
                let bits = scalar.milli().cast_unsigned() ^ (1 << 63);
                self.0.extend(bits.to_be_bytes());
            }
            Value::Ranges(ranges) => self.list(ranges.as_slice(), |encoder, range| {
                encoder.0.extend(range.begin.to_be_bytes());
                encoder.0.extend(range.end.to_be_bytes());
            }),
            Value::Set(set) => self.list(&set.0, |encoder, item| encoder.text(item)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::{ItemSet, Scalar};

    fn encoded(encode: impl FnOnce(&mut Encoder)) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encode(&mut encoder);
        encoder.finish()
    }

    proptest! {
        #[test]
        fn texts_compare_as_their_bytes(
            left in "[\0\u{1}\u{2}aé]{0,4}",
            right in "[\0\u{1}\u{2}aé]{0,4}",
        ) {
            // Followed by another field: a text must end before the next begins.
            let pair = |text: &str, next: u8| encoded(|e| { e.text(text); e.byte(next); });
            prop_assert_eq!(
                pair(&left, 0).cmp(&pair(&right, 1)),
                left.cmp(&right).then(0.cmp(&1))
            );
        }

        #[test]
        fn amounts_and_items_compare_as_they_do(left in any::<i64>(), right in any::<i64>()) {
            let amount = |milli| Value::Scalar(Scalar::from_milli(milli));
            let bytes = |value: &Value| encoded(|e| e.value(value));
            let [left, right] = [left, right].map(amount);
            prop_assert_eq!(bytes(&left).cmp(&bytes(&right)), left.cmp(&right));
            let items = Value::Set(ItemSet::default());
            prop_assert_eq!(bytes(&left).cmp(&bytes(&items)), left.cmp(&items));
        }
    }
}
