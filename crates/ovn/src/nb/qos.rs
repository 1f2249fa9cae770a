//! `QoS`: marking and policing on a switch.

use ovsdb::{Map, Str, Table};

use super::Direction;

/// A row of `QoS`: marking and policing on a switch.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "QoS")]
pub struct Qos {
    /// 0 to 32767, the highest wins.
    pub priority: i64,
    /// The direction of the packets that the rule matches, from or to the ports.
    pub direction: Direction,
    /// The packets that the rule matches.
    #[ovsdb(column = "match")]
    pub matches: Str,
    /// `dscp`, and from 23.09 on `mark`.
    pub action: Map<Str, i64>,
    /// `rate` and `burst` in kbps and kbits.
    pub bandwidth: Map<Str, i64>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
