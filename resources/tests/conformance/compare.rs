//! How answers are judged: sets by mutual containment and number of objects, texts without
//! regard to the order of elements, amounts after rounding to thousandths.

use std::collections::BTreeMap;
use std::fmt::Debug;

use resources::collection::Resources;
use resources::form::ResourceForm;
use resources::resource::Resource;
use resources::value::Scalar;
use serde_json::Value;

pub(crate) type Outcome = Result<(), String>;

/// Equal, or both in the message.
pub(crate) fn same<T: PartialEq + Debug>(actual: &T, expected: &T) -> Outcome {
    if actual == expected {
        return Ok(());
    }
    Err(format!("got {actual:?}, expected {expected:?}"))
}

/// The expected set; then the number of objects, where one is given.
pub(crate) fn same_set(actual: &Resources, expect: &Value) -> Outcome {
    if let Some(list) = expect.get("resources") {
        let forms = forms(list)?.into_iter().map(Resource::try_from);
        let expected: Result<Resources, _> = forms.collect();
        let expected = expected.map_err(|error| format!("case: {error}"))?;
        let mutual = actual.contains(&expected) && expected.contains(actual);
        if !mutual || *actual != expected || actual.len() != expected.len() {
            return Err(format!("got {actual}, expected {expected}"));
        }
    }
    match expect.get("objects").and_then(Value::as_u64) {
        Some(objects) => same(&(actual.len() as u64), &objects),
        None => Ok(()),
    }
}

/// A list of objects as a set: added one by one, what is invalid is left out.
pub(crate) fn set(list: &Value) -> Result<Resources, String> {
    Ok(forms(list)?.into_iter().filter_map(|form| Resource::try_from(form).ok()).collect())
}

fn forms(list: &Value) -> Result<Vec<ResourceForm>, String> {
    serde_json::from_value(list.clone()).map_err(|error| format!("case: {error}"))
}

/// Amounts by name.
pub(crate) fn amounts(object: &Value) -> Result<BTreeMap<String, Scalar>, String> {
    let object = object.as_object().ok_or("case: amounts are no object")?;
    let amount = |value: &Value| value.as_f64().and_then(Scalar::from_f64).ok_or("case: amount");
    object.iter().map(|(name, value)| Ok((name.clone(), amount(value)?))).collect()
}

/// Neither resources, labels nor items have an order, so their texts are sorted.
pub(crate) fn unordered(text: &str) -> String {
    let mut elements: Vec<String> = text.split("; ").map(sorted_braces).collect();
    elements.sort();
    elements.join("; ")
}

fn sorted_braces(text: &str) -> String {
    let mut parts = text.split('{');
    let mut sorted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (inside, rest) = part.split_once('}').unwrap_or((part, ""));
        let mut items: Vec<&str> = inside.split(", ").collect();
        items.sort_unstable();
        sorted += &format!("{{{}}}{rest}", items.join(", "));
    }
    sorted
}
