//! The explanation why this node exposes an address or does not.
//!
//! Every row that has the address is looked up (`rows.rs`), and of each it is told which chassis has to announce the address
//! because of it, or the first thing that keeps it from being announced. That is the rules of [`desired`](super::desired) once
//! more, asked "why not"; a test holds the two against each other, as seen from either of two chassis.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod rows;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use reconcile::ObjectId;
use serde::{Deserialize, Serialize};

use super::PORT_MARK;
use super::config::{Advertisement, Config};
use super::desired::{Decision, Network, Place, Reason, Silence, is_of_its_link};
use super::snapshot::Snapshot;
use crate::kernel::Family;
use crate::part::object;
use crate::ports;
use rows::AddressQuery;

/// The explanation why this node exposes an address or does not.
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
    /// Whether it is announced now, by what was found at the last look; nothing before there was one.
    pub in_place: Option<bool>,
    /// The device that its packets are handed to.
    pub device: Option<String>,
    /// The VLAN that this device is, if it is one.
    pub vlan: Option<Vlan>,
    /// The rules and rows that want it here.
    pub reasons: Vec<Reason>,
    /// All of it in sentences.
    pub text: Vec<String>,
    /// The objects that it depends on: their problems are its problems.
    #[serde(skip)]
    pub stands_on: BTreeSet<ObjectId>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, line) in self.text.iter().enumerate() {
            write!(f, "{}{line}", if at > 0 { "\n  " } else { "" })?;
        }
        Ok(())
    }
}

/// The device of a VLAN of a provider bridge.
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
            internal_port: ports::is_made(vswitch, PORT_MARK, &network.dev),
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

/// The missing sources of an explanation. By default the agent has seen all rows, and FRR replies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// The reason why rows of other chassis are missing, if they are.
    pub no_rows: Option<String>,
    /// The reason why FRR announces nothing new, if it does not reply.
    pub no_frr: Option<String>,
}

/// Explains one address. `announced` tells of a prefix whether it is announced now, as far as that is known.
pub fn explain(
    snapshot: &Snapshot,
    decision: &Decision,
    ip: IpAddr,
    sight: &Sight,
    announced: impl Fn(IpNet) -> Option<bool>,
) -> Explanation {
    let chassis = snapshot.system_id().map_or(String::new(), ToString::to_string);
    let mut out = Explanation {
        ip,
        chassis: chassis.clone(),
        exposed: false,
        announced: false,
        announced_as: None,
        in_place: None,
        device: None,
        vlan: None,
        reasons: Vec::new(),
        text: Vec::new(),
        stands_on: [object::address(ip)].into(),
    };
    let subnet = decision.subnet_of(ip).filter(|_| snapshot.config.advertisement == Advertisement::Subnet);
    let (prefix, how, dev) = match (decision.addresses.get(&ip), subnet) {
        (Some(address), _) => {
            out.reasons = address.reasons.clone();
            let (how, bridge, dev) = match &address.place {
                Place::Wired { bridge, dev } => {
                    (format!("a rule to table {bridge} and a route to {dev}"), bridge.clone(), dev.clone())
                }
                Place::Subnet(net) => {
                    out.stands_on.insert(object::subnet(*net));
                    let subnet = decision.subnets.get(net);
                    let via = subnet.map_or(String::new(), |subnet| format!(" via {}", subnet.via));
                    let (bridge, dev) = subnet
                        .map_or_else(Default::default, |subnet| (subnet.bridge.clone(), subnet.dev.clone()));
                    (format!("rule and route of its subnet {net}{via}"), bridge, dev)
                }
            };
            stands_on(snapshot, &mut out, &bridge, &dev);
            (IpNet::from(ip), how, dev)
        }
        (None, Some((net, subnet))) => {
            out.stands_on.insert(object::subnet(net));
            stands_on(snapshot, &mut out, &subnet.bridge, &subnet.dev);
            (net, format!("rule and route of its subnet {net} via {}", subnet.via), subnet.dev.clone())
        }
        (None, None) => {
            out.in_place = announced(ip.into());
            why_not(snapshot, decision, sight, &mut out);
            return out;
        }
    };
    out.exposed = true;
    out.announced = decision.silence.is_none();
    out.announced_as = out.announced.then_some(prefix);
    out.in_place = announced(prefix);
    out.device = Some(dev.to_string());
    let what = match prefix == IpNet::from(ip) {
        true => ip.to_string(),
        false => format!("{ip} is in the subnet {prefix}, which"),
    };
    out.text.push(match decision.silence {
        None if out.in_place == Some(true) => match &sight.no_frr {
            None => format!("{what} is announced by {chassis}, and carried by {how}."),
            Some(why) => format!(
                "{what} is ready to be announced by {chassis}, and carried by {how}, but FRR announces nothing new: {why}. \
                 BGP peers may still have an earlier announcement: they keep it until their session with bgpd ends."
            ),
        },
        None => {
            let not_yet = out
                .in_place
                .map_or(String::new(), |_| format!("; it is not there yet, on {}", snapshot.config.bgp_nic));
            format!("{what} should be announced by {chassis}, and carried by {how}{not_yet}.")
        }
        Some(Silence::ChassisGone) => {
            out.stands_on.insert(ObjectId::new("chassis", chassis.as_str()));
            format!("{what} is carried by {how}, but not announced: OVN does not know {chassis:?} any more.")
        }
        Some(Silence::Stopping) => {
            format!("{what} is no longer announced, because the agent is stopping.")
        }
    });
    out.text.extend(out.reasons.iter().map(|reason| format!("{}: {reason}.", reason.rule())));
    if let (true, Some((_, subnet))) = (out.reasons.is_empty(), subnet) {
        out.text.push(format!(
            "D4: router port {} is behind the gateway {}, which is bound here.",
            subnet.port, subnet.gateway
        ));
    }
    match &sight.no_rows {
        None => elsewhere(snapshot, decision, &mut out),
        Some(why) => out.text.push(format!("Cannot check whether another chassis has it, too: {why}.")),
    }
    let network = decision.networks.get(&dev);
    out.vlan = network.and_then(|network| Vlan::of(&snapshot.vswitch, network));
    out.text.extend(out.vlan.iter().map(ToString::to_string));
    out
}

