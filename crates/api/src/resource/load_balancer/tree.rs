//! A load balancer with all its parts: created by one request, and shown as a whole.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::status::{self, Status};
use super::{aggregate, reason};
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

/// Creates the listeners and pools that come with a new load balancer; all of them belong to its first generation.
pub(super) fn create_parts(txn: &mut Txn, caller: &Caller, id: Uuid, new: &Checked) -> Result<(), Fault> {
    let objects = |name: &str| match new.get(name) {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_object).cloned().collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    let (pools, listeners) = (objects("pools"), objects("listeners"));
    let mut planned: Vec<Map<String, Value>> = pools;
    for listener in &listeners {
        if let Some(pool) = listener.get("default_pool").and_then(Value::as_object)
            && !is_reference(pool)
        {
            planned.push(pool.clone());
        }
    }
    let names = check_names(&planned)?;
    let whole = aggregate::found(txn, id)?.clone();
    let generation = whole.generation;
    let mut ids = Vec::new();
    for mut body in planned {
        let members = take_list(&mut body, "members")?;
        let monitor = take_object(&mut body, "healthmonitor")?;
        let pool = check::<Pools>(caller, &mut body, "loadbalancer_id", id)?;
        let made = pool::make(txn, &whole, &pool, generation)?;
        ids.push(made);
        for mut member in members {
            let new = check::<Members>(caller, &mut member, "", id)?;
            member::make(txn, caller, made, &new, generation)?;
        }
        if let Some(mut monitor) = monitor {
            let new = check::<HealthMonitors>(caller, &mut monitor, "pool_id", made)?;
            health_monitor::make(txn, made, &new, generation)?;
        }
    }
    for mut body in listeners {
        if let Some(default) = take_object(&mut body, "default_pool")? {
            let name = default.get("name").and_then(Value::as_str).unwrap_or_default();
            let at = names.iter().position(|known| known == name).ok_or_else(|| {
                validation(format_args!("Pool '{name}' was referenced but no full definition was found."))
            })?;
            body.insert("default_pool_id".into(), ids[at].to_string().into());
        }
        let new = check::<Listeners>(caller, &mut body, "loadbalancer_id", id)?;
        listener::make(txn, &whole, &new, generation)?;
    }
    check_quotas(txn, &whole)
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

/// Checks quotas after all parts were created; a failure drops all of them.
fn check_quotas(txn: &Txn, whole: &LoadBalancer) -> Result<(), Fault> {
    for (kind, refuse) in [
        (Kind::Listener, Listeners::refuse as fn(Refusal) -> Fault),
        (Kind::Pool, Pools::refuse),
        (Kind::Member, Members::refuse),
        (Kind::HealthMonitor, HealthMonitors::refuse),
    ] {
        quota::check_objects(txn, balancer::LIMITED, kind, &whole.project, 0).map_err(refuse)?;
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
