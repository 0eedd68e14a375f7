//! How a case's JSON becomes values of the crate, and answers become JSON again.

use resources::form::{ReservationForm, ResourceForm};
use resources::message::{Attribute, AttributeValue};
use resources::operation::Operation;
use resources::parse::{self, ParsedValue};
use resources::resource::{Reservation, Resource};
use resources::role::Role;
use resources::value::{ItemSet, Scalar};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The operation, `None` for a launch: it converts nothing.
pub(crate) fn operation(wire: &Value) -> Result<Option<Operation>, String> {
    let list = |value: &Value| -> Result<Vec<Resource>, String> {
        value.as_array().into_iter().flatten().map(resource).collect()
    };
    Ok(Some(match text(&wire["type"])? {
        "LAUNCH" | "LAUNCH_GROUP" => return Ok(None),
        "RESERVE" => Operation::Reserve {
            resources: list(&wire["reserve"]["resources"])?,
            source: list(&wire["reserve"]["source"])?,
        },
        "UNRESERVE" => Operation::Unreserve { resources: list(&wire["unreserve"]["resources"])? },
        "CREATE" => Operation::Create { volumes: list(&wire["create"]["volumes"])? },
        "DESTROY" => Operation::Destroy { volumes: list(&wire["destroy"]["volumes"])? },
        "GROW_VOLUME" => Operation::Grow {
            volume: resource(&wire["grow_volume"]["volume"])?,
            addition: resource(&wire["grow_volume"]["addition"])?,
        },
        "SHRINK_VOLUME" => Operation::Shrink {
            volume: resource(&wire["shrink_volume"]["volume"])?,
            subtract: wire["shrink_volume"]["subtract"]["value"]
                .as_f64()
                .and_then(Scalar::from_f64)
                .ok_or("case: subtract")?,
        },
        unknown => return Err(format!("unknown operation type {unknown}")),
    }))
}

/// A value of the wire, which for amounts and ranges is that of a resource.
pub(crate) fn value_form(parsed: &ParsedValue) -> Value {
    match parsed {
        ParsedValue::Scalar(number) => json!({"type": "SCALAR", "scalar": {"value": number}}),
        ParsedValue::Ranges(ranges) => json!({"type": "RANGES", "ranges": {"range": ranges}}),
        ParsedValue::Set(items) => {
            let items = ItemSet(items.iter().cloned().collect());
            json!({"type": "SET", "set": {"item": items}})
        }
        ParsedValue::Text(text) => json!({"type": "TEXT", "text": {"value": text}}),
    }
}

pub(crate) fn attribute_form(attribute: &Attribute) -> Value {
    let mut form = value_form(&match &attribute.value {
        AttributeValue::Scalar(scalar) => ParsedValue::Scalar(scalar.to_f64()),
        AttributeValue::Ranges(ranges) => ParsedValue::Ranges(ranges.clone()),
        AttributeValue::Text(text) => ParsedValue::Text(text.clone()),
    });
    form["name"] = json!(attribute.name);
    form
}

/// Every number as a rounded amount, so that `12` equals `12.0`.
pub(crate) fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) if !number.is_u64() || number.as_u64() < Some(1 << 50) => {
            let scalar = number.as_f64().and_then(Scalar::from_f64);
            scalar.map_or_else(|| value.clone(), |s| json!(s.to_string()))
        }
        Value::Array(list) => list.iter().map(plain).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), plain(value))).collect(),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Number(_) => value.clone(),
    }
}

pub(crate) fn decoded<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| format!("case: {error}"))
}

pub(crate) fn form(value: &Value) -> Result<ResourceForm, String> {
    decoded(value)
}

pub(crate) fn resource(value: &Value) -> Result<Resource, String> {
    Resource::try_from(form(value)?).map_err(|error| format!("case: {error}"))
}

pub(crate) fn reservation(value: &Value) -> Result<Reservation, String> {
    let form: ReservationForm = decoded(value)?;
    let carrier = ResourceForm {
        reservations: vec![form],
        ..self::form(&CARRIER.parse().map_err(|_| "carrier")?)?
    };
    let carrier = Resource::try_from(carrier).map_err(|error| format!("case: {error}"))?;
    carrier.reservations.into_iter().next().ok_or_else(|| "case: reservation".to_owned())
}

/// A resource whose only purpose is to carry a reservation through the conversion.
const CARRIER: &str = r#"{"name": "cpus", "type": "SCALAR", "scalar": {"value": 1}}"#;

pub(crate) fn attributes(value: &Value) -> Result<Vec<Attribute>, String> {
    parse::attributes(text(value)?).map_err(|error| format!("case: {error}"))
}

pub(crate) fn role(value: &Value) -> Result<Role, String> {
    Role::parse(text(value)?).map_err(|error| format!("case: {error}"))
}

pub(crate) fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| format!("case: {value} is no text"))
}

pub(crate) fn flag(expect: &Value) -> Result<bool, String> {
    expect["result"].as_bool().ok_or_else(|| "case: result".to_owned())
}
