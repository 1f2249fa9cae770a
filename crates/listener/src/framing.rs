//! The boundaries of requests in a byte stream, as far as two parsers could disagree.
//!
//! hyper accepts a bare LF as the end of a line. A proxy in front may not, and then one of them sees a header, or a whole
//! request, that the other does not (request smuggling). So this module scans the bytes before hyper gets them. It passes on at
//! most one head at a time, and corrupts an ambiguous one, so that hyper answers 400 and closes the connection.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Maximum length of the remembered part of a header line; the relevant headers are shorter.
const LINE: usize = 64;
/// A byte that is invalid anywhere in a head.
const SPOILED: u8 = 0;

/// Tracks a connection from request to request.
#[derive(Debug, Default)]
pub(crate) struct Framing {
    place: Place,
    /// The beginning of the current line, in lower case.
    line: Vec<u8>,
    /// Whether the current line is longer than `line`.
    long: bool,
    /// Number of complete lines in the current head.
    lines: usize,
    /// Number of empty lines before it.
    leading: usize,
    last: u8,
    length: Option<u64>,
    chunked: bool,
    heads: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Head,
    Body(u64),
    /// In a body of unknown length, or in a corrupted head: no request follows.
    Endless,
}

impl Framing {
    /// Whether a head is partly received.
    pub(crate) fn in_head(&self) -> bool {
        self.place == Place::Head && (self.lines > 0 || !self.line.is_empty())
    }

    /// Whether the next byte begins a request.
    pub(crate) fn between_requests(&self) -> bool {
        self.place == Place::Head && !self.in_head() && self.leading == 0
    }

    /// Number of complete heads so far.
    pub(crate) fn heads(&self) -> u64 {
        self.heads
    }

    /// Whether no further request may follow on this connection.
    pub(crate) fn is_last(&self) -> bool {
        self.place == Place::Endless
    }

    /// Scans received bytes and returns how many to pass on before the next call, at least one. Corrupts an ambiguous head in
    /// place.
    pub(crate) fn feed(&mut self, bytes: &mut [u8]) -> usize {
        match &mut self.place {
            Place::Endless => bytes.len(),
            Place::Body(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= taken as u64;
                if *left == 0 {
                    self.place = Place::Head;
                }
                taken
            }
            Place::Head => self.feed_head(bytes),
        }
    }

    fn feed_head(&mut self, bytes: &mut [u8]) -> usize {
        for (at, byte) in bytes.iter_mut().enumerate() {
            let last = std::mem::replace(&mut self.last, *byte);
            if *byte != b'\n' {
                if *byte != b'\r' && self.line.len() < LINE {
                    self.line.push(byte.to_ascii_lowercase());
                } else if *byte != b'\r' {
                    self.long = true;
                }
                continue;
            }
            let over = self.line.is_empty() && self.lines > 0;
            if last != b'\r' || !self.end_line() {
                *byte = SPOILED;
                self.place = Place::Endless;
                return at + 1;
            }
            if over {
                self.end_head();
                return at + 1;
            }
        }
        bytes.len()
    }

    /// Processes a line; returns whether its meaning is unambiguous.
    fn end_line(&mut self) -> bool {
        let (line, long) = (std::mem::take(&mut self.line), std::mem::take(&mut self.long));
        if line.is_empty() {
            self.leading += usize::from(self.lines == 0);
            // A client may send one empty line before a request.
            return self.leading <= 1;
        }
        self.lines += 1;
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return true };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        match name {
            _ if self.lines == 1 => true,
            b"content-length" => {
                let digits = !value.is_empty() && !long && value.iter().all(u8::is_ascii_digit);
                let length =
                    std::str::from_utf8(value).ok().filter(|_| digits).and_then(|it| it.parse().ok());
                let first = self.length.is_none();
                self.length = length;
                first && length.is_some() && !self.chunked
            }
            b"transfer-encoding" => {
                self.chunked = true;
                self.length.is_none()
            }
            _ => true,
        }
    }

    fn end_head(&mut self) {
        let place = match (self.length.take(), self.chunked) {
            (_, true) => Place::Endless,
            (None | Some(0), false) => Place::Head,
            (Some(length), false) => Place::Body(length),
        };
        *self = Framing { place, heads: self.heads + 1, ..Framing::default() };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The pieces that are passed on if the bytes arrive in chunks of a given size.
    fn parts(stream: &[u8], size: usize) -> Vec<Vec<u8>> {
        let mut framing = Framing::default();
        let mut parts = Vec::new();
        for piece in stream.chunks(size) {
            let mut piece = piece.to_vec();
            while !piece.is_empty() {
                let taken = framing.feed(&mut piece);
                parts.push(piece.drain(..taken).collect());
            }
        }
        parts
    }

    fn spoiled(stream: &str) -> bool {
        parts(stream.as_bytes(), 4096).concat().contains(&SPOILED)
    }

    #[test]
    fn requests_are_handed_on_one_by_one() {
        let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let post = "POST / HTTP/1.1\r\nhost: a\r\nContent-Length:  5\r\n\r\n";
        let stream = format!("{get}\r\n{post}1\n\n\n5{get}");
        let expected: Vec<Vec<u8>> =
            [get, &format!("\r\n{post}"), "1\n\n\n5", get].map(|part| part.as_bytes().to_vec()).into();
        assert_eq!(parts(stream.as_bytes(), 4096), expected);
    }

    #[test]
    fn heads_that_can_be_read_in_two_ways_are_spoiled() {
        for bad in [
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "GET / HTTP/1.1\r\nX: y\nHost: a\r\n\r\n",
            "\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
            "POST / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\nx",
            "POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\nx",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nxGET / HTTP/1.1\nHost: a\r\n\r\n",
        ] {
            assert!(spoiled(bad), "{bad:?}");
        }
        for good in [
            "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /content-length: HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\n",
        ] {
            assert!(!spoiled(good), "{good:?}");
        }
    }

    #[test]
    fn nothing_follows_a_body_without_a_length() {
        let mut framing = Framing::default();
        let mut head = *b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(framing.feed(&mut head), head.len());
        assert!(framing.is_last());
    }

    proptest! {
        /// Wherever reads end, the same requests result, and no byte is lost or duplicated.
        #[test]
        fn reads_may_end_anywhere(
            stream in "(GET / HTTP/1\\.1\r?\n(a: b\r\n){0,2}(content-length: [0-3]\r\n){0,2}\r\n[x\n]{0,3}){1,3}",
            size in 1_usize..9,
        ) {
            let whole = parts(stream.as_bytes(), 4096).concat();
            prop_assert_eq!(whole.len(), stream.len());
            prop_assert_eq!(parts(stream.as_bytes(), size).concat(), whole);
        }
    }
}
