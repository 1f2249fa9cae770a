//! Prefixes that this node never wires and never announces, whoever has them in OVN.
//!
//! A tenant chooses its own subnets. If one of them is the node's underlay, a rule for it goes ahead of the main table: the agent and
//! ovn-controller lose the Southbound database, and nobody hears any more that the subnet is gone. So a prefix of OVN that overlaps
//! one of these, in either direction, is refused, and what an earlier version left of it is removed without waiting for a database.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::kernel::Dev;

/// The reason why a prefix is reserved. Of several reasons, the first in this order is reported.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reserve {
    /// An address of this node.
    Own(Dev),
    /// A server of a database that the agent reads.
    Database,
    /// A BGP neighbour of FRR.
    Neighbour,
    /// The next hop of a default route.
    Gateway,
    /// An end of a tunnel of OVN.
    Tunnel,
    /// No unicast address of a host has it.
    Martian(&'static str),
    /// A network that this node is connected to, elsewhere than on a provider bridge.
    Connected(Dev),
    /// The option `reserved_prefixes`.
    Option,
}

impl fmt::Display for Reserve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reserve::Own(dev) => write!(f, "this node's own address on {dev}"),
            Reserve::Database => f.write_str("a server of OVN's database"),
            Reserve::Neighbour => f.write_str("a BGP neighbour of this node"),
            Reserve::Gateway => f.write_str("the next hop of this node's default route"),
            Reserve::Tunnel => f.write_str("a tunnel endpoint of OVN"),
            Reserve::Connected(dev) => write!(f, "the network that this node is connected to on {dev}"),
            Reserve::Option => f.write_str("listed in reserved_prefixes"),
            Reserve::Martian(what) => f.write_str(what),
        }
    }
}

/// The reserved prefixes, each with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReservedPrefixes {
    prefixes: BTreeMap<IpNet, Reserve>,
    /// The lengths that occur for IPv4 and for IPv6: what has to be tried.
    lengths: [BTreeSet<u8>; 2],
}

impl ReservedPrefixes {
    /// The prefixes that are reserved on every node.
    pub fn martians() -> Self {
        let v4 = |a, b, len| Ipv4Net::new_assert(Ipv4Addr::new(a, b, 0, 0), len).into();
        let v6 = |a, b, len| Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), len).into();
        let mapped = Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96).into();
        let mut reserved = Self::default();
        for (net, what) in [
            (v4(0, 0, 8), "\"this network\" (RFC 1122)"),
            (v4(127, 0, 8), "loopback addresses"),
            (v4(169, 254, 16), "link-local addresses"),
            (v4(224, 0, 4), "multicast addresses"),
            (v4(240, 0, 4), "reserved for future use, and broadcast"),
            (v6(0, 0, 8), "reserved by the IETF (loopback and addresses that embed IPv4)"),
            (v6(0, 0, 96), "IPv4-compatible addresses"),
            (mapped, "IPv4-mapped addresses, which no packet may carry"),
            (v6(0x64, 0xff9b, 96), "addresses that NAT64 translates"),
            (v6(0xfe80, 0, 10), "link-local addresses"),
            (v6(0xff00, 0, 8), "multicast addresses"),
        ] {
            reserved.insert(net, Reserve::Martian(what));
        }
        reserved
    }

    /// Reserves a prefix.
    pub fn insert(&mut self, net: IpNet, why: Reserve) {
        let net = net.trunc();
        self.lengths[family(net.addr())].insert(net.prefix_len());
        let known = self.prefixes.entry(net).or_insert_with(|| why.clone());
        if why < *known {
            *known = why;
        }
    }

    /// A reserved prefix that has addresses in common with another, and why it is reserved: the narrowest that contains it, or else
    /// the first within it.
    pub fn overlap(&self, net: IpNet) -> Option<(IpNet, &Reserve)> {
        let net = net.trunc();
        let lengths = self.lengths[family(net.addr())].range(..=net.prefix_len()).rev();
        let around = lengths.filter_map(|len| Some(IpNet::new(net.addr(), *len).ok()?.trunc()));
        let mut around = around.filter_map(|net| self.prefixes.get_key_value(&net));
        let within = || self.prefixes.range(net..).next().filter(|(other, _)| net.contains(*other));
        around.next().or_else(within).map(|(net, why)| (*net, why))
    }

    /// The same for an address.
    pub fn has(&self, ip: IpAddr) -> Option<(IpNet, &Reserve)> {
        self.overlap(ip.into())
    }
}

