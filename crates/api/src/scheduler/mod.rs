//! The scheduler: chooses the chassis of gateway ports, and their order.
//!
//! Every gateway port has its own group of at most [`MAX_CHASSIS`] chassis. The first hosts it, the next take over. The groups are entities
//! of the store ([`Placement`]). So a lost Northbound is rebuilt without moving a gateway, and the load is counted from desired state,
//! never from a database that may lag.
//!
//! The goals, in order:
//!
//! 1. The gateways of one router have their primaries on different chassis, and still do when one chassis fails, if there are enough
//!    chassis. [`place`] orders the backups of siblings for that.
//! 2. The ports of a physical network are spread evenly at every rank.
//! 3. A working gateway is not moved ([`reschedule`]), unless an operator rebalances ([`rebalance`]) or pins it ([`pin`]).
//!
//! This module is pure: worlds and fleets in, placements out. The same input gives the same output on every machine, after every restart.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod candidate;
mod load;
mod pick;
mod pin;
mod rebalance;
mod repair;

use std::sync::Arc;

use uuid::Uuid;

use crate::fleet::Fleet;
use crate::model::{Network, Placed, Placement, Port, Router};
use crate::settings::{Scheduler, Settings};
use crate::world::{Link, Outside, World};

pub use pin::{PinError, pin, prioritise, unpin};
pub use rebalance::rebalance;
pub use repair::reschedule;

use candidate::Eligible;
use load::Load;
use pick::{Ask, Rule};

/// The maximum number of chassis of a gateway port.
pub const MAX_CHASSIS: usize = 5;

/// Places a new gateway port. The first result is its own placement. Placements of sibling gateways follow if their first backup changed.
/// The result is empty if no chassis can carry the port: [`reschedule`] places it when one appears.
pub fn place(world: &World, outside: &Outside, port: &Port, seed: u64) -> Vec<Placement> {
    let Some(subject) = Subject::of(world, &outside.settings, port) else { return Vec::new() };
    let eligible = subject.eligible(&outside.fleet, &outside.settings);
    let load = Load::of(world);
    let siblings = siblings(world, port);
    let ask = Ask { port: port.id, physical: subject.physical(), eligible: &eligible, siblings: &siblings };
    let mut rule = rule(&outside.settings, &load, seed);
    let chassis = pick::fill(Vec::new(), MAX_CHASSIS, &ask, &mut rule);
    if chassis.is_empty() {
        return Vec::new();
    }
    let mut placements = vec![subject.placement(chassis, &[])];
    if outside.settings.ovn_l3_scheduler == Scheduler::LeastLoaded {
        let moved = clear_first_backups(world, outside, &load, &siblings, &placements[0]);
        placements.extend(moved);
    }
    placements
}

/// Replaces first backups that are the primary of another sibling, if another chassis is available. Otherwise the loss of one chassis would
/// bring two gateways of the router together. Primaries stay.
fn clear_first_backups(
    world: &World,
    outside: &Outside,
    load: &Load,
    siblings: &[Arc<Placement>],
    new: &Placement,
) -> Vec<Placement> {
    let all: Vec<Arc<Placement>> = siblings.iter().cloned().chain([Arc::new(new.clone())]).collect();
    let mut moved = Vec::new();
    for sibling in siblings {
        let others: Vec<_> = all.iter().filter(|other| other.port_id != sibling.port_id).cloned().collect();
        let taken = |name: &str| others.iter().any(|other| is_primary(other, name));
        let [primary, backup, ..] = sibling.chassis.as_slice() else { continue };
        if !taken(&backup.chassis) || sibling.chassis[1..].iter().any(|placed| placed.pinned) {
            continue;
        }
        let Some(port) = world.get::<Port>(&sibling.port_id) else { continue };
        let Some(subject) = Subject::of(world, &outside.settings, port) else { continue };
        let eligible = subject.eligible(&outside.fleet, &outside.settings);
        let ask = Ask { port: port.id, physical: subject.physical(), eligible: &eligible, siblings: &others };
        let found = pick::fill(vec![primary.clone()], 2, &ask, &mut Rule::LeastLoaded(load));
        let Some(better) = found.get(1).filter(|better| !taken(&better.chassis)) else { continue };
        let mut chassis = sibling.chassis.clone();
        chassis.retain(|placed| placed.chassis != better.chassis);
        chassis.insert(1, better.clone());
        chassis.truncate(MAX_CHASSIS);
        moved.push(subject.placement(chassis, &[]));
    }
    moved
}

