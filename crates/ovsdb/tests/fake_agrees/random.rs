//! Random transactions: the same results, the same updates and the same tables on both sides.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::operations::{all, link, uuid};
use crate::pair::Pair;

/// Rows have UUIDs from a small range, so that operations meet.
fn number() -> impl Strategy<Value = u64> {
    1u64..6
}

fn kids() -> impl Strategy<Value = Value> {
    proptest::collection::btree_set(101u64..105, 0..3)
        .prop_map(|kids| json!(["set", kids.into_iter().map(link).collect::<Vec<_>>()]))
}

fn column() -> impl Strategy<Value = (&'static str, Value)> {
    let integers = || proptest::collection::btree_set(0i64..5, 0..4).prop_map(|v| json!(["set", v]));
    let strings = || {
        proptest::collection::btree_map("[a-c]", "[x-y]", 0..4)
            .prop_map(|v| json!(["map", v.into_iter().map(|(k, v)| json!([k, v])).collect::<Vec<_>>()]))
    };
    prop_oneof![
        "[a-d]".prop_map(|v| ("name", json!(v))),
        (0i64..4).prop_map(|v| ("i", json!(v))),
        any::<bool>().prop_map(|v| ("b", json!(v))),
        (-4i32..4).prop_map(|v| ("r", json!(f64::from(v) / 2.0))),
        (-1i64..12).prop_map(|v| ("small", json!(v))),
        prop_oneof![Just("red"), Just("green"), Just("blue"), Just("")].prop_map(|v| ("kind", json!(v))),
        prop_oneof![Just(json!(["set", []])), (0i64..3).prop_map(|v| json!(v))].prop_map(|v| ("oi", v)),
        integers().prop_map(|v| ("is", v)),
        proptest::collection::btree_set("[a-d]", 0..4).prop_map(|v| ("few", json!(["set", v]))),
        strings().prop_map(|v| ("m", v)),
        kids().prop_map(|v| ("kids", v)),
    ]
}

fn row() -> impl Strategy<Value = Value> {
    proptest::collection::vec(column(), 0..4).prop_map(|columns| {
        Value::Object(columns.into_iter().map(|(name, v)| (name.to_owned(), v)).collect())
    })
}

fn filter() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => number().prop_map(|n| json!([["_uuid", "==", link(n)]])),
        1 => Just(json!([])),
        1 => (0i64..4).prop_map(|i| json!([["i", ">", i]])),
        1 => (0i64..5).prop_map(|i| json!([["is", "includes", i]])),
        1 => "[a-d]".prop_map(|name| json!([["name", "!=", name], ["b", "==", false]])),
        1 => "[a-c]".prop_map(|key| json!([["m", "excludes", ["map", [[key, "x"]]]]])),
    ]
}

fn mutation() -> impl Strategy<Value = Value> {
    let arithmetic = prop_oneof![Just("+="), Just("-="), Just("*="), Just("/="), Just("%=")];
    let change = || prop_oneof![Just("insert"), Just("delete")];
    prop_oneof![
        (prop_oneof![Just("i"), Just("is"), Just("oi"), Just("small")], arithmetic, -1i64..4)
            .prop_map(|(column, mutator, by)| json!([column, mutator, by])),
        (change(), proptest::collection::btree_set(0i64..5, 0..3)).prop_map(|(mutator, v)| json!([
            "is",
            mutator,
            ["set", v]
        ])),
        (change(), "[a-c]", "[x-y]").prop_map(|(mutator, k, v)| json!(["m", mutator, ["map", [[k, v]]]])),
        "[a-c]".prop_map(|key| json!(["m", "delete", key])),
        (change(), "[a-e]").prop_map(|(mutator, v)| json!(["few", mutator, v])),
        (change(), kids()).prop_map(|(mutator, v)| json!(["kids", mutator, v])),
    ]
}

fn op() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (number(), row())
            .prop_map(|(n, row)| json!({"op": "insert", "table": "Root", "uuid": uuid(n), "row": row})),
        2 => (101u64..105, kids()).prop_map(|(n, kids)| {
            json!({"op": "insert", "table": "Child", "uuid": uuid(n), "row": {"name": "c", "kids": kids}})
        }),
        3 => (filter(), row())
            .prop_map(|(filter, row)| json!({"op": "update", "table": "Root", "where": filter, "row": row})),
        3 => (filter(), proptest::collection::vec(mutation(), 1..3)).prop_map(|(filter, mutations)| {
            json!({"op": "mutate", "table": "Root", "where": filter, "mutations": mutations})
        }),
        1 => filter().prop_map(|filter| json!({"op": "delete", "table": "Root", "where": filter})),
        1 => (101u64..105)
            .prop_map(|n| json!({"op": "delete", "table": "Child", "where": [["_uuid", "==", link(n)]]})),
        1 => filter()
            .prop_map(|filter| json!({"op": "select", "table": "Root", "where": filter, "columns": ["is", "m"]})),
        1 => (filter(), "[a-d]").prop_map(|(filter, name)| json!({"op": "wait", "table": "Root", "timeout": 0,
            "where": filter, "columns": ["name"], "until": "!=", "rows": [{"name": name}]})),
    ]
}

/// Weak references change in transactions of their own. OVS 3.1 leaves some behind if one transaction changes a row and deletes a row to
/// which it refers.
fn transaction() -> impl Strategy<Value = Value> {
    let friends = (number(), proptest::collection::btree_set(number(), 0..4)).prop_map(|(n, friends)| {
        let friends: Vec<_> = friends.into_iter().map(link).collect();
        json!([{"op": "update", "table": "Root", "where": [["_uuid", "==", link(n)]],
            "row": {"friends": ["set", friends]}}])
    });
    let delete = filter().prop_map(|filter| json!([{"op": "delete", "table": "Root", "where": filter}]));
    prop_oneof![
        5 => proptest::collection::vec(op().prop_filter("alone", |op| op["op"] != "delete" || op["table"] != "Root"), 1..5)
            .prop_map(Value::from),
        1 => friends,
        1 => delete,
    ]
}

#[test]
fn random_transactions_end_alike() {
    let pair = Pair::standalone();
    let config = Config { cases: 100, failure_persistence: None, ..Config::default() };
    let transactions = proptest::collection::vec(transaction(), 1..12);
    let run = |transactions: Vec<Value>| {
        let mut lines = pair.connect(3);
        lines.transact(&json!([{"op": "delete", "table": "Root", "where": []}]));
        let filtered =
            json!({"Root": {"columns": ["name", "is", "m", "oi"], "where": [["is", "includes", 1]]}});
        lines.step(0, "monitor_cond", &json!(["Test", "filtered", filtered]));
        lines.step(1, "monitor_cond", &json!(["Test", "all", {"Root": {}, "Child": {}}]));
        lines.step(2, "monitor", &json!(["Test", "old", {"Root": {}, "Child": {}}]));
        for transaction in &transactions {
            lines.transact(transaction);
        }
        all(&mut lines);
        Ok(())
    };
    TestRunner::new(config).run(&transactions, run).unwrap();
}
