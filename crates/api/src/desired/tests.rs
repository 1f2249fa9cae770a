//! Tests that compile worlds to rows.

pub(crate) mod scene;

mod incremental;
mod l2;
mod l3;
pub(crate) mod load_balancers;
mod metadata;
mod sharing;

use std::collections::{BTreeMap, BTreeSet};

use ovn::target::{Row, RowId};
use ovsdb::wire::Datum;
use reconcile::Desire;

use super::*;
use scene::Scene;

/// All desired rows, with their columns as strings and the members that other rows add.
pub(crate) struct Rows {
    rows: BTreeMap<RowId, BTreeMap<&'static str, String>>,
    external_ids: BTreeMap<RowId, Map<Str, Str>>,
    members: BTreeMap<(RowId, usize), BTreeSet<Uuid>>,
    pub(crate) problems: Vec<String>,
}

pub(crate) fn rows(scene: &Scene) -> Rows {
    let mut decider = Decider::new(true);
    let outcome = decider.desire(&scene.snapshot);
    let mut all = Rows {
        rows: BTreeMap::new(),
        external_ids: BTreeMap::new(),
        members: BTreeMap::new(),
        problems: Vec::new(),
    };
    for compiled in decider.parts.values() {
        for (id, row) in compiled.part.rows() {
            all.external_ids.extend(row.external_ids().map(|ids| (id, ids.clone())));
            assert!(all.rows.insert(id, columns(row)).is_none(), "{id} is wanted twice");
        }
        for (id, column, member) in compiled.part.members() {
            all.members.entry((id, column)).or_default().insert(member);
        }
    }
    all.problems = outcome.problems.iter().map(ToString::to_string).collect();
    all
}

fn columns(row: &dyn Row) -> BTreeMap<&'static str, String> {
    let columns = row.columns().iter().enumerate().map(|(at, spec)| (spec.name, row.datum(at)));
    columns.filter(|(_, datum)| !is_default(datum)).map(|(name, datum)| (name, datum.to_string())).collect()
}

fn is_default(datum: &Datum) -> bool {
    datum.is_empty() || ["", "0", "false"].contains(&datum.to_string().as_str())
}

impl Rows {
    /// The rows of a table, in order of UUID.
    pub(crate) fn table(&self, table: &str) -> Vec<(&RowId, &BTreeMap<&'static str, String>)> {
        self.rows.iter().filter(|(id, _)| id.table == table).collect()
    }

    /// The one row of a table with this value in a column.
    pub(crate) fn one(&self, table: &str, column: &str, value: &str) -> &BTreeMap<&'static str, String> {
        let found: Vec<_> = self
            .table(table)
            .into_iter()
            .filter(|(_, row)| row.get(column).is_some_and(|v| v == value))
            .collect();
        assert_eq!(found.len(), 1, "{table} with {column} = {value} among {:#?}", self.table(table));
        found[0].1
    }

    /// One column of all rows of a table, sorted; an empty string for a row without a value.
    pub(crate) fn column(&self, table: &str, column: &str) -> Vec<String> {
        let rows = self.table(table);
        let mut values: Vec<String> =
            rows.iter().map(|(_, row)| row.get(column).cloned().unwrap_or_default()).collect();
        values.sort();
        values
    }

    /// The value of a key in a row's `external_ids`.
    pub(crate) fn external_id(&self, row: &RowId, key: &str) -> Option<String> {
        self.external_ids.get(row)?.get(key).map(|value| value.to_string())
    }

    /// The members of a column of a row.
    pub(crate) fn members<T: ovsdb::Table>(
        &self,
        row: Uuid,
        column: ovsdb::Column<T, impl ovsdb::model::ColumnType>,
    ) -> Vec<Uuid> {
        let members = self.members.get(&(RowId::of::<T>(row), column.position()));
        members.into_iter().flatten().copied().collect()
    }
}
