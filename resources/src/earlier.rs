//! What a set was before operations that it has had since, told by what differs alone: it takes
//! as much memory as they touched, however large the set is, and each look at it is one at the
//! set. Where nothing differs it is empty.

use std::cmp::Ordering;
use std::fmt;
use std::iter;
use std::sync::Arc;

use crate::collection::Resources;
use crate::conversion::Unconvertible;
use crate::identity::{Held, Key};
use crate::operation::Operation;
use crate::resource::Resource;
use crate::trie::Trie;

/// The earlier state of a set. Only that set makes sense of it.
#[derive(Clone, Default)]
pub struct Earlier {
    /// The entries that differ, as they were; none where there was nothing.
    entries: Trie<Option<Arc<Held>>>,
}

impl Earlier {
    /// The earlier state as a set of its own. Costs what differs.
    #[must_use]
    pub fn of(&self, set: &Resources) -> Resources {
        let mut earlier = set.clone();
        for (key, held) in self.entries.iter() {
            earlier.put(key, held.as_ref());
        }
        earlier
    }
    /// Its entries, as `of` would have them and in their order, without making the set.
    pub fn entries<'a>(&'a self, set: &'a Resources) -> impl Iterator<Item = (&'a Resource, u64)> {
        let mut differing = self.entries.iter().peekable();
        let mut now = set.keyed().peekable();
        let entries = iter::from_fn(move || {
            let order = match (now.peek(), differing.peek()) {
                (Some((key, _)), Some((differs, _))) => key.as_bytes().cmp(differs.as_bytes()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return None,
            };
            if order.is_le() {
                let (_, held) = now.next()?;
                if order.is_lt() {
                    return Some(Some(held));
                }
            }
            differing.next().map(|(_, held)| held.as_ref())
        });
        entries.flatten().map(|held| (&held.resource, held.count))
    }
    /// The entries of the earlier state that these resources are, or are parts of.
    #[must_use]
    pub fn part<'a>(
        &self,
        set: &Resources,
        touched: impl IntoIterator<Item = &'a Resource>,
    ) -> Resources {
        let mut part = Resources::new();
        for key in touched.into_iter().map(Key::of) {
            part.put(&key, self.entries.get(&key).map_or_else(|| set.at(&key), Option::as_ref));
        }
        part
    }
    /// Applies an operation that the set has had already. Costs what the operation is long.
    ///
    /// # Errors
    /// Says what is missing; all is then as it was.
    pub fn follow(&mut self, set: &Resources, operation: &Operation) -> Result<(), Unconvertible> {
        let (consumed, converted) = (operation.consumed(), operation.converted());
        let before = self.part(set, consumed.iter().chain(&converted));
        let mut after = before.clone();
        after.apply(operation)?;
        for key in keys(&before, &after) {
            self.put(key, after.at(key), set.at(key));
        }
        Ok(())
    }
    /// The set goes from `before` to `after` in these entries, and this stays what it is.
    pub(crate) fn stay(&mut self, before: &Resources, after: &Resources) {
        for key in keys(before, after) {
            let held = self.entries.get(key).cloned().unwrap_or_else(|| before.at(key).cloned());
            self.put(key, held.as_ref(), after.at(key));
        }
    }
    /// From now on this entry is `held` here, where it is `now` in the set.
    fn put(&mut self, key: &Key, held: Option<&Arc<Held>>, now: Option<&Arc<Held>>) {
        let is_same = match (held, now) {
            (Some(held), Some(now)) => Arc::ptr_eq(held, now) || held == now,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if is_same {
            self.entries.remove(key);
        } else {
            self.entries.insert(key.clone(), held.cloned());
        }
    }
}

/// The keys of both, each once.
fn keys<'a>(before: &'a Resources, after: &'a Resources) -> impl Iterator<Item = &'a Key> {
    let gained = after.keyed().filter(|(key, _)| before.at(key).is_none());
    before.keyed().chain(gained).map(|(key, _)| key)
}

/// The same differences.
impl PartialEq for Earlier {
    fn eq(&self, other: &Self) -> bool {
        self.entries.len() == other.entries.len() && self.entries.iter().eq(other.entries.iter())
    }
}

impl Eq for Earlier {}

impl fmt::Debug for Earlier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.values()).finish()
    }
}
