//! Address scopes: sets of subnet pools whose prefixes do not overlap.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;

use uuid::Uuid;

use super::attribute::{ID, NAME, PROJECT_ID, TENANT_ID};
use super::{Attribute, Checked, Preset, Resource, Scene, Shape, View, quota, rbac_policy, subnet_pool};
use crate::caller::Caller;
use crate::dialect::{Dialect, Neutron};
use crate::fault::Fault;
use crate::model::{AddressScope, RbacAction, Standard, SubnetPool};
use crate::policy::{self, Party, PolicyTarget, Rule, Term};
use crate::world::{Kind, Link, Txn, World};

/// The noun `address_scope`.
#[derive(Debug)]
pub struct AddressScopes;

static ATTRIBUTES: &[Attribute] = &[
    ID,
    TENANT_ID,
    PROJECT_ID,
    NAME,
    Attribute::new("ip_version", Shape::Integer { min: 4, max: 6 }, "The family of its addresses.")
        .required(),
    Attribute::new("shared", Shape::Bool, "Whether every project may use it.")
        .create_by(policy::ADMIN)
        .update_by(policy::ADMIN)
        .preset(Preset::Bool(false)),
];

impl Resource for AddressScopes {
    type Entity = AddressScope;
    const DIALECT: &'static dyn Dialect = &Neutron;
    const NAME: &'static str = "address_scope";
    const COLLECTION: &'static str = "address_scopes";
    const PATH: &'static str = "address-scopes";
    const ABSENT: (&'static str, &'static str) = ("AddressScopeNotFound", "Address scope");
    const GET: Rule = Rule(&[Term::Admin, Term::Reader(Party::Owner), Term::Shared]);
    const TAGGED: bool = false;

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn project(scope: &AddressScope) -> &str {
        &scope.project
    }

    fn standard(_scope: &AddressScope) -> Option<&Standard> {
        None
    }

    fn standard_mut(_scope: &mut AddressScope) -> Option<&mut Standard> {
        None
    }

    fn target<'w>(scope: &'w AddressScope, world: &'w World) -> PolicyTarget<'w> {
        PolicyTarget::shareable(&scope.project, world, scope.id, scope.shared)
    }

    fn view(scope: &AddressScope, scene: &Scene<'_>, view: &mut View<'_>) {
        view.identity(scope.id, &scope.project);
        view.text("name", &scope.name);
        view.put("ip_version", scope.ip_version);
        view.put_with("shared", || {
            scope.shared || rbac_policy::open_to_all(scene.world, scope.id, RbacAction::AccessAsShared)
        });
    }

    fn create(txn: &mut Txn, _caller: &Caller, new: &Checked) -> Result<Uuid, Fault> {
        quota::check(txn, Kind::AddressScope, new.project(), 1)?;
        let ip_version = new.integer("ip_version").unwrap_or(4);
        if ip_version == 5 {
            return Err(Fault::invalid("ip_version", "'5' is not in (4, 6)"));
        }
        let scope = AddressScope {
            id: txn.new_id(),
            project: new.project().to_owned(),
            name: new.text("name").unwrap_or_default().to_owned(),
            ip_version,
            shared: new.bool("shared").unwrap_or(false),
        };
        let id = scope.id;
        txn.put(scope);
        Ok(id)
    }

    fn update(txn: &mut Txn, _caller: &Caller, id: Uuid, change: &Checked) -> Result<(), Fault> {
        if found(txn, id)?.shared && change.bool("shared") == Some(false) {
            let message =
                format!("Unable to update address scope {id} : Shared address scope can't be unshared.");
            return Err(Fault::new(400, "AddressScopeUpdateError", message));
        }
        txn.edit::<AddressScope>(&id, |scope| {
            change.set_text("name", &mut scope.name);
            change.set_bool("shared", &mut scope.shared);
        });
        Ok(())
    }

    fn delete(txn: &mut Txn, _caller: &Caller, id: Uuid, _: &Checked) -> Result<(), Fault> {
        if txn.has_linked(Link::Inside(Kind::SubnetPool, id)) {
            let message = format!(
                "Unable to complete operation on address scope {id}. There are one or more subnet pools in use on \
                 the address scope."
            );
            return Err(Fault::conflict("AddressScopeInUse", message));
        }
        rbac_policy::forget(txn, id);
        txn.remove::<AddressScope>(&id);
        Ok(())
    }
}

/// The scope with this id, or 404.
pub fn found(world: &World, id: Uuid) -> Result<&Arc<AddressScope>, Fault> {
    world.get::<AddressScope>(&id).ok_or_else(|| super::absent::<AddressScopes>(id))
}

/// Whether a pool may join a scope: the scope is usable by the caller, has the pool's family, and no pool in it overlaps.
pub fn check_pool(world: &World, caller: &Caller, id: Uuid, pool: &SubnetPool) -> Result<(), Fault> {
    let scope = found(world, id)?;
    if !is_usable(world, caller, scope) {
        return Err(super::absent::<AddressScopes>(id));
    }
    if scope.ip_version != pool.ip_version {
        let message = format!(
            "Illegal subnetpool association: subnetpool {} cannot be associated with address scope {id} because \
             subnetpool ip_version is not {}.",
            pool.id, scope.ip_version
        );
        return Err(Fault::new(400, "IllegalSubnetPoolIpVersionAssociationToAddressScope", message));
    }
    let mut others =
        world.linked::<SubnetPool>(Link::Inside(Kind::SubnetPool, id)).filter(|other| other.id != pool.id);
    let clash = |other: &SubnetPool| {
        other.prefixes.iter().any(|one| pool.prefixes.iter().any(|two| subnet_pool::overlap(*one, *two)))
    };
    if others.any(|other| clash(other)) {
        return Err(Fault::conflict(
            "AddressScopePrefixConflict",
            "Failed to associate address scope: subnetpools within an address scope must have unique prefixes.",
        ));
    }
    Ok(())
}

fn is_usable(world: &World, caller: &Caller, scope: &AddressScope) -> bool {
    caller.admin
        || caller.owns(&scope.project)
        || scope.shared
        || rbac_policy::permits(world, scope.id, RbacAction::AccessAsShared, &caller.project)
}

#[cfg(test)]
mod tests;
