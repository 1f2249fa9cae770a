//! Compares the map with `BTreeMap` through random edits.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn map(items: impl IntoIterator<Item = (u32, u32)>) -> SortedMap<u32, u32> {
    let mut map = SortedMap::default();
    let items: BTreeMap<u32, u32> = items.into_iter().collect();
    map.edit(items.into_iter().map(|(k, v)| (k, Some(v))).collect::<Vec<_>>().into_iter());
    map
}

/// The arrays of a tree: the addresses of leaves and branches with their lengths. Each level is checked on the way.
fn arrays(map: &SortedMap<u32, u32>) -> Vec<(*const Node<u32, u32>, usize)> {
    fn walk(children: &[Child<u32, u32>], found: &mut Vec<(*const Node<u32, u32>, usize)>) -> usize {
        let depths: Vec<usize> = children
            .iter()
            .map(|child| {
                let (first, len, depth) = match &*child.node {
                    Node::Leaf(items) => (items[0].0, items.len(), 0),
                    Node::Branch(kids) => (kids[0].fence, kids.len(), walk(kids, found) + 1),
                };
                assert!(child.fence <= first);
                found.push((Arc::as_ptr(&child.node), len));
                depth
            })
            .collect();
        assert!(depths.iter().all(|depth| *depth == depths[0]), "all leaves are equally deep");
        assert!(children.is_sorted_by(|a, b| a.fence < b.fence));
        depths.first().copied().unwrap_or(0)
    }
    let mut found = Vec::new();
    walk(&map.top, &mut found);
    found
}

#[test]
fn a_change_rebuilds_one_path() {
    let before = map((0..100_000).map(|k| (k, k)));
    let mut after = before.clone();
    after.edit([(5_000, Some(1)), (5_001, None)].into_iter());
    let old: std::collections::BTreeSet<_> = arrays(&before).into_iter().map(|(at, _)| at).collect();
    let rebuilt = arrays(&after).iter().filter(|(at, _)| !old.contains(at)).count();
    assert_eq!((rebuilt, after.len()), (3, 99_999));
    let compared = std::cell::Cell::new(0);
    let same = |a: &u32, b: &u32| {
        compared.set(compared.get() + 1);
        a == b
    };
    let mut changed = Vec::new();
    before.diff(&after, same, |key, _, _| changed.push(*key));
    assert_eq!(changed, [5_000, 5_001]);
    assert!(compared.get() <= 2 * SIZE, "what is shared is not looked into");
}

#[test]
fn a_value_is_replaced_in_place_unless_a_copy_would_see_it() {
    let mut map = map((0..100_000).map(|k| (2 * k, k)));
    let old = arrays(&map);
    assert!(map.replace(&5_000, &1) && map.replace(&0, &2) && map.replace(&199_998, &3));
    assert_eq!(arrays(&map), old);
    assert!(!map.replace(&5_001, &9), "there is none");
    let copy = map.clone();
    assert!(!map.replace(&5_000, &9), "the copy would see it");
    map.edit([(5_000, Some(4))].into_iter());
    assert!(map.replace(&5_000, &5), "its arrays are not shared any more");
    assert!(!map.replace(&0, &9), "these still are");
    let values =
        |map: &SortedMap<u32, u32>| [0, 5_000, 199_998].map(|key| *map.get(|k| k.cmp(&key)).unwrap());
    assert_eq!((values(&copy), values(&map)), ([2, 1, 3], [2, 5, 3]));
}

#[test]
fn growing_and_shrinking_one_by_one_keeps_arrays_short_and_few() {
    for order in [|k: u32| k, |k: u32| k.wrapping_mul(0x9E37_79B9), |k: u32| u32::MAX - k] {
        let mut map = SortedMap::default();
        for k in 0..20_000 {
            map.edit([(order(k), Some(k))].into_iter());
        }
        let found = arrays(&map);
        assert!(found.len() < 2_800 && found.iter().all(|(_, len)| *len <= 2 * SIZE), "{}", found.len());
        for k in 0..19_990 {
            map.edit([(order(k), None)].into_iter());
        }
        assert!(map.len() == 10 && arrays(&map).len() <= 10 + 10);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_edits_give_what_a_plain_map_gives(
        start in prop_oneof![0u32..200, 0u32..20_000],
        rounds in prop::collection::vec(prop::collection::btree_map(0u32..30_000, prop::option::of(0u32..5), 0..400), 0..8),
        step in 1u32..7,
    ) {
        let mut plain: BTreeMap<u32, u32> = (0..start).map(|k| (k * step % 30_000, k)).collect();
        let mut map = map(plain.clone());
        for edits in rounds {
            let (before, plain_before) = (map.clone(), plain.clone());
            map.edit(edits.clone().into_iter());
            for (key, value) in edits {
                match value {
                    Some(value) => drop(plain.insert(key, value)),
                    None => drop(plain.remove(&key)),
                }
            }
            prop_assert!(map.iter().map(|(k, v)| (k, v)).eq(plain.iter()));
            prop_assert!(before.iter().map(|(k, v)| (k, v)).eq(plain_before.iter()));
            prop_assert_eq!(map.iter().len(), plain.len());
            arrays(&map);

            let mut walked = plain_before.clone();
            before.diff(&map, |a, b| a == b, |key, old, new| {
                assert_eq!(plain_before.get(key), old);
                assert_ne!(old, new);
                match new {
                    Some(value) => drop(walked.insert(*key, *value)),
                    None => drop(walked.remove(key)),
                }
            });
            prop_assert_eq!(&walked, &plain);
        }
        for probe in (0..31_000).step_by(997) {
            prop_assert_eq!(map.get(|key| key.cmp(&probe)), plain.get(&probe));
            prop_assert!(map.from(|key| *key < probe).map(|(k, v)| (k, v)).eq(plain.range(probe..)));
        }
    }
}
