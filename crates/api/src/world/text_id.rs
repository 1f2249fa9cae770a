//! Ids that others choose.

use smol_str::SmolStr;
use uuid::Uuid;

/// The id of a project or a device, which may be any text. Nearly all are UUIDs in one of two spellings: as such they need no memory
/// beside the link that holds them, and are compared at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TextId {
    /// Spelled with hyphens, in lower case.
    Hyphenated(Uuid),
    /// Spelled without, in lower case.
    Simple(Uuid),
    /// Anything else.
    Other(SmolStr),
}

impl From<&str> for TextId {
    fn from(text: &str) -> Self {
        let spelling: fn(Uuid) -> TextId = match text.len() {
            36 => TextId::Hyphenated,
            32 => TextId::Simple,
            _ => return TextId::Other(SmolStr::new(text)),
        };
        // Another spelling of the same UUID is another id.
        let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        match Uuid::try_parse(text) {
            Ok(uuid) if lower => spelling(uuid),
            _ => TextId::Other(SmolStr::new(text)),
        }
    }
}

impl From<Uuid> for TextId {
    fn from(uuid: Uuid) -> Self {
        TextId::Hyphenated(uuid)
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
        }
    }

    #[test]
    fn it_is_no_larger_than_text() {
        assert_eq!(size_of::<TextId>(), size_of::<SmolStr>());
    }
}
