//! D4: subnets behind the routers whose gateways are bound here, if tenant networks are exposed.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use ipnet::IpNet;
use ovn::PortType;
use ovn::sb::PortBinding;
use ovn::text::neutron::key;
use ovsdb::Uuid;
use reconcile::{Class, Problem};

use super::conflicts::overlap;
use super::draft::Draft;
use super::gateways::Gateway;
use super::networks::Networks;
use super::router_ports;
use super::{Decision, NamedRow, Subnet, is_gua, is_of_its_link};
use crate::ProblemCode;
use crate::bgp::config::{Config, Tenants};
use crate::bgp::northbound::TRANSLATED;
use crate::bgp::snapshot::opted_out;
use crate::part::object;

/// A switch with exposed subnets.
pub(super) struct TenantSwitch {
    pub(super) switch: Uuid,
    pub(super) nets: Vec<IpNet>,
    pub(super) gateway: NamedRow,
}

pub(super) fn expose(draft: &mut Draft<'_>, networks: &Networks, gateways: &[Gateway]) -> Vec<TenantSwitch> {
    let snapshot = draft.snapshot;
    if snapshot.config.tenants() == Tenants::Hidden {
        return Vec::new();
    }
    let mut switches: BTreeMap<(Uuid, &NamedRow), TenantSwitch> = BTreeMap::new();
    for gateway in gateways {
        let mut router_ports: Vec<_> = snapshot
            .ports_on(gateway.router)
            .filter(|(row, port)| *row != gateway.router_port && is_inner(port))
            .collect();
        router_ports.sort_by(|(_, a), (_, b)| a.logical_port.cmp(&b.logical_port));
        for (row, port) in router_ports {
            let Some((_, peer)) = snapshot.peer(port) else { continue };
            let switch = peer.datapath.uuid();
            // Ports of a provider network are exposed where they are.
            if networks.is_physical(switch) || opted_out(peer) || opted_out(port) {
                continue;
            }
            draft.decision.tenant_switches.insert(switch);
            for host in router_ports::read(draft, port).addresses {
                let net = host.to_net().trunc();
                let Some(via) = gateway.next_hop(net.addr()) else { continue };
                if !wanted(&snapshot.config, net, &[peer, port]) || is_of_its_link(net.addr()) {
                    continue;
                }
                let name = NamedRow::new(&port.logical_port, row);
                if let Some(problem) = draft.subnet_refusal(net, &name) {
                    draft.report(problem);
                    continue;
                }
                if net.contains(&via) || (snapshot.config.require_snat_disabled && is_translated(port, net)) {
                    continue;
                }
                let subnet = Subnet {
                    bridge: gateway.network.bridge.clone(),
                    dev: gateway.network.dev.clone(),
                    via,
                    port: name,
                    gateway: gateway.port.clone(),
                };
                if !enter(draft, net, subnet) {
                    continue;
                }
                let entry = switches.entry((switch, &gateway.port)).or_insert_with(|| TenantSwitch {
                    switch,
                    nets: Vec::new(),
                    gateway: gateway.port.clone(),
                });
                entry.nets.push(net);
            }
        }
    }
    // What lost a dispute after it was entered is out here too.
    let mut switches: Vec<TenantSwitch> = switches.into_values().collect();
    for switch in &mut switches {
        let subnets = &draft.decision.subnets;
        switch.nets.retain(|net| subnets.get(net).is_some_and(|subnet| subnet.gateway == switch.gateway));
    }
    switches
}

/// A router's port that leads neither to a gateway nor outside.
fn is_inner(port: &PortBinding) -> bool {
    port.kind == PortType::Patch && !port.options.contains_key("chassis-redirect-port")
}

/// Whether packets from a subnet leave its router under another address.
fn is_translated(port: &PortBinding, net: IpNet) -> bool {
    let told = port.options.get(TRANSLATED).map_or("", |told| told.as_str());
    told.split_ascii_whitespace().filter_map(|net| net.parse::<IpNet>().ok()).any(|all| all.contains(&net))
}

/// Enters a subnet, unless another one is in its way: one kernel cannot tell two networks with the same addresses apart.
fn enter(draft: &mut Draft<'_>, net: IpNet, subnet: Subnet) -> bool {
    let Some(other) = draft.decision.subnets.keys().copied().find(|other| overlap(other, &net)) else {
        draft.decision.subnets.insert(net, subnet);
        return true;
    };
    let is_there = |net: &IpNet, port: &NamedRow| {
        draft.snapshot.before.subnets.get(net).is_some_and(|before| before.port.name == port.name)
    };
    let known = draft.decision.subnets[&other].port.clone();
    // Of the two, the one that is there is kept.
    let (kept, refused, refused_net) = if is_there(&net, &subnet.port) && !is_there(&other, &known) {
        draft.decision.subnets.remove(&other);
        let kept = subnet.port.clone();
        draft.decision.subnets.insert(net, subnet);
        (kept, known, other)
    } else {
        (known, subnet.port, net)
    };
    let what = format!(
        "router port {refused} has it, and router port {kept} a subnet with the same addresses; only the latter is exposed. \
         Give them different prefixes, or opt one out with meridian:advertise=false on its switch port"
    );
    draft.report(Problem::error(
        object::subnet(refused_net),
        Class::Refused,
        ProblemCode::OverlappingSubnet,
        what,
    ));
    draft.decision.subnets.get(&net).is_some_and(|entered| entered.port == kept && refused_net != net)
}

/// Whether the configuration lets a subnet, or an address in it, be exposed; the rows are those that may tell its address
/// scope.
pub(super) fn wanted(config: &Config, net: IpNet, rows: &[&PortBinding]) -> bool {
    let routed = match (config.tenants(), net) {
        (Tenants::Hidden, _) | (Tenants::Gua, IpNet::V4(_)) => false,
        (Tenants::Gua, IpNet::V6(net)) => is_gua(net.network()),
        (Tenants::All, _) => true,
    };
    let key = if net.addr().is_ipv4() { key::ADDRESS_SCOPE4 } else { key::ADDRESS_SCOPE6 };
    let scope = || rows.iter().find_map(|row| row.external_ids.get(key));
    routed
        && (config.address_scopes.is_empty()
            || scope().is_some_and(|scope| config.address_scopes.contains(scope)))
}

impl Decision {
    /// The exposed subnet that an address is in.
    pub fn subnet_of(&self, ip: std::net::IpAddr) -> Option<(IpNet, &Subnet)> {
        // No two have an address in common, so it is in the last one that does not begin after it, or in none.
        let (net, subnet) = self.subnets.get_prev(&IpNet::from(ip))?;
        net.contains(&ip).then_some((*net, subnet))
    }
}
