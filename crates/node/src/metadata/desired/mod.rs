//! Which networks are served on this chassis, and which instance has which address: one function of the Southbound's rows.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod identities;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use ipnet::IpNet;
use metadata_proxy::identity::PortIdentity;
use ovn::PortType;
use ovn::ident::{self, name};
use ovn::sb::{DatapathBinding, PortBinding};
use ovn::text::PortAddresses;
use ovn::text::neutron::{device_owner, key};
use ovsdb::{Str, Uuid, Weak};
use reconcile::{Class, ObjectId, Outcome, Problem};
use smol_str::format_smolstr;

use super::snapshot::Snapshot;
use super::state::{Desired, ServedNetwork};
use crate::netns::Namespace;

/// The address of the metadata service.
pub const IPV4: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
/// The same for IPv6.
pub const IPV6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe);
/// The beginning of a metadata port's device id.
const DEVICE: &str = "ovnmeta-";

/// A decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The desired state of the node.
    pub desired: Desired,
    /// The ports of each network that has local ones.
    pub identities: Identities,
    /// Networks without VMs, and since when.
    pub idle: BTreeMap<Uuid, Instant>,
    /// The time since when the chassis has been known, while that is so recent that its ports may not be bound yet.
    pub unsettled: Option<Instant>,
}

impl Decision {
    /// The time at which the decision changes by itself.
    pub fn next(&self, hold: std::time::Duration) -> Option<Instant> {
        self.idle.values().chain(&self.unsettled).filter_map(|since| since.checked_add(hold)).min()
    }
}

/// The ports of each network that has some on this chassis.
pub type Identities = BTreeMap<Uuid, Vec<PortIdentity>>;

/// A network as the Southbound's rows have it.
#[derive(Default)]
struct Rows<'a> {
    /// Its localports that are metadata ports, by name.
    metadata: BTreeMap<&'a Str, &'a PortBinding>,
    /// Its ports on this chassis.
    local: Vec<&'a PortBinding>,
}

/// Decides.
pub fn decide(snapshot: &Snapshot) -> Outcome<Decision> {
    let networks = networks(snapshot);
    let mut out = Outcome::<Decision>::default();
    out.value.desired.keys = keys(snapshot);
    out.value.identities = identities_of(snapshot, &networks);
    for (network, rows) in &networks {
        match served(snapshot, *network, rows) {
            Ok(Some(served)) => _ = out.value.desired.networks.insert(*network, served),
            Ok(None) => {}
            Err(problem) => {
                // The namespace that is there stays: it may still serve those that it served.
                out.undecided(problem);
                if let Some(before) = snapshot.before.desired.networks.get(network) {
                    out.value.desired.networks.insert(*network, before.clone());
                }
            }
        }
    }
    hold(snapshot, &networks, &mut out);
    out
}

/// Which instance has which address. The proxy learns it from here and not from the last decision, which may be as old as the loop's
/// work on namespaces takes.
pub fn identities(snapshot: &Snapshot) -> Identities {
    identities_of(snapshot, &networks(snapshot))
}

fn identities_of(snapshot: &Snapshot, networks: &BTreeMap<Uuid, Rows<'_>>) -> Identities {
    let ports = |rows: &Rows<'_>| identities::of(&rows.local, |port| parent(snapshot, port));
    let networks = networks.iter().map(|(network, rows)| (*network, ports(rows)));
    networks.filter(|(_, ports)| !ports.is_empty()).collect()
}

/// Keeps the namespaces of networks whose last VM went a moment ago. Networks that are gone themselves are not held.
///
/// After a start of ovn-controller all networks look as if they had no VMs. Those that this agent knows are held anew; of the others,
/// which a former agent may have served, everything stays as it is.
fn hold(snapshot: &Snapshot, networks: &BTreeMap<Uuid, Rows<'_>>, out: &mut Outcome<Decision>) {
    let lasts = |since: Instant| snapshot.now.saturating_duration_since(since) < snapshot.hold;
    let before = &snapshot.before;
    for network in networks.keys().filter(|network| !before.desired.networks.contains_key(network)) {
        if lasts(snapshot.since) && !out.value.desired.networks.contains_key(network) {
            out.keep.insert(object(*network));
        }
    }
    for (network, served) in &before.desired.networks {
        if out.value.desired.networks.contains_key(network) || !networks.contains_key(network) {
            continue;
        }
        let since = before.idle.get(network).copied().unwrap_or(snapshot.now).max(snapshot.since);
        if lasts(since) {
            out.value.idle.insert(*network, since);
            out.value.desired.networks.insert(*network, served.clone());
        }
    }
    out.value.unsettled = Some(snapshot.since).filter(|since| lasts(*since));
}

fn networks(snapshot: &Snapshot) -> BTreeMap<Uuid, Rows<'_>> {
    let mut networks = BTreeMap::<Uuid, Rows<'_>>::new();
    for (_, port) in snapshot.sb.table::<PortBinding>().iter() {
        let Some(network) = network(snapshot, port) else { continue };
        if port.kind == PortType::Localport {
            if is_metadata_port(port) {
                networks.entry(network).or_default().metadata.insert(&port.logical_port, port);
            }
        } else if is_local(snapshot, port) {
            networks.entry(network).or_default().local.push(port);
        }
    }
    // The order of rows must not show in a decision.
    for rows in networks.values_mut() {
        rows.local.sort_by(|a, b| a.logical_port.cmp(&b.logical_port));
    }
    networks
}

