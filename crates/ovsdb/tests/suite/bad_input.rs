//! Errors about bad input name the cause and the remedy.

use std::time::Duration;

use ovsdb::client::{Dialer, Rpc};
use ovsdb::fake::{Fault, Model as Kind, When};
use ovsdb::model::AtomType;
use ovsdb::session::Remotes;
use ovsdb::wire::{Atom, AtomKind, AtomRef, FromAtom, ValueError};
use ovsdb::{Client, ClientConfig, FeedEvent, Model, Str, Table, Transaction};

use crate::support::backend::{Fake, config, in_sync, insert, model, on_both, synced, update};
use crate::support::server::Standalone;
use crate::support::stable::{self, Horse, id};
use crate::support::{PATIENCE, feed, soon, whole};

fn remotes(text: &str) -> Remotes {
    text.parse().unwrap()
}

#[tokio::test]
async fn a_plain_connection_answers_and_refuses() {
    let server = Standalone::start(stable::SCHEMA);
    let both = format!("unix:{}/nothing,{}", server.dir.path().display(), server.tcp());
    let mut rpc = Rpc::connect(&remotes(&both), &Dialer::default(), PATIENCE).await.unwrap();
    assert_eq!(rpc.remote().to_string(), server.tcp(), "the first that answers");
    assert_eq!(rpc.databases().await.unwrap(), ["Stable", "_Server"]);
    assert_eq!(rpc.schema("Stable").await.unwrap().version, "1.0.0");

    let wrong = rpc.schema("Unstable").await.unwrap_err();
    assert_eq!(
        whole(&wrong),
        "the server refused get_schema: unknown database: get_schema request specifies unknown database Unstable"
    );
    let wrong = rpc.call("dance", &[(); 0]).await.unwrap_err();
    assert_eq!(whole(&wrong), "the server refused dance: unknown method");
    let select = serde_json::json!({"op": "select", "table": "Horse", "where": []});
    assert_eq!(rpc.call("transact", &("Stable", select)).await.unwrap(), serde_json::json!([{"rows": []}]));

    assert_eq!(rpc.call("lock", &["gate"]).await.unwrap(), serde_json::json!({"locked": true}));
    let mut thief = server.rpc().await;
    thief.call("steal", &["gate"]).await.unwrap();
    let note = rpc.note(PATIENCE).await.unwrap().expect("the theft is told");
    assert_eq!((note.method.as_str(), note.params.get()), ("stolen", r#"["gate"]"#));
    assert!(rpc.note(Duration::from_millis(1)).await.unwrap().is_none());
}

#[tokio::test]
async fn every_remote_that_failed_is_named_with_its_cause() {
    let dir = tempfile::tempdir().unwrap();
    let list = format!(
        "unix:{}/nothing,tcp:127.0.0.1:1,ssl:127.0.0.1:1,tcp:no.such.host.invalid:1",
        dir.path().display()
    );
    let error = Rpc::connect(&remotes(&list), &Dialer::default(), PATIENCE).await.unwrap_err();
    let text = whole(&error);
    for part in [
        "nothing: No such file or directory",
        "cannot connect to tcp:127.0.0.1:1: Connection refused",
        "ssl:127.0.0.1:1 needs certificates, but none are configured",
        "cannot find the address of no.such.host.invalid",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[tokio::test]
async fn a_frozen_server_is_not_waited_for_for_ever() {
    let server = Standalone::start(stable::SCHEMA);
    server.freeze();
    let mut rpc =
        Rpc::connect(&remotes(&server.unix()), &Dialer::default(), Duration::from_millis(300)).await.unwrap();
    let error = rpc.databases().await.unwrap_err();
    assert!(whole(&error).contains("did not answer list_dbs within 300ms"), "{}", whole(&error));
}

/// The reason why a client is not in sync, as soon as it reports one.
async fn reason(client: &Client) -> String {
    let mut status = client.status();
    let told = status.wait_for(|status| status.last_close.is_some());
    let status = soon("a reason", told).await.unwrap();
    status.last_close.as_ref().unwrap().to_string()
}

#[tokio::test]
async fn what_keeps_a_client_from_its_database_is_said_and_mended() {
    let server = Standalone::start(stable::SCHEMA);
    let refused = Client::open(config("tcp:127.0.0.1:1"), model());
    let text = reason(&refused).await;
    assert!(text.contains("cannot connect to tcp:127.0.0.1:1: Connection refused"), "{text}");
    let error = refused.synced_within(Duration::from_millis(50)).await.unwrap_err();
    assert!(error.to_string().contains("not in sync with Stable within 50ms: cannot connect"), "{error}");

    let unnamed = Client::open(config(&server.unix()), Model::new("Unstable"));
    let text = reason(&unnamed).await;
    assert!(text.contains("the server has no database Unstable: check the name"), "{text}");

    #[derive(Clone, Debug, Default, PartialEq, Table)]
    #[ovsdb(database = "Stable", table = "Zebra")]
    struct Zebra {
        stripes: i64,
    }
    #[derive(Clone, Debug, Default, PartialEq, Table)]
    #[ovsdb(database = "Stable", table = "Rider")]
    struct Knight {
        name: i64,
        sword: Str,
    }
    let misfit =
        Client::open(config(&server.unix()), Model::new("Stable").table::<Zebra>().table::<Knight>());
    let error = soon("the misfit", misfit.synced()).await.unwrap_err();
    let text = error.to_string();
    for part in [
        "table Zebra does not exist",
        "table Rider, column name: expected integer, the schema says string",
        "table Rider has no column sword",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    let text = reason(&misfit).await;
    assert!(text.contains("upgrade the server or this program"), "{text}");

    // The right remote, at last.
    refused.set_remotes(remotes(&server.unix())).await;
    in_sync(&refused).await;
    let mut txn = Transaction::new();
    txn.comment("x");
    refused.commit(&txn).await.unwrap();
}

/// A fake that misbehaves once when the client requests the content, and a client that survives that.
async fn once(fault: Fault, settings: impl FnOnce(&mut ClientConfig)) -> String {
    let fake = Fake::start(Kind::Standalone).await;
    fake.server.transact(&serde_json::json!([insert(id(1), "a", 1)]));
    let planned = fake.server.faults().on(When::method("monitor_cond_since"), fault);
    let mut config = config(&fake.server.remote());
    settings(&mut config);
    let client = Client::open(config, model());
    let text = reason(&client).await;
    in_sync(&client).await;
    assert_eq!(planned.struck(), 1);
    assert_eq!(client.snapshot().get::<Horse>(id(1)).unwrap().seq, 1, "nothing is lost");
    text
}

#[tokio::test]
async fn garbage_silence_and_half_messages_end_the_connection_not_the_client() {
    let text = once(Fault::Garbage(b"HTTP/1.1 400 Bad Request".to_vec()), |_| {}).await;
    assert!(text.contains("expected a JSON object, got byte 0x48: the peer does not speak OVSDB"), "{text}");
    let text = once(Fault::Garbage(b"{\"id\":}".to_vec()), |_| {}).await;
    assert!(text.contains("violates the protocol"), "{text}");
    let text = once(Fault::Garbage(vec![b'['; 1 << 20]), |config| config.max_message = 1 << 16).await;
    assert!(text.contains("longer than the limit of 65536 bytes; raise max_message"), "{text}");
    let text = once(Fault::HalfMessage, |_| {}).await;
    assert!(text.contains("closed the connection"), "{text}");
    for fault in [Fault::Silence, Fault::HalfThenSilence] {
        let text = once(fault, |config| {
            config.session.probe_interval = Duration::from_millis(100);
            config.session.load_patience = Duration::from_millis(100);
        })
        .await;
        assert!(text.contains("the server has been silent"), "{text}");
    }
}

#[tokio::test]
async fn a_silent_server_is_left_while_in_sync_too() {
    let server = Standalone::start(stable::SCHEMA);
    let mut settings = config(&server.unix());
    settings.session.probe_interval = Duration::from_millis(200);
    let client = synced(settings, model()).await;
    let mut feed = client.subscribe();
    server.freeze();
    let FeedEvent::Disconnected { reason } = feed::next(&mut feed).await else { panic!() };
    assert!(reason.to_string().contains("the server has been silent"), "{reason}");
    server.thaw();
    assert!(matches!(feed::next(&mut feed).await, FeedEvent::Reconnected { .. }));
}

#[tokio::test]
async fn a_message_of_200_megabytes_is_taken_within_the_limit_and_refused_beyond_it() {
    let fake = Fake::start(Kind::Standalone).await;
    // The second one is smaller as it is not read to its end.
    for (size, limit, fine) in [(200 << 20, 201 << 20, true), (8 << 20, 1 << 20, false)] {
        let mut settings = config(&fake.server.remote());
        settings.max_message = limit;
        let client = synced(settings, model()).await;
        let mut feed = client.subscribe();
        let huge = fake.server.faults().on(When::notification("update3"), Fault::Huge(size));
        fake.server.transact(&serde_json::json!([insert(id(limit as u128), &format!("h{limit}"), 1)]));
        if !fine {
            let FeedEvent::Disconnected { reason } = feed::next(&mut feed).await else { panic!() };
            let text = reason.to_string();
            assert!(text.contains(&format!("longer than the limit of {limit} bytes")), "{text}");
        }
        assert_eq!(feed::next_change(&mut feed).await, [format!("h{limit}: none -> 1")], "nothing is lost");
        assert_eq!(huge.struck(), 1);
        assert_eq!(client.metrics().connections, if fine { 1 } else { 2 });
    }
}

#[tokio::test]
async fn a_row_of_64_megabytes_is_decoded() {
    // 200 MB would take too long without optimisation. This size takes the same code path.
    const SIZE: usize = 64 << 20;
    let fake = Fake::start(Kind::Standalone).await;
    let client = synced(config(&fake.server.remote()), model()).await;
    let mut feed = client.subscribe();
    // The fault enlarges the message while it is sent, so that the fake need not store it.
    let great = Fault::rewrite(|text| text.replace("small", &"x".repeat(SIZE)));
    let planned = fake.server.faults().on(When::notification("update3"), great);
    fake.server.transact(&serde_json::json!([insert(id(1), "small", 1), insert(id(2), "other", 2)]));
    let FeedEvent::Changed { delta, .. } = feed::next(&mut feed).await else { panic!() };
    assert_eq!((delta.table::<Horse>().len(), planned.struck()), (2, 1));
    let snapshot = client.snapshot();
    let horse = snapshot.get::<Horse>(id(1)).unwrap();
    assert_eq!((horse.name.len(), horse.seq), (SIZE, 1));
    assert!(horse.name.as_bytes().iter().all(|byte| *byte == b'x'));
    assert_eq!(snapshot.get::<Horse>(id(2)).unwrap().name, "other");
    assert_eq!(client.metrics().connections, 1);
}

/// A number that refuses to be odd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Even(i64);

impl FromAtom for Even {
    fn from_atom(atom: AtomRef<'_>) -> Result<Self, ValueError> {
        match i64::from_atom(atom)? {
            number if number % 2 == 0 => Ok(Self(number)),
            number => Err(ValueError::new("an even number", number)),
        }
    }
}

impl AtomType for Even {
    const KIND: AtomKind = AtomKind::Integer;
    fn to_atom(&self) -> Atom {
        Atom::Integer(self.0)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "Stable", table = "Horse")]
pub struct Picky {
    name: Str,
    seq: Even,
}

on_both! {
    async fn a_row_that_does_not_decode_is_set_aside_and_comes_back(backend) {
        backend.transact(serde_json::json!([insert(id(1), "even", 2), insert(id(2), "odd", 3)])).await;
        let client = synced(backend.config(), Model::new("Stable").table::<Picky>()).await;
        let snapshot = client.snapshot();
        assert_eq!(snapshot.table::<Picky>().len(), 1, "the others are there");
        let odd: Vec<_> = snapshot.unreadable().map(|row| (row.uuid, row.column.to_owned(), row.problem.to_string())).collect();
        assert_eq!(odd, [(id(2), "seq".to_owned(), "expected an even number, found 3".to_owned())]);
        let mut feed = client.subscribe();
        backend.transact(serde_json::json!([update(id(2), serde_json::json!({"seq": 4}))])).await;
        let FeedEvent::Changed { delta, .. } = feed::next(&mut feed).await else { panic!() };
        let snapshot = feed.snapshot();
        assert_eq!(delta.table::<Picky>().count(), 1);
        assert_eq!(snapshot.get::<Picky>(id(2)).unwrap().seq, Even(4));
        assert_eq!(snapshot.unreadable().count(), 0);
        assert_eq!(client.metrics().disconnections, 0);
    }
}
