//! The chassis that can carry a port.

use crate::fleet::{Chassis, Fleet};
use crate::settings::Settings;

/// The chassis that can carry the ports of one physical network in some zones, sorted by name.
#[derive(Debug)]
pub(super) struct Eligible<'f> {
    chassis: Vec<&'f Chassis>,
}

impl<'f> Eligible<'f> {
    /// The chassis that are gateway-capable, have a bridge for `physical` if given, and are in one of `zones` unless empty. If no chassis
    /// of the fleet is gateway-capable, all count as such if `gateway_chassis_fallback` is set.
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

    /// Whether an entry on this chassis may stay. An entry on a dead chassis stays: OVN itself fails over and back.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.chassis.iter().any(|chassis| chassis.name == name)
    }

    /// The chassis for new entries: those that are alive.
    pub(super) fn open(&self) -> impl Iterator<Item = &'f Chassis> + '_ {
        self.chassis.iter().copied().filter(|chassis| chassis.alive)
    }

    /// The eligible chassis with a name.
    pub(super) fn named(&self, name: &str) -> Option<&'f Chassis> {
        self.chassis.iter().copied().find(|chassis| chassis.name == name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chassis.is_empty()
    }
}
