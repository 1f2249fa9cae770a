//! Routers: for each port the router's side of the link, the switch's side, and the gateway port if it is one.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

use ovn::ident::{self, row_uuid};
use ovn::nb::{LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitchPort, RoutePolicy};
use ovn::sb::PortBinding;
use ovn::text::{Nexthop, Text};
use ovn::{PortType, sb};
use ovsdb::{Map, Ref, Snapshot, Str, Uuid, Weak};

use super::chassis::Chassis;
use super::{LeadingTo, NEXT_HOPS, TRANSLATED, nat, switch_of, switch_ports};

/// The key in which northd writes the chassis of a gateway.
const HOSTING: &str = "hosting-chassis";

/// A router with what its ports' rows depend on.
pub(super) struct Router<'n> {
    pub(super) nb: &'n Snapshot,
    pub(super) row: Uuid,
    pub(super) router: &'n LogicalRouter,
    /// Ports that live on one chassis.
    pub(super) gateways: Vec<(Uuid, &'n LogicalRouterPort)>,
    /// The chassis of a router that is on one as a whole.
    pub(super) chassis: Option<&'n Str>,
}

impl<'n> Router<'n> {
    pub(super) fn new(nb: &'n Snapshot, row: Uuid, router: &'n LogicalRouter) -> Self {
        let chassis = router.options.get("chassis").filter(|name| !name.is_empty());
        let ports = router.ports.iter().filter_map(|port| Some((port.uuid(), nb.get(*port)?)));
        let is_gateway = |port: &LogicalRouterPort| {
            chassis.is_none() && (!port.gateway_chassis.is_empty() || port.ha_chassis_group.is_some())
        };
        Self { nb, row, router, gateways: ports.filter(|(_, port)| is_gateway(port)).collect(), chassis }
    }

    fn ports(&self) -> impl Iterator<Item = (Uuid, &'n LogicalRouterPort)> {
        self.router.ports.iter().filter_map(|port| Some((port.uuid(), self.nb.get(*port)?)))
    }

    pub(super) fn is_gateway(&self, port: Uuid) -> bool {
        self.gateways.iter().any(|(row, _)| *row == port)
    }

    /// A link's side: a patch, or a port where the router is on one chassis.
    fn kind(&self) -> PortType {
        if self.chassis.is_some() { PortType::L3Gateway } else { PortType::Patch }
    }
}

/// A router that is switched off is none.
pub(super) fn is_on(router: &LogicalRouter) -> bool {
    router.enabled != Some(false)
}

/// The rows that follow from routers.
pub(super) struct Linked {
    /// The port bindings of all routers' ports, and of the switches' ports that lead to them.
    pub(super) rows: BTreeMap<Uuid, PortBinding>,
    /// The switches behind routers that have a gateway here.
    pub(super) near: BTreeSet<Uuid>,
}

pub(super) fn linked(nb: &Snapshot, chassis: &mut Chassis<'_>) -> Linked {
    let (mut rows, mut near) = (BTreeMap::new(), BTreeSet::new());
    for (row, router) in nb.table::<LogicalRouter>().iter() {
        if !is_on(router) {
            continue;
        }
        let router = Router::new(nb, row.uuid(), router);
        let home = router.chassis.map(|name| chassis.named(name));
        let translated = nat::translated(&router);
        let is_here =
            router.gateways.iter().any(|(_, port)| hosting(port).is_some_and(|at| chassis.is_us(at)));
        for (row, port) in router.ports() {
            rows.insert(row, inner(&router, row, port, home, translated.as_ref()));
            if router.is_gateway(row) {
                rows.insert(redirect_row(row), gateway(&router, port, chassis));
            }
            for (leading, switch_port) in nb.lookup::<LeadingTo>(&port.name) {
                let outer = outer(&router, (row, port), (leading.uuid(), switch_port), home);
                let Some(outer) = outer else { continue };
                if is_here && !router.is_gateway(row) {
                    near.insert(outer.datapath.uuid());
                }
                rows.insert(leading.uuid(), outer);
            }
        }
    }
    Linked { rows, near }
}

/// The chassis that has a gateway, by northd's word.
fn hosting(port: &LogicalRouterPort) -> Option<&Str> {
    port.status.get(HOSTING).filter(|name| !name.is_empty())
}

