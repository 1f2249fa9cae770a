//! Objects of the API as parts of a snapshot.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde::Deserialize;
use serde_json::Value;

use super::kind::{Kind, Reader};
use super::snapshot::{
    AttachmentObject, ClaimObject, EgressIpObject, Meta, NamespaceObject, NetworkObject, NetworkScope,
    NodeObject, ObjectName, Owner, PodObject, PodRequest, Protocol, ServiceObject, ServicePort,
    SliceEndpoint, SliceObject, SlicePort,
};
use crate::annotation::{Annotation, PodNetworks};
use crate::crd::{
    ClusterUserDefinedNetworkSpec, EgressIPSpec, EgressIPStatus, Layer2Spec, NetworkStatus, Role,
    UserDefinedNetworkSpec,
};

/// The annotation in which a pod says what it wants of its primary network.
const REQUEST: &str = "v1.multus-cni.io/default-network";

/// The label of slices with addresses of our networks: the service whose slice was mirrored.
pub(crate) const MIRRORED_SERVICE: &str = "k8s.ovn.org/service-name";

/// The metadata; `keep_label` and `keep_annotation` say what stays in memory.
fn meta(
    metadata: ObjectMeta,
    keep_label: impl Fn(&str) -> bool,
    keep_annotation: impl Fn(&str) -> bool,
) -> Meta {
    // A custom resource may have an empty map, which is not the same as none to a patch.
    let has_annotations = metadata.annotations.is_some();
    let annotations = metadata.annotations.unwrap_or_default();
    let owner = |owner: k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference| Owner {
        kind: owner.kind,
        uid: owner.uid,
        is_controller: owner.controller == Some(true),
    };
    Meta {
        namespace: metadata.namespace.unwrap_or_default(),
        name: metadata.name.unwrap_or_default(),
        uid: metadata.uid.unwrap_or_default(),
        created: metadata.creation_timestamp.map_or(0, |time| time.0.as_second()),
        version: metadata.resource_version.and_then(|version| version.parse().ok()).unwrap_or(0),
        generation: metadata.generation.unwrap_or(0),
        is_deleting: metadata.deletion_timestamp.is_some(),
        has_annotations,
        annotations: annotations.into_iter().filter(|(key, _)| keep_annotation(key)).collect(),
        labels: metadata.labels.unwrap_or_default().into_iter().filter(|(key, _)| keep_label(key)).collect(),
        finalizers: metadata.finalizers.unwrap_or_default(),
        owners: metadata.owner_references.unwrap_or_default().into_iter().map(owner).collect(),
    }
}

/// A part of an object of the API.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// A node.
    Node(NodeObject),
    /// A namespace.
    Namespace(NamespaceObject),
    /// A pod.
    Pod(PodObject),
    /// A network of one namespace.
    Network(NetworkObject),
    /// A network of several namespaces.
    ClusterNetwork(NetworkObject),
    /// An attachment definition.
    Attachment(AttachmentObject),
    /// A claim of addresses.
    Claim(ClaimObject),
    /// Addresses with which pods leave the cluster.
    EgressIp(EgressIpObject),
    /// A service.
    Service(ServiceObject),
    /// A part of a service's endpoints.
    Slice(SliceObject),
}