/// The network of a port: its datapath's name, or the one that the cloud's management wrote beside the port.
fn network(snapshot: &Snapshot, port: &PortBinding) -> Option<Uuid> {
    let datapath = snapshot.sb.get::<DatapathBinding>(port.datapath);
    let named = datapath.and_then(|datapath| datapath.external_ids.get("name"));
    let named = named.into_iter().chain(port.external_ids.get(key::NETWORK_NAME));
    named.into_iter().find_map(|text| name::neutron_id(text))
}

/// Whether a port is, or is about to be, on this chassis.
fn is_local(snapshot: &Snapshot, port: &PortBinding) -> bool {
    let here = Weak::new(snapshot.chassis);
    port.chassis == Some(here) || port.additional_chassis.contains(&here)
}

/// Health monitors of load balancers have localports as well, and are no metadata ports.
fn is_metadata_port(port: &PortBinding) -> bool {
    let has = |key: &str, is: &dyn Fn(&str) -> bool| port.external_ids.get(key).is_some_and(|text| is(text));
    has(key::DEVICE_OWNER, &|text| [device_owner::DISTRIBUTED, device_owner::DHCP].contains(&text))
        && has(key::DEVICE_ID, &|text| text.starts_with(DEVICE))
}

/// The port that a nested or virtual port belongs to, if it is on this chassis.
fn parent<'a>(snapshot: &'a Snapshot, port: &PortBinding) -> Option<&'a PortBinding> {
    let name = port.virtual_parent.as_ref().or(port.parent_port.as_ref()).filter(|name| !name.is_empty())?;
    let mut rows = snapshot.sb.table::<PortBinding>().iter();
    rows.find(|(_, row)| row.logical_port == *name && is_local(snapshot, row)).map(|(_, row)| row)
}

/// The desired state of a network; `None` if it needs none.
fn served(snapshot: &Snapshot, network: Uuid, rows: &Rows<'_>) -> Result<Option<ServedNetwork>, Problem> {
    let ports = || rows.local.iter().filter(|port| [PortType::Vif, PortType::External].contains(&port.kind));
    let clients: BTreeSet<IpAddr> = ports().flat_map(|port| port.ips()).collect();
    let Some((name, port)) = rows.metadata.first_key_value().filter(|_| !clients.is_empty()) else {
        return Ok(None);
    };
    let Some(mac) = port.ethernet().filter(|mac| !mac.is_multicast()) else {
        let message = format!("the metadata port {name} has no usable Ethernet address; set its MAC address");
        return Err(Problem::error(object(network), Class::Refused, "no-mac", message));
    };
    let mut addresses = BTreeSet::from([IpNet::from(IpAddr::V4(IPV4))]);
    // One address for each subnet that has a VM here: a network may have hundreds of subnets.
    let cidrs = port.cidrs().filter_map(|cidr| IpNet::new(cidr.addr, cidr.len?).ok());
    let used = cidrs.filter(|cidr| cidr.addr().is_ipv4() && clients.iter().any(|ip| cidr.contains(ip)));
    addresses.extend(used);
    // Subnets of VMs that the metadata port has no address in.
    let subnets =
        ports().flat_map(|port| port.cidrs()).filter_map(|cidr| IpNet::new(cidr.addr, cidr.len?).ok());
    let subnets = subnets.filter_map(|net| match net {
        IpNet::V4(net) if net.prefix_len() > 0 => Some(net),
        _ => None,
    });
    let bare = subnets.filter(|net| !addresses.iter().any(|own| own.contains(&IpAddr::V4(net.addr()))));
    let on_link = bare.map(|net| net.trunc()).collect();
    if snapshot.ipv6 && clients.iter().any(IpAddr::is_ipv6) {
        addresses.insert(IpAddr::V6(IPV6).into());
        addresses.extend(IpNet::new(mac.link_local().into(), 64));
    }
    let mtu = port.external_ids.get(key::MTU).and_then(|text| text.parse().ok()).filter(|mtu| *mtu > 0);
    Ok(Some(ServedNetwork {
        namespace: Namespace { mac, mtu, addresses, on_link },
        port: (*name).clone(),
        bridge: snapshot.bridge().into(),
        probes: probes(rows),
    }))
}

/// Addresses of VMs that OVN itself answers ARP and neighbour solicitations for. It does not for ports that may have any address.
fn probes(rows: &Rows<'_>) -> BTreeSet<IpAddr> {
    let known = |port: &&&PortBinding| {
        port.kind == PortType::Vif
            && !port.mac.iter().any(|text| text.value() == Some(&PortAddresses::Unknown))
    };
    let ips = rows.local.iter().filter(known).flat_map(|port| {
        let link_local = port.ethernet().map(|mac| IpAddr::from(mac.link_local()));
        port.ips().into_iter().filter(IpAddr::is_ipv4).chain(link_local)
    });
    ips.collect()
}

/// The keys by which the cloud's management knows the agent.
fn keys(snapshot: &Snapshot) -> BTreeMap<&'static str, String> {
    let mut keys = BTreeMap::from([(key::OVN_BRIDGE, snapshot.bridge().to_owned())]);
    if let Some(system_id) = snapshot.system_id() {
        keys.insert(key::METADATA_AGENT_ID, ident::metadata_agent_id(system_id).to_string());
    }
    keys.extend(snapshot.sb_cfg.map(|cfg| (key::METADATA_AGENT_SB_CFG, cfg.to_string())));
    keys
}

/// The name of a network in plans and problems.
pub fn object(network: Uuid) -> ObjectId {
    ObjectId::new("network", format_smolstr!("{network}"))
}

#[cfg(test)]
mod tests;
