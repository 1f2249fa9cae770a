//! RBAC policies, which let other projects use an object.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod permission;

use std::sync::Arc;

use uuid::Uuid;

use super::attribute::{ID, PROJECT_ID, TENANT_ID};
use super::network::{self, Networks};
use super::{Attribute, Checked, Filters, Resource, Scene, Shape, View, absent, quota, touch};
use super::{address_scope::AddressScopes, security_group::SecurityGroups, subnet_pool::SubnetPools};
use crate::caller::Caller;
use crate::dialect::{Dialect, Neutron};
use crate::fault::Fault;
use crate::model::{
    AddressScope, Network, RbacAction, RbacObject, RbacPolicy, SecurityGroup, Standard, SubnetPool,
};
use crate::policy::{Rule, Term};
use crate::world::{Kind, Link, Txn, World};

pub use permission::{
    EVERYBODY, foreign_guests, foreign_users, forget, names, open_to_all, permits, permits_external,
    set_external, set_open_to_all,
};

/// The noun `rbac_policy`.
#[derive(Debug)]
pub struct RbacPolicies;

const OBJECTS: Shape = Shape::OneOf(&["network", "security_group", "subnetpool", "address_scope"]);
const PERMISSIONS: Shape = Shape::OneOf(&["access_as_shared", "access_as_external"]);

/// Only administrators may share with all projects.
const NOT_EVERYBODY: Rule = Rule(&[Term::Admin, Term::NotEverybody]);

static ATTRIBUTES: &[Attribute] = &[
    ID,
    TENANT_ID,
    PROJECT_ID,
    Attribute::new("object_type", OBJECTS, "What kind of object is shared.").required(),
    Attribute::new("object_id", Shape::Uuid, "Which one.").required(),
    Attribute::new("action", PERMISSIONS, "What is allowed.").required(),
    Attribute::new(
        "target_tenant",
        Shape::Word { format: "project", parse: target },
        "The project that may, or * for all.",
    )
    .required()
    .create_by(NOT_EVERYBODY)
    .update_by(NOT_EVERYBODY),
];

impl Resource for RbacPolicies {
    type Entity = RbacPolicy;
    const DIALECT: &'static dyn Dialect = &Neutron;
    const NAME: &'static str = "rbac_policy";
    const COLLECTION: &'static str = "rbac_policies";
    const PATH: &'static str = "rbac-policies";
    const ABSENT: (&'static str, &'static str) = ("RbacPolicyNotFound", "RBAC policy");
    const TAGGED: bool = false;

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn project(policy: &RbacPolicy) -> &str {
        &policy.project
    }

    fn standard(_policy: &RbacPolicy) -> Option<&Standard> {
        None
    }

    fn standard_mut(_policy: &mut RbacPolicy) -> Option<&mut Standard> {
        None
    }

    fn reach(filters: &Filters) -> Option<Vec<Link>> {
        Some(filters.uuids("object_id")?.into_iter().map(Link::PoliciesOfObject).collect())
    }

    fn view(policy: &RbacPolicy, _scene: &Scene<'_>, view: &mut View<'_>) {
        view.identity(policy.id, &policy.project);
        view.put("object_type", object_word(policy.object_type));
        view.text("object_id", &policy.object_id);
        view.put("action", action_word(policy.action));
        view.text("target_tenant", &policy.target_project);
    }

    fn create(txn: &mut Txn, caller: &Caller, new: &Checked) -> Result<Uuid, Fault> {
        let policy = RbacPolicy {
            id: txn.new_id(),
            project: new.project().to_owned(),
            object_type: new.read("object_type").unwrap_or(RbacObject::Network),
            object_id: new.uuid("object_id").unwrap_or_default(),
            action: new.read("action").unwrap_or(RbacAction::AccessAsShared),
            target_project: new.text("target_tenant").unwrap_or_default().to_owned(),
        };
        if policy.action == RbacAction::AccessAsExternal && policy.object_type != RbacObject::Network {
            let object = object_word(policy.object_type);
            return Err(Fault::input(format!("access_as_external is no permission for a {object}")));
        }
        check_object(txn, caller, &policy)?;
        check_new(txn, &policy)?;
        quota::check(txn, Kind::RbacPolicy, new.project(), 1)?;
        let id = policy.id;
        if policy.action == RbacAction::AccessAsExternal {
            make_external(txn, &policy)?;
        }
        touch_object(txn, &policy);
        txn.put(policy);
        Ok(id)
    }

