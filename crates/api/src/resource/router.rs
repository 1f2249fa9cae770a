//! Routers.
//!
//! This file has only the router's own attributes: names, flags, zones. The rest has files of its own: [`gateway`], [`interface`] and
//! [`extra_route`].

pub mod reach;

use std::sync::Arc;

use uuid::Uuid;

use super::{
    Action, Attribute, Audience, Checked, Field, Part, Preset, Resource, Scene, Shape, View, absent, agent,
    attribute, extra_route, gateway, interface, network, quota,
};
use crate::caller::Caller;
use crate::dialect::{Dialect, Neutron};
use crate::fault::Fault;
use crate::model::{Router, Standard};
use crate::policy;
use crate::settings::Settings;
use crate::world::{Kind, Txn, World};

/// The noun `router`.
#[derive(Debug)]
pub struct Routers;

const FIXED_IP: Shape = Shape::Object(&[
    Field::new("subnet_id", Shape::Nullable(&Shape::Uuid)),
    Field::new("ip_address", Shape::Nullable(&Shape::Address)),
]);
const FIXED_IPS: Shape = Shape::Nullable(&Shape::List { of: &FIXED_IP, max: usize::MAX, unique: false });
/// An empty object removes the gateway, so no key can be mandatory here.
const GATEWAY: Shape = Shape::Object(&[
    Field::new("network_id", Shape::Uuid),
    Field::new("enable_snat", Shape::Bool),
    Field::new("external_fixed_ips", FIXED_IPS),
    Field::new("qos_policy_id", Shape::Nullable(&Shape::Uuid)),
]);
const GATEWAYS: Shape = Shape::List { of: &GATEWAY, max: usize::MAX, unique: false };
const ZONE: Shape = Shape::Text { max: 255 };
const ZONES: Shape = Shape::List { of: &ZONE, max: 64, unique: true };
const SWITCH: Shape = Shape::Nullable(&Shape::Bool);

static ATTRIBUTES: &[Attribute] = &[
    attribute::ID,
    attribute::TENANT_ID,
    attribute::PROJECT_ID,
    attribute::NAME,
    attribute::ADMIN_STATE_UP,
    Attribute::new("status", Shape::OneOf(&["ACTIVE", "ERROR"]), "ACTIVE."),
    Attribute::new(
        "external_gateway_info",
        Shape::Nullable(&GATEWAY),
        "The first gateway; null or {} takes it away. Addresses and source NAT are for administrators to choose.",
    )
    .create_by(policy::MEMBER)
    .update_by(policy::MEMBER)
    .parts(&[
        Part::new("network_id", policy::MEMBER),
        Part::new("enable_snat", policy::ADMIN),
        Part::new("external_fixed_ips", policy::ADMIN),
    ]),
    Attribute::new("external_gateways", GATEWAYS, "All gateways; changed by the sub-methods."),
    Attribute::new("enable_snat", Shape::Bool, "Whether its gateways translate source addresses."),
    Attribute::new("enable_default_route_ecmp", SWITCH, "A default route for each gateway instead of one.")
        .create_by(policy::ADMIN)
        .update_by(policy::ADMIN)
        .preset(Preset::Null),
    Attribute::new("enable_default_route_bfd", SWITCH, "Default routes leave when their next hop does not answer.")
        .create_by(policy::ADMIN)
        .update_by(policy::ADMIN)
        .preset(Preset::Null),
    Attribute::new("routes", Shape::Nullable(&extra_route::ROUTES), "Routes beyond the default ones; null removes all.")
        .update(),
    Attribute::new("availability_zone_hints", ZONES, "Where its gateways should be.").create().preset(Preset::List),
    Attribute::new("availability_zones", ZONES, "Where its gateways are: the hints."),
    Attribute::new("distributed", SWITCH, "Whether floating IPs leave from the chassis of their instance.")
        .create_by(policy::ADMIN)
        .preset(Preset::Null)
        .shown(Audience::Admin),
    Attribute::new("ha", SWITCH, "Always true: gateways fail over.")
        .create_by(policy::ADMIN)
        .update_by(policy::ADMIN)
        .preset(Preset::Null)
        .shown(Audience::Admin),
    Attribute::new("flavor_id", Shape::Nullable(&Shape::Uuid), "Always null."),
    attribute::DESCRIPTION,
    attribute::TAGS,
    attribute::REVISION_NUMBER,
    attribute::CREATED_AT,
    attribute::UPDATED_AT,
];

static ACTIONS: &[Action] = &[
    Action::put("add_router_interface", "Attaches a subnet or a port.", interface::add).body(interface::BODY),
    Action::put("remove_router_interface", "Detaches a subnet or a port.", interface::remove)
        .body(interface::BODY),
    Action::put("add_extraroutes", "Adds routes to those that are there.", extra_route::add)
        .body(extra_route::BODY),
    Action::put("remove_extraroutes", "Takes routes away.", extra_route::remove).body(extra_route::BODY),
    Action::put("add_external_gateways", "Adds gateways to those that are there.", gateway::add_action)
        .body(gateway::element::BODY),
    Action::put("update_external_gateways", "Makes the gateways those of the list.", gateway::update_action)
        .body(gateway::element::BODY),
    Action::put("remove_external_gateways", "Takes the named gateways away.", gateway::remove_action)
        .body(gateway::element::BODY),
    Action::get("gateway_status", "Where its gateways are and which next hops answer.", gateway::status)
        .by(policy::ADMIN),
    Action::get("l3-agents", "The chassis that may host its gateways.", agent::of_router)
        .by(policy::ADMIN)
        .rule("get_l3-agents"),
];

