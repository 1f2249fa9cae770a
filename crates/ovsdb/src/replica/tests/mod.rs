//! The replica as a whole: each form of update, each trap of the protocol, and the invariants after any of them.

mod random;
mod server;
mod traps;

use super::*;
use crate::model::{Map, Ref, Set};
use crate::wire::atom::{Atom, AtomKind, AtomRef, FromAtom, ValueError};

/// An integer that takes only some integers, so that rows can be unreadable.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Even(pub(super) i64);

impl FromAtom for Even {
    fn from_atom(atom: AtomRef<'_>) -> Result<Self, ValueError> {
        match atom {
            AtomRef::Integer(v) if v % 2 == 0 => Ok(Self(v)),
            other => Err(ValueError::new("an even integer", other)),
        }
    }
}

impl crate::model::AtomType for Even {
    const KIND: AtomKind = AtomKind::Integer;
    fn to_atom(&self) -> Atom {
        Atom::Integer(self.0)
    }
}

#[derive(Clone, Debug, Default, PartialEq, crate::Table)]
#[ovsdb(database = "Zoo", table = "Cage")]
pub(super) struct Cage {
    pub(super) name: Str,
    #[ovsdb(column = "type")]
    pub(super) kind: Option<Str>,
    pub(super) number: i64,
    pub(super) pairs: Set<Even>,
    pub(super) near: Set<Ref<Cage>>,
    pub(super) labels: Map<Str, Str>,
    #[ovsdb(optional)]
    pub(super) area: Option<i64>,
}

/// Cages by name.
pub(super) struct ByName;

impl Index for ByName {
    type Row = Cage;
    type Key = Str;
    fn keys(row: &Cage, emit: &mut dyn FnMut(Str)) {
        emit(row.name.clone());
    }
}

/// Cages by each key of their labels.
pub(super) struct ByLabel;

impl Index for ByLabel {
    type Row = Cage;
    type Key = Str;
    fn keys(row: &Cage, emit: &mut dyn FnMut(Str)) {
        row.labels.keys().cloned().for_each(emit);
    }
}

/// Cages next to a cage.
pub(super) type Near = References<Cage, { Cage::NEAR.position() }>;

pub(super) fn schema() -> DatabaseSchema {
    DatabaseSchema::parse(
        r#"{"name":"Zoo","version":"1.0.0","tables":{
            "Cage":{"columns":{
                "name":{"type":"string"},
                "type":{"type":{"key":"string","min":0}},
                "number":{"type":"integer"},
                "pairs":{"type":{"key":"integer","min":0,"max":"unlimited"}},
                "near":{"type":{"key":{"type":"uuid","refTable":"Cage"},"min":0,"max":"unlimited"}},
                "labels":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}}}},
            "Note":{"columns":{
                "weight":{"type":{"key":"real","min":0,"max":3}},
                "text":{"type":"string"}}}}}"#,
    )
    .unwrap()
}

pub(super) fn model() -> Model {
    Model::new("Zoo")
        .table::<Cage>()
        .index::<ByName>()
        .index::<ByLabel>()
        .index::<Near>()
        .dynamic("Note", Columns::All)
}

/// A replica that has loaded something.
pub(super) fn loaded(body: &str) -> Replica {
    let mut replica = Replica::new(model());
    replica.fit(&schema()).unwrap();
    replica.reload(UpdateVersion::V2, body).unwrap();
    replica
}

pub(super) fn uuid(n: u128) -> uuid::Uuid {
    uuid::Uuid::from_u128(n)
}

/// The body of an update of one table: rows by small numbers.
pub(super) fn body(table: &str, rows: &[(u128, &str)]) -> String {
    let rows: Vec<String> = rows.iter().map(|(n, text)| format!("\"{}\":{text}", uuid(*n))).collect();
    format!(r#"{{"{table}":{{{}}}}}"#, rows.join(","))
}
