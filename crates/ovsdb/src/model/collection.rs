//! Sets and maps as rows hold them: sorted, without slack.
//!
//! A database keeps many small sets and maps and changes few of them. A sorted boxed slice takes a third of the memory
//! of a tree or hash map, compares in one pass and iterates in a stable order. Changing one rebuilds it.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Borrow;
use std::fmt;

/// A sorted set.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Set<T>(Box<[T]>);

/// A map sorted by key.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Map<K, V>(Box<[(K, V)]>);

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self(Box::default())
    }
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(Box::default())
    }
}

impl<T> std::ops::Deref for Set<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Set<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter()).finish()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Map<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(k, v)| (k, v))).finish()
    }
}

impl<T: Ord> Set<T> {
    /// Whether it holds the item.
    pub fn holds<Q: Ord + ?Sized>(&self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.binary_search_by(|probe| probe.borrow().cmp(item)).is_ok()
    }

    /// Puts an item in; whether it is new.
    pub fn insert(&mut self, item: T) -> bool {
        let Err(at) = self.0.binary_search(&item) else { return false };
        let mut items = std::mem::take(&mut self.0).into_vec();
        items.insert(at, item);
        self.0 = items.into_boxed_slice();
        true
    }

    /// Takes an item out; whether it was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        let Ok(at) = self.0.binary_search_by(|probe| probe.borrow().cmp(item)) else { return false };
        let mut items = std::mem::take(&mut self.0).into_vec();
        items.remove(at);
        self.0 = items.into_boxed_slice();
        true
    }

    /// Symmetric difference: what `update2` means by a modified set.
    pub fn toggle(&mut self, diff: Set<T>) {
        let mut items = std::mem::take(&mut self.0).into_vec();
        for item in diff {
            match items.binary_search(&item) {
                Ok(at) => drop(items.remove(at)),
                Err(at) => items.insert(at, item),
            }
        }
        self.0 = items.into_boxed_slice();
    }
}

impl<K: Ord, V> Map<K, V> {
    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let at = self.0.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    /// Gives a key a value; the value it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.0.binary_search_by(|(k, _)| k.cmp(&key)) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                let mut pairs = std::mem::take(&mut self.0).into_vec();
                pairs.insert(at, (key, value));
                self.0 = pairs.into_boxed_slice();
                None
            }
        }
    }

    /// Takes a key out; the value it had.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.0.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        let mut pairs = std::mem::take(&mut self.0).into_vec();
        let (_, value) = pairs.remove(at);
        self.0 = pairs.into_boxed_slice();
        Some(value)
    }

    /// What `update2` means by a modified map: a pair that is there goes, any other is put in.
    pub fn toggle(&mut self, diff: Map<K, V>)
    where
        V: PartialEq,
    {
        let mut pairs = std::mem::take(&mut self.0).into_vec();
        for (key, value) in diff {
            match pairs.binary_search_by(|(k, _)| k.cmp(&key)) {
                Ok(at) if pairs[at].1 == value => drop(pairs.remove(at)),
                Ok(at) => pairs[at].1 = value,
                Err(at) => pairs.insert(at, (key, value)),
            }
        }
        self.0 = pairs.into_boxed_slice();
    }
}

impl<K, V> Map<K, V> {
    /// Pairs in the order of their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &V)> + DoubleEndedIterator {
        self.0.iter().map(|(k, v)| (k, v))
    }

    /// Keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> {
        self.0.iter().map(|(k, _)| k)
    }

    /// Values in the order of their keys.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> {
        self.0.iter().map(|(_, v)| v)
    }

    /// How many pairs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Ord> FromIterator<T> for Set<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items: Vec<T> = items.into_iter().collect();
        if !items.is_sorted_by(|a, b| a < b) {
            items.sort();
            items.dedup();
        }
        Self(items.into_boxed_slice())
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Map<K, V> {
    /// Of equal keys the last one counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(K, V)> = pairs.into_iter().collect();
        if !pairs.is_sorted_by(|a, b| a.0 < b.0) {
            pairs.reverse();
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            pairs.dedup_by(|later, earlier| later.0 == earlier.0);
        }
        Self(pairs.into_boxed_slice())
    }
}

impl<T> IntoIterator for Set<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_vec().into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Set<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<K, V> IntoIterator for Map<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_vec().into_iter()
    }
}

impl<T: Ord, const N: usize> From<[T; N]> for Set<T> {
    fn from(items: [T; N]) -> Self {
        items.into_iter().collect()
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for Map<K, V> {
    fn from(pairs: [(K, V); N]) -> Self {
        pairs.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_stays_sorted_and_unique() {
        let mut set: Set<i64> = [3, 1, 3, 2].into();
        assert_eq!(&*set, [1, 2, 3]);
        assert!(!set.insert(2) && set.insert(0) && set.remove(&3) && !set.remove(&9));
        set.toggle([0, 5].into());
        assert_eq!(&*set, [1, 2, 5]);
        assert!(set.holds(&5) && !set.holds(&0));
    }

    #[test]
    fn a_map_toggles_by_key_and_value() {
        let mut map: Map<i64, i64> = [(2, 20), (1, 9), (1, 10)].into();
        assert_eq!((map.get(&1), map.len()), (Some(&10), 2));
        map.toggle([(1, 10), (2, 21), (3, 30)].into());
        assert_eq!(map, [(2, 21), (3, 30)].into());
        assert_eq!((map.insert(2, 22), map.remove(&3), map.remove(&7)), (Some(21), Some(30), None));
    }
}
