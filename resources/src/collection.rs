//! Sets of resources and their arithmetic (spec §1.6). Adding, subtracting and looking up one
//! resource takes time logarithmic in the size of the set. Must not know of operations: those
//! are in `conversion.rs`.
//!
//! Serialized as a list of (resource, count) in the order of the identities: the same set
//! gives the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use crate::id::VolumeId;
use crate::identity::{Held, Identified, VolumeProbe};
use crate::resource::Resource;
use crate::role::Role;
use crate::value::{Scalar, Value, ValueKind};

/// A set of resources. What may merge is merged; what may not (volumes, MOUNT, BLOCK and RAW
/// with an id) stands side by side; a shared volume is one entry with a number of shares.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(Resource, u64)>", into = "Vec<(Resource, u64)>")]
pub struct Resources {
    held: BTreeSet<Held>,
}

impl Resources {
    /// The empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
    /// How many separate objects are in it; a shared volume is one, however many its shares.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }
    /// The separate objects. A shared volume comes once, equal indivisible ones each.
    pub fn iter(&self) -> impl Iterator<Item = &Resource> {
        self.held.iter().flat_map(|held| {
            let copies = if held.resource.shared { 1 } else { held.count };
            (0..copies).map(|_| &held.resource)
        })
    }
    /// The separate objects, a shared volume as many times as it has shares: what makes an
    /// equal set when each is added.
    pub fn iter_with_shares(&self) -> impl Iterator<Item = &Resource> {
        self.held.iter().flat_map(|held| (0..held.count).map(|_| &held.resource))
    }
    /// The entries: a resource, and its shares or equal copies.
    pub fn entries(&self) -> impl Iterator<Item = (&Resource, u64)> {
        self.held.iter().map(|held| (&held.resource, held.count))
    }

    /// Adds one. Nameless and empty ones are ignored. Where an equal volume stands already,
    /// the mount and the creator of the first one stay.
    pub fn add(&mut self, resource: &Resource) {
        self.add_counted(resource, 1);
    }
    /// Adds every element of another set.
    pub fn add_all(&mut self, other: &Self) {
        for (resource, count) in other.entries() {
            self.add_counted(resource, count);
        }
    }
    fn add_counted(&mut self, resource: &Resource, count: u64) {
        if resource.name.is_empty() || resource.value.is_empty() || count == 0 {
            return;
        }
        let held = match self.take(resource) {
            None => Held { resource: resource.clone(), count },
            Some(held) if is_counted(resource) => {
                Held { count: held.count.saturating_add(count), ..held }
            }
            Some(mut held) => {
                held.resource.value = held.resource.value.add(&resource.value);
                held
            }
        };
        self.held.insert(held);
    }

    /// Subtracts one. What is not there is not subtracted; a rest that is empty or negative
    /// vanishes; an indivisible one goes as a whole or not at all.
    pub fn subtract(&mut self, resource: &Resource) {
        self.subtract_counted(resource, 1);
    }
    /// Subtracts every element of another set.
    pub fn subtract_all(&mut self, other: &Self) {
        for (resource, count) in other.entries() {
            self.subtract_counted(resource, count);
        }
    }
    fn subtract_counted(&mut self, resource: &Resource, count: u64) {
        let Some(mut held) = self.take(resource) else { return };
        if is_counted(resource) {
            held.count = held.count.saturating_sub(count);
        } else {
            held.resource.value = held.resource.value.subtract(&resource.value);
        }
        if held.count > 0 && !held.resource.value.is_empty() {
            self.held.insert(held);
        }
    }

