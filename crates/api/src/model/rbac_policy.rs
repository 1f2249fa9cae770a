//! Who may use what of another project.

use crate::store::SqlValue;
use crate::world::{Kind, Link, Record, quota_owner};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One permission. The `shared` flag of a network is the policy "everybody may use it as shared".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RbacPolicy {
    /// Its id.
    pub id: Uuid,
    /// Who gave it.
    pub project: String,
    /// What kind of object it is about.
    pub object_type: RbacObject,
    /// Which one.
    pub object_id: Uuid,
    /// What is allowed.
    pub action: RbacAction,
    /// A project, or `*` for all.
    pub target_project: String,
}

/// Objects that can be shared.
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

/// What a policy allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RbacAction {
    /// To use it as if it were one's own.
    AccessAsShared,
    /// To have gateways and floating IPs on it.
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
