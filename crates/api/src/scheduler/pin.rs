//! Manual changes of a group: an administrator adds, orders or removes chassis.

use uuid::Uuid;

use super::load::Load;
use super::pick::Ask;
use super::{MAX_CHASSIS, Subject, repair, rule, siblings};
use crate::model::{Placed, Placement, Port};
use crate::world::{Outside, World};

/// The refusal of a manual change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// The chassis lacks the gateway mark, the bridge or the zone.
    #[error("the chassis cannot carry this gateway")]
    NotEligible,
    /// Another chassis of the group has the priority.
    #[error("another chassis of the group has this priority")]
    PriorityTaken,
    /// All entries of the group are pinned.
    #[error("all places of the group are pinned")]
    Full,
    /// The chassis is not in the group.
    #[error("the chassis is not in the group")]
    NotInGroup,
}

/// Pins a chassis into the group of a gateway port, at a priority or at the end. A chassis that is in the group already is pinned where it
/// is.
pub fn pin(
    world: &World,
    outside: &Outside,
    port: &Port,
    chassis: &str,
    priority: Option<u16>,
) -> Result<Placement, PinError> {
    let subject = Subject::of(world, &outside.settings, port).ok_or(PinError::NotEligible)?;
    if !subject.eligible(&outside.fleet, &outside.settings).contains(chassis) {
        return Err(PinError::NotEligible);
    }
    let mut group = entries(world, port.id);
    match group.iter_mut().find(|placed| placed.chassis == chassis) {
        Some(placed) => placed.pinned = true,
        None => {
            if group.len() >= MAX_CHASSIS {
                let last = group.iter().rposition(|placed| !placed.pinned).ok_or(PinError::Full)?;
                group.remove(last);
            }
            group.push(Placed { chassis: chassis.into(), priority: 0, pinned: true });
        }
    }
    match priority {
        Some(priority) => order(&mut group, chassis, priority)?,
        None => settle(&mut group, chassis),
    }
    Ok(subject.placement(group, &[]))
}

/// Sets the priority of a chassis that is in the group of a gateway port, and pins it there.
pub fn prioritise(
    world: &World,
    outside: &Outside,
    port: &Port,
    chassis: &str,
    priority: u16,
) -> Result<Placement, PinError> {
    let subject = Subject::of(world, &outside.settings, port).ok_or(PinError::NotEligible)?;
    let mut group = entries(world, port.id);
    let placed = group.iter_mut().find(|placed| placed.chassis == chassis).ok_or(PinError::NotInGroup)?;
    placed.pinned = true;
    order(&mut group, chassis, priority)?;
    Ok(subject.placement(group, &[]))
}

/// Removes the pin of a chassis from the group of a gateway port. The scheduler then refills the group, with this chassis as the last
/// choice if there are not enough others.
pub fn unpin(
    world: &World,
    outside: &Outside,
    port: &Port,
    chassis: &str,
    seed: u64,
) -> Result<Placement, PinError> {
    let subject = Subject::of(world, &outside.settings, port).ok_or(PinError::NotEligible)?;
    let mut group = entries(world, port.id);
    let at = group.iter().position(|placed| placed.chassis == chassis).ok_or(PinError::NotInGroup)?;
    let mut taken = group.remove(at);
    taken.pinned = false;
    let fleet = without(outside, chassis);
    let eligible = subject.eligible(&fleet.fleet, &fleet.settings);
    let load = Load::of(world);
    let siblings = siblings(world, port);
    let ask = Ask { port: port.id, physical: subject.physical(), eligible: &eligible, siblings: &siblings };
    let mut group = repair::regroup(&group, &ask, &mut rule(&outside.settings, &load, seed));
    if group.len() < MAX_CHASSIS && subject.eligible(&outside.fleet, &outside.settings).contains(chassis) {
        group.push(taken);
    }
    if group.is_empty() { Err(PinError::NotEligible) } else { Ok(subject.placement(group, &[])) }
}

fn entries(world: &World, port: Uuid) -> Vec<Placed> {
    world.get::<Placement>(&port).map(|placement| placement.chassis.clone()).unwrap_or_default()
}

/// The outside without one chassis.
fn without(outside: &Outside, chassis: &str) -> Outside {
    let mut outside = outside.clone();
    outside.fleet.chassis.retain(|other| other.name != chassis);
    outside
}

/// Sets the priority of one chassis of a group and sorts the group.
fn order(group: &mut [Placed], chassis: &str, priority: u16) -> Result<(), PinError> {
    if group.iter().any(|placed| placed.chassis != chassis && placed.priority == priority) {
        return Err(PinError::PriorityTaken);
    }
    for placed in group.iter_mut().filter(|placed| placed.chassis == chassis) {
        placed.priority = priority;
    }
    group.sort_by_key(|placed| std::cmp::Reverse(placed.priority));
    Ok(())
}

/// Pins a chassis at the priority that its position gives it.
fn settle(group: &mut [Placed], chassis: &str) {
    let at = group.iter().position(|placed| placed.chassis == chassis);
    for placed in group.iter_mut().filter(|placed| placed.chassis == chassis) {
        placed.pinned = false;
    }
    super::number(group, &[]);
    if let Some(placed) = at.and_then(|at| group.get_mut(at)) {
        placed.pinned = true;
    }
}
