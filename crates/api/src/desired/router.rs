//! `Logical_Router`: a router and its references.

use ovn::ident::name;
use ovn::nb::LogicalRouter;
use ovn::text::neutron::key;
use ovsdb::Str;
use uuid::Uuid;

use super::look::Look;
use super::{Compiled, balancer_group, map, metadata_route, nat, object, route, text, word};
use crate::model::Router;

/// The router's row.
pub(super) fn row(look: &Look<'_, '_>, router: Uuid) -> Uuid {
    look.row(router)
}

pub(super) fn compile(look: &Look<'_, '_>, id: Uuid, to: &mut Compiled) {
    let Some(router) = look.router(id) else { return };
    let routes = route::compile(look, router, &mut to.part);
    let metadata = metadata_route::compile(look, router, &mut to.part);
    let translations = nat::compile_source(look, router, &mut to.part);
    let logical_router = LogicalRouter {
        name: text(name::router(id)),
        enabled: Some(router.admin_state_up),
        static_routes: routes.into_iter().chain(metadata.route).collect(),
        policies: metadata.policies.into_iter().collect(),
        nat: translations.into_iter().collect(),
        options: map(options(look, router)),
        external_ids: map([
            (key::ROUTER_NAME, text(&router.name)),
            (key::REVISION, text(router.standard.revision)),
            (key::AVAILABILITY_ZONE_HINTS, text(router.availability_zone_hints.join(","))),
        ]),
        ..Default::default()
    };
    to.part.own(object("router", id), row(look, id), logical_router);
    balancer_group::compile(look, id, &mut to.part);
}

fn options(look: &Look<'_, '_>, router: &Router) -> Vec<(&'static str, Str)> {
    let mut options = vec![
        ("always_learn_from_arp_request", word(false)),
        ("dynamic_neigh_routers", word(true)),
        ("mac_binding_age_threshold", text(look.settings().mac_binding_age_threshold)),
    ];
    options.extend(chassis(look, router).map(|chassis| ("chassis", text(chassis))));
    options
}

/// The chassis that routes for the whole router, if there is one. Chassis cannot compete for a gateway on a tunnelled network, because it
/// has no bridge, so the router as a whole is bound to one. northd accepts that only if no port has a chassis group.
pub(super) fn chassis<'w>(look: &Look<'_, 'w>, router: &Router) -> Option<&'w str> {
    let gateways = look.gateways(router.id);
    let physical = |port: &&crate::model::Port| {
        look.network(port.network_id).is_some_and(|network| network.segment.is_physical())
    };
    if gateways.iter().any(physical) {
        return None;
    }
    gateways
        .iter()
        .find_map(|port| look.placement(port.id)?.chassis.first())
        .map(|placed| placed.chassis.as_str())
}
