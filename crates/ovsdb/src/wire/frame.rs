//! Splits a byte stream into JSON texts.
//!
//! OVSDB has no framing: JSON texts follow one another, with or without white space between them. The splitter reads every byte
//! once, resumes where it stopped, and knows only enough JSON to find the end of a text (see `scan`). The decoder validates the
//! content.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Cow;

use thiserror::Error;

use super::scan::Scan;

/// The reason why a stream cannot be split any further. The connection is useless after this.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The peer sent something that does not begin a JSON object or array.
    #[error(
        "expected a JSON object, got byte 0x{0:02x}: the peer does not speak OVSDB (a TLS port reached as tcp:, or another program?)"
    )]
    NotJson(u8),
    /// A text is longer than the configured limit.
    #[error(
        "a message is longer than the limit of {limit} bytes; raise max_message if the database is that large"
    )]
    TooLong {
        /// The limit in force.
        limit: usize,
    },
}

/// Cuts a byte stream into complete JSON texts.
#[derive(Debug)]
pub struct FrameSplitter {
    buffer: Vec<u8>,
    /// The first byte that does not belong to a split-off message.
    start: usize,
    /// The first byte that was not scanned yet.
    scanned: usize,
    scan: Scan,
    limit: usize,
}

/// The buffer of a large load is freed once it is empty: later messages are mostly small.
const KEEP_CAPACITY: usize = 1 << 17;

