//! What a watch shows of itself: status for the admin socket, numbers for Prometheus.

use std::fmt;

use ovsdb::client::Client;
use ovsdb::session::Progress;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::process::{Database, Subject};

/// Lines printed, by event.
#[derive(Clone, Debug, Default)]
pub(super) struct EventCounters(Family<[(&'static str, &'static str); 1], Counter>);

impl EventCounters {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("watch_events", "Lines printed", self.0.clone());
    }

    pub(super) fn count(&self, event: &'static str) {
        self.0.get_or_create(&[("event", event)]).inc();
    }
}

/// A client and the tables that it watches.
#[derive(Clone)]
pub(super) struct Watched {
    client: Client,
    tables: Vec<String>,
}

impl Watched {
    pub(super) fn new(client: Client, tables: Vec<String>) -> Self {
        Self { client, tables }
    }

    fn rows(&self) -> impl Iterator<Item = (&str, usize)> {
        let snapshot = self.client.snapshot();
        self.tables
            .iter()
            .map(move |table| (table.as_str(), snapshot.dynamic(table).map_or(0, |rows| rows.len())))
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl Subject for Watched {
    fn databases(&self) -> Vec<Database> {
        vec![Database::of(
            &self.client,
            self.rows().map(|(table, rows)| (table.to_owned(), rows as u64)).collect(),
        )]
    }

    fn healthy(&self) -> bool {
        self.client.status().borrow().progress == Progress::Synced
    }
}

impl Collector for Watched {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let database = [("database", self.client.database())];
        let metrics = self.client.metrics();
        for (name, help, value) in [
            ("ovsdb_received_bytes", "Bytes from servers", metrics.bytes_received),
            ("ovsdb_sent_bytes", "Bytes to servers", metrics.bytes_sent),
            ("ovsdb_received_messages", "Messages from servers", metrics.messages_received),
            ("ovsdb_sent_messages", "Messages to servers", metrics.messages_sent),
            ("ovsdb_connections", "Connections that came about", metrics.connections),
            ("ovsdb_disconnections", "Connections and attempts that ended", metrics.disconnections),
            ("ovsdb_deltas", "Changes published", metrics.deltas),
            ("ovsdb_changed_rows", "Rows in them", metrics.rows_changed),
            ("ovsdb_feed_lags", "Times a reader was too slow and got a summary", metrics.feed_lags),
        ] {
            let counter = ConstCounter::new(value);
            let mut family = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(family.encode_family(&database)?)?;
        }
        let synced = ConstGauge::new(i64::from(self.healthy()));
        let mut family = encoder.encode_descriptor(
            "ovsdb_synced",
            "Whether the replica follows the server",
            None,
            synced.metric_type(),
        )?;
        synced.encode(family.encode_family(&database)?)?;
        let mut family = encoder.encode_descriptor("ovsdb_rows", "Rows held", None, synced.metric_type())?;
        for (table, rows) in self.rows() {
            let labels = [database[0], ("table", table)];
            ConstGauge::new(i64::try_from(rows).unwrap_or(i64::MAX))
                .encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
