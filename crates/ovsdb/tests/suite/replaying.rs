//! A recorded session replays to the same requests and the same final state.

use ovsdb::Transaction;
use ovsdb::client::replay;
use ovsdb::model::Condition;
use ovsdb::session::Event;
use ovsdb::wire::Function;
use serde_json::json;

use crate::support::backend::{Backend, config, insert, model, synced, update};
use crate::support::eventually;
use crate::support::feed::horses;
use crate::support::stable::{Horse, horse, id};

#[tokio::test]
async fn a_recording_plays_back_to_the_same_events_and_requests() {
    let mut backend = Backend::real().await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session.jsonl");
    backend.transact(json!([insert(id(1), "a", 1)])).await;
    let mut settings = config(&backend.remote());
    settings.record = Some(path.clone());
    let client = synced(settings.clone(), model()).await;
    let mut feed = client.subscribe_all();

    backend.transact(json!([update(id(1), json!({"seq": 2}))])).await;
    let mut lock = client.lock("gate").await;
    lock.held().await;
    for n in 2..10u128 {
        let mut txn = Transaction::new();
        txn.assert_lock("gate").insert(id(n), &horse(format!("h{n}"), n as i64));
        client.commit(&txn).await.unwrap();
    }
    let mut twin = Transaction::new();
    twin.insert(id(2), &horse("twin", 0));
    client.commit(&twin).await.unwrap_err();
    let few = Condition::column(Horse::SEQ, Function::Less, &5i64);
    client.set_condition::<Horse>(few).await.unwrap();
    backend.stop().await;
    backend.change_offline(json!([update(id(1), json!({"seq": 3}))])).await;
    backend.start().await;
    eventually("what changed meanwhile", async || {
        (client.snapshot().get::<Horse>(id(1))?.seq == 3).then_some(())
    })
    .await;
    client.synced().await.unwrap();
    let end = client.snapshot();
    let connections = client.metrics().connections;
    client.close().await;
    drop(lock);

    let mut told = Vec::new();
    while let Some(event) = feed.next().await {
        if let ovsdb::FeedEvent::Changed { delta, .. } = event {
            told.extend(horses(&delta));
        }
    }
    let replayed = replay(&path, settings.session.clone(), model()).unwrap();
    assert_eq!(replayed.difference, None);
    assert!(replayed.sent > 15, "{}", replayed.sent);
    let mut again = Vec::new();
    let mut connected = 0;
    for event in &replayed.events {
        match event {
            Event::Changed(delta) => again.extend(horses(delta)),
            Event::Connected { .. } => connected += 1,
            _ => {}
        }
    }
    assert_eq!(again, told);
    assert_eq!(connected, connections);
    assert!(replayed.snapshot.diff(&end).is_empty() && replayed.snapshot.seq() == end.seq());

    // A session with another configuration acts differently, and the replay reports that.
    let mut other = settings.session.clone();
    other.newest_method = ovsdb::session::Method::Cond;
    let difference = replay(&path, other, model()).unwrap().difference.unwrap();
    assert!(difference.recorded.unwrap().contains("monitor_cond_since"));
    assert!(!difference.done.unwrap().contains("monitor_cond_since"));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"open\"", "\"opine\"", 1)).unwrap();
    let error = replay(&path, settings.session, model()).unwrap_err();
    assert!(error.to_string().contains("of the recording"), "{error}");
}
