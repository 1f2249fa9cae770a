//! `ACL`: one rule of a security group.

use ovn::ident::name;
use ovn::nb::{Acl, AclAction, Direction as OvnDirection, PortGroup};
use ovn::text::match_expr::{Code, End, Family, Field, GroupName, Match, Predicate, Relation, Side, Test};
use ovn::text::neutron::key;
use reconcile::{Class, Problem};
use uuid::Uuid;

use super::look::Look;
use super::port_group::{self, in_group};
use super::{Compiled, map, object, text};
use crate::model::{Direction, Ethertype, SecurityGroupRule};
use crate::resource::security_group_rule;

const PRIORITY: i64 = 1002;

pub(super) fn compile(look: &Look<'_, '_>, id: Uuid, to: &mut Compiled) {
    let Some(rule) = look.rule(id) else { return };
    let Some(group) = look.group(rule.security_group_id) else { return };
    let Some(matches) = matches(rule) else {
        let text =
            format!("names protocol {:?}, which OVN cannot match; the rule allows nothing", rule.protocol);
        let of = object("security_group_rule", id);
        to.problems.push(Problem::error(of, Class::Refused, "unknown-protocol", text));
        return;
    };
    if has_blind_ports(rule) {
        let text = format!(
            "names ports of protocol {:?}, which OVN cannot distinguish; as in Neutron, it allows all of them. Create a rule \
             without ports instead if that is intended, or delete it",
            rule.protocol
        );
        let of = object("security_group_rule", id);
        to.problems.push(Problem::warning(of, Class::Refused, "unmatched-ports", text));
    }
    let acl = Acl {
        priority: PRIORITY,
        direction: match rule.direction {
            Direction::Ingress => OvnDirection::ToLport,
            Direction::Egress => OvnDirection::FromLport,
        },
        matches: text(matches),
        action: if group.stateful { AclAction::AllowRelated } else { AclAction::AllowStateless },
        external_ids: map([(key::SECURITY_GROUP_RULE_ID, text(id))]),
        ..Default::default()
    };
    let (object, row) = (object("security_group_rule", id), look.row(id));
    to.part.own(object.clone(), row, acl);
    to.part.member::<PortGroup>(object, port_group::row(look, group.id), PortGroup::ACLS, row);
}

/// The match of a rule: the port group, the family, the remote side, the protocol and its ports.
fn matches(rule: &SecurityGroupRule) -> Option<Match> {
    let (side, end) = match rule.direction {
        Direction::Ingress => (Side::Out, End::Src),
        Direction::Egress => (Side::In, End::Dst),
    };
    let (family, is_family, v6) = match rule.ethertype {
        Ethertype::IPv4 => (Family::V4, Predicate::Ip4, false),
        Ethertype::IPv6 => (Family::V6, Predicate::Ip6, true),
    };
    let mut all = in_group(side, &name::port_group(rule.security_group_id)).and(Match::Is(is_family));
    if let Some(prefix) = rule.remote_ip_prefix {
        all = all.and(Match::ip(end, prefix.trunc()));
    }
    if let Some(group) = rule.remote_group_id {
        let set = name::port_group_addresses(&name::port_group(group), v6);
        all = all.and(Test::AddressSet(family, end, GroupName::new(&set).ok()?).into());
    }
    match protocol(rule)? {
        Some(protocol) => Some(all.and(protocol)),
        None => Some(all),
    }
}

/// Whether a rule has ports that no match can express. The API refuses such a rule; Neutron accepted it, and an imported one keeps its
/// effect there.
fn has_blind_ports(rule: &SecurityGroupRule) -> bool {
    let number = rule.protocol.as_deref().and_then(security_group_rule::number);
    let v6 = rule.ethertype == Ethertype::IPv6;
    let tells = number.is_none_or(|number| matches!(number, 1 | 6 | 17 | 132) || v6 && number == 58);
    rule.port_range_min.or(rule.port_range_max).is_some() && !tells
}

/// The protocol's part of a match: `Some(None)` for any protocol, `None` for an unknown one.
fn protocol(rule: &SecurityGroupRule) -> Option<Option<Match>> {
    let Some(protocol) = &rule.protocol else { return Some(None) };
    let (low, high) = (rule.port_range_min, rule.port_range_max);
    let v6 = rule.ethertype == Ethertype::IPv6;
    Some(match protocol.to_ascii_lowercase().as_str() {
        "any" => None,
        "tcp" | "6" => Some(ports(Predicate::Tcp, Field::TcpDst, low, high)),
        "udp" | "17" => Some(ports(Predicate::Udp, Field::UdpDst, low, high)),
        "sctp" | "132" => Some(ports(Predicate::Sctp, Field::SctpDst, low, high)),
        "icmp" | "1" | "icmpv6" | "ipv6-icmp" | "58" if v6 => {
            Some(icmp(Predicate::Icmp6, Code::Icmp6Type, Code::Icmp6Code, low, high))
        }
        "icmp" | "1" => Some(icmp(Predicate::Icmp4, Code::Icmp4Type, Code::Icmp4Code, low, high)),
        other => Some(Match::Code(Code::IpProto, security_group_rule::number(other)?.into())),
    })
}

fn ports(kind: Predicate, field: Field, low: Option<u16>, high: Option<u16>) -> Match {
    let is = Match::Is(kind);
    match (low, high) {
        (Some(low), Some(high)) => is.and(Match::range(field, low.into(), high.into())),
        (Some(low), None) => is.and(Test::Number(field, Relation::Ge, low.into()).into()),
        (None, Some(high)) => is.and(Test::Number(field, Relation::Le, high.into()).into()),
        (None, None) => is,
    }
}

/// The range of the rule is the ICMP type and code here.
fn icmp(kind: Predicate, type_: Code, code: Code, low: Option<u16>, high: Option<u16>) -> Match {
    let mut all = Match::Is(kind);
    if let Some(low) = low {
        all = all.and(Match::Code(type_, low.into()));
        if let Some(high) = high {
            all = all.and(Match::Code(code, high.into()));
        }
    }
    all
}
