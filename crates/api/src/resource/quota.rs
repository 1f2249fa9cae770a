//! Quotas: limits on the number of objects of a project.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod addresses;
pub mod balancer;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::engine::unwrap;
use super::{Shape, gateway};
use crate::dialect::{Dialect, Neutron, NounNames, Refusal};
use crate::model::{Port, QuotaSet, Router};
use crate::settings::Settings;
use crate::world::Kind;
use crate::{Caller, Fault, Txn, World};

pub use addresses::{check_shared_addresses, shared_addresses};

/// A limit's name, and the measure of its use.
pub type Limited = (&'static str, Measure);

/// The measure of a limit's use.
#[derive(Clone, Copy)]
pub enum Measure {
    /// Objects of a noun in the project.
    Objects(Kind),
    /// A count within each object: the limit applies to each one, and reports show the largest.
    Each(fn(&World, &str) -> usize),
    /// A sum over several nouns.
    Sum(fn(&World, &str) -> usize),
}

/// The limits of the network API. Each API has its own list; the limits that projects set are in one table, by name.
pub const NETWORK: &[Limited] = &LIMITED;

/// The limits by name.
const LIMITED: [(&str, Measure); 14] = [
    ("address_scope", Measure::Objects(Kind::AddressScope)),
    ("floatingip", Measure::Objects(Kind::FloatingIp)),
    ("network", Measure::Objects(Kind::Network)),
    ("port", Measure::Objects(Kind::Port)),
    ("port_fixed_ip", Measure::Each(most_addresses)),
    ("rbac_policy", Measure::Objects(Kind::RbacPolicy)),
    ("router", Measure::Objects(Kind::Router)),
    ("router_gateway", Measure::Each(most_gateways)),
    ("router_route", Measure::Each(most_routes)),
    ("security_group", Measure::Objects(Kind::SecurityGroup)),
    ("security_group_rule", Measure::Objects(Kind::SecurityGroupRule)),
    (addresses::SHARED_ADDRESS, Measure::Sum(addresses::total)),
    ("subnet", Measure::Objects(Kind::Subnet)),
    ("subnetpool", Measure::Objects(Kind::SubnetPool)),
];

impl Measure {
    fn used(self, world: &World, project: &str) -> u64 {
        match self {
            Measure::Objects(kind) => world.tally(kind, project),
            Measure::Each(count) | Measure::Sum(count) => {
                u64::try_from(count(world, project)).unwrap_or(u64::MAX)
            }
        }
    }
}

fn routers<'w>(world: &'w World, project: &str) -> impl Iterator<Item = &'w Arc<Router>> {
    world.table::<Router>().iter().filter(move |router| router.project == project)
}

fn most_routes(world: &World, project: &str) -> usize {
    routers(world, project).map(|router| router.routes.len()).max().unwrap_or(0)
}

fn most_gateways(world: &World, project: &str) -> usize {
    routers(world, project).map(|router| gateway::of_router(world, router).len()).max().unwrap_or(0)
}

/// Counts the project's ports, and the gateways of its routers, whose ports belong to no project.
fn most_addresses(world: &World, project: &str) -> usize {
    let own = world.table::<Port>().iter().filter(|port| port.project == project);
    let gateways = routers(world, project).flat_map(|router| gateway::of_router(world, router));
    own.chain(gateways).map(|port| port.fixed_ips.len()).max().unwrap_or(0)
}

/// The shape of a limit.
const LIMIT: Shape = Shape::Integer { min: -1, max: i32::MAX as i64 };

/// The JSON schema of a body of limits, for the API document.
pub fn body_schema() -> Value {
    let mut properties: Map<_, _> =
        LIMITED.iter().map(|(name, _)| ((*name).to_owned(), LIMIT.schema())).collect();
    for flag in ["check_limit", "force"] {
        properties.insert(flag.into(), Shape::Bool.schema());
    }
    let quota = json!({"type": "object", "properties": properties, "additionalProperties": false});
    json!({"type": "object", "properties": {"quota": quota}, "required": ["quota"]})
}

/// Whether there is a limit of this name.
pub fn is_limited(name: &str) -> bool {
    LIMITED.iter().any(|(known, _)| *known == name)
}

