//! Every operation, with valid and invalid arguments.

use serde_json::{Value, json};

use crate::pair::{CHOSEN, Lines, Pair};

pub(crate) fn uuid(number: u64) -> String {
    format!("{CHOSEN}{number:012}")
}

pub(crate) fn link(number: u64) -> Value {
    json!(["uuid", uuid(number)])
}

/// An insert of a row of `Root` with a UUID and values for its indexes.
pub(crate) fn root(number: u64, columns: Value) -> Value {
    let mut row = json!({"name": format!("n{number}"), "i": number, "fixed": "f"});
    row.as_object_mut().unwrap().extend(columns.as_object().unwrap().clone());
    json!({"op": "insert", "table": "Root", "uuid": uuid(number), "row": row})
}

pub(crate) fn child(number: u64, columns: Value) -> Value {
    json!({"op": "insert", "table": "Child", "uuid": uuid(number), "row": columns})
}

pub(crate) fn all(lines: &mut Lines) {
    for table in ["Root", "Child", "Single"] {
        lines.transact(&json!([{"op": "select", "table": table, "where": []}]));
    }
}

#[test]
fn inserts() {
    let pair = Pair::standalone();
    let mut lines = pair.connect(1);
    lines.transact(&json!([{"op": "insert", "table": "Root", "row": {}}]));
    let number = std::cell::Cell::new(0);
    let mut insert = |columns: Value| {
        number.set(number.get() + 1);
        lines.transact(&json!([root(number.get(), columns)]));
    };
    for columns in [
        json!({}),
        json!({"is": ["set", [1, 1]]}),
        json!({"is": ["set", [3, 1, 2]]}),
        json!({"is": 7}),
        json!({"is": ["bag", []]}),
        json!({"is": ["set", [["set", []]]]}),
        json!({"m": ["set", []]}),
        json!({"m": ["map", []]}),
        json!({"m": ["map", [["a", "1"], ["a", "2"]]]}),
        json!({"m": ["map", [["b", "1"], ["a", "2"]]]}),
        json!({"m": ["map", [["a"]]]}),
        json!({"m": "a"}),
        json!({"few": ["set", []]}),
        json!({"few": ["set", ["a", "b", "c"]]}),
        json!({"few": ["set", ["a", "b", "c", "d"]]}),
        json!({"oi": ["set", [1, 2]]}),
        json!({"oi": ["set", [1]]}),
        json!({"i": "s"}),
        json!({"i": 1.5}),
        json!({"i": 1000.0, "r": 3}),
        json!({"i": 9_223_372_036_854_775_807_i64}),
        json!({"i": 9_223_372_036_854_775_808_u64}),
        json!({"i": i64::MIN}),
        json!({"r": 1e300}),
        json!({"r": -0.25, "frac": 1.25}),
        json!({"frac": 1.75}),
        json!({"frac": -1.75}),
        json!({"b": 1}),
        json!({"b": true}),
        json!({"small": 10}),
        json!({"small": 11}),
        json!({"small": -1}),
        json!({"kind": "red"}),
        json!({"kind": "blue"}),
        json!({"text": "äöüßé"}),
        json!({"text": "toolong"}),
        json!({"im": ["map", [["a", 100]]]}),
        json!({"im": ["map", [["a", 101]]]}),
        json!({"im": ["map", [["a", 1], ["b", 2], ["c", 3]]]}),
        json!({"nope": 1}),
        json!({"_uuid": link(999)}),
        json!({"_version": link(999)}),
        json!({"u": ["uuid", "nope"]}),
        json!({"u": ["uuid", "{00000000-0000-0000-0000-000000000001}"]}),
        json!({"u": ["named-uuid", "1 bad"]}),
        json!({"u": ["named-uuid", "unknown"]}),
        json!({"kids": ["named-uuid", "unknown"]}),
        json!({"kids": link(999)}),
        json!({"friends": ["set", [link(1), link(999)]]}),
        json!({"toys": ["map", [["a", link(999)]]]}),
        json!({"name": "n1"}),
        json!({"i": 1}),
        json!({"i": 1, "b": true}),
    ] {
        insert(columns);
    }
    all(&mut lines);
    for op in [
        json!(3),
        json!({}),
        json!({"op": "zonk"}),
        json!({"op": "bad id!"}),
        json!({"op": "insert", "table": "Nope", "row": {}}),
        json!({"op": "insert", "table": 3, "row": {}}),
        json!({"op": "insert", "row": {}}),
        json!({"op": "insert", "table": "Root"}),
        json!({"op": "insert", "table": "Root", "row": []}),
        json!({"op": "insert", "table": "Root", "row": {}, "extra": 1}),
        json!({"op": "insert", "table": "Root", "row": {}, "uuid": "zz"}),
        json!({"op": "insert", "table": "Root", "row": {}, "uuid": uuid(1)}),
        json!({"op": "insert", "table": "Root", "row": {}, "uuid-name": "1x"}),
        json!({"op": "commit"}),
        json!({"op": "commit", "durable": true}),
        json!({"op": "commit", "durable": false}),
        json!({"op": "comment"}),
        json!({"op": "comment", "comment": "why"}),
        json!({"op": "abort"}),
        json!({"op": "abort", "x": 1}),
        json!({"op": "assert", "lock": "l"}),
        json!({"op": "assert"}),
    ] {
        lines.transact(&json!([op]));
        lines.transact(&json!([{"op": "comment", "comment": ""}, op, {"op": "comment", "comment": ""}]));
    }
    lines.transact(&json!([]));
}

