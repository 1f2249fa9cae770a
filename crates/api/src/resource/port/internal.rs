//! Ports that the API creates itself: router interfaces, gateways, floating IPs, metadata.

use std::collections::BTreeSet;
use std::sync::Arc;

use ovn::MacAddr;
use uuid::Uuid;

use super::mac;
use crate::fault::Fault;
use crate::model::{Binding, Network, Port, Standard};
use crate::resource::ipam::{self, FixedIpRequest};
use crate::world::Txn;

/// The properties that differ between internal ports. All of them are up and in no security group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Internal {
    /// The network.
    pub network_id: Uuid,
    /// The owning project; empty if the port counts in no quota.
    pub project: String,
    /// The name, usually empty.
    pub name: String,
    /// The id of the device.
    pub device_id: String,
    /// See [`owner`](crate::model::owner).
    pub device_owner: String,
    /// The requested addresses. `None` leaves the choice free; an empty list means none.
    pub fixed_ips: Option<Vec<FixedIpRequest>>,
    /// The MAC; `None` for a random one.
    pub mac: Option<MacAddr>,
    /// Whether it may have security groups.
    pub has_port_security: bool,
    /// The position among the gateways, see [`Port::gateway_ordinal`].
    pub gateway_ordinal: Option<u64>,
}

impl Internal {
    /// A port on a network, with defaults for all else.
    pub fn on(network_id: Uuid) -> Self {
        Internal { network_id, ..Internal::default() }
    }
}

/// Creates an internal port. The caller checks quotas and permissions.
pub fn create_internal(txn: &mut Txn, internal: Internal) -> Result<Arc<Port>, Fault> {
    let network = internal.network_id;
    if txn.get::<Network>(&network).is_none() {
        return Err(Fault::absent("NetworkNotFound", "Network", network));
    }
    let mac = mac::choose(txn, network, internal.mac)?;
    let request = internal.fixed_ips.as_deref();
    let fixed_ips = ipam::allocate(txn, network, request, &internal.device_owner, mac)?;
    let port = Port {
        id: txn.new_id(),
        project: internal.project,
        name: internal.name,
        network_id: network,
        admin_state_up: true,
        mac,
        fixed_ips,
        device_id: internal.device_id,
        device_owner: internal.device_owner,
        security_groups: BTreeSet::new(),
        port_security_enabled: internal.has_port_security,
        allowed_address_pairs: Vec::new(),
        extra_dhcp_opts: Vec::new(),
        binding: Binding::default(),
        dns_name: String::new(),
        gateway_ordinal: internal.gateway_ordinal,
        standard: Standard::new(txn.now(), ""),
    };
    let id = port.id;
    txn.put(port);
    super::found(txn, id).cloned()
}
