//! JSON text, written directly into a buffer.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::io::Write;

use serde::Serialize;
use uuid::Uuid;

/// Appends a value as JSON.
pub(crate) fn json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // Writing to memory does not fail, and Meridian's own types always serialise.
    serde_json::to_writer(out, value).expect("values of ours are serialisable");
}

/// Appends the printed form of a value as a JSON string.
pub fn printed(out: &mut Vec<u8>, value: &impl fmt::Display) {
    out.push(b'"');
    let begin = out.len();
    let _ = write!(out, "{value}");
    if out[begin..].iter().any(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
        let text = String::from_utf8_lossy(&out[begin..]).into_owned();
        out.truncate(begin - 1);
        json(out, &text);
    } else {
        out.push(b'"');
    }
}

/// Appends `["uuid","..."]`.
pub(crate) fn uuid(out: &mut Vec<u8>, uuid: Uuid) {
    out.extend_from_slice(br#"["uuid",""#);
    hyphenated(out, uuid);
    out.extend_from_slice(br#""]"#);
}

/// Appends the digits of a UUID.
pub(crate) fn hyphenated(out: &mut Vec<u8>, uuid: Uuid) {
    out.extend_from_slice(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes());
}

/// Appends elements of an array, separated by commas.
pub(crate) fn list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut each: impl FnMut(&mut Vec<u8>, T),
) {
    let mut first = true;
    for item in items {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        each(out, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_escapes_gets_them() {
        for text in ["", "plain é", "a\"b", "a\\b", "line\nline", "\u{1}"] {
            let mut out = b"[".to_vec();
            printed(&mut out, &text);
            out.push(b']');
            assert_eq!(serde_json::from_slice::<Vec<String>>(&out).unwrap(), [text]);
        }
    }
}
