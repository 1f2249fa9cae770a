//! Small worlds: the external networks, chassis and routers of the acceptance scenarios.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use ovn::MacAddr;
use uuid::Uuid;

use crate::fleet::{Chassis, Fleet};
use crate::model::{
    Binding, FixedIp, FloatingIp, NetworkType, Placed, Placement, Port, Router, SecurityGroup, Standard,
    owner,
};
use crate::report::Place;
use crate::resource::fixture::{self, id};
use crate::settings::Settings;
use crate::snapshot::sessions::Sessions;
use crate::snapshot::{Ability, Snapshot};
use crate::world::{Entity, Outside, Revision, Txn, World};

/// External network on `phy1`.
pub(crate) const N1: u128 = 0x11;
/// Its subnet, 192.0.2.0/24.
pub(crate) const S1: u128 = 0x12;
/// External network on `phy2`.
pub(crate) const N2: u128 = 0x21;
/// Its subnet, 198.51.100.0/24.
pub(crate) const S2: u128 = 0x22;
/// Internal network.
pub(crate) const NET: u128 = 0x31;
/// Its subnet, 10.0.0.0/24.
pub(crate) const SUB: u128 = 0x32;

/// A changeable world and its snapshot.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) snapshot: Snapshot,
    seq: u64,
}

impl Scene {
    /// An empty world with three chassis.
    pub(crate) fn empty() -> Self {
        let fleet = Fleet { chassis: ["ch1", "ch2", "ch3"].map(chassis).to_vec() };
        let snapshot = Snapshot { fleet: Arc::new(fleet), ..Default::default() };
        Scene { snapshot, seq: 0 }
    }

    /// The external networks, the internal one, and three chassis.
    pub(crate) fn new() -> Self {
        let mut scene = Scene::empty();
        for (n, physical) in [(N1, "phy1"), (N2, "phy2")] {
            let mut network = fixture::network(n, "admin");
            network.external = true;
            network.mtu = 1500;
            network.segment.network_type = NetworkType::Flat;
            network.segment.physical_network = Some(physical.into());
            network.segment.segmentation_id = None;
            scene.put(network);
        }
        scene.put(fixture::network(NET, "p"));
        for (n, network, cidr) in
            [(S1, N1, "192.0.2.0/24"), (S2, N2, "198.51.100.0/24"), (SUB, NET, "10.0.0.0/24")]
        {
            scene.put(fixture::subnet(n, network, cidr));
        }
        scene
    }

    /// Changes the world.
    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut Txn)) -> &mut Self {
        let outside = Outside::default();
        let mut txn =
            Txn::new(self.snapshot.world.clone(), Timestamp::UNIX_EPOCH, self.seq, Arc::new(outside));
        change(&mut txn);
        let (_, changes) = txn.finish();
        self.seq += 1;
        let revision = Revision { seq: self.seq, ..Revision::default() };
        self.snapshot.world.advance(revision, &changes);
        self.refresh();
        self
    }

    /// Restores the store from a backup with the same content.
    pub(crate) fn restore(&mut self) -> &mut Self {
        let world = self.snapshot.world.clone();
        let restores = world.restores() + 1;
        self.snapshot.world = world.with_restores(restores);
        self
    }

    /// Updates the derived parts of the snapshot.
    pub(crate) fn refresh(&mut self) {
        let Snapshot { world, report, settings, late, .. } = &self.snapshot;
        self.snapshot.sessions = Sessions::of(world, report, settings, &late.overdue);
    }

    pub(crate) fn put<T: Entity>(&mut self, entity: T) -> &mut Self {
        self.edit(|txn| drop(txn.put(entity)))
    }

    pub(crate) fn settings(&mut self, change: impl FnOnce(&mut Settings)) -> &mut Self {
        let mut settings = Settings::clone(&self.snapshot.settings);
        change(&mut settings);
        self.snapshot.settings = Arc::new(settings);
        self.refresh();
        self
    }

    pub(crate) fn ability(&mut self, ability: Ability) -> &mut Self {
        self.snapshot.ability = ability;
        self
    }

    pub(crate) fn world(&self) -> &World {
        &self.snapshot.world
    }

    pub(crate) fn port(&mut self, n: u128, network: u128, subnet: u128, address: &str) -> &mut Self {
        self.put(port(n, network, subnet, address))
    }

    /// A router, without ports.
    pub(crate) fn router(&mut self, n: u128) -> &mut Self {
        self.put(router(n))
    }

    /// A router's port on an internal network.
    pub(crate) fn interface(
        &mut self,
        n: u128,
        router: u128,
        network: u128,
        subnet: u128,
        address: &str,
    ) -> &mut Self {
        let mut port = port(n, network, subnet, address);
        port.device_id = id(router).to_string();
        port.device_owner = owner::ROUTER_INTERFACE.into();
        self.put(port)
    }

    /// A router's gateway on these chassis, the first the primary. The first gateway is the compatibility gateway.
    pub(crate) fn gateway(
        &mut self,
        n: u128,
        router: u128,
        network: u128,
        subnet: u128,
        address: &str,
        chassis: &[&str],
    ) -> &mut Self {
        self.edit(|txn| {
            let mut port = port(n, network, subnet, address);
            port.project = String::new();
            port.device_id = id(router).to_string();
            port.device_owner = owner::ROUTER_GATEWAY.into();
            port.port_security_enabled = false;
            port.gateway_ordinal = u64::try_from(n).ok();
            txn.put(port);
            if !chassis.is_empty() {
                txn.put(placement(n, chassis));
            }
            txn.edit::<Router>(&id(router), |router| {
                router.gw_port_id.get_or_insert(id(n));
            });
        })
    }

    pub(crate) fn floating_ip(
        &mut self,
        n: u128,
        address: &str,
        to: Option<(u128, &str, u128)>,
    ) -> &mut Self {
        let holder = n + 0xf000;
        let mut port = port(holder, N1, S1, address);
        port.device_owner = owner::FLOATING_IP.into();
        port.device_id = id(n).to_string();
        self.put(port);
        self.put(FloatingIp {
            id: id(n),
            project: "p".into(),
            floating_network_id: id(N1),
            floating_ip_address: address.parse().unwrap(),
            floating_port_id: id(holder),
            port_id: to.map(|(port, ..)| id(port)),
            fixed_ip_address: to.map(|(_, inside, _)| inside.parse().unwrap()),
            router_id: to.map(|(.., router)| id(router)),
            dns_name: String::new(),
            dns_domain: String::new(),
            standard: standard(),
        })
    }

    /// Sets the chassis that hosts a gateway port; `None` if none does.
    pub(crate) fn hosted(&mut self, n: u128, chassis: Option<&str>) -> &mut Self {
        let place = chassis.map(|name| Place { chassis: name.into(), host: format!("host-{name}").into() });
        self.snapshot.report.set_gateway(id(n), place);
        self.refresh();
        self
    }
}

