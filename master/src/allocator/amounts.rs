//! Sums of scalars by kind. Kinds are numbered as they come, so that a sum is a short list and
//! not a map. Exact in 128 bits: no number of agents overflows it. Next: `share.rs`.

use std::collections::BTreeSet;

use resources::collection::Resources;
use resources::quantity::Quantities;
use resources::resource::Resource;

/// The kinds of scalar seen so far.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    names: Vec<String>,
    excluded: BTreeSet<String>,
}

impl Kinds {
    pub(super) fn new(excluded: BTreeSet<String>) -> Self {
        Self { names: Vec::new(), excluded }
    }
    /// The number of a kind, a new one when it was never seen.
    pub(super) fn number(&mut self, name: &str) -> usize {
        self.find(name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }
    pub(super) fn name(&self, kind: usize) -> &str {
        &self.names[kind]
    }
    /// Whether it counts for fairness.
    pub(super) fn is_fair(&self, kind: usize) -> bool {
        self.excluded.is_empty() || !self.excluded.contains(&self.names[kind])
    }
    /// The scalars of a set, a shared volume once.
    pub(super) fn amounts(&mut self, resources: &Resources) -> Amounts {
        self.amounts_where(resources, |_| true)
    }
    /// The scalars that `wanted` holds for.
    pub(super) fn amounts_where(
        &mut self,
        resources: &Resources,
        wanted: impl Fn(&Resource) -> bool,
    ) -> Amounts {
        let mut sum = Amounts::default();
        for resource in resources.iter().filter(|resource| wanted(resource)) {
            if let Some(scalar) = resource.value.as_scalar() {
                sum.add_one(self.number(&resource.name), i128::from(scalar.milli()));
            }
        }
        sum
    }
    pub(super) fn quantities(&mut self, quantities: &Quantities) -> Amounts {
        let mut sum = Amounts::default();
        for (name, amount) in quantities.iter() {
            sum.add_one(self.number(name), i128::from(amount.milli()));
        }
        sum
    }
}

/// Whether it is what quota counts and bounds: an unreserved, non-revocable scalar.
pub(super) fn is_countable(resource: &Resource) -> bool {
    !resource.is_reserved() && !resource.revocable && resource.value.as_scalar().is_some()
}

/// Kinds that need no further memory: cpus, mem, disk, and one more.
const NEAR: usize = 4;

/// A sum per kind, in thousandths.
#[derive(Debug, Clone, Default)]
pub(super) struct Amounts {
    near: [i128; NEAR],
    far: Vec<i128>,
}

impl Amounts {
    pub(super) fn get(&self, kind: usize) -> i128 {
        match kind.checked_sub(NEAR) {
            None => self.near[kind],
            Some(far) => self.far.get(far).copied().unwrap_or_default(),
        }
    }
    pub(super) fn add_one(&mut self, kind: usize, amount: i128) {
        match kind.checked_sub(NEAR) {
            None => self.near[kind] += amount,
            Some(far) => {
                if self.far.len() <= far {
                    self.far.resize(far + 1, 0);
                }
                self.far[far] += amount;
            }
        }
    }
    pub(super) fn add(&mut self, other: &Self) {
        for (kind, amount) in other.iter() {
            self.add_one(kind, amount);
        }
    }
    pub(super) fn subtract(&mut self, other: &Self) {
        for (kind, amount) in other.iter() {
            self.add_one(kind, -amount);
        }
    }
    pub(super) fn is_zero(&self) -> bool {
        self.iter().all(|(_, amount)| amount == 0)
    }
    /// The kinds with their amounts; amounts of zero too.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, i128)> + '_ {
        self.near.iter().chain(&self.far).copied().enumerate()
    }
}

/// Trailing kinds that were never touched do not matter.
impl PartialEq for Amounts {
    fn eq(&self, other: &Self) -> bool {
        let far = self.far.len().max(other.far.len());
        (0..NEAR + far).all(|kind| self.get(kind) == other.get(kind))
    }
}

impl Eq for Amounts {}
