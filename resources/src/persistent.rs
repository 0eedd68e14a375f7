//! The map whose clones share what they have in common: a clone costs one counter, and a write
//! to one of two clones copies a path of the tree, not the map. Whatever must be frozen while it
//! goes on changing stands in it, but for sets of resources (`trie.rs`). Knows nothing of its
//! entries.

/// An ordered map: clone O(1), look up, insert and remove O(log n), iteration by key.
pub type PersistentMap<K, V> = rpds::RedBlackTreeMapSync<K, V>;
