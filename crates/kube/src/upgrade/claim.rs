//! Rows that ovn-kubernetes wrote for our networks, which Meridian takes over.
//!
//! They carry no mark of ours, so nothing but an explicit command makes them ours. The command claims exactly the rows that name one of
//! our networks and the layer-2 topology. Tables whose rows networks share are never claimed: an access list, a port group or a
//! load balancer may be in use elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use ovn::ident::is_marked_uuid;
use ovn::nb::{
    GatewayChassis, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute,
    LogicalSwitch, LogicalSwitchPort, Nat, StaticMacBinding,
};
use ovn::target::{RowId, Writable};
use ovn::text::neutron::key::OWNER;
use ovsdb::{Map, Snapshot, Str, Table, Uuid};
use reconcile::ObjectId;

use crate::network::NetworkName;
use crate::zone::Topology;
use crate::zone::desired::identity;

const NETWORK: &str = "k8s.ovn.org/network";
const TOPOLOGY: (&str, &str) = ("k8s.ovn.org/topology", "layer2");

/// The rows of other programs that belong to these networks, each with the object that it will belong to. `owner` marks our own rows.
pub fn claim(
    northbound: &Snapshot,
    networks: &BTreeSet<NetworkName>,
    owner: &str,
) -> BTreeMap<RowId, ObjectId> {
    let mut claimed = BTreeMap::new();
    of_table::<LogicalSwitch>(northbound, networks, &mut claimed);
    of_table::<LogicalSwitchPort>(northbound, networks, &mut claimed);
    of_table::<LogicalRouter>(northbound, networks, &mut claimed);
    of_table::<LogicalRouterPort>(northbound, networks, &mut claimed);
    of_table::<LogicalRouterStaticRoute>(northbound, networks, &mut claimed);
    of_table::<LogicalRouterPolicy>(northbound, networks, &mut claimed);
    of_table::<Nat>(northbound, networks, &mut claimed);
    of_table::<GatewayChassis>(northbound, networks, &mut claimed);
    // These rows have no keys; their port says whose they are.
    let is_ours = |port: &LogicalRouterPort| network_of(&port.external_ids, networks).is_some();
    let ports = northbound.table::<LogicalRouterPort>().iter().filter(|(_, port)| is_ours(port));
    let ports: BTreeSet<&str> = ports.map(|(_, port)| port.name.as_str()).collect();
    for (id, row) in northbound.table::<StaticMacBinding>().iter() {
        if ports.contains(row.logical_port.as_str()) && !is_marked_uuid(owner, id.uuid()) {
            let object = identity::name_row(id.uuid(), row);
            claimed.extend(object.map(|object| (RowId::of::<StaticMacBinding>(id.uuid()), object)));
        }
    }
    claimed
}

fn of_table<T: Writable + Table + std::fmt::Debug>(
    northbound: &Snapshot,
    networks: &BTreeSet<NetworkName>,
    claimed: &mut BTreeMap<RowId, ObjectId>,
) {
    for (id, row) in northbound.table::<T>().iter() {
        let Some(ids) = row.external_ids().filter(|ids| !ids.contains_key(OWNER)) else { continue };
        let object = network_of(ids, networks).and_then(|_| identity::name_row(id.uuid(), row));
        claimed.extend(object.map(|object| (RowId::of::<T>(id.uuid()), object)));
    }
}

/// The network of a row, if it is one of ours and the row is of the layer-2 topology.
fn network_of<'n>(ids: &Map<Str, Str>, networks: &'n BTreeSet<NetworkName>) -> Option<&'n NetworkName> {
    let is_layer2 = ids.get(TOPOLOGY.0).is_some_and(|topology| topology == TOPOLOGY.1);
    let name = ids.get(NETWORK).filter(|_| is_layer2)?;
    networks.iter().find(|network| network.as_str() == name.as_str())
}

/// Rows whose identity traffic depends on, by table and name. OVN gives a router or a switch with another UUID another zone of
/// connection tracking, and every open connection through it ends. So a row that is there keeps its UUID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastingRows(BTreeMap<(&'static str, String), Uuid>);

impl LastingRows {
    /// The rows of our networks in a Northbound that are ours or claimed.
    pub fn read(
        northbound: &Snapshot,
        networks: &BTreeSet<NetworkName>,
        claimed: &BTreeMap<RowId, ObjectId>,
    ) -> LastingRows {
        let mut rows = LastingRows::default();
        rows.extend::<LogicalSwitch>(northbound, networks, claimed, |row| &row.name);
        rows.extend::<LogicalRouter>(northbound, networks, claimed, |row| &row.name);
        rows.extend::<LogicalSwitchPort>(northbound, networks, claimed, |row| &row.name);
        rows
    }

    fn extend<T: Writable + Table>(
        &mut self,
        northbound: &Snapshot,
        networks: &BTreeSet<NetworkName>,
        claimed: &BTreeMap<RowId, ObjectId>,
        name: fn(&T) -> &Str,
    ) {
        for (id, row) in northbound.table::<T>().iter() {
            let Some(ids) = row.external_ids().filter(|ids| network_of(ids, networks).is_some()) else {
                continue;
            };
            if ids.contains_key(OWNER) || claimed.contains_key(&RowId::of::<T>(id.uuid())) {
                // Names of routers are not unique. The order of rows is, as long as they live.
                self.0.entry((T::TABLE, name(row).to_string())).or_insert(id.uuid());
            }
        }
    }

    /// Rows with these UUIDs, by table and name.
    #[cfg(test)]
    pub(crate) fn of(rows: impl IntoIterator<Item = ((&'static str, String), Uuid)>) -> LastingRows {
        LastingRows(rows.into_iter().collect())
    }

    /// The UUID of a row that is there.
    pub fn get(&self, table: &'static str, name: &str) -> Option<Uuid> {
        self.0.get(&(table, name.to_owned())).copied()
    }
}

/// The topology of the rows that are there, ours or others': the gateway router of an old node is connected to the switch. Without
/// rows of these networks there is none.
pub fn topology_of_rows(northbound: &Snapshot, networks: &BTreeSet<NetworkName>) -> Option<Topology> {
    let mut found = None;
    for (_, router) in northbound.table::<LogicalRouter>().iter() {
        if network_of(&router.external_ids, networks).is_none() {
            continue;
        }
        let is_gateway = router.name.starts_with("GR_");
        let ports = router.ports.iter().filter_map(|port| northbound.get::<LogicalRouterPort>(port.uuid()));
        let on_switch = ports.filter(|port| port.name.starts_with("rtos-")).count() > 0;
        match (is_gateway, on_switch) {
            // One network that has not switched is enough: its rows must go.
            (true, true) => return Some(Topology::Old),
            _ => found = Some(Topology::New),
        }
    }
    found
}
