//! Amounts per name, detached from any agent: quantities (absent means nothing) and limits
//! (absent means unlimited), and the chopping of resources to them. Quota uses them. Must not
//! know of roles.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::brief;
use crate::collection::Resources;
use crate::parse::{self, InvalidValue, ParsedValue};
use crate::resource::Resource;
use crate::value::{Scalar, Value, ValueKind};

/// Why a text is no list of amounts.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidQuantities {
    /// Not `name:value`.
    #[error("quantity '{}' needs exactly one ':'", brief::text(.0))]
    Colon(String),
    /// The value is malformed.
    #[error("invalid value of '{}': {reason}", brief::text(name))]
    Value {
        /// Whose value.
        name: String,
        /// What is wrong.
        reason: InvalidValue,
    },
    /// The value is no number, negative, or too large.
    #[error("value '{}' of '{}' is no amount", brief::text(text), brief::text(name))]
    NotScalar {
        /// Whose value.
        name: String,
        /// The value.
        text: String,
    },
    /// A limit is given twice.
    #[error("limit of '{}' is given twice", brief::text(.0))]
    Duplicate(String),
}

impl Resources {
    /// The sum of all amounts of this name, `None` when there is none. A shared volume
    /// counts once.
    #[must_use]
    pub fn scalar(&self, name: &str) -> Option<Scalar> {
        let named = self.iter().filter(|resource| resource.name == name);
        named.filter_map(|resource| resource.value.as_scalar()).reduce(Scalar::saturating_add)
    }
    /// Sums per name: amounts, counts of numbers and items. A shared volume counts once.
    #[must_use]
    pub fn quantities(&self) -> BTreeMap<String, Scalar> {
        let mut sums: BTreeMap<String, Value> = BTreeMap::new();
        for resource in self.iter() {
            let quantity = Value::Scalar(resource.value.quantity());
            sums.entry(resource.name.clone())
                .and_modify(|sum| *sum = sum.add(&quantity))
                .or_insert(quantity);
        }
        sums.into_iter().map(|(name, sum)| (name, sum.quantity())).collect()
    }
    /// The amounts alone: name and size, without reservations, disks and markers. A shared
    /// volume counts once.
    #[must_use]
    pub fn stripped_scalars(&self) -> Self {
        let amounts = self.iter().filter(|resource| resource.value.as_scalar().is_some());
        amounts.map(|r| Resource::plain(r.name.clone(), r.value.clone())).collect()
    }
    /// Kind of value per name.
    #[must_use]
    pub fn kinds(&self) -> BTreeMap<&str, ValueKind> {
        self.iter().map(|resource| (resource.name.as_str(), resource.value.kind())).collect()
    }
}

/// Amounts per name. Never holds a zero.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, Scalar>", into = "BTreeMap<String, Scalar>")]
pub struct Quantities(BTreeMap<String, Scalar>);

impl Quantities {
    /// Reads `cpus:4;mem:512`. Repeated names add up.
    ///
    /// # Errors
    /// Says what is wrong with the first bad item.
    pub fn parse(text: &str) -> Result<Self, InvalidQuantities> {
        let mut sum = Self::default();
        for item in items(text) {
            let (name, amount) = item?;
            sum.add(&Self::from(BTreeMap::from([(name, amount)])));
        }
        Ok(sum)
    }
    /// The amount of one name.
    #[must_use]
    pub fn get(&self, name: &str) -> Scalar {
        self.0.get(name).copied().unwrap_or_default()
    }
    /// The amounts by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Scalar)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Adds; amounts saturate.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }
    /// Subtracts; what would be negative vanishes.
    pub fn subtract(&mut self, other: &Self) {
        self.0.retain(|name, amount| {
            *amount = amount.saturating_sub(other.get(name));
            amount.is_positive()
        });
    }
    /// Whether there is at least as much of everything as in `other`.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        other.iter().all(|(name, amount)| self.get(name) >= amount)
    }
}

impl From<BTreeMap<String, Scalar>> for Quantities {
    fn from(mut amounts: BTreeMap<String, Scalar>) -> Self {
        amounts.retain(|_, amount| amount.is_positive());
        Self(amounts)
    }
}

impl From<Quantities> for BTreeMap<String, Scalar> {
    fn from(quantities: Quantities) -> Self {
        quantities.0
    }
}

impl From<&Resources> for Quantities {
    fn from(resources: &Resources) -> Self {
        resources.quantities().into()
    }
}

/// Upper bounds per name; zero means nothing at all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Limits(pub BTreeMap<String, Scalar>);