#[test]
fn names_and_references() {
    let pair = Pair::standalone();
    let mut lines = pair.connect(1);
    let kids =
        |numbers: &[u64]| json!({"kids": ["set", numbers.iter().map(|n| link(*n)).collect::<Vec<_>>()]});
    let at = |number: u64| json!([["_uuid", "==", link(number)]]);
    for ops in [
        json!([{"op": "insert", "table": "Root", "uuid": uuid(101), "row": {"name": "a", "kids": ["named-uuid", "kid"]}},
            {"op": "insert", "table": "Child", "uuid-name": "kid", "uuid": uuid(50), "row": {"name": "k"}}]),
        json!([{"op": "insert", "table": "Child", "uuid-name": "kid", "uuid": uuid(51), "row": {"name": "k"}},
            {"op": "insert", "table": "Root", "uuid": uuid(102), "row": {"name": "b", "i": 20, "kids": ["named-uuid", "kid"]}}]),
        json!([{"op": "insert", "table": "Child", "uuid-name": "kid", "row": {}},
            {"op": "insert", "table": "Child", "uuid-name": "kid", "row": {}}]),
        // No row refers to it, so the server deletes it at once.
        json!([child(60, json!({"name": "lonely"}))]),
        json!([child(10, json!({})), child(11, kids(&[12])), child(12, json!({})), root(1, kids(&[10, 11]))]),
        json!([root(2, kids(&[10]))]),
        // Still referred to.
        json!([{"op": "delete", "table": "Child", "where": at(10)}]),
        json!([{"op": "update", "table": "Root", "where": at(2), "row": kids(&[999])}]),
        json!([{"op": "update", "table": "Root", "where": at(1), "row": kids(&[10])}]),
        json!([{"op": "delete", "table": "Root", "where": at(1)}]),
        json!([{"op": "delete", "table": "Root", "where": at(2)}]),
        // A row that refers to itself is not kept by that; two that refer to each other are.
        json!([child(20, kids(&[20])), root(3, kids(&[20]))]),
        json!([{"op": "update", "table": "Root", "where": at(3), "row": {"kids": ["set", []]}}]),
        json!([child(21, kids(&[22])), child(22, kids(&[21])), root(4, kids(&[21]))]),
        json!([{"op": "update", "table": "Root", "where": at(4), "row": {"kids": ["set", []]}}]),
        json!([child(23, kids(&[24])), child(24, kids(&[25])), child(25, json!({})), root(5, kids(&[23]))]),
        json!([{"op": "update", "table": "Root", "where": at(5), "row": kids(&[25])}]),
        // One case is omitted: a transaction that changes a row and deletes a row to which it refers weakly. OVS 3.1 then leaves the
        // reference behind, and the fake does not copy this bug. Weak references disappear with the row, in sets, optional columns and the
        // values of maps.
        json!([
            child(30, json!({"buddy": link(6)})),
            root(6, json!({"friends": ["set", [link(6), link(5)]]})),
            root(9, json!({"kids": link(30)})),
            root(
                7,
                json!({"friends": ["set", [link(6), link(3)]],
                "toys": ["map", [["a", link(30)], ["b", link(25)]]]})
            )
        ]),
        json!([{"op": "delete", "table": "Root", "where": at(6)}]),
        json!([{"op": "update", "table": "Root", "where": at(9), "row": {"kids": ["set", []]}}]),
        json!([{"op": "mutate", "table": "Root", "where": at(7), "mutations": [["friends", "insert", link(999)]]}]),
        // A weak reference that may not be missing.
        json!([{"op": "insert", "table": "Single", "row": {}}]),
        json!([{"op": "insert", "table": "Single", "uuid": uuid(40), "row": {"needs": link(7), "must": link(3)}}]),
        json!([{"op": "insert", "table": "Single", "uuid": uuid(41), "row": {"needs": link(7)}}]),
        json!([{"op": "delete", "table": "Root", "where": at(3)}]),
        json!([{"op": "delete", "table": "Root", "where": at(7)}]),
        json!([{"op": "delete", "table": "Single", "where": []},
            {"op": "insert", "table": "Single", "uuid": uuid(42), "row": {"needs": link(7)}}]),
        json!([{"op": "delete", "table": "Root", "where": at(7)}, {"op": "delete", "table": "Single", "where": []}]),
        // A UUID is not used again by the transaction that deletes it, but by the next.
        json!([{"op": "delete", "table": "Root", "where": at(4)}, root(4, json!({}))]),
        json!([{"op": "delete", "table": "Root", "where": at(4)}]),
        json!([root(4, json!({}))]),
        json!([root(8, json!({})), {"op": "delete", "table": "Root", "where": at(8)}, root(8, json!({}))]),
        // Indexes are checked at the end: two rows may swap.
        json!([{"op": "update", "table": "Root", "where": at(4), "row": {"name": "n8"}},
            {"op": "update", "table": "Root", "where": at(8), "row": {"name": "n4"}}]),
        json!([{"op": "update", "table": "Root", "where": [], "row": {"name": "same"}}]),
    ] {
        lines.transact(&ops);
        all(&mut lines);
    }
}