    fn update(txn: &mut Txn, _caller: &Caller, id: Uuid, change: &Checked) -> Result<(), Fault> {
        let before = Arc::clone(found(txn, id)?);
        let mut policy = RbacPolicy::clone(&before);
        change.set_text("target_tenant", &mut policy.target_project);
        if policy.target_project == before.target_project {
            return Ok(());
        }
        check_new(txn, &policy)?;
        touch_object(txn, &policy);
        txn.put(policy);
        withdrawn(txn, &before)
    }

    fn delete(txn: &mut Txn, _caller: &Caller, id: Uuid, _: &Checked) -> Result<(), Fault> {
        let policy = Arc::clone(found(txn, id)?);
        txn.remove::<RbacPolicy>(&id);
        touch_object(txn, &policy);
        withdrawn(txn, &policy)
    }
}

/// Increments the revision of a policy's object: its users are a part of what clients know of it.
fn touch_object(txn: &mut Txn, policy: &RbacPolicy) {
    match policy.object_type {
        RbacObject::Network => touch::<Networks>(txn, policy.object_id),
        RbacObject::SecurityGroup => touch::<SecurityGroups>(txn, policy.object_id),
        RbacObject::Subnetpool => touch::<SubnetPools>(txn, policy.object_id),
        RbacObject::AddressScope => touch::<AddressScopes>(txn, policy.object_id),
    }
}

/// The policy with this id, or 404.
pub fn found(world: &World, id: Uuid) -> Result<&Arc<RbacPolicy>, Fault> {
    world.get::<RbacPolicy>(&id).ok_or_else(|| absent::<RbacPolicies>(id))
}

/// The project that owns a policy's object, if the object exists.
fn owner_of<'w>(world: &'w World, policy: &RbacPolicy) -> Option<&'w str> {
    let id = &policy.object_id;
    match policy.object_type {
        RbacObject::Network => world.get::<Network>(id).map(|it| it.project.as_str()),
        RbacObject::SecurityGroup => world.get::<SecurityGroup>(id).map(|it| it.project.as_str()),
        RbacObject::Subnetpool => world.get::<SubnetPool>(id).map(|it| it.project.as_str()),
        RbacObject::AddressScope => world.get::<AddressScope>(id).map(|it| it.project.as_str()),
    }
}

/// Checks that the caller sees the object and owns it.
fn check_object(world: &World, caller: &Caller, policy: &RbacPolicy) -> Result<(), Fault> {
    let id = &policy.object_id;
    let (visible, missing) = match policy.object_type {
        RbacObject::Network => (network::visible(world, caller, *id).is_ok(), absent::<Networks>(id)),
        RbacObject::SecurityGroup => {
            (sees::<SecurityGroups>(world, caller, id), absent::<SecurityGroups>(id))
        }
        RbacObject::Subnetpool => (sees::<SubnetPools>(world, caller, id), absent::<SubnetPools>(id)),
        RbacObject::AddressScope => (sees::<AddressScopes>(world, caller, id), absent::<AddressScopes>(id)),
    };
    if !visible {
        return Err(missing);
    }
    if !owner_of(world, policy).is_some_and(|owner| caller.changes_project(owner)) {
        let object = object_word(policy.object_type);
        return Err(Fault::input(format!(
            "Only admins can manipulate policies on a {object} they do not own"
        )));
    }
    Ok(())
}

