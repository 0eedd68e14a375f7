//! The tree against the map of the standard library.

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
    const DEPTH: u32 = 500_000;
    let leaf = || Node::Leaf(Key::from_bytes(&[]), 0_u32);
    let mut node = leaf();
    for at in (0..DEPTH).rev() {
        let children = Arc::new([Some(leaf()), Some(node)]);
        node = Node::Branch(Branch { at, turns: 3, since: 0, children });
    }
    let trie = Trie { root: Some(node), len: DEPTH as usize + 1 };
    let clone = trie.clone();
    drop(trie);
    assert_eq!(clone.iter().count(), DEPTH as usize + 1);
}
