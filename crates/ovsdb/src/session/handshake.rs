//! From an open connection to a replica in sync, step by step; and back a few steps when the schema changes. `content` handles
//! the changes after that.
//!
//! Every monitor gets a new name, so that late updates of an earlier one are recognised.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::cluster::{self, ServerRows};
use super::event::{CloseReason, Event, ServerError, SyncKind, with_causes};
use super::monitor::{self, Method};
use super::probe::{AwaitedReply, Probe};
use super::status::{Progress, ServerStatus};
use super::{Pending, Phase, Session, SessionConfig};
use crate::model::Str;
use crate::replica::{ApplyError, Delta};
use crate::wire::schema::DatabaseSchema;

/// An update that does not fit is repaired by a reload on the same connection, but not twice within this time: the session
/// leaves a server that keeps sending such updates, with the usual delays.
pub(super) const REPAIR_INTERVAL: Duration = Duration::from_secs(60);

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stage: Stage,
    pub(super) probe: Probe,
    pub(super) synced_at: Option<Instant>,
    pub(super) method: Method,
    /// The monitors' names; empty when there is none.
    pub(super) server_monitor: String,
    pub(super) content_monitor: String,
    pub(super) rows: ServerRows,
    /// The schema in use.
    schema: Option<Arc<DatabaseSchema>>,
    /// The schema as the server's row had it last.
    pub(super) row_schema: Option<Str>,
    /// The schema, if it arrived before the server's status.
    early_schema: Option<String>,
    asked_at: Instant,
    pub(super) repaired_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Greeting,
    Schema,
    Loading,
    Synced,
}

impl Stage {
    pub(super) fn progress(self) -> Progress {
        match self {
            Self::Greeting => Progress::Greeting,
            Self::Schema => Progress::ReadingSchema,
            Self::Loading => Progress::Loading,
            Self::Synced => Progress::Synced,
        }
    }
}

impl Connection {
    pub(super) fn new(config: &SessionConfig, now: Instant) -> Self {
        Self {
            stage: Stage::Greeting,
            probe: Probe::new(config.probe_interval, config.load_patience, now),
            synced_at: None,
            method: config.newest_method,
            server_monitor: String::new(),
            content_monitor: String::new(),
            rows: ServerRows::default(),
            schema: None,
            row_schema: None,
            early_schema: None,
            asked_at: now,
            repaired_at: None,
        }
    }

    pub(super) fn awaiting(&self) -> AwaitedReply {
        match self.stage {
            Stage::Greeting | Stage::Schema => AwaitedReply::Handshake,
            Stage::Loading => AwaitedReply::Content,
            Stage::Synced => AwaitedReply::Nothing,
        }
    }

    pub(super) fn server(&self, database: &str, cluster_id: Option<Uuid>) -> Option<ServerStatus> {
        let row = self.rows.find(database, cluster_id)?;
        Some(ServerStatus {
            model: row.model.clone(),
            leader: row.leader,
            connected: row.connected,
            index: row.index,
            cluster_id: row.cluster_id,
            server_id: row.server_id,
        })
    }
}

