//! Small random clouds: desired rows, and foreign changes of the database meanwhile.

use std::collections::BTreeMap;
use std::fmt;

use ovsdb::{Map, Ref, Set, Str, TableColumns, Uuid, Weak};
use proptest::prelude::*;
use reconcile::ObjectId;

use super::model::Model;
use super::{object, uuid};
use crate::target::state::Writable;
use crate::target::{Desired, Part};
use crate::text::Text;
use crate::{ident, nb};

/// The desired state of one deployment.
#[derive(Clone, Debug)]
pub(super) struct Cloud {
    /// Variant of each network's settings.
    networks: [Option<u8>; 3],
    /// Network and MAC of each port, and whether it has a floating IP.
    ports: [Option<(u8, u8, bool)>; 4],
    /// Networks of each load balancer, by bit; bit 3 is a foreign switch.
    balancers: [Option<u8>; 2],
    /// Whether the cloud has a router, and the external address of each NAT row.
    router: Option<[Option<u8>; 2]>,
    /// Static neighbours.
    neighbours: [bool; 2],
}

pub(super) fn cloud() -> impl Strategy<Value = Cloud> {
    let networks = proptest::array::uniform3(proptest::option::weighted(0.7, 0u8..4));
    let port = proptest::option::weighted(0.7, (0u8..3, 0u8..3, any::<bool>()));
    let ports = proptest::array::uniform4(port);
    let balancers = proptest::array::uniform2(proptest::option::of(0u8..16));
    let router = proptest::option::of(proptest::array::uniform2(proptest::option::of(0u8..3)));
    (networks, ports, balancers, router, any::<[bool; 2]>()).prop_map(
        |(networks, ports, balancers, router, neighbours)| Cloud {
            networks,
            ports,
            balancers,
            router,
            neighbours,
        },
    )
}

const FOREIGN_SWITCH: u128 = 0xf00;
pub(super) const NETWORK: u128 = 0x100;
pub(super) const PORT: u128 = 0x200;
const BALANCER: u128 = 0x300;
const ROUTER: u128 = 0x400;
const NAT: u128 = 0x500;
/// The number of ports that the switch's own row lists.
const NAMED: usize = 1;

/// The desired state of each object.
#[derive(Default)]
pub(super) struct Parts(pub(super) BTreeMap<ObjectId, Part>);

impl Parts {
    fn part(&mut self, object: &ObjectId) -> &mut Part {
        self.0.entry(object.clone()).or_default()
    }

    fn own<T: Writable + fmt::Debug>(&mut self, object: ObjectId, uuid: Uuid, row: T) {
        self.part(&object).own(object, uuid, row);
    }

    fn share<T: Writable + fmt::Debug>(
        &mut self,
        object: ObjectId,
        uuid: Uuid,
        row: T,
        columns: impl Into<TableColumns<T>>,
    ) {
        self.part(&object).share(object, uuid, row, columns);
    }
}

fn numbered(kind: &str, n: usize) -> ObjectId {
    object(kind, &n.to_string())
}

fn ids<const N: usize>(pairs: [(&str, &str); N]) -> Map<Str, Str> {
    pairs.map(|(key, value)| (key.into(), value.into())).into()
}

impl Cloud {
    /// The networks that ports may be on.
    fn has_network(&self, n: u8) -> bool {
        self.networks.get(n as usize).is_some_and(Option::is_some)
    }

    pub(super) fn desired(&self) -> Desired {
        let mut want = Desired::new();
        self.parts().0.values().for_each(|part| want.add(part));
        want
    }

