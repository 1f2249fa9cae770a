//! `Load_Balancer_Group`: the load balancers of a router, which all of its networks use.
//!
//! With many load balancers behind one router, each of its switches lists all of them, and each new interface copies the list. A group
//! contains the list once. Groups are a setting (`load_balancer_groups`); without them the rows look like those of Octavia's OVN provider.

use ovn::ident::{marked_uuid, name};
use ovn::nb::{LoadBalancerGroup, LogicalRouter, LogicalSwitch};
use ovn::target::Part;
use uuid::Uuid;

use super::look::Look;
use super::{object, router, switch, text};

/// The row of a router's group, if groups are on.
pub(super) fn row(look: &Look<'_, '_>, router: Uuid) -> Option<Uuid> {
    let settings = look.settings();
    // The table has no external_ids, so the UUID marks the row as ours.
    let row = || marked_uuid(&settings.owner, "router", &router.to_string(), "load balancers");
    settings.load_balancer_groups.then(row)
}

/// Creates the group of a router and adds it to the router and its internal networks.
pub(super) fn compile(look: &Look<'_, '_>, router: Uuid, to: &mut Part) {
    let Some(row) = row(look, router) else { return };
    let of = || object("router", router);
    let group = LoadBalancerGroup { name: text(name::router(router)), ..Default::default() };
    to.own(of(), row, group);
    to.member::<LogicalRouter>(of(), router::row(look, router), LogicalRouter::LOAD_BALANCER_GROUP, row);
    let ports = look.router_ports(router).into_iter().filter(|port| !port.is_gateway());
    let networks = ports.filter_map(|port| look.network(port.network_id));
    for network in networks.filter(|network| !network.external) {
        let switch = switch::row(look, network.id);
        to.member::<LogicalSwitch>(of(), switch, LogicalSwitch::LOAD_BALANCER_GROUP, row);
    }
}