#[test]
fn mutations_and_updates() {
    let pair = Pair::standalone();
    let mut lines = pair.connect(1);
    lines.transact(&json!([
        root(1, json!({"oi": 5, "m": ["map", [["a", "1"], ["b", "2"]]], "is": ["set", [1, 2, 3]]})),
        root(2, json!({"r": 2.5})),
    ]));
    let one = json!([["_uuid", "==", link(1)]]);
    for mutation in [
        json!(["oi", "+=", 1]),
        json!(["i", "+=", 100]),
        json!(["i", "-=", 100]),
        json!(["i", "/=", 0]),
        json!(["i", "%=", 0]),
        json!(["i", "*=", 3]),
        json!(["i", "/=", 2]),
        json!(["i", "%=", 5]),
        json!(["i", "-=", i64::MIN]),
        json!(["i", "+=", i64::MAX]),
        json!(["i", "+=", 1.5]),
        json!(["i", "+=", ["set", [1, 2]]]),
        json!(["i", "insert", 7]),
        json!(["i", "^=", 1]),
        json!(["i", "+="]),
        json!(3),
        json!(["nope", "+=", 1]),
        json!(["r", "+=", 1.5]),
        json!(["r", "*=", 1e308]),
        json!(["r", "*=", 1e308]),
        json!(["r", "/=", 0]),
        json!(["r", "%=", 1]),
        json!(["small", "+=", 11]),
        json!(["small", "-=", 1]),
        json!(["small", "-=", -3]),
        json!(["is", "+=", 1]),
        json!(["is", "*=", 0]),
        json!(["is", "insert", ["set", [2, 9]]]),
        json!(["is", "insert", ["set", [2, 2]]]),
        json!(["is", "delete", 9]),
        json!(["is", "delete", ["set", [100, 2]]]),
        json!(["is", "+=", ["set", []]]),
        json!(["m", "insert", ["map", [["a", "9"], ["z", "1"]]]]),
        json!(["m", "delete", ["map", [["a", "9"]]]]),
        json!(["m", "delete", ["map", [["a", "1"]]]]),
        json!(["m", "delete", ["set", ["z", "y"]]]),
        json!(["m", "delete", "b"]),
        json!(["m", "delete", 3]),
        json!(["m", "insert", ["set", []]]),
        json!(["m", "+=", 1]),
        json!(["few", "delete", ""]),
        json!(["few", "insert", ["set", ["a", "b", "c"]]]),
        json!(["few", "insert", ["set", ["a", "b", "c", "d"]]]),
        json!(["few", "insert", ["set", ["a", "b"]]]),
        json!(["few", "delete", ""]),
        json!(["im", "insert", ["map", [["a", 101]]]]),
        json!(["im", "insert", ["map", [["a", 1], ["b", 2]]]]),
        json!(["im", "insert", ["map", [["c", 3]]]]),
        json!(["im", "delete", ["map", [["a", 101]]]]),
        json!(["im", "delete", ["map", [["a", 1], ["b", 1], ["c", 1]]]]),
        json!(["fixed", "insert", "x"]),
        json!(["name", "insert", "x"]),
        json!(["oi", "insert", 8]),
        json!(["oi", "delete", ["set", [5, 6]]]),
        json!(["oi", "insert", 8]),
        json!(["text", "insert", "waytoolong"]),
        json!(["_uuid", "insert", 7]),
        json!(["_version", "+=", 7]),
    ] {
        lines.transact(&json!([
            {"op": "mutate", "table": "Root", "where": one, "mutations": [mutation]},
            {"op": "select", "table": "Root", "where": one},
        ]));
    }
    let both = json!([["i", "+=", 1], ["is", "insert", 77], ["m", "delete", "a"]]);
    lines.transact(&json!([{"op": "mutate", "table": "Root", "where": [], "mutations": both}]));
    lines.transact(&json!([{"op": "mutate", "table": "Root", "where": [], "mutations": [["i", "*=", 0]]}]));
    for row in [
        json!({}),
        json!({"fixed": "zz"}),
        json!({"_uuid": link(9)}),
        json!({"_version": link(9)}),
        json!({"oi": ["set", []]}),
        json!({"name": "n1"}),
        json!({"name": "n2"}),
        json!({"nope": 1}),
        json!({"r": 5, "is": ["set", [1]], "m": ["map", [["x", "y"]]]}),
        json!({"e": "ephemeral"}),
    ] {
        lines.transact(&json!([{"op": "update", "table": "Root", "where": one, "row": row}]));
        all(&mut lines);
    }
    lines.transact(
        &json!([{"op": "update", "table": "Root", "where": [["name", "==", "zz"]], "row": {"r": 1}}]),
    );
    lines.transact(&json!([{"op": "delete", "table": "Root", "where": [["name", "==", "zz"]]}]));
    lines.transact(&json!([{"op": "delete", "table": "Root", "where": [["name", "==", "n2"]]}]));
    lines.transact(&json!([{"op": "delete", "table": "Root", "where": []}]));
    all(&mut lines);
}

