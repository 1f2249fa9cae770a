//! Names of networks and of their attachment definitions, and the prefix of their rows.

use std::fmt;
use std::str::FromStr;

/// The start of the name of a cluster-wide network. No namespace contains `_`, so no other network has it.
const CLUSTER: &str = "cluster_udn_";

/// The name of a network: `test12_namespace-scoped`, `cluster_udn_production`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkName(String);

/// A string that is not a network's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not the name of a network; use letters, digits, '-', '.', '_' and '/', at most 320 of them"
)]
pub struct NameError {
    text: String,
}

impl NetworkName {
    /// The network of a UserDefinedNetwork.
    pub fn of_namespaced(namespace: &str, name: &str) -> NetworkName {
        NetworkName(format!("{namespace}_{name}"))
    }

    /// The network of a ClusterUserDefinedNetwork.
    pub fn of_cluster(name: &str) -> NetworkName {
        NetworkName(format!("{CLUSTER}{name}"))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if a definition in this namespace may choose the name without an owner. Otherwise a tenant could join the network
    /// of another namespace by its name.
    pub fn belongs_to_namespace(&self, namespace: &str) -> bool {
        self.0.strip_prefix(namespace).is_some_and(|rest| rest.len() > 1 && rest.starts_with('_'))
    }

    /// The name of the network's switch.
    pub fn switch_name(&self) -> String {
        format!("{}ovn_layer2_switch", self.row_prefix())
    }

    /// The start of the names of all rows of this network: `test12_namespace.scoped_`.
    pub fn row_prefix(&self) -> String {
        row_prefix(&self.0)
    }
}

/// OVN's match language has a meaning for `-` and `/`, so the names of rows do without them.
fn row_prefix(text: &str) -> String {
    let mut prefix = text.replace(['-', '/'], ".");
    prefix.push('_');
    prefix
}

impl fmt::Display for NetworkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for NetworkName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/".contains(&byte);
        if text.is_empty() || text.len() > 320 || !text.bytes().all(is_plain) {
            return Err(NameError { text: text.chars().take(80).collect() });
        }
        Ok(NetworkName(text.to_owned()))
    }
}

/// The namespace and the name of an attachment definition: `test12/namespace-scoped`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttachmentKey {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl AttachmentKey {
    /// A key of these.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> AttachmentKey {
        AttachmentKey { namespace: namespace.into(), name: name.into() }
    }

    /// The start of the names of the ports of pods: `test12.namespace.scoped_`.
    pub fn row_prefix(&self) -> String {
        row_prefix(&self.to_string())
    }
}

impl fmt::Display for AttachmentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