impl Session {
    pub(super) fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.phase {
            Phase::Open(connection) => Some(connection),
            _ => None,
        }
    }

    fn advance(&mut self, now: Instant, stage: Stage) {
        if let Some(connection) = self.connection() {
            connection.stage = stage;
            self.since = now;
        }
    }

    /// Requests the server's status: all columns of our one row. The set of columns differs between versions, and this saves a
    /// request for the schema of `_Server`. All requests go out at once.
    pub(super) fn greet(&mut self, now: Instant) {
        // Without this, a server closes the connection at a conversion. Old servers reject the request, which does not matter.
        self.request("set_db_change_aware", &[true], Pending::Formality);
        let name = format!("server-{}", self.next_id);
        let clause = json!([["name", "==", self.database.as_str()]]);
        let params = json!([cluster::DATABASE, name, { cluster::TABLE: [{ "where": clause }] }]);
        self.request(Method::Cond.name(), &params, Pending::Server);
        // The row also contains the schema, but not always the current one: see `canceled`.
        self.ask_schema();
        if let Some(connection) = self.connection() {
            connection.rows = ServerRows::default();
            connection.row_schema = None;
            connection.early_schema = None;
            connection.server_monitor = name;
        }
        self.advance(now, Stage::Greeting);
    }

    /// The reply to `greet`.
    pub(super) fn greeted(&mut self, now: Instant, body: &RawValue) -> Result<(), CloseReason> {
        self.server_changed(now, body.get())
    }

    /// The server has no `_Server` database: it is older than OVS 2.9 and standalone.
    pub(super) fn not_greeted(&mut self, now: Instant, error: &ServerError) -> Result<(), CloseReason> {
        tracing::debug!(%error, "the server has no database _Server");
        if let Some(connection) = self.connection() {
            connection.server_monitor.clear();
        }
        self.await_schema(now)
    }

    pub(super) fn ask_schema(&mut self) {
        let database = self.database.clone();
        self.request("get_schema", &[database], Pending::Schema);
    }

    /// The server is acceptable: continue with its schema, which may have arrived already.
    pub(super) fn await_schema(&mut self, now: Instant) -> Result<(), CloseReason> {
        self.advance(now, Stage::Schema);
        match self.connection().and_then(|connection| connection.early_schema.take()) {
            Some(text) => self.use_schema(now, &text),
            None => Ok(()),
        }
    }

    /// Handles the schema, the first or a later one. Requests the content if the schema is new.
    pub(super) fn use_schema(&mut self, now: Instant, text: &str) -> Result<(), CloseReason> {
        let Phase::Open(connection) = &mut self.phase else { return Ok(()) };
        if connection.stage == Stage::Greeting {
            connection.early_schema = Some(text.to_owned());
            return Ok(());
        }
        let loading = matches!(connection.stage, Stage::Loading | Stage::Synced);
        let schema = DatabaseSchema::parse(text)
            .map_err(|error| CloseReason::SchemaUnreadable(error.to_string().into()))?;
        if loading && connection.schema.as_deref() == Some(&schema) {
            return Ok(());
        }
        let schema = connection.schema.insert(Arc::new(schema));
        match self.replica.fit(schema) {
            Ok(fit) => {
                self.misfits.clear();
                self.events.push_back(Event::Fit(fit, Arc::clone(schema)));
            }
            Err(misfits) => {
                let problems = misfits.len();
                let first = misfits.first().cloned();
                if self.misfits != misfits {
                    self.misfits.clone_from(&misfits);
                    self.events.push_back(Event::Misfit(misfits));
                }
                return Err(match first {
                    Some(first) => CloseReason::Misfit { first, problems },
                    None => CloseReason::SchemaUnreadable("it does not fit".into()),
                });
            }
        }
        if loading {
            self.cancel_content();
        }
        self.load(now, self.config.newest_method);
        Ok(())
    }

    /// Requests the content.
    pub(super) fn load(&mut self, now: Instant, method: Method) {
        // A resumed monitor sends only changes. They cannot complete a replica that held other columns or rows of other conditions.
        if self.shape.as_ref() != Some(&self.replica.monitored()) {
            self.last_id = None;
        }
        if self.resumes(method).is_none() {
            self.conditions.take_all();
        }
        self.ask_content(now, method);
    }

    /// The transaction id from which a load by this method would resume.
    fn resumes(&self, method: Method) -> Option<Uuid> {
        self.last_id.filter(|_| method == Method::CondSince)
    }

    /// Requests the content under the wanted conditions, or else under those in force.
    fn ask_content(&mut self, now: Instant, method: Method) {
        let monitored = self.replica.monitored();
        let resume = self.resumes(method);
        let name = format!("content-{}", self.next_id);
        let params = monitor::request(&self.database, &name, method, &monitored, &self.conditions, resume);
        self.request(method.name(), &params, Pending::Content { resume: resume.is_some() });
        if let Some(connection) = self.connection() {
            connection.content_monitor = name;
            connection.method = method;
            connection.asked_at = now;
        }
        self.advance(now, Stage::Loading);
    }

    /// The server refuses to load the content by this method.
    pub(super) fn not_loaded(&mut self, now: Instant, error: &ServerError) -> Result<(), CloseReason> {
        let method = self.connection().map_or(Method::Monitor, |connection| connection.method);
        if let Some(older) = method.older() {
            if error.is_unknown_method() {
                tracing::debug!(method = method.name(), "the server does not support this method");
                self.load(now, older);
                return Ok(());
            }
            // The reason may be a condition that no server has accepted yet. The session then loads under the conditions that were in
            // force, and sends the new ones as a change, which the server can reject on its own.
            if self.conditions.put_back() {
                tracing::debug!(%error, "the server refused the conditions; requesting the content with the former ones");
                self.ask_content(now, method);
                return Ok(());
            }
        }
        Err(CloseReason::MonitorRefused(error.to_string().into()))
    }

    /// The content arrived.
    pub(super) fn loaded(&mut self, now: Instant, reply: &RawValue, resume: bool) -> Result<(), CloseReason> {
        let Some(connection) = self.connection() else { return Ok(()) };
        let method = connection.method;
        let Content { found, last_id, body } = content(method, reply.get(), resume)?;
        let outcome = match found {
            true => self.replica.apply(method.version(), body),
            false => self.replica.reload(method.version(), body),
        };
        self.in_sync(now, found, last_id, outcome)
    }

    /// Handles the reply with the whole content. The memory of the message may be freed on the way.
    pub(super) fn loaded_whole(
        &mut self,
        now: Instant,
        text: String,
        body: Range<usize>,
        last_id: Option<Uuid>,
    ) -> Result<(), CloseReason> {
        let Phase::Open(connection) = &self.phase else { return Ok(()) };
        let outcome = self.replica.reload_owned(connection.method.version(), text, body);
        self.in_sync(now, false, last_id, outcome)
    }

    /// Handles content that is in the replica or does not fit it.
    fn in_sync(
        &mut self,
        now: Instant,
        found: bool,
        last_id: Option<Uuid>,
        outcome: Result<Delta, ApplyError>,
    ) -> Result<(), CloseReason> {
        let Phase::Open(connection) = &mut self.phase else { return Ok(()) };
        let delta = match outcome {
            Ok(delta) => delta,
            Err(error) if found => return self.repair(now, &error),
            Err(error) => {
                self.last_id = None;
                return Err(CloseReason::Inconsistent(with_causes(&error)));
            }
        };
        let first = self.shape.is_none();
        self.shape = Some(self.replica.monitored());
        self.last_id = last_id;
        connection.stage = Stage::Synced;
        connection.synced_at.get_or_insert(now);
        self.since = now;
        self.counters.last_load = now.saturating_duration_since(connection.asked_at);
        self.rotation.good();
        let how = match (found, first) {
            (true, _) => SyncKind::Resumed,
            (false, true) => SyncKind::Fresh,
            (false, false) => SyncKind::Reloaded,
        };
        *(if found { &mut self.counters.resumes } else { &mut self.counters.loads }) += 1;
        if !delta.is_empty() {
            self.events.push_back(Event::Changed(delta));
        }
        self.events.push_back(Event::Synced { how });
        if let Some(acked) = self.conditions.ack() {
            self.events.push_back(Event::Condition { acked });
        }
        self.send_conditions();
        self.send_locks();
        Ok(())
    }
}

