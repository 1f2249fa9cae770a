//! `Chassis`: a node that runs ovn-controller, or one of another zone. Its UUID changes when ovn-controller recreates it.

use ovsdb::{Map, Ref, Set, Str, Table};

use super::Encap;
use crate::text::bridge_mappings::BridgeMappings;
use crate::text::chassis::CmsOptions;

/// A row of `Chassis`: a node that runs ovn-controller, or one of another zone.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Southbound", table = "Chassis")]
pub struct Chassis {
    /// Unique; the node's `system-id`.
    pub name: Str,
    /// The node's host name.
    pub hostname: Str,
    /// The tunnel endpoints of the chassis; at least one.
    pub encaps: Set<Ref<Encap>>,
    /// Settings that the node reports: bridge mappings, CMS options, `is-remote`, features.
    pub other_config: Map<Str, Str>,
    /// Keys of agents. OVN before 22.09 overwrites them with `other_config`.
    pub external_ids: Map<Str, Str>,
}

impl Chassis {
    /// A setting the node reports. Older nodes keep theirs in `external_ids`.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.other_config.get(key).or_else(|| self.external_ids.get(key)).map(Str::as_str)
    }

    /// Physical networks the node is connected to.
    pub fn bridge_mappings(&self) -> BridgeMappings {
        BridgeMappings::read(self.setting("ovn-bridge-mappings").unwrap_or(""))
    }

    /// The node's options for the cloud management.
    pub fn cms_options(&self) -> CmsOptions {
        CmsOptions::read(self.setting("ovn-cms-options").unwrap_or(""))
    }

    /// Whether the chassis is a node of another zone, added here so that tunnels reach it.
    pub fn is_remote(&self) -> bool {
        self.other_config.get("is-remote").is_some_and(|value| value == "true")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_new_and_old_nodes() {
        let settings = [
            ("ovn-bridge-mappings".into(), "physnet1:br-ex".into()),
            ("ovn-cms-options".into(), "enable-chassis-as-gw".into()),
        ];
        let new = Chassis { other_config: settings.clone().into(), ..Default::default() };
        let old = Chassis { external_ids: settings.into(), ..Default::default() };
        for chassis in [new, old] {
            assert_eq!(chassis.bridge_mappings().bridge("physnet1"), Some("br-ex"));
            assert!(chassis.cms_options().is_gateway() && !chassis.is_remote());
        }
        let remote =
            Chassis { other_config: [("is-remote".into(), "true".into())].into(), ..Default::default() };
        assert!(remote.is_remote() && remote.bridge_mappings().entries.is_empty());
    }
}
