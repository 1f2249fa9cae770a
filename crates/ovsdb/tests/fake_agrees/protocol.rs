//! Monitors, locks and the rest of the methods.

use serde_json::{Value, json};

use crate::operations::{child, link, root};
use crate::pair::{Lines, Pair, SCHEMA};

fn monitor(lines: &mut Lines, line: usize, method: &str, id: &str, requests: Value) {
    let mut params = vec![json!("Test"), json!(id), requests];
    if method == "monitor_cond_since" {
        params.push(json!("00000000-0000-0000-0000-000000000000"));
    }
    lines.step(line, method, &params.into());
}

const METHODS: [&str; 3] = ["monitor", "monitor_cond", "monitor_cond_since"];

/// Changes of every kind, which monitors must report.
fn changes(lines: &mut Lines) {
    let one = json!([["_uuid", "==", link(1)]]);
    let kids =
        |numbers: &[u64]| json!({"kids": ["set", numbers.iter().map(|n| link(*n)).collect::<Vec<_>>()]});
    for ops in [
        json!([
            root(1, json!({})),
            root(2, json!({"is": ["set", [1, 2]], "m": ["map", [["a", "1"], ["b", "2"]]]}))
        ]),
        json!([{"op": "update", "table": "Root", "where": one, "row": {"oi": 5, "is": ["set", [1, 2, 3]]}}]),
        json!([{"op": "update", "table": "Root", "where": one, "row": {"oi": ["set", []], "is": ["set", [2, 4]]}}]),
        json!([{"op": "update", "table": "Root", "where": [], "row": {"m": ["map", [["a", "9"], ["c", "3"]]]}}]),
        json!([{"op": "update", "table": "Root", "where": one, "row": {"m": ["map", []], "im": ["map", [["k", 1]]]}}]),
        json!([{"op": "update", "table": "Root", "where": one, "row": {"r": 1.5, "few": ["set", ["x", "y"]]}}]),
        json!([{"op": "update", "table": "Root", "where": one, "row": {"r": 1.5}}]),
        json!([child(10, json!({"name": "k"})), {"op": "update", "table": "Root", "where": one, "row": kids(&[10])}]),
        json!([root(3, json!({"friends": ["set", [link(1), link(2)]], "b": true}))]),
        json!([{"op": "mutate", "table": "Root", "where": [], "mutations": [["i", "+=", 10]]}]),
        json!([{"op": "mutate", "table": "Root", "where": one, "mutations": [["friends", "insert", link(999)]]}]),
        json!([{"op": "delete", "table": "Root", "where": one}]),
        json!([root(4, json!({})), {"op": "delete", "table": "Root", "where": [["_uuid", "==", link(4)]]}]),
        json!([root(5, json!({})), {"op": "abort"}]),
        json!([{"op": "comment", "comment": "nothing"}]),
        json!([{"op": "delete", "table": "Root", "where": []}]),
    ] {
        lines.transact(&ops);
    }
}

#[test]
fn monitors_of_all_versions() {
    let pair = Pair::standalone();
    let mut lines = pair.connect(4);
    lines.transact(&json!([root(90, json!({"is": 3, "m": ["map", [["x", "y"]]]})), root(91, json!({}))]));
    for (line, method) in METHODS.into_iter().enumerate() {
        monitor(&mut lines, line, method, "all", json!({"Root": {}, "Child": [{}], "Single": [{}]}));
        monitor(
            &mut lines,
            line,
            method,
            "some",
            json!({"Root": [{"columns": ["name", "is", "m", "_uuid"]}]}),
        );
        monitor(
            &mut lines,
            line,
            method,
            "none",
            json!({"Child": [{"columns": []}], "Root": {"columns": []}}),
        );
        monitor(&mut lines, line, method, "nothing", json!({}));
        let selected = json!({"Root": [
            {"columns": ["name"], "select": {"initial": false}},
            {"columns": ["i", "r"], "select": {"modify": false}},
            {"columns": ["is"], "select": {"insert": false, "delete": false}}]});
        monitor(&mut lines, line, method, "selected", selected);
        let later =
            json!({"Root": [{"columns": ["name", "i"], "select": {"initial": false, "insert": false}}]});
        monitor(&mut lines, line, method, "later", later);
    }
    changes(&mut lines);
    lines.step(1, "monitor_cancel", &json!(["all"]));
    lines.step(1, "monitor_cancel", &json!(["all"]));
    lines.step(1, "monitor_cancel", &json!([]));
    changes(&mut lines);
}

