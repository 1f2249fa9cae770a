//! The neighbour table of a network's namespace: which Ethernet address the network has for an address.
//!
//! The agent opens a netlink socket in the namespace and passes it on. It answers for that namespace whoever holds it, and a process
//! without privileges can read through it and change nothing. The kernel answers while the question is being sent.
//!
//! One request and its answer need so little of netlink that they are written out here: the process that parses what VMs send links
//! as little as it can.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::identity::MacAddr;

/// `NLMSG_ERROR`.
const ERROR: u16 = 2;
/// `RTM_NEWNEIGH`, which answers `RTM_GETNEIGH`.
const NEW: u16 = 28;
/// `RTM_GETNEIGH`.
const GET: u16 = 30;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `NDA_DST`: the address.
const DESTINATION: u16 = 1;
/// `NDA_LLADDR`: the Ethernet address.
const LINK_ADDRESS: u16 = 2;
/// Size of a message's header, and of the neighbour's in it.
const HEADER: usize = 16;
const NEIGHBOUR: usize = 12;
/// `ENOENT`: the table has no such neighbour.
const NO_ENTRY: i32 = 2;
/// Room for an answer.
const ANSWER: usize = 4 << 10;
/// How long an answer may take, which is there at once.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The neighbour table of one namespace.
#[derive(Debug)]
pub(crate) struct Neighbours {
    socket: OwnedFd,
    /// The index of the namespace's device.
    device: u32,
    sequence: Mutex<u32>,
}

impl Neighbours {
    /// The table behind a netlink socket.
    pub(crate) fn new(socket: OwnedFd, device: u32) -> Self {
        Neighbours { socket, device, sequence: Mutex::default() }
    }

