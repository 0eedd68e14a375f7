//! The map that a set of resources stands in: ordered by the bytes of its keys, with clones that
//! share what neither has changed since. A look-up goes by the few places where keys differ (a
//! qp-trie, after Tony Finch) and compares whole keys once, so that it costs what the key is
//! long and hardly more in a large set than in a small one; a tree of comparisons would not do.
//! What is far off costs more than what is computed: a branch stands where its parent leads to
//! it, with all that the way needs to know, and no key is looked at but the one that is meant.
//! Knows nothing of its values.

use std::slice;
use std::sync::Arc;

use crate::identity::Key;

/// An ordered map: a clone costs a counter; the rest what a key is long at most.
#[derive(Clone)]
pub(crate) struct Trie<V> {
    root: Slot<V>,
    len: usize,
}

/// Room for an entry or a branch.
type Slot<V> = Option<Node<V>>;

/// An entry, or a place where keys differ.
#[derive(Clone)]
enum Node<V> {
    Leaf(Key, V),
    Branch(Branch<V>),
}

/// Keys that are the same up to a step, and go on differently there.
#[derive(Clone)]
struct Branch<V> {
    /// The step: half a byte, the upper half of the first byte is step 0.
    at: u32,
    /// How keys go on, one bit for each turn that one of them takes.
    turns: u32,
    /// The steps since the branch above, in which all keys are the same, if they are so few.
    since: u32,
    /// Where each turn leads, in the order of the turns; room behind them. There are two at
    /// least.
    children: Arc<[Slot<V>]>,
}

/// Turns that there are: the end of a key, and every half of a byte.
const TURNS: usize = 17;
/// Steps that `Branch::since` has room for.
const SINCE_MAX: usize = 8;

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

/// The steps of a key in a number, four bits each, the first one lowest; as many as there is
/// room for. The key is longer.
fn steps(key: &[u8], from: usize, to: usize) -> u32 {
    let to = to.min(from + SINCE_MAX);
    (from..to).rev().fold(0, |steps, at| steps << 4 | (turn(key, at).trailing_zeros() - 1) & 0xf)
}

impl<V> Branch<V> {
    const fn at(&self) -> usize {
        self.at as usize
    }
    /// Where a turn stands among the children, or would.
    const fn position(&self, turn: u32) -> usize {
        (self.turns & (turn - 1)).count_ones() as usize
    }
    fn position_of(&self, key: &[u8]) -> Option<usize> {
        let turn = turn(key, self.at());
        (self.turns & turn != 0).then(|| self.position(turn))
    }
    fn child(&self, key: &[u8]) -> Option<&Node<V>> {
        self.children[self.position_of(key)?].as_ref()
    }
    const fn len(&self) -> usize {
        self.turns.count_ones() as usize
    }
    /// Some key below.
    fn any_key(&self) -> Option<&Key> {
        let mut branch = self;
        loop {
            match branch.children[0].as_ref()? {
                Node::Leaf(key, _) => return Some(key),
                Node::Branch(below) => branch = below,
            }
        }
    }
    /// The first step before this branch at which a key differs from all below. The branch
    /// above is at the step before `from`, and the key is the same up to there.
    fn parting(&self, key: &[u8], from: usize) -> Option<usize> {
        let at = self.at();
        if at - from > SINCE_MAX {
            let other = self.any_key()?;
            return parting(key, other.as_bytes()).filter(|parting| *parting < at);
        }
        // The key may end in between, which is no half of a byte.
        let to = at.min(2 * key.len());
        let differing = self.since ^ steps(key, from, to);
        let parting = from + differing.trailing_zeros() as usize / 4;
        (parting.min(to) < at).then(|| parting.min(to))
    }
}

impl<V: Clone> Branch<V> {
    /// The children, for changes, with room for so many. Copies what a clone shares.
    fn children_mut(&mut self, room: usize) -> &mut [Slot<V>] {
        if self.children.len() < room {
            let len = room.next_power_of_two().min(TURNS);
            self.children = match Arc::get_mut(&mut self.children) {
                Some(own) => (0..len).map(|at| own.get_mut(at).and_then(Option::take)).collect(),
                None => (0..len).map(|at| self.children.get(at).cloned().flatten()).collect(),
            };
        }
        Arc::make_mut(&mut self.children)
    }
    /// Adds a child at a turn that no key takes yet.
    fn add(&mut self, turn: u32, child: Node<V>) {
        let (position, len) = (self.position(turn), self.len());
        let children = self.children_mut(len + 1);
        children[position..=len].rotate_right(1);
        children[position] = Some(child);
        self.turns |= turn;
    }
    /// Takes a child out.
    fn take(&mut self, turn: u32) {
        let (position, len) = (self.position(turn), self.len());
        let children = self.children_mut(0);
        children[position] = None;
        children[position..len].rotate_left(1);
        self.turns &= !turn;
    }
}

