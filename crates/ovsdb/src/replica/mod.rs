//! A copy of a database's tables that follows the server: typed, indexed, in immutable snapshots.
//!
//! [`Model`] lists the tables to hold. [`Replica`] applies the server's updates, [`Snapshot`] is the readers' view, [`Delta`] a
//! change. Nothing here does IO or knows of connections: the session feeds it.
//!
//! Invariants:
//! - An update is applied as a whole or not at all.
//! - A snapshot never changes, and its indexes agree with its rows.
//! - A delta has true changes only. A full reload gives a delta of the differences, and equal rows stay the same allocation.
//! - A row that its struct refuses is set aside with its values, follows later changes, and returns when it can be decoded.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod apply;
mod codec;
mod delta;
mod dynamic;
mod error;
mod index;
mod model;
mod resync;
mod rows;
mod snapshot;
mod sorted;
mod split;
mod table;
mod unreadable;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::de::Error as _;
use smallvec::SmallVec;
use uuid::Uuid;

pub use apply::UpdateVersion;
pub use delta::{Change, Delta};
pub use dynamic::{Columns, DynamicRow, DynamicRows};
pub use error::{ApplyError, Inconsistency};
pub use index::{Index, References};
pub use model::Model;
pub use rows::Rows;
pub use snapshot::{Seq, Snapshot, UnreadableRow};

use crate::model::{AnyCondition, Misfit, Str, Table, TableFit};
use crate::wire::cursor::Cursor;
use crate::wire::schema::DatabaseSchema;
use resync::Text;
use snapshot::State;
use table::{AnyStaged, AnyTable};

/// The request for one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitoredTable {
    /// The table.
    pub table: Str,
    /// The columns, without those that the server lacks or that are only written.
    pub columns: Vec<Str>,
    /// The initial condition.
    pub condition: AnyCondition,
}

/// The result of comparing the tables of a model with a server's schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// By table, in the order of the model.
    pub tables: Vec<(Str, TableFit)>,
}

impl Fit {
    /// The result for one table.
    pub fn table<T: Table>(&self) -> Option<&TableFit> {
        self.tables.iter().find(|(name, _)| name == T::TABLE).map(|(_, fit)| fit)
    }

    /// Whether the server has every column of every table.
    pub fn is_exact(&self) -> bool {
        self.tables.iter().all(|(_, fit)| fit.is_exact())
    }
}

/// Tables of a database that follow the server.
pub struct Replica {
    state: Arc<State>,
    conditions: Vec<AnyCondition>,
    monitored: Vec<MonitoredTable>,
    /// Whether a load must precede any update.
    stale: bool,
}

impl Replica {
    /// An empty replica.
    pub fn new(model: Model) -> Self {
        let Model { database, tables, conditions, typed } = model;
        let state = State { database, seq: Seq::default(), tables, typed: Arc::new(typed) };
        Self { state: Arc::new(state), conditions, monitored: Vec::new(), stale: true }
    }

    /// The database.
    pub fn database(&self) -> &str {
        &self.state.database
    }

    /// Compares the model with a server's schema: at each connection, and after the server converted the database. Rows stay unchanged
    /// until [`Replica::reload`]. If anything does not fit, nothing changes.
    pub fn fit(&mut self, schema: &DatabaseSchema) -> Result<Fit, Vec<Misfit>> {
        let (mut tables, mut misfits, mut fits) = (Vec::new(), Vec::new(), Fit::default());
        let (mut monitored, mut stale) = (Vec::new(), self.stale);
        for (table, condition) in self.state.tables.iter().zip(&self.conditions) {
            match table.refit(schema) {
                Err(found) => misfits.extend(found),
                Ok((table, same)) => {
                    stale |= !same;
                    fits.tables.push((table.name().clone(), table.fit().clone()));
                    monitored.extend(table.monitored(schema).map(|columns| MonitoredTable {
                        table: table.name().clone(),
                        columns,
                        condition: condition.clone(),
                    }));
                    tables.push(table);
                }
            }
        }
        if !misfits.is_empty() {
            return Err(misfits);
        }
        Arc::make_mut(&mut self.state).tables = tables;
        self.monitored = monitored;
        self.stale = stale;
        Ok(fits)
    }

