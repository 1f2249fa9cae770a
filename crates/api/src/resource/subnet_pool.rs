//! Subnet pools: prefixes from which subnets are allocated.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod cut;
mod prefixes;

use std::sync::Arc;

use ipnet::IpNet;
use serde_json::{Value, json};
use uuid::Uuid;

use super::attribute::{
    CREATED_AT, DESCRIPTION, ID, NAME, PROJECT_ID, REVISION_NUMBER, TAGS, TENANT_ID, UPDATED_AT,
};
use super::{
    Action, ActionCall, Attribute, Checked, Field, Preset, Reply, Resource, Scene, Shape, View,
    address_scope, quota, rbac_policy,
};
use crate::caller::Caller;
use crate::dialect::{Dialect, Neutron};
use crate::fault::Fault;
use crate::model::{AddressScope, RbacAction, Standard, Subnet, SubnetPool};
use crate::policy::{self, Party, PolicyTarget, Rule, Term};
use crate::world::{Kind, Link, Txn, World};

pub use cut::cut;
pub(crate) use prefixes::overlap;

/// The noun `subnetpool`.
#[derive(Debug)]
pub struct SubnetPools;

const LENGTH: Shape = Shape::Nullable(&Shape::Integer { min: 1, max: 128 });
const PREFIXES: Shape = Shape::List { of: &Shape::Cidr, max: 1024, unique: false };
const PREFIXES_BODY: Shape = Shape::Object(&[Field::required("prefixes", PREFIXES)]);

static ATTRIBUTES: &[Attribute] = &[
    ID,
    TENANT_ID,
    PROJECT_ID,
    Attribute { required: true, preset: Preset::Absent, ..NAME },
    Attribute::new("prefixes", PREFIXES, "What subnets are cut from.").required().update(),
    Attribute::new("ip_version", Shape::Integer { min: 4, max: 6 }, "The family of its prefixes."),
    Attribute::new("min_prefixlen", LENGTH, "Length of the largest subnet.").create().update(),
    Attribute::new("max_prefixlen", LENGTH, "Length of the smallest subnet.").create().update(),
    Attribute::new("default_prefixlen", LENGTH, "Length of a subnet that names none.").create().update(),
    Attribute::new(
        "default_quota",
        Shape::Nullable(&Shape::Integer { min: 0, max: i64::MAX }),
        "How much a project may take: addresses of IPv4, networks of 64 bits of IPv6.",
    )
    .create()
    .update()
    .preset(Preset::Null),
    Attribute::new(
        "address_scope_id",
        Shape::Nullable(&Shape::Uuid),
        "The scope that its addresses are unique in.",
    )
    .create()
    .update()
    .preset(Preset::Null),
    Attribute::new("shared", Shape::Bool, "Whether every project may use it.")
        .create_by(policy::ADMIN)
        .preset(Preset::Bool(false)),
    Attribute::new("is_default", Shape::Bool, "Whether it is taken if a subnet asks for the default pool.")
        .create_by(policy::ADMIN)
        .update_by(policy::ADMIN)
        .preset(Preset::Bool(false)),
    DESCRIPTION,
    TAGS,
    REVISION_NUMBER,
    CREATED_AT,
    UPDATED_AT,
];

const ACTIONS: &[Action] = &[
    Action::put("add_prefixes", "Adds prefixes to the pool.", add_prefixes).body(PREFIXES_BODY),
    Action::put("remove_prefixes", "Takes prefixes out of the pool.", remove_prefixes).body(PREFIXES_BODY),
];

