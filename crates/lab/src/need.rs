//! The kernel features that a test needs, and those that a kernel offers.
//!
//! A test names its needs when it is registered. A back end knows its features: the guest's kernel from its configuration, the
//! host's by trying. If a needed feature is missing, the test fails and names it. A test is never skipped silently.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A kernel feature that not every kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// Virtual routing and forwarding devices (`ip link add type vrf`).
    Vrf,
    /// Dummy devices (`ip link add type dummy`).
    Dummy,
    /// VLAN devices (`ip link add link X type vlan`).
    Vlan,
    /// Latency and loss on a device (`tc qdisc add ... netem`).
    Netem,
    /// Open vSwitch's kernel datapath.
    OpenVswitch,
    /// Connection tracking zones in the kernel; without them OVN needs the userspace datapath.
    ConntrackZones,
}

impl Need {
    /// Every need there is.
    pub const ALL: [Need; 6] =
        [Need::Vrf, Need::Dummy, Need::Vlan, Need::Netem, Need::OpenVswitch, Need::ConntrackZones];

    /// The option in a kernel's configuration.
    fn option(self) -> &'static str {
        match self {
            Need::Vrf => "CONFIG_NET_VRF",
            Need::Dummy => "CONFIG_DUMMY",
            Need::Vlan => "CONFIG_VLAN_8021Q",
            Need::Netem => "CONFIG_NET_SCH_NETEM",
            Need::OpenVswitch => "CONFIG_OPENVSWITCH",
            Need::ConntrackZones => "CONFIG_NF_CONNTRACK_ZONES",
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Need::Vrf => "vrf",
            Need::Dummy => "dummy",
            Need::Vlan => "vlan",
            Need::Netem => "netem",
            Need::OpenVswitch => "openvswitch",
            Need::ConntrackZones => "conntrack-zones",
        })
    }
}

/// The features in a kernel's configuration (`linux --showconfig`, `/proc/config.gz`), built in or as modules.
pub fn offered(config: &str) -> BTreeSet<Need> {
    let on: BTreeSet<&str> = config
        .lines()
        .filter_map(|line| line.trim().split_once('='))
        .filter(|(_, value)| matches!(*value, "y" | "m"))
        .map(|(option, _)| option)
        .collect();
    Need::ALL.into_iter().filter(|need| on.contains(need.option())).collect()
}

/// Describes the needs in `wanted` that `offered` lacks; `None` if there are none.
pub fn lacking(wanted: &[Need], offered: &BTreeSet<Need>) -> Option<String> {
    let missing: Vec<String> =
        wanted.iter().filter(|need| !offered.contains(need)).map(|need| need.to_string()).collect();
    (!missing.is_empty()).then(|| missing.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_and_modular_options_count_and_others_do_not() {
        let config = "# comment\nCONFIG_NET_VRF=m\nCONFIG_VLAN_8021Q=y\n# CONFIG_NF_CONNTRACK_ZONES is not set\n\
                      CONFIG_DUMMY_CONSOLE=y\nCONFIG_DUMMY=n\n";
        assert_eq!(offered(config), BTreeSet::from([Need::Vrf, Need::Vlan]));
    }

    #[test]
    fn what_is_lacking_is_named() {
        let offered = BTreeSet::from([Need::Vrf]);
        assert_eq!(lacking(&[Need::Vrf], &offered), None);
        assert_eq!(lacking(&[Need::Vlan, Need::Vrf, Need::Dummy], &offered).as_deref(), Some("vlan, dummy"));
    }
}
