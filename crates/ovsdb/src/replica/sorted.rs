//! A sorted map that is cheap to copy and cheap to change, used for rows and indexes.
//!
//! It is a tree of short sorted arrays, each behind an [`Arc`], with all leaves at the same depth. A copy shares everything. A
//! change rebuilds one leaf and the few arrays above it, and leaves the others shared. Short arrays matter more than few
//! levels: copying an array touches the reference count of everything it points to, and after a pause each of those is a cache
//! miss.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::cmp::Ordering;
use std::iter::Peekable;
use std::sync::Arc;

use smallvec::SmallVec;

/// The normal length of arrays; they are split at twice that.
const SIZE: usize = 16;

/// A sorted copy-on-write map.
#[derive(Clone, Debug)]
pub(super) struct SortedMap<K, V> {
    top: Vec<Child<K, V>>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Node<K, V> {
    Leaf(Vec<(K, V)>),
    Branch(Vec<Child<K, V>>),
}

#[derive(Debug)]
struct Child<K, V> {
    /// A bound between children: at most the smallest key below it, and greater than every key below the previous child.
    fence: K,
    /// Never empty.
    node: Arc<Node<K, V>>,
}

impl<K: Clone, V> Clone for Child<K, V> {
    fn clone(&self) -> Self {
        Self { fence: self.fence.clone(), node: Arc::clone(&self.node) }
    }
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self { top: Vec::new(), len: 0 }
    }
}

impl<K, V> SortedMap<K, V> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> Iter<'_, K, V> {
        Iter {
            tail: Tail { stack: SmallVec::from_iter([self.top.iter()]), items: [].iter() },
            left: self.len,
        }
    }

    /// The value whose key compares as equal; `order` compares a key with the searched one.
    pub(super) fn get(&self, order: impl Fn(&K) -> Ordering) -> Option<&V> {
        let mut children = &self.top;
        loop {
            let at = children.partition_point(|child| order(&child.fence) != Ordering::Greater);
            match &*children.get(at.saturating_sub(1))?.node {
                Node::Branch(below) => children = below,
                Node::Leaf(items) => {
                    let at = items.binary_search_by(|(key, _)| order(key)).ok()?;
                    return Some(&items[at].1);
                }
            }
        }
    }

    /// Walks from the first key for which `below` is false. All keys below sort before the others.
    pub(super) fn from<F: Fn(&K) -> bool>(&self, below: F) -> Tail<'_, K, V> {
        let (mut stack, mut children) = (SmallVec::new(), &self.top);
        loop {
            let at = children.partition_point(|child| below(&child.fence)).saturating_sub(1);
            let mut rest = children[at..].iter();
            let child = rest.next();
            stack.push(rest);
            match child.map(|child| &*child.node) {
                None => return Tail { stack, items: [].iter() },
                Some(Node::Branch(kids)) => children = kids,
                Some(Node::Leaf(items)) => {
                    let first = items.partition_point(|(key, _)| below(key));
                    return Tail { stack, items: items[first..].iter() };
                }
            }
        }
    }
}

impl<K: Ord + Clone, V: Clone> SortedMap<K, V> {
    /// Replaces the value of an existing key in place, and returns whether it did. It does not if the key is missing, or if a
    /// copy shares the arrays on the path.
    pub(super) fn replace(&mut self, key: &K, value: &V) -> bool {
        let mut children = &mut self.top;
        loop {
            let at = children.partition_point(|child| child.fence <= *key);
            let child = children.get_mut(at.saturating_sub(1));
            match child.and_then(|child| Arc::get_mut(&mut child.node)) {
                None => return false,
                Some(Node::Branch(below)) => children = below,
                Some(Node::Leaf(items)) => {
                    let found = items.binary_search_by(|(have, _)| have.cmp(key));
                    return found.map(|at| items[at].1 = value.clone()).is_ok();
                }
            }
        }
    }

    /// Inserts (`Some`) and removes (`None`) in one pass. Edits are sorted by key, each key once.
    pub(super) fn edit(&mut self, edits: impl Iterator<Item = (K, Option<V>)>) {
        let mut edits = Edits { edits: edits.peekable(), put: 0, taken: 0 };
        if edits.edits.peek().is_none() {
            return;
        }
        let top = std::mem::take(&mut self.top);
        if top.is_empty() {
            let items = edits.merge(std::iter::empty(), None);
            pack(items, Node::Leaf, |(key, _)| key, &mut self.top);
        } else {
            self.top = edits.children(top, None);
        }
        self.len = self.len + edits.put - edits.taken;
        while self.top.len() > 2 * SIZE {
            let children = std::mem::take(&mut self.top);
            pack(children, Node::Branch, |child| &child.fence, &mut self.top);
        }
        while let [Child { node, .. }] = &self.top[..]
            && let Node::Branch(children) = &**node
        {
            self.top = children.clone();
        }
    }

