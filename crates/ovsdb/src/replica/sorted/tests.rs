//! The map against `BTreeMap`, through any edits.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn map(items: impl IntoIterator<Item = (u32, u32)>) -> Sorted<u32, u32> {
    let mut map = Sorted::default();
    let items: BTreeMap<u32, u32> = items.into_iter().collect();
    map.edit(items.into_iter().map(|(k, v)| (k, Some(v))).collect::<Vec<_>>().into_iter());
    map
}

#[test]
fn a_change_rebuilds_one_chunk() {
    let before = map((0..100_000).map(|k| (k, k)));
    let mut after = before.clone();
    after.edit([(5_000, Some(1)), (5_001, None)].into_iter());
    let shared =
        after.chunks.iter().filter(|a| before.chunks.iter().any(|b| Arc::ptr_eq(&a.items, &b.items))).count();
    assert_eq!((before.chunks.len() - shared, after.len()), (1, 99_999));
    assert!((200..600).contains(&before.chunks.len()));
}

#[test]
fn growing_one_by_one_keeps_both_levels_short() {
    for order in [|k: u32| k, |k: u32| k.wrapping_mul(0x9E37_79B9), |k: u32| u32::MAX - k] {
        let mut map = Sorted::default();
        for k in 0..20_000 {
            map.edit([(order(k), Some(k))].into_iter());
        }
        let longest = map.chunks.iter().map(|chunk| chunk.items.len()).max().unwrap();
        assert!(map.chunks.len() < 700 && longest < 400, "{} chunks of up to {longest}", map.chunks.len());
        for k in 0..19_990 {
            map.edit([(order(k), None)].into_iter());
        }
        assert!(map.len() == 10 && map.chunks.len() <= 10);
    }
}

proptest! {
    #[test]
    fn any_edits_give_what_a_plain_map_gives(
        start in 0u32..3000,
        rounds in prop::collection::vec(prop::collection::btree_map(0u32..4000, prop::option::of(0u32..5), 0..60), 0..20),
        step in 1u32..7,
    ) {
        let mut plain: BTreeMap<u32, u32> = (0..start).map(|k| (k * step % 4000, k)).collect();
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
            prop_assert!(map.chunks.iter().all(|chunk| chunk.fence <= chunk.items[0].0));

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
        for probe in (0..4100).step_by(37) {
            prop_assert_eq!(map.get(|key| key.cmp(&probe)), plain.get(&probe));
            prop_assert!(map.from(|key| *key < probe).map(|(k, v)| (k, v)).eq(plain.range(probe..)));
        }
    }
}
