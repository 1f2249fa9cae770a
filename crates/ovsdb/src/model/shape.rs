//! Sharing of equal key lists.
//!
//! The maps of a table have the same few keys again and again: those that Neutron writes on every port, those that northd
//! writes on every datapath. Maps store their keys apart from their values, and equal lists of keys that this thread has seen
//! recently share one allocation.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::sync::Arc;

/// Lists that occurred more than once are in the first half, so that a table full of different lists does not evict them.
const KEPT: usize = 16;
const SEEN: usize = 16;

struct Shapes<K> {
    lists: Vec<Arc<[K]>>,
    next: usize,
}

thread_local! {
    static SHAPES: RefCell<Vec<(TypeId, Box<dyn Any>)>> = const { RefCell::new(Vec::new()) };
}

/// The keys as a list, shared with an equal one.
pub(super) fn share<K: Ord + 'static>(keys: impl AsRef<[K]> + IntoIterator<Item = K>) -> Arc<[K]> {
    if keys.as_ref().is_empty() {
        return Arc::default();
    }
    with(|shapes| shapes.known(keys.as_ref()).unwrap_or_else(|| shapes.learn(keys.into_iter().collect())))
}

/// Records an unknown list.
pub(super) fn learn<K: Ord + 'static>(keys: Arc<[K]>) -> Arc<[K]> {
    if keys.is_empty() { keys } else { with(|shapes| shapes.learn(keys)) }
}

/// A recent list that equals the keys, if there is one.
pub(super) fn known<K: Ord + 'static>(keys: &[K]) -> Option<Arc<[K]>> {
    with(|shapes: &mut Shapes<K>| shapes.known(keys))
}

/// The keys with one more at this position, shared with an equal list, which is created only if it is missing.
pub(super) fn widen<K: Ord + Clone + 'static>(keys: &[K], at: usize, key: K) -> Arc<[K]> {
    let (before, behind) = keys.split_at(at);
    with(|shapes| {
        let wide = |list: &[K]| {
            list.len() == keys.len() + 1
                && list[at] == key
                && list[..at] == *before
                && list[at + 1..] == *behind
        };
        let known = shapes.find(wide);
        known.unwrap_or_else(|| {
            let (before, behind) = (before.iter().cloned(), behind.iter().cloned());
            shapes.learn(before.chain([key]).chain(behind).collect())
        })
    })
}

fn with<K: Ord + 'static, R>(act: impl FnOnce(&mut Shapes<K>) -> R) -> R {
    SHAPES.with_borrow_mut(|shapes| {
        let at = shapes.iter().position(|(kind, _)| *kind == TypeId::of::<K>()).unwrap_or_else(|| {
            let empty: Shapes<K> = Shapes { lists: Vec::with_capacity(KEPT + SEEN), next: 0 };
            shapes.push((TypeId::of::<K>(), Box::new(empty)));
            shapes.len() - 1
        });
        act(shapes[at].1.downcast_mut().expect("found by its type"))
    })
}

impl<K: Ord + 'static> Shapes<K> {
    fn known(&mut self, keys: &[K]) -> Option<Arc<[K]>> {
        self.find(|list| *list == *keys)
    }

    fn find(&mut self, is_it: impl Fn(&[K]) -> bool) -> Option<Arc<[K]>> {
        let at = self.lists.iter().position(|list| is_it(list))?;
        // Lists that are used move to the front, by halves.
        self.lists.swap(at, at / 2);
        Some(Arc::clone(&self.lists[at / 2]))
    }

    fn learn(&mut self, list: Arc<[K]>) -> Arc<[K]> {
        if self.lists.len() < KEPT + SEEN {
            self.lists.push(Arc::clone(&list));
        } else {
            self.lists[KEPT + self.next] = Arc::clone(&list);
            self.next = (self.next + 1) % SEEN;
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_are_one_even_among_many_others() {
        let list = |n: u32| share(vec![n, n + 1]);
        let first = list(1);
        assert!(Arc::ptr_eq(&first, &list(1)) && Arc::ptr_eq(&first, &list(1)));
        for n in 100..1000 {
            list(n);
        }
        assert!((0..3).all(|_| Arc::ptr_eq(&first, &list(1))));
        assert_eq!(*list(7), [7, 8]);
        for (at, key) in [(0, 0), (1, 2), (2, 9)] {
            let mut wide = vec![1, 3];
            wide.insert(at, key);
            let made = widen(&[1, 3], at, key);
            assert_eq!(*made, *wide);
            assert!(Arc::ptr_eq(&made, &share(wide)) && Arc::ptr_eq(&made, &widen(&[1, 3], at, key)));
        }
        assert!(share(Vec::<u32>::new()).is_empty());
    }
}
