//! The meaning of an address in a zone, in sentences for people.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::IpAddr;

use super::decider::ZoneInputs;
use super::desired::identity::pod_port;
use super::{ZoneNetwork, ZoneSnapshot};

/// Everything that an address stands for on the networks of a zone.
pub fn explain(inputs: &ZoneInputs, ip: IpAddr) -> Vec<String> {
    let zone = &inputs.gathered.zone;
    let mut said = Vec::new();
    for network in &inputs.gathered.networks {
        explain_pods(zone, network, ip, &mut said);
        explain_network(zone, network, ip, &mut said);
    }
    for (name, node) in &zone.nodes {
        if node.encaps.contains(&ip) {
            let known = match inputs.chassis.remote.contains(node.chassis.as_str()) {
                _ if *name == zone.local => "this node's own",
                true => "in the Southbound as a remote one",
                false => "not in the Southbound yet",
            };
            said.push(format!(
                "{ip} is the end of the tunnels to node {name}; its chassis {} is {known}.",
                node.chassis.as_str()
            ));
        }
    }
    for (service, addresses) in &zone.shared_services {
        if addresses.contains(&ip) {
            said.push(format!("{ip} is service {service} of the default network; pods of all networks reach it through the management port."));
        }
    }
    if said.is_empty() {
        said.push(format!("{ip} belongs to no network, no node and no shared service that this node knows."));
    }
    let mut problems: Vec<_> = inputs.gathered.problems.iter().map(|problem| problem.to_string()).collect();
    problems.retain(|problem| problem.contains(&ip.to_string()));
    said.extend(problems);
    said
}

fn explain_pods(zone: &ZoneSnapshot, network: &ZoneNetwork, ip: IpAddr, said: &mut Vec<String>) {
    let name = &network.network.name;
    for pod in network.pods.iter().filter(|pod| pod.addresses.addresses().any(|net| net.addr() == ip)) {
        let port = pod_port(&pod.attachment, &pod.namespace, &pod.name);
        let place = match &pod.node {
            node if *node == zone.local => "on this node".to_owned(),
            node => format!("on node {node}"),
        };
        let key =
            pod.addresses.tunnel_id.map_or("no tunnel key yet".to_owned(), |key| format!("tunnel key {key}"));
        said.push(format!(
            "{ip} is pod {}/{} on network {name}, {place}; its port is {port} with {key}.",
            pod.namespace, pod.name
        ));
        match zone.nodes.get(&pod.node) {
            None => {
                said.push(format!("Node {} has no id or no chassis, so the pod has no port here.", pod.node))
            }
            Some(node) if pod.node != zone.local && !zone.remote_chassis.contains(node.chassis.as_str()) => {
                said.push(format!(
                    "The chassis of node {} is not in the Southbound yet, so the pod has no port here.",
                    pod.node
                ));
            }
            Some(_) => {}
        }
    }
}

fn explain_network(zone: &ZoneSnapshot, network: &ZoneNetwork, ip: IpAddr, said: &mut Vec<String>) {
    let (name, of) = (&network.network.name, &network.network);
    if of.gateway.addresses().all().any(|it| it == ip) {
        said.push(format!(
            "{ip} is the default gateway of network {name}, with the MAC address {} on every node.",
            of.gateway_mac()
        ));
    }
    if of.management.addresses().all().any(|it| it == ip) {
        said.push(format!("{ip} is the management port of network {name} on every node."));
    }
    for service in network.services.iter().filter(|service| service.addresses.contains(&ip)) {
        for port in &service.ports {
            said.push(format!(
                "{ip} is service {} on network {name}; its port {} ({}) has {} pods.",
                service.name,
                port.port,
                port.protocol.as_str(),
                port.backends.len()
            ));
        }
    }
    for (node_name, node) in &zone.nodes {
        if node.join(of).addresses().all().any(|it| it == ip) {
            said.push(format!("{ip} is the join address of node {node_name} on network {name}."));
        }
        let Some(peers) = node.peer_subnet(of, zone) else { continue };
        for (side, router) in
            [(peers.router_side(), "transit router"), (peers.gateway_side(), "gateway router")]
        {
            if side.addresses().all().any(|it| it == ip) {
                said.push(format!(
                    "{ip} is the {router}'s end of the link of node {node_name} on network {name}."
                ));
            }
        }
    }
}
