//! Routers with their gateways, and floating IPs.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::{Common, Document, Identity, Objects, or_default, says_something};
use crate::model::{ExtraRoute, FloatingIp, Port, Router, owner};

#[derive(Debug, Deserialize)]
pub(super) struct Read {
    #[serde(flatten)]
    common: Common,
    admin_state_up: bool,
    #[serde(default)]
    external_gateway_info: Option<Info>,
    #[serde(default)]
    enable_default_route_ecmp: Option<bool>,
    #[serde(default)]
    enable_default_route_bfd: Option<bool>,
    #[serde(default, deserialize_with = "or_default")]
    routes: Vec<ExtraRoute>,
    #[serde(default, deserialize_with = "or_default")]
    availability_zone_hints: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Info {
    #[serde(default)]
    enable_snat: Option<bool>,
    #[serde(default, deserialize_with = "or_default")]
    external_fixed_ips: Vec<Fixed>,
}

#[derive(Debug, Deserialize)]
struct Fixed {
    #[serde(default)]
    ip_address: Option<IpAddr>,
}

impl Info {
    fn is_of(&self, port: &Port) -> bool {
        let addresses = self.external_fixed_ips.iter().filter_map(|fixed| fixed.ip_address);
        addresses.into_iter().any(|ip| port.fixed_ips.iter().any(|fixed| fixed.ip_address == ip))
    }
}

pub(super) fn router(_: &mut Objects, read: Read, now: Timestamp) -> Result<Router, String> {
    let mut routes: Vec<ExtraRoute> = Vec::new();
    for ExtraRoute { destination, nexthop } in read.routes {
        let route = ExtraRoute { destination: destination.trunc(), nexthop };
        if !routes.contains(&route) {
            routes.push(route);
        }
    }
    let Identity { id, project, name, standard } = read.common.told(now);
    Ok(Router {
        id,
        project,
        name,
        admin_state_up: read.admin_state_up,
        gw_port_id: None,
        enable_snat: read.external_gateway_info.and_then(|info| info.enable_snat).unwrap_or(true),
        enable_default_route_ecmp: read.enable_default_route_ecmp.unwrap_or(false),
        enable_default_route_bfd: read.enable_default_route_bfd.unwrap_or(false),
        routes,
        availability_zone_hints: read.availability_zone_hints,
        standard,
    })
}

/// The ports that hold addresses of floating IPs, by network and address.
pub(super) fn holders(objects: &mut Objects) {
    let hold = objects.ports.iter().filter(|port| port.device_owner == owner::FLOATING_IP);
    let held = hold.flat_map(|port| {
        let addresses = port.fixed_ips.iter().filter_map(|fixed| match fixed.ip_address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        });
        addresses.map(|address| ((port.network_id, address), port.id))
    });
    objects.holders = held.collect();
}

/// Finds the gateway ports. Neutron does not show the port of a gateway, so it is the one with the shown addresses. The order of the list
/// becomes the order of the ports, and the first is the compatibility gateway.
pub(super) fn gateways(objects: &mut Objects, document: &Document) {
    let mut shown: BTreeMap<Uuid, Vec<Info>> = BTreeMap::new();
    for value in document.get("routers") {
        let Some(id) = value["id"].as_str().and_then(|id| Uuid::try_parse(id).ok()) else { continue };
        let info = Option::<Info>::deserialize(&value["external_gateway_info"]).ok().flatten();
        let others = Option::<Vec<Info>>::deserialize(&value["external_gateways"]).ok().flatten();
        shown.insert(id, info.into_iter().chain(others.unwrap_or_default()).collect());
    }
    let mut siblings: BTreeMap<Uuid, Vec<(usize, Timestamp, Uuid)>> = BTreeMap::new();
    for port in objects.ports.iter().filter(|port| port.is_gateway()) {
        let Some(router) = port.router_id() else { continue };
        let infos = shown.get(&router).map_or(&[][..], Vec::as_slice);
        let place = infos.iter().position(|info| info.is_of(port)).unwrap_or(infos.len());
        siblings.entry(router).or_default().push((place, port.standard.created_at, port.id));
    }
    let mut ordinals = BTreeMap::new();
    for router in &mut objects.routers {
        let Some(ports) = siblings.get_mut(&router.id) else { continue };
        ports.sort();
        router.gw_port_id = ports.first().map(|(.., port)| *port);
        ordinals.extend((0_u64..).zip(ports).map(|(ordinal, (.., port))| (*port, ordinal)));
    }
    for port in &mut objects.ports {
        port.gateway_ordinal = ordinals.get(&port.id).copied();
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct FloatingRead {
    #[serde(flatten)]
    common: Common,
    floating_network_id: Uuid,
    floating_ip_address: Ipv4Addr,
    #[serde(default)]
    port_id: Option<Uuid>,
    #[serde(default)]
    fixed_ip_address: Option<Ipv4Addr>,
    #[serde(default)]
    router_id: Option<Uuid>,
    #[serde(default, deserialize_with = "or_default")]
    dns_name: String,
    #[serde(default, deserialize_with = "or_default")]
    dns_domain: String,
    #[serde(default)]
    port_forwardings: Value,
}

pub(super) fn floating_ip(
    objects: &mut Objects,
    read: FloatingRead,
    now: Timestamp,
) -> Result<FloatingIp, String> {
    objects.needs("network", read.floating_network_id)?;
    if says_something(&read.port_forwardings) {
        objects.note(
            "Port forwardings are not imported. Their load balancers in the Northbound stay as they are.",
        );
    }
    let holder = objects.holders.get(&(read.floating_network_id, read.floating_ip_address));
    let floating_port_id = *holder.ok_or("no port that holds its address is imported")?;
    let association = (read.port_id, read.fixed_ip_address, read.router_id);
    let (port_id, fixed_ip_address, router_id) = match association {
        (Some(port), Some(address), Some(router)) => (Some(port), Some(address), Some(router)),
        _ => (None, None, None),
    };
    port_id.map_or(Ok(()), |port| objects.needs("port", port))?;
    router_id.map_or(Ok(()), |router| objects.needs("router", router))?;
    let Identity { id, project, standard, .. } = read.common.told(now);
    Ok(FloatingIp {
        id,
        project,
        floating_network_id: read.floating_network_id,
        floating_ip_address: read.floating_ip_address,
        floating_port_id,
        port_id,
        fixed_ip_address,
        router_id,
        dns_name: read.dns_name,
        dns_domain: read.dns_domain,
        standard,
    })
}
