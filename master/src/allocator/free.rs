//! What of one agent can be offered now, grouped so that the part for one role is found without
//! looking at the others' reservations. Must not know of offers made. Next: `agent.rs`.

use std::collections::BTreeMap;

use resources::collection::Resources;
use resources::resource::Resource;
use resources::role::Role;

use super::amounts::{Amounts, Kinds};
use super::drf::NodeId;
use super::view::Capabilities;

/// Free resources. Shared volumes are always free: they stand apart and are never taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Free {
    pub(super) unreserved: Resources,
    reserved: BTreeMap<Role, Resources>,
    shared: Vec<Resource>,
    /// The scalars of `reserved` and `shared`.
    owned: Amounts,
    has_revocable: bool,
    has_refined: bool,
}

impl Free {
    /// Groups what is free, and sets the shared volumes beside it.
    pub(super) fn new(free: &Resources, shared: Vec<Resource>, kinds: &mut Kinds) -> Self {
        let has_reserved = free.iter().any(Resource::is_reserved);
        let (unreserved, reserved) = if has_reserved {
            (free.unreserved(), free.reservations())
        } else {
            (free.clone(), BTreeMap::new())
        };
        let mut owned = Amounts::default();
        if has_reserved {
            owned.add(&kinds.amounts_where(free, Resource::is_reserved));
        }
        for volume in &shared {
            owned.add(&kinds.amounts(&std::iter::once(volume).collect()));
        }
        let has_revocable = free.iter().any(|resource| resource.revocable);
        let has_refined = free.iter().chain(&shared).any(Resource::is_refined);
        Self { unreserved, reserved, shared, owned, has_revocable, has_refined }
    }

    /// Whether nothing is free, shared volumes aside.
    pub(super) fn is_empty(&self) -> bool {
        self.unreserved.is_empty() && self.reserved.is_empty()
    }
    pub(super) fn has_shared(&self) -> bool {
        !self.shared.is_empty()
    }
    /// Everything, each shared volume once.
    pub(super) fn all(&self) -> Resources {
        let mut all = self.unreserved.clone();
        for part in self.reserved.values() {
            all.add_all(part);
        }
        for volume in &self.shared {
            all.add(volume);
        }
        all
    }
    /// The scalars of everything.
    pub(super) fn amounts(&self, kinds: &mut Kinds) -> Amounts {
        let mut sum = kinds.amounts(&self.unreserved);
        sum.add(&self.owned);
        sum
    }
    /// The places of the roles that something is reserved for, without those below another of
    /// them and those without a place: their subtrees are where reserved resources can go.
    pub(super) fn topmost_owners(&self, place: impl Fn(&Role) -> Option<NodeId>) -> Vec<NodeId> {
        let shared = self.shared.iter().filter_map(Resource::reservation_role);
        let owners = self.reserved.keys().chain(shared);
        let owners: BTreeMap<&Role, NodeId> =
            owners.filter_map(|role| Some((role, place(role)?))).collect();
        let is_topmost = |role: &Role| !role.ancestors().any(|above| owners.contains_key(&above));
        owners.iter().filter(|(role, _)| is_topmost(role)).map(|(_, place)| *place).collect()
    }

    /// The unshared groups that `role` may be offered, as they lie.
    pub(super) fn groups_for(&self, role: &Role) -> Vec<&Resources> {
        let mut groups = vec![&self.unreserved];
        if !self.reserved.is_empty() {
            groups.extend(self.reserved.get(role));
            groups.extend(role.ancestors().filter_map(|above| self.reserved.get(&above)));
        }
        groups
    }
    /// What `role` may be offered of it and a framework of these capabilities understands;
    /// no shared volume that is in `given` (spec §8.3, steps 3 and 4).
    pub(super) fn candidate(
        &self,
        role: &Role,
        capabilities: Capabilities,
        given: &Resources,
    ) -> Resources {
        let mut candidate = if self.has_revocable && !capabilities.revocable_resources {
            self.unreserved.filter(|resource| !resource.revocable)
        } else {
            self.unreserved.clone()
        };
        if self.reserved.is_empty() && self.shared.is_empty() {
            return candidate;
        }
        let is_understood =
            |resource: &Resource| capabilities.reservation_refinement || !resource.is_refined();
        for group in self.groups_for(role).into_iter().skip(1) {
            let stripped = (self.has_refined && !capabilities.reservation_refinement)
                .then(|| group.filter(is_understood));
            let group = stripped.as_ref().unwrap_or(group);
            // The smaller into the larger, which is cheap to copy.
            if group.len() > candidate.len() {
                let smaller = std::mem::replace(&mut candidate, group.clone());
                candidate.add_all(&smaller);
            } else {
                candidate.add_all(group);
            }
        }
        if capabilities.shared_resources {
            for volume in &self.shared {
                if volume.is_allocatable_to(role)
                    && is_understood(volume)
                    && !given.contains_one(volume)
                {
                    candidate.add(volume);
                }
            }
        }
        candidate
    }

    /// Whether nothing of it is reserved or shared: the candidate of anybody is everything.
    pub(super) fn is_plain(&self) -> bool {
        self.reserved.is_empty() && self.shared.is_empty()
    }
    /// Whether frameworks of these capabilities understand all of it.
    pub(super) fn is_understood(&self, capabilities: Capabilities) -> bool {
        (!self.has_revocable || capabilities.revocable_resources)
            && (!self.has_refined || capabilities.reservation_refinement)
    }
    /// Takes out all that `role` may be offered.
    pub(super) fn take_all(&mut self, role: &Role, kinds: &mut Kinds) {
        self.unreserved = Resources::new();
        if !self.reserved.is_empty() {
            for owner in std::iter::once(role.clone()).chain(role.ancestors()) {
                if let Some(part) = self.reserved.remove(&owner) {
                    self.owned.subtract(&kinds.amounts(&part));
                }
            }
        }
    }
    /// Takes out what is given away.
    pub(super) fn take(&mut self, resources: &Resources, kinds: &mut Kinds) {
        self.owned.subtract(&kinds.amounts_where(resources, is_owned));
        self.change(resources, Resources::subtract);
        self.reserved.retain(|_, part| !part.is_empty());
    }
    /// Puts in what comes back.
    pub(super) fn put(&mut self, resources: &Resources, kinds: &mut Kinds) {
        if self.unreserved.is_empty() && !resources.iter().any(Resource::is_reserved) {
            self.unreserved = resources.clone();
        } else {
            self.owned.add(&kinds.amounts_where(resources, is_owned));
            self.change(resources, Resources::add);
        }
        self.has_revocable |= resources.iter().any(|resource| resource.revocable);
        self.has_refined |= resources.iter().any(Resource::is_refined);
    }
    fn change(&mut self, resources: &Resources, change: impl Fn(&mut Resources, &Resource)) {
        for resource in resources.iter_with_shares().filter(|resource| !resource.shared) {
            match resource.reservation_role() {
                None => change(&mut self.unreserved, resource),
                Some(owner) => match self.reserved.get_mut(owner) {
                    Some(part) => change(part, resource),
                    None => {
                        let mut part = Resources::new();
                        change(&mut part, resource);
                        self.reserved.insert(owner.clone(), part);
                    }
                },
            }
        }
    }
}

fn is_owned(resource: &Resource) -> bool {
    resource.is_reserved() && !resource.shared
}
