//! Gratuitous ARP.

use std::net::Ipv4Addr;

use ovn::MacAddr;

use super::ethernet::frame;

const ARP: u16 = 0x0806;
const BROADCAST: MacAddr = MacAddr([0xff; 6]);

/// The operation of an ARP packet. Guests differ in the one that they update an entry by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArpOperation {
    /// A question for the own address.
    Request,
    /// An answer to nobody's question.
    Reply,
}

/// A frame to everybody: this address is at this MAC address.
pub fn gratuitous_arp(operation: ArpOperation, mac: MacAddr, address: Ipv4Addr) -> Vec<u8> {
    let operation: u8 = match operation {
        ArpOperation::Request => 1,
        ArpOperation::Reply => 2,
    };
    let mut packet = Vec::with_capacity(28);
    // Ethernet and IPv4, with addresses of 6 and 4 bytes.
    packet.extend([0, 1, 0x08, 0x00, 6, 4, 0, operation]);
    packet.extend(mac.octets());
    packet.extend(address.octets());
    packet.extend([0; 6]);
    packet.extend(address.octets());
    frame(mac, BROADCAST, ARP, &packet)
}
