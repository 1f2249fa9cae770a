//! Address scopes.

use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, link_by_name, quota_owner};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A set of subnet pools in which addresses are unique.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressScope {
    /// Its id.
    pub id: Uuid,
    /// The owning project.
    pub project: String,
    /// The name; not unique.
    pub name: String,
    /// 4 or 6.
    pub ip_version: u8,
    /// Whether every project may use it.
    pub shared: bool,
}

impl Record for AddressScope {
    fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
        link_by_name(Kind::AddressScope, (self.id, &self.project, &self.name), note);
    }
    fn counted_in(&self) -> Option<&str> {
        quota_owner(&self.project)
    }
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        vec![("project_id", (&self.project).into())]
    }
}
