//! `Bridge`: a bridge.

use ovsdb::{Map, Ref, Set, Str, Table, Uuid};

use super::Port;

/// A row of `Bridge`: a bridge.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "Open_vSwitch", table = "Bridge")]
pub struct Bridge {
    /// Unique and fixed.
    pub name: Str,
    /// Its ports.
    pub ports: Set<Ref<Port>>,
    /// `netdev` for the userspace datapath, empty or `system` for the kernel's.
    pub datapath_type: Str,
    /// OpenFlow versions spoken; empty for the default.
    pub protocols: Set<Str>,
    /// Its OpenFlow controllers, which write its flows.
    pub controller: Set<Uuid>,
    /// The behaviour without a controller.
    pub fail_mode: Option<Str>,
    /// Settings, `hwaddr` among them.
    pub other_config: Map<Str, Str>,
    /// Keys of the bridge's owner.
    pub external_ids: Map<Str, Str>,
}
