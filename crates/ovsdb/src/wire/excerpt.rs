//! Excerpts of a peer's strings for storing, logging and display: never more than the beginning.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::ops::Deref;

/// Maximum number of bytes to keep. The longest message of ovsdb-server itself, for a failed transaction, has some hundred.
const LONGEST: usize = 1024;

/// The beginning of a string, with the number of omitted bytes. A server may send megabytes instead of a line, and such a string is stored
/// as the reason of a disconnect, logged at each attempt and displayed to operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt(Box<str>);

impl From<String> for Excerpt {
    fn from(text: String) -> Self {
        let cut = text.floor_char_boundary(LONGEST);
        if cut == text.len() {
            return Self(text.into());
        }
        Self(format!("{}... ({} more bytes)", &text[..cut], text.len() - cut).into())
    }
}

impl From<&str> for Excerpt {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Excerpt> for String {
    fn from(excerpt: Excerpt) -> Self {
        excerpt.0.into()
    }
}

impl Deref for Excerpt {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(&*Excerpt::from("short"), "short");
        assert_eq!(Excerpt::from("x".repeat(LONGEST)).len(), LONGEST);
        let cut = Excerpt::from(format!("x{}", "ü".repeat(5_000_000)));
        assert!(cut.len() < LONGEST + 40, "{}", cut.len());
        assert!(cut.ends_with("ü... (9998978 more bytes)"), "{cut}");
    }
}
