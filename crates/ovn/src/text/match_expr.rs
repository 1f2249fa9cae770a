//! Match expressions, as far as we write them: ACLs, router policies, QoS rules, NAT matches.
//!
//! A builder, not a parser: [`Match`] is an expression tree that prints what OVN's lexer reads. The tree cannot express an
//! ill-formed string. Strings are quoted, group names are checked, and `&&` and `||` are always parenthesised against each
//! other, because OVN refuses to guess. Ports are compared only with ports, and only tests that OVN can negate or compare by
//! size offer that.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use smol_str::SmolStr;

use super::host_addr::clip;
use super::quoted::Quoted;
use crate::mac::MacAddr;

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    /// A kind of packet: `ip4`, `tcp`.
    Is(Predicate),
    /// `inport == "name"`, or one of several.
    Port(Side, Vec<SmolStr>),
    /// `inport == @group`.
    PortGroup(Side, GroupName),
    /// `icmp4.type == 8` and its kind.
    Code(Code, u64),
    /// A test that can also be negated.
    Test(Test),
    /// Negation. `!(ip4.src == x)` still requires IPv4, because every test selects the packets that have its field.
    Not(Test),
    /// All of the expressions; an empty list is always true.
    All(Vec<Match>),
    /// Any of the expressions; an empty list is never true.
    Any(Vec<Match>),
}

/// A test that OVN can negate. Ports, kinds of packet and codes are not among these.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    /// `ct.rpl`.
    Bit(Bit),
    /// `ip4.src == 10.0.0.0/24`, or one of several. The symbol (`ip4` or `ip6`) follows each value's family.
    Ip(End, Vec<IpNet>),
    /// `ip4.src == $set`.
    AddressSet(Family, End, GroupName),
    /// `eth.dst == fa:16:3e:00:00:01`.
    Mac(End, MacAddr),
    /// `tcp.dst >= 80` and its kind.
    Number(Field, Relation, u64),
    /// `is_chassis_resident("port")`.
    Resident(SmolStr),
}

/// A logical port of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// `inport`.
    In,
    /// `outport`.
    Out,
}

/// An end of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// `src`.
    Src,
    /// `dst`.
    Dst,
}

/// The IP version, for tests whose values do not imply it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// `ip4`.
    V4,
    /// `ip6`.
    V6,
}

/// The relation between a field and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// `==`.
    Eq,
    /// `>=`.
    Ge,
    /// `<=`.
    Le,
}

/// A closed list of symbols: no string from outside can become one.
macro_rules! symbols {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$vmeta])* $variant,)+
        }

        impl $name {
            /// Every symbol.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The symbol in OVN's syntax.
            pub fn symbol(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }
        }
    };
}

symbols! {
    /// Kinds of packet.
    pub enum Predicate {
        /// Either IP version.
        Ip = "ip",
        /// IPv4.
        Ip4 = "ip4",
        /// IPv6.
        Ip6 = "ip6",
        /// ARP.
        Arp = "arp",
        /// IPv6 neighbour discovery.
        Nd = "nd",
        /// TCP.
        Tcp = "tcp",
        /// UDP.
        Udp = "udp",
        /// SCTP.
        Sctp = "sctp",
        /// ICMP for IPv4.
        Icmp4 = "icmp4",
        /// ICMP for IPv6.
        Icmp6 = "icmp6",
    }
}

symbols! {
    /// One-bit symbols.
    pub enum Bit {
        /// Passed through conntrack.
        CtTracked = "ct.trk",
        /// In the reply direction of a tracked connection.
        CtReply = "ct.rpl",
        /// First packet of a connection.
        CtNew = "ct.new",
        /// Part of an established connection.
        CtEstablished = "ct.est",
    }
}

symbols! {
    /// Numbers that can be compared by size.
    pub enum Field {
        /// TCP source port.
        TcpSrc = "tcp.src",
        /// TCP destination port.
        TcpDst = "tcp.dst",
        /// UDP source port.
        UdpSrc = "udp.src",
        /// UDP destination port.
        UdpDst = "udp.dst",
        /// SCTP source port.
        SctpSrc = "sctp.src",
        /// SCTP destination port.
        SctpDst = "sctp.dst",
        /// Packet mark.
        PktMark = "pkt.mark",
    }
}

