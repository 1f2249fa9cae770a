//! The difference of two keyed sets, from which every planner starts.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The difference between desired and observed objects. Every list is in key order; each key is in exactly one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff<'a, K, W, H> {
    /// Desired, but not observed.
    pub added: Vec<(&'a K, &'a W)>,
    /// Observed, but not desired.
    pub removed: Vec<(&'a K, &'a H)>,
    /// Observed, but different from desired.
    pub changed: Vec<(&'a K, &'a W, &'a H)>,
    /// Observed as desired.
    pub unchanged: Vec<&'a K>,
}

impl<K, W, H> Diff<'_, K, W, H> {
    /// Whether both sides are equal.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// Compares `want` with `have` in one pass over both. The two may be of different types that can be compared.
pub fn diff<'a, K, W, H>(want: &'a BTreeMap<K, W>, have: &'a BTreeMap<K, H>) -> Diff<'a, K, W, H>
where
    K: Ord,
    W: PartialEq<H>,
{
    let mut out = Diff { added: Vec::new(), removed: Vec::new(), changed: Vec::new(), unchanged: Vec::new() };
    let (mut wants, mut haves) = (want.iter().peekable(), have.iter().peekable());
    loop {
        let order = match (wants.peek(), haves.peek()) {
            (Some((w, _)), Some((h, _))) => w.cmp(h),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return out,
        };
        match order {
            Ordering::Less => out.added.extend(wants.next()),
            Ordering::Greater => out.removed.extend(haves.next()),
            Ordering::Equal => {
                if let (Some((key, w)), Some((_, h))) = (wants.next(), haves.next()) {
                    if w == h {
                        out.unchanged.push(key);
                    } else {
                        out.changed.push((key, w, h));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sets() -> impl Strategy<Value = BTreeMap<u8, u8>> {
        proptest::collection::btree_map(0u8..20, 0u8..3, 0..15)
    }

    proptest! {
        #[test]
        fn applying_the_diff_gives_what_is_wanted(want in sets(), have in sets()) {
            let diff = diff(&want, &have);
            let mut made = have.clone();
            for (k, v) in &diff.added {
                prop_assert!(made.insert(**k, **v).is_none());
            }
            for (k, v) in &diff.removed {
                prop_assert_eq!(made.remove(k), Some(**v));
            }
            for (k, w, h) in &diff.changed {
                prop_assert_eq!(made.insert(**k, **w), Some(**h));
                prop_assert_ne!(w, h);
            }
            prop_assert_eq!(&made, &want);
            prop_assert_eq!(diff.is_empty(), want == have);
        }

        #[test]
        fn every_key_is_in_exactly_one_list_and_lists_are_sorted(want in sets(), have in sets()) {
            let diff = diff(&want, &have);
            let lists: [Vec<u8>; 4] = [
                diff.added.iter().map(|d| *d.0).collect(),
                diff.removed.iter().map(|d| *d.0).collect(),
                diff.changed.iter().map(|d| *d.0).collect(),
                diff.unchanged.iter().map(|k| **k).collect(),
            ];
            for list in &lists {
                prop_assert!(list.is_sorted());
            }
            let mut listed = lists.concat();
            listed.sort_unstable();
            let mut keys: Vec<u8> = want.keys().chain(have.keys()).copied().collect();
            keys.sort_unstable();
            keys.dedup();
            prop_assert_eq!(listed, keys);
        }
    }
}
