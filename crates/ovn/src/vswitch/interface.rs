//! `Interface`: a network device in a bridge.

use ovsdb::{Map, Str, Table};

use crate::mac::MacAddr;
use crate::text::Text;

/// A row of `Interface`: a network device in a bridge.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "Open_vSwitch", table = "Interface")]
pub struct Interface {
    /// Unique and fixed; the device's name.
    pub name: Str,
    /// Empty for a system device, `internal`, `patch`, ...
    #[ovsdb(column = "type")]
    pub kind: Str,
    /// Depend on the type; `peer` of a patch port.
    pub options: Map<Str, Str>,
    /// OpenFlow port number; absent while not yet known, -1 after an error.
    pub ofport: Option<i64>,
    /// The Ethernet address that the device should get.
    pub mac: Option<Text<MacAddr>>,
    /// The device's Ethernet address.
    pub mac_in_use: Option<Text<MacAddr>>,
    /// The device's MTU.
    pub mtu: Option<i64>,
    /// The reason why the device could not be added.
    pub error: Option<Str>,
    /// `iface-id` binds it to a logical port; `ovn-installed` reports that flows are in place.
    pub external_ids: Map<Str, Str>,
}
