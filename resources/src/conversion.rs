//! What each operation consumes and makes (spec §1.7), and the fold over them that master and
//! agent share. Whether a request is well formed is in `validate.rs`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::brief;
use crate::collection::Resources;
use crate::earlier::Earlier;
use crate::operation::Operation;
use crate::resource::{DiskSource, Reservation, ReservationKind, Resource};
use crate::value::{Scalar, Value};

/// One step: the set must contain `consumed`, which becomes `converted`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    /// What goes.
    pub consumed: Vec<Resource>,
    /// What comes.
    pub converted: Vec<Resource>,
}

impl Conversion {
    fn touched(&self) -> impl Iterator<Item = &Resource> {
        self.consumed.iter().chain(&self.converted)
    }
}

/// Why an operation does not apply to a set.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Unconvertible {
    /// The set does not hold what is consumed.
    #[error(
        "insufficient resources: wanted {}, available {}",
        brief::resource(wanted), text(available.as_deref())
    )]
    Insufficient {
        /// What is missing.
        wanted: Box<Resource>,
        /// What is there instead: a smaller amount, or the volume as it is.
        available: Option<Box<Resource>>,
    },
    /// A volume is destroyed while further shares or copies of it are out.
    #[error(
        "persistent volume {} cannot be removed: {shares} more shares are out",
        brief::resource(volume)
    )]
    SharesRemain {
        /// The volume.
        volume: Box<Resource>,
        /// Shares that would be left.
        shares: u64,
    },
    /// GROW_VOLUME and SHRINK_VOLUME of what a resource provider holds.
    #[error(
        "volume {} belongs to a resource provider, which cannot resize it",
        brief::resource(volume)
    )]
    ProviderUnsupported {
        /// The volume.
        volume: Box<Resource>,
    },
    /// The operation would make or lose something.
    #[error("operation changes the quantity of '{}'", brief::text(name))]
    NotConserved {
        /// Of what.
        name: String,
    },
}

fn text(available: Option<&Resource>) -> String {
    available.map_or_else(|| "none".to_owned(), |resource| brief::resource(resource).to_string())
}

/// Checkpointed resources that the declared ones cannot hold (spec §1.7).
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Incompatible {
    /// Neither dynamically reserved nor a volume, or a provider's: never checkpointed.
    #[error("unexpected checkpointed resource {resource}")]
    NotCheckpointable {
        /// The resource.
        resource: Box<Resource>,
    },
    /// The declared resources lack what it was made of.
    #[error(
        "incompatible agent resources: {stripped} is not there for the checkpointed {resource}"
    )]
    Missing {
        /// The checkpointed resource.
        resource: Box<Resource>,
        /// What it was made of.
        stripped: Box<Resource>,
    },
}

impl Operation {
    /// The steps, in order.
    #[must_use]
    pub fn conversions(&self) -> Vec<Conversion> {
        match self {
            Self::Reserve { resources, source } if source.is_empty() => vec![Conversion {
                consumed: resources.iter().cloned().map(Resource::pop_reservation).collect(),
                converted: resources.clone(),
            }],
            Self::Reserve { resources, source } => {
                vec![Conversion { consumed: source.clone(), converted: resources.clone() }]
            }
            Self::Unreserve { resources } => {
                resources.iter().map(|r| single(r.clone(), r.clone().pop_reservation())).collect()
            }
            Self::Create { volumes } => {
                volumes.iter().map(|v| single(v.to_plain_disk(), v.clone())).collect()
            }
            Self::Destroy { volumes } => {
                volumes.iter().map(|v| single(v.clone(), v.to_plain_disk())).collect()
            }
            Self::Grow { volume, addition } => {
                let value = volume.value.add(&addition.value);
                vec![Conversion {
                    consumed: vec![volume.clone(), addition.clone()],
                    converted: vec![Resource { value, ..volume.clone() }],
                }]
            }
            Self::Shrink { volume, subtract } => {
                let freed = Value::Scalar(*subtract);
                let value = volume.value.subtract(&freed);
                vec![Conversion {
                    consumed: vec![volume.clone()],
                    converted: vec![
                        Resource { value, ..volume.clone() },
                        Resource { value: freed, ..volume.to_plain_disk() },
                    ],
                }]
            }
            // What it needs must be there, and stays.
            Self::Launch(launch) => {
                let needed: Vec<Resource> = launch.needed().iter_with_shares().cloned().collect();
                vec![Conversion { consumed: needed.clone(), converted: needed }]
            }
        }
    }
    /// Everything that it consumes.
    #[must_use]
    pub fn consumed(&self) -> Vec<Resource> {
        self.conversions().into_iter().flat_map(|conversion| conversion.consumed).collect()
    }
    /// Everything that it makes.
    #[must_use]
    pub fn converted(&self) -> Vec<Resource> {
        self.conversions().into_iter().flat_map(|conversion| conversion.converted).collect()
    }
}

