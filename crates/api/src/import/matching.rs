//! Matches the rows of a Northbound with the rows that we would write. Pure.
//!
//! Rows are compared by meaning: a switch by its name, a route by its router, prefix and next hop. Each kind of row has a string for that
//! ([`meaning`]); a desired row and an existing row with the same string are the same thing. Where Neutron writes less than we do (a route
//! without its port), a second round compares a shorter string.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

use ovn::ident::{name, row_uuid};
use ovn::nb::{
    Acl, Bfd, DhcpOptions, Dns, GatewayChassis, HaChassis, HaChassisGroup, LoadBalancer,
    LoadBalancerHealthCheck, LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch,
    LogicalSwitchPort, Nat, NatType, PortGroup,
};
use ovn::target::{Part, Row, RowId, Tables};
use ovn::text::neutron::{boolean, key};
use ovn::text::octavia;
use ovsdb::{Map, Snapshot, Str, Table};
use uuid::Uuid;

use super::Stranger;
use crate::model::Adopted;

/// The result of matching.
#[derive(Debug, Default)]
pub(super) struct Matched {
    /// Rows that are adopted, and rows that are removed because others replace them.
    pub(super) adopted: Vec<Adopted>,
    /// The desired rows that exist already, with their UUIDs.
    pub(super) found: BTreeMap<RowId, Uuid>,
    /// The number of adopted rows that stay, by table.
    pub(super) kept: BTreeMap<&'static str, usize>,
    /// Existing rows that match no desired row.
    pub(super) strangers: Vec<Stranger>,
}

/// Tables whose rows belong to other rows, which are reported instead.
const PARTS: [&str; 5] =
    ["NB_Global", "HA_Chassis", "Meter_Band", "Load_Balancer_Health_Check", "Static_MAC_Binding"];

/// Compares the desired rows of these tables with the existing ones.
pub(super) fn matched<'p>(
    wanted: impl Iterator<Item = &'p Part> + Clone,
    northbound: &Snapshot,
    tables: fn(&str) -> bool,
) -> Matched {
    let there = There::of(northbound, tables);
    let mut parents = BTreeMap::new();
    wanted.clone().flat_map(Part::rows).for_each(|(_, row)| note_parts(row, &mut parents));
    let wanted: Vec<(RowId, Meaning)> = wanted
        .flat_map(Part::rows)
        .filter(|(id, _)| tables(id.table))
        .filter_map(|(id, row)| Some((id, meaning(id, row, &parents)?)))
        .collect();
    let mut found = BTreeMap::new();
    let mut taken = BTreeSet::new();
    let rounds: [fn(&Meaning) -> Option<&String>; 2] = [|it| Some(&it.exact), |it| it.loose.as_ref()];
    for round in rounds {
        for (id, meaning) in &wanted {
            let Some(text) = round(meaning).filter(|_| !found.contains_key(id)) else { continue };
            let rows = there.meanings.get(&(id.table, text.clone())).into_iter().flatten();
            if let Some(row) = rows.copied().find(|row| !taken.contains(&(id.table, *row))) {
                found.insert(*id, row);
                taken.insert((id.table, row));
            }
        }
    }
    let mut matched = Matched::default();
    for (id, theirs) in &found {
        *matched.kept.entry(id.table).or_insert(0) += 1;
        let ours = ours(*id);
        if id.uuid != *theirs {
            matched.adopted.push(Adopted { ours, table: id.table.to_owned(), theirs: *theirs });
        }
    }
    for (table, uuid) in there.replaced(&found, &wanted, &taken) {
        taken.insert((table, uuid));
        let ours = row_uuid("replaced", &uuid.to_string(), table);
        matched.adopted.push(Adopted { ours, table: table.to_owned(), theirs: uuid });
    }
    matched.strangers =
        there.rows.iter().filter(|(id, _)| !taken.contains(*id)).map(|(_, it)| it.clone()).collect();
    matched.adopted.sort_by_key(|it| it.ours);
    matched.found = found;
    matched
}

/// The UUID under which a row is recorded. A router port has the UUID of its switch port, which is recorded for that one already.
fn ours(id: RowId) -> Uuid {
    if id.table == LogicalRouterPort::TABLE {
        return row_uuid("port", &id.uuid.to_string(), "router-port");
    }
    id.uuid
}

/// The meaning of a row.
#[derive(Clone, Debug, PartialEq)]
struct Meaning {
    exact: String,
    /// The meaning without details that Neutron omits.
    loose: Option<String>,
}

impl Meaning {
    fn plain(exact: &str) -> Self {
        Meaning { exact: exact.to_owned(), loose: None }
    }
}

