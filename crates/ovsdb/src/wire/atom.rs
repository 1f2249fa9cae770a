//! Atoms: the five kinds of value that columns are made of.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::cmp::Ordering;
use std::fmt;

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
    /// A UTF-8 string.
    String,
    /// A UUID, often a reference to a row.
    Uuid,
}

impl AtomKind {
    /// The name in the schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Real => "real",
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Uuid => "uuid",
        }
    }

    /// From the name in the schema.
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

/// A borrowed atom, as received.
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
    /// Borrows the atom.
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

    /// The kind of the atom.
    pub fn kind(&self) -> AtomKind {
        self.as_ref().kind()
    }

    /// Whether a scalar column has this value in a row that omits the column.
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
    /// The kind of the atom.
    pub fn kind(&self) -> AtomKind {
        match self {
            Self::Integer(_) => AtomKind::Integer,
            Self::Real(_) => AtomKind::Real,
            Self::Boolean(_) => AtomKind::Boolean,
            Self::String(_) => AtomKind::String,
            Self::Uuid(_) | Self::NamedUuid(_) => AtomKind::Uuid,
        }
    }

    /// An owned copy of the atom.
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

/// Atoms are ordered within their kind, so sets have one canonical order. Reals compare by total order, except that both zeros
/// are equal, as in the server.
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

/// Prints as `ovs-vsctl` does: strings without quotes.
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

/// The error of a value that does not fit the expected type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}")]
pub struct ValueError {
    /// The expected type.
    pub expected: String,
    /// The received value, shortened.
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

/// A type that can be decoded from one atom.
pub trait FromAtom: Sized {
    /// Decodes the atom, or returns why it does not fit.
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
