//! `Address_Set`: a named set of addresses for use in matches as `$name`.

use ovsdb::{Map, Set, Str, Table};

use crate::text::{HostAddr, Text};

/// A row of `Address_Set`: a named set of addresses for use in matches as `$name`.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Address_Set")]
pub struct AddressSet {
    /// Letters, digits, `_` and `.` only.
    pub name: Str,
    /// Addresses and prefixes. Ethernet addresses, which are also allowed, do not parse and stay strings.
    pub addresses: Set<Text<HostAddr>>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
