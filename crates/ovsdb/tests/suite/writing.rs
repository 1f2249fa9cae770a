//! Commits: the columns that they change and leave alone, and their failures.

use ovsdb::txn::{OpResult, View};
use ovsdb::{Class, CommitError, Ref, RowFilter, Snapshot, Transaction};
use serde_json::json;

use crate::support::backend::{delete, insert, on_all, update};
use crate::support::eventually;
use crate::support::stable::{Horse, Rider, horse, id};

on_all! {
    async fn who_commits_reads_its_own_writes(backend) {
        let client = backend.client().await;
        for n in 1..=50 {
            let mut txn = Transaction::new();
            txn.insert(id(n), &horse(format!("h{n}"), n as i64)).comment("reading one's own writes");
            let committed = client.commit(&txn).await.unwrap();
            assert!(matches!(committed.results(), [OpResult::Inserted(uuid), OpResult::Done] if *uuid == id(n)));
            assert_eq!(client.snapshot().get::<Horse>(id(n)).unwrap().seq, n as i64);
        }
        let mut txn = Transaction::new();
        txn.delete::<Horse>(id(1)).delete::<Horse>(id(1000));
        let committed = client.commit(&txn).await.unwrap();
        assert_eq!(committed.missed().collect::<Vec<_>>(), [1]);
        assert_eq!(client.snapshot().table::<Horse>().len(), 49);
        assert!(client.commit(&Transaction::new()).await.unwrap().results().is_empty());
    }
}

on_all! {
    async fn every_column_survives_the_way_there_and_back(backend) {
        let client = backend.client().await;
        let before = Horse {
            name: "\"quoted\" \\ \u{1f40e} \u{7}".into(),
            seq: i64::MIN,
            labels: [("a".into(), "1".into()), ("b".into(), "".into())].into(),
            tags: ["x".into(), "".into()].into(),
            colour: Some("bay".into()),
            riders: [Ref::new(id(7)), Ref::new(id(8))].into(),
            friend: Some(id(1).into()),
            height: 0,
        };
        let mut txn = Transaction::new();
        txn.insert(id(1), &before);
        for n in [7, 8] {
            txn.insert(id(n), &Rider { name: format!("r{n}").into() });
        }
        client.commit(&txn).await.unwrap();
        assert_eq!(client.snapshot().get::<Horse>(id(1)), Some(&before));
        let after = Horse {
            name: "plain".into(),
            seq: i64::MAX,
            labels: [("b".into(), "2".into()), ("c".into(), "3".into())].into(),
            tags: ["y".into()].into(),
            colour: None,
            riders: [Ref::new(id(8))].into(),
            friend: None,
            height: 0,
        };
        let mut txn = Transaction::new();
        txn.update(id(1), &before, &after);
        client.commit(&txn).await.unwrap();
        assert_eq!(client.snapshot().get::<Horse>(id(1)), Some(&after));
        assert!(client.snapshot().get::<Rider>(id(7)).is_none(), "what nobody refers to goes");
    }
}

on_all! {
    async fn what_others_wrote_into_a_map_or_set_stays(backend) {
        backend.transact(json!([insert(id(1), "a", 1), update(id(1), json!({
            "labels": ["map", [["mine", "1"], ["gone", "1"]]], "tags": ["set", ["mine", "gone"]]}))])).await;
        let client = backend.client().await;
        let before = client.snapshot().get::<Horse>(id(1)).unwrap().clone();
        let mut after = before.clone();
        after.labels.remove("gone");
        after.labels.insert("mine".into(), "2".into());
        after.labels.insert("new".into(), "ours".into());
        after.tags = ["mine".into(), "new".into()].into();
        // Another client writes first, and sets a value for our new key too.
        let hasty = json!([["labels", "insert", ["map", [["theirs", "x"], ["new", "theirs"]]]], ["tags", "insert", "theirs"]]);
        backend.transact(json!([{"op": "mutate", "table": "Horse", "where": [], "mutations": hasty}])).await;
        let mut txn = Transaction::new();
        txn.update(id(1), &before, &after);
        client.commit(&txn).await.unwrap();
        let horse = client.snapshot().get::<Horse>(id(1)).unwrap().clone();
        assert_eq!(horse.labels, [("mine", "2"), ("new", "ours"), ("theirs", "x")].map(|(k, v)| (k.into(), v.into())).into());
        assert_eq!(horse.tags, ["mine", "new", "theirs"].map(Into::into).into());
    }
}