    /// The same cloud, object by object.
    pub(super) fn parts(&self) -> Parts {
        let mut want = Parts::default();
        for (n, variant) in self.networks.iter().enumerate() {
            let Some(variant) = variant else { continue };
            let on =
                |port: &Option<(u8, u8, bool)>| matches!(port, Some((network, ..)) if *network as usize == n);
            // The others join it by themselves.
            let named = (0..NAMED).filter(|p| on(&self.ports[*p]));
            let ports = named.map(|p| Ref::new(uuid(PORT + p as u128)));
            let mut row = nb::LogicalSwitch { name: format!("net-{variant}").into(), ..Default::default() };
            row.ports = ports.collect();
            if variant & 1 == 1 {
                row.other_config = ids([("mcast_snoop", "true")]);
            }
            if variant & 2 == 2 {
                row.external_ids = ids([("neutron:mtu", "1442")]);
            }
            want.own(numbered("network", n), uuid(NETWORK + n as u128), row);
        }
        for (n, port) in self.ports.iter().enumerate() {
            let Some((network, mac, fip)) = port else { continue };
            if !self.has_network(*network) {
                continue;
            }
            let addresses = Set::from([Text::new(&format!("fa:16:3e:00:00:0{mac} 10.0.0.{n}"))]);
            let row = nb::LogicalSwitchPort {
                name: format!("port-{n}").into(),
                addresses,
                external_ids: ids([("neutron:cidrs", "10.0.0.1/24")]),
                ..Default::default()
            };
            let id = uuid(PORT + n as u128);
            let object = numbered("port", n);
            want.own(object.clone(), id, row);
            if n >= NAMED {
                let switch = uuid(NETWORK + u128::from(*network));
                let part = want.part(&object);
                part.member::<nb::LogicalSwitch>(object, switch, nb::LogicalSwitch::PORTS, id);
            }
            if *fip {
                let row = nb::LogicalSwitchPort {
                    external_ids: ids([("neutron:port_fip", "192.0.2.1")]),
                    ..Default::default()
                };
                want.share(numbered("floatingip", n), id, row, nb::LogicalSwitchPort::EXTERNAL_IDS);
            }
        }
        self.balancers(&mut want);
        self.router(&mut want);
        for (n, _) in self.neighbours.iter().enumerate().filter(|(_, on)| **on) {
            let row = nb::StaticMacBinding {
                logical_port: format!("lrp-{n}").into(),
                ip: Text::new("10.0.0.9"),
                mac: Text::new("fa:16:3e:00:00:09"),
                override_dynamic_mac: true,
            };
            want.own(numbered("neighbour", n), neighbour(n), row);
        }
        want
    }

    fn balancers(&self, want: &mut Parts) {
        let column = nb::LogicalSwitch::LOAD_BALANCER;
        for (n, on) in self.balancers.iter().enumerate() {
            let Some(on) = on else { continue };
            let id = uuid(BALANCER + n as u128);
            let row = nb::LoadBalancer {
                name: format!("lb-{n}").into(),
                vips: [(Text::new("10.0.0.10:80"), Text::new(&format!("10.0.0.{on}:80")))].into(),
                external_ids: ids([("enabled", "True")]),
                ..Default::default()
            };
            want.own(numbered("lb", n), id, row);
            for switch in 0..4u8 {
                if on & (1 << switch) == 0 || (switch < 3 && !self.has_network(switch)) {
                    continue;
                }
                let at = if switch == 3 { FOREIGN_SWITCH } else { NETWORK + u128::from(switch) };
                let load_balancer = Set::from([Weak::new(id)]);
                want.share(
                    numbered("lb", n),
                    uuid(at),
                    nb::LogicalSwitch { load_balancer, ..Default::default() },
                    column,
                );
            }
        }
        // Somebody must speak for the foreign switch, or the last member would stay in it.
        want.share(object("infra", "0"), uuid(FOREIGN_SWITCH), nb::LogicalSwitch::default(), column);
    }

    fn router(&self, want: &mut Parts) {
        let Some(nats) = &self.router else { return };
        want.own(
            object("router", "0"),
            uuid(ROUTER),
            nb::LogicalRouter { name: "router".into(), ..Default::default() },
        );
        for (n, address) in nats.iter().enumerate() {
            let Some(address) = address else { continue };
            let id = uuid(NAT + n as u128);
            let row = nb::Nat {
                external_ip: Text::new(&format!("192.0.2.{address}")),
                logical_ip: Text::new("10.0.0.0/24"),
                ..Default::default()
            };
            want.own(numbered("nat", n), id, row);
            if n == 1 {
                want.part(&numbered("nat", n)).member::<nb::LogicalRouter>(
                    numbered("nat", n),
                    uuid(ROUTER),
                    nb::LogicalRouter::NAT,
                    id,
                );
                continue;
            }
            let nat = Set::from([Ref::new(id)]);
            let row = nb::LogicalRouter { nat, ..Default::default() };
            want.share(numbered("nat", n), uuid(ROUTER), row, nb::LogicalRouter::NAT);
        }
    }
}

fn neighbour(n: usize) -> Uuid {
    ident::marked_uuid("cloud", "neighbour", &n.to_string(), "")
}

/// A foreign change of the database.
#[derive(Clone, Debug)]
pub(super) enum Meddling {
    ForeignSwitch(u8),
    OtherCloudsSwitch,
    JunkKeys(u8),
    ForeignPortInNetwork(u8),
    ForeignNatOnRouter,
    ForeignBalancerOnNetwork(u8),
    Rename(u8),
    UnlistPort(u8),
    StealMark(u8),
    ForeignNeighbour,
    PortInForeignGroup(u8),
}

