//! The minimal changes after a change of the chassis.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::load::Load;
use super::pick::{self, Ask, Rule};
use super::{MAX_CHASSIS, Subject, is_primary, rule};
use crate::model::{Placed, Placement, Port};
use crate::world::{Link, Outside, World};

/// The placements that must change for the present chassis, in order of port; empty if all are valid.
///
/// Entries on chassis that can no longer carry the port are removed. A surviving primary stays, and so does everything above the first gap;
/// entries below it are chosen anew. A short group is filled at its end, so a new chassis never becomes primary by itself. A port that no
/// chassis can carry keeps its entries. Ports without a placement get one. Only the scheduler `chance` uses `seed`.
pub fn reschedule(world: &World, outside: &Outside, seed: u64) -> Vec<Placement> {
    let mut load = Load::of(world);
    let mut changed: BTreeMap<Uuid, Arc<Placement>> = BTreeMap::new();
    // The placements of each router's gateways, as decided so far. All ports are processed, so each router is looked up once.
    let mut of_router: BTreeMap<&str, Vec<Arc<Placement>>> = BTreeMap::new();
    for port in world.linked::<Port>(Link::GatewayPorts) {
        let placement = world.get::<Placement>(&port.id).cloned();
        of_router.entry(&port.device_id).or_default().extend(placement);
    }
    for port in world.linked::<Port>(Link::GatewayPorts) {
        let Some(subject) = Subject::of(world, &outside.settings, port) else { continue };
        let eligible = subject.eligible(&outside.fleet, &outside.settings);
        if eligible.is_empty() {
            continue;
        }
        let before = world.get::<Placement>(&port.id);
        let entries = before.map(|before| before.chassis.as_slice()).unwrap_or_default();
        let whole = entries.iter().all(|placed| eligible.contains(&placed.chassis));
        let room = entries.len() < MAX_CHASSIS && eligible.open().count() > 0;
        if whole && !room {
            continue;
        }
        let gateways = of_router.entry(&port.device_id).or_default();
        let siblings: Vec<_> =
            gateways.iter().filter(|gateway| gateway.port_id != port.id).cloned().collect();
        let ask =
            Ask { port: port.id, physical: subject.physical(), eligible: &eligible, siblings: &siblings };
        let own_seed = seed ^ port.id.as_u64_pair().0 ^ port.id.as_u64_pair().1;
        let mut rule = rule(&outside.settings, &load, own_seed);
        let chassis = regroup(entries, &ask, &mut rule);
        if chassis.is_empty() {
            continue;
        }
        let after = subject.placement(chassis, entries);
        if before.is_some_and(|before| names(&before.chassis) == names(&after.chassis)) {
            continue;
        }
        load.replace(before.map(Arc::as_ref), &after);
        let after = Arc::new(after);
        gateways.retain(|gateway| gateway.port_id != port.id);
        gateways.push(Arc::clone(&after));
        changed.insert(port.id, after);
    }
    changed.into_values().map(|placement| Placement::clone(&placement)).collect()
}

/// The group after removing entries that are no longer possible.
pub(super) fn regroup(entries: &[Placed], ask: &Ask<'_>, rule: &mut Rule<'_>) -> Vec<Placed> {
    let valid = |placed: &&Placed| ask.eligible.contains(&placed.chassis);
    let survivors: Vec<&Placed> = entries.iter().filter(valid).collect();
    let gap = entries.iter().position(|placed| !valid(&placed)).unwrap_or(entries.len());
    let mut kept: Vec<Placed> = entries[..gap].to_vec();
    if kept.is_empty() {
        kept.extend(successor(&survivors, ask, rule));
    }
    // Pins below the gap keep their positions; the other entries around them are chosen anew.
    let pins: Vec<(usize, Placed)> = survivors
        .iter()
        .enumerate()
        .filter(|(_, placed)| placed.pinned && !kept.iter().any(|kept| kept.chassis == placed.chassis))
        .map(|(rank, placed)| (rank, (*placed).clone()))
        .collect();
    for (_, pin) in &pins {
        kept.push(pin.clone());
    }
    let mut group = pick::fill(kept, MAX_CHASSIS, ask, rule);
    group.retain(|placed| !pins.iter().any(|(_, pin)| pin.chassis == placed.chassis));
    for (rank, pin) in pins {
        group.insert(rank.min(group.len()), pin);
    }
    group
}

/// The new primary after the loss of the old one: the first survivor, which OVN has already chosen. The exception is a survivor that hosts
/// the primary of a sibling while another hosts none.
fn successor(survivors: &[&Placed], ask: &Ask<'_>, rule: &mut Rule<'_>) -> Option<Placed> {
    let first = survivors.first().map(|placed| Placed::clone(placed));
    if !matches!(rule, Rule::LeastLoaded(_)) {
        return first;
    }
    let apart = |placed: &Placed| !ask.siblings.iter().any(|sibling| is_primary(sibling, &placed.chassis));
    if let Some(survivor) = survivors.iter().find(|placed| placed.pinned || apart(placed)) {
        return Some(Placed::clone(survivor));
    }
    let fresh = pick::fill(Vec::new(), 1, ask, rule).into_iter().find(apart);
    fresh.or(first)
}

fn names(chassis: &[Placed]) -> Vec<&str> {
    chassis.iter().map(|placed| placed.chassis.as_str()).collect()
}
