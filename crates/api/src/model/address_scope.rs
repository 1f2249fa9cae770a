//! Address scopes.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A space in which addresses do not overlap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressScope {
    /// Its id.
    pub id: Uuid,
    /// Owner.
    pub project: String,
    /// Not unique.
    pub name: String,
    /// 4 or 6.
    pub ip_version: u8,
    /// Every project may use it.
    pub shared: bool,
}
