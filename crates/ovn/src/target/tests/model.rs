//! A model of the server in memory, with the features that the target relies on: unique UUIDs, references checked at the end of a
//! transaction, unreferenced rows collected, weak references cleared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use ovsdb::wire::Atom;
use ovsdb::wire::DatabaseSchema;
use ovsdb::wire::Datum;
use ovsdb::{Table, Uuid};

use crate::nb;
use crate::target::element::uuids;
use crate::target::memory::{Comparable, Compare};
use crate::target::state::Writable;
use crate::target::{Desired, Op, Ownership, Row, RowId, Rules, View, plan};

#[derive(Debug)]
pub(super) struct Model {
    schema: Arc<DatabaseSchema>,
    tables: Vec<&'static str>,
    rows: BTreeMap<RowId, Box<dyn Row>>,
    /// Rows that the server has and nobody can read.
    pub(super) hidden: BTreeSet<RowId>,
}

macro_rules! tables {
    ($($table:ty),+ $(,)?) => {
        fn rebuild(table: &str, values: &[Datum]) -> Box<dyn Row> {
            $(if table == <$table>::TABLE {
                let mut row = <$table>::default();
                for (at, value) in values.iter().enumerate() {
                    Table::set(&mut row, at, value).unwrap();
                }
                return Box::new(row);
            })+
            panic!("the model has no table {table}")
        }

        fn fresh(table: &str) -> Box<dyn Row> {
            $(if table == <$table>::TABLE { return Box::new(<$table>::default()); })+
            panic!("the model has no table {table}")
        }

        const TABLES: &[&str] = &[$(<$table>::TABLE),+];
    };
}

tables!(
    nb::LogicalSwitch,
    nb::LogicalSwitchPort,
    nb::LoadBalancer,
    nb::LoadBalancerGroup,
    nb::LogicalRouter,
    nb::LogicalRouterPort,
    nb::Nat,
    nb::StaticMacBinding,
    nb::PortGroup,
    nb::Acl,
    nb::Copp,
    nb::Dns,
);

impl View for Model {
    fn schema(&self) -> &DatabaseSchema {
        &self.schema
    }

    fn row(&self, id: RowId) -> Option<&dyn Row> {
        self.rows.get(&id).map(|row| &**row)
    }

    fn each(&self, table: &'static str, visit: &mut dyn FnMut(Uuid, &dyn Row)) {
        for (id, row) in &self.rows {
            if id.table == table {
                visit(id.uuid, &**row);
            }
        }
    }

    fn tables(&self) -> &[&'static str] {
        &self.tables
    }

    fn hides(&self, id: RowId) -> bool {
        self.hidden.contains(&id)
    }
}

impl Comparable for Model {
    fn copied(&self) -> Self {
        self.copy()
    }

    fn changes_since(&self, older: &Self, visit: &mut Compare<'_>) -> bool {
        for id in self.ids().chain(older.ids()).collect::<BTreeSet<_>>() {
            let (before, after) = (older.row(id), self.row(id));
            let same = before.zip(after).is_some_and(|(a, b)| a.differing(b).is_empty());
            if !same {
                visit(id, before, after);
            }
        }
        true
    }
}

fn parse(text: &str) -> Arc<DatabaseSchema> {
    Arc::new(DatabaseSchema::parse(text).unwrap())
}

type Values = BTreeMap<RowId, Vec<Datum>>;

impl Model {
    pub(super) fn new(version: &str) -> Self {
        static OLD: LazyLock<Arc<DatabaseSchema>> =
            LazyLock::new(|| parse(include_str!("../../../testdata/schema/ovn-nb-23.03.json")));
        static NEW: LazyLock<Arc<DatabaseSchema>> =
            LazyLock::new(|| parse(include_str!("../../../testdata/schema/ovn-nb-26.03.json")));
        let schema = match version {
            "23.03" => &OLD,
            "26.03" => &NEW,
            other => panic!("no schema of {other}"),
        };
        let (tables, rows, hidden) = (TABLES.to_vec(), BTreeMap::new(), BTreeSet::new());
        Model { schema: Arc::clone(schema), tables, rows, hidden }
    }

    /// Puts a row in by hand, unchecked.
    pub(super) fn put<T: Writable + std::fmt::Debug>(&mut self, uuid: Uuid, row: T) {
        self.rows.insert(RowId::of::<T>(uuid), Box::new(row));
    }

    /// Changes a row by hand, if it is there.
    pub(super) fn edit<T: Writable + std::fmt::Debug>(&mut self, uuid: Uuid, change: impl FnOnce(&mut T)) {
        let id = RowId::of::<T>(uuid);
        if let Some(row) = self.rows.get(&id).and_then(|row| row.as_any().downcast_ref::<T>()) {
            let mut row = row.clone();
            change(&mut row);
            self.rows.insert(id, Box::new(row));
        }
    }

