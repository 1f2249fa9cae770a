//! A sorted map that is cheap to copy and cheap to change: the shape under rows and indexes.
//!
//! Two levels: a list of chunks, each behind an [`Arc`], each about as long as the list (the square root of the whole).
//! A copy shares all chunks; a change rebuilds the chunk it falls into and leaves the others shared. Reading is binary
//! search in two short arrays, walking is walking arrays. Persistent trees cost ten times as much to read.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::cmp::Ordering;
use std::sync::Arc;

const SMALLEST: usize = 32;
const LARGEST: usize = 1024;

/// A sorted copy-on-write map.
#[derive(Debug)]
pub(super) struct Sorted<K, V> {
    chunks: Vec<Chunk<K, V>>,
    len: usize,
}

#[derive(Debug)]
struct Chunk<K, V> {
    /// Not above any key in the chunk, and above every key of the chunk before.
    fence: K,
    items: Arc<Vec<(K, V)>>,
}

impl<K: Clone, V> Clone for Chunk<K, V> {
    fn clone(&self) -> Self {
        Self { fence: self.fence.clone(), items: Arc::clone(&self.items) }
    }
}

impl<K: Clone, V> Clone for Sorted<K, V> {
    fn clone(&self) -> Self {
        Self { chunks: self.chunks.clone(), len: self.len }
    }
}

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<K, V> Sorted<K, V> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> Iter<'_, K, V> {
        Iter { tail: Tail { chunks: self.chunks.iter(), items: [].iter() }, left: self.len }
    }

    /// The value whose key compares as equal; `order` says how a key compares with the one that is looked for.
    pub(super) fn get(&self, order: impl Fn(&K) -> Ordering) -> Option<&V> {
        let at = self.chunks.partition_point(|chunk| order(&chunk.fence) != Ordering::Greater);
        let items = &self.chunks.get(at.saturating_sub(1))?.items;
        let at = items.binary_search_by(|(key, _)| order(key)).ok()?;
        Some(&items[at].1)
    }

    /// Walks from the first key that is not `below` on. Keys that are below come before all others.
    pub(super) fn from<F: Fn(&K) -> bool>(&self, below: F) -> Tail<'_, K, V> {
        let at = self.chunks.partition_point(|chunk| below(&chunk.fence)).saturating_sub(1);
        let mut chunks = self.chunks[at..].iter();
        let items = chunks.next().map_or(&[][..], |chunk| {
            let first = chunk.items.partition_point(|(key, _)| below(key));
            &chunk.items[first..]
        });
        Tail { chunks, items: items.iter() }
    }
}

impl<K: Ord + Clone, V: Clone> Sorted<K, V> {
    /// Puts in (`Some`) and takes out (`None`) in one pass. Edits come sorted by key, each key once.
    pub(super) fn edit(&mut self, edits: impl ExactSizeIterator<Item = (K, Option<V>)>) {
        let size = (self.len + edits.len()).isqrt().clamp(SMALLEST, LARGEST);
        let mut edits = edits.peekable();
        let mut old = std::mem::take(&mut self.chunks).into_iter().peekable();
        let mut new: Vec<Chunk<K, V>> = Vec::with_capacity(old.len() + edits.len() / size + 1);
        if old.peek().is_none() {
            pack(edits.by_ref().filter_map(|(key, value)| Some((key, value?))).collect(), size, &mut new);
        }
        while let Some(chunk) = old.next() {
            let next = old.peek().map(|next| &next.fence);
            let within = |key: &K| next.is_none_or(|fence| key < fence);
            if !edits.peek().is_some_and(|(key, _)| within(key)) {
                new.push(chunk);
                continue;
            }
            let mine = std::iter::from_fn(|| edits.next_if(|(key, _)| within(key)));
            let items = match Arc::try_unwrap(chunk.items) {
                Ok(items) => merge(items.into_iter(), mine),
                Err(shared) => merge(shared.iter().cloned(), mine),
            };
            match new.last_mut() {
                Some(last) if items.len() < size / 4 && last.items.len() + items.len() <= size => {
                    Arc::make_mut(&mut last.items).extend(items);
                }
                _ => pack(items, size, &mut new),
            }
        }
        self.len = new.iter().map(|chunk| chunk.items.len()).sum();
        self.chunks = new;
    }

