//! Which chassis can carry a port at all.

use crate::fleet::{Chassis, Fleet};
use crate::settings::Settings;

/// The chassis that can carry the ports of one physical network in some zones, in order of name.
#[derive(Debug)]
pub(super) struct Eligible<'f> {
    chassis: Vec<&'f Chassis>,
}

impl<'f> Eligible<'f> {
    /// Chassis with the gateway mark, a bridge for `physical` if it is named, and one of `zones` if any are named.
    /// If no chassis of the fleet has the mark, all count as marked where the operator chose so.
    pub(super) fn new(
        fleet: &'f Fleet,
        settings: &Settings,
        physical: Option<&str>,
        zones: &[String],
    ) -> Self {
        let anyone =
            settings.gateway_chassis_fallback && !fleet.chassis.iter().any(|chassis| chassis.gateway);
        let fits = |chassis: &&Chassis| {
            (chassis.gateway || anyone)
                && physical.is_none_or(|physical| chassis.physical_networks.contains(physical))
                && (zones.is_empty() || zones.iter().any(|zone| chassis.zones.contains(zone)))
        };
        Eligible { chassis: fleet.chassis.iter().filter(fits).collect() }
    }

    /// Whether an entry on this chassis may stay. A chassis that does not report stays: OVN fails over by itself and back.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.chassis.iter().any(|chassis| chassis.name == name)
    }

    /// Those that new entries may be put on.
    pub(super) fn open(&self) -> impl Iterator<Item = &'f Chassis> + '_ {
        self.chassis.iter().copied().filter(|chassis| chassis.alive)
    }

    /// Any of them, by name.
    pub(super) fn named(&self, name: &str) -> Option<&'f Chassis> {
        self.chassis.iter().copied().find(|chassis| chassis.name == name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chassis.is_empty()
    }
}
