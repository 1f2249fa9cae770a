//! Annotations of nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::{Annotation, from_json, quote, to_json};
use crate::address::{DualNet, PeerScheme};

/// The subnets between a node's gateway router and every transit router that uses the cluster's default transit subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransitPeerSubnet(pub DualNet);

impl TransitPeerSubnet {
    /// True if the prefix lengths are those of a scheme.
    pub fn fits(self, scheme: PeerScheme) -> bool {
        self.0.ipv4.is_none_or(|net| net.prefix_len() == scheme.ipv4_prefix())
            && self.0.ipv6.is_none_or(|net| net.prefix_len() == scheme.ipv6_prefix())
    }
}

impl Annotation for TransitPeerSubnet {
    const KEY: &'static str = "k8s.ovn.org/node-transit-peer-ports-subnet";

    fn parse(text: &str) -> Result<Self, String> {
        let nets: DualNet = from_json(text)?;
        if nets.is_empty() {
            return Err(format!("{} has neither ipv4 nor ipv6", quote(text)));
        }
        if let Some(net) = nets.nets().find(|net| net.trunc() != *net) {
            return Err(format!("{net} has host bits; expected {}", net.trunc()));
        }
        if let Some(net) = nets.ipv4.filter(|net| !matches!(net.prefix_len(), 30 | 31)) {
            return Err(format!("{net} is not a /30 or /31"));
        }
        if let Some(net) = nets.ipv6.filter(|net| net.prefix_len() != 127) {
            return Err(format!("{net} is not a /127"));
        }
        Ok(TransitPeerSubnet(nets))
    }

    fn format(&self) -> String {
        to_json(&self.0)
    }
}

/// The mark of a node that has switched to the transit router: `2.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopologyVersion;

impl Annotation for TopologyVersion {
    const KEY: &'static str = "k8s.ovn.org/layer2-topology-version";

    fn parse(text: &str) -> Result<Self, String> {
        if text == "2.0" { Ok(TopologyVersion) } else { Err(format!("{} is not \"2.0\"", quote(text))) }
    }

    fn format(&self) -> String {
        "2.0".to_owned()
    }
}

/// The tunnel keys of a gateway router's ports on the switches of the old topology, by network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayPortKeys(pub BTreeMap<String, u16>);

impl Annotation for GatewayPortKeys {
    const KEY: &'static str = "k8s.ovn.org/udn-layer2-node-gateway-router-lrp-tunnel-ids";

    fn parse(text: &str) -> Result<Self, String> {
        let raw: BTreeMap<String, String> = from_json(text)?;
        let mut keys = BTreeMap::new();
        for (network, key) in raw {
            let number = key.parse::<u16>().ok().filter(|number| (1..=32_766).contains(number));
            let number = number.filter(|number| number.to_string() == key);
            let number = number
                .ok_or_else(|| format!("{} of {} is not a tunnel key", quote(&key), quote(&network)))?;
            keys.insert(network, number);
        }
        Ok(GatewayPortKeys(keys))
    }

    fn format(&self) -> String {
        let text: BTreeMap<&str, String> =
            self.0.iter().map(|(network, key)| (network.as_str(), key.to_string())).collect();
        to_json(&text)
    }
}

/// The name of a node's chassis in the Southbound.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChassisId(String);

impl ChassisId {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Annotation for ChassisId {
    const KEY: &'static str = "k8s.ovn.org/node-chassis-id";

    fn parse(text: &str) -> Result<Self, String> {
        // The name goes into options of OVN, where a comma or a blank has a meaning.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if text.is_empty() || text.len() > 128 || !text.bytes().all(is_plain) {
            return Err(format!("{} is not the name of a chassis", quote(text)));
        }
        Ok(ChassisId(text.to_owned()))
    }

    fn format(&self) -> String {
        self.0.clone()
    }
}

/// The tunnel addresses of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncapAddresses(pub BTreeSet<IpAddr>);

impl Annotation for EncapAddresses {
    const KEY: &'static str = "k8s.ovn.org/node-encap-ips";

    fn parse(text: &str) -> Result<Self, String> {
        let addresses: BTreeSet<IpAddr> = from_json(text)?;
        if addresses.is_empty() {
            return Err("the list is empty".to_owned());
        }
        if let Some(address) = addresses.iter().find(|it| it.is_unspecified() || it.is_multicast()) {
            return Err(format!("{address} is not the address of a machine"));
        }
        Ok(EncapAddresses(addresses))
    }

    fn format(&self) -> String {
        to_json(&self.0)
    }
}

/// The node's addresses on the network of the cluster's nodes, with prefix lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePrimaryAddress(pub DualNet);

impl Annotation for NodePrimaryAddress {
    const KEY: &'static str = "k8s.ovn.org/node-primary-ifaddr";

    fn parse(text: &str) -> Result<Self, String> {
        dual(text).map(NodePrimaryAddress)
    }

    fn format(&self) -> String {
        to_json(&self.0)
    }
}

/// All addresses of a node, with prefix lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCidrs(pub BTreeSet<IpNet>);

impl Annotation for HostCidrs {
    const KEY: &'static str = "k8s.ovn.org/host-cidrs";

    fn parse(text: &str) -> Result<Self, String> {
        from_json(text).map(HostCidrs)
    }

    fn format(&self) -> String {
        to_json(&self.0)
    }
}

/// The subnets that a node masquerades with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MasqueradeSubnet(pub DualNet);

impl Annotation for MasqueradeSubnet {
    const KEY: &'static str = "k8s.ovn.org/node-masquerade-subnet";

    fn parse(text: &str) -> Result<Self, String> {
        dual(text).map(MasqueradeSubnet)
    }

    fn format(&self) -> String {
        to_json(&self.0)
    }
}

/// Whether router ports of a node may have `gateway_mtu`; a node without the annotation may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayMtuSupport(pub bool);

impl Annotation for GatewayMtuSupport {
    const KEY: &'static str = "k8s.ovn.org/gateway-mtu-support";

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "true" => Ok(GatewayMtuSupport(true)),
            "false" => Ok(GatewayMtuSupport(false)),
            other => Err(format!("{} is neither \"true\" nor \"false\"", quote(other))),
        }
    }

    fn format(&self) -> String {
        self.0.to_string()
    }
}

/// At least one address or subnet.
fn dual(text: &str) -> Result<DualNet, String> {
    let nets: DualNet = from_json(text)?;
    if nets.is_empty() {
        return Err(format!("{} has neither ipv4 nor ipv6", quote(text)));
    }
    Ok(nets)
}
