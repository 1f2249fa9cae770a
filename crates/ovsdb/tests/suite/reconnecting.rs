//! Reconnects: nothing is lost, nothing is reported twice, and unknown outcomes are reported as unknown.

use ovsdb::client::FeedEvent;
use ovsdb::fake::{Fault, Model as Kind, When};
use ovsdb::session::{CloseReason, Refusal, Status, SyncKind};
use ovsdb::{CommitError, Transaction, Uuid};
use serde_json::json;

use crate::support::backend::{
    Backend, Fake, config, delete, in_sync, insert, model, on, on_all, synced, update,
};
use crate::support::feed::{horses, next, next_change};
use crate::support::server::{Member, Server, Standalone};
use crate::support::stable::{self, Horse, horse, id};
use crate::support::{PATIENCE, eventually, soon};

on_all! {
    async fn a_reload_publishes_exactly_what_changed_meanwhile(backend) {
        backend.transact(json!([insert(id(1), "kept", 1), insert(id(2), "changed", 2), insert(id(3), "deleted", 3)])).await;
        let client = backend.client().await;
        let mut feed = client.subscribe();
        let kept = client.snapshot().table::<Horse>().get(id(1)).unwrap().clone();
        backend.stop().await;
        assert!(matches!(next(&mut feed).await, FeedEvent::Disconnected { .. }));
        assert_eq!(client.snapshot().table::<Horse>().len(), 3, "the replica stays");
        let mut txn = Transaction::new();
        txn.insert(id(9), &horse("z", 9));
        assert_eq!(client.commit(&txn).await.unwrap_err(), CommitError::NotConnected);
        assert_eq!(client.commit_grouped(&txn).await.unwrap_err(), CommitError::NotConnected);

        backend.change_offline(json!([update(id(2), json!({"seq": 20})), delete(id(3)), insert(id(4), "new", 4)])).await;
        backend.start().await;
        let FeedEvent::Changed { delta, lagged } = next(&mut feed).await else { panic!() };
        assert_eq!(horses(&delta), ["changed: 2 -> 20", "deleted: 3 -> none", "new: none -> 4"]);
        assert!(!lagged);
        let snapshot = feed.snapshot();
        let same = snapshot.table::<Horse>().get(id(1)).unwrap();
        assert!(std::sync::Arc::ptr_eq(same, &kept), "what did not change is the same allocation");
        let FeedEvent::Reconnected { how } = next(&mut feed).await else { panic!() };
        assert_eq!(how, backend.way_back());
        assert!(feed.try_next().is_none());
        client.commit(&txn).await.unwrap();
        assert_eq!(next_change(&mut feed).await, ["z: none -> 9"]);

        // No row changed, so the feed reports only the reconnect.
        backend.stop().await;
        assert!(matches!(next(&mut feed).await, FeedEvent::Disconnected { .. }));
        backend.start().await;
        assert!(matches!(next(&mut feed).await, FeedEvent::Reconnected { .. }));
        assert!(feed.try_next().is_none());
    }
}

on! {
    // A relay of OVS 3.1 keeps the schema that it began with.
    [real, fake, cluster]
    async fn the_schema_is_converted_while_connected(backend) {
        backend.transact(json!([insert(id(1), "a", 1)])).await;
        let client = backend.client().await;
        let mut lock = client.lock("gate").await;
        assert!(soon("the lock is free", lock.held()).await);
        let mut tall = Transaction::new();
        tall.insert(id(2), &Horse { height: 170, ..horse("b", 2) });
        assert!(matches!(client.commit(&tall).await, Err(CommitError::Unsupported { .. })));
        assert!(!client.snapshot().fit::<Horse>().is_exact());

        backend.convert(&stable::newer_schema()).await;
        eventually("the new column is known", async || client.fit().table::<Horse>()?.is_exact().then_some(())).await;
        soon("in sync again", client.synced()).await.unwrap();
        client.commit(&tall).await.unwrap();
        assert_eq!(client.snapshot().get::<Horse>(id(2)).unwrap().height, 170);
        assert_eq!(client.snapshot().get::<Horse>(id(1)).unwrap().name, "a");

        // After the conversion back the column is gone. The row stays, and the column reads as its default.
        backend.convert(stable::SCHEMA).await;
        eventually("the column is gone", async || (!client.fit().table::<Horse>()?.is_exact()).then_some(())).await;
        eventually("the height reads as default", async || {
            (client.snapshot().get::<Horse>(id(2))?.height == 0).then_some(())
        }).await;
        assert_eq!(client.snapshot().table::<Horse>().len(), 2);

        // All of this happens on one connection, so its lock is still held.
        assert!(lock.is_held());
        let mut asserting = Transaction::new();
        asserting.assert_lock("gate").insert(id(3), &horse("c", 3));
        soon("in sync again", client.synced()).await.unwrap();
        client.commit(&asserting).await.unwrap();
        assert_eq!((client.metrics().connections, client.metrics().disconnections), (1, 0));
    }
}