/// The part of an object that decides something for a program. `None` for networks of other kinds, and for pods and slices that
/// are of no concern to a node.
pub(crate) fn decode(reader: Reader, kind: Kind, object: DynamicObject) -> Option<Part> {
    Some(match kind {
        Kind::Node => Part::Node(node(object)),
        Kind::Namespace => Part::Namespace(namespace(object)),
        Kind::Pod => {
            let pod = pod(object);
            let is_ours = |networks: &PodNetworks| networks.keys().any(|key| key != PodNetworks::DEFAULT);
            let concerns_nodes = match &pod.networks {
                Ok(networks) => networks.as_ref().is_some_and(is_ours),
                Err(_) => true,
            };
            if reader == Reader::Node && !concerns_nodes {
                return None;
            }
            Part::Pod(pod)
        }
        Kind::UserDefinedNetwork => Part::Network(network(object)?),
        Kind::ClusterUserDefinedNetwork => Part::ClusterNetwork(cluster_network(object)?),
        Kind::Attachment => Part::Attachment(attachment(object)),
        Kind::Claim => Part::Claim(claim(object)),
        Kind::EgressIp => Part::EgressIp(egress_ip(object)),
        Kind::Service => Part::Service(service(object)),
        Kind::EndpointSlice => {
            let is_mirrored =
                object.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(MIRRORED_SERVICE));
            if reader == Reader::Node && !is_mirrored {
                return None;
            }
            Part::Slice(slice(object))
        }
    })
}

/// A node: its annotations and labels of `k8s.ovn.org`, and whether it is ready.
fn node(object: DynamicObject) -> NodeObject {
    let is_ours = |key: &str| key.starts_with("k8s.ovn.org/");
    let mut conditions = list_at(&object.data, "/status/conditions");
    let ready = conditions.find(|it| text_at(it, "/type") == Some("Ready"));
    NodeObject {
        is_ready: ready.is_some_and(|it| text_at(it, "/status") == Some("True")),
        meta: meta(object.metadata, is_ours, is_ours),
    }
}

/// A namespace: its labels.
fn namespace(object: DynamicObject) -> NamespaceObject {
    NamespaceObject { meta: meta(object.metadata, |_| true, |_| false) }
}

/// A pod: its networks and its wishes.
fn pod(object: DynamicObject) -> PodObject {
    let request = match object.metadata.annotations.as_ref().and_then(|all| all.get(REQUEST)) {
        Some(text) => parse_request(text),
        None => Ok(PodRequest::default()),
    };
    let meta = meta(object.metadata, |_| false, |key| key == PodNetworks::KEY);
    let text = |path: &str| object.data.pointer(path).and_then(|value| value.as_str()).unwrap_or_default();
    PodObject {
        networks: PodNetworks::read(&meta.annotations),
        node: Some(text("/spec/nodeName").to_owned()).filter(|node| !node.is_empty()),
        is_host_network: object.data.pointer("/spec/hostNetwork") == Some(&Value::Bool(true)),
        is_finished: matches!(text("/status/phase"), "Succeeded" | "Failed"),
        request,
        meta,
    }
}

/// One element of the request: a network with what the pod wants of it.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Selection {
    #[serde(default)]
    mac: Option<String>,
    #[serde(default)]
    ipam_claim_reference: Option<String>,
}

fn parse_request(text: &str) -> Result<PodRequest, String> {
    let cannot = |cause: String| {
        format!("cannot read annotation {REQUEST}: {cause}; correct it and create the pod again")
    };
    // A bare name wants nothing in particular.
    if !text.trim_start().starts_with('[') {
        return Ok(PodRequest::default());
    }
    let mut list: Vec<Selection> = serde_json::from_str(text).map_err(|error| cannot(error.to_string()))?;
    let (Some(selection), 0) = (list.pop(), list.len()) else {
        return Err(cannot("expected one network".to_owned()));
    };
    let mac = selection.mac.map(|mac| mac.parse::<ovn::MacAddr>()).transpose();
    let mac = mac.map_err(|error| cannot(error.to_string()))?;
    if mac.is_some_and(|mac| mac.is_multicast() || mac == ovn::MacAddr::default()) {
        return Err(cannot("the MAC address is not one of a port".to_owned()));
    }
    Ok(PodRequest { mac, claim: selection.ipam_claim_reference.filter(|claim| !claim.is_empty()) })
}

/// A network of one namespace; `None` if it is not a primary layer-2 network.
fn network(object: DynamicObject) -> Option<NetworkObject> {
    let spec = object.data.get("spec")?;
    is_ours(spec)?;
    let parsed = UserDefinedNetworkSpec::deserialize(spec).map_err(|error| format!("spec: {error}"));
    let layer2 = parsed.and_then(|spec| spec.layer2.ok_or_else(|| "spec.layer2: missing".to_owned()));
    Some(network_object(object, NetworkScope::Namespace, layer2))
}

