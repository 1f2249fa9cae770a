//! The monitored part of a database: methods, conditions, and whether a new connection may resume.
//!
//! Conditions have three stages, as in the C client: set (not sent), requested (sent, no reply) and acked (in force: the
//! replica holds these rows). A new connection resumes from the last transaction id under the acked conditions, and sends those
//! that were set meanwhile as a change. There is one exception. If a change was in flight, the server may have applied it and
//! sent a part of it, so the content of the replica is uncertain. Then the session loads everything again under the newest
//! conditions; the reload is a comparison, so only true changes are published.
//!
//! If a server refuses a load under conditions that were never in force, the session loads again under those that were, and
//! sends the others as a change, which the server refuses on its own. So one bad condition does not block the rest.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use uuid::Uuid;

use crate::model::{AnyCondition, Str};
use crate::replica::{MonitoredTable, UpdateVersion};

/// The method of monitoring; newer methods are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// `monitor`: whole old and new values, no conditions. A replica gets every row.
    Monitor,
    /// `monitor_cond`, OVS 2.6: differences, conditions.
    Cond,
    /// `monitor_cond_since`, OVS 2.12: the same, and a new connection can resume.
    CondSince,
}

impl Method {
    /// The protocol's name of the method.
    pub fn name(self) -> &'static str {
        match self {
            Self::Monitor => "monitor",
            Self::Cond => "monitor_cond",
            Self::CondSince => "monitor_cond_since",
        }
    }

    /// The notification that belongs to it.
    pub(super) fn update(self) -> &'static str {
        match self {
            Self::Monitor => "update",
            Self::Cond => "update2",
            Self::CondSince => "update3",
        }
    }

    /// The next older one.
    pub(super) fn older(self) -> Option<Self> {
        match self {
            Self::CondSince => Some(Self::Cond),
            Self::Cond => Some(Self::Monitor),
            Self::Monitor => None,
        }
    }

    pub(super) fn version(self) -> UpdateVersion {
        match self {
            Self::Monitor => UpdateVersion::V1,
            Self::Cond | Self::CondSince => UpdateVersion::V2,
        }
    }
}

/// The number of a change of conditions; a later change has a greater number. It is in force once `Event::Condition` reports it or a later
/// one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CondSeq(pub u64);

#[derive(Debug)]
struct TableCondition {
    acked: AnyCondition,
    requested: Option<AnyCondition>,
    set: Option<AnyCondition>,
}

/// The conditions of all tables.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    tables: BTreeMap<Str, TableCondition>,
    /// The newest one handed out.
    newest: CondSeq,
    /// The conditions in the current request.
    requested: Option<CondSeq>,
    acked: CondSeq,
}

impl Conditions {
    pub(super) fn new(initial: impl IntoIterator<Item = (Str, AnyCondition)>) -> Self {
        let tables = initial
            .into_iter()
            .map(|(table, acked)| (table, TableCondition { acked, requested: None, set: None }))
            .collect();
        Self { tables, ..Self::default() }
    }

    /// Sets another condition for a table; `None` if the table is not in the model.
    pub(super) fn set(&mut self, table: &str, condition: AnyCondition) -> Option<CondSeq> {
        let entry = self.tables.get_mut(table)?;
        let newest = entry.set.as_ref().or(entry.requested.as_ref()).unwrap_or(&entry.acked);
        if *newest != condition {
            entry.set = Some(condition);
            self.newest.0 += 1;
        }
        // A condition that changes nothing comes into force together with the change in flight.
        Some(self.newest)
    }

    /// The number of the last conditions in force.
    pub(super) fn acked(&self) -> CondSeq {
        self.acked
    }

    /// Marks set conditions as requested: a change, if there is one and none is in flight.
    pub(super) fn take_change(&mut self) -> Option<BTreeMap<Str, AnyCondition>> {
        if self.requested.is_some() || self.newest == self.acked {
            return None;
        }
        self.requested = Some(self.newest);
        let mut change = BTreeMap::new();
        for (table, entry) in &mut self.tables {
            if let Some(condition) = entry.set.take() {
                entry.requested = Some(condition.clone());
                change.insert(table.clone(), condition);
            }
        }
        Some(change)
    }

