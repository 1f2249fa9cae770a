//! The routers that a chassis hosts or may host: the lists, and the pins of an administrator.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use smol_str::SmolStr;
use uuid::Uuid;

use super::{row, shown_agents};
use crate::caller::Caller;
use crate::fault::Fault;
use crate::model::{Placement, Port, Router};
use crate::resource::router::{self, Routers, reach};
use crate::resource::{ActionCall, Field, Reply, Scene, Shape, of};
use crate::scheduler::{self, PinError};
use crate::world::{Link, Txn, World};

/// `GET /routers/{id}/l3-agents`.
pub fn of_router(scene: &Scene<'_>, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let mut places: BTreeMap<&str, (u16, bool)> = BTreeMap::new();
    for placement in gateways(scene.world, call.id).filter_map(|port| scene.world.get::<Placement>(&port.id))
    {
        for (rank, placed) in placement.chassis.iter().enumerate() {
            let place = places.entry(&placed.chassis).or_default();
            *place = (place.0.max(placed.priority), place.1 || rank == 0);
        }
    }
    let agents = shown_agents(scene.world, scene.report).filter_map(|(agent, setting)| {
        let (priority, primary) = places.get(agent.id.as_str())?;
        let mut shown = row(agent, setting);
        shown.insert("ha_state".into(), if *primary { "active" } else { "standby" }.into());
        shown.insert("ha_chassis_priority".into(), (*priority).into());
        Some(Value::Object(shown))
    });
    Ok(Reply::Value(json!({"agents": agents.collect::<Vec<_>>()})))
}

/// `GET /agents/{id}/l3-routers`.
pub(super) fn routers(scene: &Scene<'_>, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let mut priorities: BTreeMap<Uuid, u16> = BTreeMap::new();
    for placement in scene.world.linked::<Placement>(Link::PlacementsOn(SmolStr::new(call.name))) {
        let router = scene.world.get::<Port>(&placement.port_id).and_then(|port| port.router_id());
        let placed = placement.chassis.iter().find(|placed| placed.chassis == call.name);
        if let (Some(router), Some(placed)) = (router, placed) {
            let priority = priorities.entry(router).or_default();
            *priority = (*priority).max(placed.priority);
        }
    }
    let mut routers = Vec::with_capacity(priorities.len());
    for (id, priority) in priorities {
        let mut shown = of::<Routers>().show(scene, &id.to_string(), &[])?.into_value();
        shown["ha_chassis_priority"] = priority.into();
        routers.push(shown);
    }
    Ok(Reply::Value(json!({"routers": routers})))
}

const LEVEL: Shape = Shape::Nullable(&Shape::Integer { min: 0, max: 32_767 });
/// The body of `POST /agents/{id}/l3-routers`.
pub(super) const PIN: Shape =
    Shape::Object(&[Field::required("router_id", Shape::Uuid), Field::new("ha_chassis_priority", LEVEL)]);
/// The body of `PUT /agents/{id}/l3-routers/{router}`.
pub(super) const PRIORITY: Shape = Shape::Object(&[Field::required("ha_chassis_priority", LEVEL)]);

/// `POST /agents/{id}/l3-routers`: pins the chassis into the chassis group of every gateway of the router that it can carry.
pub(super) fn pin(txn: &mut Txn, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let id = match call.body.get("router_id") {
        Some(value) => Shape::Uuid.check(value).map_err(|reason| Fault::invalid("router_id", reason))?,
        None => {
            return Err(Fault::bad("Failed to parse request. Required attribute 'router_id' not specified"));
        }
    };
    let id: Uuid = id.as_str().and_then(|id| id.parse().ok()).unwrap_or_default();
    let priority = priority(call.body)?;
    change(txn, call.name, id, |txn, port| {
        let outside = txn.outside();
        scheduler::pin(txn, &outside, port, call.name, priority)
    })?;
    // Clients parse the response, so it needs a body.
    Ok(Reply::Value(Value::Null))
}

