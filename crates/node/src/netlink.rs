//! Rtnetlink sockets, for every target that changes or follows the kernel: a batch of changes, a dump, a stream of notifications.
//!
//! The messages are those of `netlink-packet-route`. The sockets are used directly and not through `rtnetlink`'s handle, for
//! two reasons. The kernel carries out a request while it is being sent, so a hundred changes cost two system calls and no
//! task switch. And it queues the notifications of a change before it acknowledges it: whoever reads the notification socket
//! dry after a batch has seen what the batch did.

use std::fmt;
use std::io;
use std::task::{Context, Poll};

use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR,
    NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::sys::{AsyncSocket, Socket, SocketAddr, TokioSocket, protocols::NETLINK_ROUTE};

/// The header before each message.
const HEADER: usize = 16;
/// Maximum number of requests in one write. If all fail, the kernel counts a kilobyte for each reply, and drops replies that do not fit
/// into the socket's queue.
const CHUNK: usize = 64;
/// Room for the largest datagram: the kernel fills at most 32 KiB in a dump.
const DATAGRAM: usize = 128 << 10;
/// So often a dump is repeated that was disturbed by a change.
const REPEATS: usize = 10;

/// `RTM_NEWNETCONF`, which the message library does not know.
pub(crate) const NEW_NETCONF: u16 = 80;
/// `RTM_GETNETCONF`.
pub(crate) const GET_NETCONF: u16 = 82;

/// One message as it came: its type and its body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw<'a> {
    /// The message's type.
    pub(crate) kind: u16,
    /// Its flags.
    pub(crate) flags: u16,
    /// The sequence number of the request.
    pub(crate) sequence: u32,
    /// The bytes after the header.
    pub(crate) body: &'a [u8],
}

/// Cuts a datagram into messages. What is cut short ends the walk.
pub(crate) fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Raw<'_>> {
    std::iter::from_fn(move || {
        let word = |at: usize| Some(u32::from_ne_bytes(datagram.get(at..at + 4)?.try_into().ok()?));
        let half = |at: usize| Some(u16::from_ne_bytes(datagram.get(at..at + 2)?.try_into().ok()?));
        let length = word(0)? as usize;
        let (kind, flags, sequence) = (half(4)?, half(6)?, word(8)?);
        let body = datagram.get(HEADER..length)?;
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Raw { kind, flags, sequence, body })
    })
}

/// A change to be asked for.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The message.
    pub(crate) message: RouteNetlinkMessage,
    /// `NLM_F_CREATE` and its kin.
    pub(crate) flags: u16,
}

/// The reason why the kernel refused a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{}", io::Error::from_raw_os_error(*errno), if text.is_empty() { "" } else { ": " }, text)]
pub struct Refused {
    /// The error's number.
    pub errno: i32,
    /// The kernel's own explanation, where it has one.
    pub text: String,
}

/// A socket for requests.
#[derive(Debug)]
pub(crate) struct Requests {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Requests {
    /// Opens one in the namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // Both are for the sake of errors only; kernels that lack them answer with less.
        let _ = socket.set_cap_ack(true);
        let _ = socket.set_ext_ack(true);
        // Without it the kernel ignores what a dump is restricted to.
        let _ = socket.set_netlink_get_strict_chk(true);
        // The kernel has done what is asked, and answered, when the sending ends. Who finds no answer would wait in vain.
        socket.set_non_blocking(true)?;
        Ok(Requests { socket, sequence: 0, buffer: vec![0; DATAGRAM] })
    }

    /// Asks for changes, in order, and says what became of each.
    pub(crate) fn batch(&mut self, requests: Vec<Request>) -> io::Result<Vec<Result<(), Refused>>> {
        let mut results = Vec::with_capacity(requests.len());
        let mut bytes: Vec<u8> = Vec::new();
        let (mut first, mut asked) = (self.sequence.wrapping_add(1), 0);
        let mut requests = requests.into_iter().peekable();
        while let Some(Request { message, flags }) = requests.next() {
            asked += 1;
            // The kernel answers a request that fails, asked or not; that the last one is answered tells that all are done.
            let last = asked == CHUNK || requests.peek().is_none();
            let ack = if last { NLM_F_ACK } else { 0 };
            self.append(&mut bytes, message, NLM_F_REQUEST | ack | flags);
            if last {
                self.send(&bytes)?;
                results.extend(self.answers(first, asked)?);
                bytes.clear();
                (first, asked) = (self.sequence.wrapping_add(1), 0);
            }
        }
        Ok(results)
    }

