//! Typed reads, the change feed, conditional monitoring.

use std::sync::Arc;

use ovsdb::client::FeedEvent;
use ovsdb::replica::{Columns, Model, References, Snapshot};
use ovsdb::{Condition, Function, Map, Ref, Set, Str, Table, Transaction};
use serde_json::json;

use crate::support::backend::{config, delete, insert, model, on_all, synced, update};
use crate::support::feed::{horses, next, next_change};
use crate::support::server::Standalone;
use crate::support::stable::{Horse, Rider, id};
use crate::support::{eventually, soon};

on_all! {
    async fn rows_are_read_typed(backend) {
        backend.transact(json!([
            {"op": "insert", "table": "Rider", "uuid": id(2).to_string(), "row": {"name": "ann"}},
            {"op": "insert", "table": "Horse", "uuid": id(1).to_string(), "row": {
                "name": "rocinante", "seq": -4_000_000_000_000i64, "colour": "grey",
                "labels": ["map", [["owner", "q"], ["a", "b"]]], "tags": ["set", ["old", "lean"]],
                "riders": ["uuid", id(2).to_string()], "friend": ["uuid", id(1).to_string()]}},
        ])).await;
        let client = backend.client().await;
        let snapshot = client.snapshot();
        let horse = snapshot.get::<Horse>(id(1)).unwrap();
        assert_eq!(horse, &Horse {
            name: "rocinante".into(),
            seq: -4_000_000_000_000,
            colour: Some("grey".into()),
            labels: [("owner".into(), "q".into()), ("a".into(), "b".into())].into(),
            tags: ["old".into(), "lean".into()].into(),
            riders: [Ref::new(id(2))].into(),
            friend: Some(id(1).into()),
            height: 0,
        });
        assert_eq!(snapshot.get(horse.riders[0]).unwrap().name, "ann");
        assert_eq!(snapshot.table::<Rider>().len(), 1);
        assert!(!snapshot.fit::<Horse>().is_exact(), "this schema has no height");

        // The same rows, decoded by the server's own schema.
        let dynamic = Model::new("Stable").dynamic("Horse", Columns::All);
        let client = synced(backend.config(), dynamic).await;
        assert_eq!(client.snapshot().dynamic("Horse").unwrap().len(), 1);
    }
}

on_all! {
    async fn a_feed_tells_old_and_new_of_every_change_in_order(backend) {
        backend.transact(json!([insert(id(1), "a", 1)])).await;
        let client = backend.client().await;
        let mut all = client.subscribe_all();
        assert_eq!(next_change(&mut all).await, ["a: none -> 1"], "what is there already");
        assert!(matches!(next(&mut all).await, FeedEvent::Synced { .. }));
        let mut feed = client.subscribe();
        assert!(feed.try_next().is_none(), "nothing has changed since");

        backend.transact(json!([insert(id(2), "b", 2), update(id(1), json!({"seq": 10}))])).await;
        backend.transact(json!([update(id(1), json!({"seq": 11, "name": "aa"}))])).await;
        backend.transact(json!([delete(id(1)), delete(id(2))])).await;
        for feed in [&mut feed, &mut all] {
            assert_eq!(next_change(feed).await, ["a: 1 -> 10", "b: none -> 2"]);
            let FeedEvent::Changed { delta, lagged } = next(feed).await else { panic!() };
            assert!(!lagged);
            assert_eq!(horses(&delta), ["aa: 10 -> 11"]);
            let change = delta.table::<Horse>().next().unwrap();
            assert_eq!(change.before.as_ref().unwrap().name, "a");
            assert_eq!(change.columns(), Horse::NAME | Horse::SEQ);
            assert_eq!(next_change(feed).await, ["aa: 11 -> none", "b: 2 -> none"]);
            assert_eq!(feed.snapshot().table::<Horse>().len(), 0);
        }
        client.close().await;
        assert!(feed.next().await.is_none(), "a closed client's feed ends");
    }
}

