//! The head of a frame, and ICMPv6 with its checksum.

use std::net::Ipv6Addr;

use ovn::MacAddr;

const IPV6: u16 = 0x86dd;
const ICMPV6: u8 = 58;
/// Neighbour discovery is valid only with the largest hop limit: then no router has forwarded it.
const HOP_LIMIT: u8 = 255;
/// The position of the checksum in an ICMPv6 message.
const CHECKSUM: std::ops::Range<usize> = 2..4;

/// A frame of a protocol.
pub(super) fn frame(from: MacAddr, to: MacAddr, protocol: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(14 + payload.len());
    out.extend(to.octets());
    out.extend(from.octets());
    out.extend(protocol.to_be_bytes());
    out.extend(payload);
    out
}

/// A frame with an ICMPv6 message. The function computes the checksum; the message has any bytes in its place.
pub(super) fn icmpv6(
    (from_mac, from): (MacAddr, Ipv6Addr),
    (to_mac, to): (MacAddr, Ipv6Addr),
    mut message: Vec<u8>,
) -> Vec<u8> {
    if let Some(place) = message.get_mut(CHECKSUM) {
        place.fill(0);
    }
    let sum = checksum(from, to, &message);
    if let Some(place) = message.get_mut(CHECKSUM) {
        place.copy_from_slice(&sum.to_be_bytes());
    }
    // Messages of neighbour discovery are a few options long.
    let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
    let mut packet = Vec::with_capacity(40 + message.len());
    packet.extend([0x60, 0, 0, 0]);
    packet.extend(length.to_be_bytes());
    packet.extend([ICMPV6, HOP_LIMIT]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(message);
    frame(from_mac, to_mac, IPV6, &packet)
}

/// The checksum of an ICMPv6 message over its pseudo header and itself.
fn checksum(from: Ipv6Addr, to: Ipv6Addr, message: &[u8]) -> u16 {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut sum = u32::from(ICMPV6) + (length >> 16) + (length & 0xffff);
    let words = |bytes: &[u8]| -> u32 {
        bytes
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)))
            .sum()
    };
    sum += words(&from.octets()) + words(&to.octets()) + words(message);
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}