impl<V> Node<V> {
    /// Some key below.
    fn any_key(&self) -> Option<&Key> {
        match self {
            Self::Leaf(key, _) => Some(key),
            Self::Branch(branch) => branch.any_key(),
        }
    }
    const fn is_branch(&self) -> bool {
        match self {
            Self::Leaf(..) => false,
            Self::Branch(_) => true,
        }
    }
    /// A branch with a leaf that takes a turn of its own at this step, and what was there.
    fn of_two(at: usize, since: u32, (own, leaf): (u32, Self), mut other: Self) -> Self {
        let theirs = other.any_key().map_or(1, |key| turn(key.as_bytes(), at));
        other.comes_after(at + 1);
        let children = if own < theirs { [leaf, other] } else { [other, leaf] };
        let at = u32::try_from(at).expect("a key is shorter than 2 GiB");
        let children = Arc::new(children.map(Some));
        Self::Branch(Branch { at, turns: own | theirs, since, children })
    }
    /// The branch above is at the step before `from` now.
    fn comes_after(&mut self, from: usize) {
        match self {
            Self::Leaf(..) => {}
            Self::Branch(branch) => {
                let since = branch.any_key().map(|key| steps(key.as_bytes(), from, branch.at()));
                branch.since = since.unwrap_or_default();
            }
        }
    }
    /// The first step at which a key differs from the one below that it differs from last.
    fn parting(&self, key: &[u8]) -> Option<usize> {
        let (mut node, mut from) = (self, 0);
        loop {
            match node {
                Self::Leaf(found, _) => return parting(key, found.as_bytes()),
                Self::Branch(branch) => {
                    let parting = branch.parting(key, from);
                    let Some(child) = branch.child(key).filter(|_| parting.is_none()) else {
                        return parting.or(Some(branch.at()));
                    };
                    (node, from) = (child, branch.at() + 1);
                }
            }
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
                Node::Branch(branch) => node = branch.child(key.as_bytes())?,
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
            && branch.at() < 2 * bytes.len()
        {
            node = branch.child(bytes)?;
        }
        // Only the steps in between were looked at.
        node.any_key()?.as_bytes().starts_with(bytes).then_some(node)
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
                    node = branch.children_mut(0)[position].as_mut()?;
                }
            }
        }
    }
    /// Puts a value there, in the place of what was there.
    pub(crate) fn insert(&mut self, key: Key, value: V) {
        let Some(root) = &self.root else {
            self.root = Some(Node::Leaf(key, value));
            self.len = 1;
            return;
        };
        let at = root.parting(key.as_bytes());
        let (slot, from) = self.slot_mut(&key, |branch, _| at.is_none_or(|at| branch.at() < at));
        let Some(at) = at else {
            *slot = Some(Node::Leaf(key, value));
            return;
        };
        let (own, since) = (turn(key.as_bytes(), at), steps(key.as_bytes(), from, at));
        let leaf = Node::Leaf(key, value);
        match slot.take() {
            Some(Node::Branch(mut branch)) if branch.at() == at => {
                branch.add(own, leaf);
                *slot = Some(Node::Branch(branch));
            }
            other => *slot = other.map(|other| Node::of_two(at, since, (own, leaf), other)),
        }
        self.len += 1;
    }
    /// Takes an entry out, if it is there.
    pub(crate) fn remove(&mut self, key: &Key) {
        let (slot, from) = self.slot_mut(key, |_, child| child.is_branch());
        match slot {
            Some(Node::Leaf(found, _)) if found == key => *slot = None,
            Some(Node::Branch(branch)) => {
                match branch.child(key.as_bytes()) {
                    Some(Node::Leaf(found, _)) if found == key => {}
                    Some(Node::Leaf(..) | Node::Branch(_)) | None => return,
                }
                branch.take(turn(key.as_bytes(), branch.at()));
                if branch.turns.is_power_of_two() {
                    let mut left = branch.children_mut(0)[0].take();
                    left.iter_mut().for_each(|left| left.comes_after(from));
                    *slot = left;
                }
            }
            Some(Node::Leaf(..)) | None => return,
        }
        self.len -= 1;
    }
    /// The place on the way to a key from where the way does not go on, with the step after the
    /// branch above.
    fn slot_mut(
        &mut self,
        key: &Key,
        goes_on: impl Fn(&Branch<V>, &Node<V>) -> bool,
    ) -> (&mut Slot<V>, usize) {
        let (mut slot, mut from) = (&mut self.root, 0);
        while let Some(position) = way(slot.as_ref(), key, &goes_on)
            && let Some(Node::Branch(branch)) = slot
        {
            from = branch.at() + 1;
            slot = &mut branch.children_mut(0)[position];
        }
        (slot, from)
    }
}

/// The position of the child on the way to a key, if the way goes on there.
fn way<V>(
    node: Option<&Node<V>>,
    key: &Key,
    goes_on: impl Fn(&Branch<V>, &Node<V>) -> bool,
) -> Option<usize> {
    match node? {
        Node::Leaf(..) => None,
        Node::Branch(branch) => {
            let position = branch.position_of(key.as_bytes())?;
            goes_on(branch, branch.children[position].as_ref()?).then_some(position)
        }
    }
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
        let mut left = Vec::new();
        self.give_up(&mut left);
        while let Some(mut branch) = left.pop() {
            branch.give_up(&mut left);
        }
    }
}

impl<V> Branch<V> {
    /// Moves the branches below to others, where no clone has them.
    fn give_up(&mut self, to: &mut Vec<Self>) {
        for slot in Arc::get_mut(&mut self.children).into_iter().flatten() {
            if slot.as_ref().is_some_and(Node::is_branch)
                && let Some(Node::Branch(branch)) = slot.take()
            {
                to.push(branch);
            }
        }
    }
}

/// The entries by key.
pub(crate) struct Iter<'a, V> {
    /// What comes first, where it is no child.
    top: Option<&'a Node<V>>,
    ways: Vec<slice::Iter<'a, Slot<V>>>,
}

impl<'a, V> Iter<'a, V> {
    const fn below(top: Option<&'a Node<V>>) -> Self {
        Self { top, ways: Vec::new() }
    }
}

impl<'a, V> Iterator for Iter<'a, V> {
    type Item = (&'a Key, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let node = match self.top.take() {
                Some(top) => Some(top),
                None => self.ways.last_mut()?.next().and_then(Option::as_ref),
            };
            match node {
                Some(Node::Leaf(key, value)) => return Some((key, value)),
                Some(Node::Branch(branch)) => self.ways.push(branch.children.iter()),
                // Only room is behind the last one.
                None => _ = self.ways.pop(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
