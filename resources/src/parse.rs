//! Texts of the command line: `--resources`, `--attributes`, values and durations (spec §1.8).
//! JSON is read by the caller; its objects come in as `ResourceForm`s.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::FpCategory;
use std::time::Duration;

use thiserror::Error;

use crate::brief;
use crate::collection::Resources;
use crate::form::{RangeForm, RangesForm, ResourceForm, ScalarForm, SetForm};
use crate::message::{Attribute, AttributeValue};
use crate::resource::Resource;
use crate::role::Role;
use crate::validate::InvalidResource;
use crate::value::{Range, Ranges, Scalar, ValueKind};

/// Why a text is no value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the message of each variant says what it is")]
pub enum InvalidValue {
    #[error("value is empty")]
    Empty,
    #[error("brackets in '{}' do not match", brief::text(.0))]
    Brackets(String),
    #[error("bracket inside of '{}', not at its start", brief::text(.0))]
    BracketPosition(String),
    #[error("'{}' is no list of ranges such as [1-3,7-9]", brief::text(.0))]
    Ranges(String),
    #[error("range {begin}-{end} ends before it begins")]
    RangesInverted { begin: u64, end: u64 },
    #[error("number '{}' is too close to zero", brief::text(.0))]
    Subnormal(String),
}

/// Why a text is no list of resources of an agent.
#[derive(Debug, Clone, PartialEq, Error)]
#[expect(missing_docs, reason = "the message of each variant says what it is")]
pub enum InvalidResources {
    #[error("resource '{}' needs exactly one ':'", brief::text(.0))]
    Colon(String),
    #[error("parentheses in resource '{}' do not match", brief::text(.0))]
    Parentheses(String),
    #[error("invalid value of resource '{}': {reason}", brief::text(name))]
    Value { name: String, reason: InvalidValue },
    #[error(
        "value '{}' of resource '{}' is no number, ranges or set",
        brief::text(text),
        brief::text(name)
    )]
    TypeUnsupported { name: String, text: String },
    #[error("invalid resource '{}': {reason}", brief::text(name))]
    Resource { name: String, reason: InvalidResource },
    #[error("persistent volume {} cannot be declared: create it later", brief::resource(.0))]
    PersistentVolume(Box<Resource>),
    #[error("revocable resource {} cannot be declared", brief::resource(.0))]
    Revocable(Box<Resource>),
    #[error("dynamic reservation {} cannot be declared: reserve it later", brief::resource(.0))]
    DynamicReservation(Box<Resource>),
    #[error("resource '{}' has values of the types {first} and {second}", brief::text(name))]
    TypeConflict { name: String, first: ValueKind, second: ValueKind },
    #[error("resource '{}' adds up to {sum}, more than {}", brief::text(name), Scalar::MAX)]
    TooMuch { name: String, sum: Scalar },
}

/// Why a text is no list of attributes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the message of each variant says what it is")]
pub enum InvalidAttributes {
    #[error("attribute '{}' is not name:value", brief::text(.0))]
    Format(String),
    #[error("attribute '{}' has a set as its value", brief::text(name))]
    Set { name: String },
    #[error("invalid value of attribute '{}': {reason}", brief::text(name))]
    Value { name: String, reason: InvalidValue },
    #[error("value {value} of attribute '{}' is out of range", brief::text(name))]
    Range { name: String, value: String },
}

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{}' is no duration such as 250ms, 1.5secs, 10mins or 2weeks", brief::text(text))]
pub struct InvalidDuration {
    /// The text.
    pub text: String,
}

/// What a text says, before it is judged as a resource or an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum ParsedValue {
    /// A finite number, zero or more.
    Scalar(f64),
    /// Intervals, coalesced.
    Ranges(Ranges),
    /// Items in the order of the text, perhaps with duplicates.
    Set(Vec<String>),
    /// Anything else, without blanks.
    Text(String),
}