    /// Waits until who is changing a device has done so, with all that follows from it. The kernel makes one change at a time, and
    /// looks for the device only in its turn: so one is asked for on a device that cannot be.
    pub(crate) fn wait_for_others(&mut self) -> io::Result<()> {
        let mut nobody = LinkMessage::default();
        nobody.header.index = i32::MAX.cast_unsigned();
        let request = Request { message: RouteNetlinkMessage::SetLink(nobody), flags: 0 };
        // It is refused: for lack of the device, or of the right to change any, and then there is no turn to be had.
        self.batch(vec![request]).map(drop)
    }

    /// Asks for everything of a kind; `each` gets every message. Repeated from the start (`begin`) while changes disturb it.
    pub(crate) fn dump(
        &mut self,
        message: RouteNetlinkMessage,
        mut begin: impl FnMut(),
        mut each: impl FnMut(Raw<'_>),
    ) -> io::Result<()> {
        for _ in 0..REPEATS {
            begin();
            let mut bytes = Vec::new();
            self.append(&mut bytes, message.clone(), NLM_F_REQUEST | NLM_F_DUMP);
            if !self.ask(&bytes, &mut each)? {
                return Ok(());
            }
        }
        Err(io::Error::new(io::ErrorKind::Interrupted, "the kernel's tables change too fast to be read"))
    }

    /// Asks for the switches of every device in a family. Its message is not one that the library knows.
    pub(crate) fn dump_netconf(&mut self, family: u8, mut each: impl FnMut(Raw<'_>)) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut bytes = Vec::with_capacity(HEADER + 4);
        bytes.extend((HEADER as u32 + 4).to_ne_bytes());
        bytes.extend(GET_NETCONF.to_ne_bytes());
        bytes.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
        bytes.extend(self.sequence.to_ne_bytes());
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend([family, 0, 0, 0]);
        // A disturbed dump has told at least the newest of each device, and what changes is notified.
        self.ask(&bytes, &mut each).map(|_| ())
    }

    /// Sends a request for a dump and reads it; whether it was disturbed.
    fn ask(&mut self, bytes: &[u8], each: &mut impl FnMut(Raw<'_>)) -> io::Result<bool> {
        self.send(bytes)?;
        let (sequence, mut disturbed) = (self.sequence, false);
        loop {
            let length = self.socket.recv(&mut &mut self.buffer[..], 0)?;
            for raw in messages(self.buffer.get(..length).unwrap_or_default()) {
                if raw.sequence != sequence {
                    continue;
                }
                disturbed |= raw.flags & NLM_F_DUMP_INTR != 0;
                match raw.kind {
                    NLMSG_DONE => return Ok(disturbed),
                    NLMSG_ERROR => {
                        if let Err(refused) = acknowledged(raw) {
                            return Err(io::Error::from_raw_os_error(refused.errno));
                        }
                    }
                    _ => each(raw),
                }
            }
        }
    }

    fn append(&mut self, bytes: &mut Vec<u8>, message: RouteNetlinkMessage, flags: u16) {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let at = bytes.len();
        bytes.resize(at + message.buffer_len(), 0);
        message.serialize(&mut bytes[at..]);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.send(bytes, 0).map(|_| ())
    }

    /// The outcome of requests, of which the last one is acknowledged.
    fn answers(&mut self, first: u32, count: usize) -> io::Result<Vec<Result<(), Refused>>> {
        let mut results: Vec<Result<(), Refused>> = vec![Ok(()); count];
        loop {
            let length = match self.socket.recv(&mut &mut self.buffer[..], 0) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::other("an acknowledgement was lost"));
                }
                received => received?,
            };
            for raw in messages(self.buffer.get(..length).unwrap_or_default()) {
                let at = raw.sequence.wrapping_sub(first) as usize;
                if let (NLMSG_ERROR, Some(result)) = (raw.kind, results.get_mut(at)) {
                    *result = acknowledged(raw);
                    if at + 1 == count {
                        return Ok(results);
                    }
                }
            }
        }
    }
}

/// Reads an acknowledgement: an error number, the header of the request, and, if flagged, a text.
fn acknowledged(raw: Raw<'_>) -> Result<(), Refused> {
    let code = raw.body.get(..4).and_then(|b| b.try_into().ok()).map_or(0, i32::from_ne_bytes);
    if code == 0 {
        return Ok(());
    }
    let text = if raw.flags & NLM_F_ACK_TLVS != 0 { explanation(raw.body) } else { None };
    Err(Refused { errno: code.wrapping_neg(), text: text.unwrap_or_default() })
}

