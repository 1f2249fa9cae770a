//! From the API's objects to the inputs of a zone. Pure.
//!
//! Tenants write into definitions and pods, so everything that becomes a row is checked here once more: a pod is only on networks
//! of its own namespace, with addresses of the network that are not the gateway's, and with a key that no other pod has.
//!
//! An object that is not there has no rows. An object that is there and cannot be read keeps the rows that it has, because
//! somebody will correct it: the manager restores its annotations within a second.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use reconcile::{Class, ObjectId, Problem};

use super::desired::identity;
use super::migration::PodTraffic;
use super::{
    NameProfile, Topology, ZoneNetwork, ZoneNode, ZonePod, ZoneService, ZoneServicePort, ZoneSnapshot,
};
use crate::address::DualNet;
use crate::annotation::{
    Annotation, AnnotationError, Annotations, ChassisId, EncapAddresses, GatewayMtuSupport, GatewayPortKeys,
    L3GatewayConfig, NetworkNameAnnotation, NodePrimaryAddress, PodNetwork, PodNetworks, TopologyVersion,
    TransitPeerSubnet, TunnelKeys,
};
use crate::cluster::decode::MIRRORED_SERVICE;
use crate::cluster::snapshot::{
    AttachmentObject, ObjectName, PodObject, ServicePort, SliceEndpoint, SliceObject, Snapshot, by_age,
};
use crate::ident::{MANAGEMENT_PORT_KEY, NetworkId, NodeId, ROUTER_PORT_KEY};
use crate::network::{AttachmentKey, ClusterNetwork, ConfigError, Layer2Network, NetworkName, parse_config};
use crate::upgrade::LastingRows;

/// The annotation of a mirrored slice: the network whose addresses it has.
const SLICE_NETWORK: &str = "k8s.ovn.org/endpointslice-network";

/// The settings of a node's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneSettings {
    /// The node's name in the API.
    pub node: String,
    /// The addresses of the cluster.
    pub cluster: ClusterNetwork,
    /// The MTU of networks without one of their own.
    pub default_mtu: u32,
    /// How rows are named.
    pub profile: NameProfile,
    /// Services of the default network that pods of all networks may use.
    pub shared_services: BTreeSet<ObjectName>,
}

/// The inputs of a zone, and the objects that cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneContents {
    /// The nodes and the settings.
    pub zone: ZoneSnapshot,
    /// The networks with their pods.
    pub networks: Vec<ZoneNetwork>,
    /// The problems of objects.
    pub problems: Vec<Problem>,
    /// The objects in OVN that stay as they are.
    pub keep: BTreeSet<ObjectId>,
    /// The names of all networks that have definitions, whether they can be read or not.
    pub named: BTreeSet<String>,
}

/// The inputs of a zone, from the API's objects and the remote chassis in the Southbound.
pub fn gather(cluster: &Snapshot, settings: &ZoneSettings, remote_chassis: BTreeSet<String>) -> ZoneContents {
    let mut problems = Vec::new();
    let zone = gather_nodes(cluster, settings, remote_chassis, &mut problems);
    let mut out =
        ZoneContents { zone, networks: Vec::new(), problems, keep: BTreeSet::new(), named: BTreeSet::new() };
    let definitions = Definitions::read(cluster, settings, &mut out);
    definitions.gather_services(cluster, &mut out);
    definitions.gather_pods(cluster, &mut out);
    out
}

fn report(kind: &str, name: impl ToString, code: &'static str, message: String) -> Problem {
    Problem::error(ObjectId::new(kind, name.to_string()), Class::Refused, code, message)
}

