//! Atoms: the five kinds of value that columns are made of.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::cmp::Ordering;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeTuple, Serializer};
use smol_str::SmolStr;
use uuid::Uuid;

/// The kind of an atom, by the names the schema uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AtomKind {
    /// A 64-bit signed integer.
    Integer,
    /// A double.
    Real,
    /// True or false.
    Boolean,
    /// UTF-8 text.
    String,
    /// A UUID, often a reference to a row.
    Uuid,
}

impl AtomKind {
    /// The schema's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Real => "real",
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Uuid => "uuid",
        }
    }

    /// From the schema's word.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Integer, Self::Real, Self::Boolean, Self::String, Self::Uuid]
            .into_iter()
            .find(|k| k.name() == name)
    }
}

impl fmt::Display for AtomKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An owned atom of any kind.
#[derive(Clone, Debug)]
pub enum Atom {
    /// `integer`
    Integer(i64),
    /// `real`
    Real(f64),
    /// `boolean`
    Boolean(bool),
    /// `string`
    String(SmolStr),
    /// `uuid`
    Uuid(Uuid),
    /// A row inserted by the same transaction, by the name given there; only in operations, never in a database.
    NamedUuid(SmolStr),
}

/// A borrowed atom, as it comes off the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AtomRef<'a> {
    /// `integer`
    Integer(i64),
    /// `real`
    Real(f64),
    /// `boolean`
    Boolean(bool),
    /// `string`
    String(&'a str),
    /// `uuid`
    Uuid(Uuid),
    /// `named-uuid`
    NamedUuid(&'a str),
}

impl Atom {
    /// Borrows it.
    pub fn as_ref(&self) -> AtomRef<'_> {
        match self {
            Self::Integer(v) => AtomRef::Integer(*v),
            Self::Real(v) => AtomRef::Real(*v),
            Self::Boolean(v) => AtomRef::Boolean(*v),
            Self::String(v) => AtomRef::String(v),
            Self::Uuid(v) => AtomRef::Uuid(*v),
            Self::NamedUuid(v) => AtomRef::NamedUuid(v),
        }
    }

    /// The kind it is.
    pub fn kind(&self) -> AtomKind {
        self.as_ref().kind()
    }

    /// Whether a scalar column gets this value in a row that does not mention it.
    pub fn is_default(&self) -> bool {
        match self {
            Self::Integer(v) => *v == 0,
            Self::Real(v) => *v == 0.0,
            Self::Boolean(v) => !v,
            Self::String(v) => v.is_empty(),
            Self::Uuid(v) => v.is_nil(),
            Self::NamedUuid(_) => false,
        }
    }
}

impl AtomRef<'_> {
    /// The kind it is.
    pub fn kind(&self) -> AtomKind {
        match self {
            Self::Integer(_) => AtomKind::Integer,
            Self::Real(_) => AtomKind::Real,
            Self::Boolean(_) => AtomKind::Boolean,
            Self::String(_) => AtomKind::String,
            Self::Uuid(_) | Self::NamedUuid(_) => AtomKind::Uuid,
        }
    }

    /// Owns it.
    pub fn to_atom(&self) -> Atom {
        match *self {
            Self::Integer(v) => Atom::Integer(v),
            Self::Real(v) => Atom::Real(v),
            Self::Boolean(v) => Atom::Boolean(v),
            Self::String(v) => Atom::String(v.into()),
            Self::Uuid(v) => Atom::Uuid(v),
            Self::NamedUuid(v) => Atom::NamedUuid(v.into()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Integer(_) => 0,
            Self::Real(_) => 1,
            Self::Boolean(_) => 2,
            Self::String(_) => 3,
            Self::Uuid(_) => 4,
            Self::NamedUuid(_) => 5,
        }
    }
}

/// Atoms are ordered within their kind, so sets have one canonical order. Reals compare by total order, with the two
/// zeros equal as the server takes them.
impl Ord for Atom {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a.cmp(b),
            (Self::Real(a), Self::Real(b)) => (a + 0.0).total_cmp(&(b + 0.0)),
            (Self::Boolean(a), Self::Boolean(b)) => a.cmp(b),
            (Self::String(a), Self::String(b)) | (Self::NamedUuid(a), Self::NamedUuid(b)) => a.cmp(b),
            (Self::Uuid(a), Self::Uuid(b)) => a.cmp(b),
            _ => self.as_ref().rank().cmp(&other.as_ref().rank()),
        }
    }
}

impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Atom {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Atom {}

/// As `ovs-vsctl` would print it: strings bare.
impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(v) => v.fmt(f),
            Self::Real(v) => v.fmt(f),
            Self::Boolean(v) => v.fmt(f),
            Self::String(v) | Self::NamedUuid(v) => v.fmt(f),
            Self::Uuid(v) => v.fmt(f),
        }
    }
}

impl From<i64> for Atom {
    fn from(v: i64) -> Self {
        Self::Integer(v)
    }
}
impl From<bool> for Atom {
    fn from(v: bool) -> Self {
        Self::Boolean(v)
    }
}
impl From<&str> for Atom {
    fn from(v: &str) -> Self {
        Self::String(v.into())
    }
}
impl From<SmolStr> for Atom {
    fn from(v: SmolStr) -> Self {
        Self::String(v)
    }
}
impl From<Uuid> for Atom {
    fn from(v: Uuid) -> Self {
        Self::Uuid(v)
    }
}

