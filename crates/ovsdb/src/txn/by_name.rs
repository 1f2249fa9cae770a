//! Operations on rows whose tables and columns are known by name.
//!
//! A planner that treats all tables alike holds rows of many types behind one trait, so it cannot name a type where it writes.
//! It checks its values against the server's schema beforehand; nothing is checked here.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use uuid::Uuid;

use super::builder::{OpKind, Transaction};
use super::compose;
use crate::model::Str;
use crate::wire::datum::Datum;

/// A change of the elements of a set or map column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementChange {
    /// Adds members, or pairs with new keys. An existing key keeps its value.
    Insert,
    /// Removes members, pairs or keys.
    Delete,
}

impl ElementChange {
    fn name(self) -> &'static str {
        match self {
            ElementChange::Insert => "insert",
            ElementChange::Delete => "delete",
        }
    }
}

impl Transaction {
    /// Like [`Transaction::insert`], with exactly these values.
    pub fn insert_by_name<'d>(
        &mut self,
        table: &'static str,
        row: Uuid,
        values: impl IntoIterator<Item = (&'static str, &'d Datum)>,
    ) -> &mut Self {
        compose::insert_by_name(self.text_mut(), table, row, values.into_iter());
        self.push(OpKind::Insert, Str::new_static(table), Some(row))
    }

    /// Like [`Transaction::write`].
    pub fn write_by_name<'d>(
        &mut self,
        table: &'static str,
        row: Uuid,
        values: impl IntoIterator<Item = (&'static str, &'d Datum)>,
    ) -> &mut Self {
        compose::update_by_name(self.text_mut(), table, row, values.into_iter());
        self.push(OpKind::Update, Str::new_static(table), Some(row))
    }

    /// Changes elements of columns, in the order of the steps. The server checks the size of a set after each step.
    pub fn change_by_name<'d>(
        &mut self,
        table: &'static str,
        row: Uuid,
        steps: impl IntoIterator<Item = (&'static str, ElementChange, &'d Datum)>,
    ) -> &mut Self {
        let steps = steps.into_iter().map(|(column, change, elements)| (column, change.name(), elements));
        compose::mutate_steps(self.text_mut(), table, row, steps);
        self.push(OpKind::Mutate, Str::new_static(table), Some(row))
    }

    /// Like [`Transaction::delete`].
    pub fn delete_by_name(&mut self, table: &'static str, row: Uuid) -> &mut Self {
        compose::delete(self.text_mut(), table, row);
        self.push(OpKind::Delete, Str::new_static(table), Some(row))
    }
}
