//! `Chassis_Private`: a node's own row, which no other node monitors.

use ovsdb::{Map, Str, Table, Weak};

use super::Chassis;

/// A row of `Chassis_Private`: a node's own row, which no other node monitors.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Southbound", table = "Chassis_Private")]
pub struct ChassisPrivate {
    /// Unique; equals the chassis's.
    pub name: Str,
    /// The chassis; empty after its deletion.
    pub chassis: Option<Weak<Chassis>>,
    /// The `nb_cfg` that this node has applied.
    pub nb_cfg: i64,
    /// The time at which it did, in milliseconds.
    pub nb_cfg_timestamp: i64,
    /// Keys of agents.
    pub external_ids: Map<Str, Str>,
}
