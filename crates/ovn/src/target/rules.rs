//! The keys of a shared map that are ours.
//!
//! A desired key is always ours. An existing key that is not desired is foreign, unless the rules list it: then we wrote it
//! once and no longer want it. Maps without a rule that hold settings or ids (`options`, `other_config`, `external_ids`) have
//! no listed keys. Any other map is wholly ours in rows of our own.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use ovsdb::model::Arity;
use ovsdb::model::ColumnSpec;

/// Keys of a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    exact: Vec<&'static str>,
    prefixes: Vec<&'static str>,
}

impl Keys {
    /// These keys.
    pub fn exact(keys: &[&'static str]) -> Self {
        Keys { exact: keys.to_vec(), prefixes: Vec::new() }
    }

    /// Every key that begins like one of these.
    pub fn prefixes(mut self, prefixes: &[&'static str]) -> Self {
        self.prefixes.extend_from_slice(prefixes);
        self
    }

    /// Whether the list contains a key.
    pub fn contains(&self, key: &str) -> bool {
        self.exact.contains(&key) || self.prefixes.iter().any(|prefix| key.starts_with(prefix))
    }
}

/// The kind of sharing of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share<'a> {
    /// The value is ours as a whole.
    Whole,
    /// Wanted and listed keys are ours.
    Keys(Option<&'a Keys>),
    /// Members that refer to rows of ours are ours.
    Members,
    /// A reference column with a single value. A value that refers to a row of ours is ours.
    Member,
}

/// The listed keys of each column.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    keys: BTreeMap<(&'static str, &'static str), Keys>,
}

impl Rules {
    /// Rules without listed keys: only desired keys are ours.
    pub fn new() -> Self {
        Self::default()
    }

    /// The keys that we write in the Northbound as the network API does.
    pub fn northbound() -> Self {
        Rules::new()
            .ids(&Keys::default().prefixes(&["neutron:", "meridian:"]))
            .keys(
                "Load_Balancer",
                "external_ids",
                Keys::exact(&["enabled", "ls_refs", "lr_ref"]).prefixes(&[
                    "neutron:",
                    "meridian:",
                    "octavia:",
                    "listener_",
                    "pool_",
                ]),
            )
            .keys(
                "Load_Balancer_Health_Check",
                "external_ids",
                Keys::default().prefixes(&["octavia:", "meridian:"]),
            )
            .keys(
                "DHCP_Options",
                "external_ids",
                Keys::exact(&["subnet_id", "port_id"]).prefixes(&["neutron:", "meridian:"]),
            )
            .settings()
    }

    /// The keys that we write in the Northbound as ovn-kubernetes does.
    pub fn kubernetes() -> Self {
        let ids = ["k8s-cluster-router", "physical_ip", "physical_ips", "pod", "namespace"];
        Rules::new().ids(&Keys::exact(&ids).prefixes(&["k8s.ovn.org/", "meridian:"])).settings()
    }

    /// The keys of `external_ids` in every table that has some of ours.
    fn ids(mut self, keys: &Keys) -> Self {
        const TABLES: [&str; 19] = [
            "Logical_Switch",
            "Logical_Switch_Port",
            "Address_Set",
            "Port_Group",
            "ACL",
            "QoS",
            "Load_Balancer",
            "Load_Balancer_Health_Check",
            "Logical_Router",
            "Logical_Router_Port",
            "Logical_Router_Static_Route",
            "Logical_Router_Policy",
            "NAT",
            "DHCP_Options",
            "DNS",
            "Gateway_Chassis",
            "HA_Chassis",
            "HA_Chassis_Group",
            "BFD",
        ];
        for table in TABLES {
            self = self.keys(table, "external_ids", keys.clone());
        }
        self
    }

