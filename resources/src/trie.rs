//! The map that a set of resources stands in: ordered by the bytes of its keys, with clones that
//! share what neither has changed since. A look-up goes by the few places where keys differ (a
//! qp-trie, after Tony Finch) and compares whole keys once, so that it costs what the key is
//! long and hardly more in a large set than in a small one; a tree of comparisons would not do.
//! Knows nothing of its values.

use std::mem;
use std::slice;
use std::sync::Arc;

use crate::identity::Key;

/// An ordered map: a clone costs a counter; the rest what a key is long at most.
#[derive(Clone)]
pub(crate) struct Trie<V> {
    root: Option<Node<V>>,
    len: usize,
}

/// An entry, or a place where keys differ.
#[derive(Clone)]
enum Node<V> {
    Leaf(Key, V),
    Branch(Arc<Branch<V>>),
}

/// Keys that are the same up to a step, and go on differently there.
#[derive(Clone)]
struct Branch<V> {
    /// The step: half a byte, the upper half of the first byte is step 0.
    at: usize,
    /// How keys go on, one bit for each turn that one of them takes.
    turns: u32,
    /// Where each turn leads, in the order of the turns. There are two at least.
    children: Vec<Node<V>>,
}

/// How a key goes on at a step, as one bit. The end of the key comes before all else.
fn turn(key: &[u8], at: usize) -> u32 {
    // No choice between the halves: which of them a branch looks at cannot be foreseen.
    key.get(at / 2).map_or(1, |byte| 2 << (byte >> (4 * (1 - at % 2)) & 0xf))
}

/// The first step at which two keys differ.
fn parting(left: &[u8], right: &[u8]) -> Option<usize> {
    const WORD: usize = 16;
    let words = left.chunks_exact(WORD).zip(right.chunks_exact(WORD));
    let same = WORD * words.take_while(|(left, right)| left == right).count();
    let rest = left[same..].iter().zip(&right[same..]);
    let same = same + rest.take_while(|(left, right)| left == right).count();
    let at = 2 * same;
    (left.len() != same || right.len() != same)
        .then(|| if turn(left, at) == turn(right, at) { at + 1 } else { at })
}

impl<V> Branch<V> {
    /// Where a turn stands among the children, or would.
    fn position(&self, turn: u32) -> usize {
        (self.turns & (turn - 1)).count_ones() as usize
    }
    fn position_of(&self, key: &[u8]) -> Option<usize> {
        let turn = turn(key, self.at);
        (self.turns & turn != 0).then(|| self.position(turn))
    }
}

impl<V> Node<V> {
    /// Some key below.
    fn any_key(&self) -> &Key {
        let mut node = self;
        loop {
            match node {
                Self::Leaf(key, _) => return key,
                Self::Branch(branch) => node = &branch.children[0],
            }
        }
    }
    fn is_leaf_of(&self, key: &Key) -> bool {
        match self {
            Self::Leaf(found, _) => found == key,
            Self::Branch(_) => false,
        }
    }
    /// The position of the child on the way to a key, if the way goes on there.
    fn way(&self, key: &Key, goes_on: impl Fn(&Branch<V>, &Self) -> bool) -> Option<usize> {
        match self {
            Self::Leaf(..) => None,
            Self::Branch(branch) => branch
                .position_of(key.as_bytes())
                .filter(|position| goes_on(branch, &branch.children[*position])),
        }
    }
}

impl<V: Clone> Node<V> {
    /// The child at a position, for changes; a leaf is its own.
    fn child_mut(&mut self, position: usize) -> &mut Self {
        match self {
            Self::Leaf(..) => self,
            Self::Branch(branch) => &mut Arc::make_mut(branch).children[position],
        }
    }
    /// Makes a branch of this and of a leaf that takes a turn of its own at this step.
    fn part(&mut self, at: usize, own: u32, leaf: Self) {
        let other = turn(self.any_key().as_bytes(), at);
        let branch = Branch { at, turns: own | other, children: Vec::new() };
        let old = mem::replace(self, Self::Branch(Arc::new(branch)));
        if let Self::Branch(branch) = self {
            Arc::make_mut(branch).children =
                if own < other { vec![leaf, old] } else { vec![old, leaf] };
        }
    }
}

