//! Values of options, and the only code that writes them into a logical flow.

use std::fmt;
use std::net::IpAddr;

use super::list::{AddressList, StaticRoutes, split};
use super::{DhcpError, DhcpKind};
use crate::mac::MacAddr;
use crate::text::domain_name::DomainName;
use crate::text::host_addr::clip;
use crate::text::quoted::{Quoted, QuotedError, QuotedString};

/// A value. [`Display`](fmt::Display) writes it for the lexer of logical flows: one constant, or one set of constants in
/// braces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DhcpValue {
    /// `true` or `false`.
    Flag(bool),
    /// `1` or `0`.
    Bool(bool),
    /// A number.
    Number(u32),
    /// One address without braces.
    Address(IpAddr),
    /// Addresses in braces.
    Addresses(AddressList),
    /// Routes in braces.
    Routes(StaticRoutes),
    /// A string in quotes.
    Text(QuotedString),
    /// Names in one pair of quotes, with commas between them.
    Domains(Vec<DomainName>),
    /// An Ethernet address.
    Mac(MacAddr),
}

impl DhcpValue {
    /// Parses a value in the form that users and API clients write. Quotes around strings and braces around lists are optional.
    pub(super) fn parse(kind: DhcpKind, text: &str) -> Result<DhcpValue, DhcpError> {
        let trimmed = text.trim_ascii();
        Ok(match kind {
            DhcpKind::Flag => DhcpValue::Flag(boolean(trimmed)?),
            DhcpKind::Bool => DhcpValue::Bool(boolean(trimmed)?),
            DhcpKind::Uint8 => DhcpValue::Number(number(trimmed, u8::MAX.into())?),
            DhcpKind::Uint16 => DhcpValue::Number(number(trimmed, u16::MAX.into())?),
            DhcpKind::Uint32 => DhcpValue::Number(number(trimmed, u32::MAX)?),
            DhcpKind::Ipv4 => DhcpValue::Address(address(trimmed, IpAddr::is_ipv4)?),
            DhcpKind::Ipv6 => DhcpValue::Address(address(trimmed, IpAddr::is_ipv6)?),
            DhcpKind::Ipv4List => addresses(trimmed, IpAddr::is_ipv4)?,
            DhcpKind::Ipv6List => addresses(trimmed, IpAddr::is_ipv6)?,
            DhcpKind::StaticRoutes => {
                let routes: StaticRoutes = match trimmed.contains(['{', '}']) {
                    true => trimmed.parse()?,
                    false => format!("{{{trimmed}}}").parse()?,
                };
                if routes.0.is_empty() {
                    return Err(DhcpError::Empty);
                }
                DhcpValue::Routes(routes)
            }
            DhcpKind::Str => DhcpValue::Text(string(text)?),
            DhcpKind::Domains => {
                let list = string(trimmed)?;
                let names = split(list.as_str()).map(str::parse).collect::<Result<Vec<DomainName>, _>>()?;
                if names.is_empty() {
                    return Err(DhcpError::Empty);
                }
                DhcpValue::Domains(names)
            }
            DhcpKind::Mac => DhcpValue::Mac(trimmed.parse().map_err(|_| DhcpError::Mac(clip(trimmed)))?),
        })
    }

    /// Whether the value is of a type.
    pub(super) fn is(&self, kind: DhcpKind) -> bool {
        let all =
            |list: &AddressList, family: fn(&IpAddr) -> bool| !list.0.is_empty() && list.0.iter().all(family);
        match (self, kind) {
            (DhcpValue::Flag(_), DhcpKind::Flag)
            | (DhcpValue::Bool(_), DhcpKind::Bool)
            | (DhcpValue::Text(_), DhcpKind::Str)
            | (DhcpValue::Mac(_), DhcpKind::Mac) => true,
            (DhcpValue::Number(number), DhcpKind::Uint8) => *number <= u8::MAX.into(),
            (DhcpValue::Number(number), DhcpKind::Uint16) => *number <= u16::MAX.into(),
            (DhcpValue::Number(_), DhcpKind::Uint32) => true,
            (DhcpValue::Address(ip), DhcpKind::Ipv4 | DhcpKind::Ipv4List) => ip.is_ipv4(),
            (DhcpValue::Address(ip), DhcpKind::Ipv6 | DhcpKind::Ipv6List) => ip.is_ipv6(),
            (DhcpValue::Addresses(list), DhcpKind::Ipv4List) => all(list, IpAddr::is_ipv4),
            (DhcpValue::Addresses(list), DhcpKind::Ipv6List) => all(list, IpAddr::is_ipv6),
            (DhcpValue::Routes(routes), DhcpKind::StaticRoutes) => !routes.0.is_empty(),
            (DhcpValue::Domains(names), DhcpKind::Domains) => !names.is_empty(),
            _ => false,
        }
    }