on! {
    // A relay of OVS 3.1 keeps the schema that it began with.
    [real, fake, cluster]
    async fn a_schema_that_ceases_to_fit_is_refused_and_mended(backend) {
        let client = backend.client().await;
        let without = stable::SCHEMA.replace(r#""seq": {"type": "integer"},"#, "");
        backend.convert(&without).await;
        let error = eventually("the misfit is told", async || client.synced_within(PATIENCE).await.err()).await;
        assert_eq!(error.to_string(), "the server's schema does not fit: table Horse has no column seq");
        backend.convert(stable::SCHEMA).await;
        eventually("it fits again", async || client.synced_within(PATIENCE).await.ok()).await;
    }
}

#[tokio::test]
async fn a_restored_database_is_taken_as_it_is() {
    // Clustered, with one member: only clusters have an index that can go back.
    let dir = tempfile::tempdir().unwrap();
    let schema = dir.path().join("schema");
    std::fs::write(&schema, stable::SCHEMA).unwrap();
    let file = dir.path().join("db");
    let create = |address: &str| {
        let (file, schema) = (file.to_str().unwrap(), schema.to_str().unwrap());
        crate::support::server::tool(&["create-cluster", file, schema, address]);
    };
    create("unix:raft1");
    let mut server = Server::new(&dir.path().join("server"), vec![file.display().to_string()]);
    server.run();
    let client = synced(config(&server.unix()), model()).await;
    let mut feed = client.subscribe();
    for n in 1..=20u128 {
        let mut txn = Transaction::new();
        txn.insert(id(n), &horse(format!("h{n}"), n as i64));
        client.commit(&txn).await.unwrap();
        next_change(&mut feed).await;
    }
    // Another database at the same place: younger log, other content.
    server.kill();
    std::fs::remove_file(&file).unwrap();
    create("unix:raft2");
    server.run();
    let told = next_change(&mut feed).await;
    assert_eq!(told.len(), 20, "{told:?}");
    assert!(told.iter().all(|line| line.ends_with("-> none")));
    soon("in sync", client.synced()).await.unwrap();
    assert!(client.snapshot().table::<Horse>().is_empty());
}

#[tokio::test]
async fn a_database_restored_from_a_copy_is_taken_once_it_is_all_there_is() {
    let mut member = Member::start(stable::SCHEMA, "Stable").await;
    let (file, copy) = (member.dir.path().join("db"), member.dir.path().join("copy"));
    let mut config = config(&member.server.unix());
    config.session.stale_limit = Some(std::time::Duration::from_secs(1));
    let client = synced(config, model()).await;
    let mut feed = client.subscribe();
    for n in 1..=20u128 {
        let mut txn = Transaction::new();
        txn.insert(id(n), &horse(format!("h{n}"), n as i64));
        client.commit(&txn).await.unwrap();
        next_change(&mut feed).await;
        if n == 5 {
            std::fs::copy(&file, &copy).unwrap();
        }
    }
    // The same cluster with an older log.
    member.server.kill();
    std::fs::rename(&copy, &file).unwrap();
    member.server.run();
    let mut status = client.status();
    let stale =
        |status: &Status| matches!(status.last_close, Some(CloseReason::Refused(Refusal::Stale { .. })));
    soon("it is refused at first", status.wait_for(stale)).await.unwrap();
    let mut gone: Vec<_> = (6..=20).map(|n| format!("h{n}: {n} -> none")).collect();
    gone.sort();
    assert_eq!(next_change(&mut feed).await, gone);
    assert!(matches!(next(&mut feed).await, FeedEvent::Reconnected { how: SyncKind::Reloaded }));
    let mut txn = Transaction::new();
    txn.insert(id(6), &horse("h6", 60));
    client.commit(&txn).await.unwrap();
    assert_eq!(next_change(&mut feed).await, ["h6: none -> 60"]);
}

#[tokio::test]
async fn a_member_that_lags_behind_is_refused_until_it_has_caught_up() {
    let member = |server| Kind::Clustered { cluster: Uuid::from_u128(1), server: Uuid::from_u128(server) };
    let (mut used, other) = (Fake::start(member(2)).await, Fake::start(member(3)).await);
    used.server.transact(&json!([insert(id(1), "a", 1)]));
    other.server.follow(&used.server);
    let mut config = config(&format!("{},{}", used.server.remote(), other.server.remote()));
    config.session.leader_only = false;
    config.session.shuffle = false;
    let client = synced(config, model()).await;
    let mut feed = client.subscribe();
    used.server.transact(&json!([update(id(1), json!({"seq": 2})), insert(id(2), "b", 2)]));
    assert_eq!(next_change(&mut feed).await, ["a: 1 -> 2", "b: none -> 2"]);

    used.server.stop().await;
    assert!(matches!(next(&mut feed).await, FeedEvent::Disconnected { .. }));
    let mut status = client.status();
    let old = |status: &Status| {
        status.last_close.as_ref().is_some_and(|why| why.to_string().contains("data is old"))
    };
    soon("the other one is refused", status.wait_for(old)).await.unwrap();
    assert!(feed.try_next().is_none());
    assert_eq!(client.snapshot().get::<Horse>(id(1)).unwrap().seq, 2, "nothing goes back in time");
    other.server.follow(&used.server);
    let FeedEvent::Reconnected { how } = next(&mut feed).await else { panic!() };
    assert_eq!(how, SyncKind::Resumed);
    assert!(feed.try_next().is_none(), "nothing is told twice");
    other.server.transact(&json!([delete(id(2))]));
    assert_eq!(next_change(&mut feed).await, ["b: 2 -> none"]);
}

#[tokio::test]
async fn a_cluster_is_resumed_without_loading_again() {
    let kind = Kind::Clustered { cluster: Uuid::from_u128(1), server: Uuid::from_u128(2) };
    let fake = Fake::start(kind).await;
    fake.server.transact(&json!([insert(id(1), "a", 1), insert(id(2), "b", 2)]));
    let client = fake.client().await;
    let mut feed = client.subscribe();
    fake.server.disconnect_all();
    assert!(matches!(next(&mut feed).await, FeedEvent::Disconnected { .. }));
    fake.server.transact(&json!([update(id(1), json!({"seq": 10}))]));
    assert_eq!(next_change(&mut feed).await, ["a: 1 -> 10"]);
    assert!(matches!(next(&mut feed).await, FeedEvent::Reconnected { how: SyncKind::Resumed }));
    // The server forgot its history, so the client loads everything. The feed still reports only the difference.
    fake.server.forget_history();
    fake.server.disconnect_all();
    assert!(matches!(next(&mut feed).await, FeedEvent::Disconnected { .. }));
    assert!(matches!(next(&mut feed).await, FeedEvent::Reconnected { how: SyncKind::Reloaded }));
}

#[tokio::test]
async fn a_lost_reply_leaves_the_outcome_unknown() {
    let Backend::Fake(fake) = Backend::fake().await else { unreachable!() };
    let client = fake.client().await;
    let txn = |n: u128| {
        let mut txn = Transaction::new();
        txn.insert(id(n), &horse(format!("h{n}"), n as i64));
        txn
    };
    for (n, fault, happened) in [
        (1, Fault::CloseBeforeCommit, false),
        (2, Fault::CloseAfterCommit, true),
        (3, Fault::HalfMessage, true),
    ] {
        for (n, grouped) in [(n, false), (n + 10, true)] {
            fake.server.faults().on(When::method("transact"), fault.clone());
            let outcome = match grouped {
                false => client.commit(&txn(n)).await,
                true => client.commit_grouped(&txn(n)).await,
            };
            assert!(matches!(outcome, Err(CommitError::Unknown { .. })), "{fault:?}: {outcome:?}");
            in_sync(&client).await;
            // Looking is the answer: the replica knows now.
            assert_eq!(client.snapshot().get::<Horse>(id(n)).is_some(), happened, "{fault:?}");
        }
    }
    assert_eq!(client.metrics().unknown, 6);
}

#[tokio::test]
async fn a_server_killed_in_the_middle_leaves_no_doubt_that_looking_does_not_remove() {
    let mut server = Standalone::start(stable::SCHEMA);
    let client = synced(config(&server.unix()), model()).await;
    let mut sent = 0u128;
    for _ in 0..3 {
        let mut pending = Vec::new();
        for _ in 0..200 {
            sent += 1;
            let (client, n) = (client.clone(), sent);
            pending.push((
                n,
                tokio::spawn(async move {
                    let mut txn = Transaction::new();
                    txn.insert(id(n), &horse(format!("h{n}"), n as i64));
                    client.commit(&txn).await
                }),
            ));
        }
        tokio::task::yield_now().await;
        server.kill();
        let mut outcomes = Vec::new();
        for (n, task) in pending {
            outcomes.push((n, task.await.unwrap()));
        }
        server.run();
        in_sync(&client).await;
        for (n, outcome) in outcomes {
            let there = client.snapshot().get::<Horse>(id(n)).is_some();
            match outcome {
                // A kill loses nothing that is in the file, because the server writes before it replies.
                Ok(_) => assert!(there, "{n} was committed"),
                Err(CommitError::NotConnected) => assert!(!there, "{n} was not sent"),
                Err(CommitError::Unknown { .. }) => {}
                Err(error) => panic!("{n}: {error}"),
            }
        }
    }
}
