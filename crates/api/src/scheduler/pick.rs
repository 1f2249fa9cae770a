//! The choice of chassis for a group, one after another, best first.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;

use super::MAX_CHASSIS;
use super::candidate::Eligible;
use super::is_primary;
use super::load::{Load, Ranks};
use crate::fleet::Chassis;
use crate::model::{Placed, Placement};

/// The port to be placed, and its constraints.
pub(super) struct Ask<'a> {
    pub(super) port: Uuid,
    pub(super) physical: &'a str,
    pub(super) eligible: &'a Eligible<'a>,
    /// The placements of the router's other gateways.
    pub(super) siblings: &'a [Arc<Placement>],
}

/// The rule of the choice.
pub(super) enum Rule<'l> {
    /// The chassis with the fewest ports, siblings apart.
    LeastLoaded(&'l Load),
    /// A random chassis, without regard to siblings.
    Chance(fastrand::Rng),
}

/// The order of chassis; the smallest is best. Hosting the primary of a sibling counts more than any imbalance. Then come a repeated zone,
/// and being in a sibling's group at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Merit {
    primary_of_siblings: usize,
    zone_repeats: bool,
    backup_of_siblings: usize,
    load: u32,
    load_of_all: u32,
    /// Of two chassis with the same load at this rank, the one with more load at lower ranks wins: it is due for a higher one.
    below: [Reverse<u32>; MAX_CHASSIS],
    /// Then the one with less load in total. Without this the last rank would be random, and a chassis could be left out until it is short
    /// of ports at two ranks at once.
    load_of_ranks: u32,
    chance: u64,
}

/// Adds chassis below those in `kept` until the group has `size` members or no more are eligible. The new entries have no priorities yet.
pub(super) fn fill(kept: Vec<Placed>, size: usize, ask: &Ask<'_>, rule: &mut Rule<'_>) -> Vec<Placed> {
    let mut group = kept;
    let mut covered = Zones::default();
    for placed in &group {
        if let Some(chassis) = ask.eligible.named(&placed.chassis) {
            covered.take(chassis);
        }
    }
    while group.len() < size.min(MAX_CHASSIS) {
        let free: Vec<&Chassis> = ask
            .eligible
            .open()
            .filter(|chassis| !group.iter().any(|placed| placed.chassis == chassis.name))
            .collect();
        if free.iter().all(|chassis| covered.repeats(chassis)) {
            covered = Zones::default();
        }
        let Some(best) = best(&free, group.len(), ask, &covered, rule) else { break };
        covered.take(best);
        group.push(Placed { chassis: best.name.clone(), priority: 0, pinned: false });
    }
    group
}

fn best<'f>(
    free: &[&'f Chassis],
    rank: usize,
    ask: &Ask<'_>,
    covered: &Zones<'_>,
    rule: &mut Rule<'_>,
) -> Option<&'f Chassis> {
    let merits: Vec<Merit> =
        free.iter().map(|chassis| merit(chassis, rank, ask, covered.repeats(chassis), rule)).collect();
    let least = merits.iter().min()?;
    let equal = free.iter().zip(&merits).filter(|(_, merit)| *merit == least).map(|(chassis, _)| *chassis);
    equal.min_by_key(|chassis| draw(ask.port, rank, &chassis.name))
}

/// Breaks ties: the same on every machine and after every restart, yet different from port to port.
fn draw(port: Uuid, rank: usize, chassis: &str) -> Uuid {
    Uuid::new_v5(&port, format!("{rank}/{chassis}").as_bytes())
}

fn merit(chassis: &Chassis, rank: usize, ask: &Ask<'_>, zone_repeats: bool, rule: &mut Rule<'_>) -> Merit {
    let nothing = Merit {
        primary_of_siblings: 0,
        zone_repeats,
        backup_of_siblings: 0,
        load: 0,
        load_of_all: 0,
        below: [Reverse(0); MAX_CHASSIS],
        load_of_ranks: 0,
        chance: 0,
    };
    match rule {
        Rule::Chance(chance) => Merit { chance: chance.u64(..), ..nothing },
        Rule::LeastLoaded(load) => {
            let primary_of_siblings =
                ask.siblings.iter().filter(|sibling| is_primary(sibling, &chassis.name)).count();
            let in_groups = ask.siblings.iter().filter(|sibling| names(sibling, &chassis.name)).count();
            let here = load.of_physical(ask.physical, &chassis.name);
            Merit {
                primary_of_siblings,
                backup_of_siblings: in_groups - primary_of_siblings,
                load: here[rank],
                load_of_all: load.of_all(&chassis.name)[rank],
                below: below(&here, rank),
                load_of_ranks: here.iter().sum(),
                ..nothing
            }
        }
    }
}

fn names(placement: &Placement, chassis: &str) -> bool {
    placement.chassis.iter().any(|placed| placed.chassis == chassis)
}

/// The counts at lower ranks than `rank`, nearest first.
fn below(ranks: &Ranks, rank: usize) -> [Reverse<u32>; MAX_CHASSIS] {
    let mut below = [Reverse(0); MAX_CHASSIS];
    for (slot, count) in below.iter_mut().zip(&ranks[rank + 1..]) {
        *slot = Reverse(*count);
    }
    below
}

/// The zones that the group has covered since it last had covered all of them.
#[derive(Default)]
struct Zones<'f>(BTreeSet<&'f str>);

impl<'f> Zones<'f> {
    fn repeats(&self, chassis: &Chassis) -> bool {
        zones(chassis).all(|zone| self.0.contains(zone))
    }

    fn take(&mut self, chassis: &'f Chassis) {
        self.0.extend(zones(chassis));
    }
}

/// The zones of a chassis; the empty string if it has none.
fn zones(chassis: &Chassis) -> impl Iterator<Item = &str> {
    let nameless = chassis.zones.is_empty().then_some("");
    chassis.zones.iter().map(String::as_str).chain(nameless)
}
