//! `Load_Balancer_Health_Check`: the probes of the backends of one address and port.
//!
//! northd compares `vip` with the keys of `vips` as strings, so there is one row for each key whose pool has an enabled health monitor. A
//! probed backend that `ip_port_mappings` does not list gets no connections.

use std::collections::BTreeMap;

use ovn::ident::row_uuid;
use ovn::nb::LoadBalancerHealthCheck;
use ovn::text::octavia::key;
use ovn::text::{BackendIp, PortMapping, Text};
use ovsdb::{Map, Ref, Set, Str};
use reconcile::{Class, Problem};
use smol_str::format_smolstr;

use super::parts::{BalancerParts, PoolParts};
use super::vips::Frontend;
use crate::desired::{Compiled, Look, map, object, text};
use crate::model::HealthMonitor;
use crate::resource::load_balancer::health::{self, MemberHealth};

/// The kind of object in problems about the rows.
pub(in crate::desired) const OBJECT: &str = "healthmonitor";

/// The columns of a load balancer's row for probes.
#[derive(Default)]
pub(super) struct ProbeColumns {
    pub(super) health_check: Set<Ref<LoadBalancerHealthCheck>>,
    pub(super) ip_port_mappings: Map<Text<BackendIp>, Text<PortMapping>>,
}

/// Creates the rows for these frontends.
pub(super) fn compile(
    look: &Look<'_, '_>,
    frontends: &[Frontend<'_, '_>],
    to: &mut Compiled,
) -> ProbeColumns {
    let mut rows = Vec::new();
    let mut mappings = BTreeMap::new();
    for front in frontends {
        let Some(monitor) = front.pool.enabled_monitor() else { continue };
        let row = row_uuid(OBJECT, &monitor.id.to_string(), &front.endpoint.to_string());
        let row = look.row(row);
        let check = LoadBalancerHealthCheck {
            vip: Text::from(front.endpoint),
            options: map(options(monitor)),
            external_ids: map([
                (key::HEALTH_MONITOR, text(monitor.id)),
                (key::POOL_ID, text(monitor.pool_id)),
                (key::HM_VIP, text(front.endpoint.ip)),
            ]),
        };
        to.part.own(object(OBJECT, monitor.id), row, check);
        rows.push(Ref::new(row));
        add_mappings(look, front.pool, &mut mappings);
    }
    ProbeColumns {
        health_check: rows.into_iter().collect(),
        ip_port_mappings: mappings
            .into_iter()
            .map(|(address, mapping)| (Text::from(BackendIp(address)), Text::from(mapping)))
            .collect(),
    }
}

/// The options of a row. A delay is at least a second: a chassis that probes without a pause does nothing else.
fn options(monitor: &HealthMonitor) -> [(&'static str, Str); 4] {
    [
        ("interval", text(monitor.delay.max(1))),
        ("timeout", text(monitor.timeout.max(1))),
        ("success_count", text(monitor.max_retries)),
        ("failure_count", text(monitor.max_retries_down)),
    ]
}

/// Adds the port of each member. OVN accepts one port for each address of a row, so the oldest member with an address decides.
fn add_mappings(
    look: &Look<'_, '_>,
    pool: &PoolParts<'_>,
    mappings: &mut BTreeMap<std::net::IpAddr, PortMapping>,
) {
    for member in &pool.members {
        if let Ok(path) = health::path(look, member) {
            let port = format_smolstr!("{}", path.port_id);
            mappings.entry(member.address.value).or_insert(PortMapping { port, source: path.source });
        }
    }
}

/// Reports enabled members that OVN cannot probe.
pub(super) fn report_obstacles(parts: &BalancerParts<'_>, to: &mut Compiled) {
    for pool in &parts.pools {
        for member in pool.members.iter().filter(|member| member.admin_state_up) {
            if let MemberHealth::Unprobeable(obstacle) = pool.health_of(member) {
                let text = format!(
                    "member {} at {} of load balancer {} gets no connections: {}",
                    member.id,
                    member.address.value,
                    parts.balancer.id,
                    obstacle.as_str()
                );
                let of = object("member", member.id);
                to.problems.push(Problem::warning(of, Class::Refused, "member-not-probed", text));
            }
        }
    }
}
