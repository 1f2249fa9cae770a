//! Sets and maps in rows: sorted, without spare capacity.
//!
//! A database has many small sets and maps and changes few of them. A sorted boxed slice takes a third of the memory of a tree
//! or hash map, compares in one pass and iterates in a stable order. A change rebuilds it. Maps share their keys with other
//! maps that have the same ones.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::shape::{known, learn, share, widen};

/// Atoms of a set, collected on the stack while they are few: rows then get exactly the memory they need.
pub(crate) type Few<T> = SmallVec<[T; 4]>;
/// The same for the keys or values of a map.
pub(crate) type Many<T> = SmallVec<[T; 16]>;

/// A sorted set.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Set<T>(Box<[T]>);

/// A map sorted by key.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Map<K, V> {
    /// Sorted, each once.
    keys: Arc<[K]>,
    /// The values, one per key.
    values: Box<[V]>,
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self(Box::default())
    }
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self { keys: Arc::default(), values: Box::default() }
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
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<T: Ord> Set<T> {
    /// Whether the set contains the item.
    pub fn holds<Q: Ord + ?Sized>(&self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.binary_search_by(|probe| probe.borrow().cmp(item)).is_ok()
    }

    /// Inserts an item; returns whether it is new.
    pub fn insert(&mut self, item: T) -> bool {
        let Err(at) = self.0.binary_search(&item) else { return false };
        let mut items = std::mem::take(&mut self.0).into_vec();
        items.insert(at, item);
        self.0 = items.into_boxed_slice();
        true
    }

    /// Removes an item; returns whether it existed.
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

    /// Builds a set from items in any order, and drains them.
    pub(crate) fn collected(items: &mut Few<T>) -> Self {
        match items.is_sorted_by(|a, b| a < b) {
            true => Self(exact(items)),
            false => items.drain(..).collect(),
        }
    }

    /// Toggles each item of `diff`: the symmetric difference, which `update2` sends for a modified set.
    pub fn toggle(&mut self, diff: Set<T>) {
        // A switch may have thousands of ports and get hundreds more at once. Both sets are sorted, so one pass suffices, and the items
        // between two differences are moved without comparing each of them.
        let mut items = Vec::with_capacity(self.len() + diff.len());
        let mut old = std::mem::take(self).into_iter();
        for other in diff {
            let below = count_below(old.as_slice(), &other);
            items.extend(old.by_ref().take(below));
            match old.as_slice().first() {
                Some(item) if *item == other => drop(old.next()),
                _ => items.push(other),
            }
        }
        items.extend(old);
        self.0 = items.into_boxed_slice();
    }
}

impl<K: Ord, V> Map<K, V> {
    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.values.get(self.position(key).ok()?)
    }

    /// Whether the map contains the key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.position(key).is_ok()
    }

    fn position<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.keys.binary_search_by(|probe| probe.borrow().cmp(key))
    }
}

impl<K: Ord + Clone + 'static, V> Map<K, V> {
    /// Sets the value of a key; returns the old value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.position(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.values[at], value)),
            Err(at) => {
                self.put(at, key, value);
                None
            }
        }
    }

    /// Inserts a new key at its position.
    fn put(&mut self, at: usize, key: K, value: V) {
        self.keys = widen(&self.keys, at, key);
        // The values move to a new allocation, because the copied one has no spare capacity.
        let mut values = Vec::with_capacity(self.keys.len());
        let mut old = std::mem::take(&mut self.values).into_vec().into_iter();
        values.extend(old.by_ref().take(at));
        values.push(value);
        values.extend(old);
        self.values = values.into_boxed_slice();
    }

    /// Removes a key; returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.position(key).ok()?;
        let mut keys = self.keys.to_vec();
        keys.remove(at);
        let mut values = std::mem::take(&mut self.values).into_vec();
        let value = values.remove(at);
        *self = Self::sorted(keys, values);
        Some(value)
    }

    /// Applies the difference that `update2` sends for a map: an existing pair is removed, any other is added.
    pub fn toggle(&mut self, diff: Map<K, V>)
    where
        V: PartialEq,
    {
        let added = diff.keys.iter().filter(|key| self.position(*key).is_err()).count();
        let mut values = std::mem::take(&mut self.values).into_vec();
        values.reserve_exact(added);
        // If only values of a map change, its keys stay shared.
        let mut keys: Option<Vec<K>> = None;
        let own = || {
            let mut own = Vec::with_capacity(self.keys.len() + added);
            own.extend_from_slice(&self.keys);
            own
        };
        for (key, value) in diff {
            match keys.as_deref().unwrap_or(&self.keys).binary_search(&key) {
                Ok(at) if values[at] == value => {
                    keys.get_or_insert_with(own).remove(at);
                    values.remove(at);
                }
                Ok(at) => values[at] = value,
                Err(at) => {
                    keys.get_or_insert_with(own).insert(at, key);
                    values.insert(at, value);
                }
            }
        }
        if let Some(keys) = keys {
            self.keys = share(keys);
        }
        self.values = values.into_boxed_slice();
    }

    /// Like [`Map::toggle`], with unsorted pairs. Most differences are one pair.
    pub(crate) fn toggle_pairs(&mut self, keys: &mut Many<K>, values: &mut Many<V>)
    where
        V: PartialEq,
    {
        let [key] = &keys[..] else { return self.toggle(Self::zipped(keys, values)) };
        match self.position(key) {
            Ok(at) if self.values[at] != values[0] => self.values[at] = values.remove(0),
            Ok(_) => drop(self.remove(&keys[0])),
            Err(at) => self.put(at, keys.remove(0), values.remove(0)),
        }
    }

    /// From keys that are sorted, each once, and their values.
    fn sorted(keys: impl AsRef<[K]> + IntoIterator<Item = K>, values: impl IntoIterator<Item = V>) -> Self {
        Self { keys: share(keys), values: values.into_iter().collect() }
    }

    /// Builds a map from keys and their values in any order, and drains them; of equal keys the last one wins.
    pub(crate) fn zipped(keys: &mut Many<K>, values: &mut Many<V>) -> Self {
        // Known key lists are sorted.
        if let Some(keys) = known(keys) {
            return Self { keys, values: exact(values) };
        }
        if keys.is_sorted_by(|a, b| a < b) {
            return Self { keys: learn(keys.drain(..).collect()), values: exact(values) };
        }
        // Servers usually send keys in order. A specialised sort for every type of pair would be much code that hardly ever runs.
        let order = order(keys.len(), &|a, b| keys[a].cmp(&keys[b]));
        let mut sorted = arranged(keys.drain(..).zip(values.drain(..)), order);
        // Of equal keys the last one stays.
        sorted.reverse();
        sorted.dedup_by(|earlier, later| earlier.0 == later.0);
        sorted.reverse();
        let (keys, values): (Vec<_>, Vec<_>) = sorted.into_iter().unzip();
        Self::sorted(keys, values)
    }
}

