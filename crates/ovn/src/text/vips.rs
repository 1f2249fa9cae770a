//! Load balancer cells: the keys and values of `Load_Balancer.vips` and `ip_port_mappings`, and a health check's `vip`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::str::FromStr;

use smol_str::SmolStr;

use super::host_addr::clip;

/// An address with an optional port: a VIP (`10.0.0.10:80`, `[fd00::1]:80`, `10.0.0.10`) or one backend.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The address.
    pub ip: IpAddr,
    /// The L4 port; `None` means every port.
    pub port: Option<NonZeroU16>,
}

/// The value of a `vips` entry: backends in order, repeats kept (each is a bucket of its own).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Backends(pub Box<[Endpoint]>);

/// The key of an `ip_port_mappings` entry: a backend's address, IPv6 in brackets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendIp(pub IpAddr);

/// The value of an `ip_port_mappings` entry, `PORT:SOURCE`: the logical port of a backend, and the source address of its probes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortMapping {
    /// The backend's logical switch port.
    pub port: SmolStr,
    /// Source address of the probes.
    pub source: IpAddr,
}

/// The error of a string that is no load balancer cell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VipError {
    /// Neither IPv4, IPv6 nor bracketed IPv6.
    #[error("{0:?} is not an IP address")]
    Address(String),
    /// After the colon there is no port between 1 and 65535.
    #[error("{0:?} is not a port number")]
    Port(String),
    /// An invalid backend in the list.
    #[error("reading backend {position}")]
    Backend {
        /// The position in the list, from 1.
        position: usize,
        /// Why.
        #[source]
        source: Box<VipError>,
    },
    /// A mapping lacks the colon between port name and source address.
    #[error("{0:?} has no \"port:source\"")]
    Mapping(String),
}

impl Endpoint {
    /// An endpoint with a port. Port 0 means none.
    pub fn new(ip: IpAddr, port: u16) -> Self {
        Endpoint { ip, port: NonZeroU16::new(port) }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(addr: SocketAddr) -> Self {
        Endpoint::new(addr.ip(), addr.port())
    }
}

impl FromStr for Endpoint {
    type Err = VipError;

    fn from_str(text: &str) -> Result<Self, VipError> {
        let address = |ip: &str| ip.parse::<IpAddr>().map_err(|_| VipError::Address(clip(ip)));
        if let Some(rest) = text.strip_prefix('[') {
            let (ip, rest) = rest.split_once(']').ok_or_else(|| VipError::Address(clip(text)))?;
            let ip = address(ip)?;
            if !ip.is_ipv6() {
                return Err(VipError::Address(clip(text)));
            }
            return match rest {
                "" => Ok(Endpoint { ip, port: None }),
                rest => Ok(Endpoint { ip, port: Some(port(rest.strip_prefix(':').unwrap_or(""), rest)?) }),
            };
        }
        match text.split_once(':') {
            // More than one colon without brackets: IPv6 without a port.
            Some((_, rest)) if rest.contains(':') => Ok(Endpoint { ip: address(text)?, port: None }),
            Some((ip, rest)) => Ok(Endpoint { ip: address(ip)?, port: Some(port(rest, rest)?) }),
            None => Ok(Endpoint { ip: address(text)?, port: None }),
        }
    }
}

fn port(digits: &str, shown: &str) -> Result<NonZeroU16, VipError> {
    let fail = || VipError::Port(clip(shown));
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(fail());
    }
    digits.parse().map_err(|_| fail())
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.ip, self.port) {
            (ip, None) => ip.fmt(f),
            (IpAddr::V4(ip), Some(port)) => write!(f, "{ip}:{port}"),
            (IpAddr::V6(ip), Some(port)) => write!(f, "[{ip}]:{port}"),
        }
    }
}

impl FromStr for Backends {
    type Err = VipError;

    fn from_str(text: &str) -> Result<Self, VipError> {
        if text.is_empty() {
            return Ok(Backends::default());
        }
        let one = |(i, item): (usize, &str)| {
            let wrap = |e| VipError::Backend { position: i + 1, source: Box::new(e) };
            item.trim_ascii().parse().map_err(wrap)
        };
        text.split(',').enumerate().map(one).collect::<Result<_, _>>().map(Backends)
    }
}

impl fmt::Display for Backends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, backend) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            backend.fmt(f)?;
        }
        Ok(())
    }
}

impl FromStr for BackendIp {
    type Err = VipError;

    fn from_str(text: &str) -> Result<Self, VipError> {
        match text.parse()? {
            Endpoint { ip, port: None } => Ok(BackendIp(ip)),
            _ => Err(VipError::Address(clip(text))),
        }
    }
}

impl fmt::Display for BackendIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(ip) => ip.fmt(f),
            IpAddr::V6(ip) => write!(f, "[{ip}]"),
        }
    }
}

impl FromStr for PortMapping {
    type Err = VipError;

