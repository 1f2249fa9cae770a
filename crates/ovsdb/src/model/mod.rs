//! Typed tables: a struct per table, a field per column.
//!
//! [`Table`] is derived. A struct names only the columns its users need, and the client monitors only those. [`fit()`] compares
//! structs with a server's schema on every connection, and leaves out or refuses missing columns.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod collection;
mod column;
mod columns;
mod condition;
mod fit;
pub(crate) mod intern;
mod reference;
mod shape;
mod table;

pub use collection::{IntoPairs, Map, Set};
pub use column::{Arity, AtomType, ColumnType, Mutation, Real, Shape};
pub use columns::{Column, ColumnSet, TableColumns};
pub use condition::{AnyCondition, Condition};
pub use fit::{Misfit, TableFit, fit};
pub use reference::{Ref, Weak};
pub use table::{ColumnSpec, Table};

/// A string in a row: short ones are inline, long ones shared.
pub type Str = smol_str::SmolStr;

#[cfg(test)]
mod tests;
