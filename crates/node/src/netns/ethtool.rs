//! Checksum offload of devices, over generic netlink: the `ethtool` family, which the message library lacks.

use std::io;

use rtnetlink::packet_core::{NLM_F_ACK, NLM_F_REQUEST, NLMSG_ERROR};
use rtnetlink::sys::protocols::NETLINK_GENERIC;
use rtnetlink::sys::{Socket, SocketAddr};

use crate::netlink::{attributes, messages};

/// The family of generic netlink that tells of families.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const FEATURES_GET: u8 = 11;
const FEATURES_SET: u8 = 12;
const FEATURES_HEADER: u16 = 1;
const HEADER_DEV_NAME: u16 = 2;
const FEATURES_WANTED: u16 = 3;
const FEATURES_ACTIVE: u16 = 4;
const BITSET_BITS: u16 = 3;
const BITSET_BIT: u16 = 1;
const BIT_NAME: u16 = 2;
/// The flag of attributes that hold others.
const NESTED: u16 = 0x8000;
/// The header of generic netlink: command, version, two bytes of nothing.
const HEADER: usize = 4;
/// The feature by which a veth leaves checksums unfilled, in ethtool's words.
const CHECKSUM: &str = "tx-checksum-ip-generic";
/// Room for an answer about one device.
const ROOM: usize = 32 << 10;

/// A socket to the `ethtool` family in one namespace.
#[derive(Debug)]
pub(super) struct Ethtool {
    socket: Socket,
    family: u16,
    sequence: u32,
}

impl Ethtool {
    /// Opens one in the namespace of the calling thread. Kernels before 5.6 have none.
    pub(super) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // The kernel has answered when the sending ends.
        socket.set_non_blocking(true)?;
        let mut ethtool = Ethtool { socket, family: CONTROL, sequence: 0 };
        let body = attribute(FAMILY_NAME, b"ethtool\0");
        let answer = ethtool.ask(GET_FAMILY, &body)?;
        let family = attributes(&answer).find(|(kind, _)| *kind == FAMILY_ID);
        let family = family.and_then(|(_, value)| Some(u16::from_ne_bytes(value.try_into().ok()?)));
        ethtool.family = family.ok_or_else(|| io::Error::other("the kernel has no ethtool over netlink"))?;
        Ok(ethtool)
    }

    /// Whether a device leaves checksums to others.
    pub(super) fn offloads_checksums(&mut self, dev: &str) -> io::Result<bool> {
        let answer = self.ask(FEATURES_GET, &header(dev))?;
        let within = |bytes: Vec<u8>, wanted: u16| -> Vec<Vec<u8>> {
            let found = attributes(&bytes).filter(|(kind, _)| *kind == wanted);
            found.map(|(_, value)| value.to_vec()).collect()
        };
        let bits = within(answer, FEATURES_ACTIVE).into_iter().flat_map(|active| within(active, BITSET_BITS));
        let bits = bits.flat_map(|bits| within(bits, BITSET_BIT)).flat_map(|bit| within(bit, BIT_NAME));
        Ok(bits.into_iter().any(|name| name.strip_suffix(b"\0") == Some(CHECKSUM.as_bytes())))
    }

    /// Has a device fill in checksums itself.
    pub(super) fn fill_checksums(&mut self, dev: &str) -> io::Result<()> {
        // A bit with its name and without a value is one to be cleared.
        let bit = attribute(BITSET_BIT | NESTED, &attribute(BIT_NAME, format!("{CHECKSUM}\0").as_bytes()));
        let wanted = attribute(FEATURES_WANTED | NESTED, &attribute(BITSET_BITS | NESTED, &bit));
        let body = [header(dev), wanted].concat();
        self.ask(FEATURES_SET, &body).map(drop)
    }

    /// Sends a request; returns the attributes of its answer, if it has one besides the acknowledgement.
    fn ask(&mut self, command: u8, body: &[u8]) -> io::Result<Vec<u8>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut bytes = Vec::with_capacity(16 + HEADER + body.len());
        bytes.extend(u32::try_from(16 + HEADER + body.len()).unwrap_or(u32::MAX).to_ne_bytes());
        bytes.extend(self.family.to_ne_bytes());
        bytes.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
        bytes.extend(self.sequence.to_ne_bytes());
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend([command, 1, 0, 0]);
        bytes.extend(body);
        self.socket.send(&bytes, 0)?;
        let (mut answer, mut room) = (Vec::new(), vec![0; ROOM]);
        loop {
            let length = self.socket.recv(&mut &mut room[..], 0)?;
            for raw in messages(room.get(..length).unwrap_or_default()) {
                if raw.sequence != self.sequence {
                    continue;
                }
                if raw.kind != NLMSG_ERROR {
                    answer = raw.body.get(HEADER..).unwrap_or_default().to_vec();
                    continue;
                }
                let code =
                    raw.body.get(..4).and_then(|code| code.try_into().ok()).map_or(0, i32::from_ne_bytes);
                return match code {
                    0 => Ok(answer),
                    code => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
                };
            }
        }
    }
}

fn header(dev: &str) -> Vec<u8> {
    attribute(FEATURES_HEADER | NESTED, &attribute(HEADER_DEV_NAME, format!("{dev}\0").as_bytes()))
}

/// An attribute with its padding.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = value.len() + 4;
    let mut bytes = Vec::with_capacity(length.next_multiple_of(4));
    bytes.extend(u16::try_from(length).unwrap_or(u16::MAX).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length.next_multiple_of(4), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_read_back() {
        let bytes = [attribute(HEADER_DEV_NAME, b"tap0\0"), attribute(BIT_NAME, b"x")].concat();
        assert_eq!(bytes.len(), 12 + 8);
        let read: Vec<(u16, &[u8])> = attributes(&bytes).collect();
        assert_eq!(read, [(HEADER_DEV_NAME, &b"tap0\0"[..]), (BIT_NAME, &b"x"[..])]);
        let nested = attribute(FEATURES_HEADER | NESTED, &bytes);
        assert_eq!(attributes(&nested).next().map(|(kind, _)| kind), Some(FEATURES_HEADER));
    }
}
