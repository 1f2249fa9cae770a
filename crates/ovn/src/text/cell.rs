//! A string cell with an inner syntax.
//!
//! Databases that people and other programs write contain malformed strings now and then. With [`Text`] a typed row can hold
//! such a cell. The row stays, its good cells are usable, and the bad one keeps its exact bytes. So it can be reported, and a
//! set element can be deleted under the exact string that the server has.

use std::fmt;
use std::str::FromStr;

use ovsdb::model::AtomType;
use ovsdb::wire::{Atom, AtomKind, AtomRef, FromAtom, ValueError};
use smol_str::{SmolStr, ToSmolStr};

/// A string of a small language `T`, exactly as it is in the database.
///
/// Equality and order are those of the string, not of the value: `"FA:16:3E:00:00:01"` and `"fa:16:3e:00:00:01"` are two cells
/// with one value. The server distinguishes them, too, and a replica that merged them could not follow its updates.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<T>(Form<T>);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form<T> {
    /// The string is what `T` prints, so it is not stored: the common case costs no more than `T`.
    Plain(T),
    /// Valid, but spelled differently from what `T` prints.
    Spelled(Box<(SmolStr, T)>),
    /// Not valid; only the string is stored.
    Malformed(SmolStr),
}

impl<T: FromStr + fmt::Display> Text<T> {
    /// Parses a cell. Never fails: a string that does not parse is kept.
    pub fn new(text: &str) -> Self {
        Text(match text.parse::<T>() {
            Ok(value) if prints_as(&value, text) => Form::Plain(value),
            Ok(value) => Form::Spelled(Box::new((SmolStr::new(text), value))),
            Err(_) => Form::Malformed(SmolStr::new(text)),
        })
    }

    /// The value, or the parse error.
    pub fn parsed(&self) -> Result<&T, T::Err> {
        match &self.0 {
            Form::Plain(value) => Ok(value),
            Form::Spelled(pair) => Ok(&pair.1),
            Form::Malformed(text) => match text.parse::<T>() {
                Err(error) => Err(error),
                Ok(_) => unreachable!("parsing is a function of the text, and this text failed before"),
            },
        }
    }
}

impl<T> Text<T> {
    /// The value, if the string is valid.
    pub fn value(&self) -> Option<&T> {
        match &self.0 {
            Form::Plain(value) => Some(value),
            Form::Spelled(pair) => Some(&pair.1),
            Form::Malformed(_) => None,
        }
    }

    /// True if the string is not valid.
    pub fn is_malformed(&self) -> bool {
        matches!(self.0, Form::Malformed(_))
    }
}

impl<T> From<T> for Text<T> {
    fn from(value: T) -> Self {
        Text(Form::Plain(value))
    }
}

impl<T: FromStr + fmt::Display> FromAtom for Text<T> {
    fn from_atom(atom: AtomRef<'_>) -> Result<Self, ValueError> {
        match atom {
            AtomRef::String(text) => Ok(Text::new(text)),
            other => Err(ValueError::new(AtomKind::String, other)),
        }
    }
}

impl<T> AtomType for Text<T>
where
    T: FromStr + fmt::Display + Clone + Ord + Send + Sync + 'static,
{
    const KIND: AtomKind = AtomKind::String;

    fn to_atom(&self) -> Atom {
        Atom::String(self.to_smolstr())
    }

    fn write_atom(&self, out: &mut Vec<u8>) {
        ovsdb::wire::write_printed(out, self);
    }
}

/// The cell of a row that does not exist yet: an empty string.
impl<T: FromStr + fmt::Display> Default for Text<T> {
    fn default() -> Self {
        Text::new("")
    }
}

/// Prints the exact string.
impl<T: fmt::Display> fmt::Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Plain(value) => value.fmt(f),
            Form::Spelled(pair) => f.write_str(&pair.0),
            Form::Malformed(text) => f.write_str(text),
        }
    }
}

impl<T: fmt::Display> fmt::Debug for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_malformed() { "!" } else { "" };
        write!(f, "{mark}{:?}", self.to_string())
    }
}

/// Compares a value's printed form with a string without allocating it.
fn prints_as(value: &impl fmt::Display, text: &str) -> bool {
    let mut rest = Rest(text);
    fmt::write(&mut rest, format_args!("{value}")).is_ok() && rest.0.is_empty()
}

/// The part of the string that has not been matched yet.
struct Rest<'a>(&'a str);

impl fmt::Write for Rest<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(piece).ok_or(fmt::Error)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mac::MacAddr;
    use proptest::prelude::*;

    #[test]
    fn three_forms() {
        let plain = Text::<MacAddr>::new("fa:16:3e:00:00:01");
        let spelled = Text::<MacAddr>::new("FA:16:3E:00:00:01");
        let bad = Text::<MacAddr>::new("no mac");
        assert_eq!(plain, Text::from(MacAddr([0xfa, 0x16, 0x3e, 0, 0, 1])));
        assert_eq!(plain.value(), spelled.value());
        assert_ne!(plain, spelled, "two spellings are two cells");
        assert_eq!(bad.value(), None);
        assert!(bad.is_malformed() && bad.parsed().is_err());
        assert_eq!(format!("{bad:?}"), "!\"no mac\"");
        assert_eq!(Text::<MacAddr>::default(), Text::new(""));
    }

    proptest! {
        #[test]
        fn keeps_the_exact_text(text in "([0-9a-fA-F]{1,2}:){5}[0-9a-fA-F]{1,2}|.{0,20}") {
            prop_assert_eq!(Text::<MacAddr>::new(&text).to_string(), text);
        }
    }
}
