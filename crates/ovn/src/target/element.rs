//! Elements of sets and maps, one by one.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::cmp::Ordering;
use std::collections::BTreeSet;

use ovsdb::wire::Atom;
use ovsdb::wire::Datum;
use ovsdb::{Ref, Uuid, Weak};

/// A member of a set, or a pair of a map.
#[derive(Clone)]
pub(super) enum Element {
    Atom(Atom),
    Pair(Atom, Atom),
}

impl Element {
    pub(super) fn key(&self) -> &Atom {
        match self {
            Element::Atom(atom) | Element::Pair(atom, _) => atom,
        }
    }
}

pub(super) fn elements(datum: Datum) -> Vec<Element> {
    match datum {
        Datum::Set(atoms) => atoms.into_iter().map(Element::Atom).collect(),
        Datum::Map(pairs) => pairs.into_iter().map(|(key, value)| Element::Pair(key, value)).collect(),
    }
}

pub(super) fn atoms(datum: Datum) -> impl Iterator<Item = Atom> {
    let atoms = match datum {
        Datum::Set(atoms) => atoms,
        Datum::Map(_) => Vec::new(),
    };
    atoms.into_iter()
}

pub(super) fn pairs(datum: Datum) -> impl Iterator<Item = (Atom, Atom)> {
    let pairs = match datum {
        Datum::Map(pairs) => pairs,
        Datum::Set(_) => Vec::new(),
    };
    pairs.into_iter()
}

pub(super) fn has(datum: &Datum, element: &Element) -> bool {
    match datum {
        Datum::Set(atoms) => atoms.contains(element.key()),
        Datum::Map(pairs) => pairs.iter().any(|(key, _)| key == element.key()),
    }
}

pub(super) fn datum(items: Vec<Element>) -> Datum {
    let is_map = items.iter().any(|item| matches!(item, Element::Pair(..)));
    if is_map {
        Datum::map(items.into_iter().filter_map(|item| match item {
            Element::Pair(key, value) => Some((key, value)),
            Element::Atom(_) => None,
        }))
    } else {
        Datum::set(items.into_iter().map(|item| item.key().clone()))
    }
}

/// The UUIDs in a set.
pub(super) fn uuids(datum: &Datum) -> impl Iterator<Item = Uuid> {
    let atoms: &[Atom] = match datum {
        Datum::Set(atoms) => atoms,
        Datum::Map(_) => &[],
    };
    atoms.iter().filter_map(|atom| match atom {
        Atom::Uuid(uuid) => Some(*uuid),
        _ => None,
    })
}

/// The UUIDs that one of two sets has and the other has not, in order.
pub(super) fn differing(a: &Datum, b: &Datum) -> Vec<Uuid> {
    let (a, b): (BTreeSet<Uuid>, BTreeSet<Uuid>) = (uuids(a).collect(), uuids(b).collect());
    a.symmetric_difference(&b).copied().collect()
}

/// A member of a column that leads to a row.
pub(super) trait Reference: Copy + Ord {
    fn to(self) -> Uuid;
}

impl<T> Reference for Ref<T> {
    fn to(self) -> Uuid {
        self.uuid()
    }
}

impl<T> Reference for Weak<T> {
    fn to(self) -> Uuid {
        self.uuid()
    }
}

/// Whether a sorted set has a reference.
pub(super) fn refers<R: Reference>(set: &[R], to: Uuid) -> bool {
    set.binary_search_by(|probe| probe.to().cmp(&to)).is_ok()
}

/// The symmetric difference of two sorted sets, in order. Large sets mostly differ in one place, so this skips the common
/// elements at both ends first.
pub(super) fn moved<R: Reference>(a: &[R], b: &[R]) -> Vec<Uuid> {
    let head = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[head..], &b[head..]);
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let (mut a, mut b) = (&a[..a.len() - tail], &b[..b.len() - tail]);
    let mut moved = Vec::new();
    while let (Some(x), Some(y)) = (a.first(), b.first()) {
        match x.cmp(y) {
            Ordering::Equal => (a, b) = (&a[1..], &b[1..]),
            Ordering::Less => {
                moved.push(x.to());
                a = &a[1..];
            }
            Ordering::Greater => {
                moved.push(y.to());
                b = &b[1..];
            }
        }
    }
    moved.extend(a.iter().chain(b).map(|rest| rest.to()));
    moved
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::nb;

    proptest! {
        #[test]
        fn moved_is_the_symmetric_difference(a: BTreeSet<u8>, b: BTreeSet<u8>, n: u8) {
            let row = |n: &u8| Uuid::from_u128((*n).into());
            let set = |set: &BTreeSet<u8>| -> Vec<Ref<nb::Nat>> { set.iter().map(|n| Ref::new(row(n))).collect() };
            let both: Vec<Uuid> = a.symmetric_difference(&b).map(row).collect();
            prop_assert_eq!(moved(&set(&a), &set(&b)), both);
            prop_assert_eq!(refers(&set(&a), row(&n)), a.contains(&n));
        }
    }
}