/// The rows of a Northbound by meaning.
#[derive(Debug, Default)]
struct There<'n> {
    northbound: Option<&'n Snapshot>,
    meanings: BTreeMap<(&'static str, String), Vec<Uuid>>,
    rows: BTreeMap<(&'static str, Uuid), Stranger>,
}

impl<'n> There<'n> {
    fn of(northbound: &'n Snapshot, wanted: fn(&str) -> bool) -> Self {
        let tables = Tables::northbound();
        let mut parents = BTreeMap::new();
        tables.each(northbound, &mut |_, row| note_parts(row, &mut parents));
        let mut there = There { northbound: Some(northbound), ..There::default() };
        tables.each(northbound, &mut |uuid, row| {
            let id = RowId { table: row.table(), uuid };
            if !wanted(id.table) {
                return;
            }
            if let Some(meaning) = meaning(id, row, &parents) {
                // A route with a port does not match another port's route, and neither does a gateway's group match another's.
                let loose = meaning.loose.filter(|_| id.table == Nat::TABLE);
                for text in std::iter::once(meaning.exact).chain(loose) {
                    there.meanings.entry((id.table, text)).or_default().push(uuid);
                }
            }
            if !PARTS.contains(&id.table) {
                there.rows.insert((id.table, uuid), stranger(id, row));
            }
        });
        there
    }

    /// Neutron's rows that must be removed when ours are written: the old forms of a gateway's chassis, chassis groups of networks that
    /// need none, and gateway routes and source NAT rows without a desired counterpart.
    fn replaced(
        &self,
        found: &BTreeMap<RowId, Uuid>,
        wanted: &[(RowId, Meaning)],
        taken: &BTreeSet<(&'static str, Uuid)>,
    ) -> BTreeSet<(&'static str, Uuid)> {
        let mut replaced = BTreeSet::new();
        let Some(northbound) = self.northbound else { return replaced };
        let rows = |table: &'static str| found.iter().filter(move |(id, _)| id.table == table);
        for (_, theirs) in rows(LogicalRouterPort::TABLE) {
            let Some(port) = northbound.get::<LogicalRouterPort>(*theirs) else { continue };
            replaced.extend(port.gateway_chassis.iter().map(|row| (GatewayChassis::TABLE, row.uuid())));
        }
        // Names of groups are unique, and our group for a network's external ports would have the same name as Neutron's.
        let named = rows(LogicalRouter::TABLE).chain(rows(LogicalSwitch::TABLE)).map(|(id, _)| id.uuid);
        let named: BTreeSet<Uuid> = named.collect();
        for (row, group) in northbound.table::<HaChassisGroup>().iter() {
            if name::neutron_id(&group.name).is_some_and(|id| named.contains(&id)) {
                replaced.insert((HaChassisGroup::TABLE, row.uuid()));
            }
        }
        let translated: BTreeSet<&String> = wanted
            .iter()
            .filter(|(id, _)| id.table == Nat::TABLE)
            .filter_map(|(_, meaning)| meaning.loose.as_ref())
            .collect();
        for text in translated {
            let rows = self.meanings.get(&(Nat::TABLE, text.clone())).into_iter().flatten();
            replaced.extend(rows.map(|row| (Nat::TABLE, *row)));
        }
        for (_, theirs) in rows(LogicalRouter::TABLE) {
            let Some(router) = northbound.get::<LogicalRouter>(*theirs) else { continue };
            let gateway = |row: &Uuid| {
                northbound
                    .get::<LogicalRouterStaticRoute>(*row)
                    .is_some_and(|row| is_gateway(&row.external_ids))
            };
            let routes = router.static_routes.iter().map(|row| row.uuid()).filter(gateway);
            replaced.extend(routes.map(|row| (LogicalRouterStaticRoute::TABLE, row)));
        }
        replaced.retain(|row| !taken.contains(row));
        replaced
    }
}

fn stranger(id: RowId, row: &dyn Row) -> Stranger {
    let any = row.as_any();
    let text = |at: &str| {
        let column = row.columns().iter().position(|spec| spec.name == at)?;
        row.datum(column).scalar().map(|atom| atom.to_string().trim_matches('"').to_owned())
    };
    let name = match any.downcast_ref::<LogicalRouterStaticRoute>() {
        Some(route) => format!("{} via {}", route.ip_prefix, route.nexthop),
        None => ["name", "external_ip", "cidr", "match", "logical_port"]
            .iter()
            .find_map(|at| text(at))
            .unwrap_or_default(),
    };
    let marked = row.external_ids().is_some_and(|ids| ids.iter().any(|(key, _)| key.starts_with("neutron:")));
    let neutron = marked || name.starts_with("neutron-");
    Stranger { table: id.table, uuid: id.uuid, name, neutron }
}

/// The parents of rows by UUID: routes and NAT rows do not name their router themselves.
type Parents = BTreeMap<Uuid, Meaning>;

fn note_parts(row: &dyn Row, parents: &mut Parents) {
    let any = row.as_any();
    if let Some(router) = any.downcast_ref::<LogicalRouter>() {
        let parts =
            router.static_routes.iter().map(|row| row.uuid()).chain(router.nat.iter().map(|row| row.uuid()));
        parents.extend(parts.map(|part| (part, Meaning::plain(&router.name))));
    }
    if let Some(group) = any.downcast_ref::<PortGroup>() {
        parents.extend(group.acls.iter().map(|row| (row.uuid(), Meaning::plain(&group.name))));
    }
    if let Some(group) = any.downcast_ref::<HaChassisGroup>() {
        parents.extend(group.ha_chassis.iter().map(|row| (row.uuid(), places(group))));
    }
}

fn is_gateway(ids: &Map<Str, Str>) -> bool {
    ids.get(key::IS_EXT_GW).and_then(|text| boolean(text)).unwrap_or(false)
}

/// The meaning of a row; none for rows that have none by themselves.
fn meaning(id: RowId, row: &dyn Row, parents: &Parents) -> Option<Meaning> {
    let any = row.as_any();
    let parent = parents.get(&id.uuid);
    let parent_name = parent.map(|parent| parent.exact.as_str());
    let said = |key: &str| row.external_ids()?.get(key).map(ToString::to_string);
    let exact = if let Some(row) = any.downcast_ref::<LogicalSwitch>() {
        row.name.to_string()
    } else if let Some(row) = any.downcast_ref::<LogicalSwitchPort>() {
        row.name.to_string()
    } else if let Some(row) = any.downcast_ref::<LogicalRouter>() {
        row.name.to_string()
    } else if let Some(row) = any.downcast_ref::<LogicalRouterPort>() {
        row.name.to_string()
    } else if let Some(row) = any.downcast_ref::<PortGroup>() {
        row.name.to_string()
    } else if let Some(row) = any.downcast_ref::<HaChassisGroup>() {
        return Some(places(row));
    } else if let Some(row) = any.downcast_ref::<HaChassis>() {
        let on = |group: &String| format!("{group} on {}", row.chassis_name);
        return parent.map(|group| Meaning { exact: on(&group.exact), loose: group.loose.as_ref().map(on) });
    } else if let Some(row) = any.downcast_ref::<Bfd>() {
        format!("{} to {}", row.logical_port, row.dst_ip)
    } else if let Some(row) = any.downcast_ref::<LoadBalancer>() {
        return Some(balancer(row));
    } else if let Some(row) = any.downcast_ref::<LoadBalancerHealthCheck>() {
        format!("{} {}", said(octavia::key::HEALTH_MONITOR)?, row.vip)
    } else if any.is::<DhcpOptions>() {
        format!("{} {}", said(key::DHCP_SUBNET_ID)?, said(key::DHCP_PORT_ID).unwrap_or_default())
    } else if any.is::<Dns>() {
        said(key::DNS_SWITCH)?
    } else if let Some(row) = any.downcast_ref::<Acl>() {
        said(key::SECURITY_GROUP_RULE_ID).or_else(|| Some(format!("{} {}", parent_name?, row.direction)))?
    } else if let Some(row) = any.downcast_ref::<Nat>() {
        return translation(row, parent_name, said(key::FIP_ID));
    } else if let Some(row) = any.downcast_ref::<LogicalRouterStaticRoute>() {
        return route(row, parent_name?);
    } else {
        return None;
    };
    Some(Meaning::plain(&exact))
}

/// The chassis of a gateway, which may be recorded under its router.
fn places(group: &HaChassisGroup) -> Meaning {
    let router = group.external_ids.get(key::ROUTER_ID).and_then(|id| Uuid::try_parse(id).ok());
    let of_gateway = group.external_ids.contains_key(key::GATEWAY_PORT);
    Meaning { exact: group.name.to_string(), loose: router.filter(|_| of_gateway).map(name::router) }
}

/// Octavia's provider has a row for each protocol; before the first listener or pool it has one without protocol.
fn balancer(row: &LoadBalancer) -> Meaning {
    let name = row.name.to_string();
    match &row.protocol {
        Some(protocol) => Meaning { exact: format!("{name} {protocol}"), loose: Some(name) },
        None => Meaning { exact: name, loose: None },
    }
}

fn translation(row: &Nat, router: Option<&str>, floating_ip: Option<String>) -> Option<Meaning> {
    if let Some(exact) = floating_ip {
        return Some(Meaning::plain(&exact));
    }
    let router = router.filter(|_| row.kind == NatType::Snat)?;
    let loose = format!("{router} {}", row.external_ip);
    Some(Meaning { exact: format!("{loose} for {}", row.logical_ip), loose: Some(loose) })
}

fn route(row: &LogicalRouterStaticRoute, router: &str) -> Option<Meaning> {
    let way = format!("{router} {} via {}", row.ip_prefix, row.nexthop);
    if !is_gateway(&row.external_ids) {
        return Some(Meaning { exact: way, loose: None });
    }
    let loose = format!("gateway {way}");
    Some(match &row.output_port {
        Some(port) => Meaning { exact: format!("{loose} by {port}"), loose: Some(loose) },
        None => Meaning { exact: loose, loose: None },
    })
}