impl<V> Trie<V> {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }
    pub(crate) fn get(&self, key: &Key) -> Option<&V> {
        let mut node = self.root.as_ref()?;
        loop {
            match node {
                Node::Leaf(found, value) => return (found == key).then_some(value),
                Node::Branch(branch) => {
                    node = &branch.children[branch.position_of(key.as_bytes())?];
                }
            }
        }
    }
    /// By key.
    pub(crate) fn iter(&self) -> Iter<'_, V> {
        Iter::below(self.root.as_ref())
    }
    /// The values by key.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }
    /// The values whose keys begin so, by key.
    pub(crate) fn starting_with(&self, bytes: &[u8]) -> impl Iterator<Item = &V> {
        Iter::below(self.subtree(bytes)).map(|(_, value)| value)
    }
    fn subtree(&self, bytes: &[u8]) -> Option<&Node<V>> {
        let mut node = self.root.as_ref()?;
        while let Node::Branch(branch) = node
            && branch.at < 2 * bytes.len()
        {
            node = &branch.children[branch.position_of(bytes)?];
        }
        // Only the steps in between were looked at.
        node.any_key().as_bytes().starts_with(bytes).then_some(node)
    }
}

impl<V: Clone> Trie<V> {
    /// For a change in place. Copies the way to the entry as far as a clone shares it.
    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<&mut V> {
        let mut node = self.root.as_mut()?;
        loop {
            match node {
                Node::Leaf(found, value) => return (found == key).then_some(value),
                Node::Branch(branch) => {
                    let position = branch.position_of(key.as_bytes())?;
                    node = &mut Arc::make_mut(branch).children[position];
                }
            }
        }
    }
    /// Puts a value there, in the place of what was there.
    pub(crate) fn insert(&mut self, key: Key, value: V) {
        let Some(root) = &mut self.root else {
            self.root = Some(Node::Leaf(key, value));
            self.len = 1;
            return;
        };
        let at = parting(key.as_bytes(), nearest(root, &key).as_bytes());
        let mut node = root;
        while let Some(position) = node.way(&key, |branch, _| at.is_none_or(|at| branch.at < at)) {
            node = node.child_mut(position);
        }
        let Some(at) = at else {
            *node = Node::Leaf(key, value);
            return;
        };
        self.len += 1;
        let own = turn(key.as_bytes(), at);
        let leaf = Node::Leaf(key, value);
        match node {
            Node::Branch(branch) if branch.at == at => {
                let branch = Arc::make_mut(branch);
                branch.children.insert(branch.position(own), leaf);
                branch.turns |= own;
            }
            node @ (Node::Leaf(..) | Node::Branch(_)) => node.part(at, own, leaf),
        }
    }
    /// Takes an entry out, if it is there.
    pub(crate) fn remove(&mut self, key: &Key) {
        let Some(mut node) = self.root.as_mut() else { return };
        let is_branch = |child: &Node<V>| match child {
            Node::Leaf(..) => false,
            Node::Branch(_) => true,
        };
        while let Some(position) = node.way(key, |_, child| is_branch(child)) {
            node = node.child_mut(position);
        }
        match node {
            Node::Leaf(found, _) if found == key => {
                self.root = None;
                self.len = 0;
            }
            Node::Leaf(..) => {}
            Node::Branch(branch) => {
                let Some(position) = branch.position_of(key.as_bytes()) else { return };
                if !branch.children[position].is_leaf_of(key) {
                    return;
                }
                self.len -= 1;
                let branch = Arc::make_mut(branch);
                branch.children.remove(position);
                branch.turns &= !turn(key.as_bytes(), branch.at);
                if branch.turns.is_power_of_two()
                    && let Some(left) = branch.children.pop()
                {
                    *node = left;
                }
            }
        }
    }
}

/// A key that is as this one up to the step at which this one parts from all.
fn nearest<'a, V>(root: &'a Node<V>, key: &Key) -> &'a Key {
    let mut node = root;
    while let Node::Branch(branch) = node {
        node = &branch.children[branch.position_of(key.as_bytes()).unwrap_or(0)];
    }
    node.any_key()
}

