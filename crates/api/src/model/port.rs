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

/// Device owners with a meaning here.
pub mod owner {
    /// A router's port on an internal network.
    pub const ROUTER_INTERFACE: &str = "network:router_interface";
    /// A router's port on an external network.
    pub const ROUTER_GATEWAY: &str = "network:router_gateway";
    /// Holds the address of a floating IP; has no logical switch port.
    pub const FLOATING_IP: &str = "network:floatingip";
    /// The metadata port of a network.
    pub const DISTRIBUTED: &str = "network:distributed";
    /// The port of a DHCP agent; with the device id of a metadata port, that of an older Neutron.
    pub const DHCP: &str = "network:dhcp";
    /// The health monitor of load balancers.
    pub const LB_HEALTH_MONITOR: &str = "ovn-lb-hm:distributed";
}

/// A port of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Also the UUID of its logical switch port and, on routers, of its logical router port.
    pub id: Uuid,
    /// Owner; empty for gateway and floating IP ports.
    pub project: String,
    /// Not unique.
    pub name: String,
    /// Where it is.
    pub network_id: Uuid,
    /// Whether it forwards.
    pub admin_state_up: bool,
    /// Unique in its network.
    pub mac: MacAddr,
    /// Its addresses, each unique in its subnet.
    pub fixed_ips: Vec<FixedIp>,
    /// What it belongs to: an instance, a router, a floating IP; empty if nothing.
    pub device_id: String,
    /// What kind of thing that is, see [`owner`].
    pub device_owner: String,
    /// Groups whose rules it is under.
    pub security_groups: BTreeSet<Uuid>,
    /// Whether it may send only with its own addresses.
    pub port_security_enabled: bool,
    /// Further addresses it may send with.
    pub allowed_address_pairs: Vec<AddressPair>,
    /// What DHCP tells it beyond the subnet's options.
    pub extra_dhcp_opts: Vec<ExtraDhcpOpt>,
    /// Where it is to be.
    pub binding: Binding,
    /// Its host name.
    pub dns_name: String,
    /// Of gateway ports: when it was made, compared with its siblings. The order of `external_gateways` and who
    /// succeeds the compatibility gateway hang on it.
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

    /// The router it belongs to, if any.
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
    /// The subnet it is taken from.
    pub subnet_id: Uuid,
    /// The address.
    pub ip_address: IpAddr,
}

/// An address or prefix that a port may send with besides its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AddressPair {
    /// Address or prefix; a plain address has the full length.
    pub ip_address: IpNet,
    /// The port's own if none.
    pub mac_address: Option<MacAddr>,
}

/// One DHCP option of a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExtraDhcpOpt {
    /// The option's name.
    pub opt_name: String,
    /// Its value.
    pub opt_value: String,
    /// 4 or 6.
    pub ip_version: u8,
}

/// Where a port is to be, as Nova and Ironic tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// Host; empty if unbound.
    pub host_id: String,
    /// Kind of interface.
    pub vnic_type: String,
    /// What the caller wants to tell the switch.
    pub profile: Map<String, Value>,
    /// How the host plugs it. Decided when it is bound and kept: a host that is away for a while does not unplug it.
    #[serde(default)]
    pub vif_type: VifType,
    /// Hosts that it may move to; none of them has it now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inactive: Vec<InactiveBinding>,
}

/// A host that a port is prepared to move to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InactiveBinding {
    /// The host.
    pub host_id: String,
    /// Kind of interface there.
    pub vnic_type: String,
    /// What the caller wants to tell the switch there.
    pub profile: Map<String, Value>,
    /// How that host would plug it.
    pub vif_type: VifType,
}

/// How a host plugs a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VifType {
    /// It has no host.
    #[default]
    Unbound,
    /// The host is unknown, away, or without the network.
    BindingFailed,
    /// Into the integration bridge.
    Ovs,
    /// Into the integration bridge, through a socket in memory; the switch makes the socket.
    #[serde(rename = "vhostuser")]
    VhostUser,
    /// The same; the instance makes the socket.
    #[serde(rename = "vhostuser_client")]
    VhostUserClient,
    /// A function of the network card, beside the switch.
    HwVeb,
    /// The whole network card.
    HostdevPhysical,
    /// By something that is not ours: a physical machine.
    Other,
}

impl VifType {
    /// The word the API uses.
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
    /// Gateway and floating IP ports belong to no project and use up nobody's quota.
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
