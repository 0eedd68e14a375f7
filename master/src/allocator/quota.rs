//! Guarantees and limits of top-level roles (spec §5.5, §8.4). Consumption is what is reserved
//! for the role or below it, allocated or not, and what is allocated to it or below it of the
//! unreserved non-revocable scalars. Must not know of frameworks. Next: `cycle.rs`.
//!
//! A role that once had a quota stays counted until the term ends: its sums would otherwise
//! have to be made anew when the quota comes back.

use std::collections::BTreeMap;

use resources::collection::Resources;
use resources::quantity::Limits;
use resources::quota::Quota;
use resources::role::Role;
use resources::value::Scalar;

use super::amounts::{Amounts, Kinds, is_countable};

#[derive(Debug, Default)]
struct Entry {
    guarantees: Amounts,
    limits: BTreeMap<usize, i128>,
    consumed: Amounts,
}

impl Entry {
    fn missing(&self) -> impl Iterator<Item = (usize, i128)> + '_ {
        let missing = |(kind, amount)| (kind, amount - self.consumed.get(kind));
        self.guarantees.iter().map(missing).filter(|(_, amount)| *amount > 0)
    }
}

/// A candidate after quota, and whether quota took something from it.
#[derive(Debug)]
pub(super) struct Trimmed {
    pub(super) resources: Resources,
    pub(super) is_trimmed: bool,
}

/// All quotas, and what they are measured by.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    roles: BTreeMap<Role, Entry>,
    /// What guarantees still miss: the headroom to be kept.
    required: Amounts,
    /// What is free and countable on all agents: the headroom there is.
    open: Amounts,
    has_moved: bool,
}

