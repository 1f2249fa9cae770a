//! The subnet between a node's gateway router and the transit router.
//!
//! OVN takes the upper address of a /31 for the broadcast address and drops packets from it, so /30 is the default. The scheme of
//! ovn-kubernetes exists for clusters in which both write rows.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use super::dual::{DualNet, DualStack};
use crate::ident::NodeId;

/// How peer subnets follow from a transit subnet. All nodes of a cluster use the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerScheme {
    /// IPv4 /30 number `id - 1`, IPv6 /127 number `id`.
    #[default]
    Seed,
    /// IPv4 /31 number `id`, IPv6 /127 number `id`, as ovn-kubernetes has it.
    Upstream,
}

impl PeerScheme {
    /// The prefix length of an IPv4 peer subnet.
    pub fn ipv4_prefix(self) -> u8 {
        match self {
            PeerScheme::Seed => 30,
            PeerScheme::Upstream => 31,
        }
    }

    /// The prefix length of an IPv6 peer subnet.
    pub fn ipv6_prefix(self) -> u8 {
        127
    }

    /// The peer subnets of a node. A family whose transit subnet is too small for the id is missing.
    pub fn derive(self, transit: DualNet, node: NodeId) -> DualNet {
        let id = u32::from(node.get());
        let index = match self {
            PeerScheme::Seed => id - 1,
            PeerScheme::Upstream => id,
        };
        DualStack {
            ipv4: transit.ipv4.and_then(|net| self.ipv4_subnet(net, index)),
            ipv6: transit.ipv6.and_then(|net| self.ipv6_subnet(net, u128::from(id))),
        }
    }

    /// The IPv4 peer subnet of this number in a transit subnet.
    pub fn ipv4_subnet(self, transit: Ipv4Net, index: u32) -> Option<Ipv4Net> {
        let width = u32::from(32 - self.ipv4_prefix());
        let first = u32::from(transit.network()).checked_add(index.checked_mul(1 << width)?)?;
        let subnet = Ipv4Net::new(Ipv4Addr::from(first), self.ipv4_prefix()).ok()?;
        transit.contains(&subnet).then_some(subnet)
    }

    /// The IPv6 peer subnet of this number in a transit subnet.
    pub fn ipv6_subnet(self, transit: Ipv6Net, index: u128) -> Option<Ipv6Net> {
        let first = u128::from(transit.network()).checked_add(index.checked_mul(2)?)?;
        let subnet = Ipv6Net::new(Ipv6Addr::from(first), self.ipv6_prefix()).ok()?;
        transit.contains(&subnet).then_some(subnet)
    }
}

/// The two ends of a peer subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSubnet(pub DualNet);

impl PeerSubnet {
    /// The transit router's addresses.
    pub fn router_side(self) -> DualNet {
        self.side(0)
    }

    /// The gateway router's addresses.
    pub fn gateway_side(self) -> DualNet {
        self.side(1)
    }

    fn side(self, side: u8) -> DualNet {
        DualStack {
            ipv4: self.0.ipv4.and_then(|net| {
                // A /31 has neither network nor broadcast address.
                let skip = u8::from(net.prefix_len() < 31);
                let address = u32::from(net.network()).checked_add(u32::from(side + skip))?;
                Ipv4Net::new(address.into(), net.prefix_len()).ok()
            }),
            ipv6: self.0.ipv6.and_then(|net| {
                let address = u128::from(net.network()).checked_add(u128::from(side))?;
                Ipv6Net::new(address.into(), net.prefix_len()).ok()
            }),
        }
    }
}
