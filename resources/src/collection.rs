//! Sets of resources and their arithmetic (spec §1.6). Adding, subtracting and looking up one
//! resource takes what its identity is long, however large the set; a clone costs a counter, and
//! shares with its original what neither has changed since. Must not know of operations: those
//! are in `conversion.rs`; sums are in `quantity.rs`.
//!
//! Serialized as a list of (resource, count) in the order of the identities: the same set
//! gives the same bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::VolumeId;
use crate::identity::{Held, Key};
use crate::resource::{Reservation, Resource};
use crate::role::Role;
use crate::trie::Trie;
use crate::value::Value;

/// A set of resources. What may merge is merged; what may not (volumes, MOUNT, BLOCK and RAW
/// with an id) stands side by side; a shared volume is one entry with a number of shares.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(Resource, u64)>", into = "Vec<(Resource, u64)>")]
pub struct Resources {
    held: Trie<Arc<Held>>,
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
        self.held.values().flat_map(|held| objects(held))
    }
    /// The separate objects, a shared volume as many times as it has shares: what makes an
    /// equal set when each is added.
    pub fn iter_with_shares(&self) -> impl Iterator<Item = &Resource> {
        self.held.values().flat_map(|held| (0..held.count).map(|_| &held.resource))
    }
    /// The entries: a resource, and its shares or equal copies.
    pub fn entries(&self) -> impl Iterator<Item = (&Resource, u64)> {
        self.held.values().map(|held| (&held.resource, held.count))
    }

    /// Adds one. Nameless and empty ones are ignored. Where an equal volume stands already,
    /// the mount and the creator of the first one stay.
    pub fn add(&mut self, resource: &Resource) {
        self.add_counted(Key::of(resource), resource, 1);
    }
    /// Adds every element of another set.
    pub fn add_all(&mut self, other: &Self) {
        for (key, held) in other.held.iter() {
            self.add_counted(key.clone(), &held.resource, held.count);
        }
    }
    fn add_counted(&mut self, key: Key, resource: &Resource, count: u64) {
        if resource.name.is_empty() || resource.value.is_empty() || count == 0 {
            return;
        }
        if let Some(held) = self.held.get_mut(&key).map(Arc::make_mut) {
            if is_counted(resource) {
                held.count = held.count.saturating_add(count);
            } else {
                held.resource.value = held.resource.value.add(&resource.value);
            }
        } else {
            let held = Held { resource: resource.clone(), count };
            self.held.insert(key, Arc::new(held));
        }
    }

    /// Subtracts one. What is not there is not subtracted; a rest that is empty or negative
    /// vanishes; an indivisible one goes as a whole or not at all.
    pub fn subtract(&mut self, resource: &Resource) {
        self.subtract_counted(&Key::of(resource), resource, 1);
    }
    /// Subtracts every element of another set.
    pub fn subtract_all(&mut self, other: &Self) {
        for (key, held) in other.held.iter() {
            self.subtract_counted(key, &held.resource, held.count);
        }
    }
    fn subtract_counted(&mut self, key: &Key, resource: &Resource, count: u64) {
        let Some(held) = self.held.get(key) else { return };
        let value = &held.resource.value;
        let (count, value) = if is_counted(resource) {
            (held.count.saturating_sub(count), None)
        } else {
            (held.count, Some(value.subtract(&resource.value)))
        };
        if count == 0 || value.as_ref().is_some_and(Value::is_empty) {
            self.held.remove(key);
        } else if let Some(held) = self.held.get_mut(key).map(Arc::make_mut) {
            held.count = count;
            if let Some(value) = value {
                held.resource.value = value;
            }
        }
    }

    /// Whether one resource is in it as a whole.
    #[must_use]
    pub fn contains_one(&self, resource: &Resource) -> bool {
        self.contains_counted(&Key::of(resource), resource, 1)
    }
    /// Whether all of another set is in it, as many shares and copies included.
    ///
    /// Mesos lets one MOUNT disk stand for two equal ones here; then a conversion would make
    /// disk out of nothing, so copies are counted for every indivisible resource.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        other.missing_in(self).is_none()
    }
    /// The first entry that another set does not have, or not as much of.
    pub(crate) fn missing_in(&self, available: &Self) -> Option<&Resource> {
        let mut entries = self.held.iter();
        let missing = entries
            .find(|(key, held)| !available.contains_counted(key, &held.resource, held.count));
        missing.map(|(_, held)| &held.resource)
    }
    fn contains_counted(&self, key: &Key, resource: &Resource, count: u64) -> bool {
        resource.value.is_empty()
            || self.held.get(key).is_some_and(|held| {
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
        let name = Key::of_volume(role, id);
        self.held.starting_with(&name).next().map(|held| &held.resource)
    }
    /// All persistent volumes, by role and id. The other resources cost nothing.
    pub fn volumes(&self) -> impl Iterator<Item = &Resource> {
        self.held.starting_with(Key::VOLUMES).flat_map(|held| objects(held))
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
        self.grouped(|resource| resource.reservation_role().cloned())
    }
    /// The reserved ones by reservation stack: each group is one reservation to its owner,
    /// whose amounts add up (`stable.rs` names it).
    #[must_use]
    pub fn by_reservation(&self) -> BTreeMap<Vec<Reservation>, Self> {
        self.grouped(|resource| resource.is_reserved().then(|| resource.reservations.clone()))
    }
    fn grouped<G: Ord>(&self, group: impl Fn(&Resource) -> Option<G>) -> BTreeMap<G, Self> {
        let mut groups: BTreeMap<G, Self> = BTreeMap::new();
        for (key, held) in self.held.iter() {
            if let Some(group) = group(&held.resource) {
                let set = groups.entry(group).or_default();
                set.held.insert(key.clone(), Arc::clone(held));
            }
        }
        groups
    }
    /// What an agent must checkpoint: dynamic reservations and volumes.
    #[must_use]
    pub fn checkpointed(&self) -> Self {
        self.filter(Resource::needs_checkpoint)
    }
    /// Those that `wanted` holds for, with their shares. Costs a look at each, and a step for
    /// each that is kept or each that is left out, whichever are fewer.
    #[must_use]
    pub fn filter(&self, wanted: impl Fn(&Resource) -> bool) -> Self {
        let (kept, left): (Vec<_>, Vec<_>) =
            self.held.iter().partition(|(_, held)| wanted(&held.resource));
        let mut filtered = Self::new();
        if left.len() < kept.len() {
            filtered = self.clone();
            for (key, _) in left {
                filtered.held.remove(key);
            }
        } else {
            for (key, held) in kept {
                filtered.held.insert(key.clone(), Arc::clone(held));
            }
        }
        filtered
    }
    /// Every element changed; what becomes equal merges.
    #[must_use]
    pub fn map(&self, change: impl Fn(&Resource) -> Resource) -> Self {
        let mut changed = Self::new();
        for (resource, count) in self.entries() {
            let resource = change(resource);
            changed.add_counted(Key::of(&resource), &resource, count);
        }
        changed
    }

    fn held(&self, resource: &Resource) -> Option<&Held> {
        self.held.get(&Key::of(resource)).map(|held| &**held)
    }
    /// The entry of a key.
    pub(crate) fn at(&self, key: &Key) -> Option<&Arc<Held>> {
        self.held.get(key)
    }
    /// The entries with their keys, by key.
    pub(crate) fn keyed(&self) -> impl Iterator<Item = (&Key, &Arc<Held>)> {
        self.held.iter()
    }
    /// Makes the entry of a key this one, or none.
    pub(crate) fn put(&mut self, key: &Key, held: Option<&Arc<Held>>) {
        match held {
            Some(held) => self.held.insert(key.clone(), Arc::clone(held)),
            None => self.held.remove(key),
        }
    }
    /// The entries that these resources are, or are parts of.
    pub(crate) fn part<'a>(&self, touched: impl IntoIterator<Item = &'a Resource>) -> Self {
        let mut part = Self::new();
        for key in touched.into_iter().map(Key::of) {
            if let Some(held) = self.held.get(&key) {
                part.held.insert(key, Arc::clone(held));
            }
        }
        part
    }
    /// Replaces the entries of `before` by those of `after`.
    pub(crate) fn exchange(&mut self, before: &Self, after: &Self) {
        for (key, _) in before.held.iter().filter(|(key, _)| after.held.get(key).is_none()) {
            self.held.remove(key);
        }
        for (key, held) in after.held.iter() {
            match before.held.get(key) {
                Some(old) if Arc::ptr_eq(old, held) => {}
                Some(_) if let Some(own) = self.held.get_mut(key) => own.clone_from(held),
                Some(_) | None => self.held.insert(key.clone(), Arc::clone(held)),
            }
        }
    }
}