impl<V> Default for Trie<V> {
    fn default() -> Self {
        Self { root: None, len: 0 }
    }
}

/// Keys may be long, and a chain of branches as long as they: nothing here calls itself, and the
/// end of a chain must not either.
impl<V> Drop for Branch<V> {
    fn drop(&mut self) {
        let mut left = mem::take(&mut self.children);
        while let Some(node) = left.pop() {
            if let Node::Branch(branch) = node
                && let Some(mut branch) = Arc::into_inner(branch)
            {
                left.append(&mut branch.children);
            }
        }
    }
}

/// The entries by key.
pub(crate) struct Iter<'a, V> {
    ways: Vec<slice::Iter<'a, Node<V>>>,
}

impl<'a, V> Iter<'a, V> {
    fn below(node: Option<&'a Node<V>>) -> Self {
        Self { ways: vec![node.map(slice::from_ref).unwrap_or_default().iter()] }
    }
}

impl<'a, V> Iterator for Iter<'a, V> {
    type Item = (&'a Key, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.ways.last_mut()?.next() {
                Some(Node::Leaf(key, value)) => return Some((key, value)),
                Some(Node::Branch(branch)) => self.ways.push(branch.children.iter()),
                None => _ = self.ways.pop(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Few different bytes, so that keys share beginnings and are beginnings of one another.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0, 1, 2, 0x10, 0x12, 0xff]), 0..6)
    }

    fn contents(trie: &Trie<u32>) -> Vec<(Vec<u8>, u32)> {
        trie.iter().map(|(key, value)| (key.as_bytes().to_vec(), *value)).collect()
    }

    fn model_contents(model: &BTreeMap<Vec<u8>, u32>) -> Vec<(Vec<u8>, u32)> {
        model.iter().map(|(key, value)| (key.clone(), *value)).collect()
    }

    proptest! {
        #[test]
        fn it_is_an_ordered_map(
            steps in prop::collection::vec((key(), 0..5_u8, any::<u32>()), 0..80),
            beginning in key(),
        ) {
            let (mut trie, mut model) = (Trie::default(), BTreeMap::new());
            let mut frozen = Vec::new();
            for (bytes, what, number) in steps {
                let key = Key::from_bytes(&bytes);
                match what {
                    0 | 1 => {
                        trie.insert(key, number);
                        model.insert(bytes, number);
                    }
                    2 => {
                        trie.remove(&key);
                        model.remove(&bytes);
                    }
                    3 => {
                        let (own, other) = (trie.get_mut(&key), model.get_mut(&bytes));
                        prop_assert_eq!(&own, &other);
                        if let (Some(own), Some(other)) = (own, other) {
                            (*own, *other) = (number, number);
                        }
                    }
                    _ => frozen.push((trie.clone(), model.clone())),
                }
            }
            frozen.push((trie, model));
            for (trie, model) in &frozen {
                prop_assert_eq!(contents(trie), model_contents(model));
                prop_assert_eq!(trie.len(), model.len());
                for (bytes, number) in model {
                    prop_assert_eq!(trie.get(&Key::from_bytes(bytes)), Some(number));
                }
                let expected = model.get(&beginning);
                prop_assert_eq!(trie.get(&Key::from_bytes(&beginning)), expected);
                let beginning_so = model.iter().filter(|(key, _)| key.starts_with(&beginning));
                prop_assert!(trie.starting_with(&beginning).eq(beginning_so.map(|(_, n)| n)));
            }
        }
    }

    #[test]
    fn a_long_chain_ends_without_a_deep_stack() {
        const DEPTH: usize = 500_000;
        let leaf = || Node::Leaf(Key::from_bytes(&[]), 0_u32);
        let mut node = leaf();
        for at in (0..DEPTH).rev() {
            node = Node::Branch(Arc::new(Branch { at, turns: 3, children: vec![leaf(), node] }));
        }
        let trie = Trie { root: Some(node), len: DEPTH + 1 };
        let clone = trie.clone();
        drop(trie);
        assert_eq!(clone.iter().count(), DEPTH + 1);
    }
}
