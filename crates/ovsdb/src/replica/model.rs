//! The tables of a database that a replica holds.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;

use super::codec::TypedCodec;
use super::dynamic::{Columns, Dynamic};
use super::index::Index;
use super::table::{AnyTable, TableState};
use super::writable;
use crate::model::{AnyCondition, Condition, Str, Table, TableColumns};

/// The tables of one database to hold, their conditions, and their indexes.
#[derive(Clone)]
#[must_use]
pub struct Model {
    pub(super) database: Str,
    pub(super) tables: Vec<Arc<dyn AnyTable>>,
    pub(super) conditions: Vec<AnyCondition>,
    pub(super) typed: HashMap<TypeId, usize>,
}

impl Model {
    /// A model of a database, without tables.
    pub fn new(database: impl Into<Str>) -> Self {
        Self {
            database: database.into(),
            tables: Vec::new(),
            conditions: Vec::new(),
            typed: HashMap::default(),
        }
    }

    /// Adds a table with all its rows.
    ///
    /// # Panics
    /// If the table belongs to another database, or the model has it with another struct.
    pub fn table<T: Table>(mut self) -> Self {
        self.add::<T>(false);
        self
    }

    /// Adds a table with the rows that match a condition, which can change later.
    ///
    /// # Panics
    /// As [`Model::table`].
    pub fn table_where<T: Table>(mut self, condition: Condition<T>) -> Self {
        let at = self.add::<T>(false);
        self.conditions[at] = condition.into();
        self
    }

    /// Adds a table that some servers lack; it is empty then.
    ///
    /// # Panics
    /// As [`Model::table`].
    pub fn optional_table<T: Table>(mut self) -> Self {
        self.add::<T>(true);
        self
    }

    /// Adds a table with only some of its columns. The other columns are not monitored and read as their defaults, so the table must not be
    /// written.
    ///
    /// # Panics
    /// As [`Model::table`].
    pub fn columns<T: Table>(mut self, columns: impl Into<TableColumns<T>>) -> Self {
        let state = self.state::<T>();
        state.codec = Arc::new(state.codec.only(columns.into().positions()));
        self
    }

    /// Adds an index, and its table with all its rows unless the model already has it.
    ///
    /// # Panics
    /// As [`Model::table`].
    pub fn index<I: Index>(mut self) -> Self {
        self.state::<I::Row>().add_index::<I>();
        self
    }

    /// Adds a table without a struct, decoded by the server's own schema.
    ///
    /// # Panics
    /// If the model already has the table.
    pub fn dynamic(self, table: impl Into<Str>, columns: Columns) -> Self {
        self.dynamic_where(table, columns, AnyCondition::All)
    }

    /// Adds a table without a struct, decoded by the server's own schema, with the rows that match a condition.
    ///
    /// # Panics
    /// If the model already has the table.
    pub fn dynamic_where(mut self, table: impl Into<Str>, columns: Columns, condition: AnyCondition) -> Self {
        let table = table.into();
        self.push(Arc::new(TableState::new(table, Dynamic::new(columns))), condition);
        self
    }

    /// With no row of any table, until [`Client::set_condition`](crate::Client::set_condition) requests some.
    pub fn without_rows(mut self) -> Self {
        self.conditions.fill(AnyCondition::None);
        self
    }

    /// The database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The tables, each with its initial condition.
    pub fn tables(&self) -> impl Iterator<Item = (&Str, &AnyCondition)> {
        self.tables.iter().map(|table| table.name()).zip(&self.conditions)
    }

    fn add<T: Table>(&mut self, optional: bool) -> usize {
        if let Some(at) = self.typed.get(&TypeId::of::<T>()) {
            return *at;
        }
        assert_eq!(T::DATABASE, self.database, "table {} is of another database", T::TABLE);
        let at = self.push(
            Arc::new(TableState::new(T::TABLE.into(), TypedCodec::<T>::new(optional))),
            AnyCondition::All,
        );
        self.typed.insert(TypeId::of::<T>(), at);
        at
    }

    /// The state of a table, which is added if the model lacks it.
    fn state<T: Table>(&mut self) -> &mut TableState<TypedCodec<T>> {
        let at = self.add::<T>(false);
        let state: &mut dyn Any = writable(&mut self.tables[at]);
        state.downcast_mut().expect("typed at this position")
    }

    fn push(&mut self, table: Arc<dyn AnyTable>, condition: AnyCondition) -> usize {
        let known = self.tables.iter().any(|known| known.name() == table.name());
        assert!(!known, "the model of {} has table {} twice", self.database, table.name());
        self.tables.push(table);
        self.conditions.push(condition);
        self.tables.len() - 1
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("database", &self.database)
            .field("tables", &self.tables().collect::<Vec<_>>())
            .finish()
    }
}
