//! `Chassis`: a node that runs ovn-controller, or one of another zone. Its UUID changes when ovn-controller recreates it.

use ovsdb::{Map, Ref, Set, Str, Table};

use super::Encap;

/// A row of `Chassis`: a node that runs ovn-controller, or one of another zone. Its UUID changes when ovn-controller recreates it.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Southbound", table = "Chassis")]
pub struct Chassis {
    /// Unique; the node's `system-id`.
    pub name: Str,
    /// The node's host name.
    pub hostname: Str,
    /// How to reach it by tunnel; at least one.
    pub encaps: Set<Ref<Encap>>,
    /// What the node reports: bridge mappings, CMS options, `is-remote`, features.
    pub other_config: Map<Str, Str>,
    /// Keys of agents. OVN before 22.09 overwrites them with `other_config`.
    pub external_ids: Map<Str, Str>,
}
