//! Why an address is exposed on this node or why not, in words.
//!
//! Of an address that is not exposed every row that has it is looked up, and the first thing that keeps it from being exposed
//! here is told of each. That is the rules of [`desired`](super::desired) once more, asked "why not"; a test holds the two
//! against each other.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use ovn::PortType;
use ovn::sb::{Chassis, LoadBalancer, PortBinding};
use ovn::text::Text;
use ovsdb::{Uuid, Weak};
use serde::{Deserialize, Serialize};

use super::config::{Advertisement, Source, Tenants};
use super::desired::{Decision, Network, Place, Reason, Silence, exposable, is_gua};
use super::snapshot::{Snapshot, is_vip_port, opted_out};
use crate::ports;

/// Why an address is exposed on this node or why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The address.
    pub ip: IpAddr,
    /// This node's name as a chassis.
    pub chassis: String,
    /// Whether it should be reachable through this node.
    pub exposed: bool,
    /// Whether it should be announced by this node.
    pub announced: bool,
    /// The prefix that is announced for it.
    pub announced_as: Option<IpNet>,
    /// The device that its packets are handed to.
    pub device: Option<String>,
    /// The VLAN that this device is, if it is one.
    pub vlan: Option<Vlan>,
    /// The rules and rows that want it here.
    pub reasons: Vec<Reason>,
    /// All of it in sentences.
    pub text: Vec<String>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, line) in self.text.iter().enumerate() {
            write!(f, "{}{line}", if at > 0 { "\n  " } else { "" })?;
        }
        Ok(())
    }
}

/// What a VLAN of a provider bridge is met on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vlan {
    /// The device.
    pub device: String,
    /// The bridge.
    pub bridge: String,
    /// The VLAN.
    pub tag: u16,
    /// Whether the device is an internal port of Open vSwitch; else the kernel makes it.
    pub internal_port: bool,
}

impl Vlan {
    /// Of a network, if it is a VLAN, with the local switch's database.
    pub fn of(vswitch: &ovsdb::Snapshot, network: &Network) -> Option<Self> {
        Some(Vlan {
            device: network.dev.to_string(),
            bridge: network.bridge.to_string(),
            tag: network.tag?,
            internal_port: ports::is_made(vswitch, &network.dev),
        })
    }
}

impl fmt::Display for Vlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Vlan { device, bridge, tag, internal_port } = self;
        let kind = match internal_port {
            true => "an internal port of Open vSwitch",
            false => "a VLAN device of the kernel",
        };
        write!(f, "{device} is VLAN {tag} of {bridge}, as {kind}.")
    }
}

/// Explains one address.
pub fn explain(snapshot: &Snapshot, decision: &Decision, ip: IpAddr) -> Explanation {
    let chassis = snapshot.system_id().map_or(String::new(), ToString::to_string);
    let mut out = Explanation {
        ip,
        chassis: chassis.clone(),
        exposed: false,
        announced: false,
        announced_as: None,
        device: None,
        vlan: None,
        reasons: Vec::new(),
        text: Vec::new(),
    };
    match decision.addresses.get(&ip) {
        Some(address) => {
            out.exposed = true;
            out.announced = decision.silence.is_none();
            out.announced_as = out.announced.then(|| ip.into());
            out.reasons = address.reasons.clone();
            let (device, how) = match &address.place {
                Place::Wired { bridge, dev } => {
                    (dev.clone(), format!("a rule to table {bridge} and a route to {dev}"))
                }
                Place::Subnet(net) => {
                    let subnet = decision.subnets.get(net);
                    let via = subnet.map_or(String::new(), |subnet| format!(" via {}", subnet.via));
                    let dev = subnet.map_or(Default::default(), |subnet| subnet.dev.clone());
                    (dev, format!("rule and route of its subnet {net}{via}"))
                }
            };
            out.device = Some(device.to_string());
            out.text.push(match decision.silence {
                None => format!("{ip} is announced by {chassis}, and carried by {how}."),
                Some(Silence::ChassisGone) => {
                    format!(
                        "{ip} is carried by {how}, but not announced: OVN does not know {chassis:?} any more."
                    )
                }
                Some(Silence::Stopping) => {
                    format!("{ip} is not announced any more, as the agent is about to end.")
                }
            });
            out.text.extend(address.reasons.iter().map(|reason| format!("{}: {reason}.", reason.rule())));
        }
        None => why_not(snapshot, decision, ip, &mut out),
    }
    let device = out.device.as_deref().and_then(|dev| decision.networks.get(dev));
    out.vlan = device.and_then(|network| Vlan::of(&snapshot.vswitch, network));
    out.text.extend(out.vlan.iter().map(ToString::to_string));
    out
}

