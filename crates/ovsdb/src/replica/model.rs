//! The tables of a database that a replica holds.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;

use super::codec::Typed;
use super::dynamic::{Columns, Dynamic};
use super::index::Index;
use super::table::{AnyTable, TableState};
use super::writable;
use crate::model::{Condition, Str, Table, TableColumns};

/// Which tables of one database to hold, which rows of them, and by what to find those.
#[derive(Clone)]
pub struct Model {
    pub(super) database: Str,
    pub(super) tables: Vec<Arc<dyn AnyTable>>,
    pub(super) conditions: Vec<Condition>,
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

    /// With all rows of a table.
    ///
    /// # Panics
    /// Where the table is of another database, or the model has it with another struct.
    pub fn table<T: Table>(mut self) -> Self {
        self.add::<T>(false);
        self
    }

    /// With the rows of a table for which a condition holds; it can be changed later.
    ///
    /// # Panics
    /// As [`Model::table`].
    pub fn table_where<T: Table>(mut self, condition: Condition) -> Self {
        let at = self.add::<T>(false);
        self.conditions[at] = condition;
        self
    }

    /// With all rows of a table that some servers do not have: it is then empty.
    ///
    /// # Panics
    /// As [`Model::table`].
    pub fn optional_table<T: Table>(mut self) -> Self {
        self.add::<T>(true);
        self
    }

    /// With some columns of a table alone. The others are not monitored and read as default, so this is
    /// for those who do not write the table.
    ///
    /// # Panics
    /// As [`Model::table`].
    pub fn columns<T: Table>(mut self, columns: impl Into<TableColumns<T>>) -> Self {
        let state = self.state::<T>();
        state.codec = Arc::new(state.codec.only(columns.into().positions()));
        self
    }

    /// With an index, and with its table where that is not named otherwise.
    ///
    /// # Panics
    /// As [`Model::table`].
    pub fn index<I: Index>(mut self) -> Self {
        self.state::<I::Row>().add_index::<I>();
        self
    }

    /// With a table as the server's own schema has it.
    ///
    /// # Panics
    /// Where the model has the table already.
    pub fn dynamic(self, table: impl Into<Str>, columns: Columns) -> Self {
        self.dynamic_where(table, columns, Condition::All)
    }

    /// With some rows of a table as the server's own schema has it.
    ///
    /// # Panics
    /// Where the model has the table already.
    pub fn dynamic_where(mut self, table: impl Into<Str>, columns: Columns, condition: Condition) -> Self {
        let table = table.into();
        self.push(Arc::new(TableState::new(table, Dynamic::new(columns))), condition);
        self
    }

    /// With no row of any table, until [`Client::set_condition`](crate::Client::set_condition) requests some.
    pub fn without_rows(mut self) -> Self {
        self.conditions.fill(Condition::None);
        self
    }

    /// The database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The tables, each with the condition it begins with.
    pub fn tables(&self) -> impl Iterator<Item = (&Str, &Condition)> {
        self.tables.iter().map(|table| table.name()).zip(&self.conditions)
    }

    fn add<T: Table>(&mut self, optional: bool) -> usize {
        if let Some(at) = self.typed.get(&TypeId::of::<T>()) {
            return *at;
        }
        assert_eq!(T::DATABASE, self.database, "table {} is of another database", T::TABLE);
        let at =
            self.push(Arc::new(TableState::new(T::TABLE.into(), Typed::<T>::new(optional))), Condition::All);
        self.typed.insert(TypeId::of::<T>(), at);
        at
    }

    /// A table's own state, with the table where that is not named otherwise.
    fn state<T: Table>(&mut self) -> &mut TableState<Typed<T>> {
        let at = self.add::<T>(false);
        let state: &mut dyn Any = writable(&mut self.tables[at]);
        state.downcast_mut().expect("typed at this position")
    }

    fn push(&mut self, table: Arc<dyn AnyTable>, condition: Condition) -> usize {
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