on_all! {
    async fn an_expectation_that_does_not_hold_is_a_conflict(backend) {
        backend.transact(json!([insert(id(1), "a", 1)])).await;
        let client = backend.client().await;
        let seen = client.snapshot();
        let write = |snapshot: &Snapshot, read: &dyn Fn(&mut View)| {
            View::decide(snapshot.clone(), |view| {
                read(view);
                view.transaction().put(id(1), Horse::TAGS, &["x".into()].into());
            })
        };
        let all = |view: &mut View| assert!(view.get::<Horse>(id(1)).is_some());
        client.commit(&write(&seen, &all)).await.unwrap();
        backend.transact(json!([update(id(1), json!({"seq": 2, "tags": ["set", []]})), insert(id(2), "b", 3)])).await;
        for read in [
            &all as &dyn Fn(&mut View),
            &|view| assert!(view.read(id(1), Horse::SEQ).is_some()),
            &|view| assert!(view.get::<Horse>(id(2)).is_none()),
            &|view| assert!(view.matching(Horse::SEQ, &2i64).is_empty()),
        ] {
            let error = client.commit(&write(&seen, read)).await.unwrap_err();
            assert!(matches!(error, CommitError::Conflict { op: Some((0, _)) }), "{error}");
            assert_eq!(error.class(), Class::Conflict);
        }
        let newer = |snapshot: &Snapshot| snapshot.get::<Horse>(id(2)).is_some();
        let now = eventually("both changes", async || Some(client.snapshot()).filter(newer)).await;
        let two = |view: &mut View| assert_eq!(view.matching(Horse::SEQ, &2i64), [id(1).into()]);
        client.commit(&write(&now, &two)).await.unwrap();
    }
}

on_all! {
    async fn a_decision_is_made_anew_until_it_holds(backend) {
        backend.transact(json!([insert(id(1), "counter", 0)])).await;
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(backend.client().await);
        }
        // Begun in one go, all first decide by the same snapshot.
        let mut tasks = tokio::task::JoinSet::new();
        for client in clients {
            tasks.spawn(async move {
                for _ in 0..5 {
                    client.transact(|view| {
                        assert!(view.update::<Horse>(id(1), |horse| horse.seq += 1));
                        Ok::<_, CommitError>(())
                    }).await.unwrap();
                }
                client.metrics().conflicts
            });
        }
        let conflicts: u64 = tasks.join_all().await.into_iter().sum();
        assert!(conflicts >= 3, "one of the first four won, but there were {conflicts} conflicts");
        let client = backend.client().await;
        assert_eq!(client.snapshot().get::<Horse>(id(1)).unwrap().seq, 20, "no update is lost");

        // The expectation of an absent row counts too: of several clients that each want to insert the only row, one succeeds.
        let mut tasks = tokio::task::JoinSet::new();
        for n in 10..14 {
            let client = backend.client().await;
            tasks.spawn(async move {
                client.transact(|view| {
                    let others = view.matching(Horse::SEQ, &-1i64);
                    if others.is_empty() {
                        view.insert(id(n), &horse(format!("only{n}"), -1));
                    }
                    Ok::<_, CommitError>(others.is_empty())
                }).await.unwrap()
            });
        }
        assert_eq!(tasks.join_all().await.into_iter().filter(|won| *won).count(), 1);

        let refused = client.transact(|view| {
            assert!(view.get::<Horse>(id(99)).is_none());
            Err::<(), _>(CommitError::Closed)
        }).await;
        assert_eq!(refused, Err(CommitError::Closed), "the closure's own error ends it");
    }
}

