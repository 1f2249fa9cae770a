//! A RAFT cluster of three, and a relay: nothing is lost or duplicated, and order is kept, through all faults of the members.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ovsdb::client::{Feed, FeedEvent};
use ovsdb::session::{CloseReason, Progress, Refusal, SyncKind};
use ovsdb::{Client, CommitError, Model, Transaction, Uuid};
use serde_json::json;
use tokio::sync::watch;

use crate::support::backend::{config, in_sync, model, synced};
use crate::support::feed::{next, next_change};
use crate::support::server::{Cluster, Member, Server, Standalone};
use crate::support::stable::{self, Horse, horse, id};
use crate::support::{eventually, soon};

const TRANSACTIONS: i64 = 5000;
/// The number of transactions in flight at the same time.
const WINDOW: i64 = 25;

fn row(seq: i64) -> Transaction {
    let mut txn = Transaction::new();
    txn.insert(id(seq as u128), &horse(format!("h{seq}"), seq));
    txn
}

/// Writes the whole stream in order, its end when all has happened that is to happen. An outcome that is not known is
/// found out by looking.
async fn write_all(client: Client, progress: Arc<AtomicU64>, mut calm: watch::Receiver<bool>) {
    let mut next = 1;
    while next <= TRANSACTIONS {
        if next > TRANSACTIONS - 10 * WINDOW {
            calm.wait_for(|calm| *calm).await.unwrap();
        }
        let window = next..=(next + WINDOW - 1).min(TRANSACTIONS);
        let mut pending = Vec::new();
        for seq in window {
            pending.push((seq, client.enqueue(&row(seq)).await.unwrap()));
        }
        let mut outcomes = Vec::new();
        for (seq, pending) in pending {
            outcomes.push((seq, pending.await));
        }
        for (seq, outcome) in outcomes {
            match outcome {
                Ok(_) => {
                    assert_eq!(seq, next, "what is behind a failure did not happen");
                    next += 1;
                }
                Err(error) => {
                    let looks = error.is_duplicate_row()
                        || matches!(error, CommitError::Unknown { .. } | CommitError::NotConnected);
                    assert!(looks, "{seq}: {error}");
                    in_sync(&client).await;
                    if seq == next && client.snapshot().get::<Horse>(id(seq as u128)).is_some() {
                        next += 1;
                    }
                }
            }
        }
        progress.store(next as u64, Ordering::Relaxed);
    }
}

