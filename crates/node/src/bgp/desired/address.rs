//! Which addresses may be exposed at all, and which count as globally routed.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::{IpAddr, Ipv6Addr};

/// Whether an address means anything outside of its link.
pub fn exposable(ip: IpAddr) -> bool {
    let local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(local || ip.is_loopback() || ip.is_unspecified() || ip.is_multicast())
}

/// Prefixes within 2000::/3 that are not routed globally, by their first 32 bits and a length: Teredo, ORCHID, benchmarks,
/// documentation, 6to4.
const SPECIAL: [(u32, u32); 6] = [
    (0x2001_0000, 32),
    (0x2001_0010, 28),
    (0x2001_0002, 32),
    (0x2001_0db8, 32),
    (0x2002_0000, 16),
    (0x3fff_0000, 20),
];

/// Whether an IPv6 address is globally routed.
pub fn is_gua(ip: Ipv6Addr) -> bool {
    let high = u32::try_from(ip.to_bits() >> 96).unwrap_or(0);
    high >> 29 == 1 && !SPECIAL.iter().any(|(prefix, len)| (high ^ prefix) >> (32 - len) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globally_routed() {
        for (text, gua) in [
            ("2620:0:860::", true),
            ("2a00:1450:4001::1", true),
            ("2001:200::", true),
            ("2001:db8::1", false),
            ("2001::1", false),
            ("2001:2::1", false),
            ("2001:10::1", false),
            ("2002:c000:204::1", false),
            ("3fff:1::1", false),
            ("fd00:1::", false),
            ("fe80::1", false),
            ("::ffff:192.0.2.1", false),
            ("::1", false),
            ("4000::", false),
        ] {
            assert_eq!(is_gua(text.parse().unwrap()), gua, "{text}");
        }
    }

    #[test]
    fn what_means_nothing_outside_is_not_exposed() {
        for (text, may) in [
            ("172.24.4.10", true),
            ("fd00::1", true),
            ("169.254.1.1", false),
            ("127.0.0.1", false),
            ("0.0.0.0", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("fe80::1", false),
            ("ff02::1", false),
            ("::", false),
        ] {
            assert_eq!(exposable(text.parse().unwrap()), may, "{text}");
        }
    }
}
