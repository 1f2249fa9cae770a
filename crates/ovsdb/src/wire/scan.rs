//! Finding the end of a JSON value, and walking along objects, without decoding what they hold.
//!
//! Large messages are looked at by as few passes as possible: this one knows nesting, strings and escapes and nothing
//! else. Whether what it walked over is good JSON is judged by the decoder, which gets every piece that matters.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Cow;
use std::ops::Range;

use serde::de::Error as _;

use super::block::{BLOCK, Block};

/// How far into a JSON object or array a scan is. It can stop and go on anywhere.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scan {
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    /// Whether it is outside of any value.
    pub(crate) fn is_outside(self) -> bool {
        self.depth == 0
    }

    /// Goes on over these bytes; how many of them belong to the value, if its end is among them.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let piece = &rest[..rest.len().min(BLOCK)];
            let end = match rest.first_chunk().map_or_else(|| Block::look(&padded(piece)), Block::look) {
                block if block.escapes == 0 && !self.escaped => self.block(&block),
                // Escapes are rare, and not worth more than a look at each byte.
                _ => self.bytewise(piece),
            };
            if let Some(end) = end {
                return Some(at + end);
            }
            at += piece.len();
        }
        None
    }

    /// Goes on over a block without escapes.
    fn block(&mut self, block: &Block) -> Option<usize> {
        let strings = block.strings(self.in_string);
        let (opens, closes) = (block.opens & !strings, block.closes & !strings);
        if self.depth > closes.count_ones() {
            self.depth = self.depth + opens.count_ones() - closes.count_ones();
            self.in_string = strings >> (BLOCK - 1) == 1;
            return None;
        }
        // The end may be in here.
        let mut turns = opens | closes;
        while turns != 0 {
            let at = turns.trailing_zeros();
            if opens >> at & 1 == 1 {
                self.depth += 1;
            } else {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.in_string = false;
                    return Some(at as usize + 1);
                }
            }
            turns &= turns - 1;
        }
        self.in_string = strings >> (BLOCK - 1) == 1;
        None
    }

    /// Goes on over a few bytes of any kind.
    fn bytewise(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, &byte) in bytes.iter().enumerate() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'"' => self.in_string = !self.in_string,
                b'\\' if self.in_string => self.escaped = true,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// The last bytes as a block; what is behind them says nothing.
fn padded(piece: &[u8]) -> [u8; BLOCK] {
    let mut block = [b' '; BLOCK];
    block[..piece.len()].copy_from_slice(piece);
    block
}

/// A place in a JSON text.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

