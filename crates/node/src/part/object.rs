//! The names of objects of the data plane.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::IpAddr;

use ipnet::IpNet;
use reconcile::ObjectId;
use smol_str::format_smolstr;

use crate::kernel::{Family, Sysctl};

/// An address: its announcement, its host route, its rule, its neighbour and its NDP proxy (`address/172.24.4.10`).
pub fn address(ip: IpAddr) -> ObjectId {
    ObjectId::new("address", format_smolstr!("{ip}"))
}

/// A subnet behind a router: its route, its rule, its announcement as a prefix (`subnet/10.1.0.0/24`).
pub fn subnet(net: IpNet) -> ObjectId {
    ObjectId::new("subnet", format_smolstr!("{}", net.trunc()))
}

/// The object of a prefix: an address for a host prefix, a subnet for any other.
pub fn prefix(net: IpNet) -> ObjectId {
    if net.prefix_len() == net.max_prefix_len() { address(net.addr()) } else { subnet(net) }
}

/// A device: a provider bridge or a VLAN of it, the exposure VRF, the announcing device (`device/br-ex`).
pub fn device(dev: &str) -> ObjectId {
    ObjectId::new("device", dev)
}

/// The base of a provider device in one family: its address, its default route, its rule for all (`base/br-ex:ipv6`). One per
/// family, so that a device without IPv6 still serves IPv4.
pub fn base(dev: &str, family: Family) -> ObjectId {
    let family = match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    };
    ObjectId::new("base", format_smolstr!("{dev}:{family}"))
}

/// A switch of a device (`sysctl/net/ipv4/conf/br-ex/proxy_arp`).
pub fn sysctl(sysctl: &Sysctl) -> ObjectId {
    ObjectId::new("sysctl", sysctl.path())
}

/// The name of a bridge's table in `rt_tables` (`table/br-ex`). Where it cannot be written the table is known by its content.
pub fn table(bridge: &str) -> ObjectId {
    ObjectId::new("table", bridge)
}

/// The flows of one patch port of a bridge (`flows/br-ex:5`).
pub fn flows(bridge: &str, port: u32) -> ObjectId {
    ObjectId::new("flows", format_smolstr!("{bridge}:{port}"))
}

/// The way in which a bridge forwards what no flow of ours matches (`flows/br-ex:NORMAL`).
pub fn forwarding(bridge: &str) -> ObjectId {
    ObjectId::new("flows", format_smolstr!("{bridge}:NORMAL"))
}

/// FRR's leak from a VRF (`frr/bgp-vrf`).
pub fn frr(vrf: &str) -> ObjectId {
    ObjectId::new("frr", vrf)
}