fn why_not(snapshot: &Snapshot, decision: &Decision, ip: IpAddr, out: &mut Explanation) {
    if let Some((net, subnet)) = decision.subnet_of(ip)
        && snapshot.config.advertisement == Advertisement::Subnet
    {
        out.exposed = true;
        out.announced = decision.silence.is_none();
        out.announced_as = out.announced.then_some(net);
        out.device = Some(subnet.dev.to_string());
        out.text.push(format!(
            "{ip} is reached through its subnet {net}, which is announced as such by {}.",
            out.chassis
        ));
        out.text.push(format!(
            "D4: router port {} is behind the gateway {}, which is bound here.",
            subnet.port, subnet.gateway
        ));
        return;
    }
    out.text.push(format!("{ip} is not announced by {}.", out.chassis));
    if !exposable(ip) {
        out.text.push("It means nothing outside of its link, so it is never announced.".into());
        return;
    }
    let found = out.text.len();
    let me = snapshot.me();
    for (_, port) in snapshot.sb.table::<PortBinding>().iter() {
        if port.ips().contains(&ip) {
            out.text.extend(port_why_not(snapshot, decision, port, ip, me));
        }
        nat_why_not(snapshot, port, ip, me, &mut out.text);
    }
    for (_, balancer) in snapshot.sb.table::<LoadBalancer>().iter() {
        if balancer.vips.keys().filter_map(Text::value).any(|vip| vip.ip == ip) {
            let gateways = "no gateway that is bound here is both on the network of its address and connected to its members";
            out.text.push(format!("D6: load balancer {} has it, but {gateways}.", balancer.name));
        }
    }
    if out.text.len() == found {
        out.text.push(format!(
            "Nothing in OVN's {} database has it: no port, no router's translation, no load balancer.",
            snapshot.config.source.database()
        ));
    }
}

/// Where a port is, in words; `None` if it is here and ready.
fn elsewhere(snapshot: &Snapshot, port: &PortBinding, me: Option<Uuid>) -> Option<String> {
    let Some(chassis) = port.chassis else {
        return Some(match snapshot.config.source {
            Source::Southbound => "is bound to no chassis".into(),
            Source::Northbound => "is not up".into(),
        });
    };
    if Some(chassis.uuid()) != me {
        return Some(format!("is bound to chassis {}, which has to announce it", name(snapshot, chassis)));
    }
    (port.up == Some(false)).then(|| "is bound here, but not up yet".into())
}

fn name(snapshot: &Snapshot, chassis: Weak<Chassis>) -> String {
    let row = snapshot.sb.table::<Chassis>().get(chassis.uuid());
    row.map_or_else(
        || chassis.to_string(),
        |row| match row.hostname.as_str() {
            "" => row.name.to_string(),
            hostname => format!("{} ({hostname})", row.name),
        },
    )
}

fn port_why_not(
    snapshot: &Snapshot,
    decision: &Decision,
    port: &PortBinding,
    ip: IpAddr,
    me: Option<Uuid>,
) -> Option<String> {
    let name = &port.logical_port;
    let localnet = snapshot.ports_on(port.datapath.uuid()).find(|(_, port)| port.kind == PortType::Localnet);
    match &port.kind {
        PortType::ChassisRedirect => {
            let why = match elsewhere(snapshot, port, me) {
                Some(where_) => where_,
                None => {
                    "is on a network that this node has no bridge for, or that has no localnet port".into()
                }
            };
            Some(format!("D2: the router gateway {name} has it, and {why}."))
        }
        PortType::Vif | PortType::Virtual if opted_out(port) => Some(format!(
            "D8: port {name} has it, and its owner does not want it announced (meridian:advertise=false)."
        )),
        PortType::Vif | PortType::Virtual => Some(match localnet {
            Some((_, localnet)) => {
                let physnet = localnet.options.get("network_name").map_or("", |name| name.as_str());
                let mapped = snapshot.mappings().bridge(physnet).map(str::to_owned);
                let why = match (elsewhere(snapshot, port, me), mapped) {
                    (Some(where_), _) => where_,
                    (None, None) => {
                        format!("its network is on {physnet:?}, which ovn-bridge-mappings has no bridge for")
                    }
                    (None, Some(bridge)) => format!(
                        "its network is on bridge {bridge}, which cannot be used: see `meridian status`"
                    ),
                };
                format!("D1: port {name} of a provider network has it, and {why}.")
            }
            None => tenant_why_not(snapshot, decision, port, ip),
        }),
        // A router's port has no address of its own to expose: its gateway port does.
        _ => None,
    }
}