    /// Calls `changed` for every key whose value differs between two maps, in the order of keys. Shared parts are skipped
    /// without a visit; `same` returns whether two values of one key are equal.
    pub(super) fn diff<'a>(
        &'a self,
        newer: &'a Self,
        same: impl Fn(&V, &V) -> bool,
        mut changed: impl FnMut(&'a K, Option<&'a V>, Option<&'a V>),
    ) {
        let (mut old, mut new) = (Cursor::new(self), Cursor::new(newer));
        loop {
            old.align(&mut new);
            match (old.items.first(), new.items.first()) {
                (None, None) => return,
                (Some((key, value)), other) if other.is_none_or(|(newer, _)| key < newer) => {
                    changed(key, Some(value), None);
                    old.step();
                }
                (other, Some((key, value))) if other.is_none_or(|(older, _)| key < older) => {
                    changed(key, None, Some(value));
                    new.step();
                }
                (Some((key, before)), Some((_, after))) => {
                    if !same(before, after) {
                        changed(key, Some(before), Some(after));
                    }
                    old.step();
                    new.step();
                }
                (Some(_), None) | (None, Some(_)) => unreachable!("one side alone is taken above"),
            }
        }
    }
}

/// Edits that are being merged into a map.
struct Edits<K, V, E: Iterator<Item = (K, Option<V>)>> {
    edits: Peekable<E>,
    put: usize,
    taken: usize,
}

impl<K: Ord + Clone, V: Clone, E: Iterator<Item = (K, Option<V>)>> Edits<K, V, E> {
    /// Applies the edits below a bound.
    fn children(&mut self, old: Vec<Child<K, V>>, bound: Option<&K>) -> Vec<Child<K, V>> {
        let mut new: Vec<Child<K, V>> = Vec::with_capacity(old.len() + 1);
        let mut old = old.into_iter().peekable();
        while let Some(child) = old.next() {
            let bound = old.peek().map(|next| &next.fence).or(bound);
            let touched = self.edits.peek().is_some_and(|(key, _)| bound.is_none_or(|bound| key < bound));
            if !touched {
                new.push(child);
                continue;
            }
            match Arc::try_unwrap(child.node) {
                Ok(Node::Leaf(items)) => add_leaf(self.merge(items.into_iter(), bound), &mut new),
                Ok(Node::Branch(children)) => add_branch(self.children(children, bound), &mut new),
                Err(shared) => match &*shared {
                    Node::Leaf(items) => add_leaf(self.merge(items.iter().cloned(), bound), &mut new),
                    Node::Branch(children) => add_branch(self.children(children.clone(), bound), &mut new),
                },
            }
        }
        new
    }

    fn merge(&mut self, old: impl ExactSizeIterator<Item = (K, V)>, bound: Option<&K>) -> Vec<(K, V)> {
        let mut items = Vec::with_capacity(old.len() + 1);
        let mut old = old.peekable();
        while let Some((key, value)) = self.edits.next_if(|(key, _)| bound.is_none_or(|bound| key < bound)) {
            while let Some(item) = old.next_if(|(have, _)| *have < key) {
                items.push(item);
            }
            self.taken += usize::from(old.next_if(|(have, _)| *have == key).is_some());
            self.put += usize::from(value.is_some());
            items.extend(value.map(|value| (key, value)));
        }
        items.extend(old);
        items
    }
}

fn add_leaf<K: Clone, V: Clone>(mut items: Vec<(K, V)>, to: &mut Vec<Child<K, V>>) {
    if let Some(last) = to.last_mut()
        && let Node::Leaf(before) = &*last.node
        && joins(before.len(), items.len())
        && let Node::Leaf(before) = Arc::make_mut(&mut last.node)
    {
        before.append(&mut items);
    }
    pack(items, Node::Leaf, |(key, _)| key, to);
}

fn add_branch<K: Clone, V: Clone>(mut children: Vec<Child<K, V>>, to: &mut Vec<Child<K, V>>) {
    if let Some(last) = to.last_mut()
        && let Node::Branch(before) = &*last.node
        && joins(before.len(), children.len())
        && let Node::Branch(before) = Arc::make_mut(&mut last.node)
    {
        before.append(&mut children);
    }
    pack(children, Node::Branch, |child| &child.fence, to);
}