impl Quotas {
    /// Whether no role ever had one in this term.
    pub(super) fn is_empty(&self) -> bool {
        self.roles.is_empty()
    }
    /// The top-level role with a quota that `role` is or lies below.
    pub(super) fn role_over(&self, role: &Role) -> Option<&Role> {
        if self.roles.is_empty() {
            return None;
        }
        let found = match role.ancestors().last() {
            Some(top) => self.roles.get_key_value(&top),
            None => self.roles.get_key_value(role),
        };
        found.map(|(role, _)| role)
    }
    fn entry_over(&self, role: &Role) -> Option<&Entry> {
        self.role_over(role).and_then(|role| self.roles.get(role))
    }
    /// Sets the quota of a role. Says whether the role was not counted before: then every
    /// agent's ledger must be restated.
    pub(super) fn set(&mut self, role: &Role, quota: &Quota, kinds: &mut Kinds) -> bool {
        let is_new = !self.roles.contains_key(role);
        let guarantees = kinds.quantities(&quota.guarantees);
        let limits = quota.limits.0.iter();
        let limits =
            limits.map(|(name, limit)| (kinds.number(name), i128::from(limit.milli()))).collect();
        self.change(role.clone(), |entry| {
            entry.guarantees = guarantees;
            entry.limits = limits;
        });
        self.has_moved = true;
        is_new
    }
    fn change(&mut self, role: Role, change: impl FnOnce(&mut Entry)) {
        let entry = self.roles.entry(role).or_default();
        for (kind, amount) in entry.missing() {
            self.required.add_one(kind, -amount);
        }
        change(entry);
        for (kind, amount) in entry.missing() {
            self.required.add_one(kind, amount);
        }
    }
    pub(super) fn consume(&mut self, role: &Role, amounts: &Amounts) {
        if self.roles.contains_key(role) {
            self.change(role.clone(), |entry| entry.consumed.add(amounts));
        }
    }
    pub(super) fn release(&mut self, role: &Role, amounts: &Amounts) {
        if self.roles.contains_key(role) {
            self.change(role.clone(), |entry| entry.consumed.subtract(amounts));
            self.has_moved |= !amounts.is_zero();
        }
    }
    /// Something became free.
    pub(super) fn open(&mut self, amounts: &Amounts) {
        self.open.add(amounts);
        self.has_moved |= !amounts.is_zero();
    }
    /// Something is free no more.
    pub(super) fn close(&mut self, amounts: &Amounts) {
        self.open.subtract(amounts);
    }
    /// Whether something changed for the better since the last time it was asked: what quota
    /// withheld may be offered now.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.has_moved)
    }
    /// The roles whose guarantees are not met.
    pub(super) fn unsatisfied(&self) -> impl Iterator<Item = &Role> {
        let unmet = self.roles.iter().filter(|(_, entry)| entry.missing().next().is_some());
        unmet.map(|(role, _)| role)
    }
    pub(super) fn is_satisfied(&self, role: &Role) -> bool {
        self.roles.get(role).is_none_or(|entry| entry.missing().next().is_none())
    }

    /// The kinds of which a role has more than its limits allow.
    pub(super) fn excess(&self, role: &Role) -> Vec<usize> {
        let Some(entry) = self.roles.get(role) else { return Vec::new() };
        let limits = entry.limits.iter();
        let above = limits.filter(|(kind, limit)| entry.consumed.get(**kind) > **limit);
        above.map(|(kind, _)| *kind).collect()
    }
    /// The kinds of which guarantees miss more than what is free.
    pub(super) fn shortage(&self) -> Vec<usize> {
        let required = self.required.iter();
        let short =
            required.filter(|(kind, required)| *required > 0 && *required > self.open.get(*kind));
        short.map(|(kind, _)| kind).collect()
    }
    /// Whether a role's guarantee is met without this part of what it has.
    pub(super) fn can_spare(&self, role: &Role, amounts: &Amounts) -> bool {
        self.entry_over(role).is_none_or(|entry| {
            let mut guarantees = entry.guarantees.iter().filter(|(_, amount)| *amount > 0);
            guarantees.all(|(kind, amount)| {
                amounts.get(kind) == 0 || entry.consumed.get(kind) - amounts.get(kind) >= amount
            })
        })
    }

    /// The first stage: of the countable ones what the guarantee misses, and more as limits and
    /// headroom allow; of the others all. None when nothing helps the guarantee.
    pub(super) fn guarantee(
        &self,
        kinds: &mut Kinds,
        candidate: &Resources,
        role: &Role,
    ) -> Option<Trimmed> {
        let entry = self.entry_over(role)?;
        let missing: BTreeMap<String, Scalar> = entry
            .missing()
            .map(|(kind, amount)| (kinds.name(kind).to_owned(), scalar(amount)))
            .collect();
        let mut rest = candidate.filter(is_countable);
        let guaranteed = rest.shrunk_to_quantities(&missing.into());
        if guaranteed.is_empty() {
            return None;
        }
        rest.subtract_all(&guaranteed);
        let given = kinds.amounts(&guaranteed);
        let trimmed = self.within_bounds(kinds, rest, Some(entry), &given);
        let mut resources = candidate.filter(|resource| !is_countable(resource));
        resources.add_all(&guaranteed);
        resources.add_all(&trimmed.resources);
        Some(Trimmed { resources, ..trimmed })
    }
    /// The second stage: of the countable ones what limits and headroom allow; of the others
    /// all. As in Mesos' code, headroom chops like a limit.
    pub(super) fn trim(&self, kinds: &mut Kinds, candidate: Resources, role: &Role) -> Trimmed {
        let wanted = kinds.amounts_where(&candidate, is_countable);
        let entry = self.entry_over(role);
        if self.bounds(&wanted, entry, &Amounts::default()).is_empty() {
            return Trimmed { resources: candidate, is_trimmed: false };
        }
        let countable = candidate.filter(is_countable);
        let trimmed = self.within_bounds(kinds, countable, entry, &Amounts::default());
        let mut resources = candidate.filter(|resource| !is_countable(resource));
        resources.add_all(&trimmed.resources);
        Trimmed { resources, ..trimmed }
    }
    fn within_bounds(
        &self,
        kinds: &mut Kinds,
        countable: Resources,
        entry: Option<&Entry>,
        given: &Amounts,
    ) -> Trimmed {
        let wanted = kinds.amounts(&countable);
        let bounds = self.bounds(&wanted, entry, given);
        if bounds.is_empty() {
            return Trimmed { resources: countable, is_trimmed: false };
        }
        let bounds = bounds.into_iter();
        let limits = bounds.map(|(kind, bound)| (kinds.name(kind).to_owned(), scalar(bound)));
        let limits = Limits(limits.collect());
        Trimmed { resources: countable.shrunk_to_limits(&limits), is_trimmed: true }
    }
    /// The kinds of which less than `wanted` may go, and how much. `given` is promised to the
    /// same role already and not yet counted.
    fn bounds(
        &self,
        wanted: &Amounts,
        entry: Option<&Entry>,
        given: &Amounts,
    ) -> Vec<(usize, i128)> {
        let mut bounds = Vec::new();
        for (kind, amount) in wanted.iter().filter(|(_, amount)| *amount > 0) {
            let mut bound = amount;
            if let Some((limit, entry)) =
                entry.and_then(|entry| Some((entry.limits.get(&kind)?, entry)))
            {
                bound = bound.min(limit - entry.consumed.get(kind) - given.get(kind));
            }
            let required = self.required.get(kind);
            if required > 0 {
                // What is given lowers both sides by the same: it helps the guarantee.
                bound = bound.min(self.open.get(kind) - required);
            }
            if bound < amount {
                bounds.push((kind, bound.max(0)));
            }
        }
        bounds
    }
}

fn scalar(amount: i128) -> Scalar {
    Scalar::from_milli(i64::try_from(amount.max(0)).unwrap_or(i64::MAX))
}