    pub(super) fn copy(&self) -> Model {
        let rows = self.values().into_iter().map(|(id, values)| (id, rebuild(id.table, &values))).collect();
        let (schema, tables, hidden) = (Arc::clone(&self.schema), self.tables.clone(), self.hidden.clone());
        Model { schema, tables, rows, hidden }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = RowId> {
        self.rows.keys().copied()
    }

    pub(super) fn values(&self) -> Values {
        let all = |row: &dyn Row| (0..row.columns().len()).map(|at| row.datum(at)).collect();
        self.rows.iter().map(|(id, row)| (*id, all(&**row))).collect()
    }

    /// Plans and applies.
    pub(super) fn run(&mut self, want: &Desired, ownership: &Ownership) {
        let plan = plan(want, &BTreeSet::new(), self, ownership, &Rules::northbound());
        self.apply(plan.steps.iter().map(|step| &step.op)).unwrap();
    }

    /// Applies one transaction.
    pub(super) fn apply<'a>(&mut self, ops: impl Iterator<Item = &'a Op>) -> Result<(), String> {
        let mut values = self.values();
        let at = |id: RowId, name: &str| {
            fresh(id.table).columns().iter().position(|spec| spec.name == name).unwrap()
        };
        for op in ops {
            match op {
                Op::Insert { row, values: given } => {
                    if values.contains_key(row) || self.rows.contains_key(row) {
                        return Err(format!("duplicate uuid: {op}"));
                    }
                    let empty = fresh(row.table);
                    let mut made: Vec<Datum> = (0..empty.columns().len()).map(|at| empty.datum(at)).collect();
                    given.iter().for_each(|(name, datum)| made[at(*row, name)] = datum.clone());
                    values.insert(*row, made);
                }
                Op::Set { row, column, to, .. } => {
                    if let Some(values) = values.get_mut(row) {
                        values[at(*row, column)] = to.clone();
                    }
                }
                Op::Put { row, column, elements } => {
                    if let Some(values) = values.get_mut(row) {
                        let datum = &mut values[at(*row, column)];
                        *datum = joined(datum, elements);
                    }
                }
                Op::Take { row, column, elements } => {
                    if let Some(values) = values.get_mut(row) {
                        let datum = &mut values[at(*row, column)];
                        *datum = without(datum, elements);
                    }
                }
                Op::Delete(owned) => drop(values.remove(&owned.row())),
            }
        }
        self.settle(&mut values)?;
        self.rows = values.into_iter().map(|(id, values)| (id, rebuild(id.table, &values))).collect();
        Ok(())
    }

    /// The server's work at the end of a transaction.
    fn settle(&self, values: &mut Values) -> Result<(), String> {
        loop {
            let mut held = BTreeSet::new();
            for (id, row) in values.iter() {
                for (spec, datum) in fresh(id.table).columns().iter().zip(row) {
                    let Some((table, true)) = spec.shape.refers else { continue };
                    for uuid in uuids(datum) {
                        let target = RowId { table, uuid };
                        let known = TABLES.contains(&table);
                        if known && !values.contains_key(&target) {
                            return Err(format!("referential integrity: {id} {} -> {target}", spec.name));
                        }
                        held.insert(target);
                    }
                }
            }
            let loose: Vec<RowId> = values
                .keys()
                .filter(|id| !self.schema.tables[id.table].is_root && !held.contains(id))
                .copied()
                .collect();
            if loose.is_empty() {
                break;
            }
            loose.iter().for_each(|id| drop(values.remove(id)));
        }
        let there: BTreeSet<RowId> = values.keys().copied().collect();
        for (id, row) in values.iter_mut() {
            for (spec, datum) in fresh(id.table).columns().iter().zip(row) {
                let Some((table, false)) = spec.shape.refers else { continue };
                let live = uuids(datum).filter(|uuid| there.contains(&RowId { table, uuid: *uuid }));
                *datum = Datum::set(live.map(Atom::Uuid).collect::<Vec<_>>());
            }
        }
        Ok(())
    }
}

fn joined(datum: &Datum, more: &Datum) -> Datum {
    match (datum, more) {
        (Datum::Set(a), Datum::Set(b)) => Datum::set(a.iter().chain(b).cloned()),
        (Datum::Map(a), Datum::Map(b)) => Datum::map(a.iter().chain(b).cloned()),
        _ => panic!("put of {more} into {datum}"),
    }
}

fn without(datum: &Datum, less: &Datum) -> Datum {
    let Datum::Set(gone) = less else { panic!("take of {less}") };
    match datum {
        Datum::Set(atoms) => Datum::set(atoms.iter().filter(|atom| !gone.contains(atom)).cloned()),
        Datum::Map(pairs) => Datum::map(pairs.iter().filter(|(key, _)| !gone.contains(key)).cloned()),
    }
}
