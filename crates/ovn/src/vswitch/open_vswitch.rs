//! `Open_vSwitch`: the single row of the switch, from which ovn-controller reads its settings.

use ovsdb::{Map, Ref, Set, Str, Table};

use super::Bridge;

/// A row of `Open_vSwitch`: the single row of the switch, from which ovn-controller reads its settings.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "Open_vSwitch", table = "Open_vSwitch")]
pub struct OpenVSwitch {
    /// The bridges.
    pub bridges: Set<Ref<Bridge>>,
    /// `system-id`, `hostname`, `ovn-remote`, `ovn-bridge`, `ovn-bridge-mappings`, ...
    pub external_ids: Map<Str, Str>,
    /// Settings of the switch.
    pub other_config: Map<Str, Str>,
    /// Raised by a client that wants to know when its changes are carried out.
    pub next_cfg: i64,
    /// The `next_cfg` carried out.
    pub cur_cfg: i64,
    /// Version of the running switch.
    pub ovs_version: Option<Str>,
}
