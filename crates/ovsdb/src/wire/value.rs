//! The value of a column in a message, read element by element.
//!
//! There is one reader for all types; its caller decides the type of an element. It is compiled once, and not for every type of
//! every column of every table. So it is small, and small code is back in the processor's caches soon after a pause.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Cow;

use serde::de::Error as _;
use uuid::Uuid;

use super::atom::{AtomKind, AtomRef, ValueError};
use super::cursor::Cursor;

/// One element of a column's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Element<'a> {
    /// An element of a set; a scalar is a set of one.
    Atom(AtomRef<'a>),
    /// A pair of a map.
    Pair(AtomRef<'a>, AtomRef<'a>),
}

impl<'a> Element<'a> {
    /// The atom, unless a map is expected.
    pub(crate) fn atom(self, wanted: AtomKind) -> Result<AtomRef<'a>, ValueError> {
        match self {
            Self::Atom(atom) => Ok(atom),
            Self::Pair(..) => Err(ValueError::new(wanted, "a map")),
        }
    }
}

/// Receives the elements of a value.
pub(crate) type Take<'t> = dyn FnMut(Element<'_>) -> Result<(), ValueError> + 't;

/// Which of its two forms a value has; one without elements may have either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Set,
    Map,
}

/// Reads a column's value: an atom, `["set", [...]]` or `["map", [...]]`. If this fails, `take` may have received some elements.
pub(crate) fn read(cursor: &mut Cursor<'_>, take: &mut Take<'_>) -> Result<Form, serde_json::Error> {
    let mut given = |element: Element<'_>| take(element).map_err(serde_json::Error::custom);
    if cursor.peek() != Some(b'[') {
        given(Element::Atom(scalar(cursor)?.as_ref()))?;
        return Ok(Form::Set);
    }
    cursor.take(b'[')?;
    let tag = cursor.string()?;
    cursor.take(b',')?;
    match &*tag {
        "set" => cursor.elements(|cursor| given(Element::Atom(atom(cursor)?.as_ref())))?,
        "map" => cursor.elements(|cursor| {
            cursor.take(b'[')?;
            let key = atom(cursor)?;
            cursor.take(b',')?;
            let value = atom(cursor)?;
            cursor.take(b']')?;
            given(Element::Pair(key.as_ref(), value.as_ref()))
        })?,
        _ => given(Element::Atom(reference(cursor, &tag)?.as_ref()))?,
    }
    cursor.take(b']')?;
    Ok(if tag == "map" { Form::Map } else { Form::Set })
}

/// An atom that may own its string: that of a string with escapes.
enum Read<'a> {
    String(Cow<'a, str>),
    Named(Cow<'a, str>),
    Other(AtomRef<'a>),
}

impl Read<'_> {
    fn as_ref(&self) -> AtomRef<'_> {
        match self {
            Self::String(text) => AtomRef::String(text),
            Self::Named(name) => AtomRef::NamedUuid(name),
            Self::Other(atom) => *atom,
        }
    }
}

fn atom<'a>(cursor: &mut Cursor<'a>) -> Result<Read<'a>, serde_json::Error> {
    if cursor.peek() != Some(b'[') {
        return scalar(cursor);
    }
    cursor.take(b'[')?;
    let tag = cursor.string()?;
    cursor.take(b',')?;
    let reference = reference(cursor, &tag)?;
    cursor.take(b']')?;
    Ok(reference)
}

/// The value after the tag of `["uuid", ...]` or `["named-uuid", ...]`.
fn reference<'a>(cursor: &mut Cursor<'a>, tag: &str) -> Result<Read<'a>, serde_json::Error> {
    if tag != "uuid" && tag != "named-uuid" {
        return Err(serde_json::Error::custom(format_args!("expected an atom, set or map, found {tag:?}")));
    }
    let text = cursor.string()?;
    if tag == "named-uuid" {
        return Ok(Read::Named(text));
    }
    let no_uuid = |_| serde_json::Error::custom(ValueError::new("a UUID", format_args!("{text:?}")));
    Uuid::try_parse(&text).map(|uuid| Read::Other(AtomRef::Uuid(uuid))).map_err(no_uuid)
}