/// The router's side.
fn inner(
    router: &Router<'_>,
    row: Uuid,
    port: &LogicalRouterPort,
    home: Option<Weak<sb::Chassis>>,
    translated: Option<&Str>,
) -> PortBinding {
    let mut options = port.options.clone();
    let leading = router.nb.lookup::<LeadingTo>(&port.name).next().map(|(_, port)| &port.name);
    set(&mut options, "peer", leading.or(port.peer.as_ref()));
    if router.is_gateway(row) {
        options.insert("chassis-redirect-port".into(), redirect(port));
        set(&mut options, NEXT_HOPS, next_hops(router, port).as_ref());
    }
    set(&mut options, TRANSLATED, translated);
    PortBinding { kind: router.kind(), options, chassis: home, ..of_router(router, port, &port.name) }
}

/// The IPv6 default next hop of a router through one of its ports. IPv4 needs none, because the agent answers ARP for all addresses.
fn next_hops(router: &Router<'_>, port: &LogicalRouterPort) -> Option<Str> {
    let routes = router.router.static_routes.iter().filter_map(|route| router.nb.get(*route));
    let is_default = |route: &&LogicalRouterStaticRoute| {
        let everywhere = route
            .ip_prefix
            .value()
            .is_some_and(|prefix| prefix.to_net().prefix_len() == 0 && prefix.addr.is_ipv6());
        let here = route.output_port.as_ref().is_none_or(|name| *name == port.name);
        everywhere && here && route.route_table.is_empty() && route.policy != Some(RoutePolicy::SrcIp)
    };
    let hops = routes.filter(is_default).filter_map(|route| match route.nexthop.value()? {
        Nexthop::Ip(ip) => Some(ip.to_string()),
        Nexthop::Discard => None,
    });
    let hops: BTreeSet<String> = hops.collect();
    (!hops.is_empty()).then(|| hops.into_iter().collect::<Vec<_>>().join(" ").into())
}

/// The gateway port, where northd says that it is.
fn gateway(router: &Router<'_>, port: &LogicalRouterPort, chassis: &mut Chassis<'_>) -> PortBinding {
    let hosting = hosting(port);
    PortBinding {
        kind: PortType::ChassisRedirect,
        options: [("distributed-port".into(), port.name.clone())].into(),
        chassis: hosting.map(|name| chassis.named(name)),
        up: Some(hosting.is_some()),
        ..of_router(router, port, &redirect(port))
    }
}

fn of_router(router: &Router<'_>, port: &LogicalRouterPort, name: &Str) -> PortBinding {
    let mut addresses = vec![port.mac.to_string()];
    addresses.extend(port.networks.iter().map(ToString::to_string));
    PortBinding {
        logical_port: name.clone(),
        datapath: Ref::new(router.row),
        mac: [Text::new(&addresses.join(" "))].into(),
        external_ids: port.external_ids.clone(),
        ..Default::default()
    }
}

/// The switch's side, with what is to be announced on behalf of the router.
fn outer(
    router: &Router<'_>,
    port: (Uuid, &LogicalRouterPort),
    (row, switch_port): (Uuid, &LogicalSwitchPort),
    home: Option<Weak<sb::Chassis>>,
) -> Option<PortBinding> {
    let switch = switch_of(router.nb, row)?;
    let mut binding = switch_ports::binding(switch_port, switch);
    set(&mut binding.options, "peer", Some(&port.1.name));
    binding.kind = router.kind();
    binding.chassis = home;
    binding.nat_addresses = nat::addresses(router, port, switch_port, switch);
    Some(binding)
}

fn set(options: &mut Map<Str, Str>, key: &'static str, value: Option<&Str>) {
    if let Some(value) = value {
        options.insert(key.into(), value.clone());
    }
}

/// The name of the gateway port of a router's port.
pub(super) fn redirect(port: &LogicalRouterPort) -> Str {
    ident::name::chassis_redirect(&port.name).into()
}

/// The row of a gateway port: northd makes it beside that of the router's port.
fn redirect_row(port: Uuid) -> Uuid {
    row_uuid("Port_Binding", &port.to_string(), "chassisredirect")
}