    /// The keys of settings, which mean the same to every program that writes them.
    fn settings(self) -> Self {
        self.keys(
            "Logical_Switch",
            "other_config",
            Keys::exact(&[
                "vlan-passthru",
                "fdb_age_threshold",
                "broadcast-arps-to-all-routers",
                "subnet",
                "ipv6_prefix",
                "interconn-ts",
                "requested-tnl-key",
            ])
            .prefixes(&["mcast_"]),
        )
        .keys(
            "Logical_Switch_Port",
            "options",
            Keys::exact(&[
                "requested-chassis",
                "activation-strategy",
                "router-port",
                "nat-addresses",
                "exclude-lb-vips-from-garp",
                "virtual-ip",
                "virtual-parents",
                "network_name",
                "localnet_learn_fdb",
                "requested-tnl-key",
                "iface-id-ver",
            ])
            .prefixes(&["mcast_"]),
        )
        .keys(
            "Logical_Router",
            "options",
            Keys::exact(&[
                "chassis",
                "always_learn_from_arp_request",
                "dynamic_neigh_routers",
                "mac_binding_age_threshold",
                "lb_force_snat_ip",
                "requested-tnl-key",
                "ct-commit-all",
                "disable_garp_rarp",
            ]),
        )
        .keys(
            "Logical_Router_Port",
            "options",
            Keys::exact(&[
                "gateway_mtu",
                "reside-on-redirect-chassis",
                "redirect-type",
                "requested-chassis",
                "requested-tnl-key",
            ]),
        )
        .keys("Logical_Router_Policy", "options", Keys::exact(&["pkt_mark"]))
        .keys("NAT", "options", Keys::exact(&["stateless"]))
        .keys(
            "Load_Balancer",
            "options",
            Keys::exact(&[
                "affinity_timeout",
                "reject",
                "hairpin_snat_ip",
                "neighbor_responder",
                "use_stateless_nat",
                "ct_flush",
                "skip_snat",
            ]),
        )
        .keys("DNS", "options", Keys::exact(&["ovn-owned"]))
        // All keys are ours. They are still listed key by key, so that a new name does not rewrite a network of thousands of names.
        .keys("DNS", "records", Keys::default().prefixes(&[""]))
    }

    /// Lists the keys of a column that we write; replaces an earlier list.
    pub fn keys(mut self, table: &'static str, column: &'static str, keys: Keys) -> Self {
        self.keys.insert((table, column), keys);
        self
    }

    /// The kind of sharing of a column.
    pub(super) fn share(&self, table: &'static str, spec: &ColumnSpec) -> Share<'_> {
        match (spec.shape.arity, spec.shape.refers) {
            (Arity::Set, Some(_)) => Share::Members,
            (Arity::Optional, Some(_)) => Share::Member,
            (Arity::Map, _) => match self.keys.get(&(table, spec.name)) {
                Some(keys) => Share::Keys(Some(keys)),
                None if holds_settings(table, spec.name) => Share::Keys(None),
                None => Share::Whole,
            },
            _ => Share::Whole,
        }
    }
}

/// Maps that several programs write into, by custom. DHCP options are one value to the clients, so they are not shared.
fn holds_settings(table: &str, column: &str) -> bool {
    match column {
        "external_ids" | "other_config" => true,
        "options" => table != "DHCP_Options",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nb;
    use crate::target::state::Writable;

    fn share<'a, T: Writable>(rules: &'a Rules, column: &str) -> Share<'a> {
        rules.share(T::TABLE, &T::COLUMNS[T::position(column).unwrap()])
    }

    #[test]
    fn columns_are_shared_by_shape_and_custom() {
        let rules = Rules::northbound();
        assert_eq!(share::<nb::LogicalSwitch>(&rules, "name"), Share::Whole);
        assert_eq!(share::<nb::LogicalSwitch>(&rules, "ports"), Share::Members);
        assert_eq!(share::<nb::LogicalSwitch>(&rules, "copp"), Share::Member);
        assert_eq!(share::<nb::LogicalSwitchPort>(&rules, "addresses"), Share::Whole);
        assert_eq!(share::<nb::LoadBalancer>(&rules, "vips"), Share::Whole);
        assert_eq!(share::<nb::DhcpOptions>(&rules, "options"), Share::Whole);
        assert_eq!(share::<nb::Bfd>(&rules, "options"), Share::Keys(None));
        let Share::Keys(Some(keys)) = share::<nb::LoadBalancer>(&rules, "external_ids") else {
            panic!("no keys")
        };
        assert!(keys.contains("listener_x") && keys.contains("enabled") && keys.contains("neutron:vip"));
        assert!(!keys.contains("neutron_bgpvpn:vni") && !keys.contains("enabled2"));
    }

    #[test]
    fn keys_of_one_platform_are_foreign_to_the_other() {
        let of = |rules: &Rules, key: &str| {
            let Share::Keys(Some(keys)) = share::<nb::LogicalSwitchPort>(rules, "external_ids") else {
                panic!("no keys")
            };
            keys.contains(key)
        };
        assert!(of(&Rules::kubernetes(), "k8s.ovn.org/nad") && of(&Rules::kubernetes(), "pod"));
        assert!(!of(&Rules::kubernetes(), "neutron:port_name"));
        assert!(
            of(&Rules::northbound(), "neutron:port_name") && !of(&Rules::northbound(), "k8s.ovn.org/nad")
        );
    }

    #[test]
    fn every_rule_names_a_map_of_a_table() {
        let rules = [Rules::northbound(), Rules::kubernetes()];
        for (table, column) in rules.iter().flat_map(|rules| rules.keys.keys()) {
            let spec = nb::model().iter().find(|spec| spec.table == *table).unwrap();
            let column = spec.columns.iter().find(|spec| spec.name == *column).unwrap();
            assert_eq!(column.shape.arity, Arity::Map, "{table}");
        }
    }
}