    /// Whether one resource is in it as a whole.
    #[must_use]
    pub fn contains_one(&self, resource: &Resource) -> bool {
        self.contains_counted(resource, 1)
    }
    /// Whether all of another set is in it, as many shares and copies included.
    ///
    /// Mesos lets one MOUNT disk stand for two equal ones here; then a conversion would make
    /// disk out of nothing, so copies are counted for every indivisible resource.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        other.entries().all(|(resource, count)| self.contains_counted(resource, count))
    }
    fn contains_counted(&self, resource: &Resource, count: u64) -> bool {
        resource.value.is_empty()
            || self.held(resource).is_some_and(|held| {
                held.count >= count && held.resource.value.contains(&resource.value)
            })
    }
    /// How often exactly this resource is in it: shares of a shared volume, copies of an equal
    /// indivisible one, 0 for a part of a larger one.
    #[must_use]
    pub fn count(&self, resource: &Resource) -> u64 {
        let equal = self.held(resource).filter(|held| held.resource.value == resource.value);
        equal.map_or(0, |held| held.count)
    }
    /// The entry that this resource would merge into or be subtracted from.
    #[must_use]
    pub fn counterpart(&self, resource: &Resource) -> Option<&Resource> {
        self.held(resource).map(|held| &held.resource)
    }

    /// A volume by its name: the reservation role and the id.
    #[must_use]
    pub fn find_volume(&self, role: &Role, id: &VolumeId) -> Option<&Resource> {
        let probe = VolumeProbe { role: Some(role), id };
        let probe: &dyn Identified = &probe;
        let next =
            self.held.range::<dyn Identified + '_, _>((Bound::Included(probe), Bound::Unbounded));
        let found = next.map(|held| &held.resource).next()?;
        (found.volume_id() == Some(id) && found.reservation_role() == Some(role)).then_some(found)
    }
    /// All persistent volumes, by role and id.
    pub fn volumes(&self) -> impl Iterator<Item = &Resource> {
        self.iter().filter(|resource| resource.is_persistent_volume())
    }
    /// Those whose top reservation is for `role`.
    #[must_use]
    pub fn reserved(&self, role: &Role) -> Self {
        self.filter(|resource| resource.reservation_role() == Some(role))
    }
    /// Those without a reservation.
    #[must_use]
    pub fn unreserved(&self) -> Self {
        self.filter(|resource| !resource.is_reserved())
    }
    /// The reserved ones by reservation role.
    #[must_use]
    pub fn reservations(&self) -> BTreeMap<Role, Self> {
        let mut groups: BTreeMap<Role, Self> = BTreeMap::new();
        for held in &self.held {
            if let Some(role) = held.resource.reservation_role() {
                groups.entry(role.clone()).or_default().held.insert(held.clone());
            }
        }
        groups
    }
    /// What an agent must checkpoint: dynamic reservations and volumes.
    #[must_use]
    pub fn checkpointed(&self) -> Self {
        self.filter(Resource::needs_checkpoint)
    }
    /// Those that `wanted` holds for, with their shares.
    #[must_use]
    pub fn filter(&self, wanted: impl Fn(&Resource) -> bool) -> Self {
        Self { held: self.held.iter().filter(|held| wanted(&held.resource)).cloned().collect() }
    }
    /// Every element changed; what becomes equal merges.
    #[must_use]
    pub fn map(&self, change: impl Fn(&Resource) -> Resource) -> Self {
        let mut changed = Self::new();
        for (resource, count) in self.entries() {
            changed.add_counted(&change(resource), count);
        }
        changed
    }

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

    fn held(&self, resource: &Resource) -> Option<&Held> {
        self.held.get(resource as &dyn Identified)
    }
    fn take(&mut self, resource: &Resource) -> Option<Held> {
        self.held.take(resource as &dyn Identified)
    }
    /// Moves the entry of this identity from one set to another, if it is there.
    pub(crate) fn copy_entry(&self, resource: &Resource, into: &mut Self) {
        if let Some(held) = self.held(resource) {
            into.held.replace(held.clone());
        }
    }
    /// Replaces the entries of `before` by those of `after`.
    pub(crate) fn exchange(&mut self, before: &Self, after: Self) {
        for held in &before.held {
            self.held.remove(held);
        }
        self.held.extend(after.held);
    }
}

/// Whether equal ones are counted instead of merged.
fn is_counted(resource: &Resource) -> bool {
    resource.shared || resource.is_indivisible()
}

