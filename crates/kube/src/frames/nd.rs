//! Router advertisements and neighbour advertisements.

use std::net::Ipv6Addr;

use ipnet::Ipv6Net;
use ovn::MacAddr;

use super::ethernet::icmpv6;

const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOR_ADVERTISEMENT: u8 = 136;
const CURRENT_HOP_LIMIT: u8 = 255;
/// The guest asks DHCPv6 for its address.
const MANAGED: u8 = 0x80;
const PREFERENCE_HIGH: u8 = 0x08;
/// The prefix is on the link, and guests may derive addresses from it.
const ON_LINK_AND_AUTONOMOUS: u8 = 0xc0;
/// The sender is a router, and its MAC address replaces a known one. Without the first flag a guest would drop the routes over it.
const ROUTER_AND_OVERRIDE: u8 = 0xa0;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: MacAddr = MacAddr([0x33, 0x33, 0, 0, 0, 1]);
const SOURCE_ADDRESS: u8 = 1;
const TARGET_ADDRESS: u8 = 2;
const PREFIX: u8 = 3;

/// The statement of a router advertisement about its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayStatement {
    /// The sender is no default gateway any more.
    Gone,
    /// The sender is the default gateway for as long as an advertisement can say. The guest forgets addresses that it derived from this
    /// prefix.
    Gateway {
        /// A prefix that old gateways advertised.
        forget: Option<Ipv6Net>,
    },
}

/// A router advertisement of a router to one guest.
pub fn router_advertisement(
    router: MacAddr,
    guest: (MacAddr, Ipv6Addr),
    advertised: GatewayStatement,
) -> Vec<u8> {
    let (preference, lifetime, forget) = match advertised {
        GatewayStatement::Gone => (0, 0, None),
        GatewayStatement::Gateway { forget } => (PREFERENCE_HIGH, u16::MAX, forget),
    };
    let mut message = vec![ROUTER_ADVERTISEMENT, 0, 0, 0, CURRENT_HOP_LIMIT, MANAGED | preference];
    message.extend(lifetime.to_be_bytes());
    // No statement about reachable and retransmission times.
    message.extend([0; 8]);
    message.extend(link_layer(SOURCE_ADDRESS, router));
    if let Some(prefix) = forget {
        message.extend([PREFIX, 4, prefix.prefix_len(), ON_LINK_AND_AUTONOMOUS]);
        // Valid and preferred for no second, and a reserved field.
        message.extend([0; 12]);
        message.extend(prefix.network().octets());
    }
    icmpv6((router, router.link_local()), guest, message)
}

/// A neighbour advertisement to everybody: this address of the gateway is at this MAC address.
pub fn neighbor_advertisement(gateway: MacAddr, address: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![NEIGHBOR_ADVERTISEMENT, 0, 0, 0, ROUTER_AND_OVERRIDE, 0, 0, 0];
    message.extend(address.octets());
    message.extend(link_layer(TARGET_ADDRESS, gateway));
    icmpv6((gateway, address), (ALL_NODES_MAC, ALL_NODES), message)
}

fn link_layer(option: u8, mac: MacAddr) -> [u8; 8] {
    let [a, b, c, d, e, f] = mac.octets();
    [option, 1, a, b, c, d, e, f]
}
