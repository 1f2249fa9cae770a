//! Load balancers for operators: their VIPs, and which members serve.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Caller;
use crate::model::{FloatingIp, LoadBalancer, Member, Pool, Port, Router, Vip};
use crate::report::Report;
use crate::resource::Scene;
use crate::resource::load_balancer::{reason, status};
use crate::world::{Kind, Link, Outside, World};

/// The maximum number of failed members that are listed.
const NAMED: usize = 10;

/// One load balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadBalancerStatus {
    /// Its id.
    pub id: Uuid,
    /// Its name; not unique.
    pub name: String,
    /// The owning project.
    pub project_id: String,
    /// The provisioning status: whether the Northbound has the last change.
    pub provisioning_status: String,
    /// The operating status: whether it serves.
    pub operating_status: String,
    /// The reason for `ERROR`, or for a VIP without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The VIPs, the primary one first.
    pub vips: Vec<VipStatus>,
    /// The names of the routers with a port in a VIP's subnet; the ids of those without a name.
    pub routers: Vec<String>,
    /// The chassis that host the gateways of these routers, where clients from outside arrive.
    pub chassis: Vec<String>,
    /// All its members.
    pub members: MemberTotals,
    /// The first members that get no connections because they failed.
    pub failed: Vec<FailedMember>,
}

/// A VIP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VipStatus {
    /// The address.
    pub address: IpAddr,
    /// The floating IP that leads to it.
    pub floating_ip: Option<IpAddr>,
    /// Whether no router answers for it.
    #[serde(default)]
    pub unrouted: bool,
}

/// The numbers of members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberTotals {
    /// All members.
    pub all: usize,
    /// Failed members: they do not answer probes, or cannot be probed.
    pub failed: usize,
    /// Members that get no new connections by their owner's choice: disabled, or of weight 0.
    pub set_aside: usize,
}

/// A member that gets no connections, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedMember {
    /// Its id.
    pub id: Uuid,
    /// Its address.
    pub address: IpAddr,
    /// The port that it listens on.
    pub protocol_port: u16,
    /// The reason why it gets no connections.
    pub reason: String,
}

/// All load balancers, sorted by name, then by id. Deleted ones are omitted, even if they still have rows.
pub fn load_balancers(world: &World, report: &Report, now: Timestamp) -> Vec<LoadBalancerStatus> {
    let (outside, caller) = (Outside::default(), Caller::admin(""));
    let scene = Scene { world, report, outside: &outside, caller: &caller, now, parent: None };
    let balancers = world.table::<LoadBalancer>().iter().filter(|balancer| !balancer.deleted);
    let mut all: Vec<_> = balancers.map(|balancer| of(&scene, balancer)).collect();
    all.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    all
}

fn of(scene: &Scene<'_>, balancer: &LoadBalancer) -> LoadBalancerStatus {
    let both = status::of_load_balancer(scene, balancer);
    let routers = reason::routers(scene.world, balancer);
    let mut members = MemberTotals::default();
    let mut failed = Vec::new();
    for member in members_of(scene.world, balancer.id) {
        members.all += 1;
        let health = status::health_of_member(scene, member);
        if !member.admin_state_up || member.weight == 0 {
            members.set_aside += 1;
        } else if health.is_failed() {
            members.failed += 1;
            if failed.len() < NAMED {
                let (address, protocol_port) = (member.address.value, member.protocol_port);
                let reason = reason::of_member(scene, member).unwrap_or_default();
                failed.push(FailedMember { id: member.id, address, protocol_port, reason });
            }
        }
    }
    LoadBalancerStatus {
        id: balancer.id,
        name: balancer.name.clone(),
        project_id: balancer.project.clone(),
        provisioning_status: both.provisioning.as_str().to_owned(),
        operating_status: both.operating.as_str().to_owned(),
        reason: reason::of_load_balancer(scene, balancer),
        vips: balancer.vips.iter().map(|vip| of_vip(scene.world, balancer, vip)).collect(),
        routers: routers.iter().map(|router| name_of(router)).collect(),
        chassis: chassis(scene, &routers),
        members,
        failed,
    }
}

fn of_vip(world: &World, balancer: &LoadBalancer, vip: &Vip) -> VipStatus {
    let address = vip.address.value;
    let mut floating_ips = world.linked::<FloatingIp>(Link::FloatingIpsOfPort(vip.port_id));
    let found = floating_ips.find(|it| it.fixed_ip_address.map(IpAddr::V4) == Some(address));
    let floating_ip = found.map(|it| IpAddr::V4(it.floating_ip_address));
    let unrouted = reason::routers_of_vip(world, balancer, vip).is_empty();
    VipStatus { address, floating_ip, unrouted }
}

/// The members of all pools of a load balancer, sorted by pool and id.
fn members_of(world: &World, balancer: Uuid) -> impl Iterator<Item = &Member> {
    let pools = world.linked::<Pool>(Link::Inside(Kind::Pool, balancer));
    pools.flat_map(|pool| world.linked::<Member>(Link::Inside(Kind::Member, pool.id))).map(|member| &**member)
}

/// The chassis that host the gateways of routers.
pub(super) fn chassis(scene: &Scene<'_>, routers: &[&Router]) -> Vec<String> {
    let ports = routers
        .iter()
        .flat_map(|router| scene.world.linked::<Port>(Link::PortsOfDevice(router.id.into())))
        .filter(|port| port.is_gateway());
    let hosts: BTreeSet<&str> = ports.filter_map(|port| scene.report.gateway_chassis(port.id)).collect();
    hosts.into_iter().map(str::to_owned).collect()
}

/// The name of a router, or its id.
pub(super) fn name_of(router: &Router) -> String {
    if router.name.is_empty() { router.id.to_string() } else { router.name.clone() }
}
