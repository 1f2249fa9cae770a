//! The rows that have an address: each names the chassis that must announce it, or the reason why no chassis does.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::net::IpAddr;

use ovn::PortType;
use ovn::sb::{Chassis, LoadBalancer, PortBinding};
use ovn::text::{NatAddresses, PortAddresses, Text};
use ovsdb::{Uuid, Weak};
use reconcile::ObjectId;

use crate::bgp::config::Tenants;
use crate::bgp::desired::{Decision, is_gua};
use crate::bgp::snapshot::{Role, Snapshot, is_vip_port, opted_out, router_port_name};
use crate::connections::OvnDatabase;
use crate::part::object;

/// The conclusion from one row.
pub(super) struct RowAnswer {
    /// The rule that it is of.
    pub(super) rule: &'static str,
    /// The conclusion, as a sentence without its full stop.
    pub(super) text: String,
    /// Whether another chassis has to announce the address because of it.
    pub(super) elsewhere: bool,
}

/// The chassis of a port, or the reason why it has none.
enum At<'s> {
    Here,
    /// On another chassis.
    There(&'s PortBinding, Weak<Chassis>),
    /// Nowhere that helps, in words.
    Nowhere(String),
}

/// Somebody who asks about an address.
pub(super) struct AddressQuery<'s> {
    snapshot: &'s Snapshot,
    decision: &'s Decision,
    ip: IpAddr,
    me: Option<Uuid>,
    said: Vec<RowAnswer>,
    /// The object that the address depends on, if it could be used.
    pub(super) stands_on: BTreeSet<ObjectId>,
}

impl<'s> AddressQuery<'s> {
    pub(super) fn new(snapshot: &'s Snapshot, decision: &'s Decision, ip: IpAddr) -> Self {
        let (said, stands_on) = Default::default();
        Self { snapshot, decision, ip, me: snapshot.me(), said, stands_on }
    }

    /// Asks every row that has the address.
    pub(super) fn ask(&mut self) -> Vec<RowAnswer> {
        for (_, port) in self.snapshot.sb.table::<PortBinding>().iter() {
            if port.ips().contains(&self.ip) {
                self.port(port);
            }
            self.nat(port);
        }
        self.balancers();
        std::mem::take(&mut self.said)
    }

    fn say(&mut self, rule: &'static str, text: String) {
        self.said.push(RowAnswer { rule, text, elsewhere: false });
    }

    /// Says that it is up to another chassis, what else keeps it from being announced, or what keeps it from being so here.
    fn say_at(&mut self, rule: &'static str, head: &str, at: At<'_>, here: impl FnOnce(&mut Self) -> String) {
        let (text, elsewhere) = match at {
            At::Here => (here(self), false),
            At::Nowhere(why) => (why, false),
            At::There(_, chassis) => {
                let name = self.name(chassis);
                (format!("is bound to chassis {name}, which has to announce it"), true)
            }
        };
        self.said.push(RowAnswer { rule, text: format!("{head} {text}"), elsewhere });
    }

    fn at(&self, port: &'s PortBinding) -> At<'s> {
        let Some(chassis) = port.chassis else {
            return At::Nowhere(match self.snapshot.config.source {
                OvnDatabase::Southbound => "is bound to no chassis".into(),
                OvnDatabase::Northbound => "is not up".into(),
            });
        };
        match (Some(chassis.uuid()) == self.me, port.up == Some(false)) {
            (true, true) => At::Nowhere("is bound here, but not up yet".into()),
            (true, false) => At::Here,
            (false, true) => {
                At::Nowhere(format!("is bound to chassis {}, but not up there yet", self.name(chassis)))
            }
            (false, false) => At::There(port, chassis),
        }
    }

    fn name(&self, chassis: Weak<Chassis>) -> String {
        let row = self.snapshot.sb.table::<Chassis>().get(chassis.uuid());
        row.map_or_else(
            || chassis.to_string(),
            |row| match row.hostname.as_str() {
                "" => row.name.to_string(),
                hostname => format!("{} ({hostname})", row.name),
            },
        )
    }

    /// The connection of a switch to a physical network.
    fn localnet(&self, switch: Uuid) -> Option<&'s PortBinding> {
        let mut ports = self.snapshot.ports_on(switch).map(|(_, port)| port);
        ports.find(|port| port.kind == PortType::Localnet)
    }

    /// The reason why this node does not have a provider network.
    fn no_network(&mut self, localnet: &PortBinding) -> String {
        let physnet = localnet.options.get("network_name").map_or("", |name| name.as_str());
        match self.snapshot.mappings().bridge(physnet) {
            None => format!("its network is on {physnet:?}, which ovn-bridge-mappings has no bridge for"),
            Some(bridge) => {
                self.stands_on.insert(object::device(bridge));
                format!("its network is on bridge {bridge}, which cannot be used")
            }
        }
    }