/// The same identities with the same values and counts; mounts and creators do not matter.
impl PartialEq for Resources {
    fn eq(&self, other: &Self) -> bool {
        self.held.len() == other.held.len()
            && self.held.iter().zip(&other.held).all(|(left, right)| {
                left == right
                    && left.count == right.count
                    && left.resource.value == right.resource.value
            })
    }
}

impl Eq for Resources {}

impl FromIterator<Resource> for Resources {
    fn from_iter<I: IntoIterator<Item = Resource>>(resources: I) -> Self {
        let mut set = Self::new();
        for resource in resources {
            set.add(&resource);
        }
        set
    }
}

impl<'a> FromIterator<&'a Resource> for Resources {
    fn from_iter<I: IntoIterator<Item = &'a Resource>>(resources: I) -> Self {
        let mut set = Self::new();
        for resource in resources {
            set.add(resource);
        }
        set
    }
}

impl From<Vec<(Resource, u64)>> for Resources {
    fn from(entries: Vec<(Resource, u64)>) -> Self {
        let mut set = Self::new();
        for (resource, count) in &entries {
            set.add_counted(resource, *count);
        }
        set
    }
}

impl From<Resources> for Vec<(Resource, u64)> {
    fn from(resources: Resources) -> Self {
        resources.held.into_iter().map(|held| (held.resource, held.count)).collect()
    }
}

/// `cpus:4; disk(…)[v1:data]<SHARED>:64<2>`; the number at the end is the shares.
impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, resource) in self.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{resource}")?;
            if resource.shared {
                write!(f, "<{}>", self.count(resource))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Principal;
    use crate::resource::{
        Disk, Persistence, Reservation, ReservationKind, VolumeMode, VolumeMount,
    };

    fn volume(role: &str, id: &str, path: &str) -> Resource {
        let mut volume = Resource::plain("disk", Value::Scalar(Scalar::from_milli(10_000)));
        volume.reservations.push(Reservation {
            kind: ReservationKind::Dynamic,
            role: Role::parse(role).unwrap(),
            principal: None,
            labels: Vec::new().into(),
        });
        volume.disk = Some(Disk {
            source: None,
            persistence: Some(Persistence {
                id: VolumeId::parse(id).unwrap(),
                principal: Some(Principal::new(path)),
            }),
            volume: Some(VolumeMount { container_path: path.to_owned(), mode: VolumeMode::Rw }),
        });
        volume
    }

    #[test]
    fn the_first_mount_and_creator_stay() {
        let mut set = Resources::new();
        let first = Resource { shared: true, ..volume("ads", "v1", "first") };
        set.add(&first);
        set.add(&Resource { shared: true, ..volume("ads", "v1", "second") });
        assert_eq!(set.entries().collect::<Vec<_>>(), [(&first, 2)]);
        set.subtract(&Resource { shared: true, ..volume("ads", "v1", "third") });
        assert_eq!(set.entries().collect::<Vec<_>>(), [(&first, 1)]);
    }

    #[test]
    fn volumes_are_found_by_role_and_id() {
        let names = [("ads", "v1"), ("ads", "v2"), ("web", "v1"), ("ads/eu", "v1")];
        let set: Resources = names.iter().map(|(role, id)| volume(role, id, "data")).collect();
        let find = |role: &str, id: &str| {
            set.find_volume(&Role::parse(role).unwrap(), &VolumeId::parse(id).unwrap())
        };
        for (role, id) in names {
            assert_eq!(find(role, id), Some(&volume(role, id, "data")));
        }
        for (role, id) in [("ads", "v"), ("ads", "v3"), ("web", "v2"), ("a", "v1"), ("zoo", "v1")] {
            assert_eq!(find(role, id), None);
        }
    }

    #[test]
    fn digests_tell_sets_apart() {
        let set: Resources = [volume("ads", "v1", "a")].into_iter().collect();
        let other: Resources = [volume("ads", "v1", "b")].into_iter().collect();
        assert_eq!(set, other);
        assert_ne!(set.digest(), other.digest());
        // The basis of FNV-1a with 128 bits: nothing was hashed.
        assert_eq!(Resources::new().digest(), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
    }
}
