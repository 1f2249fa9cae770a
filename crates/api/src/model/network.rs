//! Networks.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use uuid::Uuid;

use super::Standard;
use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};

/// A layer-2 network: one logical switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Also the UUID of its logical switch.
    pub id: Uuid,
    /// The owning project.
    pub project: String,
    /// The name; not unique.
    pub name: String,
    /// The administrative state: stored, but the network forwards either way.
    pub admin_state_up: bool,
    /// Whether routers may have gateways on it.
    pub external: bool,
    /// The transport of its frames between chassis.
    pub segment: Segment,
    /// The MTU in bytes; never zero here.
    pub mtu: u32,
    /// The default of new ports.
    pub port_security_enabled: bool,
    /// The requested availability zones.
    pub availability_zone_hints: Vec<String>,
    /// The DNS domain; ends with a dot, or is empty.
    pub dns_domain: String,
    /// Whether it is the default external network.
    pub is_default: bool,
    /// Revision, times, description, tags.
    pub standard: Standard,
}

/// The transport of a network between chassis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The id, as in the name of the localnet port, `provnet-<id>`.
    pub id: Uuid,
    /// The encapsulation.
    pub network_type: NetworkType,
    /// The physical network, if flat or VLAN.
    pub physical_network: Option<String>,
    /// VLAN tag or tunnel key.
    pub segmentation_id: Option<u32>,
}

impl Segment {
    /// Whether frames leave through a bridge of the chassis instead of tunnels.
    pub fn is_physical(&self) -> bool {
        matches!(self.network_type, NetworkType::Flat | NetworkType::Vlan)
    }
}

/// The encapsulation of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkType {
    /// Tunnels between chassis.
    Geneve,
    /// A VLAN on a physical network.
    Vlan,
    /// A physical network without a VLAN.
    Flat,
    /// No transport: frames never leave their chassis.
    Local,
}

impl NetworkType {
    /// The value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            NetworkType::Geneve => "geneve",
            NetworkType::Vlan => "vlan",
            NetworkType::Flat => "flat",
            NetworkType::Local => "local",
        }
    }
}

impl Record for Network {
    fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
        link_by_name(Kind::Network, (self.id, &self.project, &self.name), note);
        let Segment { network_type, physical_network, segmentation_id, .. } = &self.segment;
        if let Some(physical) = physical_network {
            note(Link::NetworksOnPhysical(SmolStr::new(physical)), self.id);
        }
        let physical = SmolStr::new(physical_network.as_deref().unwrap_or_default());
        note(Link::NetworkOfSegment(*network_type, physical, *segmentation_id), self.id);
    }
    fn counted_in(&self) -> Option<&str> {
        quota_owner(&self.project)
    }
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        vec![("project_id", (&self.project).into())]
    }
}