on_all! {
    async fn refusals_name_the_operation_and_the_reason(backend) {
        backend.transact(json!([insert(id(1), "a", 1)])).await;
        let client = backend.client().await;
        let refusal = async |txn: &Transaction| client.commit(txn).await.unwrap_err();

        // A UUID that is taken is a refusal, not a twin.
        let mut txn = Transaction::new();
        txn.comment("first").insert(id(1), &horse("twin", 2));
        let error = refusal(&txn).await;
        assert!(error.is_duplicate_row(), "{error}");
        assert!(error.to_string().contains(&format!("operation 1 (insert into Horse {})", id(1))), "{error}");

        // Deleting and inserting one UUID is not an update.
        let mut txn = Transaction::new();
        txn.delete::<Horse>(id(1)).insert(id(1), &horse("again", 2));
        assert!(refusal(&txn).await.is_duplicate_row());

        // A deferred check fails the transaction as a whole.
        let mut txn = Transaction::new();
        txn.insert(id(2), &horse("a", 2));
        let error = refusal(&txn).await;
        assert!(matches!(&error, CommitError::Refused { op: None, error, .. } if error == "constraint violation"), "{error}");
        let mut txn = Transaction::new();
        txn.insert(id(2), &Horse { riders: [Ref::new(id(77))].into(), ..horse("b", 2) });
        let error = refusal(&txn).await;
        assert!(matches!(&error, CommitError::Refused { op: None, error, .. } if error == "referential integrity violation"), "{error}");
        assert_eq!(error.class(), Class::Refused);

        let mut txn = Transaction::new();
        txn.insert(id(2), &Horse { colour: Some("pink".into()), ..horse("b", 2) });
        assert_eq!(refusal(&txn).await.class(), Class::Refused);
        let mut txn = Transaction::new();
        txn.insert(id(2), &Horse { height: 170, ..horse("b", 2) });
        assert_eq!(refusal(&txn).await, CommitError::Unsupported { table: "Horse".into(), column: "height".into() });
        let mut txn = Transaction::new();
        txn.insert_by_name("Zebra", id(2), []);
        assert!(refusal(&txn).await.to_string().contains("Zebra"));

        assert_eq!(client.snapshot().table::<Horse>().len(), 1, "nothing of it happened");
        client.close().await;
        assert_eq!(refusal(&txn).await, CommitError::Closed);
    }
}

on_all! {
    async fn of_grouped_commits_only_the_bad_ones_fail(backend) {
        backend.transact(json!([insert(id(0), "taken", 0)])).await;
        let client = backend.client().await;
        let mut feed = client.subscribe();
        let mut tasks = Vec::new();
        for n in 1..=300i64 {
            let client = client.clone();
            tasks.push(tokio::spawn(async move {
                let mut txn = Transaction::new();
                match n {
                    100 => txn.insert(id(0), &horse("twin", n)),
                    200 => txn.insert(id(n as u128), &horse("taken", n)),
                    _ => txn.insert(id(n as u128), &horse(format!("h{n}"), n)),
                };
                client.commit_grouped(&txn).await
            }));
        }
        for (n, task) in (1..).zip(tasks) {
            match (n, task.await.unwrap()) {
                (100, Err(error)) => assert!(error.is_duplicate_row(), "{error}"),
                (200, Err(CommitError::Refused { op: None, error, details })) => {
                    assert_eq!(error, "constraint violation");
                    assert!(details.contains("taken"), "{details}");
                }
                (100 | 200, other) => panic!("{n}: {other:?}"),
                (_, outcome) => assert!(matches!(outcome.unwrap().results(), [OpResult::Inserted(uuid)] if *uuid == id(n as u128))),
            }
        }
        assert_eq!(client.snapshot().table::<Horse>().len(), 299);
        assert!(client.metrics().batches < 60, "{} batches for 300 transactions", client.metrics().batches);
        let mut told = 0;
        while let Some(event) = feed.try_next() {
            if let ovsdb::client::FeedEvent::Changed { delta, .. } = event {
                told += delta.table::<Horse>().len();
            }
        }
        assert_eq!(told, 298);
    }
}

on_all! {
    async fn a_row_that_others_deleted_is_missed_not_revived(backend) {
        backend.transact(json!([insert(id(1), "a", 1)])).await;
        let client = backend.client().await;
        let before = client.snapshot().get::<Horse>(id(1)).unwrap().clone();
        backend.transact(json!([delete(id(1))])).await;
        eventually("it is gone", async || client.snapshot().get::<Horse>(id(1)).is_none().then_some(())).await;
        let mut txn = Transaction::new();
        txn.update(id(1), &before, &Horse { seq: 5, ..before.clone() });
        assert_eq!(client.commit(&txn).await.unwrap().missed().collect::<Vec<_>>(), [0]);
        let mut txn = Transaction::new();
        txn.expect_some(&RowFilter::<Horse>::row(id(1))).update(id(1), &before, &Horse { seq: 5, ..before.clone() });
        assert_eq!(client.commit(&txn).await.unwrap_err().class(), Class::Conflict);
    }
}