impl<K, V> Map<K, V> {
    /// Pairs in the order of their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &V)> + DoubleEndedIterator {
        self.keys.iter().zip(&self.values)
    }

    /// Keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> {
        self.keys.iter()
    }

    /// Values in the order of their keys.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> {
        self.values.iter()
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// The sorted order of a number of items; equal ones keep their order. One function for all types, because the compiler
/// generates ten kilobytes of code for each.
fn order(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| compare(a, b));
    order
}

/// The number of sorted items below a limit. Fast if there are few of them.
fn count_below<T: Ord>(items: &[T], limit: &T) -> usize {
    let mut far = 1;
    while far <= items.len() && items[far - 1] < *limit {
        far *= 2;
    }
    let (near, far) = (far / 2, far.min(items.len()));
    near + items[near..far].partition_point(|item| item < limit)
}

/// Moves the items into a slice of exactly their size.
fn exact<A: smallvec::Array>(items: &mut SmallVec<A>) -> Box<[A::Item]> {
    let mut taken = Vec::with_capacity(items.len());
    taken.extend(items.drain(..));
    taken.into_boxed_slice()
}

/// Items in another order.
fn arranged<T>(items: impl IntoIterator<Item = T>, order: Vec<usize>) -> Vec<T> {
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| items.get_mut(at)?.take()).collect()
}

impl<T: Ord> FromIterator<T> for Set<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items: Vec<T> = items.into_iter().collect();
        if !items.is_sorted_by(|a, b| a < b) {
            let order = order(items.len(), &|a, b| items[a].cmp(&items[b]));
            items = arranged(items, order);
            items.dedup();
        }
        Self(items.into_boxed_slice())
    }
}

impl<K: Ord + Clone + 'static, V> FromIterator<(K, V)> for Map<K, V> {
    /// Of equal keys the last one wins.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let (mut keys, mut values): (Many<K>, Many<V>) = pairs.into_iter().unzip();
        Self::zipped(&mut keys, &mut values)
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

impl<K: Clone, V> IntoIterator for Map<K, V> {
    type Item = (K, V);
    type IntoIter = IntoPairs<K, V>;
    fn into_iter(self) -> Self::IntoIter {
        IntoPairs { keys: self.keys, values: self.values.into_vec().into_iter() }
    }
}

/// A map's pairs, taken apart.
#[derive(Debug)]
pub struct IntoPairs<K, V> {
    keys: Arc<[K]>,
    values: std::vec::IntoIter<V>,
}

impl<K: Clone, V> Iterator for IntoPairs<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.keys.len() - self.values.len();
        Some((self.keys.get(at)?.clone(), self.values.next()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.values.size_hint()
    }
}

impl<K: Clone, V> ExactSizeIterator for IntoPairs<K, V> {}

impl<T: Ord, const N: usize> From<[T; N]> for Set<T> {
    fn from(items: [T; N]) -> Self {
        items.into_iter().collect()
    }
}

impl<K: Ord + Clone + 'static, V, const N: usize> From<[(K, V); N]> for Map<K, V> {
    fn from(pairs: [(K, V); N]) -> Self {
        pairs.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn a_set_toggles_to_what_only_one_has(old in btree_set(0..200_u8, 0..150), diff in btree_set(0..200_u8, 0..150)) {
            let mut set: Set<u8> = old.iter().copied().collect();
            set.toggle(diff.iter().copied().collect());
            let expected: Vec<u8> = old.symmetric_difference(&diff).copied().collect();
            prop_assert_eq!(&*set, expected);
        }
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
