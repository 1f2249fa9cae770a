//! Ports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use jiff::Timestamp;
use ovn::MacAddr;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Common, Identity, Objects, or_default, says_something};
use crate::model::{AddressPair, Binding, ExtraDhcpOpt, FixedIp, Port, VifType};

#[derive(Debug, Deserialize)]
pub(super) struct Read {
    #[serde(flatten)]
    common: Common,
    network_id: Uuid,
    admin_state_up: bool,
    mac_address: MacAddr,
    #[serde(default, deserialize_with = "or_default")]
    fixed_ips: Vec<FixedIp>,
    #[serde(default, deserialize_with = "or_default")]
    device_id: String,
    #[serde(default, deserialize_with = "or_default")]
    device_owner: String,
    #[serde(default, deserialize_with = "or_default")]
    security_groups: BTreeSet<Uuid>,
    #[serde(default)]
    port_security_enabled: Option<bool>,
    #[serde(default, deserialize_with = "or_default")]
    allowed_address_pairs: Vec<Pair>,
    #[serde(default, deserialize_with = "or_default")]
    extra_dhcp_opts: Vec<Opt>,
    #[serde(default, rename = "binding:host_id", deserialize_with = "or_default")]
    host_id: String,
    #[serde(default, rename = "binding:vnic_type")]
    vnic_type: Option<String>,
    #[serde(default, rename = "binding:profile", deserialize_with = "or_default")]
    profile: Map<String, Value>,
    #[serde(default, rename = "binding:vif_type")]
    vif_type: Option<String>,
    #[serde(default, rename = "binding:vif_details", deserialize_with = "or_default")]
    vif_details: Map<String, Value>,
    #[serde(default, deserialize_with = "or_default")]
    dns_name: String,
    #[serde(default)]
    dns_domain: Value,
    #[serde(default)]
    qos_policy_id: Value,
}

#[derive(Debug, Deserialize)]
struct Pair {
    ip_address: String,
    #[serde(default)]
    mac_address: Option<MacAddr>,
}

#[derive(Debug, Deserialize)]
struct Opt {
    opt_name: String,
    #[serde(default)]
    opt_value: Option<String>,
    #[serde(default)]
    ip_version: Option<u8>,
}

pub(super) fn port(objects: &mut Objects, read: Read, now: Timestamp) -> Result<Port, String> {
    objects.needs("network", read.network_id)?;
    read.fixed_ips.iter().try_for_each(|fixed| objects.needs("subnet", fixed.subnet_id))?;
    read.security_groups.iter().try_for_each(|group| objects.needs("security_group", *group))?;
    if says_something(&read.qos_policy_id) {
        objects.note("QoS policies are not imported. Their rows in the Northbound stay as they are.");
    }
    if says_something(&read.dns_domain) {
        objects.note("Domains of ports are not imported: names are in the domain of their network.");
    }
    let pairs = read.allowed_address_pairs.iter().map(|pair| {
        let text = &pair.ip_address;
        let prefix = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        let ip_address = prefix.ok_or_else(|| format!("its address pair {text:?} is no address"))?;
        // Neutron shows a pair without its own MAC with the port's MAC.
        Ok(AddressPair { ip_address, mac_address: pair.mac_address.filter(|mac| *mac != read.mac_address) })
    });
    let allowed_address_pairs = pairs.collect::<Result<_, String>>()?;
    let options = read.extra_dhcp_opts.into_iter().filter_map(|option| {
        let ip_version = option.ip_version.unwrap_or(4);
        Some(ExtraDhcpOpt { opt_name: option.opt_name, opt_value: option.opt_value?, ip_version })
    });
    let vif_type = match (read.vif_type.as_deref(), read.host_id.is_empty()) {
        (_, true) | (None | Some("unbound"), false) => VifType::Unbound,
        (Some("binding_failed"), _) => VifType::BindingFailed,
        (Some("ovs"), _) => VifType::Ovs,
        // The mode here is the instance's; the switch has the other side of the socket.
        (Some("vhostuser"), _) if read.vif_details.get("vhostuser_mode") == Some(&"client".into()) => {
            VifType::VhostUser
        }
        (Some("vhostuser"), _) => VifType::VhostUserClient,
        (Some("hw_veb"), _) => VifType::HwVeb,
        (Some("hostdev_physical"), _) => VifType::HostdevPhysical,
        (Some(_), _) => VifType::Other,
    };
    let Identity { id, project, name, standard } = read.common.told(now);
    let port = Port {
        id,
        project,
        name,
        network_id: read.network_id,
        admin_state_up: read.admin_state_up,
        mac: read.mac_address,
        fixed_ips: read.fixed_ips,
        device_id: read.device_id,
        device_owner: read.device_owner,
        security_groups: read.security_groups,
        port_security_enabled: read.port_security_enabled.unwrap_or(true),
        allowed_address_pairs,
        extra_dhcp_opts: options.collect(),
        binding: Binding {
            host_id: read.host_id,
            vnic_type: read.vnic_type.unwrap_or_else(|| "normal".to_owned()),
            profile: read.profile,
            vif_type,
            inactive: Vec::new(),
        },
        dns_name: read.dns_name,
        gateway_ordinal: None,
        standard,
    };
    match port.router_id() {
        // The host of a gateway is OVN's report, not a binding.
        Some(router) => {
            objects.needs("router", router).map(|()| Port { binding: Binding::default(), ..port })
        }
        None => Ok(port),
    }
}

/// Leaves out ports with the address or MAC of another port: the store would refuse the whole import for one such pair.
pub(super) fn leave_out_twins(objects: &mut Objects) {
    let (mut macs, mut addresses) = (BTreeMap::new(), BTreeMap::new());
    let mut twins = BTreeMap::new();
    for port in &objects.ports {
        if let Some(other) = macs.insert((port.network_id, port.mac), port.id) {
            twins.insert(port.id, format!("port {other} has its MAC address {}", port.mac));
        }
        for fixed in &port.fixed_ips {
            if let Some(other) = addresses.insert((fixed.subnet_id, fixed.ip_address), port.id) {
                twins.insert(port.id, format!("port {other} has its address {}", fixed.ip_address));
            }
        }
    }
    objects.ports.retain(|port| !twins.contains_key(&port.id));
    for (id, why) in twins {
        objects.known.remove(&("port", id));
        objects.leave_out("port", id, why);
    }
}
