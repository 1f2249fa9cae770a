//! Changes as SQL statements, the same for both engines.
//!
//! Besides its JSON, an entity has columns that the database can check by itself. Some entities also have rows in a second table: the
//! addresses of ports, the flags and ports of routers.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Cow;
use std::sync::OnceLock;

use uuid::Uuid;

use crate::model::{Port, Router};
use crate::world::{CHANGES_KEPT, Change, Kind, Revision, Row};

/// A value of an SQL statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlValue {
    /// A string, or `NULL`.
    Text(Option<String>),
    /// An integer.
    Number(i64),
    /// A boolean.
    Flag(bool),
}

impl SqlValue {
    /// The UUID as a string, or `NULL`.
    pub fn optional(id: Option<Uuid>) -> Self {
        SqlValue::Text(id.map(|id| id.to_string()))
    }
}

impl<T: ToString> From<&T> for SqlValue {
    fn from(value: &T) -> Self {
        SqlValue::Text(Some(value.to_string()))
    }
}

/// A statement with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) sql: Cow<'static, str>,
    pub(super) values: Vec<SqlValue>,
}

impl Statement {
    pub(super) fn new(sql: impl Into<Cow<'static, str>>, values: Vec<SqlValue>) -> Self {
        Statement { sql: sql.into(), values }
    }
}

/// The statements that write `changes` as a revision. Deletions come first, so that a unique value can move between rows within a
/// transaction.
///
/// The batch identifies the transaction: a writer whose connection broke during the commit searches for it afterwards.
pub(super) fn statements(Revision { seq, batch, .. }: Revision, changes: &[Change]) -> Vec<Statement> {
    let mut all = Vec::new();
    for change in changes {
        match change {
            Change::Put(Row::Port(port)) => delete_children(Kind::Port, &port.id.to_string(), &mut all),
            Change::Put(_) => {}
            Change::Remove(kind, key) => delete_children(*kind, key, &mut all),
        }
    }
    for change in changes.iter().rev() {
        if let Change::Remove(kind, key) = change {
            let sql = format!("DELETE FROM {} WHERE id = $1", kind.table());
            all.push(Statement::new(sql, vec![key.into()]));
        }
    }
    for change in changes {
        if let Change::Put(row) = change {
            put(row, &mut all);
        }
    }
    for change in changes {
        let key = match change {
            Change::Put(row) => row.key(),
            Change::Remove(_, key) => key.clone(),
        };
        all.push(Statement::new(
            "INSERT INTO changes (seq, batch, kind, key) VALUES ($1, $2, $3, $4)",
            vec![number(seq), (&batch).into(), (&change.kind().table()).into(), (&key).into()],
        ));
    }
    all.push(Statement::new("UPDATE state SET seq = $1 WHERE one = 1", vec![number(seq)]));
    if seq.is_multiple_of(CHANGES_KEPT) {
        let old = number(seq - CHANGES_KEPT);
        all.push(Statement::new("DELETE FROM changes WHERE seq <= $1", vec![old]));
    }
    all
}

/// A sequence number as an SQL value.
pub(super) fn number(seq: u64) -> SqlValue {
    SqlValue::Number(i64::try_from(seq).unwrap_or(i64::MAX))
}

fn delete_children(kind: Kind, key: &str, all: &mut Vec<Statement>) {
    let children: &[&str] = match kind {
        Kind::Port => {
            &["DELETE FROM ipallocations WHERE port_id = $1", "DELETE FROM routerports WHERE port_id = $1"]
        }
        Kind::Router => &["DELETE FROM router_extra_attributes WHERE router_id = $1"],
        _ => &[],
    };
    all.extend(children.iter().map(|sql| Statement::new(*sql, vec![SqlValue::Text(Some(key.to_owned()))])));
}

/// The SQL that stores an entity of each noun, built at first use.
static PUTS: [OnceLock<String>; Kind::ALL.len()] = [const { OnceLock::new() }; Kind::ALL.len()];
static PUT_ROUTER_ATTRIBUTES: OnceLock<String> = OnceLock::new();

