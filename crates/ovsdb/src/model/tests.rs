//! A derived table, end to end: columns, decoding, differences, fit.

use super::fit::{Misfit, fit};
use super::*;
use crate::wire::cursor::Cursor;
use crate::wire::datum::Datum;
use crate::wire::schema::DatabaseSchema;

#[derive(Clone, Debug, Default, PartialEq, crate::Table)]
#[ovsdb(database = "Zoo", table = "Cage")]
struct Cage {
    name: Str,
    #[ovsdb(column = "type")]
    kind: Option<Str>,
    animals: Set<Ref<Cage>>,
    labels: Map<Str, Str>,
    #[ovsdb(optional)]
    area: i64,
    #[ovsdb(optional, write_only)]
    note: Option<Str>,
}

const COLUMNS: &str = r#"
    "name": {"type": "string"},
    "type": {"type": {"key": "string", "min": 0}},
    "animals": {"type": {"key": {"type": "uuid", "refTable": "Cage"}, "min": 0, "max": "unlimited"}},
    "labels": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}}"#;

fn schema(columns: &str) -> DatabaseSchema {
    DatabaseSchema::parse(&format!(
        r#"{{"name":"Zoo","version":"1.0.0","tables":{{"Cage":{{"columns":{{{columns}}}}}}}}}"#
    ))
    .unwrap()
}

fn decode(row: &mut Cage, column: &str, diff: bool, json: &str) {
    let at = Cage::position(column).unwrap();
    row.decode(at, diff, &mut Cursor::new(json)).unwrap();
}

#[test]
fn a_row_is_decoded_changed_and_written_back() {
    let mut row = Cage::default();
    decode(&mut row, "name", false, r#""lions""#);
    decode(&mut row, "type", false, r#""big""#);
    decode(&mut row, "labels", false, r#"["map",[["a","1"],["b","2"]]]"#);
    let before = row.clone();
    decode(&mut row, "labels", true, r#"["map",[["a","1"],["b","3"]]]"#);
    decode(&mut row, "type", false, r#"["set",[]]"#);
    assert_eq!(row.labels, [("b".into(), "3".into())].into());
    assert_eq!(row.kind, None);
    assert_eq!(before.differing(&row), (Cage::KIND | Cage::LABELS).positions());

    let mut copy = Cage::default();
    for at in 0..Cage::COLUMNS.len() {
        copy.set(at, &row.datum(at)).unwrap();
    }
    assert_eq!(copy, row);
    let mutation = before.mutation(Cage::LABELS.position(), &row).unwrap();
    assert_eq!((mutation.delete.len(), mutation.insert), (2, row.datum(Cage::LABELS.position())));
    assert_eq!(before.mutation(Cage::NAME.position(), &row), None);
    assert!(row.set(Cage::NAME.position(), &Datum::default()).is_err());
    assert_eq!(Cage::position("nothing"), None);
}

#[test]
fn an_optional_column_may_be_missing_and_others_are_counted() {
    let found =
        fit(Cage::TABLE, Cage::COLUMNS, &schema(&format!(r#"{COLUMNS}, "weather": {{"type":"string"}}"#)))
            .unwrap();
    assert_eq!(found.absent, (Cage::AREA | Cage::NOTE).positions());
    assert_eq!(found.composite, (Cage::ANIMALS | Cage::LABELS).positions());
    assert_eq!(found.extra, ["weather"]);
    assert!(!found.is_exact());
}

#[test]
fn everything_that_does_not_fit_is_listed_at_once() {
    let wrong = COLUMNS
        .replace(r#""name": {"type": "string"},"#, "")
        .replace(r#""refTable": "Cage""#, r#""refTable": "Cage", "refType": "weak""#);
    let misfits =
        fit(Cage::TABLE, Cage::COLUMNS, &schema(&format!(r#"{wrong}, "area": {{"type":"string"}}"#)))
            .unwrap_err();
    let lines: Vec<_> = misfits.iter().map(Misfit::to_string).collect();
    assert_eq!(
        lines,
        [
            "table Cage has no column name",
            "table Cage, column animals: expected set of uuids (strong reference to Cage), the schema says set of 0 or more uuids (weak reference to Cage)",
            "table Cage, column area: expected integer, the schema says string",
        ]
    );
    assert_eq!(
        fit("Tank", Cage::COLUMNS, &schema(COLUMNS)).unwrap_err()[0].to_string(),
        "table Tank does not exist"
    );
}
