//! Protocols of security group rules: names, numbers, and the meaning of the port range for each.

use crate::fault::Fault;
use crate::model::{Ethertype, SecurityGroupRule};

/// The name for all protocols; stored as no protocol.
pub(super) const ANY: &str = "any";

/// The names that the API knows. A rule keeps its spelling.
const NAMES: [(&str, u8); 26] = [
    ("ah", 51),
    ("dccp", 33),
    ("egp", 8),
    ("esp", 50),
    ("gre", 47),
    ("hopopt", 0),
    ("icmp", ICMP),
    ("icmpv6", ICMPV6),
    ("igmp", 2),
    ("ip", 0),
    ("ipip", 4),
    ("ipv6-encap", 41),
    ("ipv6-frag", 44),
    ("ipv6-icmp", ICMPV6),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("ipv6-route", 43),
    ("ospf", 89),
    ("pgm", 113),
    ("rsvp", 46),
    ("sctp", 132),
    ("tcp", 6),
    ("udp", 17),
    ("udplite", 136),
    ("vrrp", 112),
    ("l2tp", 115),
];

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// The protocols whose rules may have ports: SCTP, TCP, UDP. OVN cannot match the ports of DCCP and UDP-Lite.
const WITH_PORTS: [u8; 3] = [132, 6, 17];
const WITH_PORTS_NAMES: &str = "sctp, tcp, udp";

/// Parses a protocol: a known name in any case, or a number of one byte.
pub(super) fn parse(text: &str) -> Result<String, String> {
    let text = text.to_ascii_lowercase();
    if text == ANY || NAMES.iter().any(|(name, _)| *name == text) {
        return Ok(text);
    }
    match text.parse::<u8>() {
        Ok(number) => Ok(number.to_string()),
        Err(_) => Err(format!("'{text}' is neither a known protocol name nor a number from 0 to 255")),
    }
}

/// Parses a port, or an ICMP type or code.
pub(super) fn parse_port(text: &str) -> Result<String, String> {
    let port: Result<u16, _> = text.parse();
    port.map(|port| port.to_string()).map_err(|_| format!("Invalid value for port {text}"))
}

/// All names of protocols.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, _)| *name)
}

/// The number of a stored protocol.
pub fn number(protocol: &str) -> Option<u8> {
    let named = NAMES.iter().find(|(name, _)| *name == protocol).map(|(_, number)| *number);
    named.or_else(|| protocol.parse().ok())
}

/// The number of a stored protocol, where `icmp` in an IPv6 rule means ICMPv6.
pub(super) fn number_for(protocol: &str, ethertype: Ethertype) -> u8 {
    match (protocol, number(protocol)) {
        ("icmp", _) if ethertype == Ethertype::IPv6 => ICMPV6,
        (_, number) => number.unwrap_or_default(),
    }
}

/// Whether rules for a protocol have ports.
pub(super) fn has_ports(number: u8) -> bool {
    WITH_PORTS.contains(&number)
}

/// Whether a protocol exists only in IPv6, by its name or by its number.
pub(super) fn is_ipv6_only(protocol: &str) -> bool {
    const IPV6_ONLY: [u8; 6] = [41, 43, 44, ICMPV6, 59, 60];
    number(protocol).is_some_and(|number| IPV6_ONLY.contains(&number))
}

/// Checks a rule's range: ports, or the ICMP type and code.
pub(super) fn check_ports(rule: &SecurityGroupRule) -> Result<(), Fault> {
    let (min, max) = (rule.port_range_min, rule.port_range_max);
    if min.is_none() && max.is_none() {
        return Ok(());
    }
    let fault = |kind, message: String| Err(Fault::new(400, kind, message));
    let Some(protocol) = rule.protocol.as_deref() else {
        let message = "Must also specify protocol if port range is given.";
        return fault("SecurityGroupProtocolRequiredWithPorts", message.into());
    };
    match number(protocol) {
        // In an IPv4 rule, the number of ICMPv6 is a protocol like any other, without types.
        Some(number) if number == ICMP || (number == ICMPV6 && rule.ethertype == Ethertype::IPv6) => {
            for (value, name, field) in [(min, "port_range_min", "type"), (max, "port_range_max", "code")] {
                if let Some(value) = value.filter(|value| *value > 255) {
                    let message =
                        format!("Invalid value for ICMP {field} ({name}) {value}. It must be 0 to 255.");
                    return fault("SecurityGroupInvalidIcmpValue", message);
                }
            }
            match (min, max) {
                (None, Some(code)) => fault(
                    "SecurityGroupMissingIcmpType",
                    format!(
                        "ICMP code (port-range-max) {code} is provided but ICMP type (port-range-min) is missing."
                    ),
                ),
                _ => Ok(()),
            }
        }
        Some(number) if has_ports(number) => match (min, max) {
            (Some(0), _) | (_, Some(0)) => {
                fault("SecurityGroupInvalidPortValue", "Invalid value for port 0".into())
            }
            (Some(min), Some(max)) if min <= max => Ok(()),
            _ => fault(
                "SecurityGroupInvalidPortRange",
                "For TCP/UDP protocols, port_range_min must be <= port_range_max".into(),
            ),
        },
        _ => fault(
            "SecurityGroupInvalidProtocolForPort",
            format!("Invalid protocol {protocol} for port range, only supported for {WITH_PORTS_NAMES}."),
        ),
    }
}