/// Refuses `more` objects of a noun beyond the project's limit. Objects without a project are not limited.
pub fn check(txn: &Txn, kind: Kind, project: &str, more: u64) -> Result<(), Fault> {
    check_objects(txn, NETWORK, kind, project, more).map_err(refuse)
}

/// The same for the limits of any API.
pub fn check_objects(
    txn: &Txn,
    limited: &[Limited],
    kind: Kind,
    project: &str,
    more: u64,
) -> Result<(), Refusal> {
    let of_kind = |measure: &Measure| matches!(measure, Measure::Objects(counted) if *counted == kind);
    match limited.iter().find(|(_, measure)| of_kind(measure)) {
        Some((name, _)) => within(txn, name, project, txn.tally(kind, project) + more),
        None => Ok(()),
    }
}

/// Refuses `count` beyond a limit by name: the routes of one router are `router_route`.
pub fn check_count(txn: &Txn, name: &'static str, project: &str, count: u64) -> Result<(), Fault> {
    within(txn, name, project, count).map_err(refuse)
}

fn within(txn: &Txn, name: &'static str, project: &str, count: u64) -> Result<(), Refusal> {
    let limit = limit(txn, &txn.outside().settings, project, name);
    match u64::try_from(limit) {
        Ok(limit) if count > limit && !project.is_empty() => Err(Refusal::OverQuota { name }),
        _ => Ok(()),
    }
}

/// Renders the refusals of quotas for Neutron's nouns, and of Neutron's own quota documents.
fn refuse(refusal: Refusal) -> Fault {
    Neutron.refuse(NounNames { name: "quota", absent: ("TenantQuotaNotFound", "Quota for tenant") }, refusal)
}

/// Refuses to grow a limited object beyond its limit. An object that exceeds the limit already, because it was imported or the limit was
/// lowered, stays as it is and may shrink.
pub fn check_growth(
    txn: &Txn,
    name: &'static str,
    project: &str,
    before: usize,
    after: usize,
) -> Result<(), Fault> {
    if after <= before {
        return Ok(());
    }
    check_count(txn, name, project, u64::try_from(after).unwrap_or(u64::MAX))
}

/// A limit of a project; negative means unlimited.
pub fn limit(world: &World, settings: &Settings, project: &str, name: &str) -> i64 {
    let own = world.get::<QuotaSet>(&project.to_owned()).and_then(|set| set.limits.get(name).copied());
    own.unwrap_or_else(|| settings.quotas.limit(name))
}

fn limits(world: &World, settings: &Settings, project: &str) -> Map<String, Value> {
    LIMITED
        .iter()
        .map(|(name, _)| ((*name).to_owned(), limit(world, settings, project, name).into()))
        .collect()
}

/// `GET /quotas`: the projects with limits of their own.
pub fn list(world: &World, settings: &Settings, caller: &Caller) -> Result<Value, Fault> {
    require_admin(caller, "get_quota")?;
    let sets = world.table::<QuotaSet>().iter().map(|set| {
        let mut limits = limits(world, settings, &set.project);
        limits.insert("tenant_id".into(), set.project.as_str().into());
        limits.insert("project_id".into(), set.project.as_str().into());
        Value::Object(limits)
    });
    Ok(json!({"quotas": sets.collect::<Vec<_>>()}))
}

/// `GET /quotas/{project}`.
pub fn show(world: &World, settings: &Settings, caller: &Caller, project: &str) -> Result<Value, Fault> {
    require_sight(caller, project)?;
    Ok(json!({"quota": limits(world, settings, project)}))
}

/// `GET /quotas/{project}/default`.
pub fn default(settings: &Settings, caller: &Caller, project: &str) -> Result<Value, Fault> {
    require_sight(caller, project)?;
    Ok(json!({"quota": limits(&World::default(), settings, project)}))
}

/// `GET /quotas/{project}/details`: the limits and their use.
pub fn details(world: &World, settings: &Settings, caller: &Caller, project: &str) -> Result<Value, Fault> {
    require_sight(caller, project)?;
    let quota: Map<_, _> = LIMITED
        .iter()
        .map(|(name, measure)| {
            let used = measure.used(world, project);
            let limit = limit(world, settings, project, name);
            ((*name).to_owned(), json!({"used": used, "limit": limit, "reserved": 0}))
        })
        .collect();
    Ok(json!({"quota": quota}))
}

