//! Who may do what: rules as data.
//!
//! A [`Rule`] is a list of [`Term`]s, and whoever one of them fits may. Each noun declares its rules beside its attributes, and the
//! engine asks them, so the declarations are the policy. They are held against those of Neutron 29 by the tests here.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::Value;
use uuid::Uuid;

use crate::model::{Network, RbacAction};
use crate::resource::rbac_policy;
use crate::{Caller, World};

/// The object whose project has to be the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// The object's.
    Owner,
    /// That of the network which the object is on.
    Network,
    /// That of the security group which the object is in.
    Group,
}

/// One way to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// Administrators.
    Admin,
    /// Other OpenStack services.
    Service,
    /// Managers of this project.
    Manager(Party),
    /// Members of this project.
    Member(Party),
    /// Readers of this project.
    Reader(Party),
    /// Everybody with whom the object, or the network it is on, is shared.
    Shared,
    /// Members of a project with which it is shared.
    SharedMember,
    /// Everybody for whose gateways the network is open.
    External,
    /// Everybody, as long as the value is not the device owner of a port that the network makes for itself.
    NoNetworkDevice,
    /// Everybody, as long as the value does not name all projects.
    NotEverybody,
}

/// Who may: whoever one of the terms fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule(pub &'static [Term]);

/// Administrators.
pub const ADMIN: Rule = Rule(&[Term::Admin]);
/// Other services, and nobody else: what one of them wrote is read by another.
pub const SERVICE: Rule = Rule(&[Term::Service]);
/// Administrators and other services.
pub const ADMIN_OR_SERVICE: Rule = Rule(&[Term::Admin, Term::Service]);
/// Administrators, and managers of the object's project.
pub const MANAGER: Rule = Rule(&[Term::Admin, Term::Manager(Party::Owner)]);
/// Administrators, and members of the object's project.
pub const MEMBER: Rule = Rule(&[Term::Admin, Term::Member(Party::Owner)]);
/// Administrators, and readers of the object's project.
pub const READER: Rule = Rule(&[Term::Admin, Term::Reader(Party::Owner)]);

/// The object that a rule is asked about.
#[derive(Clone, Copy, Debug, Default)]
pub struct PolicyTarget<'a> {
    /// Its project.
    pub project: &'a str,
    /// The project of the network it is on, if it is on one.
    pub network: Option<&'a str>,
    /// The project of the security group it is in, if it is in one.
    pub group: Option<&'a str>,
    /// What tells with whom it is shared. Looked at only if a rule asks.
    pub sharing: Option<Sharing<'a>>,
}

/// With whom something is shared.
#[derive(Clone, Copy, Debug)]
pub struct Sharing<'a> {
    /// Where the policies are.
    pub world: &'a World,
    /// The shared object.
    pub object: Uuid,
    /// Shared with everybody by a flag of its own.
    pub open: bool,
    /// The network, where being external counts.
    pub network: Option<&'a Network>,
}

impl<'a> PolicyTarget<'a> {
    /// An object of a project, and no more.
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

    /// An object on a network, which may be the network itself.
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

    /// Whether there are objects that it fits this caller for.
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
    /// Whether the caller may, with this object and, for a rule about an attribute, this value of it.
    pub fn permits(self, caller: &Caller, target: &PolicyTarget<'_>, value: Option<&Value>) -> bool {
        self.0.iter().any(|term| term.fits(caller, target, value))
    }

    /// Whether the caller may with any object at all.
    pub fn may_permit(self, caller: &Caller) -> bool {
        self.0.iter().any(|term| term.may_fit(caller))
    }
}

#[cfg(test)]
mod tests;
