//! What of an agent is free: its total without what tasks and executors use, and for offers
//! without what unconfirmed orders made. Costs as much as what is asked about is long, however
//! much the agent has. Next: `operations.rs`.

use std::collections::BTreeSet;

use resources::collection::Resources;
use resources::conversion::Unconvertible;
use resources::id::FrameworkId;
use resources::operation::Operation;
use resources::resource::Resource;
use resources::role::Role;

use super::agents::Agent;

/// The entries of a set that these resources are, or are parts of.
pub(super) fn part<'a>(
    set: &Resources,
    touched: impl IntoIterator<Item = &'a Resource>,
) -> Resources {
    let entries: BTreeSet<&Resource> =
        touched.into_iter().filter_map(|resource| set.counterpart(resource)).collect();
    let entries: Vec<(Resource, u64)> =
        entries.into_iter().map(|entry| (entry.clone(), set.count(entry))).collect();
    entries.into()
}

impl Agent {
    /// What is free of the entries that these resources are, or are parts of. A shared volume
    /// is free however many use it.
    #[must_use]
    pub fn free(&self, touched: &[Resource]) -> Resources {
        part(&self.total, touched).available(&part(&self.used, touched))
    }

    /// Whether an operation applies to what is free.
    pub(super) fn applies(&self, operation: &Operation) -> Result<(), Unconvertible> {
        if self.used.is_empty() {
            return self.total.check(operation);
        }
        let mut touched = operation.consumed();
        touched.extend(operation.converted());
        self.free(&touched).check(operation)
    }

    /// Whether all of this is confirmed.
    #[must_use]
    pub fn has_confirmed(&self, held: &Resources) -> bool {
        self.confirmed.part(&self.total, held.iter()).contains(held)
    }

    /// The part of the total that unconfirmed orders made: it is not offered.
    #[must_use]
    pub fn unconfirmed(&self) -> Resources {
        let open = self.pending.values().filter(|record| !record.is_settled());
        let made: Vec<Resource> = open
            .filter(|record| !record.is_launch())
            .flat_map(|record| record.operation.converted())
            .collect();
        let mut made_of_them = part(&self.total, &made);
        made_of_them.subtract_all(&self.confirmed.part(&self.total, &made));
        made_of_them
    }

    /// A task or an executor uses these from now on; each use of a shared volume is one share.
    pub(super) fn occupy(&mut self, user: (&FrameworkId, &Role), resources: &[Resource]) {
        let key = (user.0.clone(), user.1.clone());
        let mut share = self.used_by.get(&key).cloned().unwrap_or_default();
        for resource in resources {
            self.used.add(resource);
            share.add(resource);
        }
        if !share.is_empty() {
            self.used_by.insert_mut(key, share);
        }
    }

    /// A task or an executor uses these no longer.
    pub(super) fn vacate(&mut self, user: (&FrameworkId, &Role), resources: &[Resource]) {
        let key = (user.0.clone(), user.1.clone());
        let mut share = self.used_by.get(&key).cloned().unwrap_or_default();
        for resource in resources {
            self.used.subtract(resource);
            share.subtract(resource);
        }
        if share.is_empty() {
            self.used_by.remove_mut(&key);
        } else {
            self.used_by.insert_mut(key, share);
        }
    }
}
