//! The move of primaries on an operator's request.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::load::Load;
use super::{MAX_CHASSIS, Subject, is_primary, siblings};
use crate::model::{Placed, Placement, Port};
use crate::world::{Link, Outside, World};

/// The placements to change so that no chassis has more primaries of a physical network than its fair share, rounded up.
/// Primaries below that, pinned ones and those that would join a sibling stay.
pub fn rebalance(world: &World, outside: &Outside) -> Vec<Placement> {
    let mut load = Load::of(world);
    let mut changed: BTreeMap<Uuid, Arc<Placement>> = BTreeMap::new();
    let ports: Vec<&Arc<Port>> = world.linked::<Port>(Link::GatewayPorts).collect();
    let mut ports_of: BTreeMap<&str, u32> = BTreeMap::new();
    for placement in ports.iter().filter_map(|port| world.get::<Placement>(&port.id)) {
        *ports_of.entry(placement.physical_network.as_deref().unwrap_or_default()).or_default() += 1;
    }
    for port in ports {
        let Some(before) = world.get::<Placement>(&port.id) else { continue };
        let Some(subject) = Subject::of(world, &outside.settings, port) else { continue };
        let Some(primary) = before.chassis.first().filter(|primary| !primary.pinned) else { continue };
        let eligible = subject.eligible(&outside.fleet, &outside.settings);
        let open: Vec<_> = eligible.open().collect();
        let Ok(width) = u32::try_from(open.len()) else { continue };
        let total = ports_of.get(subject.physical()).copied().unwrap_or(0);
        if width == 0 {
            continue;
        }
        let share = total.div_ceil(width);
        let primaries = |name: &str| load.of_physical(subject.physical(), name)[0];
        if primaries(&primary.chassis) <= share {
            continue;
        }
        let siblings: Vec<_> = siblings(world, port)
            .into_iter()
            .map(|sibling| changed.get(&sibling.port_id).cloned().unwrap_or(sibling))
            .collect();
        let apart = |name: &str| !siblings.iter().any(|sibling| is_primary(sibling, name));
        let to = open
            .iter()
            .filter(|chassis| chassis.name != primary.chassis && apart(&chassis.name))
            .filter(|chassis| primaries(&chassis.name) < share)
            .min_by_key(|chassis| (primaries(&chassis.name), &chassis.name));
        let Some(to) = to else { continue };
        let after = subject.placement(promoted(&before.chassis, &to.name), &[]);
        load.replace(Some(before), &after);
        changed.insert(port.id, Arc::new(after));
    }
    changed.into_values().map(|placement| Placement::clone(&placement)).collect()
}

/// The group with `name` first. A member swaps with the present primary; a new chassis replaces the last entry that is not pinned if the
/// group is full.
fn promoted(chassis: &[Placed], name: &str) -> Vec<Placed> {
    let mut group = chassis.to_vec();
    match group.iter().position(|placed| placed.chassis == name) {
        Some(at) => group.swap(0, at),
        None => {
            group.insert(0, Placed { chassis: name.into(), priority: 0, pinned: false });
            if group.len() > MAX_CHASSIS
                && let Some(last) = group.iter().rposition(|placed| !placed.pinned)
            {
                group.remove(last);
            }
        }
    }
    group
}
