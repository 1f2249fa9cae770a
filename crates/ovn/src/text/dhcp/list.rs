//! Lists in braces: addresses, and routes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use ipnet::Ipv4Net;

use super::DhcpError;
use crate::text::host_addr::clip;

/// `classless_static_route`: `{DEST/LEN,NEXTHOP, DEST/LEN,NEXTHOP}` (RFC 3442). Bits outside of a prefix are not written.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StaticRoutes(pub Vec<(Ipv4Net, Ipv4Addr)>);

/// `dns_server` and its kind: `{10.0.0.2, 10.0.0.3}`; one address may be read without braces.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressList(pub Vec<IpAddr>);

/// The elements of a list. The lexer accepts commas and blanks alike, and a comma before the closing brace.
pub(super) fn split(inner: &str) -> impl Iterator<Item = &str> {
    inner.split([',', ' ', '\t']).filter(|item| !item.is_empty())
}

fn elements(text: &str) -> Result<Vec<&str>, DhcpError> {
    let inner = text
        .trim_ascii()
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
        .ok_or_else(|| DhcpError::Braces(clip(text)))?;
    Ok(split(inner).collect())
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
                true => dest.parse::<Ipv4Net>().map_err(|_| bad(dest))?.trunc(),
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
            write!(f, "{}{},{hop}", if i > 0 { ", " } else { "" }, dest.trunc())?;
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
        let stray: StaticRoutes = "{10.9.8.7/8,10.0.0.1}".parse().unwrap();
        assert_eq!(stray.to_string(), "{10.0.0.0/8,10.0.0.1}");
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
    }

    #[test]
    fn lists_of_addresses() {
        let list: AddressList = "{10.0.0.2, 10.0.0.3}".parse().unwrap();
        assert_eq!(list.to_string(), "{10.0.0.2, 10.0.0.3}");
        assert_eq!("10.0.0.2".parse::<AddressList>().unwrap().to_string(), "{10.0.0.2}");
    }

    proptest! {
        #[test]
        fn round_trip(
            routes in proptest::collection::vec((any::<[u8; 4]>(), 0u8..=32, any::<[u8; 4]>()), 0..4),
            ips in proptest::collection::vec(strategy::ip(), 0..4),
        ) {
            let pair = |(dest, len, hop): ([u8; 4], u8, [u8; 4])| (Ipv4Net::new(dest.into(), len).unwrap().trunc(), hop.into());
            let routes = StaticRoutes(routes.into_iter().map(pair).collect());
            prop_assert_eq!(routes.to_string().parse::<StaticRoutes>().unwrap(), routes);
            let list = AddressList(ips);
            prop_assert_eq!(list.to_string().parse::<AddressList>().unwrap(), list);
        }

        #[test]
        fn no_panic(text in strategy::soup()) {
            for text in [text.clone(), format!("{{{text}}}")] {
                let _ = text.parse::<StaticRoutes>();
                let _ = text.parse::<AddressList>();
            }
        }
    }
}
