//! One chassis after the other, best first.

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

/// What is to be placed.
pub(super) struct Ask<'a> {
    pub(super) port: Uuid,
    pub(super) physical: &'a str,
    pub(super) eligible: &'a Eligible<'a>,
    /// The groups of the router's other gateways.
    pub(super) siblings: &'a [Arc<Placement>],
}

/// How to choose.
pub(super) enum Rule<'l> {
    /// Where the fewest are, siblings apart.
    LeastLoaded(&'l Load),
    /// Anywhere. Siblings are not looked at.
    Chance(fastrand::Rng),
}

/// What makes a chassis better than another: the smallest wins. Being the primary of a sibling is worse than any
/// imbalance, being in a sibling's group at all is the next worse; between them stand the zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Merit {
    primary_of_siblings: usize,
    zone_repeats: bool,
    backup_of_siblings: usize,
    load: u32,
    load_of_all: u32,
    /// Of two that carry the same here, the one that carries more below: its turn to be higher up has come.
    below: [Reverse<u32>; MAX_CHASSIS],
    /// Then the one that carries less altogether. Without this the last rank would be drawn by lot, and the lot can leave one
    /// chassis out until it is short at two ranks at once.
    load_of_ranks: u32,
    chance: u64,
}

/// Adds chassis below those that are `kept` until there are `size` or no more can be found. What it gives has no priorities
/// yet.
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

/// Decides between equals: the same everywhere and always, yet different from port to port.
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

/// The ranks under `rank`, nearest first.
fn below(ranks: &Ranks, rank: usize) -> [Reverse<u32>; MAX_CHASSIS] {
    let mut below = [Reverse(0); MAX_CHASSIS];
    for (slot, count) in below.iter_mut().zip(&ranks[rank + 1..]) {
        *slot = Reverse(*count);
    }
    below
}

/// The zones that the group has reached since all were reached last.
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

/// A chassis without a zone is in the nameless one.
fn zones(chassis: &Chassis) -> impl Iterator<Item = &str> {
    let nameless = chassis.zones.is_empty().then_some("");
    chassis.zones.iter().map(String::as_str).chain(nameless)
}
