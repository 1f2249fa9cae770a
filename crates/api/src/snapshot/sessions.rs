//! BFD sessions that routers share.
//!
//! Normally each gateway port has a session of its own to its next hop. With `bfd_session_sharing = chassis`, ports of different routers
//! with the same network, next hop and scheduled chassis use one session, that of the port with the lowest id. A port that joins later does
//! not take the session over, whatever its id: the peers monitor the present one. Two ports of one router never share a session, so that
//! each can fail alone.
//!
//! When the owner leaves, another port takes over. Existing routes that use another session, or none, stay without one until the new
//! session is up or the wait is over: a session that is still starting would take them out. Meanwhile a host route to the next hop starts
//! it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdSet;
use uuid::Uuid;

use crate::desired::{bfd, route};
use crate::model::{Adopted, Network, Placement, Port, Router, Subnet};
use crate::report::{BfdState, Report};
use crate::settings::{BfdSharing, Settings};
use crate::world::{Link, World};

/// The sessions of gateway ports, if shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sessions(Arc<BTreeMap<(Uuid, IpAddr), Session>>);

/// The session of a gateway port to a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The port that the session belongs to.
    pub owner: Uuid,
    /// Whether the route exists but does not use the session yet.
    pub pending: bool,
    /// Whether some route waits for the session to come up.
    pub starting: bool,
    /// The same as `starting`, but even after the wait is over.
    unsettled: bool,
}

impl Sessions {
    /// Computes the shared sessions; empty unless sharing is on. No route waits for rows in `overdue`.
    pub fn of(world: &World, report: &Report, settings: &Settings, overdue: &OrdSet<Uuid>) -> Self {
        if settings.bfd_session_sharing == BfdSharing::Port {
            return Self::default();
        }
        let mut groups: BTreeMap<(Uuid, IpAddr, &str), BTreeMap<Uuid, Uuid>> = BTreeMap::new();
        let mut alone = Vec::new();
        // Sorted by id, so that the first of each router is the lowest.
        for port in world.linked::<Port>(Link::GatewayPorts) {
            let Some(router) = port.router_id() else { continue };
            let chassis = world.get::<Placement>(&port.id).and_then(|placement| placement.chassis.first());
            let watched = world.get::<Router>(&router).is_some_and(|router| {
                let used = router.enable_default_route_ecmp || router.gw_port_id == Some(port.id);
                router.enable_default_route_bfd && used
            });
            let known = world.get::<Network>(&port.network_id).is_some();
            let (Some(chassis), true, true) = (chassis, watched, known) else { continue };
            for hop in nexthops(world, port) {
                let group = groups.entry((port.network_id, hop, chassis.chassis.as_str())).or_default();
                match group.entry(router) {
                    Entry::Vacant(first) => {
                        first.insert(port.id);
                    }
                    Entry::Occupied(_) => alone.push((port.id, hop)),
                }
            }
        }
        let mut sessions = BTreeMap::new();
        for ((_, hop, _), members) in groups {
            let Some(owner) = owner(world, report, &members, hop) else { continue };
            let up = session(report, owner, hop) == Some(BfdState::Up);
            let row = bfd::row(owner, hop);
            let written = written(world, row);
            let pending = |port: Uuid| {
                !up && watched_by(world, report, port, hop).is_some_and(|session| session != Some(written))
            };
            let unsettled = members.values().any(|port| pending(*port));
            let starting = unsettled && !overdue.contains(&row);
            for port in members.values() {
                let pending = starting && pending(*port);
                sessions.insert((*port, hop), Session { owner, pending, starting, unsettled });
            }
        }
        for (port, hop) in alone {
            sessions.insert(
                (port, hop),
                Session { owner: port, pending: false, starting: false, unsettled: false },
            );
        }
        Sessions(Arc::new(sessions))
    }

    /// The shared session of a port to a next hop, if there is one.
    pub fn get(&self, port: Uuid, hop: IpAddr) -> Option<Session> {
        self.0.get(&(port, hop)).copied()
    }

    /// The rows of sessions that some route does not use yet. A caller with a clock measures for how long.
    pub fn unsettled(&self) -> impl Iterator<Item = Uuid> {
        let unsettled = self.0.iter().filter(|(_, session)| session.unsettled);
        unsettled.map(|((_, hop), session)| bfd::row(session.owner, *hop))
    }

    /// Ports whose sessions differ.
    pub(super) fn differing(&self, older: &Sessions) -> Vec<Uuid> {
        if Arc::ptr_eq(&self.0, &older.0) {
            return Vec::new();
        }
        let keys = self.0.keys().chain(older.0.keys());
        let differing = keys.filter(|key| self.0.get(key) != older.0.get(key));
        let mut ports: Vec<Uuid> = differing.map(|(port, _)| *port).collect();
        ports.sort();
        ports.dedup();
        ports
    }
}

/// The owner of a group's session: the one that most of the group's routes use already, or one that is starting. Without either, the port
/// with the lowest id.
fn owner(world: &World, report: &Report, members: &BTreeMap<Uuid, Uuid>, hop: IpAddr) -> Option<Uuid> {
    let mut routes: BTreeMap<Uuid, usize> = BTreeMap::new();
    for session in members.values().filter_map(|port| watched_by(world, report, *port, hop).flatten()) {
        *routes.entry(session).or_default() += 1;
    }
    let used = |port: &Uuid| {
        let routes = routes.get(&written(world, bfd::row(*port, hop))).copied().unwrap_or(0);
        (routes, session(report, *port, hop).is_some(), Reverse(*port))
    };
    members.values().copied().max_by_key(used)
}

/// The state of a port's own session, if there is one.
fn session(report: &Report, port: Uuid, hop: IpAddr) -> Option<BfdState> {
    report.bfd(&ovn::ident::name::router_port(port), hop)
}

/// The session that a port's default route uses, or none; `None` outside if there is no such route.
fn watched_by(world: &World, report: &Report, port: Uuid, hop: IpAddr) -> Option<Option<Uuid>> {
    report.routes.get(&written(world, route::default_row(port, hop))).copied()
}

/// The UUID in the Northbound of one of our rows.
fn written(world: &World, ours: Uuid) -> Uuid {
    world.get::<Adopted>(&ours).map_or(ours, |adopted| adopted.theirs)
}

/// The next hops of a gateway port's default routes.
fn nexthops(world: &World, port: &Port) -> Vec<IpAddr> {
    let subnets = port.fixed_ips.iter().filter_map(|fixed| world.get::<Subnet>(&fixed.subnet_id));
    let mut hops: Vec<IpAddr> = subnets.filter_map(|subnet| subnet.gateway_ip).collect();
    hops.sort();
    hops.dedup();
    hops
}
