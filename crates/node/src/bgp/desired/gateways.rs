//! D2: gateway ports of routers that are bound here are exposed, whether tenant networks are or not: floating IPs, load
//! balancers and tenant networks are reached through them.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use ovn::MacAddr;
use ovn::sb::PortBinding;
use ovn::text::HostAddr;
use ovsdb::Uuid;

use super::draft::Draft;
use super::networks::{Network, Networks};
use super::router_ports::{self, RouterPort};
use super::{NamedRow, Reason};
use crate::ProblemCode;
use crate::bgp::northbound::NEXT_HOPS;
use crate::bgp::snapshot::{Role, Snapshot, router_port_name};

/// A gateway that is bound here.
pub(super) struct Gateway {
    pub(super) port: NamedRow,
    /// The router's port on the provider network.
    pub(super) router_port: Uuid,
    pub(super) router: Uuid,
    /// The provider network's switch.
    pub(super) switch: Uuid,
    pub(super) network: Network,
    /// Its addresses with their prefix lengths, in the order written.
    pub(super) addresses: Vec<HostAddr>,
}

impl Gateway {
    /// The address that packets of a family are sent to.
    pub(super) fn next_hop(&self, like: IpAddr) -> Option<IpAddr> {
        self.addresses.iter().map(|host| host.addr).find(|ip| ip.is_ipv4() == like.is_ipv4())
    }

    /// The prefixes of the provider network.
    pub(super) fn nets(&self) -> impl Iterator<Item = IpNet> + '_ {
        self.addresses.iter().map(|host| host.to_net().trunc())
    }
}

/// From a gateway port to the router's port it is of, and on to the provider network's port.
pub(in crate::bgp) fn provider_side<'s>(
    snapshot: &'s Snapshot,
    gateway: &PortBinding,
) -> Option<((Uuid, &'s PortBinding), &'s PortBinding)> {
    let router_port = snapshot.port(router_port_name(gateway)?)?;
    let (_, switch_port) = snapshot.peer(router_port.1)?;
    Some((router_port, switch_port))
}

pub(super) fn expose(draft: &mut Draft<'_>, networks: &Networks, me: Uuid) -> Vec<Gateway> {
    let snapshot = draft.snapshot;
    let mut found = Vec::new();
    for (row, port) in snapshot.ports_as(Role::Gateway).filter(|(_, port)| port.is_bound(me)) {
        let Some((router_port, switch_port)) = provider_side(snapshot, port) else {
            if let Some(what) = leads_nowhere(snapshot, port) {
                draft.stray(port, ProblemCode::NoRouterPort, what);
            }
            continue;
        };
        let switch = switch_port.datapath.uuid();
        let Some(network) = networks.of(switch) else { continue };
        let RouterPort { mac, addresses } = router_ports::read(draft, port);
        let gateway = Gateway {
            port: NamedRow::new(&port.logical_port, row),
            router_port: router_port.0,
            router: port.datapath.uuid(),
            switch,
            network: network.clone(),
            addresses,
        };
        draft.decision.has_gateway = true;
        one(draft, &gateway, mac);
        // The network's own gateway is beyond the node, and OVN asks for it here.
        for ip in
            next_hops(router_port.1).filter(|ip| gateway.nets().any(|net| net.contains(&IpAddr::V6(*ip))))
        {
            draft.proxy(ip, &gateway.network);
        }
        found.push(gateway);
    }
    // The order of rows is that of their UUIDs; conflicts are settled by name.
    found.sort_by(|a, b| a.port.cmp(&b.port));
    found
}

/// The reason why a gateway port has no peer. A router's port that is not connected yet is no problem.
fn leads_nowhere(snapshot: &Snapshot, port: &PortBinding) -> Option<String> {
    let so = "so that neither it nor what is behind it is exposed";
    let Some(name) = router_port_name(port) else {
        return Some(format!("it is bound here, and has no option distributed-port, {so}"));
    };
    match snapshot.port(name) {
        None => Some(format!("it is bound here, and is the gateway of {name}, which is not there, {so}")),
        Some((_, router_port)) => {
            let peer = router_port.options.get("peer")?;
            Some(format!("it is bound here, and {name} leads to {peer}, which is not there, {so}"))
        }
    }
}

/// The next hops of a router's default route, as far as the database contains them.
fn next_hops(router_port: &PortBinding) -> impl Iterator<Item = Ipv6Addr> {
    let told = router_port.options.get(NEXT_HOPS).map_or("", |told| told.as_str());
    told.split_ascii_whitespace().filter_map(|ip| ip.parse().ok())
}

fn one(draft: &mut Draft<'_>, gateway: &Gateway, mac: Option<MacAddr>) {
    for host in &gateway.addresses {
        let reason = Reason::Gateway { port: gateway.port.clone() };
        draft.wire(host.addr, &gateway.network, mac, reason);
        if let (IpAddr::V6(ip), IpNet::V6(net)) = (host.addr, host.to_net()) {
            draft.proxy(ip, &gateway.network);
            // Where the network's gateway has the lowest address it is asked for by that.
            draft.proxy(net.network(), &gateway.network);
        }
    }
}
