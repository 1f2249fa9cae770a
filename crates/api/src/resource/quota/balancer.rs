//! The quotas of the load balancer API.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::{Map, Value, json};

use super::{Limited, Measure, limit};
use crate::dialect::octavia::{forbidden, validation};
use crate::dialect::{Dialect, NounNames, Octavia, Refusal};
use crate::model::QuotaSet;
use crate::resource::engine::unwrap;
use crate::resource::{Attribute, Checked, Preset, Shape};
use crate::settings::Settings;
use crate::world::Kind;
use crate::{Caller, Fault, Txn, World};

/// The limits with a count.
pub const LIMITED: &[Limited] = &[
    ("load_balancer", Measure::Objects(Kind::LoadBalancer)),
    ("listener", Measure::Objects(Kind::Listener)),
    ("pool", Measure::Objects(Kind::Pool)),
    ("member", Measure::Objects(Kind::Member)),
    ("health_monitor", Measure::Objects(Kind::HealthMonitor)),
];

/// The names in bodies, and the names of their limits. Some have two spellings. There are no L7 policies, so their limits are only stored.
const NAMES: [(&str, &str); 9] = [
    ("loadbalancer", "load_balancer"),
    ("load_balancer", "load_balancer"),
    ("listener", "listener"),
    ("pool", "pool"),
    ("member", "member"),
    ("healthmonitor", "health_monitor"),
    ("health_monitor", "health_monitor"),
    ("l7policy", "l7policy"),
    ("l7rule", "l7rule"),
];

/// The limit of a name in a body.
pub(crate) fn limit_name(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|(spelling, _)| *spelling == name).map(|(_, limit)| *limit)
}

const LIMIT: Shape = Shape::Nullable(&Shape::Integer { min: -1, max: 2_000_000_000 });

const fn named(name: &'static str) -> Attribute {
    Attribute::new(name, LIMIT, "Most objects; -1 is no limit.").update().null(Preset::Null)
}

/// The limits that a project can have.
pub(crate) static ATTRIBUTES: &[Attribute] = &[
    named("loadbalancer"),
    named("load_balancer"),
    named("listener"),
    named("pool"),
    named("member"),
    named("healthmonitor"),
    named("health_monitor"),
    named("l7policy"),
    named("l7rule"),
];

/// The name of a limit in a refusal.
pub fn title(name: &str) -> &'static str {
    match name {
        "load_balancer" => "Load Balancer",
        "listener" => "Listener",
        "pool" => "Pool",
        "member" => "Member",
        _ => "Health Monitor",
    }
}

fn limits(world: &World, settings: &Settings, project: &str) -> Map<String, Value> {
    let limits =
        NAMES.iter().map(|(name, of)| ((*name).to_owned(), limit(world, settings, project, of).into()));
    limits.collect()
}

/// Whether the caller may see the limits of a project: its readers, and callers that may set limits.
fn may_read(caller: &Caller, project: &str) -> bool {
    caller.sets_balancer_quotas()
        || caller.auditor
        || ((caller.reader || caller.member) && caller.owns(project))
}

/// `GET quotas`: the projects with limits of their own.
pub fn list(world: &World, settings: &Settings, caller: &Caller) -> Value {
    let has_own = |set: &QuotaSet| NAMES.iter().any(|(_, of)| set.limits.contains_key(*of));
    let seen = |project: &str| may_read(caller, project);
    let sets = world.table::<QuotaSet>().iter().filter(|set| has_own(set) && seen(&set.project)).map(|set| {
        let mut limits = limits(world, settings, &set.project);
        limits.insert("project_id".into(), set.project.as_str().into());
        limits.insert("tenant_id".into(), set.project.as_str().into());
        Value::Object(limits)
    });
    json!({"quotas": sets.collect::<Vec<_>>(), "quotas_links": []})
}

/// `GET quotas/{project}`.
pub fn show(world: &World, settings: &Settings, caller: &Caller, project: &str) -> Result<Value, Fault> {
    match may_read(caller, project) {
        true => Ok(json!({"quota": limits(world, settings, project)})),
        false => Err(forbidden()),
    }
}

/// `GET quotas/defaults` and `quotas/{project}/default`.
pub fn defaults(settings: &Settings) -> Value {
    json!({"quota": limits(&World::default(), settings, "")})
}

