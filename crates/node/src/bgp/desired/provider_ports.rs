//! D1: ports of provider networks that are bound here, virtual ones where they are claimed.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::IpAddr;

use ipnet::IpNet;
use ovn::PortType;
use ovsdb::Uuid;

use super::draft::Draft;
use super::networks::Networks;
use super::{NamedRow, Reason};
use crate::ProblemCode;
use crate::bgp::snapshot::{is_lost, opted_out};

pub(super) fn expose(draft: &mut Draft<'_>, networks: &Networks, me: Uuid) {
    let snapshot = draft.snapshot;
    for (row, port) in snapshot.bound_to(me) {
        match &port.kind {
            PortType::Vif | PortType::Virtual => {}
            PortType::Other(kind) => {
                let what = format!(
                    "it is bound here and of the type {kind:?}, which this version does not know, so it is not exposed; look \
                     for a newer version"
                );
                draft.stray(port, ProblemCode::UnknownPortType, what);
                continue;
            }
            _ => continue,
        }
        let Some(network) = networks.of(port.datapath.uuid()) else {
            if is_lost(snapshot, port) {
                let what = "it is bound here, and the Southbound database has no switch for it, so it is not exposed; check \
                 that ovn-northd is running";
                draft.stray(port, ProblemCode::NoDatapath, what);
            }
            continue;
        };
        if opted_out(port) {
            continue;
        }
        draft.read(port);
        for ip in port.ips() {
            draft.wire(
                ip,
                network,
                None,
                Reason::ProviderPort { port: NamedRow::new(&port.logical_port, row) },
            );
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
