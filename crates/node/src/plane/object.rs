//! How objects of the data plane are named.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::IpAddr;

use ipnet::IpNet;
use reconcile::ObjectId;
use smol_str::format_smolstr;

/// An address: its announcement, its host route, its rule, its neighbour and its NDP proxy (`address/172.24.4.10`).
pub fn address(ip: IpAddr) -> ObjectId {
    ObjectId::new("address", format_smolstr!("{ip}"))
}

/// A subnet behind a router: its route, its rule, its announcement as a prefix (`subnet/10.1.0.0/24`).
pub fn subnet(net: IpNet) -> ObjectId {
    ObjectId::new("subnet", format_smolstr!("{}", net.trunc()))
}

/// What a prefix stands for: a host prefix for an address, any other for a subnet.
pub fn prefix(net: IpNet) -> ObjectId {
    if net.prefix_len() == net.max_prefix_len() { address(net.addr()) } else { subnet(net) }
}

/// A device with its base: a provider bridge or a VLAN of it with its table, addresses and switches; the exposure VRF and
/// the announcing device (`device/br-ex`).
pub fn device(dev: &str) -> ObjectId {
    ObjectId::new("device", dev)
}

/// The flows of one patch port of a bridge (`flows/br-ex:5`).
pub fn flows(bridge: &str, port: u32) -> ObjectId {
    ObjectId::new("flows", format_smolstr!("{bridge}:{port}"))
}

/// FRR's leak from a VRF (`frr/bgp-vrf`).
pub fn frr(vrf: &str) -> ObjectId {
    ObjectId::new("frr", vrf)
}
