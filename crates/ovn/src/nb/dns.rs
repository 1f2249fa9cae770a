//! `DNS`: names that OVN resolves on the switches that refer to the row.

use ovsdb::{Map, Str, Table};

/// A row of `DNS`: names that OVN resolves on the switches that refer to it.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "DNS")]
pub struct Dns {
    /// Lower-case name to blank-separated addresses, or reverse name to name.
    pub records: Map<Str, Str>,
    /// `ovn-owned` keeps unknown names from being forwarded (OVN 23.06).
    #[ovsdb(optional)]
    pub options: Map<Str, Str>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