fn gather_nodes(
    cluster: &Snapshot,
    settings: &ZoneSettings,
    remote_chassis: BTreeSet<String>,
    problems: &mut Vec<Problem>,
) -> ZoneSnapshot {
    let mut zone = ZoneSnapshot {
        local: settings.node.clone(),
        topology: Topology::New,
        cluster: settings.cluster.clone(),
        default_mtu: settings.default_mtu,
        profile: settings.profile,
        nodes: BTreeMap::new(),
        shared_services: BTreeMap::new(),
        remote_chassis,
        lasting: LastingRows::default(),
        unreadable: BTreeSet::new(),
    };
    for node in cluster.nodes.values() {
        let name = node.meta.name.clone();
        let read = match name == settings.node {
            true => read_local(&node.meta.annotations, &settings.cluster),
            false => read_remote(&node.meta.annotations, settings),
        };
        match read {
            Ok(Some(node)) => drop(zone.nodes.insert(name, node)),
            Ok(None) => {}
            Err(error) => {
                let message = format!("node {name}: {error}; its rows stay as they are");
                problems.push(report("node", &name, "unreadable-node", message));
                zone.unreadable.insert(name);
            }
        }
    }
    for name in &settings.shared_services {
        if let Some(service) = cluster.services.get(name).filter(|it| !it.addresses.is_empty()) {
            zone.shared_services.insert(name.to_string(), service.addresses.clone());
        }
    }
    zone
}

/// The node of the zone. It needs the description of its own gateway.
fn read_local(
    annotations: &Annotations,
    cluster: &ClusterNetwork,
) -> Result<Option<ZoneNode>, AnnotationError> {
    let Some(node) = read_node(annotations, cluster)? else { return Ok(None) };
    let Some(gateway) = Option::<L3GatewayConfig>::read(annotations)? else { return Ok(None) };
    Ok(Some(ZoneNode {
        gateway,
        addresses: NodePrimaryAddress::read(annotations)?.map_or(DualNet::default(), |it| it.0),
        has_gateway_mtu: GatewayMtuSupport::read(annotations)?.is_none_or(|it| it.0),
        is_new: true,
        ..node
    }))
}

/// A remote node, of which this zone knows only the ends of tunnels and addresses.
fn read_remote(
    annotations: &Annotations,
    settings: &ZoneSettings,
) -> Result<Option<ZoneNode>, AnnotationError> {
    let Some(node) = read_node(annotations, &settings.cluster)? else { return Ok(None) };
    let has_version = TopologyVersion::read(annotations)?.is_some();
    // ovn-kubernetes writes no peer subnets.
    let has_peers = node.peers.is_some() || settings.profile == NameProfile::Upstream;
    Ok(Some(ZoneNode { is_new: has_version && has_peers, ..node }))
}

/// Whether all subnets are in those of their family.
fn is_inside(nets: DualNet, within: DualNet) -> bool {
    let mut pairs = nets.nets().map(|net| (net, within.of_family(net.addr())));
    pairs.all(|(net, within)| within.is_some_and(|within| within.contains(&net)))
}

fn read_node(
    annotations: &Annotations,
    cluster: &ClusterNetwork,
) -> Result<Option<ZoneNode>, AnnotationError> {
    let (id, chassis) = (NodeId::read(annotations)?, ChassisId::read(annotations)?);
    let peers = match TransitPeerSubnet::read(annotations)? {
        Some(peers) if !peers.fits(cluster.peers) || !is_inside(peers.0, cluster.transit) => {
            let cause = format!("{} is no peer subnet of the cluster's transit subnets", peers.format());
            return Err(AnnotationError { key: TransitPeerSubnet::KEY, cause });
        }
        peers => peers,
    };
    let encaps = EncapAddresses::read(annotations)?;
    let (Some(id), Some(chassis)) = (id, chassis) else { return Ok(None) };
    Ok(Some(ZoneNode {
        id,
        chassis,
        encaps: encaps.map(|it| it.0).unwrap_or_default(),
        is_new: false,
        peers: peers.map(|it| it.0),
        gateway: None,
        addresses: DualNet::default(),
        has_gateway_mtu: true,
        old_keys: GatewayPortKeys::read(annotations)?.unwrap_or_default(),
    }))
}

/// A definition that can be read.
#[derive(Clone, Debug, PartialEq)]
struct Definition {
    network: Layer2Network,
    id: NetworkId,
    keys: TunnelKeys,
}

/// The definitions of networks.
struct Definitions {
    /// The network of each definition.
    by_key: BTreeMap<AttachmentKey, NetworkName>,
    /// The networks that have rows.
    decided: BTreeSet<NetworkName>,
}

