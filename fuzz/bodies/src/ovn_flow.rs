//! Bodies for the strings that ovn-northd pastes into logical flows.

use ovn::text::DomainName;
use ovn::text::chassis::{ChassisName, RequestedChassis};
use ovn::text::dhcp::{DhcpKind, DhcpOption, DhcpVersion};
use ovn::text::match_expr::{Match, Side};
use ovn::text::quoted::QuotedString;

use crate::flow_lexer::{Token, tokens};

/// Any string as the value of each DHCP option, as a string constant, as the name of a port, as a domain and as a host. If it is accepted,
/// it is written as one constant of the right kind, and parses to the same value.
pub fn flow_text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for version in [DhcpVersion::V4, DhcpVersion::V6] {
        for option in DhcpOption::all(version) {
            let Ok(value) = option.parse(&text) else { continue };
            let written = value.to_string();
            is_constant(option.kind(), &written);
            assert_eq!(
                option.parse(&written).as_ref(),
                Ok(&value),
                "{}: {text:?} -> {written:?}",
                option.name()
            );
        }
    }
    if let Ok(quoted) = QuotedString::new(&text) {
        let written = quoted.to_string();
        is_string(&written, &text);
        assert_eq!(written.parse(), Ok(quoted));
    }
    if !text.contains('\0') {
        let written = Match::port(Side::In, &text).to_string();
        is_string(written.strip_prefix("inport == ").unwrap_or(&written), &text);
    }
    if let Ok(name) = text.parse::<DomainName>() {
        let word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        assert!(name.as_str().chars().all(word) && name.as_str().len() <= 253, "{name:?}");
        assert_eq!(name.to_string().parse(), Ok(name));
    }
    if let Ok(name) = ChassisName::new(&text) {
        let list = RequestedChassis(vec![name.clone(), name]).to_string();
        assert_eq!(list.split(',').collect::<Vec<_>>(), [&*text, &*text], "a list of two has two");
    }
}

/// Asserts that the output is one string with exactly this content, and contains nothing that the expansion of templates would change.
fn is_string(written: &str, content: &str) {
    assert_eq!(tokens(written), Ok(vec![Token::String(content.to_owned())]), "{written:?}");
    assert!(!written.contains('^') && !written.chars().any(|c| c.is_ascii_control()), "{written:?}");
}

/// Asserts that the output is one constant, or one set of constants in braces.
fn is_constant(kind: DhcpKind, written: &str) {
    let found = tokens(written).unwrap_or_else(|error| panic!("{written:?}: {error}"));
    let fits = match (kind, found.as_slice()) {
        (DhcpKind::Flag, [Token::Id(word)]) => word == "true" || word == "false",
        (DhcpKind::Str | DhcpKind::Domains, [Token::String(content)]) => {
            is_string(written, content);
            true
        }
        (
            DhcpKind::Bool | DhcpKind::Uint8 | DhcpKind::Uint16 | DhcpKind::Uint32,
            [Token::Integer(number)],
        ) => number.bytes().all(|byte| byte.is_ascii_digit()),
        (DhcpKind::Ipv4 | DhcpKind::Ipv4List, [Token::Integer(ip)]) => ip.contains('.'),
        (DhcpKind::Ipv6 | DhcpKind::Ipv6List | DhcpKind::Mac, [Token::Integer(text)]) => text.contains(':'),
        (
            DhcpKind::Ipv4List | DhcpKind::Ipv6List | DhcpKind::StaticRoutes,
            [Token::Mark('{'), list @ .., Token::Mark('}')],
        ) => is_list(list) && (kind != DhcpKind::StaticRoutes || list.len().div_ceil(2) % 2 == 0),
        _ => false,
    };
    assert!(fits, "{kind:?} is written {written:?}");
}

/// Constants with commas between them.
fn is_list(tokens: &[Token]) -> bool {
    let element = |(at, token): (usize, &Token)| match at % 2 {
        0 => matches!(token, Token::Integer(_)),
        _ => *token == Token::Mark(','),
    };
    tokens.len() % 2 == 1 && tokens.iter().enumerate().all(element)
}