fn scalar<'a>(cursor: &mut Cursor<'a>) -> Result<Read<'a>, serde_json::Error> {
    if cursor.peek() == Some(b'"') {
        return cursor.string().map(Read::String);
    }
    let token = cursor.token()?;
    let atom = match token {
        "true" => AtomRef::Boolean(true),
        "false" => AtomRef::Boolean(false),
        _ => number(token)?,
    };
    Ok(Read::Other(atom))
}

fn number(token: &str) -> Result<AtomRef<'static>, serde_json::Error> {
    let digits = token.strip_prefix('-').unwrap_or(token);
    let plain =
        digits.bytes().all(|byte| byte.is_ascii_digit()) && (!digits.starts_with('0') || token == "0");
    if let (true, Ok(number)) = (plain, token.parse()) {
        return Ok(AtomRef::Integer(number));
    }
    let number: serde_json::Number = serde_json::from_str(token)?;
    if number.is_u64() {
        return Err(serde_json::Error::custom(ValueError::new("a 64-bit signed integer", number)));
    }
    let real =
        number.as_f64().ok_or_else(|| serde_json::Error::custom(ValueError::new("a number", token)))?;
    Ok(AtomRef::Real(real))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::atom::Atom;
    use proptest::prelude::*;

    fn elements(json: &str) -> Result<Vec<(Atom, Option<Atom>)>, String> {
        let (mut cursor, mut found) = (Cursor::new(json), Vec::new());
        let mut take = |element: Element<'_>| {
            found.push(match element {
                Element::Atom(atom) => (atom.to_atom(), None),
                Element::Pair(key, value) => (key.to_atom(), Some(value.to_atom())),
            });
            Ok(())
        };
        read(&mut cursor, &mut take).and_then(|_| cursor.end()).map_err(|error| error.to_string())?;
        Ok(found)
    }

    #[test]
    fn every_form_of_a_value_is_read() {
        let one = |atom: Atom| Ok(vec![(atom, None)]);
        assert_eq!(elements("7"), one(7.into()));
        assert_eq!(elements("-0"), one(Atom::Real(0.0)), "as any decoder of JSON has it");
        assert_eq!(elements(" true "), one(true.into()));
        assert_eq!(elements("1.5"), one(Atom::Real(1.5)));
        assert_eq!(elements("1e3"), one(Atom::Real(1000.0)));
        assert_eq!(elements(r#""a\u0062\n""#), one("ab\n".into()));
        assert_eq!(elements(r#"["named-uuid","x"]"#), one(Atom::NamedUuid("x".into())));
        let row = "8f7e1d0a-52c1-44ea-9b7a-0a5a7d0c4c11";
        let uuid = || Atom::Uuid(row.parse().unwrap());
        assert_eq!(elements(&format!(r#"["uuid","{row}"]"#)), one(uuid()));
        assert_eq!(
            elements(&format!(r#"[ "map" , [ [ "k\"" , ["uuid","{row}"] ] ] ]"#)),
            Ok(vec![("k\"".into(), Some(uuid()))])
        );
        assert_eq!(elements(r#"["set",[]]"#), Ok(Vec::new()));
        assert_eq!(elements(r#"["set",[1,2]]"#), Ok(vec![(1.into(), None), (2.into(), None)]));
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for bad in
            ["+1", "007", "-", "1.", ".5", "nul", "NaN", "1e999", r#"["set",["x",]]"#, r#"["map",[[1,2,3]]]"#]
        {
            assert!(elements(bad).is_err(), "{bad}");
        }
        assert!(elements("9223372036854775808").unwrap_err().contains("64-bit"));
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_a_decoder_reads_them(text in "-?[0-9]{1,21}(\\.[0-9]{0,3})?([eE][+-]?[0-9]{0,3})?") {
            let ours = elements(&text);
            match serde_json::from_str::<serde_json::Value>(&text) {
                Ok(value) if value.is_i64() => prop_assert_eq!(ours, Ok(vec![(value.as_i64().unwrap().into(), None)])),
                Ok(value) if !value.is_u64() => {
                    prop_assert_eq!(ours, Ok(vec![(Atom::Real(value.as_f64().unwrap()), None)]));
                }
                _ => prop_assert!(ours.is_err()),
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "[\\[\\]\",:\\\\aéset map uid0-9.e-]{0,40}") {
            let _ = elements(&text);
        }
    }
}
