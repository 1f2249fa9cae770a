//! `ovn-bridge-mappings`: `PHYSNET:BRIDGE[,PHYSNET:BRIDGE...]`.
//!
//! Operators type the list into the local Open_vSwitch row, and ovn-controller copies it into the Chassis row. A malformed
//! entry must not affect the others, so the parser returns good and bad entries.

use std::fmt;

use smol_str::SmolStr;

use super::host_addr::clip;

/// The valid entries of a mapping list, and the errors of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeMappings {
    /// The entries in their order. A node numbers its bridges by this order.
    pub entries: Vec<BridgeMapping>,
    /// The errors of the invalid entries.
    pub problems: Vec<BridgeMappingError>,
}

/// One physical network reachable through one bridge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BridgeMapping {
    /// Name of the physical network, as in a localnet port's `network_name`.
    pub physnet: SmolStr,
    /// Name of the OVS bridge.
    pub bridge: SmolStr,
}

/// The error of an invalid entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BridgeMappingError {
    /// Not `name:bridge`.
    #[error("bridge mapping {0:?} is not \"physnet:bridge\"")]
    Shape(String),
    /// The physical network occurs a second time; the first mapping is used.
    #[error("physical network {physnet:?} is mapped twice; {bridge:?} is ignored")]
    Repeated {
        /// The network.
        physnet: String,
        /// The bridge of the later entry.
        bridge: String,
    },
}

impl BridgeMappings {
    /// Reads a list; never fails as a whole.
    pub fn read(text: &str) -> Self {
        let mut list = BridgeMappings::default();
        for item in text.split(',').map(str::trim_ascii).filter(|item| !item.is_empty()) {
            match item.split_once(':') {
                Some((physnet, bridge))
                    if !physnet.is_empty() && !bridge.is_empty() && !bridge.contains(':') =>
                {
                    if list.bridge(physnet).is_some() {
                        let (physnet, bridge) = (clip(physnet), clip(bridge));
                        list.problems.push(BridgeMappingError::Repeated { physnet, bridge });
                    } else {
                        let (physnet, bridge) = (SmolStr::new(physnet), SmolStr::new(bridge));
                        list.entries.push(BridgeMapping { physnet, bridge });
                    }
                }
                _ => list.problems.push(BridgeMappingError::Shape(clip(item))),
            }
        }
        list
    }

    /// The bridge of a physical network.
    pub fn bridge(&self, physnet: &str) -> Option<&str> {
        self.entries.iter().find(|entry| entry.physnet == physnet).map(|entry| entry.bridge.as_str())
    }
}

/// Prints the valid entries in order.
impl fmt::Display for BridgeMappings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, entry) in self.entries.iter().enumerate() {
            write!(f, "{}{}:{}", if i > 0 { "," } else { "" }, entry.physnet, entry.bridge)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::strategy;
    use proptest::prelude::*;

    #[test]
    fn a_bad_entry_costs_itself_only() {
        let list = BridgeMappings::read("physnet1:br-ex, bad,,physnet2:br-x,physnet1:br-y,:z,a:,a:b:c");
        assert_eq!(list.to_string(), "physnet1:br-ex,physnet2:br-x");
        assert_eq!((list.bridge("physnet1"), list.bridge("nope")), (Some("br-ex"), None));
        let shape = |text: &str| BridgeMappingError::Shape(text.into());
        assert_eq!(
            list.problems,
            [
                shape("bad"),
                BridgeMappingError::Repeated { physnet: "physnet1".into(), bridge: "br-y".into() },
                shape(":z"),
                shape("a:"),
                shape("a:b:c"),
            ]
        );
        assert_eq!(BridgeMappings::read(""), BridgeMappings::default());
    }

    proptest! {
        #[test]
        fn good_entries_round_trip(text in prop_oneof![strategy::soup(), "([a-c]{0,2}:[a-z]{0,3},?){0,6}"]) {
            let list = BridgeMappings::read(&text);
            let again = BridgeMappings::read(&list.to_string());
            prop_assert_eq!(&again.entries, &list.entries);
            prop_assert!(again.problems.is_empty());
        }
    }
}
