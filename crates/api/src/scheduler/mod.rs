//! Which chassis a gateway port may be on, and in which order.
//!
//! Every gateway port has its own group of at most [`MAX_CHASSIS`] chassis; the first hosts it, the next take over. The
//! groups are entities of the store ([`Placement`]), so a lost Northbound is rebuilt without moving a gateway, and load is
//! counted from what is wanted, never from a database that may lag.
//!
//! What is asked for here, in order: the gateways of one router have their primaries apart, and stay
//! apart when one chassis fails, if there are chassis enough ([`place`] puts the backups of siblings in order for that); ports
//! of a physical network are spread evenly at every rank; what works is not moved ([`reschedule`]) unless somebody asks
//! ([`rebalance`]) or pins it ([`pin`]).
//!
//! Pure: worlds and fleets in, placements out. The same input gives the same output on every machine, after every restart.
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

/// Most chassis of one gateway port.
pub const MAX_CHASSIS: usize = 5;

/// Places a new gateway port. The first of the answer is its own placement; those of sibling gateways follow if their first
/// backup had to make room. Nothing if no chassis can carry it: [`reschedule`] finds it when one comes.
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

/// Siblings whose first backup is the primary of another sibling get a first backup that is none, if there is one: then the
/// loss of one chassis does not bring two gateways of the router together. Primaries stay.
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

/// What of a gateway port decides where it can be.
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

    /// The placement with its priorities, in the place of what was there before.
    fn placement(&self, mut chassis: Vec<Placed>, before: &[Placed]) -> Placement {
        number(&mut chassis, before);
        Placement {
            port_id: self.port,
            physical_network: self.network.segment.physical_network.clone(),
            chassis,
        }
    }
}

/// Gives each chassis of a group, highest first, its priority: from their number down to 1. Those set by hand keep theirs, unless
/// there is no room left below them. So does whoever was in the group before and can, since each that changes is a row to write,
/// and a lost chassis may have been in thousands of groups; where there is no room for that, all are given anew.
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

/// Each priority above the one below it, and not under what it `had`.
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

/// Where the other gateways of the port's router are.
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
