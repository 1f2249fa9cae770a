//! The types of a table's fields: an atom, an optional atom, a set or a map of atoms.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::cmp::Ordering;
use std::fmt;

use uuid::Uuid;

use super::Str;
use super::collection::{Few, Many, Map, Set};
use super::intern::intern;
use super::reference::{Ref, Weak};
use super::table::Table;
use crate::wire::atom::{Atom, AtomKind, AtomRef, FromAtom, ValueError};
use crate::wire::cursor::Cursor;
use crate::wire::datum::Datum;
use crate::wire::value::{self, Element};
use crate::wire::write;

/// A Rust type for one atom of a column.
pub trait AtomType: FromAtom + Clone + Ord + Send + Sync + 'static {
    /// The kind of atom it is.
    const KIND: AtomKind;
    /// The table a reference leads to, and whether it is strong.
    const REFERS: Option<(&'static str, bool)> = None;

    /// Converts the value to an atom.
    fn to_atom(&self) -> Atom;

    /// Appends the atom as JSON: the same as `to_atom`, without the intermediate value.
    fn write_atom(&self, out: &mut Vec<u8>) {
        write::json(out, &self.to_atom());
    }
}

/// The number and kinds of atoms in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// One value, at most one value, any number of values, or pairs.
    pub arity: Arity,
    /// The atoms, or a map's keys.
    pub key: AtomKind,
    /// A map's values.
    pub value: Option<AtomKind>,
    /// The table its references lead to, and whether they are strong.
    pub refers: Option<(&'static str, bool)>,
}

/// The number of atoms in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly one.
    One,
    /// None or one.
    Optional,
    /// Any number.
    Set,
    /// Any number of pairs.
    Map,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.arity, self.value) {
            (Arity::One, _) => self.key.fmt(f),
            (Arity::Optional, _) => write!(f, "optional {}", self.key),
            (Arity::Set, _) => write!(f, "set of {}s", self.key),
            (Arity::Map, Some(value)) => write!(f, "map of {}-{value} pairs", self.key),
            (Arity::Map, None) => write!(f, "map of {} pairs", self.key),
        }
    }
}

/// The elements to add to and remove from a set or map one by one, so that foreign elements stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mutation {
    /// Elements to remove; for maps, pairs or keys. Only the key counts, regardless of its current value.
    pub delete: Datum,
    /// Elements (for maps: pairs) to insert. Pairs replace the values of existing keys.
    pub insert: Datum,
    /// Whether the mutation removes every element of a set. The server counts after each step, and some sets must not be empty:
    /// then new elements are added before the last old one is removed. Otherwise old ones are removed first, because some sets
    /// are full.
    pub empties: bool,
}

/// A Rust type for a column.
pub trait ColumnType: Clone + PartialEq + Default + Send + Sync + 'static {
    /// The expected type.
    const SHAPE: Shape;

    /// Reads the column's value in place from a message. With `diff` it is a difference to the current value, as `update2`
    /// sends it for columns that may hold several elements. After an error the value is unspecified.
    fn decode(&mut self, diff: bool, value: &mut Cursor<'_>) -> Result<(), serde_json::Error>;

    /// Converts a datum to the value.
    fn from_datum(datum: &Datum) -> Result<Self, ValueError>;

    /// Converts the value to the datum that is written.
    fn to_datum(&self) -> Datum;

    /// Appends the datum as JSON without creating it.
    fn write_json(&self, out: &mut Vec<u8>);

    /// Whether a row that omits the column gets this value.
    fn is_blank(&self) -> bool;

    /// The mutation from `self` to `after` element by element; `None` if only the whole value can be written.
    fn mutation(&self, after: &Self) -> Option<Mutation>;
}

/// Reads a value of at most one atom; returns the number of atoms and the last one.
fn read_last<T: AtomType>(value: &mut Cursor<'_>) -> Result<(usize, Option<T>), serde_json::Error> {
    let (mut found, mut last) = (0, None);
    value::read(value, &mut |element| {
        last = Some(T::from_atom(element.atom(T::KIND)?)?);
        found += 1;
        Ok(())
    })?;
    Ok((found, last))
}

fn not_one<T: AtomType>(found: usize) -> serde_json::Error {
    serde::de::Error::custom(wrong_count::<T>(found))
}

