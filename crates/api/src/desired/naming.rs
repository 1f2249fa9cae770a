//! The owner of each row, derived from the row's own keys: most rows need no extra key for it.

use ovn::ident::name;
use ovn::nb;
use ovn::target::{Ownership, Row};
use ovn::text::neutron::key;
use ovn::text::octavia;
use ovsdb::{Map, Str, Table};
use reconcile::ObjectId;
use uuid::Uuid;

use super::{load_balancer, object};

/// The marks of rows of the deployment `owner`.
pub fn ownership(owner: &str) -> Ownership {
    Ownership::new(owner).naming(naming)
}

fn naming(_: Uuid, row: &dyn Row) -> Option<ObjectId> {
    let ids = row.external_ids()?;
    let any = row.as_any();
    if let Some(row) = any.downcast_ref::<nb::LogicalSwitchPort>() {
        return Uuid::try_parse(&row.name).ok().map(|id| object("port", id));
    }
    if let Some(row) = any.downcast_ref::<nb::LogicalSwitch>() {
        return name::neutron_id(&row.name).map(|id| object("network", id));
    }
    if let Some(row) = any.downcast_ref::<nb::LogicalRouter>() {
        return name::neutron_id(&row.name).map(|id| object("router", id));
    }
    if let Some(row) = any.downcast_ref::<nb::LogicalRouterPort>() {
        return name::router_port_id(&row.name).map(|id| object("port", id));
    }
    if let Some(row) = any.downcast_ref::<nb::LoadBalancer>().filter(|row| is_octavias(&row.external_ids)) {
        return Uuid::try_parse(&row.name).ok().map(|id| object(load_balancer::OBJECT, id));
    }
    let told = |table: &str, key: &str, kind: &'static str| {
        if row.table() == table { said(ids, key).map(|id| object(kind, id)) } else { None }
    };
    told(nb::Nat::TABLE, key::FIP_ID, "floatingip")
        .or_else(|| told(nb::PortGroup::TABLE, key::SECURITY_GROUP_ID, "security_group"))
        .or_else(|| told(nb::Acl::TABLE, key::SECURITY_GROUP_RULE_ID, "security_group_rule"))
        .or_else(|| told(nb::DhcpOptions::TABLE, key::DHCP_PORT_ID, "port"))
        .or_else(|| told(nb::DhcpOptions::TABLE, key::DHCP_SUBNET_ID, "subnet"))
        .or_else(|| {
            let table = nb::LoadBalancerHealthCheck::TABLE;
            told(table, octavia::key::HEALTH_MONITOR, load_balancer::health_check::OBJECT)
        })
        .or_else(|| told(nb::Bfd::TABLE, key::ROUTER_ID, "router"))
}

/// Whether a load balancer is the API's, and not one of port forwarding or of another program.
fn is_octavias(ids: &Map<Str, Str>) -> bool {
    ids.get(octavia::key::VIP_PORT_ID).is_some()
}

fn said(ids: &Map<Str, Str>, key: &str) -> Option<Uuid> {
    Uuid::try_parse(ids.get(key)?).ok()
}

/// The static name of a Northbound table, if it is modelled.
pub(super) fn table(name: &str) -> Option<&'static str> {
    nb::model().iter().map(|spec| spec.table).find(|table| *table == name)
}
