//! Strings of OVN's expression language: JSON's escapes between double quotes.
//!
//! northd pastes such strings into logical flows, and ovn-controller parses them. Its lexer ends a string at the first double
//! quote without a backslash, and cannot hold a NUL. Before it parses a flow, ovn-controller also searches for `^` anywhere,
//! inside of strings as well. If it finds one, it treats the flow as a template.

use std::fmt;
use std::str::FromStr;

use super::host_addr::clip;

/// Writes a string so that the lexer reads one string token with exactly these characters.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                // A caret would send the whole flow through the expansion of templates.
                c if c.is_ascii_control() || c == '^' => write!(f, "\\u{:04x}", c as u32)?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}

/// A string that the lexer can hold. [`Display`](fmt::Display) writes it in quotes, [`FromStr`] reads it in quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotedString(String);

/// The error of a string that is not in this form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuotedError {
    /// The input is not one string in double quotes.
    #[error("{0:?} is not one string in double quotes")]
    Quotes(String),
    /// The string contains NUL, at which the lexer, which is written in C, ends its input.
    #[error("{0:?} contains a NUL character")]
    Nul(String),
}

impl QuotedString {
    /// Wraps the characters as they are, without quotes around them.
    pub fn new(content: &str) -> Result<Self, QuotedError> {
        if content.contains('\0') {
            return Err(QuotedError::Nul(clip(content)));
        }
        Ok(QuotedString(content.to_owned()))
    }

    /// The characters, without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for QuotedString {
    type Err = QuotedError;

    fn from_str(text: &str) -> Result<Self, QuotedError> {
        let content: String = serde_json::from_str(text).map_err(|_| QuotedError::Quotes(clip(text)))?;
        Self::new(&content)
    }
}

impl fmt::Display for QuotedString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Quoted(&self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::strategy;
    use proptest::prelude::*;

    #[test]
    fn every_character_that_means_something_to_the_lexer_is_escaped() {
        for (content, written) in [
            ("", r#""""#),
            ("exa\"mple", r#""exa\"mple""#),
            ("a\\", r#""a\\""#),
            ("a\nb\tc\rd", r#""a\nb\tc\rd""#),
            ("\u{1}\u{7f}", r#""\u0001\u007f""#),
            ("^vip", r#""\u005evip""#),
            ("/* ${net0/mac} // ü", r#""/* ${net0/mac} // ü""#),
        ] {
            assert_eq!(QuotedString::new(content).unwrap().to_string(), written);
        }
        assert_eq!(QuotedString::new("a\0b"), Err(QuotedError::Nul("a\0b".into())));
        assert_eq!(r#""a\u0000b""#.parse::<QuotedString>(), Err(QuotedError::Nul("a\0b".into())));
        for text in ["example.org", "\"a", "\"a\" b", "{\"a\"}", "\"", ""] {
            assert!(matches!(text.parse::<QuotedString>(), Err(QuotedError::Quotes(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(text in "[^\0]{0,12}") {
            let quoted = QuotedString::new(&text).unwrap();
            prop_assert_eq!(quoted.to_string().parse::<QuotedString>().unwrap(), quoted);
        }

        #[test]
        fn no_panic(text in strategy::soup()) {
            let _ = text.parse::<QuotedString>();
            let _ = format!("\"{text}\"").parse::<QuotedString>();
        }
    }
}
