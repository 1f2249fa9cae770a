//! Datums: the value of one column of any type, and the arithmetic of `update2` on them.
//!
//! Typed tables do not use datums when they are decoded. Datums serve code without a static type: transactions, the command
//! line, rows that did not decode, the fake server.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeTuple, Serializer};
use serde_json::value::RawValue;

use super::atom::{Atom, ValueError};
use super::cursor::Cursor;
use super::value::{self, Element, Form};

/// The value of a column. Sets and maps are sorted by atom or key, without duplicates, so equality is simple.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datum {
    /// Zero or more atoms; a scalar is a set of one, as in the protocol.
    Set(Vec<Atom>),
    /// Keys and values.
    Map(Vec<(Atom, Atom)>),
}

impl Default for Datum {
    fn default() -> Self {
        Self::Set(Vec::new())
    }
}

impl Datum {
    /// A set in canonical order.
    pub fn set(atoms: impl IntoIterator<Item = Atom>) -> Self {
        let mut atoms: Vec<_> = atoms.into_iter().collect();
        atoms.sort();
        atoms.dedup();
        Self::Set(atoms)
    }

    /// A map in canonical order; of equal keys the last one counts.
    pub fn map(pairs: impl IntoIterator<Item = (Atom, Atom)>) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        sort_pairs(&mut pairs);
        Self::Map(pairs)
    }

    /// Reads a datum in place from a message.
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self, serde_json::Error> {
        let (mut atoms, mut pairs) = (Vec::new(), Vec::new());
        let form = value::read(cursor, &mut |element| {
            match element {
                Element::Atom(atom) => atoms.push(atom.to_atom()),
                Element::Pair(key, value) => pairs.push((key.to_atom(), value.to_atom())),
            }
            Ok(())
        })?;
        Ok(match form {
            Form::Set => Self::set(atoms),
            Form::Map => Self::map(pairs),
        })
    }

    /// The one atom of a scalar.
    pub fn scalar(&self) -> Option<&Atom> {
        match self {
            Self::Set(atoms) if atoms.len() == 1 => atoms.first(),
            _ => None,
        }
    }

    /// The number of atoms or pairs.
    pub fn len(&self) -> usize {
        match self {
            Self::Set(atoms) => atoms.len(),
            Self::Map(pairs) => pairs.len(),
        }
    }

    /// Whether the datum is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Applies the difference that `update2` sends for a column whose type holds more than one value. For sets it is the symmetric
    /// difference. For maps, a key with its current value is removed, any other pair is added.
    ///
    /// A sender that knows no type writes an empty map as an empty set, so an empty difference fits both.
    pub fn apply_diff(&mut self, diff: Datum) -> Result<(), ValueError> {
        match (&mut *self, diff) {
            (_, diff) if diff.is_empty() => {}
            (Self::Set(atoms), Datum::Set(diff)) => {
                for atom in diff {
                    match atoms.binary_search(&atom) {
                        Ok(at) => drop(atoms.remove(at)),
                        Err(at) => atoms.insert(at, atom),
                    }
                }
            }
            (Self::Map(pairs), Datum::Map(diff)) => {
                for (key, value) in diff {
                    match pairs.binary_search_by(|(k, _)| k.cmp(&key)) {
                        Ok(at) if pairs[at].1 == value => drop(pairs.remove(at)),
                        Ok(at) => pairs[at].1 = value,
                        Err(at) => pairs.insert(at, (key, value)),
                    }
                }
            }
            (Self::Set(atoms), diff @ Datum::Map(_)) if atoms.is_empty() => *self = diff,
            (Self::Map(pairs), diff @ Datum::Set(_)) if pairs.is_empty() => *self = diff,
            (Self::Set(_), Datum::Map(_)) => return Err(ValueError::new("a set as difference", "a map")),
            (Self::Map(_), Datum::Set(_)) => return Err(ValueError::new("a map as difference", "a set")),
        }
        Ok(())
    }

    /// The difference that leads from `self` to `other`, the inverse of [`Datum::apply_diff`].
    pub fn diff(&self, other: &Datum) -> Datum {
        match (self, other) {
            (Self::Map(a), Self::Map(b)) => {
                let find =
                    |pairs: &[(Atom, Atom)], k: &Atom| pairs.binary_search_by(|(key, _)| key.cmp(k)).ok();
                let gone = a.iter().filter(|(k, _)| find(b, k).is_none());
                let put = b.iter().filter(|(k, v)| find(a, k).is_none_or(|at| a[at].1 != *v));
                Self::map(gone.chain(put).cloned())
            }
            (Self::Set(a), Self::Set(b)) => {
                let gone = a.iter().filter(|atom| b.binary_search(atom).is_err());
                let put = b.iter().filter(|atom| a.binary_search(atom).is_err());
                Self::set(gone.chain(put).cloned())
            }
            (_, other) => other.clone(),
        }
    }
}

impl From<Atom> for Datum {
    fn from(atom: Atom) -> Self {
        Self::Set(vec![atom])
    }
}

