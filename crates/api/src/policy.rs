//! Permissions: rules as data.
//!
//! A [`Rule`] is a list of [`Term`]s and permits a caller that satisfies one of them. Each noun declares its rules beside its attributes,
//! and the engine evaluates them, so the declarations are the policy. The tests here compare them with Neutron 29.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::Value;
use uuid::Uuid;

use crate::model::{Network, RbacAction};
use crate::resource::rbac_policy;
use crate::{Caller, World};

/// The project that a term compares with the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// The object's project.
    Owner,
    /// The project of the network that the object is on.
    Network,
    /// The project of the security group that the object is in.
    Group,
}

/// One condition that permits a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// Administrators.
    Admin,
    /// Other OpenStack services.
    Service,
    /// Managers of the party's project.
    Manager(Party),
    /// Members of the party's project.
    Member(Party),
    /// Readers of the party's project.
    Reader(Party),
    /// All callers with whom the object, or its network, is shared.
    Shared,
    /// Members of a project with which it is shared.
    SharedMember,
    /// All callers whose gateways may be on the network.
    External,
    /// All callers, unless the value is the device owner of a port that the network creates itself.
    NoNetworkDevice,
    /// All callers, unless the value names all projects.
    NotEverybody,
}

/// A rule permits a caller if one of its terms does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule(pub &'static [Term]);

/// Administrators.
pub const ADMIN: Rule = Rule(&[Term::Admin]);
/// Other services only: one of them writes the value and another reads it.
pub const SERVICE: Rule = Rule(&[Term::Service]);
/// Administrators and other services.
pub const ADMIN_OR_SERVICE: Rule = Rule(&[Term::Admin, Term::Service]);
/// Administrators, and managers of the object's project.
pub const MANAGER: Rule = Rule(&[Term::Admin, Term::Manager(Party::Owner)]);
/// Administrators, and members of the object's project.
pub const MEMBER: Rule = Rule(&[Term::Admin, Term::Member(Party::Owner)]);
/// Administrators, and readers of the object's project.
pub const READER: Rule = Rule(&[Term::Admin, Term::Reader(Party::Owner)]);

/// The object that a rule is evaluated for.
#[derive(Clone, Copy, Debug, Default)]
pub struct PolicyTarget<'a> {
    /// Its project.
    pub project: &'a str,
    /// The project of its network, if it has one.
    pub network: Option<&'a str>,
    /// The project of its security group, if it has one.
    pub group: Option<&'a str>,
    /// The data about sharing, which is evaluated only if a term needs it.
    pub sharing: Option<Sharing<'a>>,
}

/// The data that determine with whom an object is shared.
#[derive(Clone, Copy, Debug)]
pub struct Sharing<'a> {
    /// The world, which contains the RBAC policies.
    pub world: &'a World,
    /// The shared object.
    pub object: Uuid,
    /// Whether a flag of the object itself shares it with all projects.
    pub open: bool,
    /// The network, if the object can be used by being external.
    pub network: Option<&'a Network>,
}

impl<'a> PolicyTarget<'a> {
    /// An object of a project, without network, group or sharing.
    pub fn of(project: &'a str) -> Self {
        PolicyTarget { project, ..PolicyTarget::default() }
    }

    /// An object that can be shared.
    pub fn shareable(project: &'a str, world: &'a World, object: Uuid, open: bool) -> Self {
        PolicyTarget {
            sharing: Some(Sharing { world, object, open, network: None }),
            ..PolicyTarget::of(project)
        }
    }

    /// An object on a network, or the network itself.
    pub fn on(project: &'a str, world: &'a World, network: &'a Network) -> Self {
        let sharing = Sharing { world, object: network.id, open: false, network: Some(network) };
        PolicyTarget { network: Some(&network.project), sharing: Some(sharing), ..PolicyTarget::of(project) }
    }

    fn party(&self, party: Party) -> Option<&str> {
        match party {
            Party::Owner => Some(self.project),
            Party::Network => self.network,
            Party::Group => self.group,
        }
    }

    fn is_shared_with(&self, project: &str) -> bool {
        self.sharing.is_some_and(|sharing| {
            let action = RbacAction::AccessAsShared;
            sharing.open || rbac_policy::permits(sharing.world, sharing.object, action, project)
        })
    }

    fn is_external_for(&self, project: &str) -> bool {
        self.sharing.is_some_and(|sharing| {
            let of = |network| rbac_policy::permits_external(sharing.world, network, project);
            sharing.network.is_some_and(of)
        })
    }
}

impl Term {
    fn fits(self, caller: &Caller, target: &PolicyTarget<'_>, value: Option<&Value>) -> bool {
        let owns = |party| target.party(party).is_some_and(|project| caller.owns(project));
        match self {
            Term::Admin => caller.admin,
            Term::Service => caller.service,
            Term::Manager(party) => caller.manager && owns(party),
            Term::Member(party) => caller.member && owns(party),
            Term::Reader(party) => caller.auditor || ((caller.reader || caller.member) && owns(party)),
            Term::Shared => target.is_shared_with(&caller.project),
            Term::SharedMember => caller.member && target.is_shared_with(&caller.project),
            Term::External => target.is_external_for(&caller.project),
            Term::NoNetworkDevice => {
                value.and_then(Value::as_str).is_some_and(|owner| !owner.starts_with("network:"))
            }
            Term::NotEverybody => {
                value.and_then(Value::as_str).is_some_and(|it| it != rbac_policy::EVERYBODY)
            }
        }
    }

    /// Whether the term can permit this caller for some object.
    fn may_fit(self, caller: &Caller) -> bool {
        match self {
            Term::Admin => caller.admin,
            Term::Service => caller.service,
            Term::Manager(_) => caller.manager,
            Term::Member(_) | Term::SharedMember => caller.member,
            Term::Reader(_) => caller.auditor || caller.reader || caller.member,
            Term::Shared | Term::External | Term::NoNetworkDevice | Term::NotEverybody => true,
        }
    }
}

impl Rule {
    /// Whether the caller is permitted for this object and, in a rule of an attribute, for this value.
    pub fn permits(self, caller: &Caller, target: &PolicyTarget<'_>, value: Option<&Value>) -> bool {
        self.0.iter().any(|term| term.fits(caller, target, value))
    }

    /// Whether the caller is permitted for any object at all.
    pub fn may_permit(self, caller: &Caller) -> bool {
        self.0.iter().any(|term| term.may_fit(caller))
    }
}

#[cfg(test)]
mod tests;
