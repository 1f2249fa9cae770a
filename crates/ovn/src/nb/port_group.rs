//! `Port_Group`: a named set of switch ports for use in matches as `@name`, with rules of its own. northd creates the address
//! sets `<name>_ip4` and `<name>_ip6` from its members' addresses.

use ovsdb::{Map, Ref, Set, Str, Table, Weak};

use super::{Acl, LogicalSwitchPort};

/// A row of `Port_Group`: a named set of switch ports for use in matches as `@name`, with rules of its own.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Port_Group")]
pub struct PortGroup {
    /// Letters, digits, `_` and `.` only.
    pub name: Str,
    /// The members.
    pub ports: Set<Weak<LogicalSwitchPort>>,
    /// Rules that apply on every switch with a member.
    pub acls: Set<Ref<Acl>>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
