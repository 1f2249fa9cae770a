//! `Copp`: rate limits for packets to the control plane, by protocol.

use ovsdb::{Map, Str, Table};

/// A row of `Copp`: limits on packets to the control plane, by protocol.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Copp")]
pub struct Copp {
    /// Unique.
    pub name: Str,
    /// Protocol to meter name.
    pub meters: Map<Str, Str>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