fn why_not(snapshot: &Snapshot, decision: &Decision, sight: &Sight, out: &mut Explanation) {
    let ip = out.ip;
    out.text.push(match out.in_place {
        Some(true) => format!("{ip} should not be announced by {} any more, but still is.", out.chassis),
        _ => format!("{ip} is not announced by {}.", out.chassis),
    });
    if is_of_its_link(ip) {
        out.text.push("It is valid on its link only, so it is never announced.".into());
        return;
    }
    if let Some((net, why)) = snapshot.reserved.has(ip) {
        out.text.push(format!("{net} is {why}, so it is never announced for an instance."));
    }
    let mut asking = AddressQuery::new(snapshot, decision, ip);
    let said = asking.ask();
    let database = snapshot.config.source.to_string();
    match &sight.no_rows {
        Some(why) => out.text.push(format!(
            "Cannot search all of OVN's {database} database ({why}), so it is not known whether another chassis has it."
        )),
        None if said.is_empty() => out.text.push(format!(
            "Nothing in OVN's {database} database has it: no port, no router's translation, no load balancer."
        )),
        None => {}
    }
    out.text.extend(said.iter().map(|said| format!("{}: {}.", said.rule, said.text)));
    out.stands_on.append(&mut asking.stands_on);
}

/// Of what is announced here, who else has to announce it.
fn elsewhere(snapshot: &Snapshot, decision: &Decision, out: &mut Explanation) {
    let said = AddressQuery::new(snapshot, decision, out.ip).ask();
    let said = said.iter().filter(|said| said.elsewhere);
    out.text.extend(said.map(|said| format!("Another chassis has it, too. {}: {}.", said.rule, said.text)));
}

/// The objects that an announcement depends on, apart from the address's own rule and route.
fn stands_on(snapshot: &Snapshot, out: &mut Explanation, bridge: &str, dev: &str) {
    let Config { bgp_nic, bgp_vrf, .. } = &*snapshot.config;
    let family = if out.ip.is_ipv4() { Family::V4 } else { Family::V6 };
    out.stands_on.extend([bgp_nic, bgp_vrf].map(|dev| object::device(dev)));
    out.stands_on.extend([bridge, dev].map(object::device));
    out.stands_on.extend([bridge, dev].map(|dev| object::base(dev, family)));
    out.stands_on.insert(object::frr(bgp_vrf));
}

#[cfg(test)]
mod tests;
