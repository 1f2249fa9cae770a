//! The statuses of a load balancer and its parts.
//!
//! No status is stored. Each write gives the load balancer a new generation, which its Northbound rows carry, and the report reads it back
//! from there. An object is pending while no row contains its last change. To keep nothing pending for ever, it becomes `ERROR` after
//! [`DEADLINE`] seconds, until the rows arrive. On the server that writes, a load balancer whose rows the Northbound refuses is `ERROR` at
//! once.
//!
//! A server that starts while the Northbound is away cannot know which changes it has. Changes from before the start count as applied after
//! those seconds; later ones become `ERROR` as always.

use jiff::Timestamp;
use uuid::Uuid;

use super::health::{self, MemberHealth};
use crate::model::{Generation, HealthMonitor, LbProtocol, Listener, LoadBalancer, Member, Pool};
use crate::report::Report;
use crate::resource::Scene;
use crate::world::{Kind, Link, World};

pub use crate::report::AppliedGeneration;

/// The seconds after which a change that is missing in the Northbound counts as failed.
pub const DEADLINE: i64 = 30;

/// The provisioning status: whether OVN has the object's last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provisioning {
    /// The Northbound has the last change.
    Active,
    /// The Northbound never had the object.
    PendingCreate,
    /// The Northbound has an older state.
    PendingUpdate,
    /// Its owner has deleted it.
    PendingDelete,
    /// The last change is overdue, or the Northbound refuses it.
    Error,
}

impl Provisioning {
    /// The value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Provisioning::Active => "ACTIVE",
            Provisioning::PendingCreate => "PENDING_CREATE",
            Provisioning::PendingUpdate => "PENDING_UPDATE",
            Provisioning::PendingDelete => "PENDING_DELETE",
            Provisioning::Error => "ERROR",
        }
    }
}

/// The operating status: whether an object serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operating {
    /// The object serves.
    Online,
    /// The object is disabled, or not yet in service.
    Offline,
    /// Some of the objects that it depends on do not answer.
    Degraded,
    /// None of the objects that it depends on answers.
    Error,
    /// Nothing monitors the object, so it counts as serving.
    NoMonitor,
    /// The object gets no new connections.
    Draining,
}

impl Operating {
    /// The value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Operating::Online => "ONLINE",
            Operating::Offline => "OFFLINE",
            Operating::Degraded => "DEGRADED",
            Operating::Error => "ERROR",
            Operating::NoMonitor => "NO_MONITOR",
            Operating::Draining => "DRAINING",
        }
    }
}

/// The generation of a load balancer that the Northbound has applied, and whether it refuses a newer one.
pub fn applied(report: &Report, load_balancer: &LoadBalancer) -> AppliedGeneration {
    let refusal = report.refusal(load_balancer.id);
    match report.applied_generation(load_balancer.id) {
        AppliedGeneration::At(present)
            if refusal.is_some_and(|it| it.generation == load_balancer.generation) =>
        {
            AppliedGeneration::Refused(present)
        }
        applied => applied,
    }
}

/// The provisioning status of a load balancer or of one of its parts, whose generations are `object`.
pub fn provisioning(
    load_balancer: &LoadBalancer,
    object: Generation,
    applied: AppliedGeneration,
    now: Timestamp,
) -> Provisioning {
    let is_late = now.as_second() - load_balancer.changed_at.as_second() >= DEADLINE;
    let is_new = match applied {
        // Its owner may repeat the deletion. The rows are removed in any case once the Northbound is back.
        _ if load_balancer.deleted && is_late => return Provisioning::Error,
        _ if load_balancer.deleted => return Provisioning::PendingDelete,
        AppliedGeneration::At(Some(present)) | AppliedGeneration::Refused(Some(present))
            if object.changed <= present =>
        {
            return Provisioning::Active;
        }
        AppliedGeneration::Refused(_) => return Provisioning::Error,
        // Without a report the state is unknown, but most load balancers are as before the start of the server. A later change is in no
        // row, because this server has not had the Northbound.
        AppliedGeneration::Unknown { at_start: Some(known) }
            if object.changed <= known && (is_late || load_balancer.generation > known) =>
        {
            return Provisioning::Active;
        }
        AppliedGeneration::At(Some(present)) => object.created > present,
        AppliedGeneration::At(None) => load_balancer.generation == object.created,
        AppliedGeneration::Unknown { .. } => load_balancer.generation == object.created,
    };
    match (is_late, is_new) {
        (true, _) => Provisioning::Error,
        (false, true) => Provisioning::PendingCreate,
        (false, false) => Provisioning::PendingUpdate,
    }
}

/// The generations of the load balancer itself.
pub fn own_generation(load_balancer: &LoadBalancer) -> Generation {
    Generation { created: FIRST_GENERATION, changed: load_balancer.generation }
}

/// The generation of a new load balancer.
pub const FIRST_GENERATION: u64 = 1;

/// The operating status of a member.
pub fn operating_of_member(member: &Member, health: MemberHealth) -> Operating {
    match health {
        _ if !member.admin_state_up => Operating::Offline,
        health if health.is_failed() => Operating::Error,
        _ if member.weight == 0 => Operating::Draining,
        MemberHealth::Unmonitored => Operating::NoMonitor,
        MemberHealth::Online => Operating::Online,
        _ => Operating::Offline,
    }
}