/// The properties of a gateway port that decide where it can be.
struct Subject<'w> {
    port: Uuid,
    network: &'w Network,
    zones: &'w [String],
}

impl<'w> Subject<'w> {
    fn of(world: &'w World, settings: &'w Settings, port: &Port) -> Option<Self> {
        let network = world.get::<Network>(&port.network_id)?;
        let router = world.get::<Router>(&port.router_id()?)?;
        let hints = &router.availability_zone_hints;
        let zones = if hints.is_empty() { &settings.default_availability_zones } else { hints };
        Some(Subject { port: port.id, network, zones })
    }

    fn physical(&self) -> &'w str {
        self.network.segment.physical_network.as_deref().unwrap_or_default()
    }

    fn eligible<'f>(&self, fleet: &'f Fleet, settings: &Settings) -> Eligible<'f> {
        Eligible::new(fleet, settings, self.network.segment.physical_network.as_deref(), self.zones)
    }

    /// The placement with its priorities, replacing the entries `before`.
    fn placement(&self, mut chassis: Vec<Placed>, before: &[Placed]) -> Placement {
        number(&mut chassis, before);
        Placement {
            port_id: self.port,
            physical_network: self.network.segment.physical_network.clone(),
            chassis,
        }
    }
}

/// Numbers the chassis of a group from highest to lowest. Without history the priorities count down to 1. Pinned priorities stay unless
/// there is no room left below them. Other members keep their previous priority if possible: each changed priority is a row to write, and a
/// lost chassis may have been in thousands of groups. If there is no room for that, all are numbered anew.
fn number(chassis: &mut [Placed], before: &[Placed]) {
    let mut kept = chassis.to_vec();
    count_up(&mut kept, |name| {
        before.iter().find(|placed| placed.chassis == name).map(|placed| placed.priority)
    });
    let highest = before.iter().map(|placed| placed.priority).max().unwrap_or(0).max(MAX_CHASSIS as u16);
    let pins_stay = kept.iter().zip(&*chassis).all(|(kept, placed)| !placed.pinned || kept == placed);
    match pins_stay && kept.iter().all(|placed| placed.priority <= highest) {
        true => chassis.clone_from_slice(&kept),
        false => count_up(chassis, |_| None),
    }
}

/// Makes each priority higher than the one below it, and not lower than its previous one in `had`.
fn count_up(chassis: &mut [Placed], had: impl Fn(&str) -> Option<u16>) {
    let mut least = 0;
    for placed in chassis.iter_mut().rev() {
        placed.priority = match placed.pinned {
            true => placed.priority.max(least),
            false => had(&placed.chassis).unwrap_or(1).max(least).max(1),
        };
        least = placed.priority.saturating_add(1);
    }
}

/// The placements of the other gateways of the port's router.
fn siblings(world: &World, port: &Port) -> Vec<Arc<Placement>> {
    let of_router = world.linked::<Port>(Link::PortsOfDevice(port.device_id.as_str().into()));
    let others = of_router.filter(|other| other.is_gateway() && other.id != port.id);
    others.filter_map(|other| world.get::<Placement>(&other.id).cloned()).collect()
}

fn is_primary(placement: &Placement, chassis: &str) -> bool {
    placement.chassis.first().is_some_and(|first| first.chassis == chassis)
}

fn rule<'l>(settings: &Settings, load: &'l Load, seed: u64) -> Rule<'l> {
    match settings.ovn_l3_scheduler {
        Scheduler::LeastLoaded => Rule::LeastLoaded(load),
        Scheduler::Chance => Rule::Chance(fastrand::Rng::with_seed(seed)),
    }
}

#[cfg(test)]
mod tests;
