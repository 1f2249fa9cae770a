//! `Gateway_Chassis`: a candidate chassis of one gateway port, in the older form. Read for imports, and used for a port with a single
//! chassis.

use ovsdb::{Map, Str, Table};

/// A row of `Gateway_Chassis`: a chassis that may host one gateway port, in the older form.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Gateway_Chassis")]
pub struct GatewayChassis {
    /// Unique.
    pub name: Str,
    /// The chassis.
    pub chassis_name: Str,
    /// The priority. Of the live chassis, the one with the highest priority hosts the port.
    pub priority: i64,
    /// Reserved.
    pub options: Map<Str, Str>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
