//! `Load_Balancer`: the rows of a load balancer, and the switches and routers that use them.
//!
//! A load balancer has one row for each combination of protocol, algorithm and affinity that its pools use
//! ([`RowSlot`](crate::model::RowSlot)). All rows have its id as name, and the same VIPs, floating IPs and references; the keys of a
//! listener or a pool are in one row only. Each row carries the generation of the load balancer that it was compiled from, so the
//! Northbound itself shows which changes have arrived (`report/balancer.rs`).

mod access;
mod association;
mod backends;
mod bookkeeping;
pub(super) mod health_check;
mod parts;
mod selection;
mod vips;

use ovn::ident::row_uuid;
use ovn::nb::{self, LoadBalancerGroup, LogicalRouter, LogicalSwitch};
use ovn::target::Part;
use ovsdb::Str;
use reconcile::{Class, Problem};
use uuid::Uuid;

use super::{Compiled, Look, balancer_group, map, object, router, switch, text, word};
use crate::model::{LbProtocol, LoadBalancer, RowSlot};
use crate::resource::load_balancer::reason;
use association::Association;
use parts::BalancerParts;

/// The kind of object in problems about the rows.
pub(crate) const OBJECT: &str = "loadbalancer";

/// The UUID of a row. The first row has the load balancer's id.
fn row(look: &Look<'_, '_>, balancer: Uuid, number: u32) -> Uuid {
    match number {
        0 => look.row(balancer),
        number => look.row(row_uuid(OBJECT, &balancer.to_string(), &number.to_string())),
    }
}

pub(super) fn compile(look: &Look<'_, '_>, id: Uuid, to: &mut Compiled) {
    let Some(balancer) = look.object::<LoadBalancer>(id).filter(|balancer| !balancer.deleted) else { return };
    let parts = BalancerParts::read(look, balancer);
    let association = Association::of(look, &parts);
    for slot in &balancer.rows {
        let uuid = row(look, id, slot.number);
        let frontends = vips::frontends(&parts, slot);
        let probes = health_check::compile(look, &frontends, to);
        let columns = nb::LoadBalancer {
            name: text(id),
            protocol: slot.group.protocol.map(protocol),
            vips: vips::vips(&frontends),
            health_check: probes.health_check,
            ip_port_mappings: probes.ip_port_mappings,
            selection_fields: selection::fields(balancer, slot.group.algorithm, look.ability()),
            options: map(options(slot, &association)),
            external_ids: map(bookkeeping::external_ids(&parts, slot, &association)),
        };
        to.part.own(object(OBJECT, id), uuid, columns);
        access::compile(look, &parts, &association, &frontends, &mut to.part);
        associate(look, id, uuid, &association, &mut to.part);
    }
    health_check::report_obstacles(&parts, to);
    warn_of_several_gateways(look, id, &association, to);
    if let Some(reason) = reason::unrouted_text(&association.unrouted) {
        let code = "vip-without-router";
        to.problems.push(Problem::warning(object(OBJECT, id), Class::Refused, code, reason));
    }
}

/// Adds a row to the routers and switches that use it, or to the groups of the routers if there are any.
fn associate(look: &Look<'_, '_>, id: Uuid, row: Uuid, association: &Association<'_>, to: &mut Part) {
    let mut switches = association.networks.clone();
    for used_by in &association.routers {
        match balancer_group::row(look, *used_by) {
            Some(group) => {
                to.member::<LoadBalancerGroup>(
                    object(OBJECT, id),
                    group,
                    LoadBalancerGroup::LOAD_BALANCER,
                    row,
                );
                switches.retain(|network| !association.behind_routers.contains(network));
            }
            None => {
                let router = router::row(look, *used_by);
                to.member::<LogicalRouter>(object(OBJECT, id), router, LogicalRouter::LOAD_BALANCER, row);
            }
        }
    }
    for network in switches {
        let switch = switch::row(look, network);
        to.member::<LogicalSwitch>(object(OBJECT, id), switch, LogicalSwitch::LOAD_BALANCER, row);
    }
}

/// Reports a problem if OVN cannot serve the load balancer: on a router with several gateways it must translate without state.
fn warn_of_several_gateways(look: &Look<'_, '_>, id: Uuid, association: &Association<'_>, to: &mut Compiled) {
    if association.has_multihomed_router && !look.ability().stateless_balancers {
        to.problems.push(Problem::warning(
            object(OBJECT, id),
            Class::Refused,
            "balancer-with-several-gateways",
            "its router has several gateways, and this OVN may answer through another one than the request came by, so that clients \
             outside get no answer. Upgrade OVN to 25.03, or use a router with one gateway",
        ));
    }
}

fn protocol(protocol: LbProtocol) -> nb::LbProtocol {
    match protocol {
        LbProtocol::Tcp => nb::LbProtocol::Tcp,
        LbProtocol::Udp => nb::LbProtocol::Udp,
        LbProtocol::Sctp => nb::LbProtocol::Sctp,
    }
}

fn options(slot: &RowSlot, association: &Association<'_>) -> Vec<(&'static str, Str)> {
    let mut options = Vec::new();
    options.extend(slot.group.affinity.map(|seconds| ("affinity_timeout", text(seconds))));
    // Requests and replies may cross different gateways, so no single chassis has the state of the connection.
    if association.has_multihomed_router {
        options.push(("use_stateless_nat", word(true)));
    }
    options
}