impl FrameSplitter {
    /// A splitter that refuses texts longer than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, scanned: 0, scan: Scan::default(), limit }
    }

    /// Adds bytes from the peer.
    pub fn push(&mut self, bytes: &[u8]) {
        self.compact();
        self.buffer.extend_from_slice(bytes);
    }

    /// The buffer to read into directly, which saves a copy. Append to it, never change its existing bytes.
    pub fn read_buffer(&mut self) -> &mut Vec<u8> {
        self.compact();
        &mut self.buffer
    }

    /// The number of received bytes of an incomplete message.
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// The next complete JSON text, or `None` when more bytes are needed.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, FrameError> {
        if self.scan.is_outside() {
            while let Some(&byte) = self.buffer.get(self.start) {
                match byte {
                    b' ' | b'\t' | b'\r' | b'\n' => self.start += 1,
                    b'{' | b'[' => break,
                    other => return Err(FrameError::NotJson(other)),
                }
            }
            self.scanned = self.scanned.max(self.start);
        }
        match self.scan() {
            Some(end) if end - self.start <= self.limit => {
                let begin = std::mem::replace(&mut self.start, end);
                Ok(Some(&self.buffer[begin..end]))
            }
            None if self.pending() <= self.limit => Ok(None),
            _ => Err(FrameError::TooLong { limit: self.limit }),
        }
    }

    /// Like [`FrameSplitter::next_frame`], but transfers the memory of a large message, so that the decoder can free it on the way.
    pub fn take_frame(&mut self) -> Result<Option<Cow<'_, [u8]>>, FrameError> {
        let Some(length) = self.next_frame()?.map(<[u8]>::len) else { return Ok(None) };
        if length <= KEEP_CAPACITY {
            return Ok(Some(Cow::Borrowed(&self.buffer[self.start - length..self.start])));
        }
        let behind = self.buffer.split_off(self.start);
        let mut text = std::mem::replace(&mut self.buffer, behind);
        text.drain(..self.start - length);
        self.scanned -= self.start;
        self.start = 0;
        Ok(Some(Cow::Owned(text)))
    }

    /// Scans to the end of the current message; returns its end if it has arrived.
    fn scan(&mut self) -> Option<usize> {
        match self.scan.advance(&self.buffer[self.scanned..]) {
            Some(length) => {
                self.scanned += length;
                Some(self.scanned)
            }
            None => {
                self.scanned = self.buffer.len();
                None
            }
        }
    }

    /// Drops the messages that were split off, so that the buffer holds at most one incomplete message and the bytes after it.
    fn compact(&mut self) {
        if self.start == 0 {
            return;
        }
        if self.start == self.buffer.len() {
            self.buffer.clear();
            if self.buffer.capacity() > KEEP_CAPACITY {
                self.buffer = Vec::new();
            }
        } else {
            self.buffer.drain(..self.start);
        }
        self.scanned -= self.start;
        self.start = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(pieces: &[&[u8]]) -> Result<Vec<String>, FrameError> {
        let mut splitter = FrameSplitter::new(1 << 16);
        let mut texts = Vec::new();
        for piece in pieces {
            splitter.push(piece);
            while let Some(text) = splitter.next_frame()? {
                texts.push(String::from_utf8_lossy(text).into_owned());
            }
        }
        Ok(texts)
    }

    #[test]
    fn a_large_text_is_given_away_and_small_ones_are_lent() {
        let large = format!("[\"{}\"]", "x".repeat(KEEP_CAPACITY));
        let mut splitter = FrameSplitter::new(4 << 20);
        splitter.push(format!(" [1] {large} [2][").as_bytes());
        let mut taken = Vec::new();
        while let Some(text) = splitter.take_frame().unwrap() {
            taken.push((matches!(text, Cow::Owned(_)), String::from_utf8(text.into_owned()).unwrap()));
        }
        assert_eq!(taken, [(false, "[1]".into()), (true, large), (false, "[2]".into())]);
        splitter.push(b"3]");
        assert_eq!(splitter.take_frame().unwrap().as_deref(), Some(&b"[3]"[..]));
        assert_eq!(splitter.take_frame().unwrap(), None);
        assert_eq!(splitter.pending(), 0);
    }

    #[test]
    fn texts_are_cut_wherever_reads_end() {
        let stream = br#" {"a":"}\"{","b":["\\"]}{"id":1}
            [1,{"x":"]"}]"#;
        let whole = cut(&[stream]).unwrap();
        assert_eq!(whole, [r#"{"a":"}\"{","b":["\\"]}"#, r#"{"id":1}"#, r#"[1,{"x":"]"}]"#]);
        for split in 0..stream.len() {
            assert_eq!(cut(&[&stream[..split], &stream[split..]]).unwrap(), whole, "split at {split}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(cut(&bytes).unwrap(), whole);
    }

    #[test]
    fn long_texts_are_cut_wherever_reads_end() {
        let text = |n: usize| format!(r#"{{"a":"{}","b":["}}{}",{{}}]}}"#, "x".repeat(n), "]".repeat(n / 2));
        let texts: Vec<String> = [60, 90, 130, 64, 7].map(text).into();
        let stream = texts.concat();
        for split in 0..stream.len() {
            let (front, back) = stream.as_bytes().split_at(split);
            assert_eq!(cut(&[front, back]).unwrap(), texts, "split at {split}");
        }
    }

    #[test]
    fn another_protocol_is_named() {
        assert_eq!(cut(&[b"\x15\x03\x01"]), Err(FrameError::NotJson(0x15)));
        assert_eq!(cut(&[b"{}", b"HTTP/1.1 400"]), Err(FrameError::NotJson(b'H')));
    }

    #[test]
    fn the_limit_holds_for_complete_and_incomplete_texts() {
        let mut splitter = FrameSplitter::new(8);
        splitter.push(b"{\"a\":1}");
        assert!(splitter.next_frame().unwrap().is_some());
        splitter.push(b"{\"a\":1234567}");
        assert_eq!(splitter.next_frame(), Err(FrameError::TooLong { limit: 8 }));
        let mut splitter = FrameSplitter::new(8);
        splitter.push(b"{\"a\":\"aaaaaaaaaaa");
        assert_eq!(splitter.next_frame(), Err(FrameError::TooLong { limit: 8 }));
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_give_the_same_texts(
            bytes in proptest::collection::vec(prop_oneof![Just(b'{'), Just(b'}'), Just(b'"'), Just(b'\\'), Just(b'['), Just(b']'), Just(b' '), any::<u8>()], 0..600),
            size in 1usize..200,
        ) {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(cut(&[&bytes]).is_ok(), cut(&pieces).is_ok());
            if let (Ok(a), Ok(b)) = (cut(&[&bytes]), cut(&pieces)) {
                prop_assert_eq!(a, b);
            }
        }
    }
}