/// The operating status of a pool with these members.
pub fn operating_of_pool(pool: &Pool, has_listener: bool, members: &[Operating]) -> Operating {
    let failed = members.iter().filter(|member| **member == Operating::Error).count();
    match failed {
        _ if !pool.admin_state_up || (!has_listener && members.is_empty()) => Operating::Offline,
        0 => Operating::Online,
        failed if failed == members.len() => Operating::Error,
        _ => Operating::Degraded,
    }
}

/// The operating status of an object that depends on the objects behind it.
pub fn operating_of_front(admin_state_up: bool, behind: &[Operating]) -> Operating {
    if !admin_state_up {
        return Operating::Offline;
    }
    let worst = [Operating::Error, Operating::Degraded].into_iter().find(|status| behind.contains(status));
    worst.unwrap_or(Operating::Online)
}

/// Both statuses of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whether OVN has its last change.
    pub provisioning: Provisioning,
    /// Whether it serves.
    pub operating: Operating,
}

impl Status {
    /// Combines both. An object that was never in service is `OFFLINE`.
    fn new(provisioning: Provisioning, operating: Operating) -> Self {
        match provisioning {
            Provisioning::PendingCreate => Status { provisioning, operating: Operating::Offline },
            _ => Status { provisioning, operating },
        }
    }
}

fn of_part(scene: &Scene<'_>, load_balancer: Uuid, object: Generation) -> Provisioning {
    match scene.world.get::<LoadBalancer>(&load_balancer) {
        Some(whole) => provisioning(whole, object, applied(scene.report, whole), scene.now),
        None => Provisioning::PendingDelete,
    }
}

/// The status of a load balancer.
pub fn of_load_balancer(scene: &Scene<'_>, load_balancer: &LoadBalancer) -> Status {
    let id = load_balancer.id;
    let own = own_generation(load_balancer);
    let provisioning = provisioning(load_balancer, own, applied(scene.report, load_balancer), scene.now);
    let listeners = scene.world.linked::<Listener>(Link::Inside(Kind::Listener, id));
    let behind: Vec<_> = listeners.map(|listener| listener_operating(scene, listener)).collect();
    Status::new(provisioning, operating_of_front(load_balancer.admin_state_up, &behind))
}

fn listener_operating(scene: &Scene<'_>, listener: &Listener) -> Operating {
    let pool = listener.default_pool_id.and_then(|id| scene.world.get::<Pool>(&id));
    let behind: Vec<_> = pool.map(|pool| pool_operating(scene, pool)).into_iter().collect();
    operating_of_front(listener.admin_state_up, &behind)
}

/// The status of a listener.
pub fn of_listener(scene: &Scene<'_>, listener: &Listener) -> Status {
    let provisioning = of_part(scene, listener.load_balancer_id, listener.generation);
    Status::new(provisioning, listener_operating(scene, listener))
}

fn pool_operating(scene: &Scene<'_>, pool: &Pool) -> Operating {
    let monitored = is_monitored(scene.world, pool.id);
    let members = scene.world.linked::<Member>(Link::Inside(Kind::Member, pool.id));
    let members: Vec<_> = members
        .map(|member| operating_of_member(member, health_of(scene, member, pool.protocol, monitored)))
        .collect();
    operating_of_pool(pool, scene.world.has_linked(Link::ListenersOfPool(pool.id)), &members)
}

fn health_of(scene: &Scene<'_>, member: &Member, protocol: LbProtocol, monitored: bool) -> MemberHealth {
    match monitored {
        true => health::of_monitored(&(scene.world, scene.report), member, protocol),
        false => MemberHealth::Unmonitored,
    }
}

/// The health of a member, as its health monitor observes it.
pub fn health_of_member(scene: &Scene<'_>, member: &Member) -> MemberHealth {
    let pool = scene.world.get::<Pool>(&member.pool_id);
    pool.map_or(MemberHealth::Unmonitored, |pool| {
        health_of(scene, member, pool.protocol, is_monitored(scene.world, pool.id))
    })
}

/// The status of a pool.
pub fn of_pool(scene: &Scene<'_>, pool: &Pool) -> Status {
    let provisioning = of_part(scene, pool.load_balancer_id, pool.generation);
    Status::new(provisioning, pool_operating(scene, pool))
}

/// Whether the members of a pool are probed.
pub fn is_monitored(world: &World, pool: Uuid) -> bool {
    let mut monitors = world.linked::<HealthMonitor>(Link::Inside(Kind::HealthMonitor, pool));
    monitors.any(|monitor| monitor.admin_state_up)
}

/// The status of a member. A new member shows its future operating status, because no client can notice a difference.
pub fn of_member(scene: &Scene<'_>, member: &Member) -> Status {
    let provisioning = of_part(scene, member.load_balancer_id, member.generation);
    let operating = operating_of_member(member, health_of_member(scene, member));
    Status { provisioning, operating }
}

/// The status of a health monitor.
pub fn of_health_monitor(scene: &Scene<'_>, monitor: &HealthMonitor) -> Status {
    let provisioning = of_part(scene, monitor.load_balancer_id, monitor.generation);
    let operating = if monitor.admin_state_up { Operating::Online } else { Operating::Offline };
    Status::new(provisioning, operating)
}
