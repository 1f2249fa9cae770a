//! Addresses that follow from a node id, a network id and the subnets of a network.
//!
//! All nodes of a cluster compute these on their own, so they must never depend on the order of a list or on local state. The
//! tables of the tests are the reference.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod dual;
mod peer;
mod subnet;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use ovn::MacAddr;
use sha2::{Digest, Sha256};

pub use dual::{DualAddress, DualNet, DualStack};
pub use peer::{PeerScheme, PeerSubnet};
pub use subnet::{first_address, host_count, last_usable, nets_overlap, next_block, nth_address};

use crate::ident::{NetworkId, NodeId};

/// The position of a layer-2 network's default gateway in its subnet.
const GATEWAY: u128 = 1;
/// The position of its management port.
const MANAGEMENT: u128 = 2;
/// The first masquerade address of a network; the five before are shared by all networks.
const MASQUERADE_FIRST: u128 = 10;

/// The join addresses of a node's gateway router, with the prefix length of the join subnet: id 2 is `100.65.0.2/16`.
///
/// A family whose join subnet is too small for the id is missing.
pub fn join_addresses(join: DualNet, node: NodeId) -> DualNet {
    nth_of(join, u128::from(node.get()))
}

/// The default gateway of a network with these subnets: `203.203.0.1/16`.
pub fn gateway_addresses(subnets: DualNet) -> DualNet {
    nth_of(subnets, GATEWAY)
}

/// The address of every node's management port in a network with these subnets: `203.203.0.2/16`.
pub fn management_addresses(subnets: DualNet) -> DualNet {
    nth_of(subnets, MANAGEMENT)
}

/// The addresses that a network's gateway routers masquerade with: network 1 has `169.254.0.11`.
pub fn gateway_masquerade(masquerade: DualNet, network: NetworkId) -> DualNet {
    nth_of(masquerade, MASQUERADE_FIRST + 2 * u128::from(network.get()) - 1)
}

/// The addresses that stand for a network's pods behind its management port: network 1 has `169.254.0.12`.
pub fn management_masquerade(masquerade: DualNet, network: NetworkId) -> DualNet {
    nth_of(masquerade, MASQUERADE_FIRST + 2 * u128::from(network.get()))
}

/// The masquerade addresses that all networks of a node share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedMasquerade {
    /// OVN's side of the external switch.
    Ovn,
    /// The host's side.
    Host,
    /// The host's side for services with `externalTrafficPolicy: Local`.
    HostLocal,
    /// A next hop that no machine has.
    NextHop,
    /// The source of a service's traffic to itself.
    Hairpin,
}

impl SharedMasquerade {
    /// The addresses, with the prefix length of the masquerade subnet.
    pub fn addresses(self, masquerade: DualNet) -> DualNet {
        nth_of(masquerade, self as u128 + 1)
    }
}

/// The address of the upgrade port on a transit router: the last usable address of the join subnet, which no node has.
pub fn upgrade_join_addresses(join: DualNet) -> DualNet {
    DualStack {
        ipv4: join.ipv4.and_then(|net| with_prefix4(last_usable(net.into()), net)),
        ipv6: join.ipv6.and_then(|net| with_prefix6(last_usable(net.into()), net)),
    }
}

/// The n-th address of each subnet with that subnet's prefix length.
fn nth_of(nets: DualNet, n: u128) -> DualNet {
    DualStack {
        ipv4: nets.ipv4.and_then(|net| with_prefix4(nth_address(net.into(), n)?, net)),
        ipv6: nets.ipv6.and_then(|net| with_prefix6(nth_address(net.into(), n)?, net)),
    }
}

fn with_prefix4(address: IpAddr, net: Ipv4Net) -> Option<Ipv4Net> {
    match address {
        IpAddr::V4(address) => Ipv4Net::new(address, net.prefix_len()).ok(),
        IpAddr::V6(_) => None,
    }
}

fn with_prefix6(address: IpAddr, net: Ipv6Net) -> Option<Ipv6Net> {
    match address {
        IpAddr::V6(address) => Ipv6Net::new(address, net.prefix_len()).ok(),
        IpAddr::V4(_) => None,
    }
}

/// The MAC address that belongs to an IPv4 address: `0a:58` and its four bytes.
pub fn mac_of_ipv4(address: Ipv4Addr) -> MacAddr {
    let [a, b, c, d] = address.octets();
    MacAddr([0x0a, 0x58, a, b, c, d])
}

/// The MAC address that belongs to an IPv6 address: `0a:58` and four bytes of the hash of its canonical text.
pub fn mac_of_ipv6(address: Ipv6Addr) -> MacAddr {
    let hash = Sha256::digest(address.to_string().as_bytes());
    MacAddr([0x0a, 0x58, hash[0], hash[1], hash[2], hash[3]])
}

/// The MAC address that belongs to an address.
pub fn mac_of_address(address: IpAddr) -> MacAddr {
    match address {
        IpAddr::V4(address) => mac_of_ipv4(address),
        IpAddr::V6(address) => mac_of_ipv6(address),
    }
}

/// The MAC address of a port with these addresses. IPv4 decides if the port has it.
pub fn mac_of(addresses: DualAddress) -> Option<MacAddr> {
    match (addresses.ipv4, addresses.ipv6) {
        (Some(address), _) => Some(mac_of_ipv4(address)),
        (None, Some(address)) => Some(mac_of_ipv6(address)),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests;