fn sort_pairs(pairs: &mut Vec<(Atom, Atom)>) {
    // Stable, and reversed first: of equal keys the last one sent survives.
    pairs.reverse();
    pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
    pairs.dedup_by(|later, earlier| later.0 == earlier.0);
}

/// Prints as `ovs-vsctl` does: `a`, `[a, b]`, `{a=b, c=d}`.
impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(atoms) if atoms.len() == 1 => atoms[0].fmt(f),
            Self::Set(atoms) => {
                f.write_str("[")?;
                for (at, atom) in atoms.iter().enumerate() {
                    write!(f, "{}{atom}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Map(pairs) => {
                f.write_str("{")?;
                for (at, (key, value)) in pairs.iter().enumerate() {
                    write!(f, "{}{key}={value}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}

impl Serialize for Datum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Set(atoms) if atoms.len() == 1 => atoms[0].serialize(serializer),
            Self::Set(atoms) => {
                let mut pair = serializer.serialize_tuple(2)?;
                pair.serialize_element("set")?;
                pair.serialize_element(atoms)?;
                pair.end()
            }
            Self::Map(pairs) => {
                let mut pair = serializer.serialize_tuple(2)?;
                pair.serialize_element("map")?;
                pair.serialize_element(pairs)?;
                pair.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Datum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json: Box<RawValue> = Deserialize::deserialize(deserializer)?;
        let mut cursor = Cursor::new(json.get());
        Self::read(&mut cursor).and_then(|datum| cursor.end().map(|()| datum)).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn datum(json: &str) -> Datum {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_set_of_one_is_the_same_bare_and_wrapped() {
        assert_eq!(datum(r#""a""#), datum(r#"["set",["a"]]"#));
        assert_eq!(serde_json::to_string(&datum(r#"["set",["a"]]"#)).unwrap(), r#""a""#);
        assert_eq!(datum(r#"["set",[]]"#), Datum::default());
        let row = r#"["uuid","8f7e1d0a-52c1-44ea-9b7a-0a5a7d0c4c11"]"#;
        assert_eq!(datum(row), datum(&format!(r#"["set",[{row}]]"#)));
        assert_eq!(serde_json::to_string(&datum(row)).unwrap(), row);
    }

    #[test]
    fn integers_keep_all_64_bits() {
        for text in ["9223372036854775807", "-9223372036854775808", "9007199254740993"] {
            assert_eq!(serde_json::to_string(&datum(text)).unwrap(), text);
        }
        assert!(
            serde_json::from_str::<Datum>("9223372036854775808").unwrap_err().to_string().contains("64-bit")
        );
    }

    #[test]
    fn of_duplicate_keys_the_last_counts() {
        assert_eq!(datum(r#"["map",[["k","1"],["k","2"]]]"#), datum(r#"["map",[["k","2"]]]"#));
        assert_eq!(datum(r#"["set",["b","a","b"]]"#), datum(r#"["set",["a","b"]]"#));
    }

    #[test]
    fn an_equal_value_in_a_map_difference_removes() {
        let mut map = datum(r#"["map",[["a","1"],["b","2"],["c","3"]]]"#);
        map.apply_diff(datum(r#"["map",[["a","1"],["b","9"],["d","4"]]]"#)).unwrap();
        assert_eq!(map, datum(r#"["map",[["b","9"],["c","3"],["d","4"]]]"#));
    }

    #[test]
    fn malformed_values_are_refused() {
        for bad in [
            "null",
            "{}",
            "[]",
            r#"["set"]"#,
            r#"["set",1]"#,
            r#"["set",[["set",[]]]]"#,
            r#"["map",[["a"]]]"#,
            r#"["map",[["a","b","c"]]]"#,
            r#"["uuid","x"]"#,
            r#"["uuid"]"#,
            r#"["bag",[]]"#,
            r#"["set",[],1]"#,
        ] {
            assert!(serde_json::from_str::<Datum>(bad).is_err(), "{bad}");
        }
    }

    fn any_atom() -> impl Strategy<Value = Atom> {
        (0i64..6).prop_map(Atom::Integer)
    }
    fn any_datum() -> impl Strategy<Value = (Datum, Datum)> {
        let set = || proptest::collection::vec(any_atom(), 0..5).prop_map(Datum::set);
        let map = || proptest::collection::vec((any_atom(), any_atom()), 0..5).prop_map(Datum::map);
        prop_oneof![(set(), set()), (map(), map())]
    }

    proptest! {
        #[test]
        fn a_difference_leads_from_one_to_the_other((from, to) in any_datum()) {
            let mut walked = from.clone();
            walked.apply_diff(from.diff(&to)).unwrap();
            prop_assert_eq!(walked, to);
        }

        #[test]
        fn text_and_datum_agree((datum, _) in any_datum()) {
            let text = serde_json::to_string(&datum).unwrap();
            prop_assert_eq!(serde_json::from_str::<Datum>(&text).unwrap(), datum);
        }
    }
}