impl Definitions {
    fn read(cluster: &Snapshot, settings: &ZoneSettings, out: &mut ZoneContents) -> Definitions {
        let mut by_key = BTreeMap::new();
        let mut found: BTreeMap<NetworkName, Vec<Definition>> = BTreeMap::new();
        // Networks of owners come before those that somebody wrote by hand, and older ones before newer ones: of two that claim
        // a number, the first has it.
        let mut order: Vec<(bool, NetworkName)> = Vec::new();
        for object in by_age(&cluster.attachments) {
            let key = AttachmentKey::new(&object.meta.namespace, &object.meta.name);
            let (name, read) = match read_definition(object, &key, &settings.cluster) {
                Ok(None) => continue,
                Ok(Some((name, definition))) => (name, Ok(definition)),
                Err((name, error)) => (name, Err(error)),
            };
            out.named.insert(name.to_string());
            by_key.insert(key.clone(), name.clone());
            match read {
                // The manager has not numbered it yet.
                Ok(None) => {}
                Ok(Some(definition)) => {
                    let is_by_hand = owner_of(object).is_none();
                    if !order.iter().any(|(_, known)| *known == name) {
                        order.push((is_by_hand, name.clone()));
                    }
                    found.entry(name).or_default().push(definition);
                }
                Err(message) => {
                    let message =
                        format!("definition {key}: {message}; the rows of its network stay as they are");
                    out.problems.push(report("definition", &key, "unreadable-definition", message));
                }
            }
        }
        order.sort_by_key(|(is_by_hand, _)| *is_by_hand);
        let mut decided = BTreeSet::new();
        let mut ids: BTreeMap<NetworkId, NetworkName> = BTreeMap::new();
        for (_, name) in order {
            let Some([first, others @ ..]) = found.get(&name).map(|all| all.as_slice()) else { continue };
            let message = match ids.get(&first.id) {
                Some(other) => format!("network {name} has the id {} of network {other}", first.id),
                None if others.iter().any(|it| it != first) => {
                    format!("the definitions of network {name} differ")
                }
                None => {
                    ids.insert(first.id, name.clone());
                    decided.insert(name);
                    let Definition { network, id, keys } = first.clone();
                    out.networks.push(ZoneNetwork {
                        network,
                        id,
                        keys,
                        pods: Vec::new(),
                        services: Vec::new(),
                    });
                    continue;
                }
            };
            let message = format!("{message}; its rows stay as they are; see that the manager runs");
            out.problems.push(report("network", &name, "network-conflict", message));
        }
        Definitions { by_key, decided }
    }

    fn gather_pods(self, cluster: &Snapshot, out: &mut ZoneContents) {
        let mut pods: BTreeMap<NetworkName, NetworkPods> = BTreeMap::new();
        for pod in by_age(&cluster.pods) {
            let Some(node) = pod.node.as_ref().filter(|_| !pod.is_finished && !pod.is_host_network) else {
                continue;
            };
            match &pod.networks {
                Ok(None) => {}
                Ok(Some(networks)) => self.place(pod, node, networks, &mut pods, out),
                Err(error) => {
                    let name = pod.meta.object_name();
                    let message = format!("pod {name}: {error}; its ports stay as they are");
                    out.problems.push(report("pod", &name, "unreadable-pod", message));
                    // Nobody knows which of them it uses.
                    let own = self.by_key.keys().filter(|key| key.namespace == pod.meta.namespace);
                    let ports = own.map(|key| identity::pod_port(key, &pod.meta.namespace, &pod.meta.name));
                    out.keep.extend(ports.map(|port| identity::of_pod(&port)));
                }
            }
        }
        for network in &mut out.networks {
            network.pods = pods.remove(&network.network.name).map(|all| all.ready).unwrap_or_default();
        }
        // What cannot be decided stays, with all pods that it may have.
        for name in self.by_key.values().filter(|name| !self.decided.contains(*name)) {
            let ports = pods.get(name).into_iter().flat_map(|all| &all.ports).cloned();
            let own = self.by_key.iter().filter(|(_, of)| *of == name).map(|(key, _)| &key.namespace);
            let own: BTreeSet<&String> = own.collect();
            let services = cluster.services.keys().filter(|service| own.contains(&service.namespace));
            let services = services.map(|service| service.to_string());
            out.keep.extend(identity::of_parts(&out.zone, name, ports, services));
        }
    }

