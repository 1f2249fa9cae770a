//! A position in a JSON text: walks over objects and arrays, and reads the strings and tokens between them.
//!
//! The cursor walks over a message once, from beginning to end, and reads each value in place. That takes a fraction of the
//! code and memory of a general decoder, and in a process that sleeps between messages these dominate the cost of a message.
//! `serde_json` handles strings with escapes and unusual numbers.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Cow;
use std::ops::Range;

use serde::de::{Error as _, IgnoredAny};

use super::scan::Scan;

/// A position in a JSON text.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

type Result<T> = std::result::Result<T, serde_json::Error>;

impl<'a> Cursor<'a> {
    /// The beginning of a text.
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The rest of the text.
    pub(crate) fn rest(&self) -> &'a str {
        // After an error the position may be within a character.
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

    /// Consumes a required byte.
    pub(crate) fn take(&mut self, byte: u8) -> Result<()> {
        if self.peek() != Some(byte) {
            return Err(self.expected(char::from(byte)));
        }
        self.at += 1;
        Ok(())
    }

    /// Walks over a string; returns its content.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>> {
        self.take(b'"')?;
        let begin = self.at;
        let length = plain_length(&self.text.as_bytes()[begin..]);
        self.at = begin + length + 1;
        match self.text.as_bytes().get(begin + length) {
            Some(b'"') => Ok(Cow::Borrowed(&self.text[begin..begin + length])),
            _ => self.escaped(begin).map(Cow::Owned),
        }
    }

    /// A string with escapes, or with bytes that would have to be escaped. The opening quote is already consumed.
    #[cold]
    fn escaped(&mut self, begin: usize) -> Result<String> {
        let bytes = self.text.as_bytes();
        self.at = begin;
        loop {
            let Some(found) = bytes.get(self.at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) else {
                return Err(self.expected("the end of a string"));
            };
            self.at += found + 1;
            if bytes[self.at - 1] == b'"' {
                return serde_json::from_str(&self.text[begin - 1..self.at]);
            }
            self.at += 1;
        }
    }

    /// Consumes a number, `true`, `false` or `null`; returns its characters.
    pub(crate) fn token(&mut self) -> Result<&'a str> {
        self.peek();
        let rest = self.rest();
        let within = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let length = rest.bytes().take_while(within).count();
        if length == 0 {
            return Err(self.expected("a value"));
        }
        self.at += length;
        Ok(&rest[..length])
    }

    /// Skips an object or array; returns its position.
    pub(crate) fn value(&mut self) -> Result<Range<usize>> {
        if !matches!(self.peek(), Some(b'{' | b'[')) {
            return Err(self.expected("an object"));
        }
        let begin = self.at;
        let length = Scan::default().advance(&self.text.as_bytes()[begin..]);
        self.at = begin + length.ok_or_else(|| self.expected("the end of an object"))?;
        Ok(begin..self.at)
    }

    /// Skips a value of any kind.
    pub(crate) fn skip(&mut self) -> Result<()> {
        match self.peek() {
            Some(b'{' | b'[') => self.value().map(drop),
            Some(b'"') => self.string().map(drop),
            _ => serde_json::from_str::<IgnoredAny>(self.token()?).map(drop),
        }
    }

    /// Walks over an object. Calls `each` with the name of each member and the cursor at its value, which `each` must consume.
    pub(crate) fn members<E: From<serde_json::Error>>(
        &mut self,
        mut each: impl FnMut(&mut Self, Cow<'a, str>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.take(b'{')?;
        if self.peek() == Some(b'}') {
            return Ok(self.take(b'}')?);
        }
        loop {
            let name = self.string()?;
            self.take(b':')?;
            each(self, name)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                _ => return Ok(self.take(b'}')?),
            }
        }
    }

    /// Walks over an array. Calls `each` with the cursor at each element, which `each` must consume.
    pub(crate) fn elements(&mut self, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.take(b'[')?;
        if self.peek() == Some(b']') {
            return self.take(b']');
        }
        loop {
            each(self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                _ => return self.take(b']'),
            }
        }
    }

    /// Fails if anything follows.
    pub(crate) fn end(&mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected("the end of the text")),
        }
    }

    #[cold]
    pub(crate) fn expected(&self, what: impl std::fmt::Display) -> serde_json::Error {
        // An escape at the very end, or before a character of several bytes, may be consumed only in part.
        let found: String = self.text.get(self.at..).unwrap_or_default().chars().take(20).collect();
        serde_json::Error::custom(format_args!("expected {what} at byte {}, found {found:?}", self.at))
    }
}

/// The number of leading bytes that are neither a quote nor an escape nor a control character.
fn plain_length(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks();
    for (n, word) in words.iter().enumerate() {
        let special = special(u64::from_le_bytes(*word));
        if special != 0 {
            return n * size_of::<u64>() + special.trailing_zeros() as usize / 8;
        }
    }
    let plain = |byte: &&u8| !matches!(byte, b'"' | b'\\' | 0..0x20);
    words.len() * size_of::<u64>() + rest.iter().take_while(plain).count()
}

/// Marks the first of eight bytes that ends a plain string by its highest bit. Bytes before it are not marked.
fn special(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & (ONES << 7);
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    is(b'"') | is(b'\\') | below(word, 0x20)
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
            Ok::<_, serde_json::Error>(())
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

    #[test]
    fn any_value_can_be_passed_over() {
        for value in ["1", "-2.5e3", "true", "null", r#""a\"b""#, "[1,[2]]", r#"{"a":{"b":"}"}}"#] {
            let text = format!(" {value} ,");
            let mut cursor = Cursor::new(&text);
            cursor.skip().unwrap();
            assert_eq!((cursor.peek(), cursor.rest()), (Some(b','), ","), "{value}");
        }
        for bad in ["", ",", "]", "tru", "01", "1.", "-", "1x", "\"", "[1"] {
            assert!(Cursor::new(bad).skip().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn plain_text_ends_where_a_look_at_each_byte_finds_its_end(
            bytes in proptest::collection::vec(prop_oneof![1 => Just(b'"'), 1 => Just(b'\\'), 2 => 0u8..0x40, 20 => any::<u8>()], 0..60),
        ) {
            let end = bytes.iter().position(|byte| *byte == b'"' || *byte == b'\\' || *byte < 0x20);
            prop_assert_eq!(plain_length(&bytes), end.unwrap_or(bytes.len()));
        }

        #[test]
        fn strings_are_read_as_a_decoder_reads_them(text in "[a-c\"\\\\é\u{0}-\u{20}\u{7f}]{0,30}", raw in any::<bool>()) {
            let json = if raw { format!("\"{text}\"") } else { serde_json::Value::from(text).to_string() };
            let mut cursor = Cursor::new(&json);
            let ours = cursor.string().and_then(|text| cursor.end().map(|()| text.into_owned()));
            prop_assert_eq!(ours.ok(), serde_json::from_str::<String>(&json).ok());
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
        fn no_text_makes_it_panic(text in "[{}\\[\\]\",:\\\\aé -]{0,40}") {
            let _ = walk(&text);
            let mut cursor = Cursor::new(&text);
            let _ = cursor.take(b'[').and_then(|()| cursor.string());
            let _ = (cursor.rest(), cursor.take(b','), cursor.value(), cursor.rest());
            let mut cursor = Cursor::new(&text);
            while cursor.skip().is_ok() && cursor.peek().is_some() {}
        }
    }
}