/// Reads one value.
///
/// # Errors
/// Malformed brackets and ranges, nothing at all, and numbers that are subnormal.
pub fn value(text: &str) -> Result<ParsedValue, InvalidValue> {
    let text = text.trim().replace(' ', "");
    if text.is_empty() {
        return Err(InvalidValue::Empty);
    }
    if [('{', '}'), ('[', ']'), ('(', ')')].iter().any(|pair| !balanced(&text, *pair)) {
        return Err(InvalidValue::Brackets(text));
    }
    if text.starts_with('[') {
        return ranges(&text).map(ParsedValue::Ranges);
    }
    if text.starts_with('{') && !text.contains('[') {
        let items = text.split(['{', '}', ',', '\n']).filter(|item| !item.is_empty());
        return Ok(ParsedValue::Set(items.map(str::to_owned).collect()));
    }
    if text.contains(['[', '{']) {
        return Err(InvalidValue::BracketPosition(text));
    }
    match text.parse::<f64>() {
        Ok(number) => match number.classify() {
            FpCategory::Subnormal => Err(InvalidValue::Subnormal(text)),
            FpCategory::Zero => Ok(ParsedValue::Scalar(0.0)),
            FpCategory::Normal if number > 0.0 => Ok(ParsedValue::Scalar(number)),
            FpCategory::Normal | FpCategory::Nan | FpCategory::Infinite => {
                Ok(ParsedValue::Text(text))
            }
        },
        Err(_) => Ok(ParsedValue::Text(text)),
    }
}

fn balanced(text: &str, (open, close): (char, char)) -> bool {
    let mut depth = 0_usize;
    for character in text.chars() {
        if character == open {
            depth += 1;
        } else if character == close {
            let Some(less) = depth.checked_sub(1) else { return false };
            depth = less;
        }
    }
    depth == 0
}

/// `[1-3,7-9]`. Overlaps are merged here, unlike in JSON (decisions A12).
fn ranges(text: &str) -> Result<Ranges, InvalidValue> {
    let numbers = text.split(['[', ']', '-', ',', '\n']).filter(|token| !token.is_empty());
    let numbers: Result<Vec<u64>, _> = numbers.map(str::parse).collect();
    let invalid = || InvalidValue::Ranges(text.to_owned());
    let numbers = numbers.map_err(|_| invalid())?;
    let (pairs, rest) = numbers.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(invalid());
    }
    if let Some(&[begin, end]) = pairs.iter().find(|[begin, end]| begin > end) {
        return Err(InvalidValue::RangesInverted { begin, end });
    }
    let list = pairs.iter().map(|&[begin, end]| Range { begin, end });
    Ok(Ranges::from_unsorted(list.collect()))
}

/// Reads the text form of `--resources`: `cpus:4;ports(web):[80-90];disk:512`.
///
/// # Errors
/// Says what is wrong with the first bad item.
pub fn resources_text(text: &str, default_role: &Role) -> Result<Resources, InvalidResources> {
    let items = text.split(';').filter(|item| !item.is_empty());
    let forms: Result<Vec<_>, _> = items.map(|item| item_form(item, default_role)).collect();
    declared(forms?)
}

/// Takes the JSON form of `--resources`. Objects that say nothing of a role get `default_role`.
///
/// # Errors
/// Says what is wrong with the first bad object.
pub fn resources_forms(
    mut forms: Vec<ResourceForm>,
    default_role: &Role,
) -> Result<Resources, InvalidResources> {
    for form in &mut forms {
        if form.role.is_none() && form.reservations.is_empty() {
            form.role = Some(default_role.to_string());
        }
    }
    declared(forms)
}

fn item_form(item: &str, default_role: &Role) -> Result<ResourceForm, InvalidResources> {
    let (head, text) = item
        .split_once(':')
        .filter(|(_, text)| !text.contains(':'))
        .ok_or_else(|| InvalidResources::Colon(item.to_owned()))?;
    let (name, role) = match head.trim().split_once('(') {
        None if head.contains(')') => return Err(InvalidResources::Parentheses(item.to_owned())),
        None => (head.trim(), default_role.as_str()),
        Some((name, rest)) => {
            let role = rest.strip_suffix(')').filter(|role| !role.contains(['(', ')']));
            let role = role.filter(|_| !name.contains(')'));
            let role = role.ok_or_else(|| InvalidResources::Parentheses(item.to_owned()))?;
            (name.trim(), role.trim())
        }
    };
    let mut form = ResourceForm {
        name: Some(name.to_owned()),
        role: Some(role.to_owned()),
        ..ResourceForm::default()
    };
    let named = |reason| InvalidResources::Value { name: name.to_owned(), reason };
    let kind = match value(text).map_err(named)? {
        ParsedValue::Scalar(value) => {
            form.scalar = Some(ScalarForm { value: Some(value) });
            ValueKind::Scalar
        }
        ParsedValue::Ranges(ranges) => {
            let pairs = ranges.as_slice().iter();
            let range = pairs.map(|r| RangeForm { begin: Some(r.begin), end: Some(r.end) });
            form.ranges = Some(RangesForm { range: range.collect() });
            ValueKind::Ranges
        }
        ParsedValue::Set(item) => {
            form.set = Some(SetForm { item });
            ValueKind::Set
        }
        ParsedValue::Text(text) => {
            return Err(InvalidResources::TypeUnsupported { name: name.to_owned(), text });
        }
    };
    form.kind = Some(kind.to_string());
    Ok(form)
}