    /// The services of the namespaces of each network, with the endpoints that the manager has mirrored for it.
    fn gather_services(&self, cluster: &Snapshot, out: &mut ZoneContents) {
        let mut slices: BTreeMap<(&str, &str, &str), Vec<&SliceObject>> = BTreeMap::new();
        for slice in cluster.slices.values() {
            let service = slice.meta.labels.get(MIRRORED_SERVICE);
            let network = slice.meta.annotations.get(SLICE_NETWORK);
            if let (Some(service), Some(network)) = (service, network) {
                let place = (network.as_str(), slice.meta.namespace.as_str(), service.as_str());
                slices.entry(place).or_default().push(slice);
            }
        }
        for found in &mut out.networks {
            let name = &found.network.name;
            let own = self.by_key.iter().filter(|(_, of)| *of == name).map(|(key, _)| &key.namespace);
            let own: BTreeSet<&String> = own.collect();
            for (service, object) in &cluster.services {
                if !own.contains(&service.namespace) || object.addresses.is_empty() {
                    continue;
                }
                let place = (name.as_str(), service.namespace.as_str(), service.name.as_str());
                let slices = slices.get(&place).map(|all| all.as_slice()).unwrap_or_default();
                let ports = object.ports.iter().map(|port| ZoneServicePort {
                    protocol: port.protocol,
                    port: port.port,
                    backends: backends(&found.network, port, slices),
                });
                found.services.push(ZoneService {
                    name: service.to_string(),
                    addresses: object.addresses.iter().chain(&object.external_addresses).copied().collect(),
                    ports: ports.collect(),
                    affinity: object.affinity,
                });
            }
        }
    }

    /// Puts a pod on the networks of its annotation.
    fn place(
        &self,
        pod: &PodObject,
        node: &str,
        networks: &PodNetworks,
        pods: &mut BTreeMap<NetworkName, NetworkPods>,
        out: &mut ZoneContents,
    ) {
        let meta = &pod.meta;
        for text in networks.keys() {
            let Some((namespace, name)) = text.split_once('/') else { continue };
            let key = AttachmentKey::new(namespace, name);
            // A pod may not join the network of another namespace through its definition there.
            let Some(network) = self.by_key.get(&key).filter(|_| namespace == meta.namespace) else {
                continue;
            };
            let port = identity::pod_port(&key, &meta.namespace, &meta.name);
            let all = pods.entry(network.clone()).or_default();
            all.ports.insert(port.clone());
            let Some(found) = out.networks.iter().find(|it| it.network.name == *network) else { continue };
            let read = networks.get(text).unwrap_or_else(|| Err("the entry is gone".to_owned()));
            match read.and_then(|addresses| all.check(&found.network, addresses)) {
                Ok(addresses) => all.ready.push(ZonePod {
                    attachment: key,
                    namespace: meta.namespace.clone(),
                    name: meta.name.clone(),
                    uid: meta.uid.clone(),
                    node: node.to_owned(),
                    addresses,
                    traffic: PodTraffic::default(),
                    egress: None,
                }),
                Err(cause) => {
                    let object = meta.object_name();
                    let message = format!("pod {object}: {cause}; its port stays as it is");
                    out.problems.push(report("pod", &object, "unreadable-pod", message));
                    out.keep.insert(identity::of_pod(&port));
                }
            }
        }
    }
}

/// The pods behind a port of a service. Slices are written in the namespace, so only addresses of the network count.
fn backends(network: &Layer2Network, port: &ServicePort, slices: &[&SliceObject]) -> BTreeSet<(IpAddr, u16)> {
    let of = |is_chosen: &dyn Fn(&SliceEndpoint) -> bool| -> BTreeSet<(IpAddr, u16)> {
        let mut all = BTreeSet::new();
        for slice in slices {
            let ports = slice.ports.iter().filter(|it| it.name == port.name && it.protocol == port.protocol);
            for number in ports.filter_map(|it| it.port) {
                let endpoints =
                    slice.endpoints.iter().filter(|it| is_chosen(it)).flat_map(|it| &it.addresses);
                let inside = endpoints.filter(|ip| network.may_be_requested(**ip));
                all.extend(inside.map(|ip| (*ip, number)));
            }
        }
        all
    };
    let ready = of(&|endpoint| endpoint.is_ready);
    // Pods that are about to end still answer, which is better than nobody.
    if ready.is_empty() { of(&|endpoint| endpoint.is_serving && endpoint.is_terminating) } else { ready }
}

