//! Ports.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use ovn::MacAddr;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use smol_str::SmolStr;
use uuid::Uuid;

use super::Standard;
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

/// Device owners with a meaning for this API.
pub mod owner {
    /// A router's port on an internal network.
    pub const ROUTER_INTERFACE: &str = "network:router_interface";
    /// A router's port on an external network.
    pub const ROUTER_GATEWAY: &str = "network:router_gateway";
    /// The hidden port of a floating IP; it has no logical switch port.
    pub const FLOATING_IP: &str = "network:floatingip";
    /// The metadata port of a network.
    pub const DISTRIBUTED: &str = "network:distributed";
    /// A DHCP agent's port; with the device id of a metadata port, an older Neutron's metadata port.
    pub const DHCP: &str = "network:dhcp";
    /// The source of load balancers' health probes.
    pub const LB_HEALTH_MONITOR: &str = "ovn-lb-hm:distributed";
}

/// A port of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Also the UUID of its logical switch port and, on routers, of its logical router port.
    pub id: Uuid,
    /// The owning project; empty for gateway and floating IP ports.
    pub project: String,
    /// The name; not unique.
    pub name: String,
    /// Its network.
    pub network_id: Uuid,
    /// Whether it forwards.
    pub admin_state_up: bool,
    /// The MAC, unique in its network.
    pub mac: MacAddr,
    /// Its addresses, each unique in its subnet.
    pub fixed_ips: Vec<FixedIp>,
    /// The id of its device: an instance, a router, a floating IP; empty if none.
    pub device_id: String,
    /// The kind of its device, see [`owner`].
    pub device_owner: String,
    /// The security groups.
    pub security_groups: BTreeSet<Uuid>,
    /// Whether it may send only from its own addresses and `allowed_address_pairs`.
    pub port_security_enabled: bool,
    /// Further addresses that it may send from.
    pub allowed_address_pairs: Vec<AddressPair>,
    /// DHCP options in addition to the subnet's.
    pub extra_dhcp_opts: Vec<ExtraDhcpOpt>,
    /// The host where it should be, and how to plug it there.
    pub binding: Binding,
    /// The host name.
    pub dns_name: String,
    /// The order of creation among a router's gateway ports. It determines the order of `external_gateways` and the successor of the
    /// compatibility gateway.
    pub gateway_ordinal: Option<u64>,
    /// Revision, times, description, tags.
    pub standard: Standard,
}

impl Port {
    /// Whether it is a router's port on an external network.
    pub fn is_gateway(&self) -> bool {
        self.device_owner == owner::ROUTER_GATEWAY
    }

    /// Whether it is a router's port on an internal network.
    pub fn is_router_interface(&self) -> bool {
        self.device_owner == owner::ROUTER_INTERFACE
    }

    /// The router that it belongs to, if any.
    pub fn router_id(&self) -> Option<Uuid> {
        if self.is_gateway() || self.is_router_interface() {
            Uuid::try_parse(&self.device_id).ok()
        } else {
            None
        }
    }
}

/// One address of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FixedIp {
    /// The subnet of the address.
    pub subnet_id: Uuid,
    /// The address.
    pub ip_address: IpAddr,
}

/// An address or prefix that a port may send from besides its own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AddressPair {
    /// The address or prefix; an address has full length.
    pub ip_address: IpNet,
    /// The MAC; the port's own if none.
    pub mac_address: Option<MacAddr>,
}

/// One DHCP option of a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExtraDhcpOpt {
    /// The option's name.
    pub opt_name: String,
    /// The value, as the client sent it.
    pub opt_value: String,
    /// 4 or 6.
    pub ip_version: u8,
}

/// The host of a port, as Nova and Ironic set it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The host; empty if unbound.
    pub host_id: String,
    /// The kind of interface.
    pub vnic_type: String,
    /// The caller's data for the switch.
    pub profile: Map<String, Value>,
    /// The way in which the host plugs the port. Chosen at the time of binding and stored, so that a host's absence does not unplug it.
    #[serde(default)]
    pub vif_type: VifType,
    /// Hosts that it may migrate to, and that do not have it now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inactive: Vec<InactiveBinding>,
}

/// A host that a port is prepared to migrate to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InactiveBinding {
    /// The host.
    pub host_id: String,
    /// The kind of interface there.
    pub vnic_type: String,
    /// The caller's data for the switch there.
    pub profile: Map<String, Value>,
    /// The way in which that host would plug the port.
    pub vif_type: VifType,
}

/// The way in which a host plugs a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VifType {
    /// No host.
    #[default]
    Unbound,
    /// The host is unknown, dead, or lacks the network.
    BindingFailed,
    /// A port of the integration bridge.
    Ovs,
    /// A vhost-user socket whose server is the switch.
    #[serde(rename = "vhostuser")]
    VhostUser,
    /// A vhost-user socket whose server is the instance.
    #[serde(rename = "vhostuser_client")]
    VhostUserClient,
    /// A function of the network card, outside of the switch.
    HwVeb,
    /// The whole network card.
    HostdevPhysical,
    /// A device that is not ours, such as a physical machine.
    Other,
}

impl VifType {
    /// The value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            VifType::Unbound => "unbound",
            VifType::BindingFailed => "binding_failed",
            VifType::Ovs => "ovs",
            VifType::VhostUser | VifType::VhostUserClient => "vhostuser",
            VifType::HwVeb => "hw_veb",
            VifType::HostdevPhysical => "hostdev_physical",
            VifType::Other => "other",
        }
    }
}

impl Default for Binding {
    fn default() -> Self {
        Binding {
            host_id: String::new(),
            vnic_type: "normal".into(),
            profile: Map::new(),
            vif_type: VifType::Unbound,
            inactive: Vec::new(),
        }
    }
}

impl Record for Port {
    fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
        link_by_name(Kind::Port, (self.id, &self.project, &self.name), note);
        note(Link::PortsOfNetwork(self.network_id), self.id);
        note(Link::PortWithMac(self.network_id, self.mac), self.id);
        for fixed in &self.fixed_ips {
            note(Link::PortsOfSubnet(fixed.subnet_id), self.id);
        }
        if !self.device_id.is_empty() {
            note(Link::PortsOfDevice(self.device_id.as_str().into()), self.id);
        }
        for group in &self.security_groups {
            note(Link::PortsOfGroup(*group), self.id);
        }
        for pair in &self.allowed_address_pairs {
            if pair.ip_address.prefix_len() == pair.ip_address.max_prefix_len() {
                note(Link::PortsWithPair(pair.ip_address.addr()), self.id);
            }
        }
        if !self.binding.host_id.is_empty() {
            note(Link::PortsOnHost(SmolStr::new(&self.binding.host_id)), self.id);
        }
        if self.is_gateway() {
            note(Link::GatewayPorts, self.id);
        }
    }
    fn addresses(&self, note: &mut dyn FnMut(Uuid, IpAddr, Uuid)) {
        for fixed in &self.fixed_ips {
            note(fixed.subnet_id, fixed.ip_address, self.id);
        }
    }
    /// Gateway and floating IP ports belong to no project and count in no quota.
    fn counted_in(&self) -> Option<&str> {
        quota_owner(&self.project)
    }
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        vec![
            ("project_id", (&self.project).into()),
            ("network_id", (&self.network_id).into()),
            ("mac_address", (&self.mac).into()),
            ("device_id", (&self.device_id).into()),
            ("device_owner", (&self.device_owner).into()),
        ]
    }
}