    /// The requests to the server, since [`Replica::fit`].
    pub fn monitored(&self) -> Vec<MonitoredTable> {
        self.monitored.clone()
    }

    /// Replaces the whole content with the reply to a monitor request. Returns the difference as a delta. On an error the replica is
    /// unchanged.
    pub fn reload(&mut self, version: UpdateVersion, body: &str) -> Result<Delta, ApplyError> {
        self.reload_text(version, Text::Borrowed(body), 0)
    }

    /// Like [`Replica::reload`], with ownership of the message, whose body begins at `body`. Its memory is freed while rows are decoded
    /// from its end to its beginning, so a large database is not in memory twice.
    ///
    /// # Panics
    /// If `body` is not within the message.
    pub fn reload_owned(
        &mut self,
        version: UpdateVersion,
        mut text: String,
        body: Range<usize>,
    ) -> Result<Delta, ApplyError> {
        text.truncate(body.end);
        self.reload_text(version, Text::Owned(text), body.start)
    }

    fn reload_text(
        &mut self,
        version: UpdateVersion,
        text: Text<'_>,
        at: usize,
    ) -> Result<Delta, ApplyError> {
        let staged = resync::stage(&self.state.tables, version, text, at)?;
        let delta = self.commit(staged);
        self.stale = false;
        Ok(delta)
    }

    /// Applies one notification as a whole. After an error nothing has changed, and only [`Replica::reload`] repairs the replica.
    pub fn apply(&mut self, version: UpdateVersion, body: &str) -> Result<Delta, ApplyError> {
        if self.stale {
            return Err(ApplyError::Stale);
        }
        let (mut cursor, mut staged) = (Cursor::new(body), StagedTables::new());
        cursor.members(|cursor, name| {
            let Some(at) = self.state.tables.iter().position(|table| table.name() == &*name) else {
                // Tables that the model does not contain are skipped.
                return Ok(cursor.skip()?);
            };
            if staged.iter().any(|(known, _)| *known == at) {
                return Err(serde_json::Error::custom(format_args!("table {name} is there twice")).into());
            }
            staged.push((at, self.state.tables[at].stage(version, cursor)?));
            Ok::<_, ApplyError>(())
        })?;
        cursor.end()?;
        Ok(self.commit(staged))
    }

    /// Inserts (`Some`) and removes (`None`) whole rows of a table. For a replica without a server, whose rows are computed from others.
    ///
    /// # Panics
    /// If the model does not contain the table.
    pub fn edit<T: Table>(&mut self, rows: BTreeMap<Uuid, Option<T>>) -> Delta {
        let (at, table) = self.state.typed::<T>();
        let staged: AnyStaged = Box::new(table.stage_rows(rows));
        self.commit([(at, staged)])
    }

    /// The current snapshot.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(Arc::clone(&self.state))
    }

    fn commit(&mut self, staged: impl IntoIterator<Item = (usize, AnyStaged)>) -> Delta {
        let state = Arc::make_mut(&mut self.state);
        let mut delta = Delta::none(state.seq);
        for (at, changes) in staged {
            delta.add(writable(&mut state.tables[at]).commit(changes));
        }
        if !delta.is_empty() {
            state.seq.0 += 1;
            delta.lead_to(state.seq);
        }
        delta
    }
}

/// The staged changes of tables, each with its position. Most updates are about one table.
type StagedTables = SmallVec<[(usize, AnyStaged); 1]>;

/// The table, copied if a snapshot shares it.
fn writable(table: &mut Arc<dyn AnyTable>) -> &mut dyn AnyTable {
    if Arc::get_mut(table).is_none() {
        *table = table.copy();
    }
    Arc::get_mut(table).expect("just copied")
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Replica").field(&self.snapshot()).finish()
    }
}

#[cfg(test)]
mod tests;
