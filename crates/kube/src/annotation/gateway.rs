//! The gateway of a node, as the node describes it.
//!
//! The annotation is that of ovn-kubernetes: booleans and numbers are strings, and a list with one value appears a second time
//! as a single field. A reader uses the single field only where the list is absent.

use std::net::IpAddr;

use ipnet::IpNet;
use ovn::MacAddr;
use serde::{Deserialize, Serialize};

use super::{Annotation, from_json, quote, to_json};

/// Where a node's traffic leaves the overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GatewayMode {
    /// Through the external bridge.
    Shared,
    /// Through the host's own routes.
    Local,
}

/// The gateway of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct L3GatewayConfig {
    /// Where traffic leaves the overlay.
    pub mode: GatewayMode,
    /// The external bridge.
    pub bridge: String,
    /// The external bridge's interface on the default network's external switch.
    pub interface: String,
    /// The MAC address of the external bridge.
    pub mac: MacAddr,
    /// The addresses of the external bridge.
    pub addresses: Vec<IpNet>,
    /// The routers outside. Empty without a default route.
    pub next_hops: Vec<IpAddr>,
    /// Whether the node answers on node ports.
    pub has_node_ports: bool,
    /// The VLAN of the external network.
    pub vlan: Option<u16>,
}

/// The annotation's value: a gateway, or none because the node has switched it off.
#[derive(Serialize, Deserialize)]
struct Text {
    default: DefaultGateway,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct DefaultGateway {
    mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bridge_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interface_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mac_address: Option<MacAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ip_addresses: Option<Vec<IpNet>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ip_address: Option<IpNet>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_hops: Option<Vec<IpAddr>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_hop: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node_port_enable: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vlan_id: Option<String>,
}

impl Annotation for Option<L3GatewayConfig> {
    const KEY: &'static str = "k8s.ovn.org/l3-gateway-config";

    fn parse(text: &str) -> Result<Self, String> {
        let Text { default: raw } = from_json(text)?;
        let mode = match raw.mode.as_str() {
            "disabled" => return Ok(None),
            "shared" => GatewayMode::Shared,
            "local" => GatewayMode::Local,
            other => return Err(format!("the mode {} is not shared, local or disabled", quote(other))),
        };
        let vlan = match raw.vlan_id.as_deref() {
            None => None,
            Some(text) => {
                let number = text.parse::<u16>().ok().filter(|number| *number <= 4095);
                let number = number.ok_or_else(|| format!("vlan-id {} is not 0 to 4095", quote(text)))?;
                Some(number).filter(|number| *number != 0)
            }
        };
        let has_node_ports = match raw.node_port_enable.as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => return Err(format!("node-port-enable {} is not true or false", quote(other))),
        };
        let next_hop = match raw.next_hop.as_deref() {
            None | Some("") => None,
            Some(text) => {
                Some(text.parse().map_err(|_| format!("next-hop {} is not an address", quote(text)))?)
            }
        };
        let addresses = raw.ip_addresses.unwrap_or_else(|| raw.ip_address.into_iter().collect());
        if addresses.is_empty() {
            return Err("it has no address".to_owned());
        }
        Ok(Some(L3GatewayConfig {
            mode,
            bridge: name("bridge-id", raw.bridge_id)?,
            interface: name("interface-id", raw.interface_id)?,
            mac: raw.mac_address.ok_or("it has no mac-address")?,
            addresses,
            next_hops: raw.next_hops.unwrap_or_else(|| next_hop.into_iter().collect()),
            has_node_ports,
            vlan,
        }))
    }

    fn format(&self) -> String {
        let Some(config) = self else { return "{\"default\":{\"mode\":\"disabled\"}}".to_owned() };
        let mode = match config.mode {
            GatewayMode::Shared => "shared",
            GatewayMode::Local => "local",
        };
        let only_hop = match config.next_hops.as_slice() {
            [hop] => Some(hop.to_string()),
            _ => None,
        };
        let only_address = match config.addresses.as_slice() {
            [address] => Some(*address),
            _ => None,
        };
        to_json(&Text {
            default: DefaultGateway {
                mode: mode.to_owned(),
                bridge_id: Some(config.bridge.clone()),
                interface_id: Some(config.interface.clone()),
                mac_address: Some(config.mac),
                ip_addresses: Some(config.addresses.clone()),
                ip_address: only_address,
                next_hops: Some(config.next_hops.clone()),
                next_hop: only_hop,
                node_port_enable: Some(config.has_node_ports.to_string()),
                vlan_id: Some(config.vlan.unwrap_or(0).to_string()),
            },
        })
    }
}

/// A name that becomes part of the names of OVN's rows.
fn name(field: &str, value: Option<String>) -> Result<String, String> {
    let value = value.ok_or_else(|| format!("it has no {field}"))?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if value.is_empty() || value.len() > 253 || !value.bytes().all(is_plain) {
        return Err(format!("{field} {} is not a name", quote(&value)));
    }
    Ok(value)
}
