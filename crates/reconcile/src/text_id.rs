//! Ids that may be any string.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::{SmolStr, ToSmolStr};
use uuid::Uuid;

/// The id of an object, a project or a device, which may be any string. Nearly all are UUIDs in one of two spellings. This type
/// stores those as UUIDs, which need no heap memory and compare fast.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextId {
    /// A UUID with hyphens, in lower case.
    Hyphenated(Uuid),
    /// A UUID without hyphens, in lower case.
    Simple(Uuid),
    /// Any other string.
    Other(SmolStr),
}

impl TextId {
    /// Parses a string as a UUID, in either spelling.
    fn uuid(text: &str) -> Option<TextId> {
        let spelling: fn(Uuid) -> TextId = match text.len() {
            36 => TextId::Hyphenated,
            32 => TextId::Simple,
            _ => return None,
        };
        // Ids are strings, so another notation of the same UUID is another id.
        let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        Uuid::try_parse(text).ok().filter(|_| lower).map(spelling)
    }

    /// The id as a string.
    pub fn text(&self) -> SmolStr {
        match self {
            TextId::Other(text) => text.clone(),
            uuid => uuid.to_smolstr(),
        }
    }
}

impl From<SmolStr> for TextId {
    fn from(text: SmolStr) -> Self {
        TextId::uuid(&text).unwrap_or(TextId::Other(text))
    }
}

impl From<&SmolStr> for TextId {
    fn from(text: &SmolStr) -> Self {
        text.clone().into()
    }
}

impl From<&str> for TextId {
    fn from(text: &str) -> Self {
        TextId::uuid(text).unwrap_or_else(|| TextId::Other(text.into()))
    }
}

impl From<String> for TextId {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<&String> for TextId {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<Uuid> for TextId {
    fn from(uuid: Uuid) -> Self {
        TextId::Hyphenated(uuid)
    }
}

impl PartialEq<str> for TextId {
    fn eq(&self, text: &str) -> bool {
        match self {
            TextId::Other(other) => other == text,
            uuid => TextId::uuid(text).as_ref() == Some(uuid),
        }
    }
}

impl PartialEq<&str> for TextId {
    fn eq(&self, text: &&str) -> bool {
        *self == **text
    }
}

impl fmt::Display for TextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextId::Hyphenated(uuid) => uuid.hyphenated().fmt(f),
            TextId::Simple(uuid) => uuid.simple().fmt(f),
            TextId::Other(text) => text.fmt(f),
        }
    }
}

impl Serialize for TextId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TextId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        SmolStr::deserialize(from).map(TextId::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_texts_are_different_ids() {
        let uuid = Uuid::from_u128(0x0123_4567_89ab_cdef);
        let (hyphenated, simple) = (uuid.hyphenated().to_string(), uuid.simple().to_string());
        assert_eq!(TextId::from(hyphenated.as_str()), TextId::from(uuid));
        assert_eq!(TextId::from(simple.as_str()), TextId::Simple(uuid));
        for other in [
            "",
            "p",
            &hyphenated.to_uppercase(),
            &simple.to_uppercase(),
            &hyphenated[1..],
            &format!("ovnmeta-{uuid}"),
            "00000000-0000-0000-0123-456789abcdeg",
            &format!("{{{uuid}}}"),
        ] {
            assert_eq!(TextId::from(other), TextId::Other(other.into()), "{other}");
            assert_ne!(TextId::from(uuid), *other);
        }
    }

    #[test]
    fn it_is_the_text_it_came_from() {
        let uuid = Uuid::from_u128(0x0123_4567_89ab_cdef);
        for text in
            [uuid.hyphenated().to_string(), uuid.simple().to_string(), "10.0.0.1".into(), String::new()]
        {
            let id = TextId::from(&text);
            assert_eq!((id.to_string(), id.text().to_string()), (text.clone(), text.clone()));
            assert_eq!(id, *text);
            let json = serde_json::to_string(&id).unwrap();
            assert_eq!(json, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<TextId>(&json).unwrap(), id);
        }
    }

    #[test]
    fn it_is_no_larger_than_text() {
        assert_eq!(size_of::<TextId>(), size_of::<SmolStr>());
    }
}
