//! D1: ports of provider networks that are bound here, virtual ones where they are claimed.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::IpAddr;

use ipnet::IpNet;
use ovn::PortType;
use ovn::text::neutron::key;
use ovsdb::Uuid;

use super::draft::Draft;
use super::networks::Networks;
use super::{Named, Reason};
use crate::bgp::snapshot::opted_out;

pub(super) fn expose(draft: &mut Draft<'_>, networks: &Networks, me: Uuid) {
    let snapshot = draft.snapshot;
    for (row, port) in snapshot.bound_to(me) {
        if !matches!(port.kind, PortType::Vif | PortType::Virtual) {
            continue;
        }
        let Some(network) = networks.of(port.datapath.uuid()) else { continue };
        if opted_out(port) {
            continue;
        }
        draft.read(port);
        let ips = port.ips();
        if ips.is_empty() && port.external_ids.get(key::CIDRS).is_some_and(|text| !text.trim().is_empty()) {
            let what = format!("its {} cannot be read; expected addresses as 172.24.4.10/24", key::CIDRS);
            draft.unreadable(port, "bad-cidrs", what);
        }
        for ip in ips {
            draft.wire(ip, network, None, Reason::ProviderPort { port: Named::new(&port.logical_port, row) });
            if let (IpAddr::V6(ip), PortType::Virtual) = (ip, &port.kind) {
                draft.proxy(ip, network);
            }
        }
        if port.kind == PortType::Virtual {
            for cidr in port.cidrs().filter(|cidr| cidr.len.is_some()) {
                if let IpNet::V6(net) = cidr.to_net() {
                    draft.proxy(net.network(), network);
                }
            }
        }
    }
}