/// Whether an array is so short that it should be merged with the previous one.
fn joins(before: usize, rest: usize) -> bool {
    rest < SIZE / 4 && before + rest <= SIZE
}

/// Appends items as one node, as several nodes of even size if there are too many, or as none if there are no items.
fn pack<T, K: Clone, V>(
    items: Vec<T>,
    node: impl Fn(Vec<T>) -> Node<K, V>,
    key: impl Fn(&T) -> &K,
    to: &mut Vec<Child<K, V>>,
) {
    let mut add = |items: Vec<T>| {
        to.extend(
            items
                .first()
                .map(|first| key(first).clone())
                .map(|fence| Child { fence, node: Arc::new(node(items)) }),
        );
    };
    if items.len() <= 2 * SIZE {
        return add(items);
    }
    let piece = items.len().div_ceil(items.len().div_ceil(SIZE));
    let mut items = items.into_iter();
    while items.len() > 0 {
        add(items.by_ref().take(piece).collect());
    }
}

/// The children still to be walked, from the top down.
type Stack<'a, K, V> = SmallVec<[std::slice::Iter<'a, Child<K, V>>; 6]>;

/// Walks all items from some place on.
#[derive(Debug)]
pub(super) struct Tail<'a, K, V> {
    stack: Stack<'a, K, V>,
    items: std::slice::Iter<'a, (K, V)>,
}

impl<'a, K, V> Iterator for Tail<'a, K, V> {
    type Item = &'a (K, V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(item);
            }
            match self.stack.last_mut()?.next().map(|child| &*child.node) {
                None => drop(self.stack.pop()),
                Some(Node::Branch(children)) => self.stack.push(children.iter()),
                Some(Node::Leaf(items)) => self.items = items.iter(),
            }
        }
    }
}

/// Walks all items and knows the number of remaining ones.
#[derive(Debug)]
pub(super) struct Iter<'a, K, V> {
    tail: Tail<'a, K, V>,
    left: usize,
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = &'a (K, V);

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.tail.next()?;
        self.left -= 1;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K, V> ExactSizeIterator for Iter<'_, K, V> {}

/// A position in a map, for walking two maps side by side.
struct Cursor<'a, K, V> {
    stack: Stack<'a, K, V>,
    /// The rest of a leaf; empty between leaves.
    items: &'a [(K, V)],
}

impl<'a, K, V> Cursor<'a, K, V> {
    fn new(map: &'a SortedMap<K, V>) -> Self {
        Self { stack: SmallVec::from_iter([map.top.iter()]), items: &[] }
    }

    fn step(&mut self) {
        self.items = self.items.get(1..).unwrap_or(&[]);
    }

    /// The next child at any height. Called only between leaves.
    fn child(&mut self) -> Option<&'a Arc<Node<K, V>>> {
        while self.stack.last()?.as_slice().is_empty() {
            self.stack.pop();
        }
        Some(&self.stack.last()?.as_slice().first()?.node)
    }

    fn skip(&mut self) {
        self.stack.last_mut().and_then(Iterator::next);
    }

    /// Descends one level, or into the leaf.
    fn open(&mut self) {
        match self.child().map(|node| &**node) {
            None => {}
            Some(Node::Branch(children)) => {
                self.skip();
                self.stack.push(children.iter());
            }
            Some(Node::Leaf(items)) => {
                self.skip();
                self.items = items;
            }
        }
    }

    /// Advances both cursors to their next items, past all shared parts.
    fn align(&mut self, other: &mut Self) {
        while self.items.is_empty() && other.items.is_empty() {
            let height = |node: &Option<&Arc<Node<K, V>>>| {
                node.map(|node| usize::from(matches!(**node, Node::Branch(_))))
            };
            match (self.child(), other.child()) {
                (None, None) => return,
                (Some(mine), Some(theirs)) if Arc::ptr_eq(mine, theirs) => {
                    self.skip();
                    other.skip();
                }
                // Leaves are opened last, so that both are at the same height when they are compared.
                (mine, theirs) => match (height(&mine), height(&theirs)) {
                    (Some(1), Some(0)) => self.open(),
                    (Some(0), Some(1)) => other.open(),
                    _ => {
                        self.open();
                        other.open();
                    }
                },
            }
        }
        for cursor in [self, other] {
            while cursor.items.is_empty() && cursor.child().is_some() {
                cursor.open();
            }
        }
    }
}

#[cfg(test)]
mod tests;
