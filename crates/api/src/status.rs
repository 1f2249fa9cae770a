//! The network as an operator is shown it: which chassis there are, and for each router where its gateways are, which next
//! hops answer and which routes are in place. What one project sees of its own routers is in
//! [`resource`](crate::resource); how the server's own loops stand is told by [`reconcile::Status`].
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

/// Everything at one instant. Programs read it: members are added, never renamed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkStatus {
    /// In order of name.
    pub chassis: Vec<ChassisStatus>,
    /// In order of name, then of id.
    pub routers: Vec<RouterStatus>,
    /// All gateways of all routers.
    #[serde(default)]
    pub gateways: GatewayTotals,
    /// In order of name, then of id.
    #[serde(default)]
    pub load_balancers: Vec<LoadBalancerStatus>,
}

/// How many gateways there are, and how many of them do their work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayTotals {
    /// All gateways.
    pub all: usize,
    /// Those that no chassis hosts, or whose next hops BFD reports as down.
    pub without_traffic: usize,
}

/// One chassis.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChassisStatus {
    /// Its `system-id`.
    pub name: String,
    /// Its host name.
    pub host: String,
    /// Whether its controller reports in time.
    pub alive: bool,
    /// Whether it says that it carries gateways.
    pub gateway: bool,
    /// Physical networks that it has a bridge for.
    pub physical_networks: Vec<String>,
    /// Gateways that it hosts now.
    pub hosted: usize,
}

/// One router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterStatus {
    /// Its id.
    pub id: Uuid,
    /// Its name; not unique.
    pub name: String,
    /// Its owner.
    pub project_id: String,
    /// Whether it forwards.
    pub admin_state_up: bool,
    /// Whether every gateway gives a default route.
    pub enable_default_route_ecmp: bool,
    /// Whether next hops are watched.
    pub enable_default_route_bfd: bool,
    /// The compatibility gateway, then the others by age.
    pub gateways: Vec<RouterGateway>,
    /// What should be known though nothing is broken.
    pub warnings: Vec<String>,
}

/// One gateway of a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterGateway {
    /// Where it is and what it gives.
    #[serde(flatten)]
    pub status: GatewayStatus,
    /// The name of its network.
    pub network: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The chassis it may be on, the one that should host it first.
    pub group: Vec<String>,
}

impl RouterGateway {
    /// Whether a chassis hosts the gateway and BFD takes none of its installed routes out of use, or not all of them. A gateway
    /// whose routes are not installed still carries the traffic of floating IPs.
    pub fn carries_traffic(&self) -> bool {
        let mut installed = self.status.routes.iter().filter(|route| route.installed).peekable();
        self.status.chassis.is_some()
            && (installed.peek().is_none() || installed.any(|route| route.is_used()))
    }
}

impl NetworkStatus {
    /// What the world asks for beside what OVN reports of it.
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
