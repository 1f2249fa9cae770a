//! Elements of sets and maps, one by one.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use ovsdb::Uuid;
use ovsdb::wire::atom::Atom;
use ovsdb::wire::datum::Datum;

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