on_all! {
    async fn conditions_change_while_running(backend) {
        backend.transact(json!([insert(id(1), "a", 1), insert(id(2), "b", 2), insert(id(3), "c", 3)])).await;
        let equal = |seq: i64| Condition::column(Horse::SEQ, Function::Equal, &seq);
        let names = |client: &ovsdb::Client| {
            let mut names: Vec<Str> =
                client.snapshot().table::<Horse>().iter().map(|(_, horse)| horse.name.clone()).collect();
            names.sort();
            names
        };
        let client = synced(backend.config(), Model::new("Stable").table_where::<Horse>(equal(2))).await;
        assert_eq!(names(&client), ["b"]);
        let mut feed = client.subscribe();

        client.set_condition::<Horse>(equal(2).or(equal(3))).await.unwrap();
        assert_eq!(names(&client), ["b", "c"], "in force when the call returns");
        assert_eq!(next_change(&mut feed).await, ["c: none -> 3"]);
        // Rows move in and out without being inserted or deleted.
        backend.transact(json!([update(id(1), json!({"seq": 3})), update(id(2), json!({"seq": 7}))])).await;
        assert_eq!(next_change(&mut feed).await, ["a: none -> 3", "b: 2 -> none"]);
        client.set_condition::<Horse>(Condition::none()).await.unwrap();
        assert!(names(&client).is_empty());
        client.set_condition::<Horse>(Condition::all()).await.unwrap();
        assert_eq!(names(&client), ["a", "b", "c"]);
        assert_eq!(next_change(&mut feed).await, ["a: 3 -> none", "c: 3 -> none"]);
        assert_eq!(next_change(&mut feed).await, ["a: none -> 3", "b: none -> 7", "c: none -> 3"]);

        let nonsense = Condition::column(Horse::COLOUR, Function::Less, &Some(Str::from("x")));
        let error = client.set_condition::<Horse>(nonsense).await.unwrap_err();
        assert!(error.to_string().starts_with("the server refused the condition: "), "{error}");
        assert_eq!(names(&client), ["a", "b", "c"]);
        backend.transact(json!([insert(id(4), "d", 4)])).await;
        assert_eq!(next_change(&mut feed).await, ["d: none -> 4"], "the session lives on");
    }
}

on_all! {
    async fn a_bad_condition_set_while_disconnected_is_refused_and_keeps_nobody_out(backend) {
        backend.transact(json!([insert(id(1), "a", 1)])).await;
        let client = backend.client().await;
        let mut feed = client.subscribe();
        backend.stop().await;
        assert!(matches!(next(&mut feed).await, FeedEvent::Disconnected { .. }));
        let nonsense = Condition::column(Horse::COLOUR, Function::Less, &Some(Str::from("x")));
        let (error, ()) = soon("the refusal", async {
            tokio::join!(client.set_condition::<Horse>(nonsense), backend.start())
        }).await;
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("the server refused the condition: "), "{error}");
        backend.transact(json!([insert(id(2), "b", 2)])).await;
        assert_eq!(next_change(&mut feed).await, ["b: none -> 2"], "what was in force stays in force");
    }
}

on_all! {
    async fn a_weak_reference_goes_with_the_row_that_it_leads_to(backend) {
        type Friends = References<Horse, { Horse::FRIEND.position() }>;
        let friend = json!({"friend": ["uuid", id(1).to_string()]});
        backend.transact(json!([insert(id(1), "a", 1), insert(id(2), "b", 2), update(id(2), friend)])).await;
        let only_b = Condition::column(Horse::NAME, Function::Equal, &Str::from("b"));
        let both = Model::new("Stable").table::<Horse>().index::<Friends>();
        let narrow = Model::new("Stable").table_where::<Horse>(only_b).index::<Friends>();
        let friends_of_a = |snapshot: &Snapshot| -> Vec<Str> {
            snapshot.lookup::<Friends>(&id(1)).map(|(_, horse)| horse.name.clone()).collect()
        };
        for (model, holds_a, told) in
            [(both, true, &["a: 1 -> none", "b: 2 -> 2"][..]), (narrow, false, &["b: 2 -> 2"])]
        {
            let client = synced(backend.config(), model).await;
            let mut feed = client.subscribe();
            let snapshot = client.snapshot();
            let friend = snapshot.get::<Horse>(id(2)).unwrap().friend.expect("b has a friend");
            assert_eq!(friend, id(1).into());
            assert_eq!(snapshot.get(friend).map(|horse| horse.name.as_str()), holds_a.then_some("a"));
            assert_eq!(friends_of_a(&snapshot), ["b"]);

            backend.transact(json!([delete(id(1))])).await;
            let FeedEvent::Changed { delta, .. } = next(&mut feed).await else { panic!() };
            assert_eq!(horses(&delta), told);
            let of_b = delta.table::<Horse>().find(|change| change.uuid == id(2)).unwrap();
            assert_eq!(of_b.columns(), Horse::FRIEND.into());
            let [before, after] = [&of_b.before, &of_b.after].map(|horse| horse.as_ref().unwrap().friend);
            assert_eq!((before, after), (Some(friend), None));
            assert!(friends_of_a(&client.snapshot()).is_empty());
            assert_eq!(client.snapshot().get(friend), None);
            let again = json!({"friend": ["uuid", id(1).to_string()]});
            backend.transact(json!([insert(id(1), "a", 1), update(id(2), again)])).await;
        }
    }
}

