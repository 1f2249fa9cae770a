//! Everything Neutron's API told, as it told it: one list of objects for each collection.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The collections that are read: the path, and the key of the list in the answer.
pub(super) const COLLECTIONS: [(&str, &str); 11] = [
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

/// What marks a saved document.
const FORMAT: &str = "meridian-import-1";

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
    #[error("understand the file as a saved import")]
    Shape(#[from] serde_json::Error),
    /// It was saved by something else.
    #[error("the file is of the format {0:?}, {FORMAT:?} is expected")]
    Format(String),
}

impl Document {
    /// An empty one.
    pub fn new() -> Self {
        Document { format: FORMAT.to_owned(), collections: BTreeMap::new() }
    }

    /// Adds objects to a collection, by its key in answers.
    pub fn add(&mut self, collection: &str, objects: impl IntoIterator<Item = Value>) {
        self.collections.entry(collection.to_owned()).or_default().extend(objects);
    }

    /// The objects of a collection.
    pub fn get(&self, collection: &str) -> &[Value] {
        self.collections.get(collection).map_or(&[], Vec::as_slice)
    }

    /// As text that [`Document::parse`] reads.
    pub fn to_text(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.unwrap_or_else(|error| unreachable!("a document is plain data: {error}"))
    }

    /// Reads it back.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        let document: Document = serde_json::from_str(text)?;
        if document.format != FORMAT {
            return Err(DocumentError::Format(document.format));
        }
        Ok(document)
    }
}