    fn port(&mut self, port: &'s PortBinding) {
        let name = &port.logical_port;
        match port.kind {
            PortType::ChassisRedirect => {
                let head = format!("the router gateway {name} has it, and");
                match self.provider_side(port) {
                    None => self.say("D2", format!("{head} leads to no provider network")),
                    Some((_, localnet)) => {
                        self.say_at("D2", &head, self.at(port), |this| this.no_network(localnet))
                    }
                }
            }
            PortType::Vif | PortType::Virtual if opted_out(port) => self.say(
                "D8",
                format!(
                    "port {name} has it, and its owner does not want it announced (meridian:advertise=false)"
                ),
            ),
            PortType::Vif | PortType::Virtual => match self.localnet(port.datapath.uuid()) {
                // Its load balancer tells.
                Some(_) if is_vip_port(port) && port.chassis.is_none() => {}
                Some(localnet) => {
                    let head = format!("port {name} of a provider network has it, and");
                    self.say_at("D1", &head, self.at(port), |this| this.no_network(localnet));
                }
                None => self.tenant(port),
            },
            // A router's port has no address of its own to expose: its gateway port does.
            _ => {}
        }
    }

    /// From a gateway port to the switch of its provider network, and to that one's connection.
    fn provider_side(&self, gateway: &PortBinding) -> Option<(Uuid, &'s PortBinding)> {
        let (_, router_port) = self.snapshot.port(router_port_name(gateway)?)?;
        let (_, switch_port) = self.snapshot.peer(router_port)?;
        let switch = switch_port.datapath.uuid();
        Some((switch, self.localnet(switch)?))
    }

    fn tenant(&mut self, port: &'s PortBinding) {
        let head = format!("port {} of a tenant network has it, and", port.logical_port);
        let why = match (self.snapshot.config.tenants(), self.ip) {
            (Tenants::Hidden, _) => "tenant networks are not exposed: expose_tenant_networks is off".to_owned(),
            (Tenants::Gua, IpAddr::V4(_)) => {
                "only globally routed IPv6 addresses of tenants are exposed".to_owned()
            }
            (Tenants::Gua, IpAddr::V6(ip)) if !is_gua(ip) => "it is not globally routed".to_owned(),
            _ if port.kind == PortType::Vif && port.chassis.is_none() && !self.is_balanced(port) => {
                match self.at(port) {
                    At::Nowhere(why) => format!("it {why}"),
                    At::Here | At::There(..) => return,
                }
            }
            _ => match self.gateway(port) {
                Err(why) => why.to_owned(),
                Ok(At::Here) if self.decision.subnet_of(self.ip).is_some() => {
                    "address_scopes does not have its address scope".to_owned()
                }
                Ok(At::Here) => {
                    "its subnet is not exposed: see address_scopes, require_snat_disabled_for_tenant_networks, \
                     meridian:advertise and `meridian status`"
                        .to_owned()
                }
                Ok(At::Nowhere(why)) => format!("the gateway of its router {why}"),
                Ok(at @ At::There(gateway, _)) => {
                    let head = format!("{head} the gateway {} of its router", gateway.logical_port);
                    return self.say_at("D5", &head, at, |_| String::new());
                }
            },
        };
        self.say("D5", format!("{head} {why}"));
    }

    /// Whether a port, or another row, has the port's address for a load balancer.
    fn is_balanced(&self, port: &PortBinding) -> bool {
        is_vip_port(port) || self.balancers_of(&port.ips()).next().is_some()
    }

