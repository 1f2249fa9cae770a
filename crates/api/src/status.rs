//! The state of the network for operators: the chassis, and for each router its gateways, which next hops answer and which routes are
//! installed. A project's view of its own routers is in [`resource`](crate::resource); the state of the server's loops is in
//! [`reconcile::Status`].
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::fleet::{self, Fleet};
use crate::model::{Network, Placement, Port, Router};
use crate::report::Report;
use crate::resource::gateway::{self, GatewayStatus};
use crate::world::World;

mod balancer;
mod explain;

pub use balancer::{FailedMember, LoadBalancerStatus, MemberTotals, VipStatus, load_balancers};
pub use explain::explain;

/// The whole state at one instant. Programs parse it: fields are added, never renamed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkStatus {
    /// Sorted by name.
    pub chassis: Vec<ChassisStatus>,
    /// Sorted by name, then by id.
    pub routers: Vec<RouterStatus>,
    /// The totals of all gateways of all routers.
    #[serde(default)]
    pub gateways: GatewayTotals,
    /// Sorted by name, then by id.
    #[serde(default)]
    pub load_balancers: Vec<LoadBalancerStatus>,
}

/// The number of gateways, and of those without traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayTotals {
    /// All gateways.
    pub all: usize,
    /// Gateways without a chassis, or whose next hops BFD reports as down.
    pub without_traffic: usize,
}

/// One chassis.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChassisStatus {
    /// The `system-id`.
    pub name: String,
    /// The host name.
    pub host: String,
    /// Whether its controller has reported recently.
    pub alive: bool,
    /// Whether it is gateway-capable.
    pub gateway: bool,
    /// The physical networks with a bridge on it.
    pub physical_networks: Vec<String>,
    /// The number of gateways that it hosts now.
    pub hosted: usize,
}

/// One router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterStatus {
    /// Its id.
    pub id: Uuid,
    /// Its name; not unique.
    pub name: String,
    /// The owning project.
    pub project_id: String,
    /// Whether it forwards.
    pub admin_state_up: bool,
    /// Whether every gateway gives a default route.
    pub enable_default_route_ecmp: bool,
    /// Whether BFD monitors next hops.
    pub enable_default_route_bfd: bool,
    /// The compatibility gateway, then the others by age.
    pub gateways: Vec<RouterGateway>,
    /// Configurations that are valid but probably not intended.
    pub warnings: Vec<String>,
}

/// One gateway of a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterGateway {
    /// Its chassis and its routes.
    #[serde(flatten)]
    pub status: GatewayStatus,
    /// The name of its network.
    pub network: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The chassis of its group, highest priority first.
    pub group: Vec<String>,
}

impl RouterGateway {
    /// Whether a chassis hosts the gateway and BFD leaves at least one of its installed routes in use. A gateway without installed routes
    /// still carries the traffic of floating IPs.
    pub fn carries_traffic(&self) -> bool {
        let mut installed = self.status.routes.iter().filter(|route| route.installed).peekable();
        self.status.chassis.is_some()
            && (installed.peek().is_none() || installed.any(|route| route.is_used()))
    }
}

impl NetworkStatus {
    /// Combines the world with OVN's reports about it.
    pub fn of(world: &World, report: &Report, fleet: &Fleet, now: Timestamp) -> Self {
        let mut routers: Vec<_> =
            world.table::<Router>().iter().map(|router| of_router(world, report, router)).collect();
        routers.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        let mut chassis: Vec<_> = fleet.chassis.iter().map(of_chassis).collect();
        for gateway in routers.iter().flat_map(|router| &router.gateways) {
            let host = chassis.iter_mut().find(|it| Some(&it.name) == gateway.status.chassis.as_ref());
            if let Some(host) = host {
                host.hosted += 1;
            }
        }
        let gateways = || routers.iter().flat_map(|router| &router.gateways);
        let without_traffic = gateways().filter(|gateway| !gateway.carries_traffic()).count();
        let gateways = GatewayTotals { all: gateways().count(), without_traffic };
        let load_balancers = load_balancers(world, report, now);
        NetworkStatus { chassis, routers, gateways, load_balancers }
    }
}

