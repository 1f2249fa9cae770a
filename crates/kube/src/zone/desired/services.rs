//! Services as load balancers of the network.
//!
//! The switch and the node's gateway router share the load balancers through a group. All nodes have the same ones: a pod is
//! translated on its own node, whatever node the backend is on. Node ports are not here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ovn::nb::{LbProtocol, LoadBalancer, LoadBalancerGroup};
use ovn::text::{Backends, Endpoint, Text};
use ovsdb::{Ref, Set, Weak};

use super::{Draft, identity, map, text};
use crate::address::SharedMasquerade;
use crate::cluster::snapshot::Protocol;
use crate::zone::ZoneService;

/// Compiles the group of the network's load balancers, and its members. A network without services needs none.
pub(super) fn compile(draft: &mut Draft<'_>) -> Option<Ref<LoadBalancerGroup>> {
    let mut members = BTreeSet::new();
    for service in &draft.network.services {
        for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
            members.extend(balancer(draft, service, protocol).map(|row| row.uuid()));
        }
    }
    if members.is_empty() {
        return None;
    }
    let name = identity::group_name(&draft.network.network.name);
    let object = identity::of_balancers(&name);
    let members: Set<Weak<LoadBalancer>> = members.into_iter().map(Weak::new).collect();
    let row = LoadBalancerGroup { name: name.into(), load_balancer: members };
    Some(Ref::new(draft.own_marked(object, "balancers", row)))
}

/// The load balancer of a service's ports of one protocol.
fn balancer(draft: &mut Draft<'_>, service: &ZoneService, protocol: Protocol) -> Option<Ref<LoadBalancer>> {
    let network = &draft.network.network;
    let mut vips: BTreeMap<(IpAddr, u16), Vec<Endpoint>> = BTreeMap::new();
    for port in service.ports.iter().filter(|port| port.protocol == protocol) {
        let ours = service.addresses.iter().filter(|ip| network.subnets.of_family(**ip).is_some());
        for address in ours {
            let backends = port.backends.iter().filter(|(ip, _)| ip.is_ipv4() == address.is_ipv4());
            let backends = backends.map(|(ip, port)| Endpoint::new(*ip, *port)).collect();
            vips.insert((*address, port.port), backends);
        }
    }
    if vips.is_empty() {
        return None;
    }
    let hairpin: Vec<String> = SharedMasquerade::Hairpin
        .addresses(draft.snapshot.cluster.masquerade)
        .addresses()
        .all()
        .map(|address| address.to_string())
        .collect();
    let mut options = vec![
        ("hairpin_snat_ip", hairpin.join(" ").into()),
        ("neighbor_responder", "none".into()),
        // A client hears at once that a service has no backend.
        ("reject", "true".into()),
        ("skip_snat", "false".into()),
    ];
    options.extend(service.affinity.map(|seconds| ("affinity_timeout", text(seconds))));
    let mut external_ids = draft.external_ids();
    for (key, value) in [("k8s.ovn.org/kind", "Service"), (identity::SERVICE, service.name.as_str())] {
        external_ids.insert(key.into(), value.into());
    }
    let prefix = draft.network.network.name.row_prefix();
    let name = format!("{prefix}Service_{}_{}_cluster", service.name, protocol.as_str());
    let row = LoadBalancer {
        name: name.as_str().into(),
        vips: vips
            .into_iter()
            .map(|((ip, port), backends)| {
                (Text::from(Endpoint::new(ip, port)), Text::from(Backends(backends.into_boxed_slice())))
            })
            .collect(),
        protocol: Some(match protocol {
            Protocol::Tcp => LbProtocol::Tcp,
            Protocol::Udp => LbProtocol::Udp,
            Protocol::Sctp => LbProtocol::Sctp,
        }),
        options: map(options),
        external_ids,
        ..Default::default()
    };
    let object = identity::of_service(network_name(draft), &service.name);
    Some(draft.own_for(object, &format!("service {} {}", service.name, protocol.as_str()), row))
}

fn network_name<'d>(draft: &'d Draft<'_>) -> &'d str {
    draft.network.network.name.as_str()
}
