//! The status of a watch: its connection, and the number of printed lines.

use ovsdb::client::Client;
use ovsdb::session::Progress;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::process::{Database, Subject};

/// Counts the printed lines by event.
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

impl Subject for Watched {
    fn clients(&self) -> Vec<Client> {
        vec![self.client.clone()]
    }

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
