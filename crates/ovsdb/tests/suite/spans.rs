//! The spans that a `tracing` subscriber sees: one per client, one per commit, none per message.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use ovsdb::{CommitError, Model, Transaction};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::bad_input::Picky;
use crate::support::backend::{Fake, config, in_sync, insert, synced, update};
use crate::support::eventually;
use crate::support::feed::next_change;
use crate::support::stable::{horse, id};
use ovsdb::fake::Model as Kind;

/// A span that a subscriber received.
#[derive(Clone, Debug, Default)]
struct Shown {
    name: &'static str,
    fields: Fields,
}

#[derive(Clone, Debug, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

#[derive(Debug, Default)]
struct Told {
    spans: Vec<Shown>,
    entered: Vec<usize>,
    /// Messages, each with its span.
    events: Vec<(String, Option<&'static str>)>,
    /// The further fields of the warnings.
    warnings: Vec<BTreeMap<&'static str, String>>,
}

/// Records all spans up to a level. Tests run on one thread, so the last entered span is the current one.
#[derive(Clone)]
struct Listener {
    level: Level,
    told: Arc<Mutex<Told>>,
}

impl Listener {
    fn new(level: Level) -> Self {
        Self { level, told: Arc::default() }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap()
    }

    fn spans(&self, name: &str) -> Vec<BTreeMap<&'static str, String>> {
        let told = self.told();
        told.spans.iter().filter(|span| span.name == name).map(|span| span.fields.0.clone()).collect()
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= &self.level && metadata.target().starts_with("ovsdb")
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut shown = Shown { name: span.metadata().name(), ..Shown::default() };
        span.record(&mut shown.fields);
        let mut told = self.told();
        told.spans.push(shown);
        Id::from_u64(told.spans.len() as u64)
    }
    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut self.told().spans[span.into_u64() as usize - 1].fields);
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut told = self.told();
        let within = told.entered.last().map(|at| told.spans[*at].name);
        if *event.metadata().level() == Level::WARN {
            told.warnings.push(fields.0.clone());
        }
        let message = fields.0.remove("message").unwrap_or_default();
        told.events.push((message, within));
    }
    fn enter(&self, span: &Id) {
        self.told().entered.push(span.into_u64() as usize - 1);
    }
    fn exit(&self, _: &Id) {
        self.told().entered.pop();
    }
}

fn row(n: u128) -> Transaction {
    let mut txn = Transaction::new();
    txn.insert(id(n), &horse(format!("h{n}"), n as i64));
    txn
}

#[tokio::test]
async fn a_client_is_one_span_and_each_commit_is_another() {
    let listener = Listener::new(Level::DEBUG);
    let _guard = tracing::subscriber::set_default(listener.clone());
    let fake = Fake::start(Kind::Standalone).await;
    let client = fake.client().await;
    let mut feed = client.subscribe();
    for n in 100..120 {
        fake.server.transact(&json!([insert(id(n), &format!("h{n}"), 1)]));
        next_change(&mut feed).await;
    }
    assert_eq!(listener.told().spans.len(), 1, "a message is no span");
    assert_eq!(listener.spans("ovsdb")[0]["database"], "Stable");
    assert!(listener.told().events.contains(&("in sync".to_owned(), Some("ovsdb"))), "{:?}", listener.told());

    client.commit(&row(1)).await.unwrap();
    client.commit(&row(1)).await.unwrap_err();
    client.commit_grouped(row(2).comment("two operations")).await.unwrap();
    let pending = client.enqueue(&row(3)).await.unwrap();
    assert_eq!(listener.spans("commit")[3].get("outcome"), None, "not known yet");
    pending.await.unwrap();
    client.close().await;
    assert_eq!(client.enqueue(&row(4)).await.unwrap_err(), CommitError::Closed);

    let commits = listener.spans("commit");
    let of = |field: &str| commits.iter().map(|span| span[field].clone()).collect::<Vec<_>>();
    assert_eq!(of("database"), ["Stable"; 5]);
    assert_eq!(of("operations"), ["1", "1", "2", "1", "1"]);
    assert_eq!(of("grouped"), ["false", "false", "true", "true", "true"]);
    let outcomes = of("outcome");
    assert_eq!((&*outcomes[0], &*outcomes[2], &*outcomes[3]), ("committed", "committed", "committed"));
    assert!(outcomes[1].contains("duplicate"), "{}", outcomes[1]);
    assert_eq!(outcomes[4], CommitError::Closed.to_string());
    assert_eq!(listener.told().spans.len(), 6);
}

#[tokio::test]
async fn who_listens_for_less_is_shown_no_commits() {
    let listener = Listener::new(Level::INFO);
    let _guard = tracing::subscriber::set_default(listener.clone());
    let fake = Fake::start(Kind::Standalone).await;
    let client = fake.client().await;
    client.commit(&row(1)).await.unwrap();
    let told = listener.told();
    assert_eq!(told.spans.iter().map(|span| span.name).collect::<Vec<_>>(), ["ovsdb"]);
}

#[tokio::test]
async fn a_row_that_does_not_decode_is_warned_of_once() {
    let listener = Listener::new(Level::WARN);
    let _guard = tracing::subscriber::set_default(listener.clone());
    let fake = Fake::start(Kind::Standalone).await;
    fake.server.transact(&json!([insert(id(1), "even", 2), insert(id(2), "odd", 3)]));
    let client = synced(config(&fake.server.remote()), Model::new("Stable").table::<Picky>()).await;
    let warnings = || {
        let mut all = std::mem::take(&mut listener.told().warnings);
        all.retain(|warning| warning.contains_key("table"));
        all
    };
    let told = warnings();
    assert_eq!(told.len(), 1, "{told:?}");
    let told = &told[0];
    assert_eq!((&*told["table"], &*told["uuid"], &*told["column"]), ("Horse", &*id(2).to_string(), "seq"));
    assert_eq!(told["problem"], "expected an even number, found 3");
    assert!(told["message"].ends_with("correct it, or upgrade this program"), "{told:?}");

    // A change of a row that does not decode is no change for readers; the change of the other row is.
    let set = async |of_odd: Value| {
        let before = client.snapshot().seq();
        let even = json!({"op": "mutate", "table": "Horse", "where": [["name", "==", "even"]], "mutations": [["seq", "+=", 2]]});
        fake.server.transact(&json!([update(id(2), of_odd), even]));
        eventually("the change is there", async || (client.snapshot().seq() > before).then_some(())).await;
        warnings().len()
    };
    assert_eq!(set(json!({"name": "odder"})).await, 0, "the same trouble");
    assert_eq!(set(json!({"seq": 5})).await, 1, "another value");
    client.reconnect().await;
    eventually("it is connected anew", async || (client.metrics().connections == 2).then_some(())).await;
    in_sync(&client).await;
    assert_eq!(set(json!({"name": "oddest"})).await, 0, "known from before");
    assert_eq!(set(json!({"seq": 4})).await, 0, "cured");
    assert_eq!(set(json!({"seq": 7})).await, 1, "and ill again");

    let many: Vec<_> = (100..150).map(|n| insert(id(n), &format!("h{n}"), 1)).collect();
    fake.server.transact(&json!(many));
    let told = set(json!({"name": "last"})).await;
    assert_eq!(client.snapshot().unreadable().count(), 51);
    assert_eq!(told, 21, "twenty are named, and one warning is for the rest");
}
