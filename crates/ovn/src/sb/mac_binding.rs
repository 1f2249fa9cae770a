//! `MAC_Binding`: a learned neighbour. Never monitored, because there may be very many. Stale ones are deleted with a condition.

use ovsdb::{Ref, Str, Table};

use super::DatapathBinding;

/// A row of `MAC_Binding`: a learned neighbour.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Southbound", table = "MAC_Binding")]
pub struct MacBinding {
    /// The router port that learned it.
    pub logical_port: Str,
    /// The neighbour's address.
    pub ip: Str,
    /// Its Ethernet address.
    pub mac: Str,
    /// The router.
    pub datapath: Ref<DatapathBinding>,
}
