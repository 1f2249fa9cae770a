//! Bodies for OVN's small languages.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use ipnet::IpNet;
use ovn::text::bridge_mappings::BridgeMappings;
use ovn::text::chassis::CmsOptions;
use ovn::text::match_expr::{Bit, End, Family, Field, GroupName, Match, Predicate, Relation, Side, Test};
use ovn::text::{
    BackendIp, Backends, Endpoint, HostAddr, NatAddresses, Nexthop, PortAddresses, PortMapping, PortSecurity,
};
use ovn::text::{Text, dhcp, neutron, octavia, quoted};

/// Asserts that a parsed value prints, and that the output parses to the same value. A cell keeps any string exactly.
fn reads_back<T>(text: &str)
where
    T: FromStr + Display + PartialEq + Debug + Clone,
{
    assert_eq!(Text::<T>::new(text).to_string(), text);
    if let Ok(value) = text.parse::<T>() {
        let printed = value.to_string();
        assert!(
            printed.parse::<T>().is_ok_and(|again| again == value),
            "{text:?} -> {value:?} -> {printed:?}"
        );
    }
}

fn text(data: &[u8]) -> &str {
    std::str::from_utf8(data).unwrap_or_default()
}

/// `addresses`, `port_security` and their parts.
pub fn addresses(data: &[u8]) {
    let text = text(data);
    reads_back::<PortAddresses>(text);
    reads_back::<PortSecurity>(text);
    reads_back::<HostAddr>(text);
    reads_back::<ovn::MacAddr>(text);
    reads_back::<Nexthop>(text);
}

/// `nat_addresses`.
pub fn nat_addresses(data: &[u8]) {
    reads_back::<NatAddresses>(text(data));
}

/// Load balancer VIPs, backends and health checks' port mappings.
pub fn vips(data: &[u8]) {
    let text = text(data);
    reads_back::<Endpoint>(text);
    reads_back::<Backends>(text);
    reads_back::<BackendIp>(text);
    reads_back::<PortMapping>(text);
}

/// `ovn-bridge-mappings` and `ovn-cms-options`: lists whose invalid items never affect the valid ones.
pub fn bridge_mappings(data: &[u8]) {
    let text = text(data);
    let list = BridgeMappings::read(text);
    let again = BridgeMappings::read(&list.to_string());
    assert_eq!(again.entries, list.entries);
    assert!(again.problems.is_empty(), "{:?}", again.problems);
    let options = CmsOptions::read(text);
    assert_eq!(CmsOptions::read(&options.to_string()), options);
}

/// The values that Neutron, its DHCP and Octavia write to options and external_ids.
pub fn neutron_text(data: &[u8]) {
    let text = text(data);
    reads_back::<dhcp::StaticRoutes>(text);
    reads_back::<dhcp::AddressList>(text);
    reads_back::<quoted::QuotedString>(text);
    reads_back::<octavia::ObjectKey>(text);
    reads_back::<octavia::ListenerValue>(text);
    reads_back::<octavia::Members>(text);
    reads_back::<octavia::LsRefs>(text);
    let _ = neutron::cidrs(text).count();
    let _ = neutron::boolean(text);
}

/// Match expressions, which are built and not parsed. The bytes choose the tree, and its output must be well-formed for OVN's lexer:
/// strings closed, parentheses balanced, `&&` and `||` never side by side.
pub fn match_expr(data: &[u8]) {
    let mut bytes = data.iter().copied();
    let expression = build(&mut bytes, 0);
    well_formed(&expression.to_string());
}

/// Deep enough to nest every operator in every other.
const DEPTH: u32 = 8;

fn build(bytes: &mut impl Iterator<Item = u8>, depth: u32) -> Match {
    let mut byte = || bytes.next().unwrap_or(0);
    let kind = byte();
    let (side, end, family) = match byte() % 4 {
        0 => (Side::In, End::Src, Family::V4),
        1 => (Side::Out, End::Dst, Family::V4),
        2 => (Side::In, End::Dst, Family::V6),
        _ => (Side::Out, End::Src, Family::V6),
    };
    let count = byte() % 4;
    match kind % if depth < DEPTH { 12 } else { 8 } {
        0 => Match::Is([Predicate::Ip4, Predicate::Tcp, Predicate::Udp, Predicate::Nd][usize::from(count)]),
        1 => Match::Port(side, (0..count).map(|_| name(bytes).into()).collect()),
        2 => GroupName::new(&name(bytes))
            .map_or(Match::Is(Predicate::Ip), |group| Match::PortGroup(side, group)),
        3 => GroupName::new(&name(bytes))
            .map_or(Match::Is(Predicate::Ip), |set| Test::AddressSet(family, end, set).into()),
        4 => Test::Ip(end, (0..count).filter_map(|_| net(bytes)).collect()).into(),
        5 => Test::Resident(name(bytes).into()).into(),
        6 => {
            let mut number = || u64::from(bytes.next().unwrap_or(0)) << 8 | 7;
            let (low, high) = (number(), number());
            Match::range(Field::TcpDst, low, high)
        }
        7 => Test::Number(
            Field::PktMark,
            [Relation::Eq, Relation::Ge, Relation::Le][usize::from(count % 3)],
            6,
        )
        .into(),
        8 if count % 2 == 0 => Match::Not(Test::Bit(Bit::CtReply)),
        8 => Match::Not(Test::Ip(end, (0..count).filter_map(|_| net(bytes)).collect())),
        9 => Match::All((0..count).map(|_| build(bytes, depth + 1)).collect()),
        10 => Match::Any((0..count).map(|_| build(bytes, depth + 1)).collect()),
        _ if count % 2 == 0 => build(bytes, depth + 1).and(build(bytes, depth + 1)),
        _ => build(bytes, depth + 1).or(build(bytes, depth + 1)),
    }
}

fn name(bytes: &mut impl Iterator<Item = u8>) -> String {
    let length = usize::from(bytes.next().unwrap_or(0) % 8);
    String::from_utf8_lossy(&bytes.take(length).collect::<Vec<_>>()).into_owned()
}

fn net(bytes: &mut impl Iterator<Item = u8>) -> Option<IpNet> {
    let v6 = bytes.next()? % 2 == 1;
    let raw: Vec<u8> = bytes.take(if v6 { 16 } else { 4 }).collect();
    let addr: std::net::IpAddr = match raw.len() {
        16 => <[u8; 16]>::try_from(raw).ok()?.into(),
        4 => <[u8; 4]>::try_from(raw).ok()?.into(),
        _ => return None,
    };
    IpNet::new(addr, bytes.next()? % 33).ok()
}

fn well_formed(text: &str) {
    let mut operators = vec![None];
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '"' => loop {
                match characters.next().unwrap_or_else(|| panic!("an open string in {text:?}")) {
                    '\\' => drop(characters.next()),
                    '"' => break,
                    // OVN parses strings like JSON: only characters below the blank must be escaped.
                    c => assert!(c >= ' ', "a control character in a string of {text:?}"),
                }
            },
            '(' => operators.push(None),
            ')' => {
                operators.pop();
                assert!(!operators.is_empty(), "a parenthesis too many in {text:?}");
            }
            '&' | '|' => {
                assert_eq!(characters.next(), Some(c), "{text:?}");
                let level = operators.last_mut().expect("balanced so far");
                assert_eq!(*level.get_or_insert(c), c, "operators mixed in {text:?}");
            }
            _ => {}
        }
    }
    assert_eq!(operators.len(), 1, "an open parenthesis in {text:?}");
}
