//! RBAC policies: permissions for other projects.

use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, quota_owner};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One permission. The `shared` flag of a network is a policy that lets all projects access it as shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RbacPolicy {
    /// Its id.
    pub id: Uuid,
    /// The project that gives the permission.
    pub project: String,
    /// The kind of the object.
    pub object_type: RbacObject,
    /// The id of the object.
    pub object_id: Uuid,
    /// The permitted action.
    pub action: RbacAction,
    /// The project that gets the permission, or `*` for all.
    pub target_project: String,
}

/// The kinds of objects that can be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RbacObject {
    /// Networks.
    Network,
    /// Security groups.
    SecurityGroup,
    /// Subnet pools.
    Subnetpool,
    /// Address scopes.
    AddressScope,
}

/// The action that a policy permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RbacAction {
    /// To use the object like an own one.
    AccessAsShared,
    /// To have gateways and floating IPs on the network.
    AccessAsExternal,
}

impl Record for RbacPolicy {
    fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
        note(Link::OwnedBy(Kind::RbacPolicy, self.project.as_str().into()), self.id);
        note(Link::PoliciesOfObject(self.object_id), self.id);
    }
    fn counted_in(&self) -> Option<&str> {
        quota_owner(&self.project)
    }
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        vec![("project_id", (&self.project).into())]
    }
}