    /// Calls `changed` for every key whose value differs between two maps, in the order of keys. Chunks that both
    /// share are skipped without a look inside; `same` tells whether two values of one key are equal.
    pub(super) fn diff<'a>(
        &'a self,
        newer: &'a Self,
        same: impl Fn(&V, &V) -> bool,
        mut changed: impl FnMut(&'a K, Option<&'a V>, Option<&'a V>),
    ) {
        let (mut old, mut new) = (Cursor::new(self), Cursor::new(newer));
        loop {
            if old.skip_shared(&mut new) {
                continue;
            }
            match (old.peek(), new.peek()) {
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

fn merge<K: Ord, V>(
    old: impl ExactSizeIterator<Item = (K, V)>,
    edits: impl Iterator<Item = (K, Option<V>)>,
) -> Vec<(K, V)> {
    let mut items = Vec::with_capacity(old.len() + 1);
    let mut old = old.peekable();
    for (key, value) in edits {
        while let Some(item) = old.next_if(|(have, _)| *have < key) {
            items.push(item);
        }
        let _replaced = old.next_if(|(have, _)| *have == key);
        items.extend(value.map(|value| (key, value)));
    }
    items.extend(old);
    items
}

/// Appends items as one chunk, or as several even ones where they are too many.
fn pack<K: Clone, V>(items: Vec<(K, V)>, size: usize, chunks: &mut Vec<Chunk<K, V>>) {
    let pieces = if items.len() > 2 * size { items.len().div_ceil(size) } else { 1 };
    let piece = items.len().div_ceil(pieces);
    if pieces == 1 {
        chunks.extend(chunk(items));
        return;
    }
    let mut items = items.into_iter();
    for _ in 0..pieces {
        chunks.extend(chunk(items.by_ref().take(piece).collect()));
    }
}

fn chunk<K: Clone, V>(items: Vec<(K, V)>) -> Option<Chunk<K, V>> {
    Some(Chunk { fence: items.first()?.0.clone(), items: Arc::new(items) })
}

/// Walks all items from some place on.
#[derive(Debug)]
pub(super) struct Tail<'a, K, V> {
    chunks: std::slice::Iter<'a, Chunk<K, V>>,
    items: std::slice::Iter<'a, (K, V)>,
}

impl<'a, K, V> Iterator for Tail<'a, K, V> {
    type Item = &'a (K, V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(item);
            }
            self.items = self.chunks.next()?.items.iter();
        }
    }
}

/// Walks all items and knows how many are left.
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

/// A place in a map, for walking two of them side by side.
struct Cursor<'a, K, V> {
    chunks: &'a [Chunk<K, V>],
    at: usize,
}

impl<'a, K, V> Cursor<'a, K, V> {
    fn new(map: &'a Sorted<K, V>) -> Self {
        Self { chunks: &map.chunks, at: 0 }
    }

    fn peek(&self) -> Option<(&'a K, &'a V)> {
        // No chunk is empty, so the first one holds the place.
        let (key, value) = self.chunks.first()?.items.get(self.at)?;
        Some((key, value))
    }

    fn step(&mut self) {
        self.at += 1;
        if self.chunks.first().is_some_and(|chunk| self.at >= chunk.items.len()) {
            self.chunks = &self.chunks[1..];
            self.at = 0;
        }
    }

    /// Steps over a chunk that both sides share and both stand at the beginning of.
    fn skip_shared(&mut self, other: &mut Self) -> bool {
        let shared = match (self.chunks.first(), other.chunks.first()) {
            (Some(a), Some(b)) => self.at == 0 && other.at == 0 && Arc::ptr_eq(&a.items, &b.items),
            _ => false,
        };
        if shared {
            self.chunks = &self.chunks[1..];
            other.chunks = &other.chunks[1..];
        }
        shared
    }
}

#[cfg(test)]
mod tests;
