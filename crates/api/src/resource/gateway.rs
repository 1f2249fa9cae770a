//! The external gateways of a router: one, as `external_gateway_info` shows, or many.
//!
//! A gateway is a port of the router on an external network. One of them is the compatibility gateway, which `external_gateway_info` shows
//! and which is first in every list; the others follow in order of creation. [`add`], [`update`] and [`remove`] are the three sub-methods;
//! [`set_info`] sets the old single attribute. All of them change the world first and then check the outcome (`check`). So a request that
//! leaves a floating IP or a route without its gateway fails, and nothing changes.

mod change;
mod check;
pub mod element;
pub mod matching;
mod status;
mod subnet;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::fault::Fault;
use crate::model::{FixedIp, Port, Router};
use crate::resource::{ActionCall, Reply};
use crate::world::{Link, Txn, World};

pub use change::{add, remove, remove_all, set_info, update};
pub use check::check_readdressed;
pub use element::Element;
pub use status::{GatewayStatus, RouteStatus, default_routes, status, statuses, warnings};
pub use subnet::subnet_added;

use element::Purpose;

/// The gateway ports of a router: the compatibility gateway, then the others by age.
pub fn of_router<'w>(world: &'w World, router: &Router) -> Vec<&'w Arc<Port>> {
    let ports = world.linked::<Port>(Link::PortsOfDevice(router.id.into()));
    let mut gateways: Vec<_> = ports.filter(|port| port.is_gateway()).collect();
    gateways.sort_by_key(|port| (Some(port.id) != router.gw_port_id, port.gateway_ordinal, port.id));
    gateways
}

/// A gateway as JSON, for responses.
pub fn shown(router: &Router, port: &Port) -> Value {
    let fixed = |fixed: &FixedIp| json!({"subnet_id": fixed.subnet_id, "ip_address": fixed.ip_address});
    let mut shown = Map::new();
    shown.insert("network_id".into(), port.network_id.to_string().into());
    shown.insert("enable_snat".into(), router.enable_snat.into());
    shown.insert("external_fixed_ips".into(), port.fixed_ips.iter().map(fixed).collect());
    Value::Object(shown)
}

/// `PUT /routers/{id}/add_external_gateways`.
pub fn add_action(txn: &mut Txn, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    if let Some(elements) = element::read_list(call.body, call.caller, Purpose::Add)? {
        add(txn, call.caller, call.id, &elements)?;
    }
    Ok(Reply::Object)
}

/// `PUT /routers/{id}/update_external_gateways`.
pub fn update_action(txn: &mut Txn, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    if let Some(elements) = element::read_list(call.body, call.caller, Purpose::Update)? {
        update(txn, call.caller, call.id, &elements)?;
    }
    Ok(Reply::Object)
}

/// `PUT /routers/{id}/remove_external_gateways`. An empty list removes nothing: the `openstack` client sends one with every `router unset`.
pub fn remove_action(txn: &mut Txn, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    if let Some(elements) = element::read_list(call.body, call.caller, Purpose::Remove)? {
        remove(txn, call.id, &elements)?;
    }
    Ok(Reply::Object)
}

/// The router with this id.
fn router(world: &World, id: Uuid) -> Result<&Arc<Router>, Fault> {
    world.get::<Router>(&id).ok_or_else(|| Fault::absent("RouterNotFound", "Router", id))
}

#[cfg(test)]
mod tests;