fn single(consumed: Resource, converted: Resource) -> Conversion {
    Conversion { consumed: vec![consumed], converted: vec![converted] }
}

impl Resources {
    /// Whether the operation applies. Costs as much as the operation is long, however large
    /// the set is.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn check(&self, operation: &Operation) -> Result<(), Unconvertible> {
        self.exchanged(operation).map(|_| ())
    }
    /// Applies the operation wholly or not at all, at the cost of `check`.
    ///
    /// # Errors
    /// Says what is missing; the set is then as it was.
    pub fn apply(&mut self, operation: &Operation) -> Result<(), Unconvertible> {
        let (before, after) = self.exchanged(operation)?;
        self.exchange(&before, &after);
        Ok(())
    }
    /// The same where an earlier state of the set is known, which stays what it is.
    ///
    /// # Errors
    /// Says what is missing; the set is then as it was.
    pub fn apply_ahead_of(
        &mut self,
        earlier: &mut Earlier,
        operation: &Operation,
    ) -> Result<(), Unconvertible> {
        let (before, after) = self.exchanged(operation)?;
        self.exchange(&before, &after);
        earlier.stay(&before, &after);
        Ok(())
    }
    /// The entries that the operation touches, as they are and as they become.
    fn exchanged(&self, operation: &Operation) -> Result<(Self, Self), Unconvertible> {
        if let Operation::Grow { volume, .. } | Operation::Shrink { volume, .. } = operation
            && volume.provider_id.is_some()
        {
            return Err(Unconvertible::ProviderUnsupported { volume: Box::new(volume.clone()) });
        }
        // On record a volume stays mounted as it was made, however the tasks mount it.
        if let Operation::Launch(launch) = operation {
            let needed = launch.needed();
            return match needed.missing_in(self) {
                None => Ok((Self::new(), Self::new())),
                Some(missing) => Err(self.insufficient(Box::new(missing.clone()))),
            };
        }
        let mut conversions = operation.conversions();
        if let Operation::Grow { volume, .. } | Operation::Shrink { volume, .. } = operation
            && let Some(stored) = self.counterpart(volume)
        {
            // The caller's mount and creator may differ from the stored ones, which stay.
            conversions[0].converted[0].disk.clone_from(&stored.disk);
        }
        let before = self.part(conversions.iter().flat_map(Conversion::touched));
        let mut after = before.clone();
        for conversion in &conversions {
            after.convert(conversion).map_err(|missing| self.insufficient(missing))?;
            if matches!(operation, Operation::Destroy { .. }) {
                after.destroyed(&conversion.consumed)?;
            }
        }
        conserved(&before, &after)?;
        Ok((before, after))
    }
    fn convert(&mut self, conversion: &Conversion) -> Result<(), Box<Resource>> {
        let consumed: Self = conversion.consumed.iter().collect();
        if let Some(missing) = consumed.missing_in(self) {
            return Err(Box::new(missing.clone()));
        }
        self.subtract_all(&consumed);
        for resource in &conversion.converted {
            self.add(resource);
        }
        Ok(())
    }
    fn destroyed(&self, volumes: &[Resource]) -> Result<(), Unconvertible> {
        match volumes.iter().map(|volume| (volume, self.count(volume))).find(|(_, left)| *left > 0)
        {
            Some((volume, shares)) => {
                Err(Unconvertible::SharesRemain { volume: Box::new(volume.clone()), shares })
            }
            None => Ok(()),
        }
    }
    fn insufficient(&self, wanted: Box<Resource>) -> Unconvertible {
        let volume = wanted.reservation_role().zip(wanted.volume_id());
        let available = match volume {
            Some((role, id)) => self.find_volume(role, id),
            None => self.counterpart(&wanted),
        };
        let available = available.cloned().map(Box::new);
        Unconvertible::Insufficient { wanted, available }
    }
}

