//! A server that reads nothing: commits wait within bounds, everything else continues, and nothing is lost.

use std::time::Duration;

use ovsdb::client::{FeedEvent, Pending};
use ovsdb::fake::{Fault, Model as Kind, When};
use ovsdb::{Client, ClientConfig, CommitError, Transaction};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::backend::{Fake, config, in_sync, model, synced};
use crate::support::server::Standalone;
use crate::support::stable::{self, Horse, horse, id};
use crate::support::{eventually, soon};

/// Far more commits than can be in flight, wait in the backlog and wait in the queue.
const MANY: u128 = 5000;
/// Bytes that may wait.
const LIMIT: usize = 64 << 10;

/// A transaction of a kilobyte.
fn row(n: u128) -> Transaction {
    row_of(n, 1000)
}

/// A transaction of some more than so many bytes.
fn row_of(n: u128, size: usize) -> Transaction {
    let mut txn = Transaction::new();
    txn.insert(id(n), &horse(format!("h{n}-{}", "x".repeat(size)), n as i64));
    txn
}

/// Little may wait, and nothing but the server's own deeds ends a connection.
fn narrow(remote: &str) -> ClientConfig {
    let mut config = config(remote);
    config.max_backlog = LIMIT;
    config.session.probe_interval = Duration::ZERO;
    config
}

/// Queues transactions until one has to wait; those that did not.
async fn fill(client: &Client) -> Vec<Pending> {
    let mut pending = Vec::new();
    for n in 0..MANY {
        match timeout(Duration::from_millis(500), client.enqueue(&row(n))).await {
            Ok(queued) => pending.push(queued.unwrap()),
            Err(_) => return pending,
        }
    }
    panic!("{MANY} transactions were queued, and none had to wait");
}

/// A fake that falls silent at the first transaction, with a client that has queued all it can.
async fn stuck() -> (Fake, Client, Vec<Pending>) {
    let fake = Fake::start(Kind::Standalone).await;
    let client = synced(narrow(&fake.server.remote()), model()).await;
    fake.server.faults().on(When::method("transact"), Fault::Silence);
    let pending = fill(&client).await;
    (fake, client, pending)
}