#[test]
fn monitors_that_are_refused() {
    let pair = Pair::standalone();
    let mut lines = pair.connect(1);
    for method in METHODS {
        for requests in [
            json!([]),
            json!(3),
            json!({"Nope": {}}),
            json!({"Root": 3}),
            json!({"Root": {"columns": ["nope"]}}),
            json!({"Root": {"columns": ["name", "name"]}}),
            json!({"Root": [{"columns": ["name"]}, {"columns": ["name"]}]}),
            json!({"Root": {"columns": [1]}}),
            json!({"Root": {"columns": "name"}}),
            json!({"Root": {"select": {"initial": 1}}}),
            json!({"Root": {"select": {"nope": true}}}),
            json!({"Root": {"nope": true}}),
            json!({"Root": {"where": 3}}),
            json!({"Root": {"where": [["nope", "==", 3]]}}),
            json!({"Root": {"where": [["name", "<", 3]]}}),
        ] {
            monitor(&mut lines, 0, method, "m", requests);
            lines.step(0, "monitor_cancel", &json!(["m"]));
        }
        // (Not here: no id and no requests, nor a change of conditions without `where`. OVS 3.1 crashes on both.)
        lines.step(0, method, &json!(["Nope", "m", {}]));
        lines.step(0, method, &json!([]));
        monitor(&mut lines, 0, method, method, json!({"Root": {}}));
        monitor(&mut lines, 0, method, method, json!({"Root": {}}));
    }
    lines.step(0, "monitor_cond_since", &json!(["Test", "x", {"Root": {}}, "no uuid"]));
    lines.step(0, "monitor_cond_since", &json!(["Test", "y", {"Root": {}}, 3]));
}

#[test]
fn conditions_that_rows_come_and_go_by() {
    let pair = Pair::standalone();
    let mut lines = pair.connect(3);
    lines.transact(&json!([root(90, json!({"is": 3})), root(91, json!({"b": true}))]));
    for (line, method) in [(1, "monitor_cond"), (2, "monitor_cond_since")] {
        // No two monitors have the same columns. The real server would share their state, and OVS 3.1 crashes if their conditions then use
        // different columns.
        for (id, mut columns, filter) in [
            ("n2", json!(["name", "is"]), json!([["name", "==", "n2"]])),
            ("either", json!(["name", "small"]), json!([["i", ">", 5], ["b", "==", true]])),
            ("includes", json!(["name", "m"]), json!([["is", "includes", 2]])),
            ("false", json!(["name", "kind"]), json!([false])),
            ("true", json!(["name", "text"]), json!([true])),
            ("empty", json!(["name", "fixed"]), json!([])),
            ("unseen", json!(["name", "e"]), json!([["r", "<", 1000], ["i", ">", 1]])),
            ("uuid", json!(["name", "r"]), json!([["_uuid", "==", link(1)]])),
        ] {
            if line == 2 {
                columns.as_array_mut().unwrap().push(json!("im"));
            }
            let requests = json!({"Root": [{"columns": columns, "where": filter}], "Child": [{}]});
            monitor(&mut lines, line, method, id, requests);
        }
    }
    // The oldest form takes a change of conditions, without effect but on its id, which may be any JSON.
    lines.step(0, "monitor", &json!(["Test", "old", {"Root": {"columns": ["name", "u"]}}]));
    let never = json!({"Root": [{"where": [false]}]});
    lines.step(0, "monitor_cond_change", &json!(["old", {"any": [1]}, never]));
    changes(&mut lines);
    lines.transact(&json!([root(92, json!({"is": 2})), root(93, json!({"b": true}))]));
    for line in [1, 2] {
        for (from, to, requests) in [
            ("n2", "n2", json!({"Root": [{"where": [["name", "==", "n92"]]}]})),
            ("n2", "n92", json!({"Root": [{"where": [["name", "==", "n93"]]}]})),
            ("n2", "x", json!({})),
            ("n92", "n92", json!({"Root": [{"where": [["name", "==", "n93"]]}]})),
            ("n92", "n92", json!({"Root": [{"where": []}], "Child": [{"where": [false]}]})),
            (
                "n92",
                "n92",
                json!({"Root": [{"where": [["is", "excludes", 2]]}, {"where": [["b", "==", true]]}]}),
            ),
            ("n92", "n92", json!({"Root": [{"columns": ["name"], "where": []}]})),
            ("n92", "n92", json!({"Root": [{"where": [["nope", "==", 1]]}]})),
            ("n92", "n92", json!({"Root": {"where": []}})),
            ("n92", "n92", json!({"Single": [{"where": []}]})),
            ("n92", "n92", json!({"Nope": [{"where": []}]})),
            ("n92", "n92", json!([])),
            ("false", "false", json!({"Root": [{"where": [true]}]})),
            ("true", "true", json!({"Root": [{"where": [false]}]})),
        ] {
            lines.step(line, "monitor_cond_change", &json!([from, to, requests]));
        }
    }
    lines.step(1, "monitor_cond_change", &json!([1, 2]));
    lines.step(1, "monitor_cond_change", &json!(["a", "b", {}]));
    changes(&mut lines);
}

