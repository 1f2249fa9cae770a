//! What can be wanted of the bridges' flows, and what marks them ours.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use ovn::MacAddr;

use crate::kernel::Dev;

/// The cookie that marks a flow ours, the one ovn-bgp-agent uses.
pub const COOKIE: u64 = 999;
/// The priority of our flows.
pub const PRIORITY: u16 = 900;

/// The flows wanted on one bridge: for each patch port two, one a family, that give packets the bridge's own Ethernet
/// address and let the bridge deliver them, to itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bridge {
    /// The bridge's own Ethernet address.
    pub mac: MacAddr,
    /// Patch ports to the overlay by OpenFlow number, each with the device on which the kernel meets that network: the
    /// bridge itself, or the VLAN device.
    pub ports: BTreeMap<u32, Dev>,
}

/// The flows wanted, bridge by bridge. On a bridge that is named without ports, stale flows of ours are removed.
pub type Desired = BTreeMap<Dev, Bridge>;