fn of_chassis(chassis: &fleet::Chassis) -> ChassisStatus {
    ChassisStatus {
        name: chassis.name.clone(),
        host: chassis.hostname.clone(),
        alive: chassis.alive,
        gateway: chassis.gateway,
        physical_networks: chassis.physical_networks.iter().cloned().collect(),
        hosted: 0,
    }
}

fn of_router(world: &World, report: &Report, router: &Router) -> RouterStatus {
    let gateways = gateway::statuses(world, report, router).into_iter().map(|status| {
        let port = world.get::<Port>(&status.port_id);
        let network = world.get::<Network>(&status.network_id);
        let placement = world.get::<Placement>(&status.port_id);
        let group = placement.map(|it| it.chassis.iter().map(|placed| placed.chassis.clone()).collect());
        RouterGateway {
            network: network.map(|network| network.name.clone()).unwrap_or_default(),
            addresses: port
                .map(|it| it.fixed_ips.iter().map(|ip| ip.ip_address).collect())
                .unwrap_or_default(),
            group: group.unwrap_or_default(),
            status,
        }
    });
    RouterStatus {
        id: router.id,
        name: router.name.clone(),
        project_id: router.project.clone(),
        admin_state_up: router.admin_state_up,
        enable_default_route_ecmp: router.enable_default_route_ecmp,
        enable_default_route_bfd: router.enable_default_route_bfd,
        gateways: gateways.collect(),
        warnings: gateway::warnings(world, router),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::tests::scene::*;
    use crate::report::Place;
    use crate::resource::fixture::id;

    #[test]
    fn a_router_shows_where_its_gateways_are_and_could_be() {
        let mut scene = Scene::new();
        scene.router(0x40).gateway(0x41, 0x40, N1, S1, "192.0.2.100", &["ch1", "ch2"]);
        let mut report = Report::default();
        let fleet = Fleet {
            chassis: vec![fleet::Chassis { name: "ch2".into(), gateway: true, ..fleet::Chassis::default() }],
        };
        let shown = NetworkStatus::of(scene.world(), &report, &fleet, Timestamp::UNIX_EPOCH);
        let gateway = &shown.routers[0].gateways[0];
        assert_eq!(
            (gateway.group.as_slice(), &gateway.status.chassis),
            (&["ch1".into(), "ch2".into()][..], &None)
        );
        assert!(!gateway.status.routes[0].installed);
        assert_eq!(shown.gateways, GatewayTotals { all: 1, without_traffic: 1 }, "no chassis hosts it");
        report.set_gateway(id(0x41), Some(Place { chassis: "ch2".into(), host: "host-2".into() }));
        let shown = NetworkStatus::of(scene.world(), &report, &fleet, Timestamp::UNIX_EPOCH);
        let gateway = &shown.routers[0].gateways[0];
        assert_eq!(gateway.status.host.as_deref(), Some("host-2"));
        assert_eq!(gateway.addresses, ["192.0.2.100".parse::<IpAddr>().unwrap()]);
        assert_eq!(shown.chassis[0].hosted, 1);
        assert_eq!(shown.gateways.without_traffic, 0);
        let mut silent = gateway.clone();
        silent.status.routes[0].installed = true;
        for (bfd, carries) in [(None, true), (Some("up"), true), (Some("down"), false), (Some("init"), false)]
        {
            silent.status.routes[0].bfd = bfd.map(str::to_owned);
            assert_eq!(silent.carries_traffic(), carries, "{bfd:?}");
        }
        let text = serde_json::to_string(&shown).unwrap();
        assert_eq!(serde_json::from_str::<NetworkStatus>(&text).unwrap(), shown);
    }
}