impl Resource for Routers {
    type Entity = Router;
    const DIALECT: &'static dyn Dialect = &Neutron;
    const NAME: &'static str = "router";
    const COLLECTION: &'static str = "routers";
    const PATH: &'static str = "routers";
    const ABSENT: (&'static str, &'static str) = ("RouterNotFound", "Router");

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn actions() -> &'static [Action] {
        ACTIONS
    }

    fn project(entity: &Router) -> &str {
        &entity.project
    }

    fn standard(entity: &Router) -> Option<&Standard> {
        Some(&entity.standard)
    }

    fn standard_mut(entity: &mut Router) -> Option<&mut Standard> {
        Some(&mut entity.standard)
    }

    fn view(entity: &Router, scene: &Scene<'_>, view: &mut View<'_>) {
        let gateways = gateway::of_router(scene.world, entity);
        view.identity(entity.id, &entity.project);
        view.text("name", entity.name.as_str());
        view.put("admin_state_up", entity.admin_state_up);
        view.text("status", "ACTIVE");
        view.put_with("external_gateway_info", || gateways.first().map(|port| gateway::shown(entity, port)));
        view.list("external_gateways", gateways.iter().map(|port| gateway::shown(entity, port)));
        view.put("enable_snat", entity.enable_snat);
        view.put("enable_default_route_ecmp", entity.enable_default_route_ecmp);
        view.put("enable_default_route_bfd", entity.enable_default_route_bfd);
        view.put_with("routes", || serde_json::json!(entity.routes));
        view.texts("availability_zone_hints", &entity.availability_zone_hints);
        view.texts("availability_zones", &entity.availability_zone_hints);
        view.put("distributed", scene.outside.settings.enable_distributed_floating_ip);
        view.put("ha", true);
        view.put("flavor_id", ());
        view.standard(&entity.standard);
    }

    fn create(txn: &mut Txn, caller: &Caller, new: &Checked) -> Result<Uuid, Fault> {
        let outside = txn.outside();
        let settings = &outside.settings;
        let project = new.project().to_owned();
        quota::check(txn, Kind::Router, &project, 1)?;
        check_ha(new)?;
        check_distributed(settings, new)?;
        let zones: Vec<String> = new.read("availability_zone_hints").unwrap_or_default();
        network::check_zones(&outside.fleet, &zones)?;
        let router = Router {
            id: txn.new_id(),
            project,
            name: new.text("name").unwrap_or_default().to_owned(),
            admin_state_up: new.bool("admin_state_up").unwrap_or(true),
            gw_port_id: None,
            enable_snat: settings.enable_snat_by_default,
            enable_default_route_ecmp: new
                .bool("enable_default_route_ecmp")
                .unwrap_or(settings.enable_default_route_ecmp),
            enable_default_route_bfd: new
                .bool("enable_default_route_bfd")
                .unwrap_or(settings.enable_default_route_bfd),
            routes: Vec::new(),
            availability_zone_hints: zones,
            standard: new.standard(txn.now()),
        };
        let id = router.id;
        txn.put(router);
        if let Some(info) = new.get("external_gateway_info")
            && let Some(element) = gateway::element::read_info(info)?
        {
            gateway::set_info(txn, caller, id, Some(&element))?;
        }
        Ok(id)
    }

    fn update(txn: &mut Txn, caller: &Caller, id: Uuid, change: &Checked) -> Result<(), Fault> {
        check_ha(change)?;
        if change.has("external_gateway_info") {
            let none = serde_json::Value::Null;
            let info = change.get("external_gateway_info").unwrap_or(&none);
            let element = gateway::element::read_info(info)?;
            gateway::set_info(txn, caller, id, element.as_ref())?;
        }
        if change.has("routes") {
            extra_route::replace(txn, id, change.get("routes"))?;
        }
        txn.edit::<Router>(&id, |router| {
            change.set_text("name", &mut router.name);
            change.set_bool("admin_state_up", &mut router.admin_state_up);
            change.set_bool("enable_default_route_ecmp", &mut router.enable_default_route_ecmp);
            change.set_bool("enable_default_route_bfd", &mut router.enable_default_route_bfd);
        });
        Ok(())
    }

    fn delete(txn: &mut Txn, _caller: &Caller, id: Uuid, _: &Checked) -> Result<(), Fault> {
        let interfaces: Vec<String> = reach::interfaces(txn, id).map(|port| port.id.to_string()).collect();
        if !interfaces.is_empty() {
            let text = format!("Router {id} has ports still attached: {}", interfaces.join(", "));
            return Err(Fault::conflict("RouterInUse", text));
        }
        let router = Arc::clone(found(txn, id)?);
        gateway::remove_all(txn, &router);
        txn.remove::<Router>(&id);
        Ok(())
    }
}

/// The router with this id.
pub fn found(world: &World, id: Uuid) -> Result<&Arc<Router>, Fault> {
    world.get::<Router>(&id).ok_or_else(|| absent::<Routers>(id))
}

/// Refuses `ha: false`: every router fails over.
fn check_ha(checked: &Checked) -> Result<(), Fault> {
    match checked.bool("ha") {
        Some(false) => Err(Fault::invalid("ha", "routers without high availability are not supported")),
        _ => Ok(()),
    }
}

/// Refuses a value of `distributed` other than the operator's: distributed floating IPs are on or off for all routers.
fn check_distributed(settings: &Settings, checked: &Checked) -> Result<(), Fault> {
    match checked.bool("distributed") {
        Some(asked) if asked != settings.enable_distributed_floating_ip => {
            let reason =
                format!("'{asked}' is not what enable_distributed_floating_ip says for every router");
            Err(Fault::invalid("distributed", reason))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
