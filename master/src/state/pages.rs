//! An ordered map that is cheap to freeze: sorted pages behind `Arc`, so that a clone costs one
//! counter per page and a later write copies one page. It owns no meaning of its entries.
//! Next: `agents.rs`.

use std::sync::Arc;

/// Entries of a full page: small enough to copy in a few microseconds, large enough that
/// 50,000 agents need about a thousand pages.
const PAGE_ENTRIES_MAX: usize = 64;

/// A sorted map whose clones share pages.
#[derive(Debug, Clone)]
pub struct PageMap<K, V> {
    /// Never empty pages in ascending order of keys.
    pages: Vec<Arc<Vec<(K, V)>>>,
    len: usize,
}

impl<K, V> Default for PageMap<K, V> {
    fn default() -> Self {
        Self { pages: Vec::new(), len: 0 }
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for PageMap<K, V> {
    /// Equal entries: how they are spread over pages is a matter of history.
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len
            && self
                .pages
                .iter()
                .flat_map(|page| page.iter())
                .eq(other.pages.iter().flat_map(|page| page.iter()))
    }
}

impl<K: Ord + Clone, V: Clone> PageMap<K, V> {
    /// Number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }
    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The page that holds `key` or would: the last one that starts at or below it.
    fn page_of(&self, key: &K) -> usize {
        self.pages.partition_point(|page| page[0].0 <= *key).saturating_sub(1)
    }
    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        let page = self.pages.get(self.page_of(key))?;
        let at = page.binary_search_by(|(k, _)| k.cmp(key)).ok()?;
        Some(&page[at].1)
    }
    /// The value of `key`, to change it; copies its page when a clone shares it.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at_page = self.page_of(key);
        let page = self.pages.get_mut(at_page)?;
        let at = page.binary_search_by(|(k, _)| k.cmp(key)).ok()?;
        Some(&mut Arc::make_mut(page)[at].1)
    }
    /// Puts `value` at `key` and hands back what stood there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.pages.is_empty() {
            self.pages.push(Arc::new(vec![(key, value)]));
            self.len = 1;
            return None;
        }
        let at_page = self.page_of(&key);
        let page = Arc::make_mut(&mut self.pages[at_page]);
        let at = match page.binary_search_by(|(k, _)| k.cmp(&key)) {
            Ok(at) => return Some(std::mem::replace(&mut page[at].1, value)),
            Err(at) => at,
        };
        self.len += 1;
        if page.len() < PAGE_ENTRIES_MAX {
            page.insert(at, (key, value));
        } else if at == PAGE_ENTRIES_MAX {
            // Ids are mostly given in ascending order: full pages stay full.
            self.pages.insert(at_page + 1, Arc::new(vec![(key, value)]));
        } else {
            let mut upper = page.split_off(PAGE_ENTRIES_MAX / 2);
            let half = if at <= page.len() { &mut *page } else { &mut upper };
            let at = if at <= PAGE_ENTRIES_MAX / 2 { at } else { at - PAGE_ENTRIES_MAX / 2 };
            half.insert(at, (key, value));
            self.pages.insert(at_page + 1, Arc::new(upper));
        }
        None
    }
    /// Takes out `key`.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at_page = self.page_of(key);
        let page = self.pages.get_mut(at_page)?;
        let at = page.binary_search_by(|(k, _)| k.cmp(key)).ok()?;
        let page = Arc::make_mut(page);
        let (_, value) = page.remove(at);
        if page.is_empty() {
            self.pages.remove(at_page);
        }
        self.len -= 1;
        Some(value)
    }
    /// The lowest entry.
    #[must_use]
    pub fn first(&self) -> Option<(&K, &V)> {
        self.pages.first().map(|page| (&page[0].0, &page[0].1))
    }
    /// All entries, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.pages.iter().flat_map(|page| page.iter().map(|(key, value)| (key, value)))
    }
    /// All values, ascending by key.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_btree_map(
            steps in prop::collection::vec((0u16..400, any::<bool>()), 0..900),
        ) {
            let mut pages = PageMap::default();
            let mut model = BTreeMap::new();
            let mut frozen = Vec::new();
            for (at, (key, is_insert)) in steps.into_iter().enumerate() {
                if is_insert {
                    prop_assert_eq!(pages.insert(key, at), model.insert(key, at));
                } else {
                    prop_assert_eq!(pages.remove(&key), model.remove(&key));
                }
                if at % 97 == 0 {
                    frozen.push((pages.clone(), model.clone()));
                }
            }
            frozen.push((pages, model));
            for (pages, model) in frozen {
                prop_assert_eq!(pages.len(), model.len());
                prop_assert!(pages.iter().eq(model.iter()));
                prop_assert!(model.iter().all(|(key, value)| pages.get(key) == Some(value)));
                prop_assert_eq!(pages.first(), model.first_key_value());
            }
        }

        #[test]
        fn ascending_keys_fill_their_pages(count in 1usize..1000) {
            let mut pages = PageMap::default();
            for key in 0..count {
                pages.insert(key, ());
            }
            prop_assert_eq!(pages.pages.len(), count.div_ceil(PAGE_ENTRIES_MAX));
        }
    }
}