    /// Marks all set conditions as requested, because a monitor request that does not resume carries them.
    pub(super) fn take_all(&mut self) {
        for entry in self.tables.values_mut() {
            if let Some(condition) = entry.set.take() {
                entry.requested = Some(condition);
            }
        }
        self.requested = Some(self.newest);
    }

    /// Handles the success of the request; returns the newest number in force if it changed.
    pub(super) fn ack(&mut self) -> Option<CondSeq> {
        let seq = self.requested.take()?;
        for entry in self.tables.values_mut() {
            if let Some(condition) = entry.requested.take() {
                entry.acked = condition;
            }
        }
        let news = seq > self.acked;
        self.acked = seq;
        news.then_some(seq)
    }

    /// The server refused the change: drops the requested conditions.
    pub(super) fn refuse(&mut self) -> Option<CondSeq> {
        let seq = self.requested.take()?;
        for entry in self.tables.values_mut() {
            entry.requested = None;
        }
        // The change is settled, though not in force, so it does not delay later changes.
        self.acked = self.acked.max(seq);
        Some(seq)
    }

    /// Handles the end of the monitor. `true` if a request was in flight, so that the content of the replica is uncertain.
    pub(super) fn lost(&mut self) -> bool {
        let under_way = self.requested.is_some();
        self.put_back();
        under_way
    }

    /// Marks requested conditions as set again. Returns `true` if there were any: the request had more than is in force.
    pub(super) fn put_back(&mut self) -> bool {
        self.requested = None;
        let mut any = false;
        for entry in self.tables.values_mut() {
            if let Some(condition) = entry.requested.take() {
                entry.set.get_or_insert(condition);
                any = true;
            }
        }
        any
    }

    /// The condition that a monitor request carries for a table.
    fn asked(&self, table: &str) -> &AnyCondition {
        const ALL: &AnyCondition = &AnyCondition::All;
        self.tables.get(table).map_or(ALL, |entry| entry.requested.as_ref().unwrap_or(&entry.acked))
    }
}

/// The parameters of a monitor request.
pub(super) fn request(
    database: &str,
    id: &str,
    method: Method,
    monitored: &[MonitoredTable],
    conditions: &Conditions,
    last_id: Option<Uuid>,
) -> impl Serialize + use<> {
    #[derive(Serialize)]
    struct Ask<'a> {
        columns: &'a [Str],
        #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
        condition: Option<&'a AnyCondition>,
    }
    struct Tables<'a>(&'a [MonitoredTable], Method, &'a Conditions);
    impl Serialize for Tables<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let Self(monitored, method, conditions) = self;
            let mut map = serializer.serialize_map(Some(monitored.len()))?;
            for table in *monitored {
                let condition = conditions.asked(&table.table);
                let said = *method > Method::Monitor && *condition != AnyCondition::All;
                let ask = Ask { columns: &table.columns, condition: said.then_some(condition) };
                map.serialize_entry(&table.table, &[ask])?;
            }
            map.end()
        }
    }
    let tables = serde_json::to_value(Tables(monitored, method, conditions)).unwrap_or_default();
    let mut params = vec![database.into(), id.into(), tables];
    if method == Method::CondSince {
        params.push(last_id.unwrap_or(Uuid::nil()).to_string().into());
    }
    params
}

/// The parameters of a change of conditions.
pub(super) fn change(id: &str, change: &BTreeMap<Str, AnyCondition>) -> impl Serialize + use<> {
    #[derive(Serialize)]
    struct Ask<'a> {
        #[serde(rename = "where")]
        condition: &'a AnyCondition,
    }
    let tables: BTreeMap<_, _> =
        change.iter().map(|(table, condition)| (table, [Ask { condition }])).collect();
    // The id may be changed by the same request; it stays.
    (id.to_owned(), id.to_owned(), serde_json::to_value(tables).unwrap_or_default())
}

#[cfg(test)]
mod tests;
