//! `NB_Global`: the single row with settings of the whole database.

use ovsdb::{Map, Str, Table};

/// A row of `NB_Global`: the one row about the database as a whole.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "NB_Global")]
pub struct NbGlobal {
    /// A number that clients raise to find out when their changes are in place everywhere.
    pub nb_cfg: i64,
    /// The time of that change, in milliseconds.
    pub nb_cfg_timestamp: i64,
    /// The `nb_cfg` up to which northd has translated the Northbound to the Southbound.
    pub sb_cfg: i64,
    /// The `nb_cfg` that every chassis has applied.
    pub hv_cfg: i64,
    /// The time at which the slowest chassis applied it, in milliseconds.
    pub hv_cfg_timestamp: i64,
    /// Settings of northd and of all chassis.
    pub options: Map<Str, Str>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