/// A network of several namespaces; `None` if it is not a primary layer-2 network.
fn cluster_network(object: DynamicObject) -> Option<NetworkObject> {
    let spec = object.data.get("spec")?;
    is_ours(spec.get("network")?)?;
    let parsed = ClusterUserDefinedNetworkSpec::deserialize(spec).map_err(|error| format!("spec: {error}"));
    let (selector, layer2) = match parsed {
        Ok(spec) => {
            let layer2 = spec.network.layer2.ok_or_else(|| "spec.network.layer2: missing".to_owned());
            (spec.namespace_selector, layer2)
        }
        Err(error) => (Default::default(), Err(error)),
    };
    Some(network_object(object, NetworkScope::Selector(selector), layer2))
}

/// Something, if the fields are those of a primary layer-2 network. Only the fields that say so need to be readable.
fn is_ours(spec: &Value) -> Option<()> {
    let topology = spec.get("topology")?.as_str()?;
    let role = Role::deserialize(spec.get("layer2")?.get("role")?).ok()?;
    (topology == "Layer2" && role == Role::Primary).then_some(())
}

fn network_object(
    object: DynamicObject,
    scope: NetworkScope,
    spec: Result<Layer2Spec, String>,
) -> NetworkObject {
    let status = object.data.get("status").map(NetworkStatus::deserialize);
    NetworkObject {
        // Labels and annotations are copied into the definition.
        meta: meta(object.metadata, |_| true, |_| true),
        scope,
        spec,
        conditions: status.and_then(|status| status.ok()).unwrap_or_default().conditions,
    }
}

/// An attachment definition.
fn attachment(object: DynamicObject) -> AttachmentObject {
    let config = object.data.pointer("/spec/config").and_then(|config| config.as_str());
    let config = config.unwrap_or_default().to_owned();
    AttachmentObject { meta: meta(object.metadata, |_| true, |_| true), config }
}

/// A claim of addresses.
fn claim(object: DynamicObject) -> ClaimObject {
    let text = |value: &Value| value.as_str().map(|text| text.to_owned());
    let addresses = object.data.pointer("/status/ips").and_then(|list| list.as_array());
    ClaimObject {
        network: object.data.pointer("/spec/network").and_then(text).unwrap_or_default(),
        addresses: addresses.map(|list| list.iter().filter_map(text).collect()).unwrap_or_default(),
        meta: meta(object.metadata, |_| false, |_| false),
    }
}

/// Addresses with which pods leave the cluster. A specification that does not parse has no selector and so matches nothing of ours.
fn egress_ip(object: DynamicObject) -> EgressIpObject {
    let spec = object.data.get("spec").cloned().unwrap_or_default();
    let (addresses, selectors) = match EgressIPSpec::deserialize(spec) {
        Ok(spec) => {
            let parse = |text: &String| {
                text.parse::<IpAddr>()
                    .map_err(|_| format!("spec.egressIPs: {text:?} is not an address such as 172.18.0.100"))
            };
            let addresses = spec.egress_ips.iter().map(parse).collect();
            (addresses, (spec.namespace_selector, spec.pod_selector))
        }
        Err(error) => (Err(format!("spec: {error}")), Default::default()),
    };
    let status = object.data.get("status").map(EgressIPStatus::deserialize);
    EgressIpObject {
        addresses,
        selectors,
        items: status.and_then(|status| status.ok()).unwrap_or_default().items,
        meta: meta(object.metadata, |_| false, |key| key.starts_with("k8s.ovn.org/")),
    }
}

/// Text at a place of a value.
fn text_at<'v>(value: &'v Value, path: &str) -> Option<&'v str> {
    value.pointer(path).and_then(|value| value.as_str()).filter(|text| !text.is_empty())
}

