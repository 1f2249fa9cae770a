//! All objects of an API, as it shows them: one list for each collection.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The collections of a network API: the path, and the key of the list in the answer.
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

/// Collections of a load-balancer API; the path is the key.
pub(super) const BALANCERS: &str = "loadbalancers";
pub(super) const LISTENERS: &str = "listeners";
pub(super) const POOLS: &str = "pools";
pub(super) const MEMBERS: &str = "members";
pub(super) const MONITORS: &str = "healthmonitors";
pub(super) const QUOTAS: &str = "quotas";

/// The collections that have a path of their own. Members are read pool by pool.
pub(super) fn balancer_collections() -> [(&'static str, &'static str); 5] {
    [BALANCERS, LISTENERS, POOLS, MONITORS, QUOTAS].map(|name| (name, name))
}

/// What marks a saved document of a network API.
const NETWORK_FORMAT: &str = "meridian-import-1";
/// What marks a saved document of a load-balancer API.
const BALANCER_FORMAT: &str = "meridian-import-balancers-1";

/// A cloud as its API shows it to an administrator. Can be saved to a file and read back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    format: String,
    collections: BTreeMap<String, Vec<Value>>,
}

/// A file that is no saved document.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is not JSON, or has another shape.
    #[error("cannot parse the file as a saved import")]
    Shape(#[from] serde_json::Error),
    /// It was saved by something else.
    #[error("the file has the format {0:?}; expected {1:?}")]
    Format(String, &'static str),
}

impl Document {
    /// An empty one for the objects of a network API.
    pub fn of_network() -> Self {
        Document { format: NETWORK_FORMAT.to_owned(), collections: BTreeMap::new() }
    }

    /// An empty one for the objects of a load-balancer API.
    pub fn of_balancers() -> Self {
        Document { format: BALANCER_FORMAT.to_owned(), collections: BTreeMap::new() }
    }

    /// Adds objects to a collection, by its key in answers.
    pub fn add(&mut self, collection: &str, objects: impl IntoIterator<Item = Value>) {
        self.collections.entry(collection.to_owned()).or_default().extend(objects);
    }

    /// The objects of a collection.
    pub fn get(&self, collection: &str) -> &[Value] {
        self.collections.get(collection).map_or(&[], Vec::as_slice)
    }

    /// As text that [`Document::parse_network`] or [`Document::parse_balancers`] reads.
    pub fn to_text(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.unwrap_or_else(|error| unreachable!("a document is plain data: {error}"))
    }

    /// Reads back a saved network API.
    pub fn parse_network(text: &str) -> Result<Self, DocumentError> {
        Self::parse(text, NETWORK_FORMAT)
    }

    /// Reads back a saved load-balancer API.
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