fn sees<R: Resource>(world: &World, caller: &Caller, id: &Uuid) -> bool {
    world.get::<R::Entity>(id).is_some_and(|entity| R::visible(entity, world, caller))
}

fn check_new(world: &World, policy: &RbacPolicy) -> Result<(), Fault> {
    let same = |other: &RbacPolicy| {
        other.id != policy.id
            && other.action == policy.action
            && other.target_project == policy.target_project
    };
    if world.linked::<RbacPolicy>(Link::PoliciesOfObject(policy.object_id)).any(|other| same(other)) {
        let message = "An RBAC policy already exists with those values.";
        return Err(Fault::conflict("DuplicateRbacPolicy", message));
    }
    Ok(())
}

/// Makes a network external. A network that was open to all without a policy gets the policy for all now and stays open until that is
/// deleted.
fn make_external(txn: &mut Txn, policy: &RbacPolicy) -> Result<(), Fault> {
    let id = policy.object_id;
    let network = network::found(txn, id)?.clone();
    if !network.external {
        txn.edit::<Network>(&id, |network| network.external = true);
    } else if policy.target_project != EVERYBODY && permits_external(txn, &network, "") {
        set_external(txn, id, &network.project, true);
    }
    Ok(())
}

/// Applies the removal of a policy: fails if a project still uses the object without permission, and makes a network internal that is
/// external for nobody.
fn withdrawn(txn: &mut Txn, policy: &RbacPolicy) -> Result<(), Fault> {
    if policy.action == RbacAction::AccessAsShared {
        return unused(txn, policy);
    }
    let id = policy.object_id;
    let Some(network) = txn.get::<Network>(&id) else { return Ok(()) };
    if network.is_default && policy.target_project == EVERYBODY {
        return Err(in_use(policy, "Default external networks must be shared to everyone."));
    }
    let external = |other: &RbacPolicy| other.action == RbacAction::AccessAsExternal;
    if !txn.linked::<RbacPolicy>(Link::PoliciesOfObject(id)).any(|other| external(other)) {
        network::check_not_external(txn, id).map_err(|_| in_use(policy, "there are gateways on it"))?;
        txn.edit::<Network>(&id, |network| network.external = false);
        return Ok(());
    }
    match foreign_guests(txn, network).next() {
        Some(guest) => Err(in_use(policy, format!("project {guest} has a gateway or a floating IP there"))),
        None => Ok(()),
    }
}

fn unused(world: &World, policy: &RbacPolicy) -> Result<(), Fault> {
    let open = match policy.object_type {
        RbacObject::Subnetpool => world.get::<SubnetPool>(&policy.object_id).is_some_and(|pool| pool.shared),
        RbacObject::AddressScope => world.get::<AddressScope>(&policy.object_id).is_some_and(|it| it.shared),
        RbacObject::Network | RbacObject::SecurityGroup => false,
    };
    let Some(owner) = owner_of(world, policy).filter(|_| !open) else { return Ok(()) };
    match foreign_users(world, policy.object_type, policy.object_id, owner).next() {
        Some(user) => Err(in_use(policy, format!("project {user} uses it"))),
        None => Ok(()),
    }
}

fn in_use(policy: &RbacPolicy, details: impl std::fmt::Display) -> Fault {
    let message = format!(
        "RBAC policy on object {} cannot be removed because other objects depend on it.\nDetails: {details}",
        policy.object_id
    );
    Fault::conflict("RbacPolicyInUse", message)
}

fn object_word(object: RbacObject) -> &'static str {
    match object {
        RbacObject::Network => "network",
        RbacObject::SecurityGroup => "security_group",
        RbacObject::Subnetpool => "subnetpool",
        RbacObject::AddressScope => "address_scope",
    }
}

fn action_word(action: RbacAction) -> &'static str {
    match action {
        RbacAction::AccessAsShared => "access_as_shared",
        RbacAction::AccessAsExternal => "access_as_external",
    }
}

fn target(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 255 {
        return Err("a project's id, or * for all, is expected".into());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests;
