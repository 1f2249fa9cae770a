//! Neutron's keys in `external_ids`, and the format of their values.
//!
//! Other programs (metadata agents, BGP agents, Octavia's provider, operators' scripts) read these, so names and formats
//! are those of Neutron's OVN driver. northd copies a switch port's `external_ids` to its port binding, hence the same keys
//! in the Southbound.

use std::fmt;

use super::host_addr::{HostAddr, HostAddrError};

/// The keys, one constant each.
pub mod key {
    /// Space-separated `address/length` of a port; may be empty.
    pub const CIDRS: &str = "neutron:cidrs";
    /// The API name of a port.
    pub const PORT_NAME: &str = "neutron:port_name";
    /// The device of a port: an instance, a router, `ovnmeta-<network>`.
    pub const DEVICE_ID: &str = "neutron:device_id";
    /// The type of that device.
    pub const DEVICE_OWNER: &str = "neutron:device_owner";
    /// Owner of the object.
    pub const PROJECT_ID: &str = "neutron:project_id";
    /// On switches the API name; on ports and router ports the switch's row name, `neutron-<network>`.
    pub const NETWORK_NAME: &str = "neutron:network_name";
    /// The network of a DHCP row or an external-port group.
    pub const NETWORK_ID: &str = "neutron:network_id";
    /// MTU in decimal.
    pub const MTU: &str = "neutron:mtu";
    /// Host a port is bound to.
    pub const HOST_ID: &str = "neutron:host_id";
    /// Floating IP of a port.
    pub const PORT_FIP: &str = "neutron:port_fip";
    /// Space-separated security group ids.
    pub const SECURITY_GROUP_IDS: &str = "neutron:security_group_ids";
    /// Security group of a port group.
    pub const SECURITY_GROUP_ID: &str = "neutron:security_group_id";
    /// Rule of an ACL.
    pub const SECURITY_GROUP_RULE_ID: &str = "neutron:security_group_rule_id";
    /// Revision of the API object, decimal.
    pub const REVISION: &str = "neutron:revision_number";
    /// IPv4 address scope of the port's subnet pool.
    pub const ADDRESS_SCOPE4: &str = "neutron:subnet_pool_addr_scope4";
    /// IPv6 address scope of the port's subnet pool.
    pub const ADDRESS_SCOPE6: &str = "neutron:subnet_pool_addr_scope6";
    /// `normal`, `direct`, ...
    pub const VNIC_TYPE: &str = "neutron:vnic_type";
    /// Capabilities of the port's binding profile.
    pub const PORT_CAPABILITIES: &str = "neutron:port_capabilities";
    /// Host of a virtual port's parent.
    pub const PARENT_HOSTNAME: &str = "neutron:parent_hostname";
    /// Comma-separated availability zone hints; may be empty.
    pub const AVAILABILITY_ZONE_HINTS: &str = "neutron:availability_zone_hints";
    /// Type of the provider network.
    pub const PROVNET_NETWORK_TYPE: &str = "neutron:provnet-network-type";
    /// Physical network of the provider network; its presence marks one.
    pub const PROVNET_PHYSICAL_NETWORK: &str = "neutron:provnet-physical-network";
    /// On routers the API name; on router ports and NAT rows the router's row name, `neutron-<router>`.
    pub const ROUTER_NAME: &str = "neutron:router_name";
    /// Router of a group or BFD row.
    pub const ROUTER_ID: &str = "neutron:router_id";
    /// Space-separated subnets of a router port.
    pub const SUBNET_IDS: &str = "neutron:subnet_ids";
    /// Subnet of a gateway route.
    pub const SUBNET_ID: &str = "neutron:subnet_id";
    /// `True` on external gateway ports and routes.
    pub const IS_EXT_GW: &str = "neutron:is_ext_gw";
    /// Marks routes that were not learned.
    pub const IS_STATIC_ROUTE: &str = "neutron:is_static_route";
    /// Floating IP id of a NAT row.
    pub const FIP_ID: &str = "neutron:fip_id";
    /// Internal port of a floating IP.
    pub const FIP_PORT_ID: &str = "neutron:fip_port_id";
    /// MAC of the floating IP's own port.
    pub const FIP_EXTERNAL_MAC: &str = "neutron:fip_external_mac";
    /// External network of the floating IP.
    pub const FIP_NETWORK_ID: &str = "neutron:fip_network_id";
    /// In `NB_Global`: whether floating IPs are distributed.
    pub const FIP_DISTRIBUTED: &str = "neutron:fip-distributed";
    /// In `NB_Global`: the time of the last liveness check.
    pub const LIVENESS_CHECK_AT: &str = "neutron:liveness_check_at";
    /// Subnet of a `DHCP_Options` row (no prefix, by tradition).
    pub const DHCP_SUBNET_ID: &str = "subnet_id";
    /// Port of a per-port `DHCP_Options` row.
    pub const DHCP_PORT_ID: &str = "port_id";
    /// The switch of a `DNS` row.
    pub const DNS_SWITCH: &str = "ls_name";
    /// In `Chassis_Private`: id of the metadata agent.
    pub const METADATA_AGENT_ID: &str = "neutron:ovn-metadata-id";
    /// In `Chassis_Private`: the last `nb_cfg` that the metadata agent processed.
    pub const METADATA_AGENT_SB_CFG: &str = "neutron:ovn-metadata-sb-cfg";
    /// In `Chassis_Private`: description of the metadata agent.
    pub const METADATA_AGENT_DESCRIPTION: &str = "neutron:description-metadata";
    /// In `Chassis_Private`: the integration bridge.
    pub const OVN_BRIDGE: &str = "neutron:ovn-bridge";
    /// In `Chassis`: the networks for which the agent serves metadata, separated by commas.
    pub const METADATA_NETWORKS: &str = "neutron-metadata-proxy-networks";
    /// Our opt-out: `false` keeps a port from being announced.
    pub const ADVERTISE: &str = "meridian:advertise";
    /// The deployment that owns a row.
    pub const OWNER: &str = "meridian:owner";
    /// The gateway port of a route or chassis group.
    pub const GATEWAY_PORT: &str = "meridian:gw_port_id";
    /// The generation of a load balancer that its row was made from.
    pub const BALANCER_GENERATION: &str = "meridian:revision";
    /// Marks the rows that lead metadata traffic through a router.
    pub const METADATA: &str = "meridian:metadata";
}