fn tenant_why_not(snapshot: &Snapshot, decision: &Decision, port: &PortBinding, ip: IpAddr) -> String {
    let name = &port.logical_port;
    let why = match (snapshot.config.tenants(), ip) {
        (Tenants::Hidden, _) => "tenant networks are not exposed: expose_tenant_networks is off".to_owned(),
        (Tenants::Gua, IpAddr::V4(_)) => {
            "only globally routed IPv6 addresses of tenants are exposed".to_owned()
        }
        (Tenants::Gua, IpAddr::V6(ip)) if !is_gua(ip) => "it is not globally routed".to_owned(),
        _ if decision.subnet_of(ip).is_none() => match gateway(snapshot, port) {
            None => "its network is behind no router that has a gateway".to_owned(),
            Some(gateway) => match elsewhere(snapshot, gateway, snapshot.me()) {
                Some(where_) => format!("the gateway {} of its router {where_}", gateway.logical_port),
                None => {
                    "its subnet is not exposed: see address_scopes, require_snat_disabled_for_tenant_networks, \
                     meridian:advertise and `meridian status`"
                        .to_owned()
                }
            },
        },
        _ if port.chassis.is_none() && port.kind == PortType::Vif && !is_vip_port(port) => {
            format!("it {}", elsewhere(snapshot, port, None).unwrap_or_default())
        }
        _ => "address_scopes does not have its address scope".to_owned(),
    };
    format!("D5: port {name} of a tenant network has it, and {why}.")
}

/// The gateway port of a router that a tenant's switch is connected to.
fn gateway<'s>(snapshot: &'s Snapshot, port: &PortBinding) -> Option<&'s PortBinding> {
    let links = snapshot.ports_on(port.datapath.uuid()).filter_map(|(_, port)| snapshot.peer(port));
    let mut routers = links.map(|(_, router_port)| router_port.datapath.uuid());
    routers.find_map(|router| {
        let mut ports = snapshot.ports_on(router).map(|(_, port)| port);
        ports.find(|port| port.kind == PortType::ChassisRedirect)
    })
}

fn nat_why_not(
    snapshot: &Snapshot,
    port: &PortBinding,
    ip: IpAddr,
    me: Option<Uuid>,
    text: &mut Vec<String>,
) {
    use ovn::text::NatAddresses::Announce;
    for entry in
        port.nat_addresses.iter().filter_map(Text::value).filter(|entry| entry.ips().any(|have| have == ip))
    {
        let Announce { resident, .. } = entry else { continue };
        let why = match resident.as_ref().map(|name| (name, snapshot.port(name))) {
            Some((name, None)) => format!("for port {name}, which is not there"),
            Some((name, Some((_, resident)))) if opted_out(resident) => {
                format!("for port {name}, whose owner does not want it announced (meridian:advertise=false)")
            }
            Some((name, Some((_, resident)))) => match elsewhere(snapshot, resident, me) {
                Some(where_) => format!("for port {name}, which {where_}"),
                None => "but its network has no bridge on this node".into(),
            },
            None => match elsewhere(snapshot, port, me) {
                Some(where_) => format!("as a router of its own, which {where_}"),
                None => "but its network has no bridge on this node".into(),
            },
        };
        text.push(format!("D3: the router behind port {} announces it {why}.", port.logical_port));
    }
}

#[cfg(test)]
mod tests;
