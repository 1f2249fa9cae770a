//! The older forms of monitoring, end to end: whole rows (`monitor`), differences (`monitor_cond`), and servers without newer
//! forms.

use ovsdb::client::FeedEvent;
use ovsdb::fake::{Fault, When};
use ovsdb::session::{Method, SyncKind};
use ovsdb::{ClientConfig, Map, Str};
use serde_json::json;

use crate::support::backend::{Backend, Fake, delete, insert, model, on_both, synced, update};
use crate::support::feed::{next, next_change};
use crate::support::soon;
use crate::support::stable::{Horse, id};

fn labels(pairs: &[(&str, &str)]) -> Map<Str, Str> {
    pairs.iter().map(|(key, value)| (Str::from(*key), Str::from(*value))).collect()
}

/// Follows every kind of change, across a reconnection.
async fn follow(backend: &Backend, config: ClientConfig, method: Method) {
    let of_a = json!({
        "labels": ["map", [["kept", "1"], ["changed", "1"], ["gone", "1"]]],
        "tags": ["set", ["kept", "gone"]], "colour": "bay"});
    backend.transact(json!([insert(id(1), "a", 1), update(id(1), of_a)])).await;
    let client = synced(config, model()).await;
    assert_eq!(client.status().borrow().method, Some(method));
    let mut feed = client.subscribe_all();
    assert_eq!(next_change(&mut feed).await, ["a: none -> 1"]);

    backend.transact(json!([insert(id(2), "b", 2)])).await;
    assert_eq!(next_change(&mut feed).await, ["b: none -> 2"]);
    let newer = json!({
        "labels": ["map", [["kept", "1"], ["changed", "2"], ["new", "1"]]],
        "tags": ["set", ["kept", "new"]], "colour": ["set", []]});
    backend.transact(json!([update(id(1), newer)])).await;
    let FeedEvent::Changed { delta, .. } = next(&mut feed).await else { panic!() };
    let change = delta.table::<Horse>().next().unwrap();
    let (before, after) = (change.before.as_ref().unwrap(), change.after.as_ref().unwrap());
    assert_eq!(before.labels, labels(&[("kept", "1"), ("changed", "1"), ("gone", "1")]));
    assert_eq!(after.labels, labels(&[("kept", "1"), ("changed", "2"), ("new", "1")]));
    assert_eq!(after.tags, ["kept", "new"].map(Str::from).into());
    assert_eq!((&before.colour, &after.colour), (&Some("bay".into()), &None));
    assert_eq!((after.name.as_str(), after.seq), ("a", 1), "what did not change is there still");
    let changed = Horse::LABELS | Horse::TAGS | Horse::COLOUR;
    assert_eq!(change.columns(), changed);
    assert_eq!(feed.snapshot().get::<Horse>(id(1)), Some(&**after));
    backend.transact(json!([delete(id(1))])).await;
    assert_eq!(next_change(&mut feed).await, ["a: 1 -> none"]);

    // Without transaction ids the client cannot resume. It loads everything, and the feed reports only the differences.
    client.reconnect().await;
    assert!(matches!(next(&mut feed).await, FeedEvent::Disconnected { .. }));
    assert!(matches!(next(&mut feed).await, FeedEvent::Reconnected { how: SyncKind::Reloaded }));
    soon("in sync", client.synced()).await.unwrap();
    backend.transact(json!([update(id(2), json!({"seq": 3}))])).await;
    assert_eq!(next_change(&mut feed).await, ["b: 2 -> 3"]);
    assert_eq!(client.snapshot().table::<Horse>().len(), 1);
    backend.transact(json!([delete(id(2))])).await;
    assert_eq!(next_change(&mut feed).await, ["b: 3 -> none"]);
    client.close().await;
}

on_both! {
    async fn changes_are_followed_by_each_older_method(backend) {
        for method in [Method::Monitor, Method::Cond] {
            let mut config = backend.config();
            config.session.newest_method = method;
            follow(&backend, config, method).await;
        }
    }
}

on_both! {
    /// The protocol has no compression. It saves bytes by sending a change as a difference.
    async fn a_difference_is_a_fraction_of_the_row(backend) {
        let pairs: Vec<_> = (0..200).map(|n| json!([format!("a key of some length, number {n}"), "1"])).collect();
        let full = json!({"labels": ["map", pairs]});
        backend.transact(json!([insert(id(1), "a", 1), update(id(1), full)])).await;
        let mut bytes = Vec::new();
        for (method, value) in [(Method::Monitor, "2"), (Method::Cond, "3"), (Method::CondSince, "4")] {
            let mut config = backend.config();
            config.session.newest_method = method;
            let client = synced(config, model()).await;
            let (mut feed, before) = (client.subscribe(), client.metrics().bytes_received);
            let mutations = json!([
                ["labels", "delete", ["set", ["changed"]]],
                ["labels", "insert", ["map", [["changed", value]]]]]);
            let clause = json!([["_uuid", "==", ["uuid", id(1).to_string()]]]);
            let op = json!({"op": "mutate", "table": "Horse", "where": clause, "mutations": mutations});
            backend.transact(json!([op])).await;
            let FeedEvent::Changed { delta, .. } = next(&mut feed).await else { panic!() };
            let row = delta.table::<Horse>().next().unwrap().after.clone().unwrap();
            assert_eq!((row.labels.len(), row.labels.get("changed").map(Str::as_str)), (201, Some(value)));
            bytes.push(client.metrics().bytes_received - before);
            client.close().await;
        }
        assert!(bytes[1] * 10 < bytes[0] && bytes[2] * 10 < bytes[0], "{bytes:?}");
    }
}

/// Before OVS 2.9 there was no `_Server`, before 2.12 no `monitor_cond_since`, before 2.6 no `monitor_cond`.
#[tokio::test]
async fn a_server_that_knows_nothing_newer_is_met_where_it_is() {
    let backend = Backend::Fake(Fake::old().await);
    let Backend::Fake(fake) = &backend else { unreachable!() };
    for (method, unknown) in [
        (Method::CondSince, None),
        (Method::Cond, Some("monitor_cond_since")),
        (Method::Monitor, Some("monitor_cond")),
    ] {
        if let Some(unknown) = unknown {
            fake.server.faults().on(When::method(unknown), Fault::Refuse("unknown method".into())).always();
            follow(&backend, backend.config(), method).await;
        } else {
            let client = backend.client().await;
            assert_eq!(client.status().borrow().method, Some(method));
            assert!(client.status().borrow().server.is_none(), "it does not tell about itself");
        }
    }
}
