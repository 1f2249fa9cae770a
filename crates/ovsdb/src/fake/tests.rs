//! The pure part: no message makes it panic, and its output is always consistent with its content.

use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::host::{Host, Out, Peer};
use super::server_db::Model;

fn schema() -> Value {
    json!({"name": "D", "version": "1.0.0", "tables": {
        "T": {"isRoot": true, "indexes": [["s"]], "columns": {
            "s": {"type": "string"},
            "n": {"type": {"key": {"type": "integer", "minInteger": 0, "maxInteger": 9}, "min": 0, "max": 3}},
            "m": {"type": {"key": "string", "value": "real", "min": 0, "max": "unlimited"}},
            "c": {"type": {"key": {"type": "uuid", "refTable": "C"}, "min": 0, "max": "unlimited"}},
            "w": {"type": {"key": {"type": "uuid", "refTable": "T", "refType": "weak"}, "min": 0, "max": 2}}}},
        "C": {"columns": {"s": {"type": "string", "ephemeral": true}}}}})
}

fn host(model: Model) -> Host {
    Host::new(vec![schema()], model, false).unwrap()
}

fn call(host: &mut Host, peer: Peer, method: &str, params: Value, now_ms: u64) -> Vec<(Peer, Out)> {
    let text = json!({"id": 1, "method": method, "params": params}).to_string();
    host.receive(peer, text.as_bytes(), now_ms);
    host.drain()
}

fn replies(out: &[(Peer, Out)]) -> Vec<(Peer, Value)> {
    let replies = out.iter().filter_map(|(peer, out)| match out {
        Out::Reply(text) => Some((*peer, serde_json::from_str::<Value>(text).unwrap()["result"].clone())),
        _ => None,
    });
    replies.collect()
}

#[test]
fn a_wait_is_answered_when_another_makes_it_true() {
    let mut host = host(Model::Standalone);
    let (a, b) = (host.open(), host.open());
    let wait = json!({"op": "wait", "table": "T", "where": [], "columns": ["s"], "until": "==", "rows": [{"s": "x"}]});
    let insert = |s: &str| json!({"op": "insert", "table": "T", "row": {"s": s}});
    assert_eq!(call(&mut host, a, "transact", json!(["D", wait, insert("y")]), 0), []);
    let again = call(&mut host, a, "transact", json!(["D", wait]), 1);
    assert!(matches!(&again[..], [(_, Out::Reply(text))] if text.contains("duplicate request ID")));
    let both = replies(&call(&mut host, b, "transact", json!(["D", insert("x")]), 5));
    assert_eq!(both.iter().map(|(peer, _)| *peer).collect::<Vec<_>>(), [b, a]);
    assert_eq!(both[1].1[0], json!({}));
    assert_eq!(host.databases["D"].tables["T"].rows.len(), 2);
}

