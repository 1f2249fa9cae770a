//! A load balancer with all its parts: created by one request, and shown as a whole.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::aggregate::{self, UnsupportedLast};
use super::reason;
use super::status::{self, Status};
use crate::dialect::octavia::{missing, validation};
use crate::dialect::{Dialect, NounNames, Octavia, Refusal};
use crate::model::{HealthMonitor, Listener, LoadBalancer, Member, Pool};
use crate::resource::health_monitor::{self, HealthMonitors};
use crate::resource::listener::{self, Listeners};
use crate::resource::member::{self, Members};
use crate::resource::pool::{self, Pools};
use crate::resource::quota::{self, balancer};
use crate::resource::{Checked, Resource, Scene, Selection, View};
use crate::world::{Kind, Link};
use crate::{Caller, Fault, Txn};

/// A pool that comes with a new load balancer, parsed.
struct NewPool {
    pool: Checked,
    members: Vec<Checked>,
    monitor: Option<Checked>,
}

impl NewPool {
    fn parse(caller: &Caller, mut body: Map<String, Value>, whole: Uuid) -> Result<NewPool, Fault> {
        let members = take_list(&mut body, "members")?.into_iter();
        let monitor = take_object(&mut body, "healthmonitor")?;
        let pool = check::<Pools>(caller, &mut body, "loadbalancer_id", whole)?;
        let members = members.map(|mut member| check::<Members>(caller, &mut member, "", whole));
        // The pool has no id yet, and its monitor is created with the right one.
        let monitor = monitor.map(|mut body| check::<HealthMonitors>(caller, &mut body, "pool_id", whole));
        Ok(NewPool { pool, members: members.collect::<Result<_, _>>()?, monitor: monitor.transpose()? })
    }
}

/// Creates the listeners and pools that come with a new load balancer; all of them belong to its first generation.
///
/// The order of checks is Octavia's: first all bodies, then the quotas, then each part.
pub(super) fn create_parts(txn: &mut Txn, caller: &Caller, id: Uuid, new: &Checked) -> Result<(), Fault> {
    let objects = |name: &str| match new.get(name) {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_object).cloned().collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    let (mut planned, listeners) = (objects("pools"), objects("listeners"));
    for listener in &listeners {
        if let Some(pool) = listener.get("default_pool").and_then(Value::as_object)
            && !is_reference(pool)
        {
            planned.push(pool.clone());
        }
    }
    let names = check_names(&planned)?;
    let pools: Vec<NewPool> =
        planned.into_iter().map(|body| NewPool::parse(caller, body, id)).collect::<Result<_, _>>()?;
    let mut fronts: Vec<(Map<String, Value>, Option<usize>)> = Vec::new();
    for mut body in listeners {
        let default = take_object(&mut body, "default_pool")?;
        let default = default.map(|pool| place_of(&pool, &names)).transpose()?;
        check::<Listeners>(caller, &mut body, "loadbalancer_id", id)?;
        fronts.push((body, default));
    }
    let whole = aggregate::found(txn, id)?.clone();
    check_quotas(txn, &whole, &pools, fronts.len())?;

    let generation = whole.generation;
    let mut unsupported = UnsupportedLast::default();
    let mut ids = Vec::new();
    for new in &pools {
        let made = unsupported.pass(pool::make(txn, &whole, &new.pool, generation))?;
        ids.push(made);
        let Some(pool) = made else { continue };
        for member in &new.members {
            unsupported.pass(member::make(txn, caller, pool, member, generation))?;
        }
        if let Some(monitor) = &new.monitor {
            unsupported.pass(health_monitor::make(txn, pool, monitor, generation))?;
        }
    }
    for (mut body, default) in fronts {
        if let Some(pool) = default.and_then(|at| ids.get(at).copied().flatten()) {
            body.insert("default_pool_id".into(), pool.to_string().into());
        }
        let new = check::<Listeners>(caller, &mut body, "loadbalancer_id", id)?;
        unsupported.pass(listener::make(txn, &whole, &new, generation))?;
    }
    unsupported.finish()
}