fn family(ip: IpAddr) -> usize {
    usize::from(ip.is_ipv6())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn what_no_host_has() {
        for (text, refused) in [
            ("10.1.0.0/24", false),
            ("172.24.4.10/32", false),
            ("2001:db8::/64", false),
            ("fd00::1/128", false),
            ("64:ff9a::/64", true),
            ("0.0.0.0/0", true),
            ("0.1.2.3/32", true),
            ("126.0.0.0/7", true),
            ("127.0.0.0/8", true),
            ("127.1.0.0/16", true),
            ("169.254.7.0/24", true),
            ("224.0.0.0/4", true),
            ("239.1.1.1/32", true),
            ("240.0.0.0/4", true),
            ("255.255.255.255/32", true),
            ("::/0", true),
            ("::1/128", true),
            ("::10.9.0.5/128", true),
            ("::ffff:10.9.0.5/128", true),
            ("::ffff:0:0/96", true),
            ("64:ff9b::a09:5/128", true),
            ("fe80::1/128", true),
            ("ff02::1/128", true),
        ] {
            assert_eq!(ReservedPrefixes::martians().overlap(net(text)).is_some(), refused, "{text}");
        }
        let told = |text: &str| ReservedPrefixes::martians().overlap(net(text)).unwrap().1.to_string();
        assert!(told("::ffff:10.9.0.5/128").contains("IPv4-mapped"));
        assert!(told("64:ff9b::1/128").contains("NAT64"));
    }

    #[test]
    fn the_most_telling_reason_is_told() {
        let mut reserved = ReservedPrefixes::default();
        reserved.insert(net("10.10.0.0/24"), Reserve::Connected("eth0".into()));
        reserved.insert(net("10.10.0.1/24"), Reserve::Option);
        reserved.insert(net("10.10.0.1/32"), Reserve::Tunnel);
        reserved.insert(net("10.10.0.1/32"), Reserve::Own("eth0".into()));
        let told = |text: &str| reserved.overlap(net(text)).map(|(net, why)| format!("{net}: {why}"));
        assert_eq!(told("10.10.0.1/32").unwrap(), "10.10.0.1/32: this node's own address on eth0");
        assert_eq!(
            told("10.10.0.2/32").unwrap(),
            "10.10.0.0/24: the network that this node is connected to on eth0"
        );
        assert_eq!(
            told("10.0.0.0/8").unwrap(),
            "10.10.0.0/24: the network that this node is connected to on eth0"
        );
        assert_eq!(told("10.11.0.0/24"), None);
        assert_eq!(told("10.9.0.0/24"), None);
    }

    proptest! {
        #[test]
        fn it_is_overlap_and_nothing_else(
            all in proptest::collection::vec((0u8..4, 0u8..4, 8u8..=32), 0..6),
            (a, b, len) in (0u8..4, 0u8..4, 0u8..=32),
        ) {
            let make = |(a, b, len): (u8, u8, u8)| IpNet::new([10, a, 0, b].into(), len).unwrap().trunc();
            let mut reserved = ReservedPrefixes::default();
            all.iter().for_each(|one| reserved.insert(make(*one), Reserve::Option));
            let asked = make((a, b, len));
            let expected = all.iter().map(|one| make(*one)).any(|net| net.contains(&asked) || asked.contains(&net));
            prop_assert_eq!(reserved.overlap(asked).is_some(), expected);
        }
    }
}