impl Resource for SubnetPools {
    type Entity = SubnetPool;
    const DIALECT: &'static dyn Dialect = &Neutron;
    const NAME: &'static str = "subnetpool";
    const COLLECTION: &'static str = "subnetpools";
    const PATH: &'static str = "subnetpools";
    const ABSENT: (&'static str, &'static str) = ("SubnetPoolNotFound", "Subnet pool");
    const GET: Rule = Rule(&[Term::Admin, Term::Reader(Party::Owner), Term::Shared]);

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn actions() -> &'static [Action] {
        ACTIONS
    }

    fn project(pool: &SubnetPool) -> &str {
        &pool.project
    }

    fn standard(pool: &SubnetPool) -> Option<&Standard> {
        Some(&pool.standard)
    }

    fn standard_mut(pool: &mut SubnetPool) -> Option<&mut Standard> {
        Some(&mut pool.standard)
    }

    fn target<'w>(pool: &'w SubnetPool, world: &'w World) -> PolicyTarget<'w> {
        PolicyTarget::shareable(&pool.project, world, pool.id, pool.shared)
    }

    fn view(pool: &SubnetPool, scene: &Scene<'_>, view: &mut View<'_>) {
        view.identity(pool.id, &pool.project);
        view.text("name", &pool.name);
        view.texts("prefixes", &pool.prefixes);
        view.put("ip_version", pool.ip_version);
        // Neutron sends these as strings, and its clients compare strings.
        view.text("min_prefixlen", &pool.min_prefixlen);
        view.text("max_prefixlen", &pool.max_prefixlen);
        view.text("default_prefixlen", &pool.default_prefixlen);
        view.put("default_quota", pool.default_quota);
        view.optional("address_scope_id", pool.address_scope_id.as_ref());
        view.put_with("shared", || is_shared_with(pool, scene.world, scene.caller));
        view.put("is_default", pool.is_default);
        view.standard(&pool.standard);
    }

    fn create(txn: &mut Txn, caller: &Caller, new: &Checked) -> Result<Uuid, Fault> {
        quota::check(txn, Kind::SubnetPool, new.project(), 1)?;
        let prefixes = prefixes::merged(new.read("prefixes").unwrap_or_default())?;
        let ip_version = if prefixes.first().is_some_and(|prefix| prefix.addr().is_ipv4()) { 4 } else { 6 };
        let (least, most) = if ip_version == 4 { (8, 32) } else { (64, 128) };
        let min_prefixlen = new.integer("min_prefixlen").unwrap_or(least);
        let pool = SubnetPool {
            id: txn.new_id(),
            project: new.project().to_owned(),
            name: new.text("name").unwrap_or_default().to_owned(),
            prefixes,
            ip_version,
            min_prefixlen,
            max_prefixlen: new.integer("max_prefixlen").unwrap_or(most),
            default_prefixlen: new.integer("default_prefixlen").unwrap_or(min_prefixlen),
            default_quota: new.integer("default_quota"),
            address_scope_id: new.uuid("address_scope_id"),
            shared: new.bool("shared").unwrap_or(false),
            is_default: new.bool("is_default").unwrap_or(false),
            standard: new.standard(txn.now()),
        };
        check(txn, caller, &pool)?;
        let id = pool.id;
        txn.put(pool);
        Ok(id)
    }

    fn update(txn: &mut Txn, caller: &Caller, id: Uuid, change: &Checked) -> Result<(), Fault> {
        let before = Arc::clone(found(txn, id)?);
        check_scope_is_own(txn, caller, &before)?;
        let mut pool = SubnetPool::clone(&before);
        change.set_text("name", &mut pool.name);
        change.set_bool("is_default", &mut pool.is_default);
        for (name, slot) in [
            ("min_prefixlen", &mut pool.min_prefixlen),
            ("max_prefixlen", &mut pool.max_prefixlen),
            ("default_prefixlen", &mut pool.default_prefixlen),
        ] {
            *slot = change.integer(name).unwrap_or(*slot);
        }
        if change.has("default_quota") {
            pool.default_quota = change.integer("default_quota");
        }
        if change.has("address_scope_id") {
            pool.address_scope_id = change.uuid("address_scope_id");
        }
        if let Some(asked) = change.read("prefixes") {
            pool.prefixes = prefixes::merged(asked)?;
            if let Some(lost) = before.prefixes.iter().find(|prefix| !prefixes::cover(&pool.prefixes, prefix))
            {
                let message = format!(
                    "Illegal update to prefixes: Existing prefixes must be a subset of the new prefixes; {lost} is \
                     missing (see remove_prefixes)."
                );
                return Err(Fault::new(400, "IllegalSubnetPoolPrefixUpdate", message));
            }
        }
        check(txn, caller, &pool)?;
        if pool.address_scope_id != before.address_scope_id {
            check_scope_of_networks(txn, &pool)?;
        }
        txn.edit::<SubnetPool>(&id, |slot| *slot = pool);
        Ok(())
    }

    fn delete(txn: &mut Txn, _caller: &Caller, id: Uuid, _: &Checked) -> Result<(), Fault> {
        if txn.has_linked(Link::SubnetsOfPool(id)) {
            let message = "Unable to delete subnet pool: Subnet pool has existing allocations.";
            return Err(Fault::new(400, "SubnetPoolDeleteError", message));
        }
        rbac_policy::forget(txn, id);
        txn.remove::<SubnetPool>(&id);
        Ok(())
    }
}

