//! The expectations that reads through a view add to a transaction, as JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::model::Str;
use crate::replica::{Model, Replica};
use crate::wire::schema::DatabaseSchema;

#[derive(Clone, Debug, Default, PartialEq, crate::Table)]
#[ovsdb(database = "Zoo", table = "Cage")]
struct Cage {
    name: Str,
    number: i64,
    open: bool,
}

fn uuid(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

/// A view of two cages.
fn view() -> View {
    let mut replica = Replica::new(Model::new("Zoo").table::<Cage>());
    let schema = r#"{"name":"Zoo","version":"1.0.0","tables":{"Cage":{"columns":{
        "name":{"type":"string"},"number":{"type":"integer"},"open":{"type":"boolean"}}}}}"#;
    replica.fit(&DatabaseSchema::parse(schema).unwrap()).unwrap();
    let cage = |n: i64| Some(Cage { name: format!("c{n}").into(), number: n, open: false });
    replica.edit::<Cage>(BTreeMap::from([(uuid(1), cage(1)), (uuid(2), cage(2))]));
    View::new(replica.snapshot())
}

/// The waits of the transaction, each as columns and rows, and the other operations. The function adds one write, because without it
/// nothing would be sent.
fn waits(mut view: View) -> Vec<Value> {
    view.delete::<Cage>(uuid(2));
    let text = view.into_transaction().compose(|_, _| false).unwrap().text;
    let mut ops: Vec<Value> = serde_json::from_str(&format!("[{text}]")).unwrap();
    assert_eq!(ops.pop().unwrap()["op"], "delete", "expectations come first");
    for op in &ops {
        assert_eq!((&op["op"], &op["until"], &op["timeout"]), (&json!("wait"), &json!("=="), &json!(0)));
    }
    ops.into_iter().map(|op| json!([op["where"], op["columns"], op["rows"]])).collect()
}

fn is(n: u128) -> Value {
    json!([["_uuid", "==", ["uuid", uuid(n).to_string()]]])
}

fn own(n: u128) -> Value {
    json!(["uuid", uuid(n).to_string()])
}

#[test]
fn only_the_columns_that_were_read_count() {
    let mut view = view();
    assert_eq!(view.read::<Cage>(uuid(1), Cage::NUMBER).unwrap().number, 1);
    let wait = json!([is(1), ["_uuid", "number"], [{"_uuid": own(1), "number": 1}]]);
    assert_eq!(waits(view), [wait]);
}

#[test]
fn a_second_look_adds_what_is_new_and_nothing_twice() {
    let mut view = view();
    view.read::<Cage>(uuid(1), Cage::NUMBER);
    view.read::<Cage>(uuid(1), Cage::NUMBER);
    view.read::<Cage>(uuid(1), Cage::NUMBER | Cage::NAME);
    assert_eq!(view.get::<Cage>(uuid(1)).unwrap().name, "c1");
    view.get::<Cage>(uuid(1));
    view.read::<Cage>(uuid(2), Cage::OPEN);
    assert_eq!(
        waits(view),
        [
            json!([is(1), ["_uuid", "number"], [{"_uuid": own(1), "number": 1}]]),
            json!([is(1), ["_uuid", "name"], [{"_uuid": own(1), "name": "c1"}]]),
            json!([is(1), ["_uuid", "open"], [{"_uuid": own(1), "open": false}]]),
            json!([is(2), ["_uuid", "open"], [{"_uuid": own(2), "open": false}]]),
        ]
    );
}

#[test]
fn that_a_row_is_there_or_is_not_counts_without_any_column() {
    let mut view = view();
    assert!(view.read::<Cage>(uuid(1), TableColumns::NONE).is_some());
    assert!(view.read::<Cage>(uuid(9), Cage::NAME).is_none());
    assert!(view.get::<Cage>(uuid(9)).is_none());
    assert_eq!(waits(view), [json!([is(1), ["_uuid"], [{"_uuid": own(1)}]]), json!([is(9), ["_uuid"], []])]);
}

#[test]
fn a_search_counts_by_what_it_found_and_the_snapshot_does_not_count() {
    let mut view = view();
    assert_eq!(view.matching(Cage::NUMBER, &2i64), [uuid(2).into()]);
    assert!(view.matching(Cage::NUMBER, &3i64).is_empty());
    assert!(view.snapshot().get::<Cage>(uuid(1)).is_some());
    assert_eq!(
        waits(view),
        [
            json!([[["number", "==", 2]], ["_uuid"], [{"_uuid": own(2)}]]),
            json!([[["number", "==", 3]], ["_uuid"], []]),
        ]
    );
}

#[test]
fn a_decision_to_write_nothing_expects_nothing() {
    let mut view = view();
    view.get::<Cage>(uuid(1));
    assert!(view.update::<Cage>(uuid(1), |_| {}));
    assert!(!view.update::<Cage>(uuid(9), |cage| cage.open = true));
    assert!(view.into_transaction().is_empty());
}