/// The content of a reply to a monitor request.
pub(super) struct Content<'a> {
    /// Whether the server resumes from our last transaction.
    pub(super) found: bool,
    /// The last transaction in it.
    pub(super) last_id: Option<Uuid>,
    pub(super) body: &'a str,
}

/// Reads a reply to a monitor request.
pub(super) fn content(method: Method, reply: &str, resume: bool) -> Result<Content<'_>, CloseReason> {
    match method {
        Method::CondSince => {
            let (found, id, body) = since(reply).ok_or_else(|| {
                CloseReason::Protocol("monitor_cond_since: the reply is not [found, id, updates]".into())
            })?;
            // Without history a server gives the nil id, which resumes nothing.
            let last_id = Uuid::try_parse(id).ok().filter(|id| !id.is_nil());
            Ok(Content { found: found && resume, last_id, body })
        }
        Method::Cond | Method::Monitor => Ok(Content { found: false, last_id: None, body: reply }),
    }
}

/// The parts of `[found, "id", updates]`. The updates may be a hundred megabytes. They are not parsed here; the decoder finds
/// out if they are not an object.
fn since(reply: &str) -> Option<(bool, &str, &str)> {
    let inside = reply.trim().strip_prefix('[')?.strip_suffix(']')?;
    let (found, rest) = inside.split_once(',')?;
    let found = match found.trim() {
        "true" => true,
        "false" => false,
        _ => return None,
    };
    let (id, rest) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
    Some((found, id, rest.trim_start().strip_prefix(',')?.trim()))
}

#[cfg(test)]
mod tests {
    use super::since;

    #[test]
    fn a_reply_is_taken_apart_without_a_look_at_its_content() {
        assert_eq!(since(r#"[true,"id",{"T":{}}]"#), Some((true, "id", r#"{"T":{}}"#)));
        assert_eq!(since(" [ false , \"id\" , {} ] "), Some((false, "id", "{}")));
        for other in
            ["null", "[]", r#"[true,"id"]"#, r#"["id",true,{}]"#, r#"[1,"id",{}]"#, "{}", "[true,1,{}]"]
        {
            assert_eq!(since(other), None, "{other}");
        }
    }
}