/// `PUT /quotas/{project}`: sets limits. With `check_limit`, no limit may be below the present use.
pub fn update(txn: &mut Txn, caller: &Caller, project: &str, body: &Value) -> Result<Value, Fault> {
    require_admin(caller, "update_quota")?;
    let named = Shape::Text { max: 255 }.check(&project.into());
    named.map_err(|reason| Fault::invalid("project_id", reason))?;
    let mut strict = false;
    let mut changes = BTreeMap::new();
    for (name, value) in unwrap("quota", body).map_err(refuse)? {
        match name.as_str() {
            "check_limit" => strict = flag(name, value)?,
            // Limits below the present use are accepted unless `check_limit` is set, so `force` changes nothing.
            "force" => drop(flag(name, value)?),
            "tenant_id" | "project_id" if value.as_str() == Some(project) => {}
            "tenant_id" | "project_id" => {
                return Err(Fault::bad(format!("Cannot update read-only attribute {name}")));
            }
            _ if is_limited(name) => {
                let limit = LIMIT.check(value).map_err(|reason| Fault::invalid(name, reason))?;
                changes.insert(name.clone(), limit.as_i64().unwrap_or(-1));
            }
            _ => return Err(Fault::bad(format!("Unrecognized attribute(s) '{name}'"))),
        }
    }
    if strict {
        check_use(txn, project, &changes)?;
    }
    let mut set = txn.get::<QuotaSet>(&project.to_owned()).map(|set| (**set).clone()).unwrap_or_default();
    set.project = project.to_owned();
    set.limits.extend(changes);
    txn.put(set);
    let outside = txn.outside();
    Ok(json!({"quota": limits(txn, &outside.settings, project)}))
}

/// `DELETE /quotas/{project}`: restores the defaults.
pub fn reset(txn: &mut Txn, caller: &Caller, project: &str) -> Result<(), Fault> {
    require_admin(caller, "delete_quota")?;
    match remove_limits(txn, project, NETWORK) {
        true => Ok(()),
        false => Err(Fault::absent("TenantQuotaNotFound", "Quota for tenant", project)),
    }
}

/// Deletes the limits of one API. A project's limits of other APIs stay.
fn remove_limits(txn: &mut Txn, project: &str, limited: &[Limited]) -> bool {
    let key = project.to_owned();
    let is_own = |name: &str| limited.iter().any(|(known, _)| *known == name);
    let Some(set) = txn.get::<QuotaSet>(&key) else { return false };
    let (own, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
        set.limits.clone().into_iter().partition(|(name, _)| is_own(name));
    match others.is_empty() {
        // A set without any limits belongs to the network API.
        true => drop(txn.remove::<QuotaSet>(&key)),
        false => drop(txn.edit::<QuotaSet>(&key, |set| set.limits = others)),
    }
    !own.is_empty() || txn.get::<QuotaSet>(&key).is_none()
}

fn check_use(world: &World, project: &str, changes: &BTreeMap<String, i64>) -> Result<(), Fault> {
    for (name, limit) in changes {
        let measure = LIMITED.iter().find(|(known, _)| known == name);
        let used = measure.map_or(0, |(_, measure)| measure.used(world, project));
        if u64::try_from(*limit).is_ok_and(|limit| limit < used) {
            let text = format!("Quota limit for {name} cannot be {limit}: {used} are in use.");
            return Err(Fault::bad(text));
        }
    }
    Ok(())
}

fn flag(name: &str, value: &Value) -> Result<bool, Fault> {
    let checked = Shape::Bool.check(value).map_err(|reason| Fault::invalid(name, reason))?;
    Ok(checked.as_bool().unwrap_or(false))
}

fn require_admin(caller: &Caller, rule: &str) -> Result<(), Fault> {
    if caller.admin { Ok(()) } else { Err(Fault::forbidden(rule)) }
}

/// Only administrators may see limits of other projects.
fn require_sight(caller: &Caller, project: &str) -> Result<(), Fault> {
    if caller.admin || caller.owns(project) { Ok(()) } else { Err(Fault::forbidden("get_quota")) }
}

#[cfg(test)]
mod tests;