    fn balancers_of(&self, ips: &[IpAddr]) -> impl Iterator<Item = &'s LoadBalancer> {
        let balancers = self.snapshot.sb.table::<LoadBalancer>().iter().map(|(_, balancer)| balancer);
        balancers
            .filter(|balancer| balancer.vips.keys().filter_map(Text::value).any(|vip| ips.contains(&vip.ip)))
    }

    /// The chassis of the gateway of a router that leads to a tenant's switch with the address.
    fn gateway(&self, port: &PortBinding) -> Result<At<'s>, &'static str> {
        let mut why = "its network is behind no router that has a gateway";
        let mut found = None;
        for (_, link) in self.snapshot.ports_on(port.datapath.uuid()) {
            let Some((row, router_port)) = self.snapshot.peer(link) else { continue };
            let gateways = self.gateways(router_port.datapath.uuid());
            let gateways = gateways.filter(|gateway| {
                let own = router_port_name(gateway).and_then(|name| self.snapshot.port(name));
                own.is_some_and(|(own, _)| own != row) && self.provider_side(gateway).is_some()
            });
            for gateway in gateways {
                if opted_out(link) || opted_out(router_port) {
                    why = "its subnet is opted out (meridian:advertise=false on the switch's port to the router)";
                } else if !nets(router_port).any(|net| net.contains(&self.ip)) {
                    why = "its router has no port with a subnet that it is in";
                } else if !nets(gateway).any(|net| net.addr().is_ipv4() == self.ip.is_ipv4()) {
                    why = "the gateway of its router has no address of its family";
                } else {
                    match self.at(gateway) {
                        At::Here => return Ok(At::Here),
                        at @ At::There(..) => found = Some(at),
                        at @ At::Nowhere(_) => _ = found.get_or_insert(at),
                    }
                }
            }
        }
        found.ok_or(why)
    }

    fn gateways(&self, router: Uuid) -> impl Iterator<Item = &'s PortBinding> {
        let ports = self.snapshot.ports_on(router).map(|(_, port)| port);
        ports.filter(|port| port.kind == PortType::ChassisRedirect)
    }

    fn nat(&mut self, port: &'s PortBinding) {
        let (snapshot, ip) = (self.snapshot, self.ip);
        let entries = port.nat_addresses.iter().filter_map(Text::value);
        for entry in entries.filter(|entry| entry.ips().any(|have| have == ip)) {
            let NatAddresses::Announce { resident, .. } = entry else { continue };
            let head = format!("the router behind port {} announces it", port.logical_port);
            let Some(localnet) = self.localnet(port.datapath.uuid()) else {
                self.say("D3", format!("{head}, but its network is no provider network"));
                continue;
            };
            let here = |this: &mut Self| format!("is here, but {}", this.no_network(localnet));
            match resident.as_ref().map(|name| (name, snapshot.port(name))) {
                Some((name, None)) => self.say("D3", format!("{head} for port {name}, which is not there")),
                Some((name, Some((_, resident)))) if opted_out(resident) => self.say(
                    "D8",
                    format!(
                        "{head} for port {name}, whose owner does not want it announced (meridian:advertise=false)"
                    ),
                ),
                Some((name, Some((_, resident)))) => {
                    self.say_at("D3", &format!("{head} for port {name}, which"), self.at(resident), here);
                }
                None if port.kind == PortType::L3Gateway => {
                    self.say_at("D3", &format!("{head} as a router of its own, which"), self.at(port), here);
                }
                None => self.say("D3", format!("{head} for no port, and is not bound to a chassis as a whole")),
            }
        }
    }

    fn balancers(&mut self) {
        let snapshot = self.snapshot;
        let ports = snapshot.sb.table::<PortBinding>().iter().map(|(_, port)| port);
        let vip_ports: Vec<_> =
            ports.filter(|port| is_vip_port(port) && port.ips().contains(&self.ip)).collect();
        // Of a tenant network, or hidden: its port has told why nobody announces it.
        let told =
            vip_ports.iter().any(|port| opted_out(port) || self.localnet(port.datapath.uuid()).is_none());
        let balancers: Vec<_> = self.balancers_of(&[self.ip]).collect();
        if let ([], [port, ..], false) = (&balancers[..], &vip_ports[..], told) {
            let name = &port.logical_port;
            self.say("D6", format!("port {name} holds it for a load balancer, but no load balancer has it"));
        }
        for balancer in balancers {
            let head = format!("load balancer {} has it", balancer.name);
            let members: BTreeSet<Uuid> = snapshot.members(balancer).collect();
            let serving: Vec<_> = snapshot
                .ports_as(Role::Gateway)
                .filter_map(|(_, gateway)| Some((gateway, self.provider_side(gateway)?)))
                .filter(|(gateway, (switch, _))| self.serves(gateway, *switch, &members))
                .collect();
            if serving.is_empty() && !told {
                self.say("D6", format!("{head}, but its members are behind no router that has a gateway"));
            }
            for (gateway, (switch, localnet)) in serving {
                let head =
                    format!("{head}, its members are behind the router gateway {}", gateway.logical_port);
                let mut on_it = vip_ports.iter().filter(|port| port.datapath.uuid() == switch).peekable();
                let is_there = on_it.peek().is_some() || nets(gateway).any(|net| net.contains(&self.ip));
                if !is_there && !told {
                    self.say("D6", format!("{head}, but it is no address of that one's network"));
                }
                if !is_there || on_it.any(|port| opted_out(port)) {
                    continue;
                }
                let here = |this: &mut Self| format!("is here, but {}", this.no_network(localnet));
                self.say_at("D6", &format!("{head}, which"), self.at(gateway), here);
            }
        }
    }

    /// Whether a load balancer with these switches and routers is served through a gateway on a provider network's switch.
    fn serves(&self, gateway: &PortBinding, outside: Uuid, members: &BTreeSet<Uuid>) -> bool {
        let router = gateway.datapath.uuid();
        let peers = self.snapshot.ports_on(router).filter_map(|(_, port)| self.snapshot.peer(port));
        let mut inside = peers.map(|(_, peer)| peer.datapath.uuid()).filter(|switch| *switch != outside);
        members.contains(&router) || inside.any(|switch| members.contains(&switch))
    }
}

/// The prefixes of a router's port.
fn nets(port: &PortBinding) -> impl Iterator<Item = ipnet::IpNet> + '_ {
    let fixed = port.mac.iter().filter_map(Text::value).flat_map(PortAddresses::fixed);
    fixed.map(|host| host.to_net().trunc())
}
