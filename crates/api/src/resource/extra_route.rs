//! Extra routes: static routes that a router's owner sets.
//!
//! `routes` of an update replaces them all. The two sub-methods add and remove routes without listing the others; adding a present route or
//! removing an absent one changes nothing. Traffic to a destination with several next hops is spread over them.

use std::collections::BTreeSet;

use ipnet::IpNet;
use serde_json::Value;
use uuid::Uuid;

use super::router::reach;
use super::{ActionCall, Field, Reply, Shape, quota};
use crate::fault::Fault;
use crate::model::{ExtraRoute, Router};
use crate::world::Txn;

/// The value of the attribute `routes`.
pub const ROUTES: Shape = Shape::List { of: &ROUTE, max: usize::MAX, unique: false };
const ROUTE: Shape = Shape::Object(&[
    Field::required("destination", Shape::Word { format: "cidr", parse: destination }),
    Field::required("nexthop", Shape::Address),
]);

/// The body of both sub-methods.
pub const BODY: Shape =
    Shape::Object(&[Field::required("router", Shape::Object(&[Field::required("routes", ROUTES)]))]);

/// `PUT /routers/{id}/add_extraroutes`.
pub fn add(txn: &mut Txn, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let new = body(call.body)?;
    let mut routes = super::router::found(txn, call.id)?.routes.clone();
    let mut known: BTreeSet<ExtraRoute> = routes.iter().copied().collect();
    let added: Vec<ExtraRoute> = new.into_iter().filter(|route| known.insert(*route)).collect();
    routes.extend(&added);
    set_checked(txn, call.id, routes, &added)?;
    Ok(Reply::Object)
}

/// `PUT /routers/{id}/remove_extraroutes`.
pub fn remove(txn: &mut Txn, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let gone = body(call.body)?;
    let mut routes = super::router::found(txn, call.id)?.routes.clone();
    routes.retain(|route| !gone.contains(route));
    set_checked(txn, call.id, routes, &[])?;
    Ok(Reply::Object)
}

/// Replaces all routes of a router by a checked value of [`ROUTES`]; no value removes them all. As in Neutron, a duplicate is an error
/// here.
pub fn replace(txn: &mut Txn, id: Uuid, value: Option<&Value>) -> Result<(), Fault> {
    let routes = value.map(read).transpose()?.unwrap_or_default();
    let mut listed = BTreeSet::new();
    if let Some(twice) = routes.iter().find(|route| !listed.insert(**route)) {
        let text = format!("the route to {} through {} is listed twice", twice.destination, twice.nexthop);
        return Err(Fault::invalid("routes", text));
    }
    let all = routes.clone();
    set_checked(txn, id, routes, &all)
}

/// The routes of a sub-method's body: `{"router": {"routes": [...]}}`.
fn body(body: &Value) -> Result<Vec<ExtraRoute>, Fault> {
    let router = body.get("router").and_then(Value::as_object);
    let router = router.ok_or_else(|| Fault::bad("Unable to find 'router' in request body"))?;
    let routes = router.get("routes").ok_or_else(|| Fault::bad("Unable to find 'routes' in request body"))?;
    let checked = ROUTES.check(routes).map_err(|reason| Fault::invalid("routes", reason))?;
    read(&checked)
}

/// Deserializes a checked value.
fn read(value: &Value) -> Result<Vec<ExtraRoute>, Fault> {
    let routes: Vec<ExtraRoute> =
        serde_json::from_value(value.clone()).map_err(|error| Fault::invalid("routes", error))?;
    let mixed = |route: &&ExtraRoute| route.destination.addr().is_ipv4() != route.nexthop.is_ipv4();
    match routes.iter().find(mixed) {
        Some(route) => {
            let text = format!(
                "destination {} and nexthop {} are of two families",
                route.destination, route.nexthop
            );
            Err(Fault::invalid("routes", text))
        }
        None => Ok(routes),
    }
}

fn set_checked(txn: &mut Txn, id: Uuid, routes: Vec<ExtraRoute>, new: &[ExtraRoute]) -> Result<(), Fault> {
    let router = super::router::found(txn, id)?;
    quota::check_growth(txn, "router_route", &router.project, router.routes.len(), routes.len())?;
    reach::check_connected(txn, id, new)?;
    reach::check_not_own(txn, id, new)?;
    txn.edit::<Router>(&id, |router| router.routes = routes);
    Ok(())
}

/// Parses a destination. Host bits are refused because their meaning would be ambiguous.
fn destination(text: &str) -> Result<String, String> {
    let prefix: IpNet = text.parse().map_err(|_| format!("'{text}' is not a valid IP subnet"))?;
    if prefix.trunc() == prefix {
        Ok(prefix.to_string())
    } else {
        Err(format!("'{text}' isn't a recognized IP subnet cidr, '{}' is recommended", prefix.trunc()))
    }
}

#[cfg(test)]
mod tests;