/// Quantities stay what they were, per name and physical origin: the check before the new
/// value is swapped in.
fn conserved(before: &Resources, after: &Resources) -> Result<(), Unconvertible> {
    let (before, after) = (sums(before), sums(after));
    match before.keys().chain(after.keys()).find(|key| before.get(key) != after.get(key)) {
        Some((name, _)) => Err(Unconvertible::NotConserved { name: (*name).to_owned() }),
        None => Ok(()),
    }
}

fn sums(set: &Resources) -> BTreeMap<(&str, Option<&DiskSource>), Scalar> {
    let mut sums: BTreeMap<_, Scalar> = BTreeMap::new();
    for resource in set.iter() {
        let sum = sums.entry((resource.name.as_str(), resource.disk_source())).or_default();
        *sum = sum.saturating_add(resource.value.quantity());
    }
    sums
}

/// What comes of operations, in order, on what was confirmed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fold {
    /// What there is after them.
    pub total: Resources,
    /// What was confirmed, beside the total.
    pub confirmed: Earlier,
    /// The positions of those that did not apply.
    pub failed: Vec<usize>,
}

/// Applies operations in order to what was confirmed.
#[must_use]
pub fn fold<'a>(confirmed: Resources, operations: impl Iterator<Item = &'a Operation>) -> Fold {
    let mut fold = Fold { total: confirmed, ..Fold::default() };
    for (position, operation) in operations.enumerate() {
        if fold.total.apply_ahead_of(&mut fold.confirmed, operation).is_err() {
            fold.failed.push(position);
        }
    }
    fold
}

/// Lays checkpointed resources over those of the command line, at the start of an agent.
///
/// # Errors
/// When the declared resources no longer hold what the checkpointed ones were made of.
pub fn apply_checkpointed(
    declared: &Resources,
    checkpointed: &Resources,
) -> Result<Resources, Incompatible> {
    let mut total = declared.clone();
    for resource in checkpointed.iter_with_shares() {
        if !resource.needs_checkpoint() {
            return Err(Incompatible::NotCheckpointable { resource: Box::new(resource.clone()) });
        }
        let stripped = declared_form(resource);
        if !total.contains_one(&stripped) {
            let resource = Box::new(resource.clone());
            return Err(Incompatible::Missing { resource, stripped: Box::new(stripped) });
        }
        total.subtract(&stripped);
        total.add(resource);
    }
    Ok(total)
}

/// What a checkpointed resource was declared as: the static bottom of its stack, no volume.
fn declared_form(resource: &Resource) -> Resource {
    let mut stripped = resource.to_plain_disk();
    if !resource.is_persistent_volume() {
        stripped.disk.clone_from(&resource.disk);
    }
    let is_static = |bottom: &&Reservation| bottom.kind == ReservationKind::Static;
    stripped.reservations =
        resource.reservations.first().filter(is_static).cloned().into_iter().collect();
    stripped
}