fn put(row: &Row, all: &mut Vec<Statement>) {
    let mut columns = vec![("id", (&row.key()).into())];
    columns.extend(row.columns());
    columns.push(("body", SqlValue::Text(Some(row.to_json()))));
    all.push(upsert(&PUTS[row.kind() as usize], row.kind().table(), "id", columns));
    match row {
        Row::Port(port) => put_port_children(port, all),
        Row::Router(router) => all.push(put_router_attributes(router)),
        _ => {}
    }
}

fn put_port_children(port: &Port, all: &mut Vec<Statement>) {
    for fixed in &port.fixed_ips {
        all.push(Statement::new(
            "INSERT INTO ipallocations (port_id, subnet_id, ip_address) VALUES ($1, $2, $3)",
            vec![(&port.id).into(), (&fixed.subnet_id).into(), (&fixed.ip_address).into()],
        ));
    }
    if let Some(router) = port.router_id() {
        all.push(Statement::new(
            "INSERT INTO routerports (router_id, port_id, port_type) VALUES ($1, $2, $3)",
            vec![(&router).into(), (&port.id).into(), (&port.device_owner).into()],
        ));
    }
}

fn put_router_attributes(router: &Router) -> Statement {
    upsert(
        &PUT_ROUTER_ATTRIBUTES,
        "router_extra_attributes",
        "router_id",
        vec![
            ("router_id", (&router.id).into()),
            ("enable_default_route_ecmp", SqlValue::Flag(router.enable_default_route_ecmp)),
            ("enable_default_route_bfd", SqlValue::Flag(router.enable_default_route_bfd)),
        ],
    )
}

/// An `INSERT` that replaces the row with the same key, if there is one.
fn upsert(
    text: &'static OnceLock<String>,
    table: &str,
    key: &str,
    columns: Vec<(&'static str, SqlValue)>,
) -> Statement {
    let sql = text.get_or_init(|| {
        let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
        let places: Vec<_> = (1..=columns.len()).map(|n| format!("${n}")).collect();
        let others = names.iter().filter(|name| **name != key);
        let set: Vec<_> = others.map(|name| format!("{name} = excluded.{name}")).collect();
        let (names, places, set) = (names.join(", "), places.join(", "), set.join(", "));
        format!("INSERT INTO {table} ({names}) VALUES ({places}) ON CONFLICT ({key}) DO UPDATE SET {set}")
    });
    Statement::new(sql.as_str(), columns.into_iter().map(|(_, value)| value).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::*;
    use crate::model::{Network, NetworkType, Segment, Standard};

    #[test]
    fn what_goes_away_goes_before_what_comes() {
        let id = Uuid::from_u128(1);
        let network = Network {
            id,
            project: "p".into(),
            name: "n'); DROP TABLE networks; --".into(),
            admin_state_up: true,
            external: false,
            segment: Segment {
                id,
                network_type: NetworkType::Geneve,
                physical_network: None,
                segmentation_id: Some(7),
            },
            mtu: 1442,
            port_security_enabled: true,
            availability_zone_hints: Vec::new(),
            dns_domain: String::new(),
            is_default: false,
            standard: Standard::new(Timestamp::UNIX_EPOCH, ""),
        };
        let changes =
            [Change::Put(Row::Network(Arc::new(network))), Change::Remove(Kind::Port, id.to_string())];
        let sql: Vec<_> = statements(Revision { seq: 3, batch: id, ..Revision::default() }, &changes)
            .into_iter()
            .map(|statement| statement.sql)
            .collect();
        assert_eq!(
            sql,
            [
                "DELETE FROM ipallocations WHERE port_id = $1",
                "DELETE FROM routerports WHERE port_id = $1",
                "DELETE FROM ports WHERE id = $1",
                "INSERT INTO networks (id, project_id, body) VALUES ($1, $2, $3) \
                 ON CONFLICT (id) DO UPDATE SET project_id = excluded.project_id, body = excluded.body",
                "INSERT INTO changes (seq, batch, kind, key) VALUES ($1, $2, $3, $4)",
                "INSERT INTO changes (seq, batch, kind, key) VALUES ($1, $2, $3, $4)",
                "UPDATE state SET seq = $1 WHERE one = 1",
            ]
        );
    }
}