    /// The maximum number of bytes in a packet.
    pub(super) fn encoded_len(&self) -> usize {
        let bytes = |ip: &IpAddr| if ip.is_ipv4() { 4 } else { 16 };
        match self {
            DhcpValue::Flag(_) => 0,
            DhcpValue::Bool(_) => 1,
            DhcpValue::Number(_) => 4,
            DhcpValue::Address(ip) => bytes(ip),
            DhcpValue::Addresses(list) => list.0.iter().map(bytes).sum(),
            // The length of the prefix, as many bytes of it as are not zero, and the next hop.
            DhcpValue::Routes(routes) => {
                routes.0.iter().map(|(dest, _)| 5 + usize::from(dest.prefix_len().div_ceil(8))).sum()
            }
            DhcpValue::Text(text) => text.as_str().len(),
            DhcpValue::Domains(names) => names.iter().map(DomainName::encoded_len).sum(),
            DhcpValue::Mac(_) => 6,
        }
    }
}

impl fmt::Display for DhcpValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DhcpValue::Flag(flag) => flag.fmt(f),
            DhcpValue::Bool(bit) => u8::from(*bit).fmt(f),
            DhcpValue::Number(number) => number.fmt(f),
            DhcpValue::Address(ip) => ip.fmt(f),
            DhcpValue::Addresses(list) => list.fmt(f),
            DhcpValue::Routes(routes) => routes.fmt(f),
            DhcpValue::Text(text) => text.fmt(f),
            DhcpValue::Domains(names) => {
                let names: Vec<&str> = names.iter().map(DomainName::as_str).collect();
                Quoted(&names.join(",")).fmt(f)
            }
            DhcpValue::Mac(mac) => mac.fmt(f),
        }
    }
}

fn boolean(text: &str) -> Result<bool, DhcpError> {
    match text {
        "1" => Ok(true),
        "0" => Ok(false),
        text if text.eq_ignore_ascii_case("true") => Ok(true),
        text if text.eq_ignore_ascii_case("false") => Ok(false),
        text => Err(DhcpError::Bool(clip(text))),
    }
}

fn number(text: &str, most: u32) -> Result<u32, DhcpError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| digits && *number <= most);
    number.ok_or_else(|| DhcpError::Number(clip(text), most))
}

fn address(text: &str, family: fn(&IpAddr) -> bool) -> Result<IpAddr, DhcpError> {
    text.parse().ok().filter(family).ok_or_else(|| DhcpError::Address(clip(text)))
}

/// A single address without braces stays so.
fn addresses(text: &str, family: fn(&IpAddr) -> bool) -> Result<DhcpValue, DhcpError> {
    let braced = text.contains(['{', '}']);
    let list: AddressList = match braced {
        true => text.parse()?,
        false => format!("{{{text}}}").parse()?,
    };
    match list.0.as_slice() {
        [] => Err(DhcpError::Empty),
        all if !all.iter().all(family) => Err(DhcpError::Address(clip(text))),
        [one] if !braced => Ok(DhcpValue::Address(*one)),
        _ => Ok(DhcpValue::Addresses(list)),
    }
}

/// A value that begins with a quote is one string in quotes; any other is taken as it is.
fn string(text: &str) -> Result<QuotedString, QuotedError> {
    match text.trim_ascii() {
        quoted if quoted.starts_with('"') => quoted.parse(),
        _ => QuotedString::new(text),
    }
}

#[cfg(test)]
mod tests;
