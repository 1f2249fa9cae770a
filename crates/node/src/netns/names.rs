//! The names of namespaces and their devices, as Neutron's metadata agent gives them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use ovsdb::Uuid;
use smol_str::format_smolstr;

use super::state::VethPair;

/// The prefix of every namespace of ours.
const PREFIX: &str = "ovnmeta-";
/// The prefix of the alias that marks a device ours.
const ALIAS: &str = "meridian-metadata-";

/// The name of a network's namespace.
pub fn namespace(network: Uuid) -> String {
    format!("{PREFIX}{network}")
}

/// The network of a namespace; `None` for names of others.
pub fn network(namespace: &str) -> Option<Uuid> {
    canonical(namespace.strip_prefix(PREFIX)?)
}

/// The alias of a network's host device.
pub fn alias(network: Uuid) -> String {
    format!("{ALIAS}{network}")
}

/// The network whose host device has this alias.
pub fn aliased(alias: &str) -> Option<Uuid> {
    canonical(alias.strip_prefix(ALIAS)?)
}

/// A UUID in its usual form. Other spellings of a UUID would give one network two names.
fn canonical(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text).ok().filter(|uuid| uuid.to_string() == text)
}

/// The names that a network's devices may have, in the order of preference. The first is Neutron's, which has 36 bits of the
/// network; the second is for a network whose first name another device has.
pub fn pairs(network: Uuid) -> [VethPair; 2] {
    let text = network.to_string();
    let short = text.get(..10).unwrap_or_default();
    // The version 5 UUID is a hash of the network, so two networks that share ten characters differ here.
    let hash = Uuid::new_v5(&network, PREFIX.as_bytes()).simple().to_string();
    let long = hash.get(..12).unwrap_or_default();
    [("tap", short), ("tm", long)].map(|(prefix, name)| VethPair {
        host: format_smolstr!("{prefix}{name}0"),
        inner: format_smolstr!("{prefix}{name}1"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: Uuid = Uuid::from_u128(0x11111111_2222_3333_4444_555555555555);

    #[test]
    fn names_are_neutrons_and_fit_into_the_kernel() {
        assert_eq!(namespace(NETWORK), "ovnmeta-11111111-2222-3333-4444-555555555555");
        let [usual, other] = pairs(NETWORK);
        assert_eq!((usual.host.as_str(), usual.inner.as_str()), ("tap11111111-20", "tap11111111-21"));
        assert!(other.host.starts_with("tm") && other.host.len() <= 15, "{other:?}");
        let twin = Uuid::from_u128(NETWORK.as_u128() + 1);
        assert_eq!(pairs(twin)[0], usual, "the first ten characters are the same");
        assert_ne!(pairs(twin)[1], other);
    }

    #[test]
    fn only_exact_names_are_ours() {
        assert_eq!(network(&namespace(NETWORK)), Some(NETWORK));
        assert_eq!(aliased(&alias(NETWORK)), Some(NETWORK));
        for foreign in ["ovnmeta-", "ovnmeta-x", "qdhcp-11111111-2222-3333-4444-555555555555", ""] {
            assert_eq!(network(foreign), None, "{foreign}");
        }
        assert_eq!(network("ovnmeta-11111111222233334444555555555555"), None);
        assert_eq!(network("ovnmeta-AAAAAAAA-2222-3333-4444-555555555555"), None);
    }
}