impl Limits {
    /// Reads `cpus:4;mem:0`.
    ///
    /// # Errors
    /// Says what is wrong with the first bad item.
    pub fn parse(text: &str) -> Result<Self, InvalidQuantities> {
        let mut limits = BTreeMap::new();
        for item in items(text) {
            let (name, amount) = item?;
            if limits.insert(name.clone(), amount).is_some() {
                return Err(InvalidQuantities::Duplicate(name));
            }
        }
        Ok(Self(limits))
    }
    /// Whether whatever stays within `other` stays within these too.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.0.iter().all(|(name, limit)| other.0.get(name).is_some_and(|other| other <= limit))
    }
    /// Whether these amounts stay within the limits.
    #[must_use]
    pub fn contains_quantities(&self, quantities: &Quantities) -> bool {
        self.0.iter().all(|(name, limit)| quantities.get(name) <= *limit)
    }
    /// What is left of the limits, never below zero.
    pub fn subtract(&mut self, quantities: &Quantities) {
        for (name, limit) in &mut self.0 {
            *limit = limit.saturating_sub(quantities.get(name)).max(Scalar::ZERO);
        }
    }
}

fn items(text: &str) -> impl Iterator<Item = Result<(String, Scalar), InvalidQuantities>> {
    text.split(';').filter(|item| !item.is_empty()).map(|item| {
        let (name, text) = item
            .split_once(':')
            .filter(|(_, text)| !text.contains(':'))
            .ok_or_else(|| InvalidQuantities::Colon(item.to_owned()))?;
        let name = name.trim().to_owned();
        match parse::value(text) {
            Err(reason) => Err(InvalidQuantities::Value { name, reason }),
            Ok(ParsedValue::Scalar(number)) => match Scalar::from_f64(number) {
                Some(amount) => Ok((name, amount)),
                None => Err(InvalidQuantities::NotScalar { name, text: text.to_owned() }),
            },
            Ok(ParsedValue::Ranges(_) | ParsedValue::Set(_) | ParsedValue::Text(_)) => {
                Err(InvalidQuantities::NotScalar { name, text: text.to_owned() })
            }
        }
    })
}

impl Resource {
    /// As much of it as `amount` allows: all, a part when it is divisible, or none.
    #[must_use]
    pub fn shrunk_to(&self, amount: Scalar) -> Option<Self> {
        if self.value.quantity() <= amount {
            return Some(self.clone());
        }
        let divisible = amount.is_positive() && !self.shared && !self.is_indivisible();
        (divisible && self.value.as_scalar().is_some())
            .then(|| Self { value: Value::Scalar(amount), ..self.clone() })
    }
}

impl Resources {
    /// At most these amounts of each name; names without an amount go.
    #[must_use]
    pub fn shrunk_to_quantities(&self, target: &Quantities) -> Self {
        let mut left = target.clone();
        let mut kept = Self::new();
        for resource in self.iter() {
            if let Some(part) = resource.shrunk_to(left.get(&resource.name)) {
                left.subtract(&amount_of(&part));
                kept.add(&part);
            }
        }
        kept
    }
    /// At most the limits; names without a limit stay.
    #[must_use]
    pub fn shrunk_to_limits(&self, target: &Limits) -> Self {
        let mut left = target.clone();
        let mut kept = Self::new();
        for resource in self.iter() {
            match left.0.get(&resource.name) {
                None => kept.add(resource),
                Some(limit) => {
                    if let Some(part) = resource.shrunk_to(*limit) {
                        left.subtract(&amount_of(&part));
                        kept.add(&part);
                    }
                }
            }
        }
        kept
    }
    /// Resources that make up `targets` whatever their reservations: those of the same role
    /// first, then unreserved ones, then any.
    #[must_use]
    pub fn find(&self, targets: &Self) -> Option<Self> {
        let mut left = self.clone();
        let mut found = Self::new();
        for target in targets.iter_with_shares() {
            let part = left.find_one(target)?;
            left.subtract_all(&part);
            found.add_all(&part);
        }
        Some(found)
    }
    fn find_one(&self, target: &Resource) -> Option<Self> {
        let rank = |resource: &Resource| match resource.reservation_role() {
            role if role == target.reservation_role() => 0,
            None => 1,
            Some(_) => 2,
        };
        let mut candidates: Vec<&Resource> = self.iter().collect();
        candidates.sort_by_key(|resource| rank(resource));
        let mut missing: Self = [target.to_unreserved()].into_iter().collect();
        let mut found = Self::new();
        for candidate in candidates {
            let plain: Self = [candidate.to_unreserved()].into_iter().collect();
            if plain.contains(&missing) {
                let reservations = &candidate.reservations;
                let last = missing
                    .map(|rest| Resource { reservations: reservations.clone(), ..rest.clone() });
                found.add_all(&last);
                return Some(found);
            }
            if missing.contains(&plain) {
                missing.subtract_all(&plain);
                found.add(candidate);
            }
        }
        None
    }
}

fn amount_of(resource: &Resource) -> Quantities {
    BTreeMap::from([(resource.name.clone(), resource.value.quantity())]).into()
}
