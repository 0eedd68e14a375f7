//! Sums of resources by name, as every unversioned endpoint prints them (spec §6.2): numbers for
//! scalars, texts for ranges and sets. Numbers become doubles here. Next: `slave.rs`.

use std::borrow::Cow;

use resources::resource::Resource;
use resources::value::{Scalar, Value};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

/// Names that a summary always holds.
const ALWAYS: [&str; 4] = ["cpus", "gpus", "mem", "disk"];

/// Amounts by name. There are few names, so that a list is faster than a map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Summary<'a>(Vec<(Cow<'a, str>, Value)>);

impl<'a> Summary<'a> {
    /// The sums of these; a shared volume counts as often as it comes.
    pub(crate) fn of(resources: impl IntoIterator<Item = &'a Resource>) -> Self {
        let always = ALWAYS.into_iter().map(|name| (name.into(), Value::Scalar(Scalar::ZERO)));
        let mut sums = Self(always.collect());
        resources.into_iter().for_each(|resource| sums.add(resource));
        sums
    }

    fn add(&mut self, resource: &'a Resource) {
        let name: Cow<'a, str> = match resource.revocable {
            true => format!("{}_revocable", resource.name).into(),
            false => resource.name.as_str().into(),
        };
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum = sum.add(&resource.value),
            None => self.0.push((name, resource.value.clone())),
        }
    }

    /// The same, of resources that go away.
    pub(crate) fn into_owned(self) -> Summary<'static> {
        let owned = self.0.into_iter().map(|(name, sum)| (name.into_owned().into(), sum));
        Summary(owned.collect())
    }
}

impl Serialize for Summary<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, sum) in &self.0 {
            map.serialize_entry(name, &Amount::of(sum))?;
        }
        map.end()
    }
}

/// One amount.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Amount {
    Number(f64),
    Text(String),
}

impl Amount {
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::Scalar(scalar) => Self::Number(scalar.to_f64()),
            Value::Ranges(ranges) => Self::Text(ranges.to_string()),
            Value::Set(items) => Self::Text(items.to_string()),
        }
    }
}
