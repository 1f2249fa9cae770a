//! The text of an attachment definition: `spec.config`, a JSON string of ovn-kubernetes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AttachmentKey, ClusterNetwork, Layer2Input, Layer2Network, NetworkName, describe_problems};

/// The CNI plugin that reads our definitions.
const PLUGIN: &str = "ovn-k8s-cni-overlay";
/// The longest text that is read.
const LONGEST: usize = 64 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    cni_version: String,
    r#type: String,
    name: String,
    net_attach_def_name: String,
    topology: String,
    role: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mtu: Option<u32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    subnets: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reserved_subnets: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    infrastructure_subnets: String,
    #[serde(default, rename = "defaultGatewayIPs", skip_serializing_if = "String::is_empty")]
    default_gateway_ips: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    join_subnet: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transit_subnet: Option<String>,
    #[serde(default, rename = "allowPersistentIPs", skip_serializing_if = "is_false")]
    allow_persistent_ips: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A definition that names our plugin and does not describe a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text has another form.
    #[error("spec.config: {cause}; correct the definition")]
    Form {
        /// The cause.
        cause: String,
    },
    /// The definition names a network of another namespace.
    #[error(
        "spec.config: name: a definition in namespace {namespace} may not join {network:?}; begin the name with {namespace}_"
    )]
    ForeignName {
        /// The definition's namespace.
        namespace: String,
        /// The network.
        network: String,
    },
    /// Fields break rules.
    #[error("{problems}")]
    Rules {
        /// All of them.
        problems: String,
    },
}

/// Prints the text of a network's definition.
pub fn render_config(network: &Layer2Network, key: &AttachmentKey) -> String {
    let list = |nets: &mut dyn Iterator<Item = String>| nets.collect::<Vec<_>>().join(",");
    let text = Text {
        cni_version: "1.1.0".to_owned(),
        r#type: PLUGIN.to_owned(),
        name: network.name.to_string(),
        net_attach_def_name: key.to_string(),
        topology: "layer2".to_owned(),
        role: "primary".to_owned(),
        mtu: network.mtu,
        subnets: list(&mut network.subnets.nets().map(|net| net.to_string())),
        reserved_subnets: list(&mut network.reserved.iter().map(|net| net.to_string())),
        infrastructure_subnets: list(&mut network.infrastructure.iter().map(|net| net.to_string())),
        default_gateway_ips: list(&mut network.chosen_gateways.all().map(|address| address.to_string())),
        join_subnet: list(&mut network.join.nets().map(|net| net.to_string())),
        transit_subnet: Some(list(&mut network.transit.nets().map(|net| net.to_string()))),
        allow_persistent_ips: network.persistent,
    };
    serde_json::to_string(&text).unwrap_or_default()
}

/// Parses a definition's text. `None` if it is not a primary layer-2 network of our plugin.
pub fn parse_config(
    text: &str,
    key: &AttachmentKey,
    cluster: &ClusterNetwork,
) -> Result<Option<Layer2Network>, ConfigError> {
    let form = |cause: String| ConfigError::Form { cause };
    if text.len() > LONGEST {
        return Err(form(format!("longer than {LONGEST} bytes")));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| form(format!("not JSON: {error}")))?;
    let field = |name: &str| value.get(name).and_then(|value| value.as_str());
    if field("type") != Some(PLUGIN)
        || field("topology") != Some("layer2")
        || field("role") != Some("primary")
    {
        return Ok(None);
    }
    let text = Text::deserialize(&value).map_err(|error| form(error.to_string()))?;
    if text.net_attach_def_name != key.to_string() {
        let named: String = text.net_attach_def_name.chars().take(80).collect();
        return Err(form(format!("netAttachDefName is {named:?} and must be {:?}", key.to_string())));
    }
    let name: NetworkName = text.name.parse().map_err(|error: super::NameError| form(error.to_string()))?;
    let input = Layer2Input {
        path: "spec.config: ",
        join_field: "joinSubnet",
        mtu: text.mtu,
        subnets: split(&text.subnets),
        reserved: split(&text.reserved_subnets),
        infrastructure: split(&text.infrastructure_subnets),
        gateways: split(&text.default_gateway_ips),
        join: split(&text.join_subnet),
        transit: text.transit_subnet.as_deref().map(split),
        is_allocated: true,
        persistent: text.allow_persistent_ips,
    };
    let network = input.check(name, cluster);
    network.map(Some).map_err(|problems| ConfigError::Rules { problems: describe_problems(&problems) })
}

impl ConfigError {
    /// Refuses a definition without an owner whose network's name belongs to somebody else.
    pub fn unless_own_name(network: &Layer2Network, key: &AttachmentKey) -> Result<(), ConfigError> {
        if network.name.belongs_to_namespace(&key.namespace) {
            return Ok(());
        }
        Err(ConfigError::ForeignName { namespace: key.namespace.clone(), network: network.name.to_string() })
    }
}

/// The parts of a comma-separated list.
fn split(list: &str) -> Vec<String> {
    list.split(',')
        .map(|part| part.trim())
        .filter(|part| !part.is_empty())
        .map(|part| part.to_owned())
        .collect()
}