/// Values of [`key::DEVICE_OWNER`] that OVN's side treats specially.
pub mod device_owner {
    /// Interface of a router.
    pub const ROUTER_INTERFACE: &str = "network:router_interface";
    /// External gateway of a router.
    pub const ROUTER_GATEWAY: &str = "network:router_gateway";
    /// Address holder of a floating IP; has no switch port.
    pub const FLOATING_IP: &str = "network:floatingip";
    /// Metadata and DHCP port, present on every chassis.
    pub const DISTRIBUTED: &str = "network:distributed";
    /// The value that older Neutron versions wrote.
    pub const DHCP: &str = "network:dhcp";
    /// Load balancer VIP.
    pub const LB_VIP: &str = "ovn-lb:vip";
    /// Source of load balancer health checks.
    pub const LB_HEALTH_MONITOR: &str = "ovn-lb-hm:distributed";
}

/// The error of an invalid item of a list; the others are usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reading item {position} of a list of addresses")]
pub struct ItemError {
    /// The position in the list, from 1.
    pub position: usize,
    /// The error.
    #[source]
    pub source: HostAddrError,
}

/// Parses `neutron:cidrs`: items separated by blanks, each with its own result.
pub fn cidrs(text: &str) -> impl Iterator<Item = Result<HostAddr, ItemError>> + '_ {
    text.split_ascii_whitespace()
        .enumerate()
        .map(|(i, item)| item.parse().map_err(|source| ItemError { position: i + 1, source }))
}

/// Parses a boolean in the notation of Python, JSON and users: `True`, `true`, `TRUE`, and the same for false.
pub fn boolean(text: &str) -> Option<bool> {
    match text.trim_ascii() {
        text if text.eq_ignore_ascii_case("true") => Some(true),
        text if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// Writes a boolean as Neutron does.
pub fn python_bool(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

/// Prints items separated by blanks, as in `neutron:cidrs`, `neutron:subnet_ids` and lists of security groups.
pub struct Spaced<I>(pub I);

impl<I> fmt::Display for Spaced<I>
where
    I: Clone + IntoIterator,
    I::Item: fmt::Display,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.clone().into_iter().enumerate() {
            write!(f, "{}{item}", if i > 0 { " " } else { "" })?;
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
    fn a_bad_item_costs_itself_only() {
        let items: Vec<_> = cidrs(" 10.0.0.4/24 x  fd00::4/64").collect();
        assert_eq!(items.len(), 3);
        assert_eq!(items[0].as_ref().unwrap().to_string(), "10.0.0.4/24");
        assert_eq!(items[1].as_ref().unwrap_err().position, 2);
        assert_eq!(items[2].as_ref().unwrap().to_string(), "fd00::4/64");
        assert_eq!(cidrs("").count(), 0);
    }

    #[test]
    fn booleans() {
        for (text, value) in
            [("True", Some(true)), ("false", Some(false)), ("TRUE ", Some(true)), ("1", None), ("", None)]
        {
            assert_eq!(boolean(text), value, "{text}");
        }
        assert_eq!((python_bool(true), python_bool(false)), ("True", "False"));
    }

    proptest! {
        #[test]
        fn cidrs_round_trip(items in proptest::collection::vec(strategy::host_addr(), 0..5)) {
            let text = Spaced(items.iter()).to_string();
            prop_assert_eq!(cidrs(&text).collect::<Result<Vec<_>, _>>().unwrap(), items);
        }

        #[test]
        fn no_panic(text in strategy::soup()) {
            let _ = cidrs(&text).count();
            let _ = boolean(&text);
        }
    }
}