/// Validates, builds the set, and refuses what only operations may make.
fn declared(forms: Vec<ResourceForm>) -> Result<Resources, InvalidResources> {
    let mut resources = Resources::new();
    for form in forms {
        let name = form.name.clone().unwrap_or_default();
        let resource = Resource::try_from(form);
        resources.add(&resource.map_err(|reason| InvalidResources::Resource { name, reason })?);
    }
    let mut kinds: BTreeMap<&str, ValueKind> = BTreeMap::new();
    let mut sums: BTreeMap<&str, Scalar> = BTreeMap::new();
    for resource in resources.iter() {
        let boxed = || Box::new(resource.clone());
        if resource.is_persistent_volume() {
            return Err(InvalidResources::PersistentVolume(boxed()));
        }
        if resource.revocable {
            return Err(InvalidResources::Revocable(boxed()));
        }
        if resource.is_dynamically_reserved() {
            return Err(InvalidResources::DynamicReservation(boxed()));
        }
        let second = resource.value.kind();
        let first = *kinds.entry(&resource.name).or_insert(second);
        if first != second {
            let name = resource.name.clone();
            return Err(InvalidResources::TypeConflict { name, first, second });
        }
        let sum = sums.entry(&resource.name).or_default();
        *sum = sum.saturating_add(resource.value.as_scalar().unwrap_or_default());
        // Whatever is made of it later fits a number of the wire, too.
        if *sum > Scalar::MAX {
            return Err(InvalidResources::TooMuch { name: resource.name.clone(), sum: *sum });
        }
    }
    Ok(resources)
}

/// Reads `--attributes`: `rack:r1;zone:eu`; names may repeat.
///
/// # Errors
/// Says what is wrong with the first bad one.
pub fn attributes(text: &str) -> Result<Vec<Attribute>, InvalidAttributes> {
    text.split([';', '\n']).filter(|item| !item.is_empty()).map(attribute).collect()
}

fn attribute(item: &str) -> Result<Attribute, InvalidAttributes> {
    let pair = item.split_once(':').map(|(name, text)| (name.trim(), text));
    let (name, text) = pair
        .filter(|(name, text)| !name.is_empty() && !text.trim().is_empty())
        .ok_or_else(|| InvalidAttributes::Format(item.to_owned()))?;
    let name = name.to_owned();
    let value = match value(text) {
        Err(reason) => return Err(InvalidAttributes::Value { name, reason }),
        Ok(ParsedValue::Set(_)) => return Err(InvalidAttributes::Set { name }),
        Ok(ParsedValue::Ranges(ranges)) => AttributeValue::Ranges(ranges),
        Ok(ParsedValue::Text(text)) => AttributeValue::Text(text),
        Ok(ParsedValue::Scalar(number)) => match Scalar::from_f64(number) {
            Some(scalar) => AttributeValue::Scalar(scalar),
            None => {
                return Err(InvalidAttributes::Range {
                    name,
                    value: brief::number(number).to_string(),
                });
            }
        },
    };
    Ok(Attribute { name, value })
}

/// Units of a duration in nanoseconds.
const UNITS: [(&[&str], u128); 8] = [
    (&["ns"], 1),
    (&["us"], 1_000),
    (&["ms"], 1_000_000),
    (&["s", "secs"], 1_000_000_000),
    (&["m", "min", "mins"], 60_000_000_000),
    (&["h", "hrs"], 3_600_000_000_000),
    (&["d", "days"], 86_400_000_000_000),
    (&["w", "weeks"], 604_800_000_000_000),
];
/// Decimal places that are read; a nanosecond of the longest unit needs fewer.
const DECIMALS_MAX: usize = 15;

/// Reads a duration: a decimal number and a unit, such as `1.5secs`.
///
/// # Errors
/// On any other text, and past 2^64 nanoseconds.
pub fn duration(text: &str) -> Result<Duration, InvalidDuration> {
    duration_nanos(text.trim())
        .map(Duration::from_nanos)
        .ok_or_else(|| InvalidDuration { text: text.to_owned() })
}

fn duration_nanos(text: &str) -> Option<u64> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(at);
    let (_, nanos) = UNITS.iter().find(|(names, _)| names.contains(&unit.trim()))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    if fraction.len() > DECIMALS_MAX {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { u128::from(whole.parse::<u64>().ok()?) };
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    u64::try_from(whole.checked_mul(*nanos)? + part * nanos / scale).ok()
}