#[test]
fn conditions_and_waits() {
    let pair = Pair::standalone();
    let mut lines = pair.connect(1);
    lines.transact(&json!([
        root(
            1,
            json!({"oi": 5, "m": ["map", [["a", "1"], ["b", "2"]]], "r": 0.5, "few": ["set", ["a", "b"]]})
        ),
        root(2, json!({"is": ["set", [1, 2, 3]], "m": ["map", [["a", "1"]]]})),
        root(3, json!({"oi": 7, "is": 1, "b": true, "u": link(1)})),
    ]));
    for clause in [
        json!(true),
        json!(false),
        json!(3),
        json!(["name"]),
        json!(["nope", "==", 1]),
        json!(["name", "?", "x"]),
        json!(["name", "==", "n1"]),
        json!(["name", "!=", "n1"]),
        json!(["name", "<", "n1"]),
        json!(["name", "includes", "n1"]),
        json!(["name", "excludes", "n1"]),
        json!(["name", "includes", ["set", []]]),
        json!(["name", "includes", ["set", ["n1", "n2"]]]),
        json!(["i", "<", 2]),
        json!(["i", "<=", 2]),
        json!(["i", ">", 2]),
        json!(["i", ">=", 2]),
        json!(["r", "<", 1]),
        json!(["r", "==", 0]),
        json!(["b", "==", true]),
        json!(["b", "<", true]),
        json!(["u", "==", link(1)]),
        json!(["_uuid", "==", link(1)]),
        json!(["_uuid", "!=", link(1)]),
        json!(["_uuid", "includes", link(1)]),
        json!(["oi", "==", ["set", []]]),
        json!(["oi", "!=", ["set", []]]),
        json!(["oi", "==", 5]),
        json!(["oi", "<", 6]),
        json!(["oi", ">=", 6]),
        json!(["oi", "<", ["set", []]]),
        json!(["oi", "<", ["set", [1, 2]]]),
        json!(["oi", "includes", ["set", []]]),
        json!(["oi", "includes", 5]),
        json!(["oi", "excludes", ["set", []]]),
        json!(["oi", "excludes", ["set", [5, 6]]]),
        json!(["is", "==", ["set", [3, 2, 1]]]),
        json!(["is", "!=", 1]),
        json!(["is", "includes", ["set", [1, 2]]]),
        json!(["is", "includes", 1]),
        json!(["is", "excludes", 2]),
        json!(["is", "<", 2]),
        json!(["few", "==", ["set", []]]),
        json!(["few", "includes", ["set", []]]),
        json!(["few", "includes", "a"]),
        json!(["m", "==", ["map", [["a", "1"]]]]),
        json!(["m", "includes", ["map", [["a", "1"]]]]),
        json!(["m", "includes", ["map", [["a", "2"]]]]),
        json!(["m", "excludes", ["map", [["a", "2"]]]]),
        json!(["m", "excludes", ["map", [["b", "2"]]]]),
        json!(["m", "includes", ["set", ["a"]]]),
        json!(["im", "includes", ["map", [["a", 1], ["b", 2], ["c", 3]]]]),
        json!(["im", "excludes", ["map", [["a", 1], ["b", 2], ["c", 3]]]]),
        json!(["im", "includes", ["map", [["a", 1000]]]]),
        json!(["small", "==", 1000]),
        json!(["kids", "==", ["set", []]]),
    ] {
        let select = json!({"op": "select", "table": "Root", "where": [clause], "columns": ["name"]});
        lines.transact(&json!([select]));
        let both = json!([clause, ["i", ">", 1]]);
        lines.transact(
            &json!([{"op": "select", "table": "Root", "where": both, "columns": ["name", "_uuid"]}]),
        );
    }
    for columns in
        [json!(["fixed"]), json!([]), json!(["name", "name"]), json!(["zz"]), json!([1]), json!("name")]
    {
        lines.transact(&json!([{"op": "select", "table": "Root", "where": [], "columns": columns}]));
        lines.transact(&json!([{"op": "wait", "table": "Root", "timeout": 0, "where": [], "until": "==",
            "columns": columns, "rows": []}]));
    }
    lines.transact(&json!([{"op": "select", "table": "Root", "columns": ["name"]}]));
    lines.transact(
        &json!([{"op": "select", "table": "Root", "where": [], "columns": ["name"], "sort": ["nope"]}]),
    );
    let one = json!([["_uuid", "==", link(1)]]);
    let all = json!([]);
    for (filter, columns, until, rows) in [
        (&one, json!(["name"]), "==", json!([{"name": "n1"}])),
        (&one, json!(["name"]), "!=", json!([{"name": "n1"}])),
        (&one, json!(["name"]), "==", json!([])),
        (&one, json!(["name"]), "!=", json!([])),
        (
            &one,
            json!(["m", "oi"]),
            "==",
            json!([{"m": ["map", [["b", "2"], ["a", "1"]]], "oi": ["set", [5]]}]),
        ),
        (
            &all,
            json!(["name"]),
            "==",
            json!([{"name": "n1"}, {"name": "n2"}, {"name": "n2"}, {"name": "n3"}]),
        ),
        (&all, json!(["fixed"]), "==", json!([{"fixed": "f"}])),
        (&all, json!(["fixed"]), "==", json!([{"name": "x"}])),
        (&all, json!(["small"]), "==", json!([{}])),
        (&all, json!(["fixed"]), "==", json!([{"nope": "x"}])),
        (&all, json!(["fixed"]), "=", json!([])),
        (&all, json!(["fixed"]), "==", json!([1])),
        (&all, json!(["small"]), "==", json!([{"small": 1000}])),
    ] {
        for timeout in [json!(0), json!(20)] {
            lines.transact(&json!([{"op": "wait", "table": "Root", "timeout": timeout, "where": filter,
                "columns": columns, "until": until, "rows": rows}]));
        }
    }
    for timeout in [json!(-1), json!(1.5), json!("x")] {
        lines.transact(&json!([{"op": "wait", "table": "Root", "timeout": timeout, "where": [],
            "columns": ["fixed"], "until": "==", "rows": [{"fixed": "f"}]}]));
    }
    // Without columns, `_uuid` and `_version` are compared as well.
    lines.transact(
        &json!([{"op": "wait", "table": "Single", "timeout": 0, "where": [], "until": "==", "rows": []}]),
    );
    lines.transact(
        &json!([{"op": "wait", "table": "Root", "timeout": 0, "where": one, "until": "!=", "rows": [{}]}]),
    );
}
