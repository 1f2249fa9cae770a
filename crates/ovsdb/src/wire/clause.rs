//! Clauses: `[column, function, value]`, the conditions of operations and monitors.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use serde::ser::{Serialize, SerializeTuple, Serializer};
use smol_str::SmolStr;

use super::datum::Datum;

/// The comparison of a column with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `<`, for single numbers.
    Less,
    /// `<=`, for single numbers.
    LessOrEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>=`, for single numbers.
    GreaterOrEqual,
    /// `>`, for single numbers.
    Greater,
    /// Holds all of the value's elements.
    Includes,
    /// Holds none of the value's elements.
    Excludes,
}

impl Function {
    /// All functions.
    pub const ALL: [Self; 8] = [
        Self::Less,
        Self::LessOrEqual,
        Self::Equal,
        Self::NotEqual,
        Self::GreaterOrEqual,
        Self::Greater,
        Self::Includes,
        Self::Excludes,
    ];

    /// The protocol's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::GreaterOrEqual => ">=",
            Self::Greater => ">",
            Self::Includes => "includes",
            Self::Excludes => "excludes",
        }
    }

    /// From the protocol's name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// The column; `_uuid` too.
    pub column: SmolStr,
    /// The comparison.
    pub function: Function,
    /// The value to compare with.
    pub value: Datum,
}

impl Clause {
    /// A comparison of a column, by name.
    pub fn new(column: impl Into<SmolStr>, function: Function, value: impl Into<Datum>) -> Self {
        Self { column: column.into(), function, value: value.into() }
    }

    /// The row with this UUID.
    pub fn row(uuid: uuid::Uuid) -> Self {
        Self::new("_uuid", Function::Equal, super::atom::Atom::Uuid(uuid))
    }
}

impl Serialize for Clause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut triple = serializer.serialize_tuple(3)?;
        triple.serialize_element(&self.column)?;
        triple.serialize_element(self.function.name())?;
        triple.serialize_element(&self.value)?;
        triple.end()
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.column, self.function, self.value)
    }
}
