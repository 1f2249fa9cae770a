//! Conditions that change while no server is reachable, or while the server goes away. In the end the replica holds the server's rows under
//! the newest condition, and the reported changes add up to them.

use std::collections::BTreeMap;

use ovsdb::client::{Client, FeedEvent};
use ovsdb::fake::{Fault, Model as Kind, When};
use ovsdb::model::Condition;
use ovsdb::replica::Model;
use ovsdb::session::SyncKind;
use ovsdb::wire::Function;
use serde_json::{Value, json};

use crate::support::backend::{Fake, config, delete, insert, on_all, synced, update};
use crate::support::feed::{Reader, next, next_change};
use crate::support::stable::{Horse, id};
use crate::support::{eventually, soon};

/// The horses with these sequence numbers.
fn seqs(wanted: [i64; 2]) -> Condition<Horse> {
    let [one, other] = wanted.map(|seq| Condition::column(Horse::SEQ, Function::Equal, &seq));
    one.or(other)
}

async fn client_of(config: ovsdb::ClientConfig, wanted: [i64; 2]) -> Client {
    synced(config, Model::new("Stable").table_where::<Horse>(seqs(wanted))).await
}

/// The first rows: `a` and `b` are held under the sequence numbers 1 and 2.
fn first() -> Value {
    json!([insert(id(1), "a", 1), insert(id(2), "b", 2), insert(id(3), "c", 3), insert(id(4), "d", 4)])
}

/// Changes that matter to 1 and 2, to 2 and 3, to both or to neither.
fn changes() -> Value {
    json!([
        delete(id(1)),
        update(id(2), json!({"seq": 3})),
        update(id(3), json!({"seq": 9})),
        update(id(4), json!({"seq": 2})),
        insert(id(5), "e", 3),
        insert(id(6), "f", 1),
    ])
}

/// The rows that are then held under the sequence numbers 2 and 3.
fn last() -> BTreeMap<String, i64> {
    [("b", 3), ("d", 2), ("e", 3)].map(|(name, seq)| (name.to_owned(), seq)).into()
}

on_all! {
    async fn a_condition_changed_while_away_is_in_force_on_the_way_back(backend) {
        backend.transact(first()).await;
        let client = client_of(backend.config(), [1, 2]).await;
        let (mut feed, mut reader) = (client.subscribe(), Reader::of(&client.snapshot()));
        backend.stop().await;
        assert!(matches!(next(&mut feed).await, FeedEvent::Disconnected { .. }));
        let changing = client.set_condition::<Horse>(seqs([2, 3]));
        tokio::pin!(changing);
        let waiting = std::future::poll_fn(|cx| std::task::Poll::Ready(changing.as_mut().poll(cx).is_pending()));
        assert!(waiting.await, "nobody is there to put it into force");
        backend.change_offline(changes()).await;
        backend.start().await;
        soon("the condition is in force", changing).await.unwrap();
        assert_eq!(Reader::of(&client.snapshot()).horses, last());
        // Back first, then the change of the condition, or both at once.
        let way_back = reader.until(&mut feed, &last()).await;
        assert_eq!(way_back, [backend.way_back()]);
        assert!(feed.try_next().is_none());
        backend.transact(json!([update(id(5), json!({"seq": 1})), update(id(6), json!({"seq": 2}))])).await;
        assert_eq!(next_change(&mut feed).await, ["e: 3 -> none", "f: none -> 2"]);
    }
}

#[tokio::test]
async fn a_condition_whose_fate_is_unknown_is_asked_for_with_everything() {
    // The server does not apply the condition; or it applies it without a reply; or it applies it and sends its rows without a reply.
    for fault in [Fault::CloseBeforeCommit, Fault::CloseAfterCommit, Fault::HalfMessage] {
        let kind = Kind::Clustered { cluster: id(100), server: id(101) };
        let fake = Fake::start(kind).await;
        fake.server.transact(&first());
        let client = client_of(config(&fake.server.remote()), [1, 2]).await;
        let (mut feed, mut reader) = (client.subscribe(), Reader::of(&client.snapshot()));
        let planned = fake.server.faults().on(When::method("monitor_cond_change"), fault.clone());
        let meanwhile = async {
            eventually("the fault strikes", async || (planned.struck() > 0).then_some(())).await;
            fake.server.transact(&changes());
        };
        let changing = soon("the condition is in force", client.set_condition::<Horse>(seqs([2, 3])));
        let ((), changed) = tokio::join!(meanwhile, changing);
        changed.unwrap();
        let way_back = reader.until(&mut feed, &last()).await;
        assert_eq!(way_back, [SyncKind::Reloaded], "{fault:?}: what the replica held was not known");
        assert_eq!(Reader::of(&client.snapshot()).horses, last(), "{fault:?}");
        assert!(feed.try_next().is_none(), "{fault:?}");
        let metrics = client.metrics();
        assert_eq!((metrics.connections, metrics.disconnections), (2, 1), "{fault:?}");
        fake.server.transact(&json!([update(id(6), json!({"seq": 2}))]));
        assert_eq!(next_change(&mut feed).await, ["f: none -> 2"]);
    }
}