    fn from_str(text: &str) -> Result<Self, VipError> {
        let missing = || VipError::Mapping(clip(text));
        // A port's name may hold colons, so the source is cut from the end; IPv6 has brackets.
        let (port, source) = match text.strip_suffix(']') {
            Some(rest) => rest.rsplit_once(":[").ok_or_else(missing)?,
            None => text.rsplit_once(':').ok_or_else(missing)?,
        };
        let source: IpAddr = source.parse().map_err(|_| VipError::Address(clip(source)))?;
        if source.is_ipv6() != text.ends_with(']') {
            return Err(VipError::Address(clip(text)));
        }
        Ok(PortMapping { port: SmolStr::new(port), source })
    }
}

impl fmt::Display for PortMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            IpAddr::V4(ip) => write!(f, "{}:{ip}", self.port),
            IpAddr::V6(ip) => write!(f, "{}:[{ip}]", self.port),
        }
    }
}

macro_rules! debug_as_text {
    ($($name:ident),+) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.to_string())
            }
        }
    )+};
}

debug_as_text!(BackendIp, Endpoint, Backends, PortMapping);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Text, strategy};
    use proptest::prelude::*;

    #[test]
    fn endpoints() {
        for (text, back) in [
            ("10.0.0.10:80", "10.0.0.10:80"),
            ("10.0.0.10", "10.0.0.10"),
            ("[fd00::1]:80", "[fd00::1]:80"),
            ("fd00::1", "fd00::1"),
            ("[fd00::1]", "fd00::1"),
            ("[FD00::1]:065", "[fd00::1]:65"),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), back, "{text}");
        }
        for text in ["", "^vip:^port", "[10.0.0.1]:80", "[fd00::1", "fd00::1]:80", "10.0.0"] {
            assert!(matches!(text.parse::<Endpoint>(), Err(VipError::Address(_))), "{text}");
        }
        for text in ["10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:+1", "[fd00::1]80", "[fd00::1]:"]
        {
            assert!(matches!(text.parse::<Endpoint>(), Err(VipError::Port(_))), "{text}");
        }
    }

    #[test]
    fn backend_lists() {
        let list: Backends = "10.0.0.107:80,20.0.0.107:80,10.0.0.107:80".parse().unwrap();
        assert_eq!(list.0.len(), 3, "repeats are weights and stay");
        assert_eq!("".parse(), Ok(Backends::default()), "an empty pool");
        assert_eq!(
            "10.0.0.1:80, [fd00::1]:80".parse::<Backends>().unwrap().to_string(),
            "10.0.0.1:80,[fd00::1]:80"
        );
        assert!(matches!("10.0.0.1:80,,".parse::<Backends>(), Err(VipError::Backend { position: 2, .. })));
    }

    #[test]
    fn mappings() {
        for text in ["vm1:10.0.0.2", "a:b:10.0.0.2", "vm1:[fd00::2]", ":10.0.0.2"] {
            assert_eq!(text.parse::<PortMapping>().unwrap().to_string(), text);
        }
        for text in ["", "vm1", "10.0.0.2", "vm1:", "vm1:[10.0.0.2]", "vm1:fd00::2", "vm1:[fd00::2"] {
            assert!(text.parse::<PortMapping>().is_err(), "{text}");
        }
    }

    #[test]
    fn mapping_keys() {
        for (text, back) in [("10.0.0.7", "10.0.0.7"), ("[fd00::7]", "[fd00::7]"), ("fd00::7", "[fd00::7]")] {
            assert_eq!(text.parse::<BackendIp>().unwrap().to_string(), back);
        }
        for text in ["", "10.0.0.7:80", "[fd00::7]:80"] {
            assert!(text.parse::<BackendIp>().is_err(), "{text}");
        }
    }

    fn endpoint() -> impl Strategy<Value = Endpoint> {
        (strategy::ip(), any::<u16>()).prop_map(|(ip, port)| Endpoint::new(ip, port))
    }

    proptest! {
        #[test]
        fn round_trip(list in proptest::collection::vec(endpoint(), 0..5), name in "[ -~]{0,12}", source in strategy::ip()) {
            let list = Backends(list.into());
            prop_assert_eq!(list.to_string().parse::<Backends>().unwrap(), list);
            let mapping = PortMapping { port: name.into(), source };
            prop_assert_eq!(mapping.to_string().parse::<PortMapping>().unwrap(), mapping);
            prop_assert_eq!(BackendIp(source).to_string().parse::<BackendIp>().unwrap().0, source);
        }

        #[test]
        fn no_panic(text in strategy::soup()) {
            prop_assert_eq!(Text::<Endpoint>::new(&text).to_string(), &text[..]);
            prop_assert_eq!(Text::<BackendIp>::new(&text).to_string(), &text[..]);
            prop_assert_eq!(Text::<Backends>::new(&text).to_string(), &text[..]);
            prop_assert_eq!(Text::<PortMapping>::new(&text).to_string(), &text[..]);
        }
    }
}