/// Reads the whole stream: every row once, in order, and never a change of one that was there.
async fn read_all(mut feed: Feed) -> usize {
    let mut last = 0;
    let mut reconnections = 0;
    while last < TRANSACTIONS {
        match feed.next().await.expect("the client is open") {
            FeedEvent::Changed { delta, .. } => {
                let mut seqs = BTreeSet::new();
                for change in delta.table::<Horse>() {
                    assert!(
                        change.before.is_none(),
                        "{} was told before",
                        change.before.as_ref().unwrap().seq
                    );
                    seqs.insert(change.after.as_ref().expect("nothing is deleted").seq);
                }
                let expected: BTreeSet<_> = (last + 1..=last + seqs.len() as i64).collect();
                assert_eq!(seqs, expected, "what is told continues what was told");
                last += seqs.len() as i64;
            }
            FeedEvent::Reconnected { .. } => reconnections += 1,
            _ => {}
        }
    }
    reconnections
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_survives_what_happens_to_a_cluster() {
    let mut cluster = Cluster::start(stable::SCHEMA, "Stable").await;
    let mut settings = config(&cluster.remotes());
    settings.session.probe_interval = Duration::from_secs(1);
    let writer = synced(settings.clone(), model()).await;
    settings.session.leader_only = false;
    let reader = synced(settings, Model::new("Stable").table::<Horse>()).await;
    let reading = tokio::spawn(read_all(reader.subscribe_all()));
    let progress = Arc::new(AtomicU64::new(0));
    let (calm, is_calm) = watch::channel(false);
    let writing = tokio::spawn(write_all(writer.clone(), progress.clone(), is_calm));
    let reached = async |count: u64| {
        eventually("the stream goes on", async || (progress.load(Ordering::Relaxed) >= count).then_some(()))
            .await;
    };

    reached(700).await;
    let leader = cluster.leader().await;
    cluster.members[leader].kill();
    reached(1400).await;
    cluster.members[leader].run();

    reached(1700).await;
    let leader = cluster.leader().await;
    cluster.transfer_leadership(leader);
    eventually("another member leads", async || (cluster.leader().await != leader).then_some(())).await;

    reached(2100).await;
    let follower = (cluster.leader().await + 1) % 3;
    cluster.members[follower].freeze();
    reached(2800).await;
    cluster.members[follower].thaw();

    // To the client, a broken network looks like a leader that does not answer.
    reached(3000).await;
    let leader = cluster.leader().await;
    cluster.members[leader].freeze();
    reached(3400).await;
    cluster.members[leader].thaw();

    for (member, count) in [(0, 3700), (1, 4100), (2, 4500)] {
        reached(count).await;
        cluster.members[member].stop();
        cluster.members[member].run();
        let member = &cluster.members[member];
        eventually("the member is back", async || member.status("Stable").await.filter(|s| s.connected))
            .await;
    }
    calm.send_replace(true);
    soon("the stream is written", writing).await.unwrap();
    let reconnections = soon("the stream is read", reading).await.unwrap();
    assert!(writer.metrics().disconnections >= 3, "the writer was not undisturbed");
    assert!(reconnections >= 1, "nor was the reader");

    let expected: Vec<i64> = (1..=TRANSACTIONS).collect();
    let leader = cluster.leader().await;
    let select = json!({"op": "select", "table": "Horse", "where": [], "columns": ["seq"]});
    let answer = cluster.members[leader].rpc().await.call("transact", &("Stable", select)).await.unwrap();
    let mut stored: Vec<i64> =
        answer[0]["rows"].as_array().unwrap().iter().map(|row| row["seq"].as_i64().unwrap()).collect();
    stored.sort();
    assert_eq!(stored, expected, "what the cluster has");
    for client in [&writer, &reader] {
        eventually("the replica has it too", async || {
            let mut seqs: Vec<_> =
                client.snapshot().table::<Horse>().iter().map(|(_, row)| row.seq).collect();
            seqs.sort();
            (seqs == expected).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_writer_goes_to_the_leader_and_a_reader_stays_with_a_follower() {
    let mut cluster = Cluster::start(stable::SCHEMA, "Stable").await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    let writer = synced(config(&cluster.remotes()), model()).await;
    let remote = |client: &Client| client.status().borrow().remote.as_ref().unwrap().to_string();
    assert_eq!(remote(&writer), cluster.members[leader].tcp());
    let mut settings = config(&cluster.members[follower].tcp());
    settings.session.leader_only = false;
    let reader = synced(settings, model()).await;
    let mut feed = reader.subscribe();

    writer.commit(&row(1)).await.unwrap();
    assert_eq!(next_change(&mut feed).await, ["h1: none -> 1"]);
    reader.commit(&row(2)).await.unwrap();
    assert!(
        reader.snapshot().get::<Horse>(id(2)).is_some(),
        "a follower passes it on, and its replica has it"
    );
    assert_eq!(next_change(&mut feed).await, ["h2: none -> 2"]);

    // A follower that comes back can be resumed: the cluster remembers.
    cluster.members[follower].stop();
    assert!(matches!(next(&mut feed).await, FeedEvent::Disconnected { .. }));
    writer.commit(&row(3)).await.unwrap();
    cluster.members[follower].run();
    assert_eq!(next_change(&mut feed).await, ["h3: none -> 3"]);
    let FeedEvent::Reconnected { how } = next(&mut feed).await else { panic!() };
    assert_eq!(how, SyncKind::Resumed);

    // The client leaves a leader that steps down, and one that dies, for the new one. All members have the writer's rows.
    let mut of_writer = writer.subscribe();
    let moved = async |from: String| {
        eventually("the new leader serves", async || {
            let status = writer.status().borrow().clone();
            let moved = status.remote?.to_string() != from;
            (moved && status.progress == Progress::Synced && status.server?.leader).then_some(())
        })
        .await;
    };
    cluster.transfer_leadership(leader);
    moved(cluster.members[leader].tcp()).await;
    assert!(cluster.members[leader].is_running());
    let FeedEvent::Disconnected { reason } = next(&mut of_writer).await else { panic!() };
    assert!(reason.to_string().contains("does not lead"), "{reason}");
    let FeedEvent::Reconnected { how } = next(&mut of_writer).await else { panic!() };
    assert_eq!(how, SyncKind::Resumed);
    writer.commit(&row(4)).await.unwrap();

    let leader = cluster.leader().await;
    cluster.members[leader].kill();
    moved(cluster.members[leader].tcp()).await;
    writer.commit(&row(5)).await.unwrap();
}

#[tokio::test]
async fn only_the_cluster_that_the_remotes_name_is_taken() {
    let member = Member::start(stable::SCHEMA, "Stable").await;
    let remote = member.server.unix();
    let anyone = synced(config(&remote), model()).await;
    let right = anyone.status().borrow().server.as_ref().unwrap().cluster_id.unwrap();
    let wrong = Uuid::from_u128(7);
    let refused = async |client: &Client| {
        let mut status = client.status();
        let why = CloseReason::Refused(Refusal::WrongCluster { expected: wrong, found: Some(right) });
        soon("it is refused", status.wait_for(|status| status.last_close.as_ref() == Some(&why)))
            .await
            .unwrap();
    };
    refused(&Client::open(config(&format!("{remote},cid:{wrong}")), model())).await;
    let client = synced(config(&format!("{remote},cid:{right}")), model()).await;

    // Remotes that are set later name a cluster too.
    client.set_remotes(format!("{remote},cid:{wrong}").parse().unwrap()).await;
    refused(&client).await;
    client.set_remotes(format!("{remote},cid:{right}").parse().unwrap()).await;
    in_sync(&client).await;
}

#[tokio::test]
async fn a_relay_is_read_and_written_through() {
    let mut main = Standalone::start(stable::SCHEMA);
    let mut relay =
        Server::new(&main.dir.path().join("relay"), vec![format!("relay:Stable:{}", main.unix())]);
    relay.run();
    let mut settings = config(&relay.unix());
    settings.session.leader_only = false;
    let client = synced(settings, model()).await;
    let direct = synced(config(&main.unix()), model()).await;
    let mut feed = client.subscribe();
    let mut of_direct = direct.subscribe();

    direct.commit(&row(1)).await.unwrap();
    assert_eq!(next_change(&mut feed).await, ["h1: none -> 1"]);
    client.commit(&row(2)).await.unwrap();
    assert!(client.snapshot().get::<Horse>(id(2)).is_some(), "reads its own writes through the relay");
    assert!(client.commit(&row(2)).await.unwrap_err().is_duplicate_row());
    assert_eq!(next_change(&mut of_direct).await, ["h1: none -> 1"]);
    assert_eq!(next_change(&mut of_direct).await, ["h2: none -> 2"]);
    assert_eq!(next_change(&mut feed).await, ["h2: none -> 2"]);

    // The relay's source returns, and no change is reported twice.
    main.kill();
    main.run();
    assert_eq!(client.snapshot().table::<Horse>().len(), 2);
    in_sync(&direct).await;
    let outcome =
        eventually("the source takes writes again", async || direct.commit(&row(3)).await.ok()).await;
    assert_eq!(outcome.results().len(), 1);
    assert_eq!(next_change(&mut feed).await, ["h3: none -> 3"]);
}