#[test]
fn locks_of_three() {
    let pair = Pair::standalone();
    let mut lines = pair.connect(3);
    for (line, method, name) in [
        (0, "lock", "a"),
        (1, "lock", "a"),
        (2, "lock", "a"),
        (0, "lock", "a"),
        (1, "unlock", "b"),
        (0, "unlock", "a"),
        (1, "unlock", "a"),
        (1, "steal", "a"),
        (0, "steal", "a"),
        (0, "unlock", "a"),
        (2, "unlock", "a"),
        (1, "unlock", "a"),
        (1, "unlock", "a"),
        (0, "steal", "a"),
        (1, "lock", "1"),
    ] {
        lines.step(line, method, &json!([name]));
        for line in 0..3 {
            lines.step(line, "transact", &json!(["Test", {"op": "assert", "lock": "a"}]));
        }
    }
    lines.step(0, "lock", &json!([]));
    lines.step(0, "lock", &json!(["a", "b"]));
    lines.step(0, "unlock", &json!([3]));
}

#[test]
fn the_other_methods() {
    let pair = Pair::standalone();
    let mut lines = pair.connect(2);
    for (method, params) in [
        ("echo", json!([1, {"a": [null, "x"]}])),
        ("list_dbs", json!([])),
        ("get_schema", json!(["Test"])),
        ("get_schema", json!(["_Server"])),
        ("get_schema", json!(["Nope"])),
        ("get_schema", json!([])),
        ("get_schema", json!([1])),
        ("get_server_id", json!([])),
        ("zonk", json!([])),
        ("transact", json!([])),
        ("transact", json!(["Nope"])),
        ("transact", json!([3])),
        (
            "transact",
            json!(["_Server", {"op": "select", "table": "Database", "where": [["name", "==", "Test"]]}]),
        ),
        ("transact", json!(["_Server", {"op": "delete", "table": "Database", "where": []}])),
        ("transact", json!(["_Server", {"op": "comment", "comment": "x"}])),
        ("transact", json!(["_Server", {"op": "commit", "durable": true}])),
        ("set_db_change_aware", json!([])),
        ("set_db_change_aware", json!([1])),
        ("set_db_change_aware", json!([true])),
        ("convert", json!(["Test"])),
        ("convert", json!(["Test", {}])),
        ("convert", json!(["Nope", {}])),
    ] {
        lines.step(0, method, &params);
    }
    for text in [
        r#"{"id":null,"method":"echo","params":[]}"#,
        r#"{"id":["any"],"method":"echo","params":[7],"result":null,"error":null}"#,
        r#" {"params":[],"id":"x","method":"echo"} "#,
    ] {
        lines.raw(0, text);
    }
    for text in [
        r#"{"id":1,"method":"echo","params":{}}"#,
        r#"{"id":1,"method":"echo"}"#,
        r#"{"id":1,"method":"list_dbs","params":null}"#,
        "[1]",
        r#"{"id":5,"result":1,"error":null}"#,
        r#"{"id":1,"method":3,"params":[]}"#,
        r#"{"id":1,"method":"echo","params":[}]}"#,
    ] {
        pair.connect(1).raw(0, text);
    }
}