/// The place of the pool with this name among the pools of the request.
fn place_of(pool: &Map<String, Value>, names: &[String]) -> Result<usize, Fault> {
    let name = pool.get("name").and_then(Value::as_str).unwrap_or_default();
    names.iter().position(|known| known == name).ok_or_else(|| {
        validation(format_args!("Pool '{name}' was referenced but no full definition was found."))
    })
}

/// Whether the pool of a listener is only the name of one in the list of pools.
fn is_reference(pool: &Map<String, Value>) -> bool {
    pool.len() == 1 && pool.contains_key("name")
}

fn check_names(pools: &[Map<String, Value>]) -> Result<Vec<String>, Fault> {
    let mut names: Vec<String> = Vec::new();
    for pool in pools {
        let name = pool.get("name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() {
            return Err(validation("Pools must be named when creating a fully populated loadbalancer."));
        }
        if names.iter().any(|known| known == name) {
            return Err(validation(
                "Pool names must be unique when creating a fully populated loadbalancer.",
            ));
        }
        for attribute in ["protocol", "lb_algorithm"] {
            if !pool.contains_key(attribute) {
                return Err(missing(attribute));
            }
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

/// Checks a nested object like a create request. Its parent is known already.
fn check<R: Resource>(
    caller: &Caller,
    body: &mut Map<String, Value>,
    parent: &str,
    id: Uuid,
) -> Result<Checked, Fault> {
    if !parent.is_empty() {
        body.insert(parent.to_owned(), id.to_string().into());
    }
    Checked::create(R::attributes(), caller, body).map_err(R::refuse)
}

fn malformed(name: &'static str, value: Value) -> Fault {
    let refusal = Refusal::bad_value(name, value, "it is not what such an attribute looks like");
    Octavia.refuse(NounNames { name, absent: ("", "") }, refusal)
}

fn take_object(
    body: &mut Map<String, Value>,
    name: &'static str,
) -> Result<Option<Map<String, Value>>, Fault> {
    match body.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(other) => Err(malformed(name, other)),
    }
}

fn take_list(body: &mut Map<String, Value>, name: &'static str) -> Result<Vec<Map<String, Value>>, Fault> {
    let list = match body.remove(name) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(malformed(name, other)),
    };
    let object = |element: Value| match element {
        Value::Object(object) => Ok(object),
        other => Err(malformed(name, other)),
    };
    list.into_iter().map(object).collect()
}

/// Checks the quotas of all parts before any is created.
fn check_quotas(txn: &Txn, whole: &LoadBalancer, pools: &[NewPool], listeners: usize) -> Result<(), Fault> {
    let members = pools.iter().map(|new| new.members.len()).sum();
    let monitors = pools.iter().filter(|new| new.monitor.is_some()).count();
    for (kind, refuse, more) in [
        (Kind::Listener, Listeners::refuse as fn(Refusal) -> Fault, listeners),
        (Kind::Pool, Pools::refuse, pools.len()),
        (Kind::Member, Members::refuse, members),
        (Kind::HealthMonitor, HealthMonitors::refuse, monitors),
    ] {
        if more > 0 {
            let more = u64::try_from(more).unwrap_or(u64::MAX);
            quota::check_objects(txn, balancer::LIMITED, kind, &whole.project, more).map_err(refuse)?;
        }
    }
    Ok(())
}

fn shown<R: Resource>(scene: &Scene<'_>, entity: &R::Entity) -> Map<String, Value> {
    let selection = Selection::new(R::attributes(), scene.caller, &[]);
    match View::values(&selection, |view| R::view(entity, scene, view)).into_value() {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

fn whole_pool(scene: &Scene<'_>, pool: &Pool) -> Value {
    let mut object = shown::<Pools>(scene, pool);
    object.remove("loadbalancers");
    let members = scene.world.linked::<Member>(Link::Inside(Kind::Member, pool.id));
    let members: Vec<Value> = members.map(|member| Value::Object(shown::<Members>(scene, member))).collect();
    object.insert("members".into(), members.into());
    let mut monitors = scene.world.linked::<HealthMonitor>(Link::Inside(Kind::HealthMonitor, pool.id));
    let monitor = monitors.next().map(|monitor| Value::Object(shown::<HealthMonitors>(scene, monitor)));
    object.insert("healthmonitor".into(), monitor.unwrap_or_default());
    Value::Object(object)
}

/// The listeners and pools of a load balancer with all their parts, as in the response to its creation.
pub fn expanded(scene: &Scene<'_>, id: Uuid) -> (Value, Value) {
    let listeners = scene.world.linked::<Listener>(Link::Inside(Kind::Listener, id)).map(|listener| {
        let mut object = shown::<Listeners>(scene, listener);
        object.remove("loadbalancers");
        let pool = listener.default_pool_id.and_then(|pool| scene.world.get::<Pool>(&pool));
        object.insert("default_pool".into(), pool.map(|pool| whole_pool(scene, pool)).unwrap_or_default());
        Value::Object(object)
    });
    let pools = scene.world.linked::<Pool>(Link::Inside(Kind::Pool, id));
    (listeners.collect(), pools.map(|pool| whole_pool(scene, pool)).collect())
}

fn node(id: Uuid, name: &str, status: Status) -> Map<String, Value> {
    let node = [
        ("id", Value::from(id.to_string())),
        ("name", name.into()),
        ("operating_status", status.operating.as_str().into()),
        ("provisioning_status", status.provisioning.as_str().into()),
    ];
    node.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn pool_node(scene: &Scene<'_>, pool: &Pool, detail: StatusDetail) -> Value {
    let mut tree = node(pool.id, &pool.name, status::of_pool(scene, pool));
    let mut monitors = scene.world.linked::<HealthMonitor>(Link::Inside(Kind::HealthMonitor, pool.id));
    if let Some(monitor) = monitors.next() {
        let mut child = node(monitor.id, &monitor.name, status::of_health_monitor(scene, monitor));
        child.insert("type".into(), monitor.kind.as_str().into());
        tree.insert("health_monitor".into(), child.into());
    }
    let members = scene.world.linked::<Member>(Link::Inside(Kind::Member, pool.id)).map(|member| {
        let mut child = node(member.id, &member.name, status::of_member(scene, member));
        child.insert("address".into(), member.address.to_string().into());
        child.insert("protocol_port".into(), member.protocol_port.into());
        detail.add(&mut child, || reason::of_member(scene, member));
        Value::Object(child)
    });
    tree.insert("members".into(), members.collect());
    Value::Object(tree)
}

/// The keys of a tree of states. Octavia's own tree has fixed keys, which clients count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusDetail {
    /// Octavia's keys.
    Standard,
    /// Octavia's keys and a `reason`.
    Verbose,
}

impl StatusDetail {
    fn add(self, node: &mut Map<String, Value>, reason: impl FnOnce() -> Option<String>) {
        if self == StatusDetail::Verbose
            && let Some(reason) = reason()
        {
            node.insert("reason".into(), reason.into());
        }
    }
}

/// The states of a load balancer, its listeners, and their pools and members. With `Verbose`, the load balancer and its members have a
/// `reason` if they are not in service.
pub fn statuses(scene: &Scene<'_>, whole: &LoadBalancer, detail: StatusDetail) -> Value {
    let mut tree = node(whole.id, &whole.name, status::of_load_balancer(scene, whole));
    let listeners = scene.world.linked::<Listener>(Link::Inside(Kind::Listener, whole.id)).map(|listener| {
        let mut child = node(listener.id, &listener.name, status::of_listener(scene, listener));
        let pool = listener.default_pool_id.and_then(|pool| scene.world.get::<Pool>(&pool));
        let pools: Vec<Value> = pool.map(|pool| pool_node(scene, pool, detail)).into_iter().collect();
        child.insert("pools".into(), pools.into());
        Value::Object(child)
    });
    tree.insert("listeners".into(), listeners.collect());
    detail.add(&mut tree, || reason::of_load_balancer(scene, whole));
    json!({"statuses": {"loadbalancer": tree}})
}