/// `PUT /agents/{id}/l3-routers/{router}`.
pub(super) fn prioritise(txn: &mut Txn, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let missing =
        || Fault::bad("Failed to parse request. Required attribute 'ha_chassis_priority' not specified");
    let priority = priority(call.body)?.ok_or_else(missing)?;
    change(txn, call.name, named(call)?, |txn, port| {
        let outside = txn.outside();
        scheduler::prioritise(txn, &outside, port, call.name, priority)
    })?;
    Ok(Reply::Value(json!({"ha_chassis_priority": priority})))
}

/// `DELETE /agents/{id}/l3-routers/{router}`.
pub(super) fn unpin(txn: &mut Txn, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    change(txn, call.name, named(call)?, |txn, port| {
        let outside = txn.outside();
        let seed = txn.chance().u64(..);
        scheduler::unpin(txn, &outside, port, call.name, seed)
    })?;
    Ok(Reply::Nothing)
}

/// `POST /meridian/rebalance`: moves primaries away from chassis that have more than their share. Returns the moved ports and their new
/// chassis.
pub fn rebalance(txn: &mut Txn, caller: &Caller) -> Result<Value, Fault> {
    if !caller.admin {
        return Err(Fault::forbidden("rebalance"));
    }
    let outside = txn.outside();
    let mut moved = Vec::new();
    for placement in scheduler::rebalance(txn, &outside) {
        let primary = placement.chassis.first().map(|placed| placed.chassis.clone());
        moved.push(json!({"port_id": placement.port_id, "chassis": primary}));
        txn.put(placement);
    }
    Ok(json!({"moved": moved}))
}

fn gateways(world: &World, router: Uuid) -> impl Iterator<Item = &Port> {
    reach::ports(world, router).filter(|port| port.is_gateway()).map(|port| &**port)
}

fn named(call: &ActionCall<'_>) -> Result<Uuid, Fault> {
    let text = call.args.first().copied().unwrap_or_default();
    Uuid::try_parse(text).map_err(|_| Fault::absent("RouterNotFound", "Router", text))
}

fn priority(body: &Value) -> Result<Option<u16>, Fault> {
    match body.get("ha_chassis_priority") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number =
                LEVEL.check(value).map_err(|reason| Fault::invalid("ha_chassis_priority", reason))?;
            Ok(number.as_u64().and_then(|number| u16::try_from(number).ok()))
        }
    }
}

/// Changes the chassis group of every gateway of a router that involves the chassis. It is enough if the chassis can carry some of the
/// gateways; if it can carry none, the request fails.
fn change(
    txn: &mut Txn,
    chassis: &str,
    id: Uuid,
    step: impl Fn(&mut Txn, &Port) -> Result<Placement, PinError>,
) -> Result<(), Fault> {
    let router: &Router = router::found(txn, id)?;
    let ports: Vec<Port> = gateways(txn, router.id).cloned().collect();
    let mut first = None;
    let mut done = false;
    for port in &ports {
        match step(txn, port) {
            Ok(placement) => {
                done = true;
                txn.put(placement);
            }
            Err(error @ (PinError::NotEligible | PinError::NotInGroup)) => {
                first.get_or_insert(error);
            }
            Err(error) => return Err(refused(chassis, id, error)),
        }
    }
    if done { Ok(()) } else { Err(refused(chassis, id, first.unwrap_or(PinError::NotEligible))) }
}

fn refused(chassis: &str, router: Uuid, error: PinError) -> Fault {
    let kind = match error {
        PinError::NotEligible => "InvalidL3Agent",
        PinError::NotInGroup => "RouterNotHostedByL3Agent",
        PinError::PriorityTaken | PinError::Full => "RouterSchedulingFailed",
    };
    Fault::conflict(kind, format!("Agent {chassis} and router {router}: {error}."))
}
