//! `HA_Chassis_Group`: candidates for hosting a gateway port or external ports. An unreferenced group stays.

use ovsdb::{Map, Ref, Set, Str, Table};

use super::HaChassis;

/// A row of `HA_Chassis_Group`: candidates for hosting a gateway port or external ports.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "HA_Chassis_Group")]
pub struct HaChassisGroup {
    /// Unique.
    pub name: Str,
    /// The candidates.
    pub ha_chassis: Set<Ref<HaChassis>>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
