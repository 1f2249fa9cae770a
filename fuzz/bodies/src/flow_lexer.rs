//! A second parser of OVN's expression language, to test the writers against: the part of its lexer that constants need. It shares no code
//! with the writers and follows `lib/lex.c` of OVN.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A string with its escapes resolved.
    String(String),
    /// A number, an address, an address with a mask, a MAC address: one constant.
    Integer(String),
    /// A name.
    Id(String),
    /// Punctuation.
    Mark(char),
}

/// The tokens of a string; an error if OVN's lexer rejects it, or if it contains a token that no writer of ours produces.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let bytes = text.as_bytes();
    let (mut at, mut found) = (0, Vec::new());
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b' ' => at += 1,
            b'{' | b'}' | b',' => {
                found.push(Token::Mark(byte.into()));
                at += 1;
            }
            b'"' => {
                let end = string_end(bytes, at + 1)?;
                found.push(Token::String(unescape(&text[at + 1..end])?));
                at = end + 1;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'_' | b'.' => {
                let inside = |byte: &&u8| byte.is_ascii_alphanumeric() || b":._/".contains(byte);
                let length = bytes[at..].iter().take_while(inside).count();
                found.push(word(&text[at..at + length])?);
                at += length;
            }
            other => return Err(format!("byte 0x{other:02x} outside of a string")),
        }
    }
    Ok(found)
}

/// The quote that ends a string: the first that no backslash precedes.
fn string_end(bytes: &[u8], mut at: usize) -> Result<usize, String> {
    loop {
        match bytes.get(at) {
            None | Some(0) => return Err("input ends inside a string".into()),
            Some(b'"') => return Ok(at),
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

/// The content of a quoted string.
fn unescape(text: &str) -> Result<String, String> {
    let (mut plain, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some(c @ ('"' | '\\' | '/')) => plain.push(c),
            Some('b') => plain.push('\u{8}'),
            Some('f') => plain.push('\u{c}'),
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('t') => plain.push('\t'),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).map_err(|_| format!("\\u{digits}"))?;
                let c = char::from_u32(code).filter(|c| *c != '\0');
                plain.push(c.ok_or_else(|| format!("\\u{digits} in a string"))?);
            }
            other => return Err(format!("escape {other:?}")),
        }
    }
    Ok(plain)
}

/// A constant, or else a name.
fn word(text: &str) -> Result<Token, String> {
    let (value, mask) = match text.split_once('/') {
        Some((value, mask)) => (value, Some(mask)),
        None => (text, None),
    };
    let decimal = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && (text == "0" || !text.starts_with('0'))
            && text.parse::<u64>().is_ok()
    };
    let pair = |pair: &str| pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mac = value.split(':').count() == 6 && value.split(':').all(pair);
    let v4 = value.parse::<Ipv4Addr>().is_ok();
    let v6 = value.parse::<Ipv6Addr>().is_ok();
    let fits =
        |most: u32| mask.is_none_or(|mask| decimal(mask) && mask.parse().is_ok_and(|bits: u32| bits <= most));
    match (v4, v6, decimal(value) || mac) {
        (true, ..) if fits(32) => Ok(Token::Integer(text.into())),
        (_, true, _) if fits(128) => Ok(Token::Integer(text.into())),
        (false, false, true) if mask.is_none() => Ok(Token::Integer(text.into())),
        _ if mask.is_none()
            && !text.contains(':')
            && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') =>
        {
            Ok(Token::Id(text.into()))
        }
        _ => Err(format!("{text:?} is no constant")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_read_and_anything_else_is_an_error() {
        let string = |text: &str| Token::String(text.into());
        let integer = |text: &str| Token::Integer(text.into());
        assert_eq!(tokens(r#""a\"b\\\u005e""#), Ok(vec![string("a\"b\\^")]));
        let list =
            vec![Token::Mark('{'), integer("10.0.0.0/8"), Token::Mark(','), integer("::1"), Token::Mark('}')];
        assert_eq!(tokens("{10.0.0.0/8, ::1}"), Ok(list));
        assert_eq!(tokens("fa:16:3e:00:00:01"), Ok(vec![integer("fa:16:3e:00:00:01")]));
        assert_eq!(tokens("true"), Ok(vec![Token::Id("true".into())]));
        for text in [
            "\"a",
            "\"a\\\"",
            "1; drop",
            "a = b",
            "01",
            "1.2.3",
            "$x",
            "^x",
            "\"\\u0000\"",
            "\"\\x\"",
            "10.0.0.0/33",
        ] {
            assert!(tokens(text).is_err(), "{text}: {:?}", tokens(text));
        }
    }
}
