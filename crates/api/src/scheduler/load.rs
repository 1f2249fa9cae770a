//! The load of each chassis.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::MAX_CHASSIS;
use crate::model::Placement;
use crate::world::World;

/// The number of ports at each rank; rank 0 is the primary.
pub(super) type Ranks = [u32; MAX_CHASSIS];

/// The number of ports of each chassis at each rank, by physical network and in total.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    physical: BTreeMap<SmolStr, BTreeMap<SmolStr, Ranks>>,
    total: BTreeMap<SmolStr, Ranks>,
}

impl Load {
    /// Reads the tallies of the world.
    pub(super) fn of(world: &World) -> Self {
        let mut load = Load::default();
        for (physical, chassis, rank, ports) in world.gateway_loads() {
            load.change(physical, chassis, usize::from(rank), |count| count.saturating_add(ports));
        }
        load
    }

    /// The ports of one physical network on a chassis.
    pub(super) fn of_physical(&self, physical: &str, chassis: &str) -> Ranks {
        self.physical.get(physical).and_then(|of| of.get(chassis)).copied().unwrap_or_default()
    }

    /// All ports on a chassis.
    pub(super) fn of_all(&self, chassis: &str) -> Ranks {
        self.total.get(chassis).copied().unwrap_or_default()
    }

    /// Replaces one placement by another in the counts.
    pub(super) fn replace(&mut self, before: Option<&Placement>, after: &Placement) {
        for (placement, add) in before.map(|before| (before, false)).into_iter().chain([(after, true)]) {
            let physical = placement.physical_network.as_deref().unwrap_or_default();
            for (rank, placed) in placement.chassis.iter().enumerate() {
                let step = |count: u32| if add { count.saturating_add(1) } else { count.saturating_sub(1) };
                self.change(physical, &placed.chassis, rank, step);
            }
        }
    }

    fn change(&mut self, physical: &str, chassis: &str, rank: usize, step: impl Fn(u32) -> u32) {
        let of = self.physical.entry(SmolStr::new(physical)).or_default();
        for ranks in
            [of.entry(SmolStr::new(chassis)).or_default(), self.total.entry(chassis.into()).or_default()]
        {
            if let Some(count) = ranks.get_mut(rank) {
                *count = step(*count);
            }
        }
    }
}