/// The elements of a list at a place of a value.
fn list_at<'v>(value: &'v Value, path: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    value.pointer(path).and_then(|list| list.as_array()).into_iter().flatten()
}

/// A number from 1 to 65535 at a place of a value.
fn port_at(value: &Value, path: &str) -> Option<u16> {
    let number = value.pointer(path)?.as_u64()?;
    u16::try_from(number).ok().filter(|number| *number != 0)
}

/// A service. Ports and addresses that do not parse are left out: the server would not have taken them.
fn service(object: DynamicObject) -> ServiceObject {
    let data = &object.data;
    let addresses = |path: &str| list_at(data, path).filter_map(|it| it.as_str()?.parse::<IpAddr>().ok());
    let single = text_at(data, "/spec/clusterIP").and_then(|text| text.parse::<IpAddr>().ok());
    let mut cluster: Vec<_> = addresses("/spec/clusterIPs").collect();
    if cluster.is_empty() {
        cluster.extend(single);
    }
    let ingress = list_at(data, "/status/loadBalancer/ingress");
    let ingress = ingress.filter_map(|it| text_at(it, "/ip")?.parse().ok());
    let ports = list_at(data, "/spec/ports").filter_map(|it| {
        Some(ServicePort {
            name: text_at(it, "/name").unwrap_or_default().to_owned(),
            protocol: Protocol::parse(text_at(it, "/protocol"))?,
            port: port_at(it, "/port")?,
            node_port: port_at(it, "/nodePort"),
        })
    });
    let affinity = data.pointer("/spec/sessionAffinityConfig/clientIP/timeoutSeconds");
    let affinity = affinity.and_then(|it| it.as_u64()).and_then(|it| u32::try_from(it).ok());
    ServiceObject {
        addresses: cluster,
        external_addresses: addresses("/spec/externalIPs").chain(ingress).collect(),
        ports: ports.collect(),
        is_local_outside: text_at(data, "/spec/externalTrafficPolicy") == Some("Local"),
        affinity: affinity.filter(|_| text_at(data, "/spec/sessionAffinity") == Some("ClientIP")),
        meta: meta(object.metadata, |_| true, |_| false),
    }
}

/// A part of a service's endpoints. Both versions of the API have the same fields, but for the node of an endpoint.
fn slice(object: DynamicObject) -> SliceObject {
    let data = &object.data;
    let ports = list_at(data, "/ports").filter_map(|it| {
        Some(SlicePort {
            name: text_at(it, "/name").unwrap_or_default().to_owned(),
            protocol: Protocol::parse(text_at(it, "/protocol"))?,
            port: port_at(it, "/port"),
        })
    });
    let endpoints = list_at(data, "/endpoints").map(|it| {
        let condition = |name: &str| it.pointer(&format!("/conditions/{name}")).and_then(|it| it.as_bool());
        let is_ready = condition("ready").unwrap_or(true);
        let node = text_at(it, "/nodeName").or_else(|| text_at(it, "/topology/kubernetes.io~1hostname"));
        let pod = text_at(it, "/targetRef/name").filter(|_| text_at(it, "/targetRef/kind") == Some("Pod"));
        SliceEndpoint {
            addresses: list_at(it, "/addresses").filter_map(|it| it.as_str()?.parse().ok()).collect(),
            is_ready,
            is_serving: condition("serving").unwrap_or(is_ready),
            is_terminating: condition("terminating").unwrap_or(false),
            node: node.map(|node| node.to_owned()),
            pod: pod.map(|name| ObjectName {
                namespace: text_at(it, "/targetRef/namespace").unwrap_or_default().to_owned(),
                name: name.to_owned(),
            }),
        }
    });
    SliceObject {
        address_type: text_at(data, "/addressType").unwrap_or_default().to_owned(),
        ports: ports.collect(),
        endpoints: endpoints.collect(),
        meta: meta(object.metadata, |_| true, |_| true),
    }
}
