//! Typed tables: a struct per table, a field per column.
//!
//! [`Table`] is derived. A struct names only the columns its users need, and the client monitors only those. [`fit`] compares
//! structs with a server's schema on every connection, and leaves out or refuses missing columns.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod collection;
pub mod column;
pub mod columns;
pub mod condition;
pub mod fit;
pub mod intern;
pub mod reference;
mod shape;
pub mod table;

pub use collection::{Map, Set};
pub use column::{AtomType, ColumnType, Mutation, Real, Shape};
pub use columns::{Column, ColumnSet, TableColumns};
pub use condition::Condition;
pub use fit::{Misfit, TableFit};
pub use reference::{Ref, Weak};
pub use table::{ColumnSpec, Table};

/// A string in a row: short ones are inline, long ones shared.
pub type Str = smol_str::SmolStr;

#[cfg(test)]
mod tests;
