//! D5: ports in exposed subnets, wherever they are bound. Their packets enter through the router, so they need no wiring of
//! their own; where the subnet itself is announced, they need nothing.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use ovn::PortType;
use ovn::sb::{LoadBalancer, PortBinding};

use super::draft::Draft;
use super::subnets::{TenantSwitch, wanted};
use super::{NamedRow, Reason};
use crate::bgp::config::Advertisement;
use crate::bgp::snapshot::{is_vip_port, opted_out};

pub(super) fn expose(draft: &mut Draft<'_>, switches: &[TenantSwitch]) {
    let snapshot = draft.snapshot;
    if switches.is_empty() || snapshot.config.advertisement == Advertisement::Subnet {
        return;
    }
    let vips: BTreeSet<IpAddr> = snapshot
        .sb
        .table::<LoadBalancer>()
        .iter()
        .flat_map(|(_, lb)| lb.vips.keys().filter_map(|text| text.value()).map(|vip| vip.ip))
        .collect();
    for TenantSwitch { switch, nets, gateway } in switches {
        for (row, port) in snapshot.ports_on(*switch) {
            if !matters(port, &vips) || opted_out(port) {
                continue;
            }
            draft.read(port);
            for ip in port.ips() {
                let Some(net) = nets.iter().find(|net| net.contains(&ip)) else { continue };
                if wanted(&snapshot.config, IpNet::from(ip), &[port]) {
                    let port = NamedRow::new(&port.logical_port, row);
                    draft.cover(ip, *net, Reason::TenantPort { port, gateway: gateway.clone() });
                }
            }
        }
    }
}

/// Whether there is something at the port: an instance that is bound somewhere, an address that moves between such, or a
/// load balancer, which has no place of its own.
fn matters(port: &PortBinding, vips: &BTreeSet<IpAddr>) -> bool {
    match port.kind {
        PortType::Virtual => true,
        PortType::Vif => {
            port.chassis.is_some() || is_vip_port(port) || port.ips().iter().any(|ip| vips.contains(ip))
        }
        _ => false,
    }
}
