//! All objects of an API as JSON: one list for each collection.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The collections of a network API: the path, and the key of the list in responses.
pub(super) const NETWORK: [(&str, &str); 11] = [
    ("address-scopes", "address_scopes"),
    ("subnetpools", "subnetpools"),
    ("networks", "networks"),
    ("subnets", "subnets"),
    ("security-groups", "security_groups"),
    ("security-group-rules", "security_group_rules"),
    ("ports", "ports"),
    ("routers", "routers"),
    ("floatingips", "floatingips"),
    ("rbac-policies", "rbac_policies"),
    ("quotas", "quotas"),
];

/// The collections of a load-balancer API; the path is the key.
pub(super) const BALANCERS: &str = "loadbalancers";
pub(super) const LISTENERS: &str = "listeners";
pub(super) const POOLS: &str = "pools";
pub(super) const MEMBERS: &str = "members";
pub(super) const MONITORS: &str = "healthmonitors";
pub(super) const QUOTAS: &str = "quotas";

/// The collections with a path of their own. Members are read pool by pool.
pub(super) fn balancer_collections() -> [(&'static str, &'static str); 5] {
    [BALANCERS, LISTENERS, POOLS, MONITORS, QUOTAS].map(|name| (name, name))
}

/// The format of a saved document of a network API.
const NETWORK_FORMAT: &str = "meridian-import-1";
/// The format of a saved document of a load-balancer API.
const BALANCER_FORMAT: &str = "meridian-import-balancers-1";

/// A cloud as its API returns it to an administrator. It can be saved to a file and loaded again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    format: String,
    collections: BTreeMap<String, Vec<Value>>,
}

/// A file that is not a saved document.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The file is not JSON, or has another structure.
    #[error("cannot parse the file as a saved import")]
    Shape(#[from] serde_json::Error),
    /// Another program or version saved the file.
    #[error("the file has the format {0:?}; expected {1:?}")]
    Format(String, &'static str),
}

impl Document {
    /// An empty document for a network API.
    pub fn of_network() -> Self {
        Document { format: NETWORK_FORMAT.to_owned(), collections: BTreeMap::new() }
    }

    /// An empty document for a load-balancer API.
    pub fn of_balancers() -> Self {
        Document { format: BALANCER_FORMAT.to_owned(), collections: BTreeMap::new() }
    }

    /// Adds objects to a collection, named by its key in responses.
    pub fn add(&mut self, collection: &str, objects: impl IntoIterator<Item = Value>) {
        self.collections.entry(collection.to_owned()).or_default().extend(objects);
    }

    /// The objects of a collection.
    pub fn get(&self, collection: &str) -> &[Value] {
        self.collections.get(collection).map_or(&[], Vec::as_slice)
    }

    /// The document as a string, for [`Document::parse_network`] or [`Document::parse_balancers`].
    pub fn to_text(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.unwrap_or_else(|error| unreachable!("a document is plain data: {error}"))
    }

    /// Parses a saved network API.
    pub fn parse_network(text: &str) -> Result<Self, DocumentError> {
        Self::parse(text, NETWORK_FORMAT)
    }

    /// Parses a saved load-balancer API.
    pub fn parse_balancers(text: &str) -> Result<Self, DocumentError> {
        Self::parse(text, BALANCER_FORMAT)
    }

    fn parse(text: &str, format: &'static str) -> Result<Self, DocumentError> {
        let document: Document = serde_json::from_str(text)?;
        if document.format != format {
            return Err(DocumentError::Format(document.format, format));
        }
        Ok(document)
    }
}