fn wrong_count<T: AtomType>(found: usize) -> ValueError {
    ValueError::new(format_args!("one {}", T::KIND), format_args!("{found} of them"))
}

fn sole<T: AtomType>(items: impl ExactSizeIterator<Item = T>) -> Result<T, ValueError> {
    let found = items.len();
    items.last().filter(|_| found == 1).ok_or_else(|| wrong_count::<T>(found))
}

/// A set as JSON; one of a single element is written bare.
fn write_set<T: AtomType>(out: &mut Vec<u8>, items: &[T]) {
    if let [item] = items {
        return item.write_atom(out);
    }
    out.extend_from_slice(br#"["set",["#);
    write::list(out, items, |out, item| item.write_atom(out));
    out.extend_from_slice(b"]]");
}

fn atoms<T: FromAtom>(datum: &Datum) -> Result<Vec<T>, ValueError> {
    match datum {
        Datum::Set(atoms) => atoms.iter().map(|atom| T::from_atom(atom.as_ref())).collect(),
        Datum::Map(pairs) if pairs.is_empty() => Ok(Vec::new()),
        Datum::Map(_) => Err(ValueError::new("a set", "a map")),
    }
}

impl<T: AtomType + Default> ColumnType for T {
    const SHAPE: Shape = Shape { arity: Arity::One, key: T::KIND, value: None, refers: T::REFERS };

    fn decode(&mut self, _diff: bool, value: &mut Cursor<'_>) -> Result<(), serde_json::Error> {
        let (found, last) = read_last(value)?;
        *self = last.filter(|_| found == 1).ok_or_else(|| not_one::<T>(found))?;
        Ok(())
    }

    fn from_datum(datum: &Datum) -> Result<Self, ValueError> {
        sole(atoms(datum)?.into_iter())
    }

    fn to_datum(&self) -> Datum {
        Datum::from(self.to_atom())
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        self.write_atom(out);
    }

    fn is_blank(&self) -> bool {
        self.to_atom().is_default()
    }

    fn mutation(&self, _after: &Self) -> Option<Mutation> {
        None
    }
}

impl<T: AtomType> ColumnType for Option<T> {
    const SHAPE: Shape = Shape { arity: Arity::Optional, key: T::KIND, value: None, refers: T::REFERS };

    fn decode(&mut self, _diff: bool, value: &mut Cursor<'_>) -> Result<(), serde_json::Error> {
        let (found, last) = read_last(value)?;
        *self = if found <= 1 { last } else { return Err(not_one::<T>(found)) };
        Ok(())
    }

    fn from_datum(datum: &Datum) -> Result<Self, ValueError> {
        let atoms = atoms(datum)?;
        if atoms.is_empty() { Ok(None) } else { sole(atoms.into_iter()).map(Some) }
    }

    fn to_datum(&self) -> Datum {
        Datum::Set(self.iter().map(T::to_atom).collect())
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        write_set(out, self.as_slice());
    }

    fn is_blank(&self) -> bool {
        self.is_none()
    }

    fn mutation(&self, _after: &Self) -> Option<Mutation> {
        None
    }
}

impl<T: AtomType> ColumnType for Set<T> {
    const SHAPE: Shape = Shape { arity: Arity::Set, key: T::KIND, value: None, refers: T::REFERS };

    fn decode(&mut self, diff: bool, value: &mut Cursor<'_>) -> Result<(), serde_json::Error> {
        let mut items = Few::new();
        value::read(value, &mut |element| {
            items.push(T::from_atom(element.atom(T::KIND)?)?);
            Ok(())
        })?;
        let items = Self::collected(&mut items);
        if diff {
            self.toggle(items);
        } else {
            *self = items;
        }
        Ok(())
    }

    fn from_datum(datum: &Datum) -> Result<Self, ValueError> {
        Ok(atoms(datum)?.into_iter().collect())
    }

    fn to_datum(&self) -> Datum {
        Datum::set(self.iter().map(T::to_atom))
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        write_set(out, self);
    }

    fn is_blank(&self) -> bool {
        self.is_empty()
    }

    fn mutation(&self, after: &Self) -> Option<Mutation> {
        let only = |a: &Self, b: &Self| Datum::set(a.iter().filter(|item| !b.holds(*item)).map(T::to_atom));
        let (delete, insert) = (only(self, after), only(after, self));
        Some(Mutation { empties: delete.len() == self.len(), delete, insert })
    }
}

impl<K: AtomType, V: AtomType> ColumnType for Map<K, V> {
    const SHAPE: Shape = Shape {
        arity: Arity::Map,
        key: K::KIND,
        value: Some(V::KIND),
        refers: if K::REFERS.is_some() { K::REFERS } else { V::REFERS },
    };

    fn decode(&mut self, diff: bool, value: &mut Cursor<'_>) -> Result<(), serde_json::Error> {
        let (mut keys, mut values) = (Many::new(), Many::new());
        value::read(value, &mut |element| {
            let Element::Pair(key, value) = element else { return Err(ValueError::new("a map", "a set")) };
            keys.push(K::from_atom(key)?);
            values.push(V::from_atom(value)?);
            Ok(())
        })?;
        if diff {
            self.toggle_pairs(&mut keys, &mut values);
        } else {
            *self = Self::zipped(&mut keys, &mut values);
        }
        Ok(())
    }

    fn from_datum(datum: &Datum) -> Result<Self, ValueError> {
        match datum {
            Datum::Map(pairs) => pairs
                .iter()
                .map(|(k, v)| Ok((K::from_atom(k.as_ref())?, V::from_atom(v.as_ref())?)))
                .collect(),
            Datum::Set(atoms) if atoms.is_empty() => Ok(Self::default()),
            Datum::Set(_) => Err(ValueError::new("a map", "a set")),
        }
    }

    fn to_datum(&self) -> Datum {
        Datum::map(self.iter().map(|(k, v)| (k.to_atom(), v.to_atom())))
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"["map",["#);
        write::list(out, self.iter(), |out, (key, value)| {
            out.push(b'[');
            key.write_atom(out);
            out.push(b',');
            value.write_atom(out);
            out.push(b']');
        });
        out.extend_from_slice(b"]]");
    }

    fn is_blank(&self) -> bool {
        self.is_empty()
    }

    fn mutation(&self, after: &Self) -> Option<Mutation> {
        let only = |a: &Self, b: &Self| {
            Datum::map(
                a.iter().filter(|(k, v)| b.get(*k) != Some(*v)).map(|(k, v)| (k.to_atom(), v.to_atom())),
            )
        };
        Some(Mutation { delete: only(self, after), insert: only(after, self), empties: false })
    }
}

/// A double with the order that sets need.
#[derive(Clone, Copy, Debug, Default)]
pub struct Real(pub f64);

impl Ord for Real {
    fn cmp(&self, other: &Self) -> Ordering {
        Atom::Real(self.0).cmp(&Atom::Real(other.0))
    }
}
impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Real {}

macro_rules! atom_type {
    ($type:ty, $kind:ident, $pattern:pat => $value:expr, $self:ident => $atom:expr, $out:ident => $write:expr) => {
        impl FromAtom for $type {
            fn from_atom(atom: AtomRef<'_>) -> Result<Self, ValueError> {
                match atom {
                    $pattern => Ok($value),
                    other => Err(ValueError::new(AtomKind::$kind, other)),
                }
            }
        }
        impl AtomType for $type {
            const KIND: AtomKind = AtomKind::$kind;
            fn to_atom(&$self) -> Atom {
                $atom
            }
            fn write_atom(&$self, $out: &mut Vec<u8>) {
                $write
            }
        }
    };
}

atom_type!(i64, Integer, AtomRef::Integer(v) => v, self => Atom::Integer(*self), out => write::json(out, self));
atom_type!(bool, Boolean, AtomRef::Boolean(v) => v, self => Atom::Boolean(*self), out => write::json(out, self));
atom_type!(Str, String, AtomRef::String(v) => intern(v), self => Atom::String(self.clone()), out => write::json(out, self.as_str()));
atom_type!(Uuid, Uuid, AtomRef::Uuid(v) => v, self => Atom::Uuid(*self), out => write::uuid(out, *self));

impl FromAtom for Real {
    fn from_atom(atom: AtomRef<'_>) -> Result<Self, ValueError> {
        match atom {
            AtomRef::Real(v) => Ok(Self(v)),
            // The server prints whole reals without a point.
            AtomRef::Integer(v) => Ok(Self(v as f64)),
            other => Err(ValueError::new(AtomKind::Real, other)),
        }
    }
}
impl AtomType for Real {
    const KIND: AtomKind = AtomKind::Real;
    fn to_atom(&self) -> Atom {
        Atom::Real(self.0)
    }
}

macro_rules! reference_type {
    ($name:ident, $strong:literal) => {
        impl<T: Table> FromAtom for $name<T> {
            fn from_atom(atom: AtomRef<'_>) -> Result<Self, ValueError> {
                Uuid::from_atom(atom).map(Self::new)
            }
        }
        impl<T: Table> AtomType for $name<T> {
            const KIND: AtomKind = AtomKind::Uuid;
            const REFERS: Option<(&'static str, bool)> = Some((T::TABLE, $strong));
            fn to_atom(&self) -> Atom {
                Atom::Uuid(self.uuid())
            }
            fn write_atom(&self, out: &mut Vec<u8>) {
                write::uuid(out, self.uuid());
            }
        }
    };
}

reference_type!(Ref, true);
reference_type!(Weak, false);

#[cfg(test)]
mod tests {
    use super::*;

    fn decode<T: ColumnType>(json: &str) -> Result<T, String> {
        let mut column = T::default();
        column.decode(false, &mut Cursor::new(json)).map_err(|e| e.to_string())?;
        Ok(column)
    }

    #[test]
    fn columns_decode_from_every_form_the_server_sends() {
        assert_eq!(decode::<i64>("7"), Ok(7));
        assert_eq!(decode::<i64>(r#"["set",[7]]"#), Ok(7));
        assert_eq!(decode::<Option<i64>>(r#"["set",[]]"#), Ok(None));
        assert_eq!(decode::<Option<i64>>("7"), Ok(Some(7)));
        assert_eq!(decode::<Set<Str>>(r#""x""#), Ok(["x".into()].into()));
        assert_eq!(decode::<Map<Str, i64>>(r#"["map",[["b",2],["a",1]]]"#).unwrap().get("a"), Some(&1));
        assert_eq!(decode::<Map<Str, i64>>(r#"["set",[]]"#), Ok(Map::default()));
        assert_eq!(decode::<Real>("1"), Ok(Real(1.0)));
    }

    #[test]
    fn columns_are_written_as_their_datums_are() {
        fn agree<C: ColumnType>(column: C, blank: bool) {
            let mut out = Vec::new();
            column.write_json(&mut out);
            assert_eq!(serde_json::from_slice::<Datum>(&out).unwrap(), column.to_datum());
            assert_eq!(column.is_blank(), blank);
        }
        let row = Uuid::from_u128(7);
        agree(7, false);
        agree(0, true);
        agree(true, false);
        agree(Real(0.5), false);
        agree(Real(-0.0), true);
        agree(row, false);
        agree(Uuid::nil(), true);
        agree(Str::default(), true);
        agree(Str::from("a \"quoted\" \\ é\n"), false);
        agree(None::<Str>, true);
        agree(Some(Str::default()), false);
        agree(Set::<Uuid>::default(), true);
        agree(Set::from([row]), false);
        agree(Set::from([Str::from("b"), "a".into()]), false);
        agree(Map::<Str, i64>::default(), true);
        agree(Map::from([(Str::from("a"), 1), ("b".into(), 2)]), false);
    }

    #[test]
    fn misfits_say_what_was_expected() {
        let problem = |r: Result<i64, String>| r.unwrap_err();
        assert!(problem(decode(r#""x""#)).starts_with(r#"expected integer, found string "x""#));
        assert!(problem(decode(r#"["set",[1,2]]"#)).starts_with("expected one integer, found 2 of them"));
        assert!(problem(decode(r#"["map",[[1,2]]]"#)).contains("found a map"));
    }

    #[test]
    fn mutations_touch_only_what_differs() {
        let before: Map<Str, Str> = [("mine".into(), "1".into()), ("theirs".into(), "x".into())].into();
        let mut after = before.clone();
        after.insert("mine".into(), "2".into());
        let mutation = before.mutation(&after).unwrap();
        assert_eq!(mutation.delete.to_string(), "{mine=1}");
        assert_eq!(mutation.insert.to_string(), "{mine=2}");
    }
}
