//! Changes ports, one transaction for each.

use ovn::text::Text;
use ovn::text::neutron::key;
use ovn::vswitch::{Bridge, Interface, Port};
use ovsdb::model::ColumnSet;
use ovsdb::txn::{CommitError, Committed};
use ovsdb::{Set, Transaction};
use reconcile::Class;
use serde_json::json;

use super::observe::Ports;
use super::state::{INTERNAL, OWNER, Op};

/// Why a port was not changed.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Nobody said where the switch's database is.
    #[error("write the local switch's database, which is not open")]
    NoDatabase,
    /// The bridge or the port is not there any more.
    #[error("find {0} in the local switch's database")]
    Gone(String),
    /// The database did not take it.
    #[error("write the local switch's database")]
    Commit(#[source] CommitError),
}

impl PortError {
    /// What will help.
    pub fn class(&self) -> Class {
        match self {
            PortError::NoDatabase => Class::Refused,
            PortError::Gone(_) => Class::Conflict,
            PortError::Commit(error) => ovn::target::apply::class(error),
        }
    }
}

impl Ports {
    /// Carries out one op. The device follows when the switch has seen it.
    pub async fn apply(&self, op: &Op) -> Result<(), PortError> {
        let client = self.client.as_ref().ok_or(PortError::NoDatabase)?;
        let committed = client.commit(&transaction(op)).await.map_err(PortError::Commit)?;
        match (missed(&committed), op) {
            (false, _) | (true, Op::Delete { .. }) => Ok(()),
            (true, Op::Add { bridge, .. }) => Err(PortError::Gone(bridge.to_string())),
            (true, Op::Correct { dev, .. }) => Err(PortError::Gone(dev.to_string())),
        }
    }
}

fn missed(committed: &Committed) -> bool {
    committed.missed().next().is_some()
}

fn transaction(op: &Op) -> Transaction {
    let mut txn = Transaction::new();
    match op {
        // By hand, as UUIDs of one's own choice need a newer switch than some nodes have; names of ports are unique anyway.
        Op::Add { dev, bridge, tag, mac } => {
            let mark = json!(["map", [[key::OWNER, OWNER]]]);
            let interface = json!({ "name": dev, "type": INTERNAL, "mac": mac.to_string() });
            let port = json!({ "name": dev, "tag": tag, "interfaces": ["named-uuid", "device"], "external_ids": mark });
            let join = json!([["ports", "insert", ["named-uuid", "port"]]]);
            txn.raw(
                &json!({ "op": "insert", "table": "Interface", "uuid-name": "device", "row": interface }),
            );
            txn.raw(&json!({ "op": "insert", "table": "Port", "uuid-name": "port", "row": port }));
            txn.raw(&json!({ "op": "mutate", "table": "Bridge", "where": [["name", "==", bridge]], "mutations": join }));
        }
        Op::Correct { port, seen, .. } => {
            let carried = Port { tag: Some(i64::from(port.tag)), ..Port::default() };
            txn.write(seen.rows.port, &carried, [Port::TAG].into_iter().collect());
            let interface =
                Interface { kind: INTERNAL.into(), mac: port.mac.map(Text::from), ..Interface::default() };
            let mut columns: ColumnSet = [Interface::KIND].into_iter().collect();
            if port.mac.is_some() {
                columns.insert(Interface::MAC);
            }
            txn.write(seen.rows.interface, &interface, columns);
        }
        Op::Delete { seen, .. } => {
            let before = Bridge { ports: Set::from([seen.rows.port]), ..Bridge::default() };
            txn.update(seen.rows.bridge, &before, &Bridge::default());
        }
    }
    txn.comment(&format!("meridian: {op}"));
    txn
}
