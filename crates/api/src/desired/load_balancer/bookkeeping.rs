//! `external_ids` of a row, with the keys of Octavia's OVN provider. Neutron and BGP agents read them.

use ovn::text::neutron;
use ovn::text::octavia::{self, ListenerValue, Members, ObjectKey, ObjectKind, key};
use ovsdb::Str;

use super::association::Association;
use super::parts::{BalancerParts, PoolParts, VipParts};
use crate::desired::text;
use crate::model::{Member, RowSlot};
use crate::resource::load_balancer::health::MemberHealth;

pub(super) fn external_ids(
    parts: &BalancerParts<'_>,
    slot: &RowSlot,
    association: &Association<'_>,
) -> Vec<(Str, Str)> {
    let balancer = parts.balancer;
    let mut ids: Vec<(Str, Str)> = vec![
        (key::ENABLED.into(), if balancer.admin_state_up { "True" } else { "False" }.into()),
        (neutron::key::BALANCER_GENERATION.into(), text(balancer.generation)),
    ];
    vip_ids(parts, &mut ids);
    if !association.ls_refs.0.is_empty() {
        ids.push((key::LS_REFS.into(), text(&association.ls_refs)));
    }
    ids.extend(association.lr_ref().map(|routers| (key::LR_REF.into(), routers.into())));
    for listener in parts.listeners_in(slot) {
        let name =
            ObjectKey { kind: ObjectKind::Listener, id: listener.id, enabled: listener.admin_state_up };
        let value = ListenerValue { port: listener.protocol_port, pool: listener.default_pool_id };
        ids.push((text(name), text(value)));
    }
    let mut statuses = Vec::new();
    let mut monitors = Vec::new();
    for pool_parts in parts.pools_in(slot) {
        let PoolParts { pool, members, monitor, .. } = pool_parts;
        let name = ObjectKey { kind: ObjectKind::Pool, id: pool.id, enabled: pool.admin_state_up };
        ids.push((text(name), text(Members(members.iter().map(|it| member(it)).collect()))));
        statuses.extend(members.iter().map(|member| (*member, pool_parts.health_of(member))));
        monitors.extend(monitor.map(|monitor| format!("\"{}\"", monitor.id)));
    }
    if !statuses.is_empty() {
        statuses.sort_by_key(|(member, _)| (member.ordinal, member.id));
        let pair = |(member, health): &(&Member, MemberHealth)| {
            format!("\"{}\": \"{}\"", member.id, status(member, *health))
        };
        let pairs: Vec<String> = statuses.iter().map(pair).collect();
        ids.push((key::MEMBER_STATUS.into(), text(format_args!("{{{}}}", pairs.join(", ")))));
    }
    if !monitors.is_empty() {
        ids.push((key::HEALTH_MONITORS.into(), text(format_args!("[{}]", monitors.join(", ")))));
    }
    ids
}

/// The keys for VIPs, with their ports and floating IPs: the primary VIP, and lists of the further ones.
fn vip_ids(parts: &BalancerParts<'_>, ids: &mut Vec<(Str, Str)>) {
    let Some((primary, further)) = parts.vips.split_first() else { return };
    ids.push((key::VIP.into(), text(primary.vip.address.value)));
    ids.push((key::VIP_PORT_ID.into(), text(primary.vip.port_id)));
    ids.extend(primary.floating_address().map(|address| (key::VIP_FIP.into(), text(address))));
    let mut list = |key: &'static str, values: Vec<String>| {
        if !values.is_empty() {
            ids.push((key.into(), values.join(",").into()));
        }
    };
    list(key::ADDITIONAL_VIPS, further.iter().map(|it| it.vip.address.value.to_string()).collect());
    list(key::ADDITIONAL_VIP_PORT_IDS, further.iter().map(|it| it.vip.port_id.to_string()).collect());
    let floating = further.iter().filter_map(VipParts::floating_address);
    list(key::ADDITIONAL_VIP_FIPS, floating.map(|address| address.to_string()).collect());
}

fn member(member: &Member) -> octavia::Member {
    octavia::Member {
        id: member.id,
        ip: member.address.value,
        port: member.protocol_port,
        subnet: Some(member.subnet()),
    }
}

/// The provider's name for the state of a member; it has none for a drained member.
fn status(member: &Member, health: MemberHealth) -> &'static str {
    match health {
        _ if !member.admin_state_up => "OFFLINE",
        MemberHealth::Unmonitored => "NO_MONITOR",
        MemberHealth::Unknown => "OFFLINE",
        MemberHealth::Online => "ONLINE",
        MemberHealth::Offline | MemberHealth::Unprobeable(_) => "ERROR",
    }
}