#[test]
fn a_wait_times_out_by_the_clock_and_can_be_canceled() {
    let mut host = host(Model::Standalone);
    let peer = host.open();
    let wait = |timeout: Value| {
        json!(["D", {"op": "wait", "table": "T", "where": [], "columns": ["s"], "until": "==", "rows": [{"s": "x"}],
            "timeout": timeout}])
    };
    assert_eq!(call(&mut host, peer, "transact", wait(json!(100)), 1000), []);
    assert_eq!(host.next_tick(), Some(1100));
    host.tick(1099);
    assert_eq!(host.drain(), []);
    host.tick(1100);
    assert_eq!(replies(&host.drain())[0].1[0]["error"], "timed out");
    assert_eq!(host.next_tick(), None);
    assert_eq!(call(&mut host, peer, "transact", wait(json!(100)), 2000), []);
    host.receive(peer, br#"{"id":null,"method":"cancel","params":[1]}"#, 2001);
    assert!(matches!(&host.drain()[..], [(_, Out::Reply(text))] if text.contains("canceled")));
    assert_eq!(call(&mut host, peer, "transact", wait(json!(100)), 3000), []);
    host.closed(peer);
    host.tick(9000);
    assert_eq!(host.drain(), []);
}

#[test]
fn transactions_wait_for_a_leader() {
    let ids = Model::Clustered { cluster: Uuid::new_v4(), server: Uuid::new_v4() };
    let mut host = host(ids);
    let peer = host.open();
    host.stand(0, |standing| standing.connected = false);
    let insert = json!(["D", {"op": "insert", "table": "T", "row": {}}]);
    assert_eq!(replies(&call(&mut host, peer, "transact", insert, 0)), []);
    host.stand(9, |standing| standing.connected = true);
    assert_eq!(replies(&host.drain()).len(), 1);
}

#[test]
fn the_server_database_tells_of_leadership_index_and_schema() {
    let (cluster, server) = (Uuid::new_v4(), Uuid::new_v4());
    let mut host = host(Model::Clustered { cluster, server });
    let peer = host.open();
    let requests = json!({"Database": {"where": [["name", "==", "D"]]}});
    let initial = replies(&call(&mut host, peer, "monitor_cond", json!(["_Server", "s", requests]), 0));
    let row = initial[0].1["Database"].as_object().unwrap().values().next().unwrap()["initial"].clone();
    assert_eq!(
        (&row["model"], &row["leader"], &row["index"]),
        (&json!("clustered"), &json!(true), &json!(1))
    );
    assert_eq!((&row["cid"][1], &row["sid"][1]), (&json!(cluster.to_string()), &json!(server.to_string())));
    let mut told = |act: &mut dyn FnMut(&mut Host)| {
        act(&mut host);
        let out = host.drain();
        let update = out.iter().find_map(|(_, out)| match out {
            Out::Notify { method: "update2", text } => serde_json::from_str::<Value>(text).ok(),
            _ => None,
        });
        let update = update.expect("an update")["params"][1]["Database"].clone();
        update.as_object().unwrap().values().next().unwrap()["modify"].clone()
    };
    assert_eq!(told(&mut |host| host.stand(0, |standing| standing.leader = false))["leader"], false);
    let insert = json!([{"op": "insert", "table": "T", "row": {}}]);
    let index = told(&mut |host| drop(host.transact("D", insert.as_array().unwrap(), 0)));
    assert_eq!(index["index"], 2);
    assert_eq!(told(&mut |host| host.stand(0, |standing| standing.index = 1))["index"], 1);
    let mut newer = schema();
    newer["version"] = "2.0.0".into();
    let schema = told(&mut |host| host.convert("D", newer.clone()).unwrap());
    assert!(schema["schema"].as_str().unwrap().contains("2.0.0"));
}

#[test]
fn a_restart_loses_what_is_ephemeral_and_nothing_else() {
    let mut host = host(Model::Standalone);
    let ops = json!([{"op": "insert", "table": "C", "uuid-name": "c", "row": {"s": "gone"}},
        {"op": "insert", "table": "T", "row": {"s": "kept", "c": ["named-uuid", "c"]}}]);
    host.transact("D", ops.as_array().unwrap(), 0);
    host.restart(false).unwrap();
    let text = |host: &Host, table: &str| {
        let rows = host.databases["D"].tables[table].rows.values();
        rows.map(|row| row["s"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!((text(&host, "T"), text(&host, "C")), (vec!["kept".to_owned()], vec![String::new()]));
    // References are still tracked: the row disappears together with the rows that refer to it.
    host.transact("D", json!([{"op": "delete", "table": "T", "where": []}]).as_array().unwrap(), 0);
    assert!(text(&host, "C").is_empty());
    host.transact("D", ops.as_array().unwrap(), 0);
    host.restart(true).unwrap();
    assert!(text(&host, "T").is_empty());
}

#[test]
fn a_follower_tells_what_the_leader_did() {
    let model = Model::Clustered { cluster: Uuid::new_v4(), server: Uuid::new_v4() };
    let (mut leader, mut follower) = (host(model), host(model));
    let peer = follower.open();
    let zero = Uuid::nil().to_string();
    call(&mut follower, peer, "monitor_cond_since", json!(["D", "m", {"T": {"columns": ["s"]}}, zero]), 0);
    leader.transact("D", json!([{"op": "insert", "table": "T", "row": {"s": "x"}}]).as_array().unwrap(), 0);
    follower.follow(leader.databases.clone(), leader.standing.index);
    let out = follower.drain();
    let last = leader.databases["D"].last_id().to_string();
    assert!(matches!(&out[0].1, Out::Notify { method: "update3", text } if text.contains(&last)));
    let again = json!(["D", "n", {"T": {"columns": ["s"]}}, last]);
    assert_eq!(
        replies(&call(&mut follower, peer, "monitor_cond_since", again, 0))[0].1,
        json!([true, last, {}])
    );
}

/// Random JSON from strings that the server knows, in valid and invalid positions.
fn any_json() -> impl Strategy<Value = Value> {
    let words = vec![
        "D",
        "_Server",
        "T",
        "C",
        "s",
        "n",
        "m",
        "c",
        "w",
        "x",
        "op",
        "insert",
        "delete",
        "update",
        "mutate",
        "select",
        "wait",
        "abort",
        "comment",
        "assert",
        "commit",
        "where",
        "row",
        "rows",
        "table",
        "columns",
        "until",
        "timeout",
        "mutations",
        "uuid",
        "uuid-name",
        "named-uuid",
        "set",
        "map",
        "==",
        "!=",
        "<",
        "includes",
        "excludes",
        "+=",
        "/=",
        "%=",
        "lock",
        "durable",
        "_uuid",
        "_version",
        "tables",
        "name",
        "version",
        "type",
        "key",
        "value",
        "Database",
        "initial",
        "00000000-0000-0000-0000-000000000001",
    ];
    let leaf = prop_oneof![
        5 => proptest::sample::select(words.clone()).prop_map(|word| json!(word)),
        1 => any::<i64>().prop_map(|v| json!(v)),
        1 => any::<f64>().prop_map(|v| json!(v)),
        1 => any::<bool>().prop_map(|v| json!(v)),
        1 => Just(Value::Null),
        1 => "\\PC{0,4}".prop_map(|v| json!(v)),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let keys = proptest::sample::select(words.clone());
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(keys, inner, 0..5).prop_map(|map| {
                Value::Object(map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    })
}

fn any_method() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "transact",
        "monitor",
        "monitor_cond",
        "monitor_cond_since",
        "monitor_cond_change",
        "monitor_cancel",
        "get_schema",
        "list_dbs",
        "lock",
        "steal",
        "unlock",
        "set_db_change_aware",
        "convert",
        "echo",
        "cancel",
    ])
}

proptest! {
    #[test]
    fn no_request_makes_it_panic(requests in proptest::collection::vec((any_method(), proptest::collection::vec(any_json(), 0..4)), 1..8)) {
        let mut host = host(Model::Relay);
        let peer = host.open();
        for (at, (method, params)) in requests.into_iter().enumerate() {
            let mut full = vec![json!("D")];
            full.extend(params);
            let request = json!({"id": at, "method": method, "params": full}).to_string();
            host.receive(peer, request.as_bytes(), 0);
            let notice = json!({"id": null, "method": method, "params": full}).to_string();
            host.receive(peer, notice.as_bytes(), 0);
            for (_, out) in host.drain() {
                if let Out::Reply(text) | Out::Notify { text, .. } = out {
                    prop_assert!(serde_json::from_str::<Value>(&text).is_ok());
                }
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let mut host = host(Model::Standalone);
        let peer = host.open();
        host.receive(peer, &bytes, 0);
        prop_assert!(host.drain().iter().all(|(_, out)| *out == Out::Close));
    }
}
