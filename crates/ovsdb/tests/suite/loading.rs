//! Large and slow loads: a server that is busy sending is alive, and so is a client that is busy reading.

use std::time::Duration;

use ovsdb::client::{Client, FeedEvent};
use ovsdb::fake::{Fault, Model as Kind, When};
use ovsdb::{Transaction, Uuid};
use serde_json::{Value, json};

use crate::support::backend::{Fake, config, insert, model, synced};
use crate::support::feed::{next, next_change};
use crate::support::stable::{Horse, horse, id};
use crate::support::{eventually, soon};

/// A fake with so many horses.
async fn full(rows: u128) -> Fake {
    let fake = Fake::start(Kind::Standalone).await;
    let inserts: Vec<Value> = (1..=rows).map(|n| insert(id(n), &format!("h{n}"), n as i64)).collect();
    fake.server.transact(&json!(inserts));
    fake
}

#[tokio::test]
async fn a_load_in_small_late_pieces_is_no_silence() {
    let fake = full(300).await;
    // The whole message takes several times the limit of silence, and only its last piece completes it.
    let piece = Fault::Trickle { piece: 1000, pause: Duration::from_millis(100) };
    let trickle = fake.server.faults().on(When::method("monitor_cond_since"), piece);
    let mut settings = config(&fake.server.remote());
    settings.session.probe_interval = Duration::from_millis(400);
    settings.session.load_patience = Duration::from_millis(400);
    let client = synced(settings, model()).await;
    assert_eq!(client.snapshot().table::<Horse>().len(), 300);
    assert_eq!(trickle.struck(), 1);
    let metrics = client.metrics();
    assert!(metrics.bytes_received > 20_000, "{} bytes make too few pieces", metrics.bytes_received);
    assert_eq!((metrics.connections, metrics.disconnections), (1, 0));
}

#[tokio::test]
async fn a_server_that_asks_during_a_long_load_is_answered() {
    let fake = full(10_000).await;
    // Before the content, and behind a great change that is taken in while they come.
    let before = fake.server.faults().on(When::method("monitor_cond_since"), Fault::Echo(50));
    let client = synced(config(&fake.server.remote()), model()).await;
    assert_eq!(client.snapshot().table::<Horse>().len(), 10_000);
    assert_eq!(before.struck(), 1);
    let every = json!([{"op": "update", "table": "Horse", "where": [], "row": {"seq": 0}}]);
    fake.server.transact(&every);
    (0..50).for_each(|_| fake.server.probe());
    assert!(fake.server.unanswered() >= 50, "asked before anything could be answered");
    eventually("all are answered", async || (fake.server.unanswered() == 0).then_some(())).await;
    eventually("the change is there", async || {
        client.snapshot().table::<Horse>().iter().all(|(_, horse)| horse.seq == 0).then_some(())
    })
    .await;
    let metrics = client.metrics();
    assert_eq!((metrics.connections, metrics.disconnections), (1, 0));
    assert_eq!(fake.server.connections(), 1);
}

/// A server answers in order, so the content that comes after a change has it.
#[tokio::test]
async fn a_change_told_between_request_and_content_is_there_once_and_told_once() {
    let fake = full(2).await;
    let told = |n: u128| {
        let row = json!({"insert": {"name": format!("h{n}"), "seq": n as i64}});
        let params = json!(["content-3", Uuid::nil().to_string(), {"Horse": {id(n).to_string(): row}}]);
        Fault::Before(json!({"id": null, "method": "update3", "params": params}).to_string())
    };
    let early = fake.server.faults().on(When::method("monitor_cond_since"), told(1));
    let client = Client::open(config(&fake.server.remote()), model());
    let mut feed = client.subscribe_all();
    soon("in sync", client.synced()).await.unwrap();
    assert_eq!(early.struck(), 1);
    assert_eq!(next_change(&mut feed).await, ["h1: none -> 1", "h2: none -> 2"]);
    assert!(matches!(next(&mut feed).await, FeedEvent::Synced { .. }));
    assert!(feed.try_next().is_none());
    assert_eq!(client.snapshot().table::<Horse>().len(), 2);

    // It was this monitor's: later the same is a change.
    fake.server.faults().on(When::method("transact"), told(7));
    let mut txn = Transaction::new();
    txn.insert(id(8), &horse("h8", 8));
    client.commit(&txn).await.unwrap();
    let mut later = [next_change(&mut feed).await, next_change(&mut feed).await].concat();
    later.sort();
    assert_eq!(later, ["h7: none -> 7", "h8: none -> 8"]);
    let counters = client.status().borrow().counters;
    assert_eq!((counters.loads, counters.repairs), (1, 0));
    assert_eq!((client.metrics().connections, client.metrics().disconnections), (1, 0));
}
