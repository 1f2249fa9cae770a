//! `NB_Global`: the single row with settings of the whole database.

use ovsdb::{Map, Str, Table};

/// A row of `NB_Global`: the one row about the database as a whole.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "NB_Global")]
pub struct NbGlobal {
    /// Raised by a client that wants to know when its changes have arrived everywhere.
    pub nb_cfg: i64,
    /// When that was, in milliseconds.
    pub nb_cfg_timestamp: i64,
    /// The `nb_cfg` that northd has carried to the Southbound.
    pub sb_cfg: i64,
    /// The `nb_cfg` that every chassis has carried out.
    pub hv_cfg: i64,
    /// When the slowest chassis did, in milliseconds.
    pub hv_cfg_timestamp: i64,
    /// Settings of northd and of all chassis.
    pub options: Map<Str, Str>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
