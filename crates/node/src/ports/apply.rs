//! Changes ports, one transaction for each.

use ovn::text::Text;
use ovn::text::neutron::key;
use ovn::vswitch::{Bridge, Interface, Port};
use ovsdb::txn::{CommitError, Committed};
use ovsdb::{Function, Ref, RowFilter, Set, TableColumns, Transaction, Uuid};
use reconcile::Class;

use super::observe::Ports;
use super::state::{INTERNAL, Op, PortMark};

/// The reason why a change of a port failed.
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
    /// The remedy.
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
        let committed = client.commit(&transaction(op, self.mark)).await.map_err(PortError::Commit)?;
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

fn transaction(op: &Op, mark: PortMark) -> Transaction {
    let mut txn = Transaction::new();
    match op {
        // The server chooses the UUIDs: choosing them needs a newer switch than some nodes have. Names of ports are unique anyway.
        Op::Add { dev, bridge, tag, mac } => {
            let (device, port) =
                (Ref::<Interface>::new(Uuid::from_u128(1)), Ref::<Port>::new(Uuid::from_u128(2)));
            let interface = Interface {
                name: dev.to_string().into(),
                kind: INTERNAL.into(),
                mac: Some(Text::from(*mac)),
                ..Interface::default()
            };
            let member = Port {
                name: dev.to_string().into(),
                tag: Some(i64::from(*tag)),
                interfaces: Set::from([device]),
                external_ids: [(key::OWNER.into(), mark.0.into())].into(),
                ..Port::default()
            };
            txn.insert_unnumbered(device, &interface).insert_unnumbered(port, &member);
            let named = RowFilter::column(Bridge::NAME, Function::Equal, &bridge.to_string().into());
            txn.put_where(&named, Bridge::PORTS, &Set::from([port]));
        }
        Op::Correct { port, seen, .. } => {
            let carried = Port { tag: Some(i64::from(port.tag)), ..Port::default() };
            txn.write(seen.rows.port, &carried, Port::TAG);
            let interface =
                Interface { kind: INTERNAL.into(), mac: port.mac.map(Text::from), ..Interface::default() };
            let mut columns = TableColumns::from(Interface::KIND);
            if port.mac.is_some() {
                columns = columns | Interface::MAC;
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
