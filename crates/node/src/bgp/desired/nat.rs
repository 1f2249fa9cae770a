//! D3: addresses that routers translate: floating IPs, and load balancers where OVN lists them. OVN tells for which port
//! each is; it is exposed where that port is, be it an instance's (distributed) or the router's gateway port (centralized).

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use ovn::PortType;
use ovn::sb::PortBinding;
use ovn::text::{HostAddr, NatAddresses};
use ovsdb::Uuid;

use super::draft::Draft;
use super::networks::Networks;
use super::{NamedRow, Reason};
use crate::ProblemCode;
use crate::bgp::snapshot::{Role, opted_out};

pub(super) fn expose(draft: &mut Draft<'_>, networks: &Networks, me: Uuid) {
    let snapshot = draft.snapshot;
    for (row, port) in snapshot.ports_as(Role::Nat) {
        let Some(network) = networks.of(port.datapath.uuid()) else { continue };
        for text in port.nat_addresses.iter() {
            let entry = match text.parsed() {
                Ok(entry) => entry,
                Err(error) => {
                    let what = format!("its nat_addresses {:?} do not parse: {error}", text.to_string());
                    draft.unreadable(port, ProblemCode::BadNatAddresses, what);
                    continue;
                }
            };
            let NatAddresses::Announce { mac, resident, ips } = entry else { continue };
            let resident = match resident {
                Some(name) => match snapshot.port(name) {
                    Some((resident_row, resident)) if resident.is_bound(me) && !opted_out(resident) => {
                        Some(NamedRow::new(&resident.logical_port, resident_row))
                    }
                    _ => continue,
                },
                None if is_here(port, me) => None,
                None => continue,
            };
            // A router that is here as a whole also lists its own addresses, for which it answers its own subnet only.
            let neighbour = resident.is_none().then_some(*mac);
            for host in ips {
                if is_network(host) {
                    let what = format!(
                        "its nat_addresses have the prefix {}, which is no host's address, so it is not exposed; OVN announces hosts",
                        host.to_net()
                    );
                    draft.stray(port, ProblemCode::BadNatAddresses, what);
                    continue;
                }
                let ip = host.addr;
                let port = NamedRow::new(&port.logical_port, row);
                draft.wire(ip, network, neighbour, Reason::Nat { port, resident: resident.clone() });
            }
        }
    }
}

/// Whether an entry stands for a network: it begins where its prefix does.
fn is_network(host: &HostAddr) -> bool {
    let net = host.to_net();
    net.prefix_len() < net.max_prefix_len() && net.addr() == net.network()
}

/// Whether a port leads to a router that is on this chassis as a whole.
fn is_here(port: &PortBinding, me: Uuid) -> bool {
    port.kind == PortType::L3Gateway && port.is_bound(me)
}
