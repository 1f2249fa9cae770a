//! An IP address that may carry a prefix length.
//!
//! OVN writes hosts as `10.0.0.4`, router ports as `10.0.0.1/24` (with host bits) and port security as either. `IpNet` cannot
//! express a missing prefix, and `10.0.0.4` and `10.0.0.4/32` are different strings.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use ipnet::IpNet;

/// An IPv4 or IPv6 address with an optional prefix length; host bits are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostAddr {
    /// The address itself.
    pub addr: IpAddr,
    /// Bits of the network part, if they were written.
    pub len: Option<u8>,
}

/// A string that is not an address with an optional prefix length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostAddrError {
    /// The part before the slash is neither IPv4 nor IPv6.
    #[error("{0:?} is not an IP address")]
    Address(String),
    /// The part after the slash is not a length that fits, nor an IPv4 netmask without holes.
    #[error("{0:?} is not a prefix length for its address family")]
    Length(String),
}

impl HostAddr {
    /// The address with its prefix; a bare address is a network of one host.
    pub fn to_net(self) -> IpNet {
        let full = if self.addr.is_ipv4() { 32 } else { 128 };
        let len = self.len.unwrap_or(full).min(full);
        match IpNet::new(self.addr, len) {
            Ok(net) => net,
            // `len` is at most the family's width.
            Err(_) => IpNet::from(self.addr),
        }
    }
}

impl From<IpAddr> for HostAddr {
    fn from(addr: IpAddr) -> Self {
        HostAddr { addr, len: None }
    }
}

impl From<IpNet> for HostAddr {
    fn from(net: IpNet) -> Self {
        HostAddr { addr: net.addr(), len: Some(net.prefix_len()) }
    }
}

impl fmt::Display for HostAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len {
            Some(len) => write!(f, "{}/{len}", self.addr),
            None => self.addr.fmt(f),
        }
    }
}

impl fmt::Debug for HostAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for HostAddr {
    type Err = HostAddrError;

    fn from_str(text: &str) -> Result<Self, HostAddrError> {
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) => (addr, Some(len)),
            None => (text, None),
        };
        let addr: IpAddr = addr.parse().map_err(|_| HostAddrError::Address(clip(addr)))?;
        let len = match len {
            None => None,
            Some(text) => Some(prefix_len(addr, text).ok_or_else(|| HostAddrError::Length(clip(text)))?),
        };
        Ok(HostAddr { addr, len })
    }
}

/// A decimal length, or for IPv4 a dotted netmask, which OVN accepts as well.
fn prefix_len(addr: IpAddr, text: &str) -> Option<u8> {
    if addr.is_ipv4()
        && text.contains('.')
        && let Ok(mask) = text.parse::<Ipv4Addr>()
    {
        return ipnet::ipv4_mask_to_prefix(mask).ok();
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let max = if addr.is_ipv4() { 32 } else { 128 };
    text.parse().ok().filter(|&len| len <= max)
}

/// The excerpt of an invalid string for an error message.
pub(crate) fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::strategy;
    use proptest::prelude::*;

    #[test]
    fn forms() {
        for (text, back) in [
            ("10.0.0.4", "10.0.0.4"),
            ("10.0.0.1/24", "10.0.0.1/24"),
            ("10.0.0.1/255.255.255.0", "10.0.0.1/24"),
            ("2001:DB8::1/64", "2001:db8::1/64"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(text.parse::<HostAddr>().unwrap().to_string(), back, "{text}");
        }
        assert_eq!("10.0.0.1/24".parse::<HostAddr>().unwrap().to_net().trunc().to_string(), "10.0.0.0/24");
        assert_eq!("10.0.0.4".parse::<HostAddr>().unwrap().to_net().to_string(), "10.0.0.4/32");
    }

    #[test]
    fn errors_say_which_part() {
        for (text, error) in [
            ("", HostAddrError::Address(String::new())),
            ("10.0.0", HostAddrError::Address("10.0.0".into())),
            ("10.0.0.1/33", HostAddrError::Length("33".into())),
            ("10.0.0.1/", HostAddrError::Length(String::new())),
            ("10.0.0.1/+8", HostAddrError::Length("+8".into())),
            ("10.0.0.1/255.0.255.0", HostAddrError::Length("255.0.255.0".into())),
            ("fe80::1/129", HostAddrError::Length("129".into())),
            ("fe80::1%eth0", HostAddrError::Address("fe80::1%eth0".into())),
        ] {
            assert_eq!(text.parse::<HostAddr>(), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(addr in strategy::host_addr()) {
            prop_assert_eq!(addr.to_string().parse::<HostAddr>().unwrap(), addr);
            let _ = addr.to_net();
        }

        #[test]
        fn no_panic(text in strategy::soup()) {
            let _ = text.parse::<HostAddr>();
        }
    }
}
