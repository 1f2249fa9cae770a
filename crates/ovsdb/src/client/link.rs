//! An open connection: what has come and is not complete yet, what is to go and has not gone yet.

use std::collections::VecDeque;
use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use super::connect::Stream;
use crate::wire::frame::FrameSplitter;

/// An open connection.
pub(super) struct Up {
    reader: ReadHalf<Stream>,
    writer: WriteHalf<Stream>,
    pub(super) splitter: FrameSplitter,
    out: VecDeque<Vec<u8>>,
    /// Bytes of the first chunk that are gone already.
    written: usize,
    /// Bytes that wait.
    pub(super) backlog: usize,
    /// Written, but perhaps still in a buffer of TLS.
    unflushed: bool,
    /// Whether anything has come.
    pub(super) heard: bool,
    /// Whether it is TCP without TLS.
    pub(super) plain: bool,
}

/// Texts smaller than this share a chunk, and with it a system call.
const CHUNK: usize = 1 << 16;
/// The least room for a read.
const READ: usize = 1 << 16;
/// What a connection has done.
pub(super) enum Transfer {
    /// So many bytes came; none at the end of the stream.
    Read(io::Result<usize>),
    /// So many bytes went.
    Wrote(io::Result<usize>),
}

impl Up {
    pub(super) fn new(stream: Stream, limit: usize) -> Self {
        let plain = matches!(stream, Stream::Tcp(_));
        let (reader, writer) = tokio::io::split(stream);
        Self {
            reader,
            writer,
            splitter: FrameSplitter::new(limit),
            out: VecDeque::new(),
            written: 0,
            backlog: 0,
            unflushed: false,
            heard: false,
            plain,
        }
    }

    /// Puts a text behind what is to go.
    pub(super) fn push(&mut self, text: String) {
        self.backlog += text.len();
        match self.out.back_mut() {
            Some(chunk) if chunk.len() + text.len() <= CHUNK => chunk.extend_from_slice(text.as_bytes()),
            _ => self.out.push_back(text.into_bytes()),
        }
    }

    /// So many bytes are gone.
    pub(super) fn wrote(&mut self, count: usize) {
        self.unflushed = count > 0;
        self.backlog -= count;
        self.written += count;
        if self.out.front().is_some_and(|chunk| chunk.len() == self.written) {
            self.out.pop_front();
            self.written = 0;
        }
    }

    /// Reads or writes, whichever can be done first.
    pub(super) async fn transfer(&mut self) -> Transfer {
        let buffer = self.splitter.read_buffer();
        if buffer.capacity() - buffer.len() < READ / 4 {
            buffer.reserve(READ);
        }
        let write = async {
            match self.out.front() {
                Some(chunk) => self.writer.write(&chunk[self.written..]).await,
                None => self.writer.flush().await.map(|()| 0),
            }
        };
        tokio::select! {
            read = self.reader.read_buf(buffer) => Transfer::Read(read),
            wrote = write, if self.backlog > 0 || self.unflushed => Transfer::Wrote(wrote),
        }
    }
}