impl Serialize for Atom {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(v) => serializer.serialize_i64(*v),
            Self::Real(v) => serializer.serialize_f64(*v),
            Self::Boolean(v) => serializer.serialize_bool(*v),
            Self::String(v) => serializer.serialize_str(v),
            Self::Uuid(v) => {
                let mut buffer = Uuid::encode_buffer();
                tag(serializer, "uuid", v.hyphenated().encode_lower(&mut buffer))
            }
            Self::NamedUuid(v) => tag(serializer, "named-uuid", v),
        }
    }
}

fn tag<S: Serializer>(serializer: S, tag: &str, text: &str) -> Result<S::Ok, S::Error> {
    let mut pair = serializer.serialize_tuple(2)?;
    pair.serialize_element(tag)?;
    pair.serialize_element(text)?;
    pair.end()
}

/// A value did not fit the type it was to become.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}")]
pub struct ValueError {
    /// What the type takes.
    pub expected: String,
    /// What was there, shortened.
    pub found: String,
}

impl ValueError {
    /// An error that names both sides; long values are cut.
    pub fn new(expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        const LONGEST: usize = 120;
        let mut found = found.to_string();
        if let Some((at, _)) = found.char_indices().nth(LONGEST) {
            found.truncate(at);
            found.push('…');
        }
        Self { expected: expected.to_string(), found }
    }
}

/// What can be made from one atom off the wire.
pub trait FromAtom: Sized {
    /// Takes the atom, or says why it does not fit.
    fn from_atom(atom: AtomRef<'_>) -> Result<Self, ValueError>;
}

impl FromAtom for Atom {
    fn from_atom(atom: AtomRef<'_>) -> Result<Self, ValueError> {
        Ok(atom.to_atom())
    }
}

impl fmt::Display for AtomRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(text) => write!(f, "string {text:?}"),
            Self::NamedUuid(name) => write!(f, "named-uuid {name:?}"),
            Self::Integer(v) => write!(f, "integer {v}"),
            Self::Real(v) => write!(f, "real {v}"),
            Self::Boolean(v) => write!(f, "boolean {v}"),
            Self::Uuid(v) => write!(f, "uuid {v}"),
        }
    }
}

/// Decodes one atom: a bare scalar, or a tagged pair for UUIDs.
pub(crate) struct AtomSeed<T>(std::marker::PhantomData<T>);

impl<T> AtomSeed<T> {
    pub(crate) fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<'de, T: FromAtom> DeserializeSeed<'de> for AtomSeed<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: FromAtom> Visitor<'de> for AtomSeed<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an atom: number, boolean, string or [\"uuid\", ...]")
    }

    fn visit_bool<E: de::Error>(self, v: bool) -> Result<T, E> {
        T::from_atom(AtomRef::Boolean(v)).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, v: i64) -> Result<T, E> {
        T::from_atom(AtomRef::Integer(v)).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, v: u64) -> Result<T, E> {
        let v = i64::try_from(v).map_err(|_| E::custom(ValueError::new("a 64-bit signed integer", v)))?;
        self.visit_i64(v)
    }

    fn visit_f64<E: de::Error>(self, v: f64) -> Result<T, E> {
        T::from_atom(AtomRef::Real(v)).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, v: &str) -> Result<T, E> {
        T::from_atom(AtomRef::String(v)).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<T, A::Error> {
        let tag: Tag = seq.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &"a tagged pair"))?;
        let value = tagged_atom(tag, &mut seq)?;
        end(seq)?;
        Ok(value)
    }
}

/// The first element of a tagged array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Tag {
    Uuid,
    NamedUuid,
    Set,
    Map,
}

/// The second element of `["uuid", ...]` or `["named-uuid", ...]`.
pub(crate) fn tagged_atom<'de, T: FromAtom, A: SeqAccess<'de>>(tag: Tag, seq: &mut A) -> Result<T, A::Error> {
    seq.next_element_seed(TaggedText(tag, std::marker::PhantomData))?
        .ok_or_else(|| de::Error::invalid_length(1, &"a tagged pair"))
}

/// Refuses anything behind what was expected.
pub(crate) fn end<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<(), A::Error> {
    match seq.next_element::<de::IgnoredAny>()? {
        None => Ok(()),
        Some(_) => Err(de::Error::custom("a tagged value has two elements, found more")),
    }
}

struct TaggedText<T>(Tag, std::marker::PhantomData<T>);

impl<'de, T: FromAtom> DeserializeSeed<'de> for TaggedText<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<T: FromAtom> Visitor<'_> for TaggedText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text of a uuid")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        let atom = match self.0 {
            Tag::Uuid => AtomRef::Uuid(
                Uuid::try_parse(text)
                    .map_err(|_| E::custom(ValueError::new("a UUID", format_args!("{text:?}"))))?,
            ),
            Tag::NamedUuid => AtomRef::NamedUuid(text),
            Tag::Set | Tag::Map => return Err(E::custom("expected an atom, found a set or map")),
        };
        T::from_atom(atom).map_err(E::custom)
    }
}
