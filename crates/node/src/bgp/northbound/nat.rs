//! The addresses that a router translates, as `nat_addresses` of the switch's port that leads to it: each address with the port
//! whose chassis answers for it.
//!
//! northd lists this where the port's option `nat-addresses` is `router`, as every cloud's management has it. Here the
//! translations of gateway ports are listed in any case: they are there to be reached.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::Display;
use std::net::IpAddr;

use ovn::nb::{LogicalRouterPort, LogicalSwitch, LogicalSwitchPort, Nat, NatType};
use ovn::text::{NatAddresses, Text};
use ovn::{MacAddr, PortType};
use ovsdb::{Set, Str, Uuid};

use super::routers::{Router, redirect};
use super::{balancers, is_distributed};

/// The addresses that a router announces at a switch's port that leads to it.
pub(super) fn addresses(
    router: &Router<'_>,
    (row, port): (Uuid, &LogicalRouterPort),
    switch_port: &LogicalSwitchPort,
    switch: Uuid,
) -> Set<Text<NatAddresses>> {
    let asked = switch_port.options.get("nat-addresses").map_or("", Str::as_str);
    let listed = asked == "router";
    let mut all = List { mac: &port.mac, resident: String::new(), entries: Vec::new() };
    let own = port.networks.iter().filter_map(Text::value).map(ipnet::IpNet::addr);
    let own: Vec<IpAddr> = own.filter(IpAddr::is_ipv4).collect();
    if router.is_gateway(row) {
        all.resident = resident(&redirect(port));
        translations(router, Some(row), &own, &mut all);
        all.add(own.iter());
    } else if router.chassis.is_some() {
        if listed {
            translations(router, None, &own, &mut all);
        }
        if has_localnet(router, switch) {
            all.add(own.iter());
        }
    } else if let [(_, only)] = &router.gateways[..]
        && port.options.get("reside-on-redirect-chassis").is_some_and(|value| value == "true")
    {
        all.resident = resident(&redirect(only));
        all.add(own.iter());
        return all.entries.into_iter().collect();
    } else {
        return Set::default();
    }
    let hidden = switch_port.options.get("exclude-lb-vips-from-garp").is_some_and(|value| value == "true");
    if listed && !hidden {
        let vips = balancers::on_router(router.nb, router.router);
        all.add(vips.filter(IpAddr::is_ipv4).collect::<Vec<_>>().iter());
    }
    if !listed && !asked.is_empty() {
        all.entries.push(Text::new(&format!("{asked}{}", all.resident)));
    }
    all.entries.into_iter().collect()
}

fn resident(port: &str) -> String {
    format!(" is_chassis_resident(\"{port}\")")
}

/// Entries in the making. One for each address: a bad one costs itself only.
struct List<'n> {
    mac: &'n Text<MacAddr>,
    /// The port whose chassis answers for addresses that are not distributed.
    resident: String,
    entries: Vec<Text<NatAddresses>>,
}

impl List<'_> {
    fn add(&mut self, ips: impl Iterator<Item = impl Display>) {
        let entries = ips.map(|ip| Text::new(&format!("{} {ip}{}", self.mac, self.resident)));
        self.entries.extend(entries);
    }
}

/// The translations at a gateway, or all of a router that is on one chassis. OVN lists those to IPv4 addresses; what cannot be
/// read is listed to be reported.
fn translations(router: &Router<'_>, at: Option<Uuid>, own: &[IpAddr], all: &mut List<'_>) {
    let distributed = at.is_some() && is_distributed(router.nb);
    for nat in router.router.nat.iter().filter_map(|nat| router.nb.get(*nat)) {
        let ip = nat.external_ip.value();
        if ip.is_some_and(IpAddr::is_ipv6) || at.is_some_and(|at| gateway_of(router, nat) != Some(at)) {
            continue;
        }
        match (&nat.logical_port, &nat.external_mac) {
            (Some(port), Some(mac)) if distributed && nat.kind == NatType::DnatAndSnat => {
                all.entries.push(Text::new(&format!("{mac} {}{}", nat.external_ip, resident(port))));
            }
            // The router's own addresses are listed as such.
            _ if ip.is_some_and(|ip| own.contains(ip)) => {}
            _ => all.add([&nat.external_ip].into_iter()),
        }
    }
}

/// The networks whose packets leave the router under another address.
pub(super) fn translated(router: &Router<'_>) -> Option<Str> {
    let nats = router.router.nat.iter().filter_map(|nat| router.nb.get(*nat));
    let nets = nats.filter(|nat| nat.kind == NatType::Snat).filter_map(|nat| nat.logical_ip.value());
    let nets: Vec<String> = nets.map(|host| host.to_net().to_string()).collect();
    (!nets.is_empty()).then(|| nets.join(" ").into())
}

/// The gateway port that translates: the one told, the only one, or that of the address' network.
fn gateway_of(router: &Router<'_>, nat: &Nat) -> Option<Uuid> {
    if let Some(told) = nat.gateway_port {
        return Some(told.uuid());
    }
    if let [(only, _)] = &router.gateways[..] {
        return Some(*only);
    }
    let ip = nat.external_ip.value()?;
    let has =
        |port: &LogicalRouterPort| port.networks.iter().filter_map(Text::value).any(|net| net.contains(ip));
    router.gateways.iter().find(|(_, port)| has(port)).map(|(row, _)| *row)
}

fn has_localnet(router: &Router<'_>, switch: Uuid) -> bool {
    let ports = router.nb.get::<LogicalSwitch>(switch).map_or(&[][..], |switch| &switch.ports);
    let mut ports = ports.iter().filter_map(|port| router.nb.get(*port));
    ports.any(|port| port.kind == PortType::Localnet)
}
