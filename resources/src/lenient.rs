//! Mesos' leniency towards JSON input, as serde helpers for `form.rs` (spec §1.10): `null`
//! means unset, and a number may stand in a string. Must not know the messages.

use std::fmt;

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize};

/// A presence-only message: `{}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {}

/// `null` gives the default, as for a missing field.
pub(crate) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// A number, a string that holds one, or `null`.
pub(crate) fn double<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Ok(Option::<Double>::deserialize(deserializer)?.map(|double| double.0))
}

/// A non-negative integer, a string that holds one, or `null`.
pub(crate) fn unsigned<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Unsigned>::deserialize(deserializer)?.map(|unsigned| unsigned.0))
}

struct Double(f64);

impl<'de> Deserialize<'de> for Double {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DoubleVisitor).map(Self)
    }
}

struct DoubleVisitor;

impl Visitor<'_> for DoubleVisitor {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a number in a string")
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<f64, E> {
        Ok(value as f64)
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
        let text = text.trim();
        text.parse().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

struct Unsigned(u64);

impl<'de> Deserialize<'de> for Unsigned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UnsignedVisitor).map(Self)
    }
}

struct UnsignedVisitor;

impl Visitor<'_> for UnsignedVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a non-negative integer, or one in a string")
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
        Ok(value)
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<u64, E> {
        u64::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        let text = text.trim();
        text.parse().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}