/// The pods of a network.
#[derive(Default)]
struct NetworkPods {
    ready: Vec<ZonePod>,
    /// The names of all their ports.
    ports: BTreeSet<String>,
    /// The tunnel keys in use.
    keys: BTreeSet<u16>,
}

impl NetworkPods {
    /// The addresses of a pod, if it may have them.
    fn check(&mut self, network: &Layer2Network, pod: PodNetwork) -> Result<PodNetwork, String> {
        if let Some(address) = pod.addresses().map(|net| net.addr()).find(|it| !network.may_be_requested(*it))
        {
            return Err(format!("network {} has no address {address} for pods", network.name));
        }
        if pod.mac_address == network.gateway_mac() || pod.mac_address == network.management_mac() {
            return Err(format!("the MAC address {} belongs to the network itself", pod.mac_address));
        }
        match pod.tunnel_id {
            Some(0 | ROUTER_PORT_KEY | MANAGEMENT_PORT_KEY) => {
                Err("its tunnel key belongs to the network itself".to_owned())
            }
            Some(key) if !self.keys.insert(key) => Err(format!("another pod has its tunnel key {key}")),
            _ => Ok(pod),
        }
    }
}

/// The kind of the object that controls a definition.
fn owner_of(object: &AttachmentObject) -> Option<&str> {
    object.meta.owners.iter().find(|owner| owner.is_controller).map(|owner| owner.kind.as_str())
}

type Unread = (NetworkName, String);

/// A definition of ours, without numbers if it has none yet; `None` for those of other plugins.
fn read_definition(
    object: &AttachmentObject,
    key: &AttachmentKey,
    cluster: &ClusterNetwork,
) -> Result<Option<(NetworkName, Option<Definition>)>, Unread> {
    let of_owner = match owner_of(object) {
        Some("UserDefinedNetwork") => Some(NetworkName::of_namespaced(&key.namespace, &key.name)),
        Some("ClusterUserDefinedNetwork") => Some(NetworkName::of_cluster(&key.name)),
        _ => None,
    };
    let expected = of_owner.clone().unwrap_or_else(|| NetworkName::of_namespaced(&key.namespace, &key.name));
    let network = match parse_config(&object.config, key, cluster) {
        Ok(Some(network)) => network,
        Ok(None) => return Ok(None),
        // A text that is not JSON says nothing of our plugin.
        Err(_) if !object.config.contains("ovn-k8s-cni-overlay") => return Ok(None),
        Err(error) => return Err((expected, error.to_string())),
    };
    let name = network.name.clone();
    match of_owner {
        Some(owned) if owned != name => {
            return Err((owned.clone(), format!("it names network {name}, and its owner's is {owned}")));
        }
        Some(_) => {}
        None => ConfigError::unless_own_name(&network, key).map_err(|error| (expected, error.to_string()))?,
    }
    let annotations = &object.meta.annotations;
    let failed = |error: AnnotationError| (name.clone(), error.to_string());
    if let Some(NetworkNameAnnotation(other)) = NetworkNameAnnotation::read(annotations).map_err(failed)?
        && other != name
    {
        return Err((name.clone(), format!("its annotation names network {other}")));
    }
    let id = NetworkId::read(annotations).map_err(failed)?;
    let keys = TunnelKeys::read(annotations).map_err(failed)?;
    let (Some(id), Some(keys)) = (id, keys) else {
        return Ok(Some((name, None)));
    };
    if !keys.belong_to(id) {
        return Err((name, format!("its tunnel keys are not those of network id {id}")));
    }
    Ok(Some((name, Some(Definition { network, id, keys }))))
}

#[cfg(test)]
mod tests;