pub(crate) fn standard() -> Standard {
    Standard::new(Timestamp::UNIX_EPOCH, "")
}

fn chassis(name: &str) -> Chassis {
    Chassis {
        name: name.into(),
        hostname: format!("host-{name}"),
        gateway: true,
        external_ports: false,
        physical_networks: ["phy1", "phy2"].map(str::to_owned).into(),
        alive: true,
        ..Default::default()
    }
}

pub(crate) fn placement(n: u128, chassis: &[&str]) -> Placement {
    let count = u16::try_from(chassis.len()).unwrap();
    let placed = chassis.iter().zip((1..=count).rev());
    let chassis =
        placed.map(|(name, priority)| Placed { chassis: (*name).into(), priority, pinned: false }).collect();
    Placement { port_id: id(n), physical_network: Some("phy1".into()), chassis }
}

pub(crate) fn port(n: u128, network: u128, subnet: u128, address: &str) -> Port {
    let [.., a, b, c] = n.to_be_bytes();
    Port {
        id: id(n),
        project: "p".into(),
        name: format!("port{n:x}"),
        network_id: id(network),
        admin_state_up: true,
        mac: MacAddr([0xfa, 0x16, 0x3e, a, b, c]),
        fixed_ips: vec![FixedIp { subnet_id: id(subnet), ip_address: address.parse::<IpAddr>().unwrap() }],
        device_id: String::new(),
        device_owner: String::new(),
        security_groups: BTreeSet::new(),
        port_security_enabled: true,
        allowed_address_pairs: Vec::new(),
        extra_dhcp_opts: Vec::new(),
        binding: Binding::default(),
        dns_name: String::new(),
        gateway_ordinal: None,
        standard: standard(),
    }
}

pub(crate) fn router(n: u128) -> Router {
    Router {
        id: id(n),
        project: "p".into(),
        name: format!("router{n:x}"),
        admin_state_up: true,
        gw_port_id: None,
        enable_snat: true,
        enable_default_route_ecmp: false,
        enable_default_route_bfd: false,
        routes: Vec::new(),
        availability_zone_hints: Vec::new(),
        standard: standard(),
    }
}

pub(crate) fn group(n: u128) -> SecurityGroup {
    SecurityGroup {
        id: id(n),
        project: "p".into(),
        name: format!("group{n:x}"),
        stateful: true,
        is_default: false,
        standard: standard(),
    }
}

/// A copy of an entity, to be changed and stored again.
pub(crate) fn copy<T: Entity<Key = Uuid>>(scene: &Scene, n: u128) -> T {
    T::clone(scene.world().get::<T>(&id(n)).unwrap())
}
