//! Classes of addresses: link-local ones, and globally routed ones.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::{IpAddr, Ipv6Addr};

/// Whether an address means something on its own link only. Every IPv6 port has such an address, so it is passed over without a word.
pub fn is_of_its_link(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
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
}