/// The pool with this id, or 404.
pub fn found(world: &World, id: Uuid) -> Result<&Arc<SubnetPool>, Fault> {
    world.get::<SubnetPool>(&id).ok_or_else(|| super::absent::<SubnetPools>(id))
}

/// The pool with this id, or 404 if the caller may not allocate from it.
pub fn usable<'w>(world: &'w World, caller: &Caller, id: Uuid) -> Result<&'w SubnetPool, Fault> {
    let pool = found(world, id)?;
    if is_usable(world, caller, pool) { Ok(pool) } else { Err(super::absent::<SubnetPools>(id)) }
}

/// Whether the caller may allocate from a pool: it is its own, or shared with it.
pub fn is_usable(world: &World, caller: &Caller, pool: &SubnetPool) -> bool {
    caller.admin
        || caller.owns(&pool.project)
        || pool.shared
        || rbac_policy::permits(world, pool.id, RbacAction::AccessAsShared, &caller.project)
}

/// The default pool of a family.
pub fn default_of(world: &World, version: u8) -> Option<&SubnetPool> {
    world
        .table::<SubnetPool>()
        .iter()
        .map(|pool| &**pool)
        .find(|pool| pool.is_default && pool.ip_version == version)
}

fn is_shared_with(pool: &SubnetPool, world: &World, caller: &Caller) -> bool {
    pool.shared || rbac_policy::permits(world, pool.id, RbacAction::AccessAsShared, &caller.project)
}

fn check(world: &World, caller: &Caller, pool: &SubnetPool) -> Result<(), Fault> {
    let width = if pool.ip_version == 4 { 32 } else { 128 };
    let (min, max, default) = (pool.min_prefixlen, pool.max_prefixlen, pool.default_prefixlen);
    let bounds = |one: &str, a: u8, two: &str, b: u8| {
        let message = format!("Illegal prefix bounds: {one}={a}, {two}={b}.");
        Err(Fault::new(400, "IllegalSubnetPoolPrefixBounds", message))
    };
    for (name, length) in [("min_prefixlen", min), ("max_prefixlen", max), ("default_prefixlen", default)] {
        if length > width {
            return bounds(name, length, "ip_version", pool.ip_version);
        }
    }
    if min > max {
        return bounds("min_prefixlen", min, "max_prefixlen", max);
    }
    if max < default {
        return bounds("default_prefixlen", default, "max_prefixlen", max);
    }
    if min > default {
        return bounds("default_prefixlen", default, "min_prefixlen", min);
    }
    if let Some(id) = pool.address_scope_id {
        address_scope::check_pool(world, caller, id, pool)?;
    }
    if pool.is_default && default_of(world, pool.ip_version).is_some_and(|other| other.id != pool.id) {
        return Err(Fault::input(
            "A default subnetpool for this IP family has already been set. Only one default may exist per IP family",
        ));
    }
    Ok(())
}

