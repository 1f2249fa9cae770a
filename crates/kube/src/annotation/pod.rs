//! The networks of a pod.
//!
//! Two programs share this annotation: the one of the default network writes the entry `default`, this one the entries of its
//! networks. So an entry that is not ours is kept as it stands, whatever it contains.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use ovn::MacAddr;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Annotation, from_json, to_json};

/// The networks of a pod by the key of their attachment definition (`default`, `test12/namespace-scoped`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodNetworks(BTreeMap<String, Value>);

impl PodNetworks {
    /// The key of the default network.
    pub const DEFAULT: &'static str = "default";

    /// The pod's addresses in a network, if the entry is there.
    pub fn get(&self, key: &str) -> Option<Result<PodNetwork, String>> {
        let entry = self.0.get(key)?;
        let parsed = PodNetwork::deserialize(entry).map_err(|error| format!("the entry {key}: {error}"));
        Some(parsed.and_then(|network| network.checked(key)))
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|key| key.as_str())
    }

    /// Sets the pod's addresses in a network.
    pub fn set(&mut self, key: &str, network: &PodNetwork) {
        let entry = serde_json::to_value(network).unwrap_or_default();
        self.0.insert(key.to_owned(), entry);
    }
}

impl Annotation for PodNetworks {
    const KEY: &'static str = "k8s.ovn.org/pod-networks";

    fn parse(text: &str) -> Result<Self, String> {
        from_json(text).map(PodNetworks)
    }

    fn format(&self) -> String {
        to_json(&self.0)
    }
}

/// A pod's addresses in one network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodNetwork {
    /// The addresses with prefix lengths, IPv4 first.
    pub ip_addresses: Vec<IpNet>,
    /// The MAC address.
    pub mac_address: MacAddr,
    /// The default gateways.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateway_ips: Vec<IpAddr>,
    /// Routes beside the default ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<PodRoute>,
    /// The address again, if it is the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<IpNet>,
    /// The gateway again, if it is the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_ip: Option<IpAddr>,
    /// The link-local address of the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6_lla_gateway_ip: Option<Ipv6Addr>,
    /// The tunnel key of the pod's port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel_id: Option<u16>,
    /// `primary`, or another role for networks of other programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// A route of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodRoute {
    /// The destination.
    pub dest: IpNet,
    /// The next hop.
    #[serde(rename = "nextHop")]
    pub next_hop: IpAddr,
}

impl PodNetwork {
    /// The addresses, or the single one of an older writer.
    pub fn addresses(&self) -> impl Iterator<Item = IpNet> {
        let single = self.ip_address.filter(|_| self.ip_addresses.is_empty());
        self.ip_addresses.iter().copied().chain(single)
    }

    fn checked(self, key: &str) -> Result<PodNetwork, String> {
        if self.mac_address.is_multicast() || self.mac_address == MacAddr::default() {
            return Err(format!("the entry {key}: {} is not the address of a port", self.mac_address));
        }
        let mut families = [0, 0];
        self.addresses().for_each(|net| families[usize::from(net.addr().is_ipv6())] += 1);
        match families {
            [0, 0] => Err(format!("the entry {key} has no address")),
            [0 | 1, 0 | 1] => Ok(self),
            _ => Err(format!("the entry {key} has several addresses of one family")),
        }
    }
}
