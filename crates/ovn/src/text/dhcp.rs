//! Values of `DHCP_Options.options`.
//!
//! northd pastes them into `put_dhcp_opts(...)`, so they follow the lexer of logical flows: addresses bare, lists in
//! braces, strings in double quotes with JSON's escapes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use ipnet::Ipv4Net;

use super::host_addr::clip;
use super::match_expr::Quoted;

/// `classless_static_route`: `{DEST/LEN,NEXTHOP, DEST/LEN,NEXTHOP}` (RFC 3442).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StaticRoutes(pub Vec<(Ipv4Net, Ipv4Addr)>);

/// `dns_server` and its kind: `{10.0.0.2, 10.0.0.3}`; one address may be read without braces.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressList(pub Vec<IpAddr>);

/// `domain_name` and its kind: a quoted string.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotedText(pub String);

/// Text that is no such value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DhcpError {
    /// An opening brace without a closing one, or none where a list must be.
    #[error("{0:?} is not a list in braces")]
    Braces(String),
    /// An element is neither an address nor a prefix, as its place demands.
    #[error("{0:?} is not an address of the kind that belongs here")]
    Address(String),
    /// Destinations and next hops do not pair up.
    #[error("the list has {0} elements, an odd number")]
    Odd(usize),
    /// Not one string in double quotes.
    #[error("{0:?} is not one string in double quotes")]
    Quotes(String),
}

fn elements(text: &str) -> Result<Vec<&str>, DhcpError> {
    let inner = text
        .trim_ascii()
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
        .ok_or_else(|| DhcpError::Braces(clip(text)))?;
    // The lexer takes commas and blanks alike, and a comma before the closing brace.
    Ok(inner.split([',', ' ', '\t']).filter(|item| !item.is_empty()).collect())
}

impl FromStr for StaticRoutes {
    type Err = DhcpError;

    fn from_str(text: &str) -> Result<Self, DhcpError> {
        let items = elements(text)?;
        if items.len() % 2 != 0 {
            return Err(DhcpError::Odd(items.len()));
        }
        let bad = |item: &str| DhcpError::Address(clip(item));
        let pair = |pair: &[&str]| {
            let [dest, hop] = pair else { return Err(DhcpError::Odd(pair.len())) };
            let net = match dest.contains('/') {
                true => dest.parse().map_err(|_| bad(dest))?,
                false => Ipv4Net::from(dest.parse::<Ipv4Addr>().map_err(|_| bad(dest))?),
            };
            Ok((net, hop.parse().map_err(|_| bad(hop))?))
        };
        items.chunks(2).map(pair).collect::<Result<_, _>>().map(StaticRoutes)
    }
}

impl fmt::Display for StaticRoutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, (dest, hop)) in self.0.iter().enumerate() {
            write!(f, "{}{dest},{hop}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("}")
    }
}

impl FromStr for AddressList {
    type Err = DhcpError;

    fn from_str(text: &str) -> Result<Self, DhcpError> {
        let parse = |item: &str| item.parse().map_err(|_| DhcpError::Address(clip(item)));
        match elements(text) {
            Ok(items) => items.into_iter().map(parse).collect::<Result<_, _>>().map(AddressList),
            Err(_) if !text.contains(['{', '}']) => Ok(AddressList(vec![parse(text.trim_ascii())?])),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for AddressList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, ip) in self.0.iter().enumerate() {
            write!(f, "{}{ip}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("}")
    }
}

impl FromStr for QuotedText {
    type Err = DhcpError;

    fn from_str(text: &str) -> Result<Self, DhcpError> {
        serde_json::from_str(text).map(QuotedText).map_err(|_| DhcpError::Quotes(clip(text)))
    }
}

impl fmt::Display for QuotedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Quoted(&self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::strategy;
    use proptest::prelude::*;

    #[test]
    fn metadata_routes() {
        let text = "{169.254.169.254/32,10.0.1.2, 0.0.0.0/0,10.0.1.1}";
        let routes: StaticRoutes = text.parse().unwrap();
        assert_eq!(routes.0.len(), 2);
        assert_eq!(routes.to_string(), text);
        let loose: StaticRoutes = " {169.254.169.254, 10.0.1.2, 0.0.0.0/0 10.0.1.1,}".parse().unwrap();
        assert_eq!(loose, routes);
        assert_eq!("{}".parse(), Ok(StaticRoutes::default()));
    }

    #[test]
    fn errors() {
        let routes = |text: &str| text.parse::<StaticRoutes>().unwrap_err();
        assert_eq!(routes("{10.0.0.0/8}"), DhcpError::Odd(1));
        assert_eq!(routes("10.0.0.0/8,10.0.0.1"), DhcpError::Braces("10.0.0.0/8,10.0.0.1".into()));
        assert_eq!(routes("{10.0.0.0/8,x}"), DhcpError::Address("x".into()));
        assert_eq!(routes("{fd00::/8,10.0.0.1}"), DhcpError::Address("fd00::/8".into()));
        assert_eq!("{10.0.0.1".parse::<AddressList>(), Err(DhcpError::Braces("{10.0.0.1".into())));
        assert_eq!("x".parse::<AddressList>(), Err(DhcpError::Address("x".into())));
        for text in ["example.org", "\"a", "\"a\" b", "{\"a\"}", ""] {
            assert!(matches!(text.parse::<QuotedText>(), Err(DhcpError::Quotes(_))), "{text}");
        }
    }

    #[test]
    fn lists_and_strings() {
        let list: AddressList = "{10.0.0.2, 10.0.0.3}".parse().unwrap();
        assert_eq!(list.to_string(), "{10.0.0.2, 10.0.0.3}");
        assert_eq!("10.0.0.2".parse::<AddressList>().unwrap().to_string(), "{10.0.0.2}");
        assert_eq!(QuotedText("exa\"mple.org".into()).to_string(), "\"exa\\\"mple.org\"");
    }

    proptest! {
        #[test]
        fn round_trip(
            routes in proptest::collection::vec((any::<[u8; 4]>(), 0u8..=32, any::<[u8; 4]>()), 0..4),
            ips in proptest::collection::vec(strategy::ip(), 0..4),
            text in ".{0,12}",
        ) {
            let pair = |(dest, len, hop): ([u8; 4], u8, [u8; 4])| (Ipv4Net::new(dest.into(), len).unwrap(), hop.into());
            let routes = StaticRoutes(routes.into_iter().map(pair).collect());
            prop_assert_eq!(routes.to_string().parse::<StaticRoutes>().unwrap(), routes);
            let list = AddressList(ips);
            prop_assert_eq!(list.to_string().parse::<AddressList>().unwrap(), list);
            let quoted = QuotedText(text);
            prop_assert_eq!(quoted.to_string().parse::<QuotedText>().unwrap(), quoted);
        }

        #[test]
        fn no_panic(text in strategy::soup()) {
            for text in [text.clone(), format!("{{{text}}}"), format!("\"{text}\"")] {
                let _ = text.parse::<StaticRoutes>();
                let _ = text.parse::<AddressList>();
                let _ = text.parse::<QuotedText>();
            }
        }
    }
}
