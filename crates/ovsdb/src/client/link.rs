//! An open connection: received bytes of an incomplete message, and bytes that are still to be sent.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncReadExt, AsyncWrite};

use super::connect::Stream;
use crate::wire::frame::FrameSplitter;

/// An open connection.
pub(super) struct Up {
    stream: Stream,
    pub(super) splitter: FrameSplitter,
    out: VecDeque<Chunk>,
    /// The number of bytes of the first chunk that are already sent.
    written: usize,
    /// The number of bytes that wait to be sent.
    pub(super) backlog: usize,
    /// The number of these bytes that do not belong to commits.
    pub(super) others: usize,
    /// Whether written bytes may still be in a buffer of TLS.
    unflushed: bool,
    /// Whether any byte has arrived.
    pub(super) heard: bool,
    /// Whether the connection is TCP without TLS.
    pub(super) plain: bool,
}

/// The party that decides how many bytes wait to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// Commits. Committers wait for room in the backlog.
    Commit,
    /// The session and the server: requests of the handshake, answers to the server's requests.
    Other,
}

/// Consecutive messages of one kind.
struct Chunk {
    bytes: Vec<u8>,
    traffic: Traffic,
}

/// Messages smaller than this share a chunk, and with it a system call.
const CHUNK: usize = 1 << 16;
/// The minimum room for a read.
const READ: usize = 1 << 16;
/// An event of a connection.
pub(super) enum Transfer {
    /// This number of bytes arrived; zero at the end of the stream.
    Read(io::Result<usize>),
    /// This number of bytes was sent.
    Wrote(io::Result<usize>),
}

impl Up {
    pub(super) fn new(stream: Stream, limit: usize) -> Self {
        let plain = matches!(stream, Stream::Tcp(_));
        Self {
            stream,
            splitter: FrameSplitter::new(limit),
            out: VecDeque::new(),
            written: 0,
            backlog: 0,
            others: 0,
            unflushed: false,
            heard: false,
            plain,
        }
    }

    /// Appends a message to the bytes to be sent.
    pub(super) fn push(&mut self, text: String, traffic: Traffic) {
        self.backlog += text.len();
        if traffic == Traffic::Other {
            self.others += text.len();
        }
        match self.out.back_mut() {
            Some(chunk) if chunk.traffic == traffic && chunk.bytes.len() + text.len() <= CHUNK => {
                chunk.bytes.extend_from_slice(text.as_bytes());
            }
            _ => self.out.push_back(Chunk { bytes: text.into_bytes(), traffic }),
        }
    }

    /// Removes the sent bytes.
    pub(super) fn wrote(&mut self, count: usize) {
        self.unflushed = count > 0;
        self.backlog -= count;
        self.written += count;
        let Some(chunk) = self.out.front() else { return };
        if chunk.traffic == Traffic::Other {
            self.others -= count;
        }
        if chunk.bytes.len() == self.written {
            self.out.pop_front();
            self.written = 0;
        }
    }

    /// Writes, or reads if there is nothing to write or the socket is full. So a server that sends without end still receives
    /// our messages, and we read from a server that accepts nothing until it does.
    pub(super) fn poll_transfer(&mut self, cx: &mut Context<'_>) -> Poll<Transfer> {
        if (self.backlog > 0 || self.unflushed)
            && let Poll::Ready(wrote) = self.poll_write(cx)
        {
            return Poll::Ready(Transfer::Wrote(wrote));
        }
        let buffer = self.splitter.read_buffer();
        if buffer.capacity() - buffer.len() < READ / 4 {
            buffer.reserve(READ);
        }
        pin!(self.stream.read_buf(buffer)).poll(cx).map(Transfer::Read)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let stream = Pin::new(&mut self.stream);
        match self.out.front() {
            Some(chunk) => stream.poll_write(cx, &chunk.bytes[self.written..]),
            None => Poll::Ready(ready!(stream.poll_flush(cx)).map(|()| 0)),
        }
    }
}