on_all! {
    async fn a_slow_reader_lags_and_loses_nothing(backend) {
        backend.transact(json!([insert(id(1), "a", 0)])).await;
        let mut config = backend.config();
        config.feed_limit = 10;
        let client = synced(config, model()).await;
        let mut feed = client.subscribe();
        for seq in 1..=50 {
            let name = format!("h{seq}");
            backend.transact(json!([update(id(1), json!({"seq": seq})), insert(id(100 + seq as u128), &name, seq)])).await;
        }
        backend.transact(json!([delete(id(101))])).await;
        eventually("the last change", async || {
            let snapshot = client.snapshot();
            (snapshot.table::<Horse>().len() == 50 && snapshot.get::<Horse>(id(101)).is_none()).then_some(())
        }).await;
        let FeedEvent::Changed { delta, lagged } = next(&mut feed).await else { panic!() };
        assert!(lagged);
        assert_eq!(delta.table::<Horse>().len(), 50, "the sum: one changed, 49 that are there still");
        assert!(horses(&delta).contains(&"a: 0 -> 50".to_owned()));
        assert_eq!(delta.seq(), client.snapshot().seq());
        assert!(feed.try_next().is_none());
        backend.transact(json!([update(id(1), json!({"seq": 51}))])).await;
        let FeedEvent::Changed { delta, lagged, .. } = next(&mut feed).await else { panic!() };
        assert_eq!((horses(&delta), lagged), (vec!["a: 50 -> 51".to_owned()], false));
        assert_eq!(client.metrics().feed_lags, 1);
        assert!(Arc::ptr_eq(&client.fit(), &client.fit()));
    }
}

/// OVN's own schema, as Debian has it: every table by the server's schema, some of them typed.
#[tokio::test]
async fn the_northbound_database_of_ovn_is_read_and_written() {
    #[derive(Clone, Debug, Default, PartialEq, Table)]
    #[ovsdb(database = "OVN_Northbound", table = "Logical_Switch")]
    struct LogicalSwitch {
        name: Str,
        ports: Set<Ref<Port>>,
        other_config: Map<Str, Str>,
    }
    #[derive(Clone, Debug, Default, PartialEq, Table)]
    #[ovsdb(database = "OVN_Northbound", table = "Logical_Switch_Port")]
    struct Port {
        name: Str,
        addresses: Set<Str>,
        tag: Option<i64>,
        enabled: Option<bool>,
    }

    let schema =
        std::fs::read_to_string("/usr/share/ovn/ovn-nb.ovsschema").expect("ovn-central is installed");
    let server = Standalone::start(&schema);
    let typed = Model::new("OVN_Northbound").table::<LogicalSwitch>().table::<Port>();
    let client = synced(config(&server.unix()), typed).await;
    let tables = ovsdb::wire::DatabaseSchema::parse(&schema).unwrap().tables;
    let every = tables
        .keys()
        .fold(Model::new("OVN_Northbound"), |model, table| model.dynamic(table.clone(), Columns::All));
    let watcher = synced(config(&server.unix()), every).await;
    let mut feed = watcher.subscribe();

    let port = |n: u128| Port {
        name: format!("p{n}").into(),
        addresses: [format!("0a:00:00:00:00:{n:02x} 10.0.0.{n}").into()].into(),
        tag: n.is_multiple_of(2).then_some(n as i64),
        enabled: Some(true),
    };
    let mut txn = Transaction::new();
    let mut switch = LogicalSwitch { name: "sw".into(), ..LogicalSwitch::default() };
    switch.other_config.insert("subnet".into(), "10.0.0.0/24".into());
    for n in 1..=20 {
        txn.insert(id(n), &port(n));
        switch.ports.insert(id(n).into());
    }
    txn.insert(id(100), &switch);
    client.commit(&txn).await.unwrap();
    let snapshot = client.snapshot();
    assert_eq!(snapshot.get::<LogicalSwitch>(id(100)), Some(&switch));
    assert_eq!(snapshot.get::<Port>(id(4)), Some(&port(4)));
    let FeedEvent::Changed { delta, .. } = next(&mut feed).await else { panic!() };
    assert_eq!((delta.dynamic("Logical_Switch_Port").len(), delta.dynamic("Logical_Switch").len()), (20, 1));
    assert_eq!(feed.snapshot().dynamic("Logical_Switch_Port").unwrap().len(), 20);

    // A port without references is deleted.
    let mut fewer = switch.clone();
    fewer.ports.remove(&Ref::new(id(7)));
    let mut txn = Transaction::new();
    txn.update(id(100), &switch, &fewer);
    client.commit(&txn).await.unwrap();
    assert_eq!(client.snapshot().table::<Port>().len(), 19);
    let FeedEvent::Changed { delta, .. } = next(&mut feed).await else { panic!() };
    assert!(
        delta.dynamic("Logical_Switch_Port").all(|change| change.uuid == id(7) && change.after.is_none())
    );
}
