//! A load balancer with its listeners, pools and members, as input for its rows.

use std::collections::BTreeMap;
use std::net::IpAddr;

use uuid::Uuid;

use crate::desired::Look;
use crate::model::{FloatingIp, HealthMonitor, Listener, LoadBalancer, Member, Pool, Port, RowSlot, Vip};
use crate::report::{ProbeResult, ProbedBackend};
use crate::resource::load_balancer::health::{self, MemberHealth, ProbeFacts};

/// A load balancer and its parts.
pub(super) struct BalancerParts<'w> {
    pub(super) balancer: &'w LoadBalancer,
    /// The VIPs in order, each with its floating IP.
    pub(super) vips: Vec<VipParts<'w>>,
    pub(super) listeners: Vec<&'w Listener>,
    pub(super) pools: Vec<PoolParts<'w>>,
}

/// A VIP and its floating IP.
pub(super) struct VipParts<'w> {
    pub(super) vip: &'w Vip,
    pub(super) floating_ip: Option<&'w FloatingIp>,
}

impl VipParts<'_> {
    /// The address of the floating IP.
    pub(super) fn floating_address(&self) -> Option<IpAddr> {
        self.floating_ip.map(|floating_ip| IpAddr::V4(floating_ip.floating_ip_address))
    }
}

/// A pool and its members.
pub(super) struct PoolParts<'w> {
    pub(super) pool: &'w Pool,
    /// In order of creation.
    pub(super) members: Vec<&'w Member>,
    pub(super) monitor: Option<&'w HealthMonitor>,
    /// The health of each member, by id; empty if there is no enabled health monitor.
    health: BTreeMap<Uuid, MemberHealth>,
}

impl<'w> PoolParts<'w> {
    fn read(look: &Look<'_, 'w>, pool: &'w Pool) -> Self {
        let mut members = look.balancer_parts::<Member>(pool.load_balancer_id, pool.id);
        members.sort_by_key(|member| (member.ordinal, member.id));
        let monitors = look.balancer_parts::<HealthMonitor>(pool.load_balancer_id, pool.id);
        let monitor = monitors.into_iter().next();
        let is_probed = monitor.is_some_and(|monitor| monitor.admin_state_up);
        let probed = members.iter().filter(|_| is_probed);
        let health = probed.map(|member| (member.id, health::of_monitored(look, member, pool.protocol)));
        let health = health.collect();
        PoolParts { pool, members, monitor, health }
    }

    /// The health monitor, if it is enabled.
    pub(super) fn enabled_monitor(&self) -> Option<&'w HealthMonitor> {
        self.monitor.filter(|monitor| monitor.admin_state_up)
    }

    /// The health of a member of this pool.
    pub(super) fn health_of(&self, member: &Member) -> MemberHealth {
        self.health.get(&member.id).copied().unwrap_or(MemberHealth::Unmonitored)
    }
}

impl ProbeFacts for Look<'_, '_> {
    fn holder(&self, subnet: Uuid, address: IpAddr) -> Option<&Port> {
        Look::holder(self, subnet, address)
    }

    fn source(&self, subnet: Uuid) -> Option<IpAddr> {
        self.probe_source(subnet)
    }

    fn result(&self, member: Uuid, backend: &ProbedBackend) -> Option<ProbeResult> {
        self.probe_result(member, backend)
    }
}

impl<'w> BalancerParts<'w> {
    pub(super) fn read(look: &Look<'_, 'w>, balancer: &'w LoadBalancer) -> Self {
        let vips = balancer.vips.iter().map(|vip| VipParts { vip, floating_ip: floating_ip(look, vip) });
        let vips = vips.collect();
        let pools = look.balancer_parts::<Pool>(balancer.id, balancer.id);
        let pools = pools.into_iter().map(|pool| PoolParts::read(look, pool));
        BalancerParts {
            balancer,
            vips,
            listeners: look.balancer_parts(balancer.id, balancer.id),
            pools: pools.collect(),
        }
    }

    /// All addresses to which clients connect: the VIPs and their floating IPs.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        let floating = self.vips.iter().filter_map(VipParts::floating_address);
        self.vips.iter().map(|parts| parts.vip.address.value).chain(floating).collect()
    }

    /// The members of all pools.
    pub(super) fn members(&self) -> impl Iterator<Item = &'w Member> {
        self.pools.iter().flat_map(|pool| pool.members.iter().copied())
    }

    /// The pool that serves a listener.
    pub(super) fn pool_of(&self, listener: &Listener) -> Option<&PoolParts<'w>> {
        let id = listener.default_pool_id?;
        self.pools.iter().find(|pool| pool.pool.id == id)
    }

    /// The pools in a row, in order of id.
    pub(super) fn pools_in(&self, slot: &RowSlot) -> impl Iterator<Item = &PoolParts<'w>> {
        let rows = &self.balancer.rows;
        self.pools.iter().filter(move |parts| {
            RowSlot::of_pool(rows, parts.pool).is_some_and(|row| row.number == slot.number)
        })
    }

    /// The listeners in a row, in order of id.
    pub(super) fn listeners_in(&self, slot: &RowSlot) -> impl Iterator<Item = &'w Listener> {
        let rows = &self.balancer.rows;
        self.listeners.iter().copied().filter(move |listener| {
            let pool = self.pool_of(listener).map(|parts| parts.pool);
            RowSlot::of_listener(rows, listener, pool).is_some_and(|row| row.number == slot.number)
        })
    }
}

/// The floating IP of a VIP.
fn floating_ip<'w>(look: &Look<'_, 'w>, vip: &Vip) -> Option<&'w FloatingIp> {
    let floating_ips = look.floating_ips_of(vip.port_id);
    let leads_here = |inside: Option<std::net::Ipv4Addr>| inside.map(IpAddr::V4) == Some(vip.address.value);
    floating_ips.into_iter().find(|floating_ip| leads_here(floating_ip.fixed_ip_address))
}