/// The text in an acknowledgement (`NLMSGERR_ATTR_MSG`).
fn explanation(body: &[u8]) -> Option<String> {
    attributes(body.get(4 + HEADER..)?).find(|(kind, _)| *kind == 1).map(|(_, value)| {
        let text = value.split(|b| *b == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    })
}

/// Cuts a body into attributes.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let half = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let (length, kind) = (usize::from(half(0)?), half(2)?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        // The two highest bits are flags.
        Some((kind & 0x3fff, value))
    })
}

/// A socket for notifications.
pub(crate) struct Notifications {
    socket: TokioSocket,
    buffer: Vec<u8>,
}

/// The groups that tell of links, neighbours, addresses, routes, rules and switches, by their numbers in `rtnetlink.h`.
const GROUPS: [u32; 10] = [1, 3, 5, 7, 8, 9, 11, 19, 24, 25];

impl Notifications {
    /// Opens one in the namespace of the calling thread, which must be in a tokio runtime.
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
        socket.socket_mut().bind_auto()?;
        // A hint: the kernel caps it, and what does not fit is read again.
        let _ = socket.socket_ref().set_rx_buf_sz(4u32 << 20);
        for group in GROUPS {
            socket.socket_ref().add_membership(group)?;
        }
        Ok(Notifications { socket, buffer: vec![0; DATAGRAM] })
    }

    /// Gives every message that has come; whether some were lost because too many came.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(Raw<'_>)) -> io::Result<bool> {
        let mut lost = false;
        loop {
            let received = self.socket.socket_ref().recv(&mut &mut self.buffer[..], 0);
            match taken(received, &self.buffer, &mut each)? {
                Taken::Some => {}
                Taken::Lost => lost = true,
                Taken::Nothing => return Ok(lost),
            }
        }
    }

    /// The same, and ready only if anything came: whoever polls is woken then.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut each: impl FnMut(Raw<'_>),
    ) -> Poll<io::Result<bool>> {
        let mut room = &mut self.buffer[..];
        let received = match self.socket.poll_recv(cx, &mut room) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(result) => {
                let left = room.len();
                result.map(|()| self.buffer.len() - left)
            }
        };
        let first = match taken(received, &self.buffer, &mut each) {
            Ok(first) => first,
            Err(error) => return Poll::Ready(Err(error)),
        };
        Poll::Ready(self.drain(each).map(|lost| lost || matches!(first, Taken::Lost)))
    }
}

impl fmt::Debug for Notifications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notifications")
    }
}

enum Taken {
    Some,
    Lost,
    Nothing,
}

fn taken(received: io::Result<usize>, buffer: &[u8], each: &mut impl FnMut(Raw<'_>)) -> io::Result<Taken> {
    match received {
        Ok(length) => {
            messages(buffer.get(..length).unwrap_or_default()).for_each(each);
            Ok(Taken::Some)
        }
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(Taken::Nothing),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(Taken::Some),
        // There was no room left in the socket's queue.
        Err(e) if e.raw_os_error() == Some(ENOBUFS) => Ok(Taken::Lost),
        Err(e) => Err(e),
    }
}

const ENOBUFS: i32 = 105;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cut_short_ends_the_walk() {
        let mut datagram = Vec::new();
        for length in [20u32, 17] {
            datagram.extend(length.to_ne_bytes());
            datagram.extend([3, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
        }
        let all: Vec<(u32, usize)> = messages(&datagram).map(|raw| (raw.sequence, raw.body.len())).collect();
        assert_eq!(all, [(7, 4), (7, 1)]);
        for end in 0..datagram.len() {
            assert!(messages(&datagram[..end]).count() <= 2);
        }
        assert_eq!(messages(&[0; 64]).count(), 0, "a length of zero");
    }

    #[test]
    fn an_acknowledgement_tells_number_and_text() {
        let mut body = (-22i32).to_ne_bytes().to_vec();
        body.extend([0; HEADER]);
        body.extend(12u16.to_ne_bytes());
        body.extend(1u16.to_ne_bytes());
        body.extend(b"bad gw\0\0");
        let raw = Raw { kind: NLMSG_ERROR, flags: NLM_F_ACK_TLVS, sequence: 1, body: &body };
        let refused = acknowledged(raw).unwrap_err();
        assert_eq!(refused, Refused { errno: 22, text: "bad gw".into() });
        assert_eq!(refused.to_string(), "Invalid argument (os error 22): bad gw");
        assert_eq!(acknowledged(Raw { body: &[0; 4], ..raw }), Ok(()));
    }
}
