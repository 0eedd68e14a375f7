//! Attributes of agents ⇄ `Attribute` (spec §1.3). Next: `convert/agent.rs`.

use thiserror::Error;

use resources::brief;
use resources::message::{Attribute, AttributeValue};
use resources::value::{Range, Ranges, Scalar};

use crate::convert::InvalidWire;
use crate::mesos::v1;
use crate::mesos::v1::value;

/// Why an attribute is none.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum InvalidAttribute {
    /// The empty name.
    #[error("attribute has an empty name")]
    EmptyName,
    /// SET, or a type that does not exist.
    #[error("type of attribute '{name}' is not supported")]
    Type {
        /// Whose.
        name: String,
    },
    /// `type` names a field that is not set.
    #[error("attribute '{name}' has no value of its type")]
    Value {
        /// Whose.
        name: String,
    },
    /// NaN, an infinity, or beyond [`Scalar::MAX`].
    #[error("value of attribute '{name}' is {}, which is no amount", brief::number(*value))]
    Amount {
        /// Whose.
        name: String,
        /// What was found.
        value: f64,
    },
}

/// An attribute; of its value fields only that of its type counts.
///
/// # Errors
/// When the name is empty, or the value is missing or of a type that attributes do not have.
pub fn from_wire(wire: v1::Attribute) -> Result<Attribute, InvalidAttribute> {
    let name = wire.name;
    if name.is_empty() {
        return Err(InvalidAttribute::EmptyName);
    }
    let value = match value::Type::try_from(wire.r#type) {
        Ok(value::Type::Scalar) => match wire.scalar.map(|scalar| scalar.value) {
            Some(value) => match Scalar::from_f64(value) {
                Some(scalar) => Some(AttributeValue::Scalar(scalar)),
                None => return Err(InvalidAttribute::Amount { name, value }),
            },
            None => None,
        },
        Ok(value::Type::Ranges) => wire.ranges.map(|ranges| {
            let range = |range: value::Range| Range { begin: range.begin, end: range.end };
            let ranges = ranges.range.into_iter().map(range).collect();
            AttributeValue::Ranges(Ranges::from_unsorted(ranges))
        }),
        Ok(value::Type::Text) => wire.text.map(|text| AttributeValue::Text(text.value)),
        Ok(value::Type::Set) | Err(_) => return Err(InvalidAttribute::Type { name }),
    };
    match value {
        Some(value) => Ok(Attribute { name, value }),
        None => Err(InvalidAttribute::Value { name }),
    }
}

/// Attributes in their order.
///
/// # Errors
/// Names the first one that is none.
pub fn list_from_wire(wire: Vec<v1::Attribute>) -> Result<Vec<Attribute>, InvalidWire> {
    let convert = |(index, attribute)| {
        from_wire(attribute).map_err(|source| InvalidWire::Attribute { index, source })
    };
    wire.into_iter().enumerate().map(convert).collect()
}

/// The attribute as the wire carries it.
#[must_use]
pub fn to_wire(attribute: &Attribute) -> v1::Attribute {
    let mut wire = v1::Attribute { name: attribute.name.clone(), ..Default::default() };
    match &attribute.value {
        AttributeValue::Scalar(scalar) => {
            wire.r#type = value::Type::Scalar.into();
            wire.scalar = Some(value::Scalar { value: scalar.to_f64() });
        }
        AttributeValue::Ranges(ranges) => {
            let range = |range: &Range| value::Range { begin: range.begin, end: range.end };
            wire.r#type = value::Type::Ranges.into();
            wire.ranges =
                Some(value::Ranges { range: ranges.as_slice().iter().map(range).collect() });
        }
        AttributeValue::Text(text) => {
            wire.r#type = value::Type::Text.into();
            wire.text = Some(value::Text { value: text.clone() });
        }
    }
    wire
}
