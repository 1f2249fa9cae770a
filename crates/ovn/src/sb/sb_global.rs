//! `SB_Global`: the single row with settings of the whole database.

use ovsdb::{Map, Str, Table};

/// A row of `SB_Global`: the one row about the database as a whole.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Southbound", table = "SB_Global")]
pub struct SbGlobal {
    /// The Northbound's `nb_cfg`, for chassis to follow.
    pub nb_cfg: i64,
    /// Settings of all chassis, copied by northd.
    pub options: Map<Str, Str>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