/// The number of unknown outcomes, and the number of transactions that were never sent and failed with `unsent`.
async fn outcomes(pending: Vec<Pending>, unsent: CommitError) -> (usize, usize) {
    let (mut unknown, mut refused) = (0, 0);
    for pending in pending {
        match soon("an outcome", pending).await {
            Err(CommitError::Unknown { .. }) => unknown += 1,
            Err(error) if error == unsent => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    (unknown, refused)
}

#[tokio::test]
async fn grouped_commits_wait_for_a_frozen_server_and_go_on_with_it() {
    let server = Standalone::start(stable::SCHEMA);
    let client = synced(narrow(&server.unix()), model()).await;
    server.freeze();
    let mut pending = fill(&client).await;
    // A committer that waits for a slot keeps its place in the queue.
    let (late, n) = (client.clone(), pending.len() as u128);
    let waiting = tokio::spawn(async move { late.enqueue(&row(n)).await });
    server.thaw();
    pending.push(soon("there is room again", waiting).await.unwrap().unwrap());
    let count = pending.len();
    for pending in pending {
        soon("an outcome", pending).await.unwrap();
    }
    let snapshot = client.snapshot();
    assert_eq!(snapshot.table::<Horse>().len(), count, "nothing is lost");
    assert_eq!(client.metrics().connections, 1);
}

#[tokio::test]
async fn single_commits_wait_for_a_frozen_server_and_go_on_with_it() {
    let server = Standalone::start(stable::SCHEMA);
    let client = synced(narrow(&server.unix()), model()).await;
    server.freeze();
    let before = client.metrics();
    let (many, size) = (1500, 10_000);
    let mut commits = JoinSet::new();
    for n in 0..many {
        let client = client.clone();
        commits.spawn(async move { client.commit(&row_of(n, size)).await });
    }
    // Taken and sent until there is no room, which then the next one waits for.
    let taken = || (client.metrics().messages_sent - before.messages_sent) as usize;
    let mut late = Transaction::new();
    late.comment("late");
    eventually("commits wait", async || {
        let next = timeout(Duration::from_millis(100), client.enqueue(&late)).await;
        (next.is_err() && taken() > 0).then_some(())
    })
    .await;
    let gone = (client.metrics().bytes_sent - before.bytes_sent) as usize;
    assert!(taken() * size <= gone + LIMIT + 2 * size, "{} were taken, {gone} bytes are gone", taken());
    server.thaw();
    for outcome in soon("the outcomes", commits.join_all()).await {
        outcome.unwrap();
    }
    assert_eq!(client.snapshot().table::<Horse>().len(), many as usize, "nothing is lost");
    assert_eq!(client.metrics().connections, 1);
}

#[tokio::test]
async fn a_lost_connection_fails_what_waits_and_makes_room() {
    let (fake, client, pending) = stuck().await;
    let queued = pending.len() as u64;
    // The server returns only after all commits got their outcome, so that none of them uses the next connection.
    fake.server.faults().on(When::Connect, Fault::Silence);
    fake.server.disconnect_all();
    let (unknown, unsent) = outcomes(pending, CommitError::NotConnected).await;
    assert!(unknown > 0 && unsent > 0, "{unknown} unknown, {unsent} unsent");
    let metrics = client.metrics();
    assert_eq!((metrics.unknown, metrics.unsent), (unknown as u64, unsent as u64));
    assert_eq!(metrics.unknown + metrics.unsent, queued);

    fake.server.disconnect_all();
    in_sync(&client).await;
    assert!(client.snapshot().table::<Horse>().is_empty(), "what was not sent did not happen");
    soon("a commit", client.commit(&row(1))).await.unwrap();
    soon("a grouped commit", client.commit_grouped(&row(2))).await.unwrap();
}

#[tokio::test]
async fn a_client_that_is_stuck_can_be_closed() {
    let (_fake, client, pending) = stuck().await;
    soon("closing", client.close()).await;
    let (unknown, closed) = outcomes(pending, CommitError::Closed).await;
    assert!(unknown > 0 && closed > 0, "{unknown} unknown, {closed} not sent");
    assert_eq!(client.commit(&row(1)).await.unwrap_err(), CommitError::Closed);
}

#[tokio::test]
async fn a_client_that_is_stuck_ends_with_its_last_copy() {
    let (fake, client, pending) = stuck().await;
    let mut feed = client.subscribe();
    drop(client);
    assert!(soon("the end", feed.next()).await.is_none());
    let (unknown, closed) = outcomes(pending, CommitError::Closed).await;
    assert!(unknown > 0 && closed > 0, "{unknown} unknown, {closed} not sent");
    drop(fake);
}

#[tokio::test]
async fn a_client_that_is_stuck_can_be_sent_elsewhere() {
    let (fake, client, pending) = stuck().await;
    let mut feed = client.subscribe();
    client.reconnect().await;
    let gone = async { while !matches!(feed.next().await, Some(FeedEvent::Disconnected { .. })) {} };
    soon("the connection is dropped", gone).await;
    for pending in pending {
        // Commits that were still queued may use the next connection.
        match soon("an outcome", pending).await {
            Ok(_) | Err(CommitError::Unknown { .. } | CommitError::NotConnected) => {}
            other => panic!("{other:?}"),
        }
    }
    in_sync(&client).await;

    fake.server.faults().on(When::method("transact"), Fault::Silence);
    let pending = fill(&client).await;
    let other = Fake::start(Kind::Standalone).await;
    client.set_remotes(other.server.remote().parse().unwrap()).await;
    for pending in pending {
        let _ = soon("an outcome", pending).await;
    }
    in_sync(&client).await;
    soon("the other server takes it", client.commit(&row(MANY))).await.unwrap();
    assert!(other.server.rows("Horse").iter().any(|row| row["seq"] == MANY as i64));
}
