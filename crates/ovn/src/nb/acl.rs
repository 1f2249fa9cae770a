//! `ACL`: a rule of a switch or port group.

use ovsdb::{Map, Str, Table};

use crate::text::word::words;

/// A row of `ACL`: a rule of a switch or port group.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "ACL")]
pub struct Acl {
    /// A name that ovn-controller logs.
    pub name: Option<Str>,
    /// 0 to 32767, the highest wins.
    pub priority: i64,
    /// The direction of the packets that the rule matches, from or to the ports.
    pub direction: Direction,
    /// The packets that the rule matches; see [`Match`](crate::text::match_expr::Match).
    #[ovsdb(column = "match")]
    pub matches: Str,
    /// The action on matching packets.
    pub action: AclAction,
    /// Whether matching packets are logged.
    pub log: bool,
    /// The severity of the log lines.
    pub severity: Option<Severity>,
    /// Meter that limits the log.
    pub meter: Option<Str>,
    /// A label kept in conntrack, 0 for none.
    pub label: i64,
    /// Stage of evaluation, 0 to 3.
    #[ovsdb(optional)]
    pub tier: i64,
    /// Further settings.
    pub options: Map<Str, Str>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}

words! {
    /// The side of the switch on which a rule applies.
    pub enum Direction {
        /// Packets to logical ports (`ingress` in Neutron's API).
        ToLport = "to-lport",
        /// Packets from logical ports (egress).
        FromLport = "from-lport",
    }
}

words! {
    /// The action of an ACL.
    pub enum AclAction {
        /// Drops the packet without a reply.
        Drop = "drop",
        /// Lets the packet through.
        Allow = "allow",
        /// Lets the connection through, replies included.
        AllowRelated = "allow-related",
        /// Lets the packet through past conntrack.
        AllowStateless = "allow-stateless",
        /// Answers with RST or unreachable.
        Reject = "reject",
        /// Continues with the next tier (OVN 23.09).
        Pass = "pass",
    }
}

words! {
    /// The severity of a log line about a packet.
    pub enum Severity {
        /// Information.
        Info = "info",
        /// Debugging.
        Debug = "debug",
        /// Normal but significant.
        Notice = "notice",
        /// Warning.
        Warning = "warning",
        /// Act at once.
        Alert = "alert",
    }
}