/// Refuses changes of a pool that an administrator put into another project's scope: the scope's owner relies on its prefixes.
fn check_scope_is_own(world: &World, caller: &Caller, pool: &SubnetPool) -> Result<(), Fault> {
    let Some(scope) = pool.address_scope_id.and_then(|id| world.get::<AddressScope>(&id)) else {
        return Ok(());
    };
    if caller.admin || caller.owns(&scope.project) {
        return Ok(());
    }
    let text = format!(
        "subnetpool {} cannot be updated when associated with shared address scope {}",
        pool.id, scope.id
    );
    Err(Fault::new(400, "IllegalSubnetPoolUpdate", format!("Illegal subnetpool update : {text}.")))
}

/// Checks that networks with subnets of this pool and of others keep one scope for each family.
fn check_scope_of_networks(world: &World, pool: &SubnetPool) -> Result<(), Fault> {
    let scope_of = |id: Option<Uuid>| id.and_then(|id| world.get::<SubnetPool>(&id)?.address_scope_id);
    for subnet in world.linked::<Subnet>(Link::SubnetsOfPool(pool.id)) {
        let others = world.linked::<Subnet>(Link::SubnetsOfNetwork(subnet.network_id));
        let mut others =
            others.filter(|it| it.ip_version() == pool.ip_version && it.subnetpool_id != Some(pool.id));
        if others.any(|other| scope_of(other.subnetpool_id) != pool.address_scope_id) {
            return Err(Fault::new(
                400,
                "NetworkAddressScopeAffinityError",
                "Subnets of the same address family hosted on the same network must all be in the same address scope.",
            ));
        }
    }
    Ok(())
}

fn asked_prefixes(body: &Value) -> Result<Vec<IpNet>, Fault> {
    let body = body.as_object().ok_or_else(|| Fault::bad("Body contains invalid data"))?;
    if let Some(other) = body.keys().find(|key| *key != "prefixes") {
        return Err(Fault::bad(format!("Unrecognized attribute(s) '{other}'")));
    }
    let asked = body
        .get("prefixes")
        .ok_or_else(|| Fault::bad("Failed to parse request. Required attribute 'prefixes' not specified"))?;
    let asked = PREFIXES.check(asked).map_err(|reason| Fault::invalid("prefixes", reason))?;
    let texts = asked.as_array().into_iter().flatten().filter_map(Value::as_str);
    Ok(texts.filter_map(|text| text.parse().ok()).collect())
}

fn add_prefixes(txn: &mut Txn, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let mut pool = SubnetPool::clone(found(txn, call.id)?);
    pool.prefixes.extend(asked_prefixes(call.body)?);
    pool.prefixes = prefixes::merged(pool.prefixes)?;
    check(txn, call.caller, &pool)?;
    Ok(put(txn, pool))
}

fn remove_prefixes(txn: &mut Txn, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let mut pool = SubnetPool::clone(found(txn, call.id)?);
    let removed = asked_prefixes(call.body)?;
    let in_use = |it: &Subnet| removed.iter().any(|prefix| prefixes::overlap(*prefix, it.cidr));
    let subnet = txn.linked::<Subnet>(Link::SubnetsOfPool(pool.id)).find(|it| in_use(it)).map(|it| it.id);
    if let Some(id) = subnet {
        let message = format!(
            "Illegal update to prefixes: One or more of the prefixes to be removed is in use by a subnet: {id}."
        );
        return Err(Fault::new(400, "IllegalSubnetPoolPrefixUpdate", message));
    }
    pool.prefixes = prefixes::without(&pool.prefixes, &removed);
    Ok(put(txn, pool))
}

fn put(txn: &mut Txn, pool: SubnetPool) -> Reply {
    let prefixes: Vec<String> = pool.prefixes.iter().map(ToString::to_string).collect();
    let id = pool.id;
    txn.edit::<SubnetPool>(&id, |slot| *slot = pool);
    Reply::Value(json!({"prefixes": prefixes}))
}

#[cfg(test)]
mod tests;