symbols! {
    /// Numbers that are codes: OVN compares them for equality only.
    pub enum Code {
        /// IP protocol number.
        IpProto = "ip.proto",
        /// Ethernet type.
        EthType = "eth.type",
        /// ICMPv4 type.
        Icmp4Type = "icmp4.type",
        /// ICMPv4 code.
        Icmp4Code = "icmp4.code",
        /// ICMPv6 type.
        Icmp6Type = "icmp6.type",
        /// ICMPv6 code.
        Icmp6Code = "icmp6.code",
    }
}

/// The name of an address set or port group, in the characters that the lexer accepts after `$` and `@`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(SmolStr);

/// A name that the lexer would truncate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot be used in a match: only letters, digits, '_' and '.', and no digit first")]
pub struct GroupNameError(String);

impl GroupName {
    /// Checks a name.
    pub fn new(name: &str) -> Result<Self, GroupNameError> {
        let letter = |b: u8| b.is_ascii_alphabetic() || b == b'_' || b == b'.';
        let mut bytes = name.bytes();
        if bytes.next().is_some_and(letter) && bytes.all(|b| letter(b) || b.is_ascii_digit()) {
            Ok(GroupName(SmolStr::new(name)))
        } else {
            Err(GroupNameError(clip(name)))
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Match {
    /// `inport == "name"` or `outport == "name"`.
    pub fn port(side: Side, name: &str) -> Match {
        Match::Port(side, vec![SmolStr::new(name)])
    }

    /// Source or destination inside one prefix; a prefix of full length prints as a bare address.
    pub fn ip(end: End, net: impl Into<IpNet>) -> Match {
        Match::Test(Test::Ip(end, vec![net.into()]))
    }

    /// A closed range of a numeric field; a range of one value is an equality.
    pub fn range(field: Field, low: u64, high: u64) -> Match {
        if low == high {
            return Test::Number(field, Relation::Eq, low).into();
        }
        Match::All(vec![
            Test::Number(field, Relation::Ge, low).into(),
            Test::Number(field, Relation::Le, high).into(),
        ])
    }

    /// Both expressions. Conjunctions are flattened and keep their order.
    pub fn and(self, other: Match) -> Match {
        let mut all = match self {
            Match::All(all) => all,
            one => vec![one],
        };
        match other {
            Match::All(more) => all.extend(more),
            one => all.push(one),
        }
        Match::All(all)
    }

    /// Either expression. Disjunctions are flattened and keep their order.
    pub fn or(self, other: Match) -> Match {
        let mut any = match self {
            Match::Any(any) => any,
            one => vec![one],
        };
        match other {
            Match::Any(more) => any.extend(more),
            one => any.push(one),
        }
        Match::Any(any)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, around: Level) -> fmt::Result {
        match self {
            Match::Is(predicate) => f.write_str(predicate.symbol()),
            Match::Port(side, names) => one_of(f, side.symbol(), names.iter().map(|name| Quoted(name))),
            Match::PortGroup(side, group) => write!(f, "{} == @{}", side.symbol(), group.0),
            Match::Code(code, value) => write!(f, "{} == {value}", code.symbol()),
            Match::Test(test) => test.write(f, around),
            // `!` binds to one symbol or to parentheses.
            Match::Not(test @ (Test::Bit(_) | Test::Resident(_))) => {
                f.write_str("!")?;
                test.write(f, Level::Top)
            }
            Match::Not(test) => {
                f.write_str("!(")?;
                test.write(f, Level::Top)?;
                f.write_str(")")
            }
            Match::All(parts) => joined(f, parts, " && ", "1", Level::All, around),
            Match::Any(parts) => joined(f, parts, " || ", "0", Level::Any, around),
        }
    }
}

impl Test {
    fn write(&self, f: &mut fmt::Formatter<'_>, around: Level) -> fmt::Result {
        match self {
            Test::Bit(bit) => f.write_str(bit.symbol()),
            Test::Ip(end, nets) => {
                let (v4, v6): (Vec<&IpNet>, Vec<&IpNet>) = nets.iter().partition(|net| net.addr().is_ipv4());
                match (v4.is_empty(), v6.is_empty()) {
                    (_, true) => one_of(f, end.ip(Family::V4), v4.into_iter().map(|n| Prefix(*n))),
                    (true, _) => one_of(f, end.ip(Family::V6), v6.into_iter().map(|n| Prefix(*n))),
                    // A packet has one IP version, so a mixed list becomes two comparisons.
                    _ => {
                        let of = |nets: Vec<&IpNet>| Test::Ip(*end, nets.into_iter().copied().collect());
                        Match::Any(vec![of(v4).into(), of(v6).into()]).write(f, around)
                    }
                }
            }
            Test::AddressSet(family, end, set) => write!(f, "{} == ${}", end.ip(*family), set.0),
            Test::Mac(end, mac) => write!(f, "eth.{} == {mac}", end.word()),
            Test::Number(field, relation, value) => {
                write!(f, "{} {} {value}", field.symbol(), relation.symbol())
            }
            Test::Resident(port) => write!(f, "is_chassis_resident({})", Quoted(port)),
        }
    }
}

impl From<Test> for Match {
    fn from(test: Test) -> Self {
        Match::Test(test)
    }
}

impl From<Predicate> for Match {
    fn from(predicate: Predicate) -> Self {
        Match::Is(predicate)
    }
}

/// The context of an expression; decides parentheses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Top,
    All,
    Any,
}

fn joined(
    f: &mut fmt::Formatter<'_>,
    parts: &[Match],
    glue: &str,
    empty: &str,
    level: Level,
    around: Level,
) -> fmt::Result {
    match parts {
        [] => f.write_str(empty),
        [one] => one.write(f, around),
        _ => {
            let open = around != Level::Top && around != level;
            if open {
                f.write_str("(")?;
            }
            for (i, part) in parts.iter().enumerate() {
                if i > 0 {
                    f.write_str(glue)?;
                }
                part.write(f, level)?;
            }
            if open {
                f.write_str(")")?;
            }
            Ok(())
        }
    }
}

fn one_of<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    symbol: &str,
    values: impl ExactSizeIterator<Item = T>,
) -> fmt::Result {
    match values.len() {
        // An empty list of values never matches. OVN has no literal for an empty set.
        0 => f.write_str("0"),
        1 => values.into_iter().try_for_each(|value| write!(f, "{symbol} == {value}")),
        _ => {
            write!(f, "{symbol} == {{")?;
            for (i, value) in values.enumerate() {
                write!(f, "{}{value}", if i > 0 { ", " } else { "" })?;
            }
            f.write_str("}")
        }
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, Level::Top)
    }
}

impl Side {
    fn symbol(self) -> &'static str {
        match self {
            Side::In => "inport",
            Side::Out => "outport",
        }
    }
}

impl End {
    fn word(self) -> &'static str {
        match self {
            End::Src => "src",
            End::Dst => "dst",
        }
    }

    fn ip(self, family: Family) -> &'static str {
        match (family, self) {
            (Family::V4, End::Src) => "ip4.src",
            (Family::V4, End::Dst) => "ip4.dst",
            (Family::V6, End::Src) => "ip6.src",
            (Family::V6, End::Dst) => "ip6.dst",
        }
    }
}

impl Relation {
    fn symbol(self) -> &'static str {
        match self {
            Relation::Eq => "==",
            Relation::Ge => ">=",
            Relation::Le => "<=",
        }
    }
}

impl From<IpAddr> for Family {
    fn from(ip: IpAddr) -> Self {
        if ip.is_ipv4() { Family::V4 } else { Family::V6 }
    }
}

/// A prefix with its host bits cleared (OVN refuses a constant with bits outside its mask), bare at full length.
struct Prefix(IpNet);

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() {
            self.0.addr().fmt(f)
        } else {
            self.0.trunc().fmt(f)
        }
    }
}

#[cfg(test)]
mod tests;