    /// The Ethernet address of a neighbour; `None` if the network has none for it.
    pub(crate) fn mac(&self, address: IpAddr) -> io::Result<Option<MacAddr>> {
        let mut sequence = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = [0; ANSWER];
        // A process that had the socket before may have left an answer.
        while matches!(recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT), Ok((length, _)) if length > 0)
        {
        }
        *sequence = sequence.wrapping_add(1);
        send(&self.socket, &request(address.to_canonical(), self.device, *sequence), SendFlags::empty())?;
        loop {
            let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
            if poll(&mut ready, Some(&PATIENCE))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let (length, _) = recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
            if let Some(answer) = answer(buffer.get(..length).unwrap_or_default(), *sequence) {
                return answer;
            }
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// The question for one neighbour.
fn request(address: IpAddr, device: u32, sequence: u32) -> Vec<u8> {
    let (family, octets) = match address {
        IpAddr::V4(ip) => (2u8, ip.octets().to_vec()),
        IpAddr::V6(ip) => (10u8, ip.octets().to_vec()),
    };
    let attribute = 4 + octets.len();
    let length = HEADER + NEIGHBOUR + attribute;
    let mut bytes = Vec::with_capacity(length);
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(GET.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend([family, 0, 0, 0]);
    bytes.extend(device.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend((attribute as u16).to_ne_bytes());
    bytes.extend(DESTINATION.to_ne_bytes());
    bytes.extend(octets);
    bytes
}

/// Reads an answer; `None` if it is one to another question.
fn answer(bytes: &[u8], sequence: u32) -> Option<io::Result<Option<MacAddr>>> {
    let half = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let body = bytes.get(..word(0)? as usize)?.get(HEADER..)?;
    if word(8)? != sequence {
        return None;
    }
    match half(4)? {
        ERROR => {
            let code = i32::from_ne_bytes(body.get(..4)?.try_into().ok()?).wrapping_neg();
            Some(if code == NO_ENTRY { Ok(None) } else { Err(io::Error::from_raw_os_error(code)) })
        }
        NEW => Some(Ok(link_address(body.get(NEIGHBOUR..)?))),
        _ => None,
    }
}

fn link_address(mut attributes: &[u8]) -> Option<MacAddr> {
    loop {
        let half = |at: usize| Some(u16::from_ne_bytes(attributes.get(at..at + 2)?.try_into().ok()?));
        let (length, kind) = (usize::from(half(0)?), half(2)?);
        let value = attributes.get(4..length)?;
        if kind == LINK_ADDRESS {
            return value.try_into().ok().map(MacAddr);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, BorrowedFd};

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, socketpair};

    use super::*;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 5]);

    fn neighbour(sequence: u32, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = vec![0; NEIGHBOUR];
        for (kind, value) in attributes {
            body.extend((4 + value.len() as u16).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(*value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        message(NEW, sequence, &body)
    }

    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER as u32 + body.len() as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn answers_are_read_whatever_they_are() {
        let full = neighbour(7, &[(DESTINATION, &[10, 0, 1, 5]), (LINK_ADDRESS, &MAC.0)]);
        assert_eq!(answer(&full, 7).unwrap().unwrap(), Some(MAC));
        assert!(answer(&full, 8).is_none(), "another question's");
        // An entry that the kernel is still looking for has no Ethernet address.
        let pending = neighbour(7, &[(DESTINATION, &[10, 0, 1, 5])]);
        assert_eq!(answer(&pending, 7).unwrap().unwrap(), None);
        let odd = neighbour(7, &[(LINK_ADDRESS, &[1, 2, 3])]);
        assert_eq!(answer(&odd, 7).unwrap().unwrap(), None);
        let none = message(ERROR, 7, &(-NO_ENTRY).to_ne_bytes());
        assert_eq!(answer(&none, 7).unwrap().unwrap(), None);
        let refused = message(ERROR, 7, &(-1i32).to_ne_bytes());
        assert_eq!(answer(&refused, 7).unwrap().unwrap_err().raw_os_error(), Some(1));
        for end in 0..full.len() {
            let _ = answer(&full[..end], 7);
            let _ = link_address(&full[..end]);
        }
        let _ = answer(&[0xff; 64], u32::MAX);
    }

    /// The kernel's part in a conversation.
    fn reply(kernel: BorrowedFd<'_>, with: impl Fn(u32, &[u8]) -> Vec<Vec<u8>>) {
        let mut buffer = [0; ANSWER];
        let (length, _) = recv(kernel, &mut buffer[..], RecvFlags::empty()).unwrap();
        let sequence = u32::from_ne_bytes(buffer[8..12].try_into().unwrap());
        for answer in with(sequence, &buffer[..length]) {
            send(kernel, &answer, SendFlags::empty()).unwrap();
        }
    }

    #[test]
    fn an_answer_that_was_left_over_is_no_answer() {
        let flags = SocketFlags::CLOEXEC;
        let (ours, kernel) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        // The first question of a process has the number 1, whichever process it is.
        send(&kernel, &neighbour(1, &[(LINK_ADDRESS, &[9; 6])]), SendFlags::empty()).unwrap();
        let table = Neighbours::new(ours, 3);
        let answering = std::thread::spawn(move || {
            reply(kernel.as_fd(), |sequence, request| {
                assert_eq!(request[HEADER + 4..HEADER + 8], 3u32.to_ne_bytes(), "the device");
                vec![neighbour(sequence + 1, &[]), neighbour(sequence, &[(LINK_ADDRESS, &MAC.0)])]
            });
        });
        assert_eq!(table.mac("10.0.1.5".parse().unwrap()).unwrap(), Some(MAC));
        answering.join().unwrap();
        assert!(table.mac("10.0.1.5".parse().unwrap()).is_err(), "the other end is closed");
    }

    #[test]
    fn the_kernel_understands_the_question() {
        let (netlink, route) = (AddressFamily::NETLINK, None);
        let socket = socket_with(netlink, SocketType::RAW, SocketFlags::CLOEXEC, route).unwrap();
        // The loopback device has no neighbours, and another one is not there.
        let table = Neighbours::new(socket, 1);
        for address in ["192.0.2.1", "fe80::1"] {
            assert_eq!(table.mac(address.parse().unwrap()).unwrap(), None, "{address}");
        }
        let nowhere = Neighbours::new(table.socket.try_clone().unwrap(), i32::MAX as u32);
        assert!(nowhere.mac("192.0.2.1".parse().unwrap()).is_err());
    }
}
