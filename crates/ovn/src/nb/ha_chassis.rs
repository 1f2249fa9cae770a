//! `HA_Chassis`: one candidate of a chassis group.

use ovsdb::{Map, Str, Table};

/// A row of `HA_Chassis`: one candidate of a chassis group.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "HA_Chassis")]
pub struct HaChassis {
    /// The chassis, by its Southbound name.
    pub chassis_name: Str,
    /// The priority. Of the live chassis, the one with the highest priority hosts the port.
    pub priority: i64,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