type Result<T> = std::result::Result<T, serde_json::Error>;

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// What is not walked over yet.
    pub(crate) fn rest(&self) -> &'a str {
        // Behind an error the place may be within a character.
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next byte that is not white space.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Walks over a byte that has to be there.
    pub(crate) fn take(&mut self, byte: u8) -> Result<()> {
        if self.peek() != Some(byte) {
            return Err(self.expected(char::from(byte)));
        }
        self.at += 1;
        Ok(())
    }

    /// Walks over a string; its text.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>> {
        self.take(b'"')?;
        let (begin, bytes) = (self.at, self.text.as_bytes());
        let mut plain = true;
        loop {
            let Some(found) = bytes.get(self.at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) else {
                return Err(self.expected("the end of a string"));
            };
            self.at += found + 1;
            if bytes[self.at - 1] == b'"' {
                break;
            }
            plain = false;
            self.at += 1;
        }
        let inside = &self.text[begin..self.at - 1];
        if plain && !inside.bytes().any(|byte| byte.is_ascii_control()) {
            return Ok(Cow::Borrowed(inside));
        }
        // Escapes, and bytes that may have to be escaped.
        serde_json::from_str(&self.text[begin - 1..self.at]).map(Cow::Owned)
    }

    /// Walks over an object or array; where it stands.
    pub(crate) fn value(&mut self) -> Result<Range<usize>> {
        if !matches!(self.peek(), Some(b'{' | b'[')) {
            return Err(self.expected("an object"));
        }
        let begin = self.at;
        let length = Scan::default().advance(&self.text.as_bytes()[begin..]);
        self.at = begin + length.ok_or_else(|| self.expected("the end of an object"))?;
        Ok(begin..self.at)
    }

    /// Walks over an object: its members' names, each with the cursor at the value, which has to be walked over.
    pub(crate) fn members(
        &mut self,
        mut each: impl FnMut(&mut Self, Cow<'a, str>) -> Result<()>,
    ) -> Result<()> {
        self.take(b'{')?;
        if self.peek() == Some(b'}') {
            return self.take(b'}');
        }
        loop {
            let name = self.string()?;
            self.take(b':')?;
            each(self, name)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                _ => return self.take(b'}'),
            }
        }
    }

    /// Refuses anything behind.
    pub(crate) fn end(&mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected("the end of the text")),
        }
    }

    fn expected(&self, what: impl std::fmt::Display) -> serde_json::Error {
        // An escape at the very end, or before a character of several bytes, is walked over by halves.
        let found: String = self.text.get(self.at..).unwrap_or_default().chars().take(20).collect();
        serde_json::Error::custom(format_args!("expected {what} at byte {}, found {found:?}", self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn walk(text: &str) -> Result<Vec<(String, String)>> {
        let (mut cursor, mut found) = (Cursor::new(text), Vec::new());
        cursor.members(|cursor, name| {
            let at = cursor.value()?;
            found.push((name.into_owned(), text[at].to_owned()));
            Ok(())
        })?;
        cursor.end()?;
        Ok(found)
    }

    #[test]
    fn an_object_is_walked_along() {
        let found = walk(r#" { "a" : {"x":"}\"]"} , "b\u0021":[ [] ] } "#).unwrap();
        let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, [("a", r#"{"x":"}\"]"}"#), ("b!", "[ [] ]")]);
        assert!(walk("{}").unwrap().is_empty() && walk(" { } ").unwrap().is_empty());
    }

    #[test]
    fn what_is_no_object_of_objects_is_refused() {
        for bad in
            ["", "[]", "{", r#"{"a"}"#, r#"{"a":1}"#, r#"{"a":{}"#, r#"{"a":{}} x"#, r#"{"a":{},}"#, r#"{"a"#]
        {
            assert!(walk(bad).is_err(), "{bad}");
        }
        for bad in ["{\"a\\é", "{\"a\\", "{\"a\":{\"\\é", "{\"a\n\":{}}", "{\"\\q\":{}}", "{\"\\ud800\":{}}"]
        {
            assert!(walk(bad).is_err(), "{bad}");
        }
        let error = walk(r#"{"a":7}"#).unwrap_err().to_string();
        assert_eq!(error, r#"expected an object at byte 5, found "7}""#);
    }

    proptest! {
        #[test]
        fn blocks_find_the_end_that_bytes_find(
            bytes in proptest::collection::vec(prop_oneof![
                3 => Just(b'{'), 2 => Just(b'}'), 1 => Just(b'['), 1 => Just(b']'), 2 => Just(b'"'), 1 => Just(b'\\'), 9 => any::<u8>()
            ], 0..400),
            cut in 0usize..400,
        ) {
            let (mut whole, mut single) = (Scan::default(), Scan::default());
            let (front, back) = bytes.split_at(cut.min(bytes.len()));
            let found = whole.advance(front).or_else(|| whole.advance(back).map(|end| end + front.len()));
            prop_assert_eq!(found, single.bytewise(&bytes));
            prop_assert_eq!(format!("{whole:?}"), format!("{single:?}"));
        }

        #[test]
        fn good_json_is_walked_as_a_decoder_does(
            names in proptest::collection::vec("[a-c\"\\\\{}é]{0,4}", 0..5),
            texts in proptest::collection::vec("[a-c\"\\\\{}\\[\\]é]{0,6}", 5),
        ) {
            let members: Vec<(String, serde_json::Value)> =
                names.into_iter().zip(&texts).map(|(name, text)| (name, serde_json::json!({ text: [text] }))).collect();
            let parts: Vec<String> = members
                .iter()
                .map(|(name, value)| format!("{}:{value}", serde_json::Value::from(name.as_str())))
                .collect();
            let found = walk(&format!("{{{}}}", parts.join(","))).unwrap();
            let expected: Vec<_> = members.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[{}\\[\\]\",:\\\\aé ]{0,40}") {
            let _ = walk(&text);
            let mut cursor = Cursor::new(&text);
            let _ = cursor.take(b'[').and_then(|()| cursor.string());
            let _ = (cursor.rest(), cursor.take(b','), cursor.value(), cursor.rest());
        }
    }
}
