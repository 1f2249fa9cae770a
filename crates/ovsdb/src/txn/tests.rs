//! Operations as JSON, and parsed replies.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::builder::{Label, OpKind};
use super::outcome::{self, Failure};
use super::*;
use crate::model::{ColumnType, Map, Mutation, Real, Ref, Set, Str, TableColumns, Weak};
use crate::wire::clause::Function;
use crate::wire::datum::Datum;
use crate::{Table, Uuid};

#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "Zoo", table = "Cage")]
struct Cage {
    name: Str,
    #[ovsdb(column = "type")]
    kind: Option<Str>,
    animals: Set<Ref<Cage>>,
    labels: Map<Str, Str>,
    weight: Real,
    open: bool,
    keeper: Set<Weak<Cage>>,
    #[ovsdb(optional)]
    area: i64,
    #[ovsdb(optional, write_only)]
    note: Option<Str>,
}

fn uuid(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn text(txn: &Transaction) -> String {
    txn.compose(|_, _| false).unwrap().text
}

const ONE: &str = "00000000-0000-0000-0000-000000000001";
const WHERE: &str = r#""where":[["_uuid","==",["uuid","00000000-0000-0000-0000-000000000001"]]]"#;

#[test]
fn an_insert_mentions_what_differs_from_the_protocols_default() {
    let mut txn = Transaction::new();
    txn.insert(uuid(1), &Cage::default());
    assert_eq!(text(&txn), format!(r#"{{"op":"insert","table":"Cage","uuid":"{ONE}","row":{{}}}}"#));

    let full = Cage {
        name: "a \"b\"\n".into(),
        kind: Some("".into()),
        animals: [Ref::new(uuid(2)), Ref::new(uuid(3))].into(),
        labels: [("k".into(), "v".into())].into(),
        weight: Real(1.5),
        open: true,
        keeper: [Weak::new(uuid(1))].into(),
        area: -7,
        note: Some("x".into()),
    };
    let mut txn = Transaction::new();
    txn.insert(uuid(1), &full);
    assert_eq!(
        text(&txn),
        format!(
            concat!(
                r#"{{"op":"insert","table":"Cage","uuid":"{one}","row":{{"name":"a \"b\"\n","type":"","#,
                r#""animals":["set",[["uuid","00000000-0000-0000-0000-000000000002"],["uuid","00000000-0000-0000-0000-000000000003"]]],"#,
                r#""labels":["map",[["k","v"]]],"weight":1.5,"open":true,"keeper":["uuid","{one}"],"area":-7,"note":"x"}}}}"#
            ),
            one = ONE
        )
    );
}

#[test]
fn an_update_writes_scalars_whole_and_collections_by_element() {
    let before = Cage {
        name: "a".into(),
        kind: Some("big".into()),
        labels: [("gone".into(), "1".into()), ("kept".into(), "2".into()), ("new".into(), "3".into())].into(),
        animals: [Ref::new(uuid(2))].into(),
        ..Cage::default()
    };
    let after = Cage {
        name: "b".into(),
        kind: None,
        labels: [("kept".into(), "2".into()), ("more".into(), "5".into()), ("new".into(), "4".into())].into(),
        animals: [Ref::new(uuid(1))].into(),
        ..Cage::default()
    };
    let mut txn = Transaction::new();
    txn.update(uuid(1), &before, &after);
    assert_eq!(
        text(&txn),
        format!(
            concat!(
                r#"{{"op":"update","table":"Cage",{},"row":{{"name":"b","type":["set",[]]}}}},"#,
                r#"{{"op":"mutate","table":"Cage",{},"mutations":["#,
                r#"["animals","insert",["uuid","{}"]],["animals","delete",["uuid","00000000-0000-0000-0000-000000000002"]],"#,
                r#"["labels","delete",["set",["gone","more","new"]]],["labels","insert",["map",[["more","5"],["new","4"]]]]]}}"#
            ),
            WHERE, WHERE, ONE
        )
    );
    let mut same = Transaction::new();
    same.update(uuid(1), &before, &before);
    assert!(same.is_empty());
    same.mutate(uuid(1), Cage::LABELS, Mutation::default());
    assert!(same.is_empty());
}

#[test]
fn a_whole_column_can_be_written_too() {
    let row = Cage { labels: [("k".into(), "v".into())].into(), ..Cage::default() };
    let mut txn = Transaction::new();
    txn.write(uuid(1), &row, Cage::LABELS | Cage::ANIMALS);
    assert_eq!(
        text(&txn),
        format!(
            r#"{{"op":"update","table":"Cage",{WHERE},"row":{{"animals":["set",[]],"labels":["map",[["k","v"]]]}}}}"#
        )
    );
}

#[test]
fn keys_alone_can_be_taken_out_of_a_map() {
    let mut txn = Transaction::new();
    let mutation =
        Mutation { delete: Datum::set(["a".into(), "b".into()]), insert: Datum::map([]), empties: false };
    txn.mutate(uuid(1), Cage::LABELS, mutation);
    assert_eq!(
        text(&txn),
        format!(
            r#"{{"op":"mutate","table":"Cage",{WHERE},"mutations":[["labels","delete",["set",["a","b"]]]]}}"#
        )
    );
}

#[test]
fn expectations_are_waits_without_patience() {
    let row = Cage { name: "a".into(), ..Cage::default() };
    let mut txn = Transaction::new();
    let columns = Cage::NAME | Cage::KIND | Cage::AREA | Cage::NOTE;
    txn.expect(uuid(1), &row, columns).expect_absent::<Cage>(uuid(1));
    txn.expect_rows(Cage::NAME, &Str::from("x"), &[uuid(1).into(), uuid(2).into()]);
    let all = format!(
        concat!(
            r#"{{"op":"wait","table":"Cage","timeout":0,{w},"columns":["_uuid","name","type","area"],"until":"==","#,
            r#""rows":[{{"_uuid":["uuid","{one}"],"name":"a","type":["set",[]],"area":0}}]}},"#,
            r#"{{"op":"wait","table":"Cage","timeout":0,{w},"columns":["_uuid"],"until":"==","rows":[]}},"#,
            r#"{{"op":"wait","table":"Cage","timeout":0,"where":[["name","==","x"]],"columns":["_uuid"],"until":"==","#,
            r#""rows":[{{"_uuid":["uuid","{one}"]}},{{"_uuid":["uuid","00000000-0000-0000-0000-000000000002"]}}]}}"#
        ),
        w = WHERE,
        one = ONE
    );
    assert_eq!(text(&txn), all);
    // Columns that the server lacks are not compared.
    let lacking = txn.compose(|_, column| column == "area").unwrap().text;
    assert_eq!(lacking, all.replace(r#","area"]"#, "]").replace(r#","area":0}"#, "}"));
}

#[test]
fn operations_select_rows_by_filters() {
    let labels: Map<Str, Str> = [("k".into(), "v".into())].into();
    let ours = RowFilter::row(uuid(1)).and(RowFilter::column(Cage::LABELS, Function::Includes, &labels));
    let named = RowFilter::column(Cage::NAME, Function::Equal, &Str::from("x"));
    let mut txn = Transaction::new();
    txn.expect_some(&ours).delete_where(&named).add(uuid(1), Cage::AREA, 2);
    txn.put(uuid(1), Cage::LABELS, &labels);
    txn.put_where(&named, Cage::ANIMALS, &Set::from([Ref::new(uuid(1))]));
    let mutations =
        r#""mutations":[["labels","delete",["set",["k"]]],["labels","insert",["map",[["k","v"]]]]]"#;
    let mutations = mutations.replace(r#"["set",["k"]]"#, r#""k""#);
    let expected = [
        format!(
            r#"{{"op":"wait","table":"Cage","timeout":0,"where":[["_uuid","==",["uuid","{ONE}"]],["labels","includes",["map",[["k","v"]]]]],"columns":["_uuid"],"until":"!=","rows":[]}}"#
        ),
        r#"{"op":"delete","table":"Cage","where":[["name","==","x"]]}"#.to_owned(),
        format!(r#"{{"op":"mutate","table":"Cage",{WHERE},"mutations":[["area","+=",2]]}}"#),
        format!(r#"{{"op":"mutate","table":"Cage",{WHERE},{mutations}}}"#),
        format!(
            r#"{{"op":"mutate","table":"Cage","where":[["name","==","x"]],"mutations":[["animals","insert",["uuid","{ONE}"]]]}}"#
        ),
    ];
    assert_eq!(text(&txn), expected.join(","));
    let lacking = txn.compose(|_, column| column == "labels").unwrap_err();
    assert_eq!(lacking, CommitError::Unsupported { table: "Cage".into(), column: "labels".into() });
}

#[test]
fn rows_of_tables_known_by_name_are_written_the_same() {
    let row = Cage { name: "a".into(), ..Cage::default() };
    let (mut typed, mut named) = (Transaction::new(), Transaction::new());
    typed.insert(uuid(1), &row).write(uuid(1), &row, Cage::NAME).delete::<Cage>(uuid(1));
    typed.put(uuid(1), Cage::ANIMALS, &Set::from([Ref::new(uuid(1))]));
    let (name, animal) = (Str::from("a").to_datum(), Set::from([Ref::<Cage>::new(uuid(1))]).to_datum());
    named.insert_by_name("Cage", uuid(1), [("name", &name)]).write_by_name(
        "Cage",
        uuid(1),
        [("name", &name)],
    );
    named.delete_by_name("Cage", uuid(1));
    named.change_by_name("Cage", uuid(1), [("animals", ElementChange::Insert, &animal)]);
    assert_eq!(text(&named), text(&typed));
    assert_eq!(format!("{named:?}"), format!("{typed:?}"));
}

#[test]
fn a_placeholder_stands_for_a_row_whose_uuid_the_server_chooses() {
    let inner = Cage { name: format!(r#"["uuid","{ONE}"]"#).into(), ..Cage::default() };
    let outer = Cage { animals: [Ref::new(uuid(1)), Ref::new(uuid(3))].into(), ..Cage::default() };
    let mut both = Transaction::new();
    both.insert_unnumbered(Ref::new(uuid(1)), &inner);
    let mut last = Transaction::new();
    last.insert_unnumbered(Ref::new(uuid(2)), &outer);
    both.append(&last);
    let ops: serde_json::Value = serde_json::from_str(&format!("[{}]", text(&both))).unwrap();
    let name = |n: u128| format!("row{}", uuid(n).simple());
    assert_eq!((ops[0]["uuid-name"].as_str(), ops[0].get("uuid")), (Some(name(1).as_str()), None));
    assert_eq!(ops[0]["row"]["name"], inner.name.as_str(), "text stays text");
    let animals = serde_json::json!(["set", [["named-uuid", name(1)], ["uuid", uuid(3).to_string()]]]);
    assert_eq!((&ops[1]["row"]["animals"], ops[1]["uuid-name"].as_str()), (&animals, Some(name(2).as_str())));
}

#[test]
fn the_rest_is_as_the_rfc_has_it() {
    let mut txn = Transaction::new();
    txn.delete::<Cage>(uuid(1)).assert_lock("ovn \"x\"").comment("why");
    assert_eq!(
        text(&txn),
        format!(
            r#"{{"op":"delete","table":"Cage",{WHERE}}},{{"op":"assert","lock":"ovn \"x\""}},{{"op":"comment","comment":"why"}}"#
        )
    );
    assert_eq!(txn.len(), 3);
    assert_eq!(txn.database(), Some("Zoo"));
    let mut twice = txn.clone();
    twice.append(&txn);
    assert_eq!(text(&twice), format!("{0},{0}", text(&txn)));
    assert!(serde_json::from_str::<serde_json::Value>(&format!("[{}]", text(&twice))).is_ok());
    assert_eq!(
        format!("{txn:?}"),
        format!("[\"deletion from Cage {ONE}\", \"assertion of lock ovn \\\"x\\\"\", \"comment\"]")
    );
}

#[test]
fn a_value_for_a_column_that_the_server_lacks_is_refused_before_it_is_sent() {
    let lacks = |table: &str, column: &str| {
        assert_eq!(table, "Cage");
        matches!(column, "area" | "note")
    };
    let mut fine = Transaction::new();
    fine.insert(uuid(1), &Cage { name: "a".into(), ..Cage::default() });
    assert!(fine.compose(lacks).is_ok());
    let wide = Cage { area: 3, ..Cage::default() };
    let unsupported = CommitError::Unsupported { table: "Cage".into(), column: "area".into() };
    let mut inserts = Transaction::new();
    inserts.insert(uuid(1), &wide);
    let mut updates = Transaction::new();
    updates.update(uuid(1), &Cage::default(), &wide);
    let mut both = fine.clone();
    both.append(&updates);
    // The content of such rows is unknown, so no expectation can name them.
    let mut looks = fine.clone();
    looks.expect_rows(Cage::AREA, &3i64, &[]);
    for txn in [inserts, updates, both, looks] {
        assert_eq!(txn.compose(lacks).unwrap_err(), unsupported);
    }
    assert_eq!(unsupported.class(), Class::Refused);
}

/// The same table with other columns, so that positions differ.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "Zoo", table = "Cage")]
struct Plate {
    #[ovsdb(optional)]
    area: i64,
    name: Str,
}

#[test]
fn two_structs_of_one_table_are_judged_by_the_names_of_their_columns() {
    let lacks = |_: &str, column: &str| column == "area";
    let mut named = Transaction::new();
    named.insert(uuid(1), &Cage { name: "a".into(), ..Cage::default() });
    named.insert(uuid(2), &Plate { name: "b".into(), area: 0 });
    named.expect(uuid(3), &Plate { name: "c".into(), area: 4 }, TableColumns::all());
    let text = named.compose(lacks).unwrap().text;
    assert!(text.contains(r#""columns":["_uuid","name"]"#) && !text.contains("area"), "{text}");
    let unsupported = CommitError::Unsupported { table: "Cage".into(), column: "area".into() };
    let mut wide = named.clone();
    wide.insert(uuid(4), &Plate { name: "d".into(), area: 1 });
    assert_eq!(wide.compose(lacks).unwrap_err(), unsupported);
}

#[test]
fn a_set_is_neither_overfull_nor_empty_on_the_way() {
    let cage = |animals: &[u128]| Cage {
        animals: animals.iter().map(|n| Ref::new(uuid(*n))).collect(),
        ..Cage::default()
    };
    for (before, after) in [
        (&[1][..], &[2][..]),
        (&[1, 2], &[3, 4]),
        (&[1, 2, 3], &[4]),
        (&[1], &[2, 3, 4]),
        (&[1, 2, 3], &[2, 3, 4]),
        (&[1, 2], &[2]),
        (&[2], &[1, 2]),
    ] {
        let (room, mut now) = (before.len().max(after.len()).max(2), cage(before));
        let mut txn = Transaction::new();
        txn.update(uuid(9), &now, &cage(after));
        let op: serde_json::Value = serde_json::from_str(&self::text(&txn)).unwrap();
        for step in op["mutations"].as_array().unwrap() {
            let (mutator, datum) = (step[1].as_str().unwrap(), Datum::deserialize(&step[2]).unwrap());
            for animal in Set::<Ref<Cage>>::from_datum(&datum).unwrap() {
                assert!(if mutator == "insert" {
                    now.animals.insert(animal)
                } else {
                    now.animals.remove(&animal)
                });
            }
            assert!((1..=room).contains(&now.animals.len()), "{before:?} to {after:?}: {op}");
        }
        assert_eq!(now, cage(after));
    }
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.into()).unwrap()
}

#[test]
fn answers_are_read_by_operation() {
    let good = r#"[{"uuid":["uuid","00000000-0000-0000-0000-000000000001"]},{"count":0},{},{"rows":[{"a":1}]},{"count":2}]"#;
    let results = outcome::read(&raw(good), 5).unwrap().unwrap();
    let shown: Vec<_> = results.iter().map(ToString::to_string).collect();
    assert_eq!(shown, [&format!("inserted {ONE}"), "0 rows", "done", r#"[{"a":1}]"#, "2 rows"]);
    assert_eq!(Committed::new(results).missed().collect::<Vec<_>>(), [1]);
    assert!(outcome::read(&raw(good), 4).is_err());
    assert!(outcome::read(&raw("{}"), 1).is_err());
    assert!(outcome::read(&raw("[null]"), 1).is_err());

    let failure = |text: &str, count| outcome::read(&raw(text), count).unwrap().unwrap_err();
    let expected =
        |at, error: &str, details: &str| Failure { at, error: error.into(), details: details.into() };
    let middle = r#"[{"count":1},{"details":"why","error":"constraint violation"},null,null]"#;
    assert_eq!(failure(middle, 4), expected(Some(1), "constraint violation", "why"));
    let end = r#"[{"count":1},{"error":"referential integrity violation"}]"#;
    assert_eq!(failure(end, 1), expected(None, "referential integrity violation", ""));
    let whole = raw(r#"{"error":"unknown database","details":"no","syntax":"x"}"#);
    assert_eq!(outcome::read_refusal(&whole), expected(None, "unknown database", "no"));
    assert_eq!(outcome::read_refusal(&raw(r#""canceled""#)), expected(None, "canceled", ""));
    assert_eq!(outcome::read_refusal(&raw("[1]")), expected(None, "[1]", ""));
}

#[test]
fn errors_know_what_to_do_and_say_what_was_tried() {
    let op = |kind, target: &str| Some((2, Label { kind, target: target.into(), row: Some(uuid(1)) }));
    let error = CommitError::refused("duplicate uuid", "taken", op(OpKind::Insert, "Cage"));
    assert_eq!(
        error.to_string(),
        format!("the server refused operation 2 (insert into Cage {ONE}): duplicate uuid: taken")
    );
    assert!(error.is_duplicate_row() && error.class() == Class::Refused);
    let error = CommitError::refused("timed out", "", op(OpKind::Wait, "Cage"));
    assert_eq!(
        error.to_string(),
        format!("operation 2 (expectation on Cage {ONE}) did not hold: it has changed meanwhile")
    );
    assert_eq!(error.class(), Class::Conflict);
    let error = CommitError::refused("not owner", "", op(OpKind::Assert, "writer"));
    assert_eq!(error, CommitError::NotOwner { lock: "writer".into() });
    assert_eq!(CommitError::refused("cluster error", "", None).class(), Class::Transient);
    assert!(matches!(CommitError::refused("canceled", "", None), CommitError::Unknown { .. }));
}