#[test]
fn conversion() {
    let pair = Pair::standalone();
    let mut lines = pair.connect(3);
    lines.transact(&json!([root(2, json!({}))]));
    // A value does not fit the new type, the type is none, or the name is another. (Before
    // rows refer to others, because OVS 3.1 then crashes on a refused conversion.)
    let mut schema: Value = serde_json::from_str(SCHEMA).unwrap();
    schema["tables"]["Root"]["columns"]["i"] = json!({"type": {"key": {"type": "integer", "maxInteger": 0}}});
    lines.step(0, "convert", &json!(["Test", schema]));
    schema["tables"]["Root"]["columns"]["i"] = json!({"type": "zonk"});
    lines.step(0, "convert", &json!(["Test", schema]));
    let mut schema: Value = serde_json::from_str(SCHEMA).unwrap();
    schema["name"] = "Other".into();
    lines.step(0, "convert", &json!(["Test", schema]));
    lines.transact(&json!([root(1, json!({"is": 3, "kids": link(10)})), child(10, json!({"name": "k"}))]));
    for line in [0, 1] {
        lines.step(line, "set_db_change_aware", &json!([true]));
        lines.step(
            line,
            "monitor_cond",
            &json!(["_Server", "s", {"Database": {"columns": ["name", "leader"], "where": [["name", "==", "Test"]]}}]),
        );
    }
    for line in 0..3 {
        monitor(&mut lines, line, "monitor_cond", "m", json!({"Root": {"columns": ["name", "is"]}}));
    }
    let mut schema: Value = serde_json::from_str(SCHEMA).unwrap();
    schema["version"] = "2.0.0".into();
    let columns = schema["tables"]["Root"]["columns"].as_object_mut().unwrap();
    columns.remove("is");
    columns.insert("extra".into(), json!({"type": "string"}));
    columns["oi"] = json!({"type": {"key": "integer", "min": 0, "max": 2}});
    lines.step(0, "convert", &json!(["Test", schema]));
    lines.step(0, "transact", &json!(["Test", {"op": "select", "table": "Root", "where": []}]));
    lines.step(0, "get_schema", &json!(["Test"]));
    monitor(&mut lines, 0, "monitor_cond", "m", json!({"Root": {"columns": ["name", "extra"]}}));
    lines.step(0, "transact", &json!(["Test", {"op": "delete", "table": "Root", "where": []}]));
}

/// A cluster remembers transactions. A client names the last one it has seen, and receives the later ones.
#[test]
fn resuming_where_one_left_off() {
    let pair = Pair::clustered();
    let mut lines = pair.connect(2);
    let zero = json!("00000000-0000-0000-0000-000000000000");
    // The real server remembers no more than the database holds, so it has to hold something.
    let much: Vec<i64> = (0..3000).collect();
    lines.transact(&json!([root(99, json!({"is": ["set", much], "u": link(99)}))]));
    let requests = json!({"Root": [{"columns": ["name", "b", "r"]}], "Child": {}});
    lines.step(1, "monitor_cond_since", &json!(["Test", "m", requests, zero]));
    lines.transact(&json!([root(1, json!({"is": 3})), root(2, json!({}))]));
    let first = lines.last_ids();
    let resume = |lines: &mut Lines, ids: &[Option<String>; 2], id: &str, requests: &Value| {
        lines.step_with(0, "monitor_cond_since", |side| json!(["Test", id, requests, ids[side]]))
    };
    let none = resume(&mut lines, &first, "none", &requests);
    assert_eq!(none["result"][0], true, "nothing happened since, and that is known");
    lines.transact(&json!([root(3, json!({"is": ["set", [1, 2]]})), root(4, json!({}))]));
    let second = lines.last_ids();
    lines.transact(
        &json!([{"op": "update", "table": "Root", "where": [["i", "<", 50]], "row": {"r": 2, "is": 2}}]),
    );
    lines.transact(&json!([{"op": "delete", "table": "Root", "where": [["name", "==", "n4"]]}]));
    lines.transact(&json!([root(5, json!({}))]));
    lines.transact(
        &json!([root(6, json!({})), {"op": "delete", "table": "Root", "where": [["name", "==", "n5"]]}]),
    );
    for (ids, name) in [(&first, "first"), (&second, "second")] {
        assert_eq!(resume(&mut lines, ids, name, &requests)["result"][0], true);
        let some = json!({"Root": [{"columns": ["name"], "where": [["is", "includes", 2]]}]});
        assert_eq!(resume(&mut lines, ids, &format!("{name} some"), &some)["result"][0], true);
    }
    let unknown = [0, 1].map(|_| Some("12345678-0000-0000-0000-000000000000".to_owned()));
    assert_eq!(resume(&mut lines, &unknown, "unknown", &requests)["result"][0], false);
}
