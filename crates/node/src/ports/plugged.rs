//! System devices in the integration bridge, bound to a logical port by `iface-id`.
//!
//! Such a port is ours by the mark of its role, beside which stands the network that it serves. The device's owner may also take
//! over a port of the same name: a veth pair whose other end is in our namespace has no other owner.

use std::collections::BTreeMap;

use ovn::text::neutron::key;
use ovn::vswitch::{Bridge, Interface, Port};
use ovsdb::{Client, Function, Ref, RowFilter, Set, Snapshot, Str, Transaction, Uuid};
use serde::Serialize;
use smol_str::SmolStr;

use super::apply::PortError;
use super::state::{PortMark, Rows};
use crate::kernel::Dev;

/// The key beside the mark: the network that the port serves.
const NETWORK: &str = "meridian:network";
/// The key that binds an interface to a logical port.
const IFACE_ID: &str = "iface-id";

/// A port that must be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PluggedPort {
    /// Its bridge.
    pub bridge: Dev,
    /// The logical port.
    pub iface_id: Str,
    /// The network that it serves.
    #[serde(skip)]
    pub network: Uuid,
}

/// An observed port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenPlug {
    /// Its bridge.
    pub bridge: Dev,
    /// The logical port.
    pub iface_id: Option<Str>,
    /// The network that it serves; `None` without our mark.
    pub network: Option<Uuid>,
    /// Its rows.
    pub rows: Rows,
}

impl SeenPlug {
    /// Whether it is as desired.
    pub fn is(&self, port: &PluggedPort) -> bool {
        self.bridge == port.bridge
            && self.iface_id.as_ref() == Some(&port.iface_id)
            && self.network == Some(port.network)
    }
}

/// The ports that bear the mark, and those with a name for which `is_named` is true.
pub fn observe(
    snapshot: &Snapshot,
    mark: PortMark,
    is_named: impl Fn(&str) -> bool,
) -> BTreeMap<Dev, SeenPlug> {
    let mut seen = BTreeMap::new();
    for (bridge, row) in snapshot.table::<Bridge>().iter() {
        for (port, found) in row.ports.iter().filter_map(|port| Some((*port, snapshot.get(*port)?))) {
            let network = found.external_ids.get(NETWORK).filter(|_| mark.is_on(found));
            let network = network.and_then(|text| Uuid::try_parse(text).ok());
            if network.is_none() && !is_named(&found.name) {
                continue;
            }
            let mut interfaces = found.interfaces.iter();
            let Some((interface, of)) =
                interfaces.find_map(|interface| Some((*interface, snapshot.get(*interface)?)))
            else {
                continue;
            };
            let plug = SeenPlug {
                bridge: SmolStr::new(&row.name),
                iface_id: of.external_ids.get(IFACE_ID).cloned(),
                network,
                rows: Rows { bridge, port, interface },
            };
            seen.insert(SmolStr::new(&found.name), plug);
        }
    }
    seen
}

/// Adds a device as a port with everything that binds it, in one transaction, so that ovn-controller never finds it half done.
/// A port of the same name elsewhere goes in the same transaction.
pub async fn plug(
    client: &Client,
    mark: PortMark,
    dev: &Dev,
    port: &PluggedPort,
    seen: Option<&SeenPlug>,
) -> Result<(), PortError> {
    let mut txn = Transaction::new();
    match seen.filter(|seen| seen.bridge == port.bridge) {
        Some(seen) => {
            let keys = [(Str::new(IFACE_ID), port.iface_id.clone())].into();
            txn.put(seen.rows.interface, Interface::EXTERNAL_IDS, &keys);
            txn.put(seen.rows.port, Port::EXTERNAL_IDS, &marks(mark, port.network));
        }
        None => {
            if let Some(seen) = seen {
                remove(&mut txn, seen);
            }
            let (device, row) =
                (Ref::<Interface>::new(Uuid::from_u128(1)), Ref::<Port>::new(Uuid::from_u128(2)));
            let interface = Interface {
                name: dev.as_str().into(),
                external_ids: [(Str::new(IFACE_ID), port.iface_id.clone())].into(),
                ..Interface::default()
            };
            let member = Port {
                name: dev.as_str().into(),
                interfaces: Set::from([device]),
                external_ids: marks(mark, port.network),
                ..Port::default()
            };
            txn.insert_unnumbered(device, &interface).insert_unnumbered(row, &member);
            let named = RowFilter::column(Bridge::NAME, Function::Equal, &port.bridge.as_str().into());
            txn.put_where(&named, Bridge::PORTS, &Set::from([row]));
        }
    }
    txn.comment(&format!("meridian: add port {dev}"));
    let committed = client.commit(&txn).await.map_err(PortError::Commit)?;
    match committed.missed().next().is_some() {
        true => Err(PortError::Gone(port.bridge.to_string())),
        false => Ok(()),
    }
}

/// Removes a port from its bridge.
pub async fn unplug(client: &Client, dev: &Dev, seen: &SeenPlug) -> Result<(), PortError> {
    let mut txn = Transaction::new();
    remove(&mut txn, seen);
    txn.comment(&format!("meridian: remove port {dev}"));
    client.commit(&txn).await.map(drop).map_err(PortError::Commit)
}

fn remove(txn: &mut Transaction, seen: &SeenPlug) {
    let before = Bridge { ports: Set::from([seen.rows.port]), ..Bridge::default() };
    txn.update(seen.rows.bridge, &before, &Bridge::default());
}

fn marks(mark: PortMark, network: Uuid) -> ovsdb::Map<Str, Str> {
    [(Str::new(key::OWNER), Str::new(mark.0)), (Str::new(NETWORK), Str::new(network.to_string()))].into()
}