/// The separate objects of an entry.
fn objects(held: &Held) -> impl Iterator<Item = &Resource> {
    let copies = if held.resource.shared { 1 } else { held.count };
    (0..copies).map(|_| &held.resource)
}

/// Whether equal ones are counted instead of merged.
fn is_counted(resource: &Resource) -> bool {
    resource.shared || resource.is_indivisible()
}

/// The same identities with the same values and counts; mounts and creators do not matter.
impl PartialEq for Resources {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |left: &Held, right: &Held| {
            left.count == right.count && left.resource.value == right.resource.value
        };
        let mut pairs = self.held.iter().zip(other.held.iter());
        self.held.len() == other.held.len()
            && pairs.all(|((left_key, left), (right_key, right))| {
                Arc::ptr_eq(left, right) || (left_key == right_key && is_same(left, right))
            })
    }
}

impl Eq for Resources {}

impl FromIterator<Resource> for Resources {
    fn from_iter<I: IntoIterator<Item = Resource>>(resources: I) -> Self {
        let mut set = Self::new();
        resources.into_iter().for_each(|resource| set.add(&resource));
        set
    }
}

impl<'a> FromIterator<&'a Resource> for Resources {
    fn from_iter<I: IntoIterator<Item = &'a Resource>>(resources: I) -> Self {
        let mut set = Self::new();
        resources.into_iter().for_each(|resource| set.add(resource));
        set
    }
}

impl From<Vec<(Resource, u64)>> for Resources {
    fn from(entries: Vec<(Resource, u64)>) -> Self {
        let mut set = Self::new();
        for (resource, count) in &entries {
            set.add_counted(Key::of(resource), resource, *count);
        }
        set
    }
}

impl From<Resources> for Vec<(Resource, u64)> {
    fn from(resources: Resources) -> Self {
        resources.entries().map(|(resource, count)| (resource.clone(), count)).collect()
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.held.values()).finish()
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
    use crate::value::Scalar;

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
