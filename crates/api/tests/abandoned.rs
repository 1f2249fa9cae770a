//! A server that stops in the middle of a transaction on a real PostgreSQL: the other servers continue.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use api::model::AddressScope;
use api::store::Store;
use api::world::{Outside, Txn};
use lab::postgres::Postgres;
use tokio::sync::watch;

/// Creates an object with a name.
fn make(txn: &mut Txn, name: &str) {
    let id = txn.new_id();
    txn.put(AddressScope { id, project: "p".into(), name: name.into(), ip_version: 4, shared: false });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_stops_while_it_writes_keeps_others_out_for_a_moment_only() {
    let dir = tempfile::tempdir().unwrap();
    let postgres = Postgres::start(&dir.path().join("pg")).unwrap();
    postgres.create_database("meridian").unwrap();
    let open = || async {
        let (_, outside) = watch::channel(Arc::new(Outside::default()));
        Store::open(&postgres.url("meridian").parse().unwrap(), outside).await.unwrap()
    };
    let (stops, other) = (open().await, open().await);
    let (go_on, told) = mpsc::channel::<()>();
    let (inside, reached) = mpsc::channel::<()>();
    let mut first = true;
    let stopping = tokio::spawn(async move {
        stops
            .execute(move |txn: &mut Txn| {
                if std::mem::take(&mut first) {
                    inside.send(()).unwrap();
                    told.recv().unwrap();
                }
                make(txn, "stopped");
                Ok(())
            })
            .await
            .map(drop)
    });
    tokio::task::spawn_blocking(move || reached.recv().unwrap()).await.unwrap();
    let make_other = |txn: &mut Txn| {
        make(txn, "other");
        Ok(())
    };
    let done = tokio::time::timeout(Duration::from_secs(60), other.execute(make_other)).await;
    go_on.send(()).unwrap();
    done.expect("it was let in").unwrap();
    // It finds its transaction gone, and retries for as long as a client may wait.
    let made = stopping.await.unwrap().is_ok();
    let world = other.fresh().await.unwrap();
    let mut names: Vec<_> = world.table::<AddressScope>().iter().map(|scope| scope.name.clone()).collect();
    names.sort();
    let expected: &[&str] = if made { &["other", "stopped"] } else { &["other"] };
    assert_eq!(names, expected, "each once");
}
