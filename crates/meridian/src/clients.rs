//! Prometheus metrics of the OVSDB connections of any process.

use std::fmt;
use std::sync::Arc;

use ovsdb::Client;
use ovsdb::session::Progress;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::process::Subject;

/// The OVSDB clients of a process. They are listed again at each scrape, because some are created later or replaced.
pub(crate) struct Clients(pub(crate) Arc<dyn Subject>);

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").finish_non_exhaustive()
    }
}

type Metrics = ovsdb::client::Metrics;

/// The name, help and value of a metric.
type Count = (&'static str, &'static str, fn(&Metrics) -> u64);

const COUNTS: [Count; 10] = [
    ("ovsdb_received_bytes", "Bytes from servers", |metrics| metrics.bytes_received),
    ("ovsdb_sent_bytes", "Bytes to servers", |metrics| metrics.bytes_sent),
    ("ovsdb_received_messages", "Messages from servers", |metrics| metrics.messages_received),
    ("ovsdb_sent_messages", "Messages to servers", |metrics| metrics.messages_sent),
    ("ovsdb_connections", "Established connections", |metrics| metrics.connections),
    ("ovsdb_disconnections", "Closed connections and failed attempts", |metrics| metrics.disconnections),
    ("ovsdb_deltas", "Changes published", |metrics| metrics.deltas),
    ("ovsdb_changed_rows", "Rows in them", |metrics| metrics.rows_changed),
    ("ovsdb_feed_lags", "Times a reader was too slow and got a summary", |metrics| metrics.feed_lags),
    ("ovsdb_batches", "Batches of grouped transactions that were sent", |metrics| metrics.batches),
];

/// The possible outcomes of a transaction, with their counts.
fn outcomes(metrics: &Metrics) -> [(&'static str, u64); 5] {
    [
        ("committed", metrics.committed),
        ("refused", metrics.refused),
        ("conflict", metrics.conflicts),
        ("unknown", metrics.unknown),
        ("unsent", metrics.unsent),
    ]
}

impl Collector for Clients {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let clients: Vec<(Client, Metrics)> =
            self.0.clients().into_iter().map(|client| (client.clone(), client.metrics())).collect();
        let counter = ConstCounter::new(0_u64).metric_type();
        for (name, help, value) in COUNTS {
            let mut family = encoder.encode_descriptor(name, help, None, counter)?;
            for (client, metrics) in &clients {
                let labels = [("database", client.database())];
                ConstCounter::new(value(metrics)).encode(family.encode_family(&labels)?)?;
            }
        }
        let help = "Requested transactions, by outcome";
        let mut family = encoder.encode_descriptor("ovsdb_transactions", help, None, counter)?;
        for (client, metrics) in &clients {
            for (outcome, count) in outcomes(metrics) {
                let labels = [("database", client.database()), ("outcome", outcome)];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        let gauge = ConstGauge::new(0_i64).metric_type();
        let help = "Whether the replica follows the server";
        let mut family = encoder.encode_descriptor("ovsdb_synced", help, None, gauge)?;
        for (client, _) in &clients {
            let synced = client.status().borrow().progress == Progress::Synced;
            let labels = [("database", client.database())];
            ConstGauge::new(i64::from(synced)).encode(family.encode_family(&labels)?)?;
        }
        let help = "Rows that cannot be parsed and are skipped";
        let mut family = encoder.encode_descriptor("ovsdb_unreadable_rows", help, None, gauge)?;
        for (client, _) in &clients {
            let rows = i64::try_from(client.snapshot().unreadable().count()).unwrap_or(i64::MAX);
            let labels = [("database", client.database())];
            ConstGauge::new(rows).encode(family.encode_family(&labels)?)?;
        }
        let mut family = encoder.encode_descriptor("ovsdb_rows", "Rows held", None, gauge)?;
        for database in self.0.databases() {
            for (table, rows) in &database.rows {
                let labels = [("database", database.database.as_str()), ("table", table.as_str())];
                let rows = i64::try_from(*rows).unwrap_or(i64::MAX);
                ConstGauge::new(rows).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use central::{Database, Server};
    use ovsdb::model::AtomType;
    use ovsdb::wire::{Atom, AtomKind, AtomRef, FromAtom, ValueError};
    use ovsdb::{ClientConfig, Model, Str, Table, Transaction, Uuid};
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::process;

    /// OVN's tables accept any value, so this test needs a type that does not.
    #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    struct Short(Str);

    impl FromAtom for Short {
        fn from_atom(atom: AtomRef<'_>) -> Result<Self, ValueError> {
            match Str::from_atom(atom)? {
                text if text.len() < 5 => Ok(Self(text)),
                text => Err(ValueError::new("a short text", text)),
            }
        }
    }

    impl AtomType for Short {
        const KIND: AtomKind = AtomKind::String;
        fn to_atom(&self) -> Atom {
            Atom::String(self.0.clone())
        }
    }

    #[derive(Clone, Debug, Default, PartialEq, Table)]
    #[ovsdb(database = "OVN_Northbound", table = "Logical_Switch")]
    struct Picky {
        name: Short,
    }

    struct Holder(Client);

    impl Subject for Holder {
        fn clients(&self) -> Vec<Client> {
            vec![self.0.clone()]
        }
        fn databases(&self) -> Vec<process::Database> {
            vec![process::Database::of(&self.0, [].into())]
        }
        fn healthy(&self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn rows_that_cannot_be_read_are_counted_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), Database::Northbound).unwrap();
        let config = ClientConfig::new(server.remote().parse().unwrap());
        let client = Client::open(config, Model::new("OVN_Northbound").table::<Picky>());
        client.synced_within(Duration::from_secs(60)).await.unwrap();
        let shown = || {
            let mut registry = Registry::default();
            registry.register_collector(Box::new(Clients(Arc::new(Holder(client.clone())))));
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            let line =
                text.lines().find(|line| line.starts_with("ovsdb_unreadable_rows{")).unwrap().to_owned();
            (line, Holder(client.clone()).databases().remove(0))
        };
        assert_eq!(shown().0, r#"ovsdb_unreadable_rows{database="OVN_Northbound"} 0"#);
        let mut txn = Transaction::new();
        for (n, name) in [(1, "abc"), (2, "abcdef"), (3, "uvwxyz")] {
            txn.insert(Uuid::from_u128(n), &Picky { name: Short(name.into()) });
        }
        client.commit(&txn).await.unwrap();
        let (line, database) = shown();
        assert_eq!(line, r#"ovsdb_unreadable_rows{database="OVN_Northbound"} 2"#);
        assert_eq!(database.unreadable_rows, 2);
        assert_eq!(
            database.unreadable[0],
            "Logical_Switch 00000000-0000-0000-0000-000000000002, column name: expected a short text, found abcdef"
        );
    }
}
