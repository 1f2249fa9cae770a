//! A connection in sync: changes of the content and of the server's status, repairs, and the requests of the user.
//!
//! The way to a replica in sync is in `handshake`.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Instant;

use uuid::Uuid;

use super::cluster::{self, Refusal, Wishes};
use super::event::{CloseReason, Event, with_causes};
use super::handshake::{REPAIR_INTERVAL, Stage};
use super::lock::Ask;
use super::monitor::{self, Method};
use super::{Pending, Phase, Session};

impl Session {
    /// Handles the server's status, the first or a later one.
    pub(super) fn server_changed(&mut self, now: Instant, body: &str) -> Result<(), CloseReason> {
        let Phase::Open(connection) = &mut self.phase else { return Ok(()) };
        connection
            .rows
            .apply(body)
            .map_err(|error| CloseReason::Protocol(format!("_Server: {error}").into()))?;
        let row = connection.rows.find(&self.database, self.config.cluster_id).cloned();
        let mut min_index = 0;
        if let Some(row) = &row {
            let another_history;
            (min_index, another_history) = self.watermark.floor(row, self.config.stale_limit, now);
            if another_history {
                tracing::warn!(index = ?row.index, "the database was replaced or restored: its log index is lower than before");
                self.last_id = None;
            }
        }
        let wishes = Wishes {
            database: &self.database,
            leader_only: self.config.leader_only,
            cluster_id: self.config.cluster_id,
            min_index,
            only_one: self.rotation.is_single(),
        };
        if let Err(refusal) = cluster::judge(row.as_ref(), wishes) {
            if matches!(refusal, Refusal::Stale { .. }) {
                self.watermark.stale(now);
            }
            return Err(CloseReason::Refused(refusal));
        }
        let Some(row) = row else { return Ok(()) };
        self.watermark.accept(&row);
        let Phase::Open(connection) = &mut self.phase else { return Ok(()) };
        let news = connection.row_schema != row.schema;
        connection.row_schema.clone_from(&row.schema);
        match connection.stage {
            Stage::Greeting => return self.await_schema(now),
            // The row may only have caught up with the data that we know.
            Stage::Loading | Stage::Synced if news => self.ask_schema(),
            Stage::Schema | Stage::Loading | Stage::Synced => {}
        }
        Ok(())
    }

    /// An update of the content.
    pub(super) fn content_changed(
        &mut self,
        now: Instant,
        last_id: Option<Uuid>,
        body: &str,
    ) -> Result<(), CloseReason> {
        let Phase::Open(connection) = &mut self.phase else { return Ok(()) };
        if connection.stage != Stage::Synced {
            // Messages arrive in order, so the pending reply contains this change.
            self.counters.strays += 1;
            return Ok(());
        }
        match self.replica.apply(connection.method.version(), body) {
            Ok(delta) => {
                self.last_id = last_id.filter(|id| !id.is_nil());
                if !delta.is_empty() {
                    self.events.push_back(Event::Changed(delta));
                }
                Ok(())
            }
            Err(error) => self.repair(now, &error),
        }
    }

    /// An update does not fit the replica: requests everything again, on this connection, so that we keep our locks.
    pub(super) fn repair(&mut self, now: Instant, error: &dyn std::error::Error) -> Result<(), CloseReason> {
        self.last_id = None;
        let Some(connection) = self.connection() else { return Ok(()) };
        let again =
            connection.repaired_at.is_some_and(|at| now.saturating_duration_since(at) < REPAIR_INTERVAL);
        if again {
            return Err(CloseReason::Inconsistent(with_causes(error)));
        }
        tracing::warn!(error = %with_causes(error), "an update does not fit the replica; reloading");
        connection.repaired_at = Some(now);
        let method = connection.method;
        self.counters.repairs += 1;
        self.cancel_content();
        self.load(now, method);
        Ok(())
    }

    /// Ends the monitor of the content, and everything that depends on it.
    pub(super) fn cancel_content(&mut self) {
        let Some(connection) = self.connection() else { return };
        let name = std::mem::take(&mut connection.content_monitor);
        if !name.is_empty() {
            self.request("monitor_cancel", &[name], Pending::Formality);
        }
        self.forget_content();
    }

    fn forget_content(&mut self) {
        self.pending.retain(|_, what| !matches!(what, Pending::Content { .. } | Pending::Conditions));
        if self.conditions.lost() {
            self.last_id = None;
        }
    }

    /// The server ended a monitor: the database was converted or deleted. The session starts over to find out. It requests the
    /// schema each time: OVS 3.1 cancels monitors before it changes the row of `_Server`, and a standalone server without other
    /// changes may not change that row for a long time.
    pub(super) fn canceled(&mut self, now: Instant, name: &str) {
        let Some(connection) = self.connection() else { return };
        if name.is_empty() || (name != connection.content_monitor && name != connection.server_monitor) {
            self.counters.strays += 1;
            return;
        }
        let names =
            [std::mem::take(&mut connection.content_monitor), std::mem::take(&mut connection.server_monitor)];
        for other in names.into_iter().filter(|other| !other.is_empty() && other != name) {
            self.request("monitor_cancel", &[other], Pending::Formality);
        }
        self.pending.retain(|_, what| !matches!(what, Pending::Server | Pending::Schema));
        self.forget_content();
        self.greet(now);
    }

    /// Sends the conditions that are set but not sent, if the stage permits.
    pub(super) fn send_conditions(&mut self) {
        let Phase::Open(connection) = &self.phase else { return };
        if connection.stage != Stage::Synced {
            return;
        }
        let (method, name) = (connection.method, connection.content_monitor.clone());
        if method == Method::Monitor {
            self.conditions.take_all();
            if let Some(acked) = self.conditions.ack() {
                self.events.push_back(Event::Condition { acked });
            }
        } else if let Some(change) = self.conditions.take_change() {
            let params = monitor::change(&name, &change);
            self.request("monitor_cond_change", &params, Pending::Conditions);
        }
    }

    /// Requests wanted locks, if the state permits.
    pub(super) fn send_locks(&mut self) {
        if !self.is_synced() {
            return;
        }
        for Ask { name, mode, epoch, anew } in self.locks.ask() {
            let params = [name.clone()];
            if anew {
                self.request("unlock", &params, Pending::Formality);
            }
            self.request(mode.method(), &params, Pending::Lock { name, epoch });
        }
    }
}