/// `PUT quotas/{project}`. `null` resets a limit to its default.
pub fn update(txn: &mut Txn, caller: &Caller, project: &str, body: &Value) -> Result<Value, Fault> {
    let refuse =
        |refusal: Refusal| Octavia.refuse(NounNames { name: "quota", absent: ("", "Quota") }, refusal);
    let body = unwrap("quota", body).map_err(refuse)?;
    let change = Checked::update(ATTRIBUTES, body).map_err(refuse)?;
    if !caller.sets_balancer_quotas() {
        return Err(forbidden());
    }
    if project.is_empty() || project.chars().count() > 255 || project.contains('\0') {
        return Err(validation("the id of the project has 1 to 255 characters"));
    }
    let key = project.to_owned();
    let mut set = txn.get::<QuotaSet>(&key).map(|set| (**set).clone()).unwrap_or_default();
    set.project = key;
    for (name, of) in NAMES.iter().filter(|(name, _)| change.named(name)) {
        match change.integer::<i64>(name) {
            Some(limit) => drop(set.limits.insert((*of).to_owned(), limit)),
            None => drop(set.limits.remove(*of)),
        }
    }
    txn.put(set);
    let outside = txn.outside();
    Ok(json!({"quota": limits(txn, &outside.settings, project)}))
}

/// `DELETE quotas/{project}`: restores the defaults.
pub fn reset(txn: &mut Txn, caller: &Caller, project: &str) -> Result<(), Fault> {
    if !caller.sets_balancer_quotas() {
        return Err(forbidden());
    }
    let Some(set) = txn.get::<QuotaSet>(&project.to_owned()) else { return Ok(()) };
    let mut others = QuotaSet::clone(set);
    others.limits.retain(|name, _| !NAMES.iter().any(|(_, of)| of == name));
    match others.limits.is_empty() {
        true => drop(txn.remove::<QuotaSet>(&project.to_owned())),
        false => drop(txn.put(others)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::fixture::txn;
    use crate::resource::quota;

    #[test]
    fn limits_are_set_reset_and_kept_apart_from_those_of_networks() {
        let (mut txn, admin) = (txn(), Caller::admin("p"));
        quota::update(&mut txn, &admin, "p", &json!({"quota": {"port": 3}})).unwrap();
        let body = json!({"quota": {"loadbalancer": "5", "health_monitor": 7}});
        assert_eq!(update(&mut txn, &Caller::member("p"), "p", &body).unwrap_err().status, 403);
        let set = update(&mut txn, &admin, "p", &body).unwrap();
        let quota = &set["quota"];
        assert_eq!((&quota["load_balancer"], &quota["loadbalancer"]), (&json!(5), &json!(5)));
        assert_eq!((&quota["healthmonitor"], &quota["pool"]), (&json!(7), &json!(-1)));
        update(&mut txn, &admin, "p", &json!({"quota": {"loadbalancer": null}})).unwrap();
        let settings = txn.outside().settings.clone();
        let shown = show(&txn, &settings, &Caller::reader("p"), "p").unwrap();
        assert_eq!(
            (&shown["quota"]["loadbalancer"], &shown["quota"]["healthmonitor"]),
            (&json!(-1), &json!(7))
        );
        assert_eq!(show(&txn, &settings, &Caller::member("q"), "p").unwrap_err().status, 403);
        let text = update(&mut txn, &admin, "p", &json!({"quota": {"pool": -2}})).unwrap_err().message;
        assert_eq!(
            text,
            "Invalid input for field/attribute pool. Value: '-2'. Value should be greater or equal to -1"
        );
        assert_eq!(list(&txn, &settings, &admin)["quotas"].as_array().unwrap().len(), 1);
        quota::reset(&mut txn, &admin, "p").unwrap();
        assert_eq!(show(&txn, &settings, &admin, "p").unwrap()["quota"]["healthmonitor"], 7);
        quota::update(&mut txn, &admin, "p", &json!({"quota": {"port": 3}})).unwrap();
        reset(&mut txn, &admin, "p").unwrap();
        assert_eq!(list(&txn, &settings, &admin)["quotas"], json!([]));
        assert_eq!(quota::limit(&txn, &settings, "p", "port"), 3);
    }
}