pub(super) fn meddling() -> impl Strategy<Value = Vec<Meddling>> {
    use Meddling::*;
    let one = prop_oneof![
        (0u8..4).prop_map(ForeignSwitch),
        Just(OtherCloudsSwitch),
        (0u8..3).prop_map(JunkKeys),
        (0u8..3).prop_map(ForeignPortInNetwork),
        Just(ForeignNatOnRouter),
        (0u8..3).prop_map(ForeignBalancerOnNetwork),
        (0u8..3).prop_map(Rename),
        (0u8..4).prop_map(UnlistPort),
        (0u8..3).prop_map(StealMark),
        Just(ForeignNeighbour),
        (0u8..4).prop_map(PortInForeignGroup),
    ];
    proptest::collection::vec(one, 0..6)
}

impl Meddling {
    pub(super) fn apply(&self, db: &mut Model) {
        let network = |n: &u8| uuid(NETWORK + u128::from(*n));
        match self {
            Meddling::ForeignSwitch(mask) => {
                let balancers = (0..2u32).filter(|n| mask & (1 << n) != 0);
                let load_balancer: Set<_> =
                    balancers.map(|n| Weak::new(uuid(BALANCER + u128::from(n)))).collect();
                db.put(uuid(0xf01), nb::LogicalSwitchPort { name: "foreign".into(), ..Default::default() });
                let ports = Set::from([Ref::new(uuid(0xf01))]);
                let name = "theirs".into();
                db.put(
                    uuid(FOREIGN_SWITCH),
                    nb::LogicalSwitch { name, ports, load_balancer, ..Default::default() },
                );
            }
            Meddling::OtherCloudsSwitch => {
                let external_ids = ids([("meridian:owner", "elsewhere"), ("meridian:object", "network/0")]);
                db.put(uuid(0xf02), nb::LogicalSwitch { external_ids, ..Default::default() });
            }
            Meddling::JunkKeys(n) => {
                db.edit::<nb::LogicalSwitch>(network(n), |row| {
                    row.external_ids.insert("junk".into(), "1".into());
                    row.other_config.insert("theirs".into(), "1".into());
                    row.other_config.insert("mcast_querier".into(), "false".into());
                });
            }
            Meddling::ForeignPortInNetwork(n) => {
                let id = uuid(0xf10 + u128::from(*n));
                if has::<nb::LogicalSwitch>(db, network(n)) {
                    db.put(id, nb::LogicalSwitchPort { name: format!("f{n}").into(), ..Default::default() });
                    db.edit::<nb::LogicalSwitch>(network(n), |row| {
                        row.ports.insert(Ref::new(id));
                    });
                }
            }
            Meddling::ForeignNatOnRouter => {
                if has::<nb::LogicalRouter>(db, uuid(ROUTER)) {
                    db.put(
                        uuid(0xf20),
                        nb::Nat { external_ip: Text::new("203.0.113.1"), ..Default::default() },
                    );
                    db.edit::<nb::LogicalRouter>(uuid(ROUTER), |row| {
                        row.nat.insert(Ref::new(uuid(0xf20)));
                    });
                }
            }
            Meddling::ForeignBalancerOnNetwork(n) => {
                db.put(
                    uuid(0xf30),
                    nb::LoadBalancer { name: "pf-floatingip-1".into(), ..Default::default() },
                );
                db.edit::<nb::LogicalSwitch>(network(n), |row| {
                    row.load_balancer.insert(Weak::new(uuid(0xf30)));
                });
            }
            Meddling::Rename(n) => {
                db.edit::<nb::LogicalSwitch>(network(n), |row| row.name = "renamed".into())
            }
            Meddling::UnlistPort(n) => {
                let id = uuid(PORT + u128::from(*n));
                if db.ids().any(|row| row.uuid == id) {
                    // Held by another switch, or the server would have collected it.
                    for network in 0..3u8 {
                        db.edit::<nb::LogicalSwitch>(uuid(NETWORK + u128::from(network)), |row| {
                            row.ports.remove(&Ref::new(id));
                        });
                    }
                    let ports = Set::from([Ref::new(id)]);
                    db.put(
                        uuid(0xf03),
                        nb::LogicalSwitch { name: "thief".into(), ports, ..Default::default() },
                    );
                }
            }
            Meddling::StealMark(n) => {
                db.edit::<nb::LogicalSwitch>(network(n), |row| {
                    drop(row.external_ids.remove("meridian:owner"))
                });
            }
            Meddling::ForeignNeighbour => {
                db.put(
                    uuid(0xf40),
                    nb::StaticMacBinding { logical_port: "lrp-0".into(), ..Default::default() },
                );
            }
            Meddling::PortInForeignGroup(n) => {
                let ports = Set::from([Weak::new(uuid(PORT + u128::from(*n)))]);
                db.put(uuid(0xf50), nb::PortGroup { name: "theirs".into(), ports, ..Default::default() });
            }
        }
    }
}

fn has<T: ovsdb::Table>(db: &Model, uuid: Uuid) -> bool {
    db.ids().any(|row| row.table == T::TABLE && row.uuid == uuid)
}
